"""A wire between a client and a PostgreSQL server that a test can cut, to the byte."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal

_COMMIT = b"COMMIT\x00"

Cut = Literal["commit", "answer"]
"""Whether the next commit is cut off on its way, or its answer on the way back."""


class Proxy:
    """Passes everything on, until it is told to lose the next commit or its answer. A context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._cut: Cut | None = None
        self.on_answer: Callable[[], object] | None = None
        """Called when the answer to the commit has come and before it is lost."""
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()

    def __enter__(self) -> "Proxy":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self._listening, *self._open):
            _end(each)
        for thread in self._threads:
            thread.join()

    def lose(self, what: Cut) -> None:
        """Cut the connection at the next commit."""
        self._cut = what

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listening:
            while True:
                try:
                    client, _ = self._listening.accept()
                except OSError:
                    return
                server = socket.create_connection(self._server)
                self._open |= {client, server}
                self._start(self._serve, client, server)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        """The client's side of one connection."""
        answering = threading.Thread(target=self._answer, args=(client, server), daemon=True)
        answering.start()
        with suppress(OSError):
            while (sent := client.recv(1 << 16)) and not (self._cut == "commit" and _COMMIT in sent):
                self._committing = _COMMIT in sent
                server.sendall(sent)
        _end(server)
        answering.join()
        self._open -= {client, server}
        server.close()
        client.close()

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                if self._cut == "answer" and self._committing:
                    if self.on_answer is not None:
                        self.on_answer()
                    break
                client.sendall(answer)
        _end(client)


def _end(connection: socket.socket) -> None:
    """Wake whoever waits for it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
