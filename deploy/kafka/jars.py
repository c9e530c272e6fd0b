"""The jars that a broker consists of: fetched by Maven once, 54 MB, and kept beside ``pom.xml``.

They lie in ``libs/CHECKSUM/``, so that a changed ``pom.xml`` is fetched anew. Such a folder is whole or not
there: it gets its name when Maven has ended well.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from deploy.kafka.errors import NoJars
from deploy.kafka.machine import find_maven
from deploy.kafka.tether import tethered

POM = Path(__file__).with_name("pom.xml")
LIBS = Path(__file__).with_name("libs")


def folder(pom: Path = POM, libs: Path = LIBS) -> Path:
    """Where the jars of this ``pom.xml`` are, or would be."""
    return libs / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]


def fetch(pom: Path = POM, libs: Path = LIBS) -> Path:
    """The folder with all jars, which Maven fills if it is not there yet. Raises ``NoJars``."""
    whole = folder(pom, libs)
    if whole.is_dir():
        return whole
    libs.mkdir(exist_ok=True)
    # For two at once, as the workers of one test run. The system lifts it from a process that is gone.
    with (libs / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.is_dir():
            unfinished = libs / ".unfinished"
            if unfinished.exists():
                shutil.rmtree(unfinished)
            _copy_dependencies(pom, unfinished)
            unfinished.rename(whole)
    return whole


def _copy_dependencies(pom: Path, target: Path) -> None:
    maven = find_maven()
    if maven is None:
        raise NoJars("the jars of Kafka are not here, and there is no Maven (mvn) that could fetch them")
    command: list[str | Path] = [
        maven,
        # Quiet, no questions, and a download whose checksum is wrong is an error.
        *("-q", "-B", "-C", "--file", pom),
        "dependency:copy-dependencies",
        *("-DincludeScope=runtime", f"-DoutputDirectory={target}"),
    ]
    try:
        done = subprocess.run(
            tethered(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoJars("Maven did not bring the jars of Kafka within ten minutes") from None
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or done.stdout.splitlines()
        raise NoJars("\n".join(["Maven could not bring the jars of Kafka:", *errors[:3]]))
