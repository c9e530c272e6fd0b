"""All that audit remembers, and where its findings are collected."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeVar

from schemas.envelope import Recorded
from schemas.events.audit import DiscrepancyFound
from schemas.events.base import Payload
from schemas.house import House
from services.audit.core.facts import Listener
from services.audit.core.state import (
    About,
    Bet,
    Books,
    Coup,
    CoupKey,
    HouseRules,
    Piece,
    Place,
    Purse,
    Ref,
    Shoe,
    Stream,
    Table,
    place_of,
)

FAULTS_KEPT: Final = 100
"""Sentences that one coup keeps for its account; findings beyond them are still written."""

P = TypeVar("P", bound=Piece)

_NOWHERE: Final[Place] = (None, None, None)


class Change(NamedTuple):
    """A row to write, or with ``content`` None a row to delete."""

    kind: str
    key: str
    content: str | None


class Room:
    """Tables, coups and books under audit. Everything in it is a ``Piece`` that can be stored."""

    def __init__(self, listener: Listener | None = None, *, persistent: bool = False) -> None:
        self.listener = listener
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.coups: dict[CoupKey, Coup] = {}
        self.books: dict[str, Books] = {}
        self.said: list[Payload] = []
        """What the present event brought to light."""
        self._touched: set[Piece] = set()
        self._persistent = persistent

    # ------------------------------------------------------------------------------------------- findings

    def report(
        self,
        check: str,
        event: Recorded[Any],
        words: str,
        *,
        recorded: object = "",
        expected: object = "",
        place: Place | None = None,
        coup: Coup | None = None,
    ) -> None:
        """Say that something is wrong at ``event``. A ``coup`` is not verified any more."""
        if place is None:
            place = coup.place if coup is not None else place_of(event.data)
        operator = getattr(event.data, "operator", "") or self.streams[event.stream].operator
        self.report_at(
            check,
            operator,
            (event.stream, event.sequence),
            words,
            recorded=recorded,
            expected=expected,
            place=place,
            coup=coup,
        )

    def report_at(
        self,
        check: str,
        operator: str,
        at: tuple[str, int],
        words: str,
        *,
        recorded: object = "",
        expected: object = "",
        place: Place = _NOWHERE,
        coup: Coup | None = None,
    ) -> None:
        """As ``report``, for a place in a stream that is not the present event's."""
        stream, sequence = at
        table, shoe, number = place
        self.said.append(
            DiscrepancyFound(
                operator=operator or "unknown",
                check=check,
                stream=stream,
                sequence=sequence,
                table=table,
                shoe=shoe,
                coup=number,
                recorded=str(recorded),
                expected=str(expected),
                words=words,
            )
        )
        if coup is not None:
            if len(coup.faults) < FAULTS_KEPT:
                coup.faults.append(words)
            self.touch(coup)

    # ---------------------------------------------------------------------------------------- persistence

    def touch(self, piece: Piece) -> None:
        """Remember that a piece differs from its row."""
        if self._persistent:
            self._touched.add(piece)

    def drop_coup(self, coup: Coup) -> None:
        """Let go of a finished coup and its bets."""
        del self.coups[coup.operator, coup.table, coup.shoe, coup.number]
        coup.gone = True
        self.touch(coup)
        for bet in coup.bets.values():
            bet.gone = True
            self.touch(bet)

    def drop_shoe(self, table: Table, shoe: Shoe) -> None:
        """Let go of a shoe that ended."""
        del table.shoes[shoe.name]
        shoe.gone = True
        self.touch(shoe)

    def take_changes(self) -> list[Change]:
        """What must be written for the state to be the same after a restart. Ask once a transaction.

        Rows to delete come first: their keys may have been taken again.
        """
        changes = []
        for piece in self._touched:
            if not piece.gone:
                text = json.dumps(piece.content(), separators=(",", ":"))
                changes.append(Change(piece.kind, piece.key, text))
                piece.stored = True
            elif piece.stored:
                changes.append(Change(piece.kind, piece.key, None))
        self._touched.clear()
        return sorted(changes, key=lambda change: (change.content is not None, change.kind, change.key))

    def load(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Take up the state that rows of (kind, key, content) hold."""
        read: dict[str, list[dict[str, Any]]] = {}
        for kind, _, content in rows:
            read.setdefault(kind, []).append(json.loads(content))
        currents = [(self._load_table(each), each["current"]) for each in read.get("table", ())]
        for each in read.get("stream", ()):
            table, shoe, number = each.pop("place")
            stream = Stream(**each, last=About(table, shoe, number))
            self.streams[stream.name] = _stored(stream)
        for each in read.get("shoe", ()):
            each["counts"], each["codes"] = (
                bytearray.fromhex(each["counts"]),
                bytearray.fromhex(each["codes"]),
            )
            self.tables[each["table"]].shoes[each["name"]] = _stored(Shoe(**each))
        by_key: dict[str, Coup] = {}
        for each in read.get("coup", ()):
            for name in ("seal_named", "end", "seal", "settled_result", "settlement"):
                each[name] = _ref(each[name])
            coup = by_key[_coup_key(each)] = _stored(Coup(**each))
            self.coups[coup.operator, coup.table, coup.shoe, coup.number] = coup
        for bet in sorted(
            (_stored(Bet(**each)) for each in read.get("bet", ())), key=lambda bet: bet.sequence
        ):
            by_key[bet.coup].bets[bet.bet] = bet
        for each in read.get("books", ()):
            self.books[each["wallet"]] = _stored(Books(**each))
        for each in read.get("purse", ()):
            self.books[each["wallet"]].purses[each["account"]] = _stored(Purse(**each))
        for owner, current in currents:
            if current is not None:
                owner.current = self.coups[owner.operator, owner.name, current[0], current[1]]

    def _load_table(self, content: dict[str, Any]) -> Table:
        fields = {name: value for name, value in content.items() if name != "current"}
        fields["rules"] = {
            int(number): HouseRules(House.model_validate(house)) for number, house in fields["rules"].items()
        }
        fields["taken"] = set(fields["taken"])
        table = self.tables[f"game/{fields['operator']}.{fields['name']}"] = _stored(Table(**fields))
        return table


def _ref(value: list[Any] | None) -> Ref | None:
    return None if value is None else (value[0], value[1], value[2])


def _coup_key(content: dict[str, Any]) -> str:
    return f"{content['operator']}/{content['table']}/{content['shoe']}/{content['number']}"


def _stored(piece: P) -> P:
    piece.stored = True
    return piece
