"""Ports of the loopback interface that stay ours while nobody listens on them."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class HeldPort:
    """A free port, held until ``close``: only who binds it by its number gets it.

    A broker that is stopped and started again wants its old port back. In between the system must not give
    it away, be it to somebody's outgoing connection; a client that tries to reconnect could even be given
    its own goal as its source and so be connected with itself. Linux lets two sockets share an address as
    long as both say ``SO_REUSEADDR``, as Java's do, and only one listens.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind((LOOPBACK, 0))
        # After the bind: before it, the port found could be one that another such socket holds.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.number}"

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
