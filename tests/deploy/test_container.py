"""The Containerfile: what it copies is there and makes a whole wheel, and what it leaves is little."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.deploy.files import ROOT, is_ignored, stages
from tests.deploy.installed import Wheel

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def from_git(*folders: str) -> set[str]:
    """What git would have: what it tracks or does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {path for path in listed.splitlines() if (ROOT / path).is_file()}


def test_what_is_copied_is_there_and_not_ignored():
    build, last = stages()
    copied = [source for sources, _ in build.copied() for source in sources]
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert not is_ignored(source)
    # The last stage takes nothing but what the first has made.
    assert last.copied() == []
    assert last.all("COPY") == ["--from=build /opt/sabot /opt/sabot"]


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        "deploy/.env",
        "deploy/compose.yaml",
        "sabot-data/game.db",
        "services/game.db",
        "services/game/__pycache__/api.cpython-313.pyc",
        "tests/conftest.py",
        "requirements-dev.lock",
    ],
)
def test_what_is_none_of_an_images_business_stays_outside(path):
    assert is_ignored(path)


def test_the_context_is_what_is_copied_and_no_more():
    copied = {source for sources, _ in stages()[0].copied() for source in sources}
    inside = {path for path in from_git() if not is_ignored(path)}
    assert {path.partition("/")[0] for path in inside} == copied


def test_the_wheel_has_all_that_git_has(wheel: Wheel):
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    inside = {name for name in wheel.names() if ".dist-info/" not in name}
    assert inside == from_git(*packages)
    assert {Path(name).suffix for name in inside} >= {".py", ".toml", ".json", ".css", ".mako"}


def test_the_image_starts_what_the_wheel_installs(wheel: Wheel, tmp_path):
    [entrypoint] = stages()[-1].all("ENTRYPOINT")
    assert entrypoint == '["sabot"]'
    assert wheel.commands()["sabot"].value == PROJECT["project"]["scripts"]["sabot"]
    wheel.install(tmp_path / "bin")

    def run(command: str, *arguments: str) -> str:
        told = [tmp_path / "bin" / command, *arguments]
        return subprocess.run(told, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    for package in ("services", "schemas"):
        place = run("python", "-c", f"import {package}; print({package}.__file__)")
        assert Path(place.strip()) == wheel.unpacked / package / "__init__.py"
    assert "Punto banco (Dutch sheet)" in run("sabot", "houses")


def test_nobody_in_particular_runs_it():
    last = stages()[-1]
    [user] = last.all("USER")
    uid, gid = map(int, user.split(":"))
    assert uid > 0
    assert gid > 0
    [made] = last.all("RUN")
    assert f"--uid {uid} --gid {gid}" in made
    assert last.all("WORKDIR") == ["/var/lib/sabot"]
    assert "--home-dir /var/lib/sabot --create-home" in made


def test_every_package_is_the_locks_and_none_is_compiled():
    pip = [
        command
        for stage in stages()
        for run in stage.all("RUN")
        for command in map(str.strip, run.split("&&"))
        if re.search(r"\bpip\b.*\b(install|wheel)\b", command)
    ]
    assert len(pip) == 4
    from_outside = [command for command in pip if "--no-index" not in command]
    locks = [re.findall(r"--only-binary :all: --require-hashes -r (\S+)$", each) for each in from_outside]
    assert locks == [["requirements.lock"], ["requirements-build.lock"]]
    # What remains is the project itself, from what was copied and with what is there.
    assert all("--no-deps" in command for command in pip if "--no-index" in command)
    assert sum("--no-build-isolation" in command for command in pip) == 1
    assert not any("apt" in run for stage in stages() for run in stage.all("RUN"))


def test_both_stages_stand_on_the_same_python_with_a_full_version():
    [base] = {stage.base for stage in stages()}
    version = re.fullmatch(r"python:3\.(\d+)\.\d+-slim-\w+", base)
    assert version
    assert int(version[1]) >= int(PROJECT["project"]["requires-python"].removeprefix(">=3."))


def test_a_log_is_not_kept_back_and_the_command_is_found():
    environment = stages()[-1].environment()
    assert environment["PYTHONUNBUFFERED"] == "1"
    assert environment["PATH"] == "/opt/sabot/bin:$PATH"
