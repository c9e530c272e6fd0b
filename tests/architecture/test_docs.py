"""The documents name files, tests and commands that exist."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted(["README.md", *(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md"))])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_and_test_that_is_named_is_there(document):
    text = (REPOSITORY / document).read_text("utf-8")
    missing = []
    for path, name in re.findall(
        r"`((?:tests|services|schemas|examples|deploy|docs)/[\w./*-]+)(?:::(\w+))?", text
    ):
        found = sorted(REPOSITORY.glob(path.rstrip("/")))
        if not found or (name and not re.search(rf"\b{name}\b", found[0].read_text("utf-8"))):
            missing.append(f"{path}::{name}" if name else path)
    assert missing == []


def test_every_setting_that_the_readme_names_is_one():
    from services.runtime.settings import Settings

    named = set(re.findall(r"`SABOT_(\w+)`", (REPOSITORY / "README.md").read_text("utf-8")))
    assert named == {name.upper() for name in Settings.model_fields}
