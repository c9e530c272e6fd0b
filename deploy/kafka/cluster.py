"""One broker or three, as processes on this machine, each of them also a controller (KRaft).

    with Cluster() as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        cluster.kill()
        cluster.start()

All listen on the loopback interface only, on free ports that stay theirs until the end. Data and logs are
in a temporary folder that is removed at the end; if this process is killed the brokers end too, but the
folder stays.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Self

from deploy.kafka import jars
from deploy.kafka.broker import Broker, Jvm
from deploy.kafka.errors import BrokerFailed
from deploy.kafka.machine import JAVA_LEAST, Java, find_java
from deploy.kafka.ports import HeldPort
from deploy.kafka.settings import common
from deploy.kafka.tether import Tether

START_SECONDS = 60


class Cluster:
    """Brokers that can be stopped, killed, paused and started again, by their index from 0."""

    ours = True
    """Its brokers may be stopped: nobody else uses them."""

    def __init__(self, brokers: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """So many brokers, 1 or 3, with settings beside or instead of those of ``settings.py``."""
        if brokers not in {1, 3}:
            raise ValueError(f"a cluster has 1 or 3 brokers, not {brokers}")
        self._size, self._settings = brokers, dict(settings or {})
        self._stack = ExitStack()
        self._brokers: list[Broker] = []
        self.bootstrap = ""
        """The brokers' addresses for a client, with commas between them; empty before the start."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        jvm = Jvm(_java(), jars.fetch())
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="sabot-kafka-")))
        ports = [(self._port(), self._port()) for _ in range(self._size)]
        tether = self._stack.enter_context(Tether())
        voters = ",".join(f"{index}@{controller.address}" for index, (_, controller) in enumerate(ports))
        shared = {**common(self._size), "controller.quorum.voters": voters, **self._settings}
        self._brokers = [
            Broker(
                index,
                folder / f"broker-{index}",
                client=client,
                controller=controller,
                shared=shared,
                jvm=jvm,
                tether=tether,
            )
            for index, (client, controller) in enumerate(ports)
        ]
        self.bootstrap = ",".join(client.address for client, _ in ports)
        cluster_id = _cluster_id(folder.name)
        for broker in self._brokers:
            broker.begin_format(cluster_id)
        for broker in self._brokers:
            broker.end_format()
        self.start(*range(self._size))

    def _port(self) -> HeldPort:
        port = HeldPort()
        self._stack.callback(port.close)
        return port

    def start(self, *indices: int) -> None:
        """Start brokers, the first if none is named, on the ports and data they had, and wait for them.

        Of three brokers two must be there before any gets ready: where all were stopped, name them at once.
        """
        waiting = [self._brokers[index] for index in indices or (0,)]
        for broker in waiting:
            broker.start()
        until = monotonic() + START_SECONDS
        while waiting := [broker for broker in waiting if not broker.is_ready()]:
            if monotonic() > until:
                raise waiting[0].failure(f"is not ready after {START_SECONDS} seconds")
            sleep(0.02)

    def stop(self, index: int = 0) -> None:
        """End a broker in good order (SIGTERM) and wait for it."""
        self._brokers[index].stop()

    def kill(self, index: int = 0) -> None:
        """End a broker on the spot (SIGKILL)."""
        self._brokers[index].kill()

    def pause(self, index: int = 0) -> None:
        """Let a broker hang (SIGSTOP): connections stay, answers do not come."""
        self._brokers[index].pause()

    def resume(self, index: int = 0) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._brokers[index].resume()

    def heal(self) -> None:
        """Have every broker run again that was stopped, killed or paused, or has ended by itself."""
        for broker in self._brokers:
            with suppress(BrokerFailed):  # that is, unless it has ended
                broker.resume()
        ended = [index for index, broker in enumerate(self._brokers) if not broker.is_launched]
        if ended:
            self.start(*ended)

    def pid(self, index: int = 0) -> int:
        """A broker's process."""
        return self._brokers[index].pid

    def log(self, index: int = 0) -> Path:
        """A broker's log: its warnings and errors."""
        return self._brokers[index].log

    def check(self) -> None:
        """Raise ``BrokerFailed`` if a broker has ended that nobody stopped."""
        for broker in self._brokers:
            broker.check()

    def close(self) -> None:
        """End all brokers and remove their data."""
        # Data that is thrown away need not be put in order first, so the stack kills whoever is still there.
        with self._stack:
            for broker in self._brokers:
                broker.close()


def _java() -> Java:
    java = find_java()
    if java is None:
        raise BrokerFailed(f"there is no Java; a broker needs version {JAVA_LEAST} or newer")
    if not java.is_enough:
        raise BrokerFailed(f"Java is {java.version} here; a broker needs version {JAVA_LEAST} or newer")
    return java


def _cluster_id(folder: str) -> str:
    """A UUID in Kafka's notation. It begins with a letter, as a minus sign would look like an option."""
    digest = hashlib.sha256(f"{folder} {os.getpid()} {monotonic()}".encode()).digest()
    return "S" + base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")[1:]
