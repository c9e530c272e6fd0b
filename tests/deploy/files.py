"""What the files of ``deploy/`` say, read as a container engine and systemd read them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


# -------------------------------------------------------------------------------------------- Containerfile


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next: its instructions in their order, each a name and the rest of its line."""

    base: str
    name: str | None
    instructions: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """The rest of every line of a name."""
        return [rest for each, rest in self.instructions if each == name]

    def copied(self) -> list[tuple[list[str], str]]:
        """Sources and target of every COPY out of the context."""
        found = (rest.split() for rest in self.all("COPY") if not rest.startswith("--"))
        return [(sources, target) for *sources, target in found]

    def environment(self) -> dict[str, str]:
        """Every ENV, as it stands there."""
        return dict(each.split("=", 1) for rest in self.all("ENV") for each in shlex.split(rest))


@cache
def stages() -> list[Stage]:
    """The stages of the Containerfile."""
    lines = (DEPLOY / "Containerfile").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            found.append(Stage(base, alias or None, ()))
        else:
            last = found.pop()
            found.append(Stage(last.base, last.name, (*last.instructions, (name, rest.strip()))))
    return found


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path out: the last pattern decides that fits it or a folder above."""
    parts = path.split("/")
    places = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    ignored = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = re.compile(_pattern(line.removeprefix("!")))
        if any(pattern.fullmatch(place) for place in places):
            ignored = not line.startswith("!")
    return ignored


def _pattern(glob: str) -> str:
    """As a regular expression. ``**/`` is any number of folders, and a star stays within one name."""
    deep = glob.startswith("**/")
    within = translate(glob.removeprefix("**/")).replace(".*", "[^/]*")
    return f"(?:.*/)?{within}" if deep else within


# ------------------------------------------------------------------------------------------------- Compose


_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:[-?])([^}]*))?\})")


class Missing(Exception):
    """A variable that must have a value."""


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """With variables put in, as Compose does it before anything else."""
    if isinstance(value, dict):
        return {name: interpolated(each, variables) for name, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, variables) for each in value]
    return _VARIABLE.sub(lambda match: _put(match, variables), value) if isinstance(value, str) else value


def _put(match: re.Match[str], variables: Mapping[str, str]) -> str:
    dollar, name, operator, words = match.groups()
    if dollar:
        return "$"
    given = variables.get(name, "")
    if not given and operator == ":?":
        raise Missing(f"{name} {words}")
    return given or (words if operator == ":-" else "")


@cache
def compose() -> dict[str, Any]:
    """compose.yaml, variables not put in."""
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return document


def services(variables: Mapping[str, str]) -> dict[str, Any]:
    """The services of compose.yaml."""
    found: dict[str, Any] = interpolated(compose()["services"], variables)
    return found


def scraped() -> dict[str, list[str]]:
    """The jobs of prometheus.yml and their targets."""
    document = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    return {
        job["job_name"]: [target for group in job["static_configs"] for target in group["targets"]]
        for job in document["scrape_configs"]
    }


# ------------------------------------------------------------------------------------------- README, systemd


def readme_block(words: str) -> str:
    """The one block of commands in deploy/README.md with these words in it."""
    text = (DEPLOY / "README.md").read_text("utf-8")
    [found] = [block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if words in block]
    return str(found)


def unit(instance: str) -> dict[str, list[str]]:
    """The settings of the systemd unit for one instance; one may be set several times."""
    settings: dict[str, list[str]] = {}
    for name, value in _settings((DEPLOY / "systemd/sabot@.service").read_text("utf-8")):
        settings.setdefault(name, []).append(value.replace("%i", instance))
    return settings


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            yield name, value
