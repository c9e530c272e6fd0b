"""deploy/README.md: its one table of settings is whole, and what it names is there."""

import re

import pytest

from services.cli.prepare import PASSWORD
from services.runtime.bus.kafka.topics import PARTITIONS
from services.runtime.files import SERVICES
from services.runtime.settings import Settings
from tests.deploy.files import DEPLOY, ROOT, compose, readme_block
from tests.end_to_end.support import sabot

TEXT = (DEPLOY / "README.md").read_text("utf-8")
TABLE = TEXT.partition("## Settings")[2]


def rows() -> dict[str, str]:
    """Each variable of the table and its default."""
    found: dict[str, str] = {}
    for names, default in re.findall(r"^\| (`[^|]*) \| ?([^|]*)\| [^|]+ \|$", TABLE, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), default.strip(" `"))
    return found


def test_the_table_has_every_setting_and_its_default():
    settings = {
        f"SABOT_{name.upper()}": "" if field.default is None else in_words(field.default)
        for name, field in Settings.model_fields.items()
    }
    others = {
        *(f"{PASSWORD}{role}" for role in ("GAME", "WALLET", "AUDIT", "READER")),
        "PGPASSWORD",
        "PGPASSFILE",
    }
    assert rows() == {**settings, **dict.fromkeys(others, "")}


def in_words(default: object) -> str:
    text = str(default)
    return text.lower() if isinstance(default, bool) else re.sub(r"^(\d\d:\d\d):00$", r"\1", text)


def test_compose_names_no_variable_that_the_table_lacks():
    named = {
        variable
        for service in compose()["services"].values()
        for variable in service.get("environment", {})
        if variable.startswith(("SABOT_", "PG"))
    }
    assert named <= set(rows())
    put_in = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    assert put_in <= {*rows(), "POSTGRES_PASSWORD"}


def test_what_it_names_is_there():
    for path in re.findall(
        r"`((?:\w+/)*[\w@]+\.(?:yaml|yml|lock|service|md)|tests/[\w/]+|Containerfile)`", TEXT
    ):
        assert (DEPLOY / path).exists() or (ROOT / path).exists(), path
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([\w-]+)`", TEXT)) <= set(targets)
    assert len(re.findall(r"docker compose", TEXT)) > 5
    told = {name for line in re.findall(r"docker compose run --rm (\w+)", TEXT) for name in line.split()}
    assert told <= set(compose()["services"])


def test_partition_counts_are_said_as_they_are():
    assert "with {}, {} and {} (game,".format(*(PARTITIONS[f"{name}.events"] for name in SERVICES)) in TEXT


@pytest.mark.parametrize("words", ["docker compose up -d --build", "pg_dumpall"])
def test_a_backup_and_an_upgrade_stop_the_writers_first(words):
    blocks = re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)
    [block] = [each for each in blocks if words in each and ".env" not in each]
    assert block.startswith("docker compose stop game wallet audit\n")


def test_the_commands_have_the_options_that_it_names():
    assert {"--kafka", "--database", "--json"} <= set(re.findall(r"--\w+", sabot("verify", "--help")))
    assert "--admin" in readme_block("sabot prepare")
    assert {"--kafka", "--database", "--admin"} <= set(re.findall(r"--\w+", sabot("prepare", "--help")))
