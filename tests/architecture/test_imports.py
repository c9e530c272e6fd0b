"""Who may import whom: the contracts of pyproject.toml, and what a core may import at all.

A contract lists what is forbidden, so whatever nobody thought of is allowed. For the cores that is not
enough: their modules may import what stands on a list, and nothing else.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from tests.architecture import ROOT, SERVICES, core_modules

PURE = frozenset({
    "__future__", "abc", "bisect", "collections", "dataclasses", "decimal", "enum", "fractions", "functools",
    "hashlib",
    "heapq", "hmac", "itertools", "json", "math", "operator", "re", "types", "typing",
})  # fmt: skip


# ------------------------------------------------------------------------------------------ the contracts


def lint_imports(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter as `make imports` does, on the packages and the pyproject.toml of a checkout."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    plain = {"NO_COLOR": "1", "COLUMNS": "200", "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--no-logo"],
        cwd=checkout,
        env={**os.environ, **plain},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_contracts_hold():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory) -> Path:
    """A checkout with our contracts and the smallest packages that they speak of."""
    checkout = tmp_path_factory.mktemp("stand-in")
    shutil.copy(ROOT / "pyproject.toml", checkout)
    beside = ("services/seamless", "services/operator", "services/certify")
    for package in ("schemas", "services", "services/runtime", "services/cli", *beside):
        plant(checkout, f"{package}/__init__.py", "")
    plant(checkout, "schemas/postings.py", "")
    plant(checkout, "services/room.py", "import services.game, services.wallet, services.audit")
    for service in SERVICES:
        plant(checkout, f"services/{service}/__init__.py", "")
        plant(checkout, f"services/{service}/core/__init__.py", "import schemas, dataclasses")
        plant(checkout, f"services/{service}/store.py", "import sqlmodel, services.runtime")
    return checkout


def plant(checkout: Path, path: str, source: str) -> None:
    file = checkout / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source + "\n")


def test_contracts_hold_for_the_stand_in(stand_in):
    result = lint_imports(stand_in)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("contract", "path", "source"),
    [
        ("Game, wallet and audit know", "services/game/planted.py", "import services.wallet.store"),
        ("Game, wallet and audit know", "services/audit/core/planted.py", "import services.game.core"),
        ("A core reaches no store", "services/game/core/planted.py", "import services.game.store"),
        ("A core reaches no store", "services/wallet/core/planted.py", "import sqlite3"),
        ("A core reaches no store", "services/wallet/core/planted.py", "from http import client"),
        ("A core reaches no store", "services/audit/core/planted.py", "import services.runtime"),
        ("A core has no clock", "services/game/core/planted.py", "from datetime import date"),
        ("A core has no clock", "services/game/core/planted.py", "import os.path"),
        ("A core has no clock", "services/audit/core/planted.py", "def f():\n    import time"),
        ("What all services stand on", "services/runtime/planted.py", "import services.room"),
        ("Schemas know no service", "schemas/planted.py", "import services.runtime"),
        ("Only the room and the command", "services/game/planted.py", "import services.room"),
    ],
)
def test_a_planted_import_breaks_its_contract(stand_in, contract, path, source):
    plant(stand_in, path, source)
    try:
        result = lint_imports(stand_in)
    finally:
        (stand_in / path).unlink()
    broken = [line for line in result.stdout.splitlines() if line.endswith("BROKEN")]
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(line.startswith(contract) for line in broken), result.stdout


# ----------------------------------------------------------------------- what import-linter does not see


def imports(source: str, path: PurePath) -> Iterator[tuple[int, str]]:
    """Each import of a module as its line and absolute name, relative ones worked out from the path."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = path.parent.parts
            package = here[: len(here) + 1 - node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            # The name may be a module (`from services import game`) or not (`… import Card`): in both cases
            # the longer path begins with what the rules ask about.
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def strangers_in_core(source: str, path: PurePath) -> list[str]:
    """The imports of a core that are not schemas, its own, or a pure part of the standard library."""
    own_core = ".".join(path.parts[:3])
    return [
        f"{path}:{line} imports {name}"
        for line, name in imports(source, path)
        if not (is_within(name, own_core) or name.split(".")[0] in PURE | {"schemas"})
    ]


def strangers_in_service(source: str, path: PurePath) -> list[str]:
    """The imports of another service by a module below `services` (which may be the command or the room)."""
    own = path.parts[1].removesuffix(".py")
    if own in {"cli", "room"}:
        return []
    others = [f"services.{service}" for service in SERVICES if service != own]
    return [
        f"{path}:{line} imports {name}"
        for line, name in imports(source, path)
        if any(is_within(name, other) for other in others)
    ]


def test_cores_import_only_what_is_pure():
    paths = core_modules()
    assert {path.parts[1] for path in paths} >= set(SERVICES), "a core is missing, or is not where we look"
    assert [s for path in paths for s in strangers_in_core((ROOT / path).read_text(), path)] == []


def test_only_the_room_and_the_command_see_several_services():
    paths = [path.relative_to(ROOT) for path in sorted(ROOT.glob("services/**/*.py"))]
    assert [s for path in paths for s in strangers_in_service((ROOT / path).read_text(), path)] == []


CORE = PurePath("services/game/core/rules/draw.py")


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import dataclasses, time",
        "from datetime import date",
        "import pydantic",
        "import services.runtime.clock",
        "import services.wallet.core.ledger",
        "from services import game",
        "from services.game import store",
        "from services.game.store import Store",
        "from services.game.corelike import Store",
        "from ... import store",
        "from ...store import Store",
        "from .... import runtime",
        "def decide():\n    import random",
        "if TYPE_CHECKING:\n    from sqlmodel import Session",
        "import importlib",
        "import collections_extended",
    ],
)
def test_a_stranger_in_a_core_is_found(source):
    assert len(strangers_in_core(source, CORE)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "import collections.abc",
        "from schemas.events.game import CardDealt",
        "from services.game.core import cards",
        "import services.game.core",
        "from . import third_card",
        "from .. import cards",
        "from ..cards import Card",
        "text = 'import os'",
    ],
)
def test_a_core_may_import_its_own_and_what_is_pure(source):
    assert strangers_in_core(source, CORE) == []


def test_the_top_of_a_core_is_its_package():
    assert strangers_in_core("from . import cards", PurePath("services/game/core/__init__.py")) == []
    assert strangers_in_core("from .. import store", PurePath("services/game/core/__init__.py")) != []


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("services/helper.py", "import services.game, services.wallet", 2),
        ("services/helper.py", "from services import audit", 1),
        ("services/runtime/bus.py", "from services.game.core import cards", 1),
        ("services/wallet/service.py", "from ..game import api", 1),
        ("services/wallet/service.py", "from services.wallet import store", 0),
        ("services/room.py", "from services import game, wallet", 0),
        ("services/cli/main.py", "from services.audit import service", 0),
    ],
)
def test_another_service_is_found(path, source, found):
    assert len(strangers_in_service(source, PurePath(path))) == found
