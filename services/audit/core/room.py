"""All that audit remembers, and where its findings are collected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from schemas.envelope import Recorded
from schemas.events.audit import DiscrepancyFound
from schemas.events.base import Payload
from schemas.house import House
from services.audit.core.facts import Listener
from services.audit.core.pieces import About, Piece, Place, Stream, place_of
from services.audit.core.purses import PIECES, Holdings
from services.audit.core.state import (
    BET_IN_SHORT,
    COUP_IN_SHORT,
    Announced,
    Bet,
    Correction,
    Coup,
    CoupKey,
    Finished,
    HouseRules,
    PastHouse,
    Ref,
    Result,
    Shoe,
    Table,
)

FAULTS_KEPT: Final = 100
"""Sentences that one coup keeps for its account; findings beyond them are still written."""

P = TypeVar("P", bound=Piece)

_as_json: Final = json.JSONEncoder(separators=(",", ":")).encode
_NOWHERE: Final[Place] = (None, None, None)


class Change(NamedTuple):
    """A row to write, or with ``content`` None a row to delete."""

    kind: str
    key: str
    content: str | None


class Room:
    """Tables, coups and books under audit. Everything in it is a ``Piece`` that can be stored.

    ``corrected`` says of a finished coup whether its result will be corrected, so that it must be kept;
    without it all are kept. What is stored is not kept: ``load`` brings it back when it is needed.
    """

    def __init__(
        self,
        listener: Listener | None = None,
        *,
        persistent: bool = False,
        corrected: Callable[[CoupKey], bool] | None = None,
    ) -> None:
        self.listener = listener
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.coups: dict[CoupKey, Coup] = {}
        self.finished: dict[CoupKey, Finished] = {}
        """Coups that were judged, as far as they are kept here."""
        self.houses: dict[tuple[str, int], PastHouse] = {}
        """Houses that are not in force any more, by table's stream and number."""
        self.holdings: dict[str, Holdings] = {}
        """By wallet stream."""
        self.said: list[Payload] = []
        """What the present event brought to light."""
        self._touched: set[Piece] = set()
        self._persistent = persistent
        self._corrected = corrected

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

    def known_coup(self, key: CoupKey) -> Coup | None:
        """A coup that is under way, or that was judged and is kept."""
        coup = self.coups.get(key)
        if coup is None and (finished := self.finished.get(key)) is not None:
            return finished.coup
        return coup

    def drop_coup(self, coup: Coup) -> None:
        """Let go of a judged coup and its bets: what a correction must know of it is kept apart."""
        del self.coups[coup.id]
        coup.gone = True
        self.touch(coup)
        for bet in coup.bets.values():
            bet.gone = True
            self.touch(bet)
        if self._corrected is None or coup.corrections or coup.announced or self._corrected(coup.id):
            finished = self.finished[coup.id] = Finished(coup)
            self.touch(finished)

    def keep_house(self, table: str, number: int, rules: HouseRules) -> None:
        """Keep a house that is not in force any more, for corrections of what was played by it."""
        house = self.houses[table, number] = PastHouse(table, number, rules)
        self.touch(house)

    def rules_of(self, table: Table, number: int) -> HouseRules | None:
        """A house of a table, whether it is in force or was."""
        rules = table.rules.get(number)
        if rules is None and (past := self.houses.get((table.stream, number))) is not None:
            return past.rules
        return rules

    def touch_coup(self, coup: Coup) -> None:
        """As ``touch``, wherever the coup is kept."""
        self.touch(self.finished.get(coup.id, coup) if coup.judged else coup)

    def drop(self, piece: Piece) -> None:
        """Let go of a piece that is over."""
        piece.gone = True
        self.touch(piece)

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
                text = _as_json(piece.content())
                changes.append(Change(piece.kind, piece.key, text))
                piece.stored = True
            elif piece.stored:
                changes.append(Change(piece.kind, piece.key, None))
        self._touched.clear()
        if self._persistent:
            self.finished.clear()
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
        for each in read.get("house", ()):
            past = PastHouse(each["table"], each["number"], HouseRules(House.model_validate(each["house"])))
            self.houses[past.table, past.number] = _stored(past)
        by_key: dict[str, Coup] = {}
        for each in read.get("coup", ()):
            coup = by_key[_coup_key(each)] = _stored(_coup(each))
            self.coups[coup.id] = coup
        for bet in sorted(
            (_stored(Bet(**each)) for each in read.get("bet", ())), key=lambda bet: bet.sequence
        ):
            by_key[bet.coup].bets[bet.bet] = bet
        for each in read.get("finished", ()):
            finished = _stored(_finished(each))
            self.finished[finished.coup.id] = finished
        self._load_holdings(read)
        for owner, current in currents:
            if current is not None:
                owner.current = self.coups[owner.operator, owner.name, current[0], current[1]]

    def _load_holdings(self, read: dict[str, list[dict[str, Any]]]) -> None:
        for piece in PIECES:
            contents = read.get(piece.kind, [])
            for each in sorted(contents, key=lambda each: each.get("sequence", 0)):
                if "recent" in each:
                    each["recent"] = dict.fromkeys(each["recent"])
                self.holdings_of(each["wallet"]).add(_stored(piece(**each)))

    def holdings_of(self, wallet: str) -> Holdings:
        """What a wallet stream holds."""
        holdings = self.holdings.get(wallet)
        if holdings is None:
            holdings = self.holdings[wallet] = Holdings(wallet)
        return holdings

    def _load_table(self, content: dict[str, Any]) -> Table:
        fields = {name: value for name, value in content.items() if name != "current"}
        fields["rules"] = {
            int(number): HouseRules(House.model_validate(house)) for number, house in fields["rules"].items()
        }
        fields["taken"] = set(fields["taken"])
        table = self.tables[f"game/{fields['operator']}.{fields['name']}"] = _stored(Table(**fields))
        return table


_REFS: Final = ("seal_named", "end", "seal", "settled_result", "settlement")


def _coup(content: dict[str, Any]) -> Coup:
    """A coup, whole or in short."""
    for name in _REFS:
        if name in content:
            content[name] = _ref(content[name])
    content["corrections"] = [_correction(each) for each in content.get("corrections", ())]
    content["announced"] = [
        Announced(**{**each, "end": _ref(each["end"])}) for each in content.get("announced", ())
    ]
    return Coup(**content)


def _finished(content: dict[str, Any]) -> Finished:
    fields: dict[str, Any] = dict(zip(COUP_IN_SHORT, content["coup"], strict=True))
    coup = _coup({**fields, "corrections": content["corrections"], "announced": content["announced"]})
    for row in content["bets"]:
        fields = dict(zip(BET_IN_SHORT, row, strict=True))
        coup.bets[fields["bet"]] = Bet(coup.key, **fields)
    return Finished(coup)


def _correction(content: dict[str, Any]) -> Correction:
    bets: dict[str, Result] = {bet: _result(row) for bet, row in content["bets"].items()}
    return Correction(
        **{**content, "result": _ref(content["result"]), "corrects": _ref(content["corrects"]), "bets": bets}
    )


def _result(row: list[Any]) -> Result:
    return row[0], row[1], row[2], row[3], row[4]


def _ref(value: list[Any] | None) -> Ref | None:
    return None if value is None else (value[0], value[1], value[2])


def _coup_key(content: dict[str, Any]) -> str:
    return f"{content['operator']}/{content['table']}/{content['shoe']}/{content['number']}"


def _stored(piece: P) -> P:
    piece.stored = True
    return piece
