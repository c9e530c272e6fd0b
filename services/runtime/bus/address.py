"""Where an installation's Kafka is, and whether it answers."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Final

_HOST_AND_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SECONDS: Final = 2.0


class AddressError(ValueError):
    """What is not an address of Kafka, in words."""


@dataclass(frozen=True)
class Address:
    """Brokers, and the prefix of an installation's topics and groups where several share the brokers."""

    servers: tuple[str, ...]
    prefix: str = ""

    def __str__(self) -> str:
        return ",".join(self.servers)

    def named(self, name: str) -> str:
        """The name that one of our topics or groups has there."""
        return self.prefix + name

    def our_name(self, named: str) -> str:
        """One of our topics, by the name that it has there."""
        return named.removeprefix(self.prefix)

    @property
    def answers(self) -> bool:
        """Whether one of the brokers takes connections.

        Asked before a client is made: kafka-python's starts its threads first and then tries for as long as
        it takes.
        """
        return any(_takes_connections(each) for each in self.servers)

    @property
    def silence(self) -> str:
        """That none does."""
        return f"no Kafka broker answers at {self}"


def parse_address(text: str) -> Address:
    """``host:port``, several with commas; ``/name`` behind them sets one installation apart from others.

    Raises:
        AddressError: it is not like that.
    """
    servers, slash, name = text.partition("/")
    if slash and not _PREFIX.fullmatch(name):
        raise AddressError(f"{name!r} cannot be the name of an installation: letters, digits, - and _")
    parts = tuple(part.strip() for part in servers.split(","))
    for part in parts:
        match = _HOST_AND_PORT.fullmatch(part)
        if match is None or int(match[2]) > 65_535:
            raise AddressError(f"{part!r} is no broker; write host:port, such as 127.0.0.1:9092")
    return Address(parts, f"{name}." if name else "")


def in_words(error: BaseException | None) -> str:
    """An error of kafka-python's in one line."""
    name, lines = type(error).__name__, str(error).strip().splitlines()
    if not lines:
        return name
    return lines[0] if name in lines[0] else f"{name}: {lines[0]}"


def _takes_connections(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS):
            return True
    except OSError:
        return False
