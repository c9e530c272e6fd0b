"""Game's streams: tables, and coups from their opening to their end, worked out again card by card.

One coup is open at a table at a time. It is opened under the house in force, betting closes, and only then
do cards come, each naming wallet's seal; the next card goes to the hand that the tableau entitles to it. What
it came to, then and later, is for ``results``.
"""

from __future__ import annotations

from typing import Any

from schemas.envelope import Recorded
from schemas.events.game import (
    BettingClosed,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    HouseSet,
    TableClosed,
    TableOpened,
)
from services.audit.core.dealers import Dealers
from services.audit.core.results import HAND_NAMES, Results
from services.audit.core.room import Room
from services.audit.core.shoes import Shoes
from services.audit.core.state import Coup, HouseRules, Ref, Table
from services.audit.core.tableau import entitled, why_nobody_draws


class Tables:
    """Checks what game says of its tables and coups."""

    def __init__(self, room: Room, shoes: Shoes, dealers: Dealers) -> None:
        self._room, self._shoes, self._dealers = room, shoes, dealers
        self._results = Results(room, shoes)

    # ---------------------------------------------------------------------------------------------- tables

    def find(self, event: Recorded[Any]) -> Table:
        """The table that this stream is of; made, and missed, where it was never opened."""
        table = self._room.tables.get(event.stream)
        data = event.data
        if table is None:
            table = Table(data.operator, data.table)
            if table.stream != event.stream:
                words = f"{event.envelope.type} of table {data.table} does not belong into {event.stream}"
                self._room.report("stream", event, words, recorded=event.stream, expected=table.stream)
            self._room.tables[event.stream] = table
            self._room.touch(table)
            if not isinstance(data, TableOpened):
                self._room.report("order", event, f"table {data.table} is used and was never opened")
        elif data.table != table.name or data.operator != table.operator:
            words = f"{event.envelope.type} of table {data.table} does not belong into {event.stream}"
            self._room.report("stream", event, words, recorded=data.table, expected=table.name)
        return table

    def opened(self, event: Recorded[Any], data: TableOpened, table: Table) -> None:
        """A table opens once."""
        if table.opened:
            self._room.report("order", event, f"table {data.table} was opened twice")
        table.opened, table.shard, table.seats, table.source = True, data.shard, data.seats, data.source
        self._room.touch(table)

    def closed(self, event: Recorded[Any], data: TableClosed, table: Table) -> None:
        """Nothing may be open at a table that closes."""
        if table.current is not None:
            words = (
                f"table {data.table} closed during coup {table.current.number} of shoe {table.current.shoe}"
            )
            self._room.report("order", event, words)
        table.closed = True
        self._room.touch(table)

    def house(self, event: Recorded[Any], data: HouseSet, table: Table) -> None:
        """Houses are numbered from 1, and change between two coups only."""
        if data.house_number != table.house_number + 1:
            words = f"house {data.house_number} follows house {table.house_number}"
            self._room.report(
                "house", event, words, recorded=data.house_number, expected=table.house_number + 1
            )
        if table.current is not None:
            self._room.report("house", event, f"the house changed during coup {table.current.number}")
        in_use = {
            coup.house_number
            for coup in self._room.coups.values()
            if coup.table == table.name and coup.operator == table.operator
        }
        for number in table.rules.keys() - in_use:
            self._room.keep_house(table.stream, number, table.rules.pop(number))
        rules = table.rules[data.house_number] = HouseRules(data.house)
        table.house_number = data.house_number
        if not rules.players_deal:
            table.holder = table.due_holder = table.left_holder = None
        self._room.touch(table)
        if self._room.listener is not None:
            self._room.listener.house(table.operator, table.name, data.house_number, data.house)

    # ----------------------------------------------------------------------------------------------- coups

    def coup_opened(self, event: Recorded[Any], data: CoupOpened, table: Table) -> None:
        """A coup opens under the house in force, on a shoe that it can come from."""
        if table.closed:
            self._room.report("order", event, f"a coup was opened at table {data.table}, which is closed")
        if table.current is not None:
            words = f"coup {data.coup} was opened while coup {table.current.number} was open"
            self._room.report("order", event, words)
        key = (data.operator, data.table, data.shoe, data.coup)
        coup = self._room.coups.get(key)
        if coup is None:
            coup = self._room.coups[key] = Coup(data.operator, data.table, data.shoe, data.coup)
        elif coup.opened:
            self._room.report("order", event, f"coup {data.coup} of shoe {data.shoe} was opened twice")
            return
        coup.opened = event.sequence
        coup.house_number, coup.spots = data.house_number, list(data.spots)
        coup.dealer, coup.dealer_seat = data.dealer, data.dealer_seat
        table.current = coup
        self._room.touch(coup)
        self._room.touch(table)
        if data.house_number != table.house_number:
            words = (
                f"coup {data.coup} goes by house {data.house_number}, and {table.house_number} is in force"
            )
            self._room.report(
                "house", event, words, recorded=data.house_number, expected=table.house_number, coup=coup
            )
            coup.house_number = table.house_number
        rules = table.rules.get(coup.house_number)
        if rules is None:
            self._room.report("house", event, f"no house was set before coup {data.coup}", coup=coup)
            return
        if set(data.spots) != rules.payouts.spots:
            offered, due = ", ".join(data.spots), ", ".join(sorted(rules.payouts.spots))
            words = f"the spots of coup {data.coup} are not those of house {rules.house.id}"
            self._room.report("spots", event, words, recorded=offered, expected=due, coup=coup)
        self._dealers.opening(event, coup, table, rules)
        self._shoes.ready(event, coup, table, rules)

    def betting_closed(self, event: Recorded[Any], data: BettingClosed, table: Table) -> None:
        """Betting closes once."""
        coup = self._current(event, data, table)
        if coup is None:
            return
        if coup.closed:
            self._room.report("order", event, f"betting on coup {data.coup} was closed twice", coup=coup)
        coup.closed = True
        self._room.touch(coup)

    def card_dealt(self, event: Recorded[Any], data: CardDealt, table: Table) -> None:
        """A card comes after the seal that it names, from the shoe, to the hand that is entitled to it."""
        coup = self._current(event, data, table)
        if coup is None:
            return
        if not coup.closed:
            words = f"card {data.card} was dealt before betting on coup {data.coup} was closed"
            self._room.report("order", event, words, coup=coup)
        named = data.seal
        seal: Ref = (named.stream, named.sequence, named.hash)
        if coup.seal_named is None:
            coup.seal_named, coup.first_card = seal, event.sequence
        elif seal != coup.seal_named:
            words = f"card {data.card} names another seal than the first card of coup {data.coup}"
            self._room.report("seal", event, words, recorded=seal[1], expected=coup.seal_named[1], coup=coup)
        shoe = table.shoes.get(data.shoe)
        if shoe is not None:
            self._shoes.deal(event, shoe, data.index, data.card, coup)
            self._room.touch(shoe)
        self._to_hand(event, data, table, coup)
        coup.cards.append(data.card)
        coup.hands.append(data.hand)
        self._room.touch(coup)

    def squeezed(self, event: Recorded[Any], data: CardsToSqueeze, table: Table) -> None:
        """Who looks is said once; whether it was his to do is known when the bets are."""
        coup = self._current(event, data, table)
        if coup is None:
            return
        if coup.squeezed:
            self._room.report("squeeze", event, "Player's cards were given to look at twice", coup=coup)
        coup.squeezed, coup.squeezed_by = event.sequence, data.seat
        self._room.touch(coup)

    def concluded(self, event: Recorded[Any], data: CoupConcluded, table: Table) -> Coup | None:
        """The announced result must be what the cards make."""
        coup = self._current(event, data, table)
        if coup is None:
            return None
        coup.outcome, coup.due_outcome, coup.version = data.outcome, data.outcome, data.version
        coup.player_total, coup.banker_total, coup.natural = (
            data.player_total,
            data.banker_total,
            data.natural,
        )
        if data.version != 1:
            words = f"the first result of coup {data.coup} has version {data.version}"
            self._room.report("result", event, words, recorded=data.version, expected=1, coup=coup)
        rules = table.rules.get(coup.house_number)
        if rules is not None:
            self._results.concluded(event, data, coup, rules)
            self._dealers.concluded(coup, table, rules)
        self._end(event, coup, table)
        coup.ended = "concluded"
        return coup

    def voided(self, event: Recorded[Any], data: CoupVoided, table: Table) -> Coup | None:
        """The coup does not count; the cards that came stay out of the shoe."""
        if data.corrects is not None:
            return self._results.voided(event, data, table)
        coup = self._current(event, data, table)
        if coup is None:
            return None
        if not data.reason.strip():
            self._room.report("result", event, f"coup {data.coup} was voided without a reason", coup=coup)
        self._end(event, coup, table)
        coup.ended = "voided"
        return coup

    def corrected(self, event: Recorded[Any], data: CoupCorrected, table: Table) -> Coup | None:
        """The coup had another result than was announced. Shoe, seats and the open coup stay as they are."""
        return self._results.corrected(event, data, table)

    # ------------------------------------------------------------------------------------------- in private

    def _current(
        self,
        event: Recorded[Any],
        data: BettingClosed | CardDealt | CardsToSqueeze | CoupConcluded | CoupVoided,
        table: Table,
    ) -> Coup | None:
        coup = table.current
        if coup is None or coup.number != data.coup or coup.shoe != data.shoe:
            words = f"coup {data.coup} of shoe {data.shoe} goes on, and it is not open"
            self._room.report("order", event, words)
            return None
        return coup

    def _end(self, event: Recorded[Any], coup: Coup, table: Table) -> None:
        coup.end = (event.stream, event.sequence, event.hash)
        table.current = None
        self._room.touch(coup)
        self._room.touch(table)

    def _to_hand(self, event: Recorded[Any], data: CardDealt, table: Table, coup: Coup) -> None:
        rules = table.rules.get(coup.house_number)
        if rules is None:
            return
        player, banker = coup.hand("player"), coup.hand("banker")
        if len(coup.cards) >= 4 and (len(player) < 2 or len(banker) < 2):
            return  # the first four went wrong already, which was said
        due = entitled(player, banker, rules.order)
        if due is None:
            self._room.report(
                "tableau",
                event,
                why_nobody_draws(player, banker, data.card),
                recorded=f"{data.card} to {data.hand}",
                expected="no further card",
                coup=coup,
            )
            return
        position = len(player if due == "player" else banker) + 1
        if data.hand != due:
            check = "tableau" if len(coup.cards) >= 4 else "deal_order"
            nth = f"card {len(coup.cards) + 1} of the coup, {data.card}"
            words = f"{nth}, went to {HAND_NAMES[data.hand]}, and it is {HAND_NAMES[due]}'s"
            self._room.report(check, event, words, recorded=data.hand, expected=due, coup=coup)
        elif data.position != position:
            words = (
                f"{data.card} was put in place {data.position} of {HAND_NAMES[due]}'s hand, not {position}"
            )
            self._room.report(
                "deal_order", event, words, recorded=data.position, expected=position, coup=coup
            )
