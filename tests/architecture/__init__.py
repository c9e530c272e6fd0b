"""What holds the shape of the code: who may import whom, and what a core may not contain."""

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("game", "wallet", "audit")


def core_modules() -> list[Path]:
    """Every module of every service's core, relative to the checkout."""
    return modules(ROOT.glob("services/*/core/**/*.py"))


def money_modules() -> list[Path]:
    """Every module that works with amounts, relative to the checkout."""
    return modules([*ROOT.glob("services/wallet/core/**/*.py"), ROOT / "schemas" / "money.py"])


def modules(paths: Iterable[Path]) -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in paths if path.is_file())
