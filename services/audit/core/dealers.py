"""Who deals where players deal, and who looks at Player's cards.

The shoe lies before a taken seat. It stays while Banker wins, goes to the next taken seat up and round the
table when Player wins, and a tie moves nothing. Player's cards go to the seat with the largest Player bet;
between equals to the one that the shoe would reach first, the dealing seat itself last; where no seat bet
on Player, or the bets are in currencies that have no order among them, a croupier turns the cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.envelope import Recorded
from schemas.events.game import SeatLeft, SeatTaken, ShoePassed
from services.audit.core.room import Room
from services.audit.core.state import Bet, Coup, HouseRules, Table


class Dealers:
    """Checks seats, the passing of the shoe, and the squeeze."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def seat_taken(self, event: Recorded[Any], data: SeatTaken, table: Table) -> None:
        """A seat is one of the table's, and was free."""
        self._check_seat(event, data.seat, table)
        if data.seat in table.taken:
            self._room.report("seat", event, f"seat {data.seat} was taken twice")
        table.taken.add(data.seat)
        self._room.touch(table)

    def seat_left(self, event: Recorded[Any], data: SeatLeft, table: Table) -> None:
        """A dealer who gets up leaves the shoe to nobody, until it is passed on."""
        if data.seat not in table.taken:
            self._room.report("seat", event, f"seat {data.seat} was left by nobody")
        table.taken.discard(data.seat)
        if table.holder == data.seat and table.source == "virtual":
            table.holder, table.left_holder = None, data.seat
        self._room.touch(table)

    def passed(self, event: Recorded[Any], data: ShoePassed, table: Table) -> None:
        """The shoe goes to whom it must, for the reason that is given."""
        due: int | None
        holder = table.left_holder if data.reason == "dealer_left" else table.holder
        if data.from_seat != holder:
            words = f"the shoe was passed from {_seat(data.from_seat)}, and it lay before {_seat(holder)}"
            self._say(event, words, recorded=data.from_seat, expected=holder)
        match data.reason:
            case "player_win":
                due = table.due_holder
                if due is None:
                    self._say(event, "the shoe was passed on, and Player had not won", recorded=data.to_seat)
                    due = data.to_seat
            case "first_dealer":
                due = min(table.taken, default=None)
            case "dealer_left":
                due = None if data.from_seat is None else next_up(table.taken, data.from_seat)
            case "recorded":
                due = data.to_seat
                if table.source == "virtual":
                    self._say(event, "the shoe was passed by a record at a table that deals its own cards")
        if data.to_seat != due:
            words = f"the shoe was passed to seat {data.to_seat}, and {_seat(due)} is next"
            self._say(event, words, recorded=data.to_seat, expected=due)
        table.holder, table.due_holder, table.left_holder = data.to_seat, None, None
        self._room.touch(table)

    def opening(self, event: Recorded[Any], coup: Coup, table: Table, rules: HouseRules) -> None:
        """Who deals this coup is who has the shoe."""
        if table.due_holder is not None:
            words = f"Player had won: the shoe should have gone to seat {table.due_holder} before this coup"
            self._room.report("shoe_passing", event, words, expected=table.due_holder, coup=coup)
            table.due_holder = None
            self._room.touch(table)
        due = table.holder if rules.players_deal else None
        if coup.dealer_seat != due:
            words = f"{_dealer(coup.dealer_seat)} dealt, and it was for {_dealer(due)} to deal"
            self._room.report("dealer", event, words, recorded=coup.dealer_seat, expected=due, coup=coup)
        if coup.dealer_seat is not None:
            self._check_seat(event, coup.dealer_seat, table, coup)

    def concluded(self, coup: Coup, table: Table, rules: HouseRules) -> None:
        """After a Player win the next taken seat is due, unless the shoe is there by now."""
        passes = rules.house.deal.shoe_passes_on == "player_win" and table.source == "virtual"
        if not passes or coup.outcome != "player" or coup.dealer_seat is None:
            return
        heir = next_up(table.taken, coup.dealer_seat)
        if heir is not None and heir != table.holder:
            table.due_holder = heir
            self._room.touch(table)

    def squeeze(self, coup: Coup, rules: HouseRules) -> None:
        """Who looked at Player's cards, against the accepted bets: known when both sides are."""
        if rules.house.deal.squeeze == "none":
            if coup.squeezed:
                self._squeezed(coup, "this house shows the cards at once", recorded=coup.squeezed_by)
            return
        if not coup.squeezed:
            if coup.ended == "concluded":
                self._squeezed(coup, "nobody was named to look at Player's cards", recorded="")
            return
        due = squeezer([bet for bet in coup.bets.values() if not bet.late], coup.dealer_seat)
        if coup.squeezed_by != due:
            words = f"{_dealer(coup.squeezed_by)} looked at Player's cards, and {_dealer(due)} was to do so"
            self._squeezed(coup, words, recorded=coup.squeezed_by, expected=due)

    # ------------------------------------------------------------------------------------------- in private

    def _check_seat(self, event: Recorded[Any], seat: int, table: Table, coup: Coup | None = None) -> None:
        if seat > table.seats:
            words = f"seat {seat} does not exist: the table has {table.seats}"
            self._room.report(
                "seat", event, words, recorded=seat, expected=f"at most {table.seats}", coup=coup
            )

    def _say(self, event: Recorded[Any], words: str, *, recorded: object = "", expected: object = "") -> None:
        self._room.report("shoe_passing", event, words, recorded=recorded, expected=expected)

    def _squeezed(self, coup: Coup, words: str, *, recorded: object, expected: object = "") -> None:
        sequence = coup.squeezed or (coup.end[1] if coup.end else coup.opened)
        self._room.report_at(
            "squeeze",
            coup.operator,
            (coup.stream, sequence),
            words,
            recorded=recorded,
            expected=expected,
            place=coup.place,
            coup=coup,
        )


def squeezer(bets: Iterable[Bet], dealer: int | None) -> int | None:
    """The seat that looks at Player's cards, or none."""
    by_currency: dict[str, dict[int, int]] = {}
    for bet in bets:
        if bet.spot == "player" and bet.seat is not None:
            seats = by_currency.setdefault(bet.currency, {})
            seats[bet.seat] = seats.get(bet.seat, 0) + bet.stake
    if len(by_currency) != 1:
        return None
    (seats,) = by_currency.values()
    largest = max(seats.values())
    return next_up({seat for seat, staked in seats.items() if staked == largest}, dealer or 0)


def next_up(seats: set[int], seat: int) -> int | None:
    """The first of these seats that the shoe reaches when it goes up and round from ``seat``."""
    above = [each for each in seats if each > seat]
    return min(above) if above else min(seats, default=None)


def _seat(seat: int | None) -> str:
    return "nobody" if seat is None else f"seat {seat}"


def _dealer(seat: int | None) -> str:
    return "a croupier" if seat is None else f"seat {seat}"
