"""A broker in a Java of this machine: how its storage is formatted, and how it is started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.kafka.errors import BrokerFailed
from deploy.kafka.machine import Java
from deploy.kafka.ports import HeldPort
from deploy.kafka.server import Server
from deploy.kafka.tether import Tether

FORMAT_SECONDS = 60
ENDED_BY_SIGTERM = 128 + 15
"""The exit status of a Java that was asked to end and did."""

_LOGGING = [
    # Which classes an archive passes over, one line for each.
    "-Xlog:cds*=off",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # Who says "Kafka Server started".
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
]
# The tool lives for half a second, in which no code gets hot.
_FORMAT_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# A broker may be measured, so it gets all compilers. Its records are in the page cache and not on the heap.
_BROKER_OPTIONS = ["-Xmx384m", "-XX:+ExitOnOutOfMemoryError", "-Djava.net.preferIPv4Stack=true"]


@dataclass(frozen=True)
class Jvm:
    """A Java, and the jars of Kafka.

    The classes that a broker loads are put down, ready for use, in an archive beside the jars when the
    first one ends. With it a broker starts in half the time. An archive that does not fit is passed over by
    Java.
    """

    java: Java
    libs: Path

    @property
    def archive(self) -> Path:
        """The archive of loaded classes, which may not be there yet."""
        return self.libs / f"classes-{self.java.version}.jsa"

    def command(self, main: str, *arguments: str | Path, options: list[str]) -> list[str | Path]:
        """The command line that runs a class of Kafka."""
        shared = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive.exists() else []
        return [self.java.command, *shared, *options, *_LOGGING, "-cp", f"{self.libs}/*", main, *arguments]


class Broker(Server):
    """One broker with a folder of its own for its settings, its data and its log."""

    def __init__(
        self,
        index: int,
        folder: Path,
        *,
        client: HeldPort,
        controller: HeldPort,
        shared: Mapping[str, str],
        jvm: Jvm,
        tether: Tether,
    ) -> None:
        folder.mkdir()
        super().__init__(f"broker {index}", folder / "broker.log", client.number, tether)
        self._jvm = jvm
        self._properties = folder / "server.properties"
        # One of a cluster is enough to learn the classes from.
        self._recording = jvm.libs / f".{folder.parent.name}.jsa" if index == 0 else None
        own = {
            "node.id": str(index),
            "listeners": f"BROKER://{client.address},CONTROLLER://{controller.address}",
            "advertised.listeners": f"BROKER://{client.address}",
            "log.dirs": str(folder / "data"),
        }
        lines = (f"{name}={value}\n" for name, value in {**own, **shared}.items())
        self._properties.write_text("".join(lines), "utf-8")

    def begin_format(self, cluster_id: str) -> None:
        """Have Kafka make the files of an empty storage."""
        arguments = ("format", "--cluster-id", cluster_id, "--config", self._properties)
        self.launch(self._jvm.command("kafka.tools.StorageTool", *arguments, options=_FORMAT_OPTIONS))

    def end_format(self) -> None:
        """Wait for it."""
        status = self.wait(FORMAT_SECONDS)
        if status:
            raise self.failure(f"cannot format its storage (status {status})")

    def start(self) -> None:
        """Launch it; ``is_ready`` says when it answers."""
        if self._jvm.archive.exists():
            self._recording = None
        record = [f"-XX:ArchiveClassesAtExit={self._recording}"] if self._recording else []
        self.launch(self._jvm.command("kafka.Kafka", self._properties, options=[*_BROKER_OPTIONS, *record]))

    def stop(self) -> int:
        """As every server, and keep the archive of its classes if it was the first."""
        status = super().stop()
        if self._recording and status == ENDED_BY_SIGTERM and self._recording.exists():
            self._recording.rename(self._jvm.archive)
        return status

    def close(self) -> None:
        """End it in good order if that leaves an archive; otherwise the tether may end it."""
        if self._recording and self.is_launched:
            with suppress(BrokerFailed):
                self.stop()
            self._recording.unlink(missing_ok=True)
