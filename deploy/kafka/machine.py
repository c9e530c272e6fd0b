"""What this machine has that a broker could run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

JAVA_LEAST = 17
"""The oldest Java on which a Kafka 4 broker runs."""


@dataclass(frozen=True)
class Java:
    """A ``java`` command and the version that it says it is."""

    command: str
    version: str

    @property
    def is_enough(self) -> bool:
        """Whether a broker runs on it."""
        return int(self.version.split(".")[0]) >= JAVA_LEAST


def find_java() -> Java | None:
    """The Java of ``JAVA_HOME``, or else of the path, of whatever version."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    said = _output(command, "-version") if command else None
    found = re.search(r'version "(\d[\w.]*)', said) if said else None
    return Java(command, found[1]) if command and found else None


def find_maven() -> str | None:
    """The ``mvn`` command."""
    return shutil.which("mvn")


def find_docker() -> str | None:
    """The ``docker`` command, if there is an engine behind it."""
    command = shutil.which("docker")
    return command if command and _output(command, "info", "--format", "{{.ServerVersion}}") else None


def _output(*command: str) -> str | None:
    """Everything that a command says, if it ends well."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
