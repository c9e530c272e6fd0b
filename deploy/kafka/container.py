"""A broker in a container, where there is no Java but a Docker engine.

Untried so far: no machine that this was written on had an engine. The tests hold the command line, and play
it through with a stand-in for the ``docker`` command.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Self

from deploy.kafka.errors import BrokerFailed
from deploy.kafka.ports import LOOPBACK, HeldPort
from deploy.kafka.server import Server
from deploy.kafka.settings import common
from deploy.kafka.tether import Tether

IMAGE = "apache/kafka:4.4.0"
START_SECONDS = 300
"""Long enough to bring the image, the first time."""


class Container:
    """One broker that is there until the end; it cannot be stopped and started again with its data."""

    ours = False

    def __init__(self, docker: str) -> None:
        self._docker = docker
        self._stack = ExitStack()
        self.bootstrap = ""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="sabot-kafka-")))
        # Given back at once: it is Docker that binds it on this machine.
        port = HeldPort()
        port.close()
        tether = self._stack.enter_context(Tether())
        self._server = Server("the broker in Docker", folder / "broker.log", port.number, tether)
        self._stack.callback(self._stop)
        # The docker command hands a SIGTERM on to the container, so that nothing is left when this process
        # dies.
        self._server.launch(command(self._docker, port.number), SIGTERM)
        until = monotonic() + START_SECONDS
        while not self._server.is_ready():
            if monotonic() > until:
                raise self._server.failure(f"is not ready after {START_SECONDS} seconds")
            sleep(0.1)
        self.bootstrap = port.address

    def _stop(self) -> None:
        # SIGTERM and not the tether's SIGKILL, which would end the docker command and leave the container.
        if self._server.is_launched:
            with suppress(BrokerFailed):
                self._server.stop()

    def check(self) -> None:
        """Raise ``BrokerFailed`` if it has ended."""
        self._server.check()


def command(docker: str, port: int) -> list[str]:
    """The command line: one container that goes when it ends, published on the loopback interface only."""
    settings = {
        **common(1),
        "node.id": "0",
        # In the container it listens to all, since Docker does not come in by its loopback interface. The
        # port is the same inside and outside: a broker also calls itself by the address that it advertises.
        "listeners": f"BROKER://0.0.0.0:{port},CONTROLLER://{LOOPBACK}:9093",
        "advertised.listeners": f"BROKER://{LOOPBACK}:{port}",
        "controller.quorum.voters": f"0@{LOOPBACK}:9093",
    }
    environment = [f"--env=KAFKA_{key.upper().replace('.', '_')}={value}" for key, value in settings.items()]
    return [docker, "run", "--rm", f"--publish={LOOPBACK}:{port}:{port}", *environment, IMAGE]
