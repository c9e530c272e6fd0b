"""The operators of a deployment: who there is, with which keys, and whose tokens count.

They stand in a TOML file (``SABOT_OPERATORS``; ``examples/operators.toml`` is one), which is read again when
it, or a file with a secret, changes, so that a key comes and goes without a restart. All look-ups of one
request should go to one ``table``: it never changes, the next one takes its place as a whole.

Without a file there is one operator, from the settings, and callers are not asked who they are: for one
machine only (``Operators.open``).
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from services.runtime.calendar import GamingCalendar
from services.runtime.operator_entries import Operator
from services.runtime.operator_table import OperatorKey, OperatorsError, Table, UnknownOperator, load_table
from services.runtime.settings import Settings

__all__ = ["Operator", "OperatorKey", "Operators", "OperatorsError", "Table", "UnknownOperator"]

_LASTING: Final = ("shard", "zone", "cut_off", "mode")
"""What is part of what was recorded."""

log = logging.getLogger(__name__)


class Operators:
    """The operators at any moment. Thread-safe."""

    def __init__(self, table: Table, path: Path | None, environment: Mapping[str, str]) -> None:
        """Use ``load`` or ``open``."""
        self.table = table
        self.trouble: str | None = None
        """Why the file as it is now is not taken, if so: what it was before is still in force."""
        self._path, self._environment = path, environment
        self._lock = threading.Lock()
        self._asked = False
        self._stamps: dict[Path, object] = {}

    @classmethod
    def load(cls, path: Path, environment: Mapping[str, str]) -> Operators:
        """The operators of a file. ``environment`` has secrets that the file refers to.

        Raises:
            OperatorsError: with every mistake and where it stands.
        """
        operators = cls(Table((), {}, development=False), path, environment)
        operators.table = operators._read(path)
        return operators

    @classmethod
    def open(cls, settings: Settings) -> Operators:
        """Without a file: the operator of the settings, and nobody is asked who he is.

        Other names do as well, as they did before there was a file; they have the same shard and calendar.
        """
        operator = Operator.model_construct(
            name=settings.operator,
            shard=settings.shard,
            currencies=(),  # any: ``currencies`` of nobody else is empty
            zone=settings.zone,
            cut_off=settings.cut_off,
        )
        return cls(_OpenTable(operator), None, {})

    @property
    def is_open(self) -> bool:
        """Whether callers are not asked who they are."""
        return self._path is None

    def find(self, name: str) -> Operator | None:
        """The operator of that name."""
        return self.table.find(name)

    def get(self, name: str) -> Operator:
        """The operator of that name.

        Raises:
            UnknownOperator: there is none.
        """
        return self.table.get(name)

    def calendar_of(self, name: str) -> GamingCalendar:
        """That operator's gaming days.

        Raises:
            UnknownOperator: there is none.
        """
        return self.table.get(name).calendar

    def of(self, operator: str) -> GamingCalendar:
        """The same, as the writer asks for it (``calendar.Calendars``)."""
        return self.calendar_of(operator)

    def of_shard(self, shard: str) -> tuple[Operator, ...]:
        """The operators whose accounts that wallet shard has, in the order of the file."""
        return self.table.of_shard(shard)

    def reload(self) -> None:
        """Read the file again. If it cannot be taken, nothing changes.

        An operator's shard, zone, cut-off and mode are part of what was recorded: they do not change while
        services run, nor does an operator go away (``stopped`` ends him).

        Raises:
            OperatorsError: with every mistake and where it stands.
        """
        if self._path is None:
            return
        with self._lock:
            try:
                table = self._read(self._path)
                problems = list(_changes_that_wait(self.table, table))
                if problems:
                    raise OperatorsError(str(self._path), problems)
            except OperatorsError as error:
                self.trouble = str(error)
                raise
            self.table, self.trouble = table, None

    def changed(self) -> bool:
        """Whether SIGHUP came, or a file that was read is another one now."""
        return self._asked or self._stamps != self._stamps_now()

    @contextmanager
    def watched(self, seconds: float = 0.5) -> Iterator[None]:
        """Read the file again whenever it changes, and after SIGHUP (if this is the main thread).

        A file that changes is left alone until it has been the same for ``seconds``: it may be half written.
        What goes wrong with it is logged, and stands in ``trouble``.
        """
        if self._path is None:
            yield
            return
        halt = threading.Event()

        def watch() -> None:
            before = self._stamps
            while not halt.wait(seconds):
                now = self._stamps_now()
                if self._asked or (now == before != self._stamps):
                    self._asked = False
                    self._reload_or_say()
                before = now

        thread = threading.Thread(target=watch, name="operators", daemon=True)
        thread.start()
        try:
            with self._asked_by_signal():
                yield
        finally:
            halt.set()
            thread.join()

    def _reload_or_say(self) -> None:
        try:
            self.reload()
        except OperatorsError as error:
            log.error("the operators' file is not taken, what it was before stays in force: %s", error)
        else:
            log.info("the operators' file was read again: %s", ", ".join(self.table.operators))

    @contextmanager
    def _asked_by_signal(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGHUP"):
            yield
            return

        def ask(*_: object) -> None:
            self._asked = True

        before = signal.signal(signal.SIGHUP, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)

    def _stamps_now(self) -> dict[Path, object]:
        return {path: _stamp_of(path) for path in self._stamps}

    def _read(self, path: Path) -> Table:
        stamps: dict[Path, object] = {}

        def read(file: Path) -> str:
            stamps[file] = _stamp_of(file)  # before it is read: a change in between is seen the next time
            return file.read_text("utf-8")

        try:
            return load_table(path, self._environment, read)
        finally:
            # Files that were in force stay watched, should the new version be a mistake.
            self._stamps = self._stamps_now() | stamps


class _OpenTable(Table):
    """One operator's settings for whoever names himself."""

    def __init__(self, operator: Operator) -> None:
        super().__init__([operator], {}, development=True)

        @lru_cache(maxsize=1024)
        def named(name: str) -> Operator:
            return operator.model_copy(update={"name": name})

        self._named = named

    def find(self, name: str) -> Operator | None:
        return super().find(name) or self._named(name)


def _changes_that_wait(before: Table, after: Table) -> Iterator[tuple[str, str]]:
    for name, old in before.operators.items():
        new = after.find(name)
        if new is None:
            yield f"operator[{name}]", "is gone; write stopped = true, and restart to take it out"
            continue
        for field in _LASTING:
            if getattr(old, field) != getattr(new, field):
                yield f"operator[{name}].{field}", "cannot change while services run; restart them"


def _stamp_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
