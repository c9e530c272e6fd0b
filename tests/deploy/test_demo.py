"""``make demo-kafka``: what it plays is verified, and nothing of it is left, however it ends."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from deploy.kafka import available as kafka_available
from deploy.postgres.keeper import is_alive
from deploy.postgres.server import available as postgres_available
from tests.end_to_end.support import eventually
from tests.support import requires

REPOSITORY = Path(__file__).parents[2]
MARK = "SET_BY_THE_TEST_OF_THE_DEMONSTRATION"


@pytest.fixture(autouse=True)
def _servers():
    for component, lacking in (("kafka", kafka_available()), ("postgres", postgres_available())):
        requires(component, lacking is None, str(lacking))


class Demonstration:
    """One run, whose processes and files can be told from all others."""

    def __init__(self, temporary: Path, *options: str) -> None:
        self.temporary = temporary
        self.mark = temporary.name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.demo", *options],
            cwd=REPOSITORY,
            env={**os.environ, MARK: self.mark, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_says(self, words: str) -> None:
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended and never said {words!r}: {''.join(said)}")

    def left_running(self) -> Sequence[str]:
        """The commands of all processes that it has started, directly or not, and itself."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                environment = (place / "environ").read_bytes().split(b"\0")
                command = (place / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended, or is not ours
            if f"{MARK}={self.mark}".encode() in environment and command:
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
        return found

    def left_on_disk(self) -> Sequence[str]:
        return [each.name for each in self.temporary.iterdir()]


@contextmanager
def demonstration(*options: str) -> Iterator[Demonstration]:
    # The database server runs as somebody else where we are root, and so its folder must be open to him.
    with tempfile.TemporaryDirectory(prefix="sabot-test-") as temporary:
        Path(temporary).chmod(0o755)
        demo = Demonstration(Path(temporary), *options)
        with demo.process as process:
            try:
                yield demo
            finally:
                if process.poll() is None:
                    process.send_signal(SIGKILL)


def test_five_coups_are_verified_and_nothing_is_left():
    with demonstration("--coups", "5", "--seats", "3", "--json") as demo:
        out, said = demo.process.communicate(timeout=100)
        assert demo.process.returncode == 0, said
        assert demo.left_running() == []
        assert demo.left_on_disk() == []
    document = json.loads(out)
    assert document["coups"] == {"verified": 5, "of_these_void": 0, "discrepancy": 0, "open": 0}
    assert (document["ok"], document["bets"], document["streams"]) == (True, 15, 3)
    for words in ("Kafka at ", "PostgreSQL at ", "game at http://", "wallet at http://", "audit at http://"):
        assert words in said
    assert "replaying Kafka's topics, and nothing else" in said


def test_an_interrupted_demonstration_leaves_nothing():
    with demonstration() as demo:
        demo.wait_until_it_says("audit at ")
        started = demo.left_running()
        for name in ("game serve", "wallet serve", "audit serve", "kafka.Kafka", "postgres"):
            assert any(name in each for each in started), f"{name} should be something to leave"
        demo.process.send_signal(SIGINT)
        out, said = demo.process.communicate(timeout=60)
        assert (demo.process.returncode, out) == (130, ""), said
        assert said.endswith("\nstopped, with all that was started\n")
        assert demo.left_running() == []
        assert demo.left_on_disk() == []


def test_a_service_ends_with_who_started_it_even_if_he_is_killed(tmp_path):
    """A demonstration that is killed cannot stop what it started."""
    program = (
        "import signal\n"
        "from deploy.processes import ServiceProcess\n"
        f"service = ServiceProcess('wallet', ['--data', {str(tmp_path)!r}])\n"
        "print(service.pid, service.address, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, address = process.stdout.readline().split()
        host, _, port = address.partition(":")
        process.send_signal(SIGKILL)
        process.wait()
        eventually(lambda: not is_alive(int(pid)))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


def test_a_house_that_nobody_knows_is_refused_before_anything_starts():
    with demonstration("--house", "xx") as demo:
        out, said = demo.process.communicate(timeout=60)
        assert (demo.process.returncode, out) == (2, "")
        assert said == "sabot: there is no house 'xx'; there are de, dk, fr, lt, nl\n"
