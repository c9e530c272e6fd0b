"""Builds what game and wallet would have written: two streams with a correct chain, event by event.

A ``Story`` tells a room's evening in the order in which things happened. ``tamper`` looks at each payload
just before it is written and may hand back another one, several, or none: the chain is then made over the
changed events, as somebody who writes his own store would do it. For a change behind the chain's back see
``with_other_bytes``.

Payments are counted here in whole numbers, not with audit's fractions: the houses of the tests round 5 %
to one minor unit, half up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.envelope import FIRST_PREVIOUS, Recorded, decode, encode
from schemas.events.accounts import AccountOpened, Deposited
from schemas.events.base import EventRef, Payload, Posting
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupOpened,
    CoupVoided,
    EntropyTaken,
    HouseSet,
    SeatLeft,
    SeatTaken,
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    ShoePassed,
    TableClosed,
    TableOpened,
)
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    BetResult,
    BetsSealed,
    CoupReturned,
    CoupSettled,
    DebitRequested,
    LargestPlayerBet,
    ReturnedBet,
    SettledBet,
    SpotTotal,
)
from schemas.house import House, shipped_houses
from schemas.money import exponent_of
from services.audit.core import fair

OPERATOR = "op"
HOUSES = shipped_houses()

WORTH = dict(zip("A23456789TJQK", (1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0), strict=True))
SPOT_LEDGER = {"player": "4010", "banker": "4011", "tie": "4012"}

_EVENING: Final = datetime(2026, 1, 2, 20, tzinfo=UTC)
_CAUSES: Final[Mapping[type[Payload], type[Payload]]] = {
    BetsSealed: BettingClosed,
    CardDealt: BetsSealed,
    CardsToSqueeze: BetsSealed,
    CoupConcluded: BetsSealed,
    CoupSettled: CoupConcluded,
    CoupReturned: CoupVoided,
}
"""What one service says because of the other; all else is made by commands."""

_NOTHING: Any = None
"""What was written last where a test let nothing be written."""

Tamper = Callable[[Payload], Payload | Sequence[Payload] | None]


class Bet:
    """A bet that a test wants to place."""

    def __init__(
        self,
        spot: str,
        stake: int,
        *,
        account: str = "alice",
        seat: int | None = 1,
        currency: str = "EUR",
        refused: str | None = None,
        funding: str = "cash",
        grant: str | None = None,
    ) -> None:
        self.spot, self.stake, self.account, self.seat = spot, stake, account, seat
        self.currency, self.refused = currency, refused
        self.funding, self.grant = funding, grant


class Story:
    """An evening at one table, of recorded cards unless said."""

    def __init__(
        self,
        house: str | House = "nl",
        *,
        source: str = "recorded",
        table: str = "T1",
        seats: int = 14,
        tamper: Tamper | None = None,
        decks: int | None = None,
    ) -> None:
        document = HOUSES[house] if isinstance(house, str) else house
        if decks is not None:
            document = document.model_copy(update={"shoe": document.shoe.model_copy(update={"decks": decks})})
        self.house, self.source, self.table, self.seats = document, source, table, seats
        self.tamper = tamper
        self.events: list[Recorded[Any]] = []
        self.game, self.wallet = f"game/{OPERATOR}.{table}", "wallet/main"
        self.cash: dict[tuple[str, str], int] = defaultdict(int)
        self.accounts: set[str] = set()
        self.loaded: set[str] = set()
        self.out: dict[str, int] = defaultdict(int)
        self.orders: dict[str, list[str]] = {}
        self.seeds: dict[str, bytes] = {}
        self.bet_number = 0
        self.house_number = 0
        self.holder: int | None = None
        self.taken: set[int] = set()
        self.day = "2026-01-02"
        self.left: dict[str, int] = {}
        """What is in play of each bet that was taken, by its id."""
        self.paid: dict[tuple[str, int], list[tuple[BetAccepted, BetResult]]] = {}
        """How the bets of each coup ended, by shoe and number."""
        self._heads: dict[str, tuple[int, str]] = {}

    # ------------------------------------------------------------------------------------------- writing

    def write(self, payload: Payload, stream: str | None = None) -> Recorded[Any]:
        """Write one event, or what ``tamper`` makes of it. Returns the last one written."""
        if stream is None:
            stream = self.wallet if ".wallet." in payload.type_name() else self.game
        made: Payload | Sequence[Payload] | None = payload if self.tamper is None else self.tamper(payload)
        payloads = [] if made is None else [made] if isinstance(made, Payload) else list(made)
        for each in payloads:
            self._append(each, stream)
        return self.events[-1] if self.events else _NOTHING

    def say(self, kind: Any, /, **fields: Any) -> Recorded[Any]:
        """Write an event of this kind."""
        return self.write(kind(**fields))

    def _append(self, payload: Payload, stream: str) -> None:
        sequence, previous = self._heads.get(stream, (0, FIRST_PREVIOUS))
        event = encode(
            payload,
            source="sabot/test",
            stream=stream,
            sequence=sequence + 1,
            previous=previous,
            time=(_EVENING + timedelta(milliseconds=len(self.events))).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            gamingday=self.day,
            causationid=self._cause_of(payload),
            correlationid="test",
        )
        self._heads[stream] = (event.sequence, event.hash)
        self.events.append(event)

    def _cause_of(self, payload: Payload) -> str:
        """The id of the latest event that makes a service say this, or that of a command."""
        kind = _CAUSES.get(type(payload))
        if kind is None:
            return "test"
        causes = (event for event in reversed(self.events) if isinstance(event.data, kind))
        return next((event.envelope.id for event in causes), "test")

    def of(self, kind: type[Payload]) -> list[Recorded[Any]]:
        """The events of a kind, in order."""
        return [event for event in self.events if isinstance(event.data, kind)]

    def stream(self, name: str) -> list[Recorded[Any]]:
        """The events of one stream."""
        return [event for event in self.events if event.stream == name]

    # -------------------------------------------------------------------------------------------- the table

    def open(self) -> Story:
        """Open the table under its house."""
        self.say(
            TableOpened,
            operator=OPERATOR,
            table=self.table,
            shard="main",
            seats=self.seats,
            source=self.source,
        )
        return self.set_house(self.house)

    def set_house(self, house: House) -> Story:
        """Play by this house from here on."""
        self.house = house
        self.house_number += 1
        self.say(HouseSet, operator=OPERATOR, table=self.table, house_number=self.house_number, house=house)
        return self

    def close(self) -> Story:
        """Close the table."""
        self.say(TableClosed, operator=OPERATOR, table=self.table, reason="end of the evening")
        return self

    def sit(self, *seats: int) -> Story:
        """Take seats."""
        for seat in seats:
            self.taken.add(seat)
            self.say(SeatTaken, operator=OPERATOR, table=self.table, seat=seat)
        return self

    def get_up(self, seat: int) -> Story:
        """Leave a seat."""
        self.taken.discard(seat)
        self.say(SeatLeft, operator=OPERATOR, table=self.table, seat=seat)
        return self

    def pass_shoe(self, shoe: str, to: int, reason: str, *, source: int | None = -1) -> Story:
        """The shoe goes to another seat."""
        origin = self.holder if source == -1 else source
        self.say(
            ShoePassed,
            operator=OPERATOR,
            table=self.table,
            shoe=shoe,
            from_seat=origin,
            to_seat=to,
            reason=reason,
        )
        self.holder = to
        return self

    # --------------------------------------------------------------------------------------------- the shoe

    def load(self, shoe: str, *, seed: bytes = bytes(range(32)), entropy: str = "lucky-panda-88") -> Story:
        """Bring a shoe into play; a virtual one is committed, shuffled and burned."""
        decks = self.house.shoe.decks
        names = {"operator": OPERATOR, "table": self.table, "shoe": shoe}
        if self.source == "virtual":
            commitment = fair.commitment_of(seed, self.table, shoe, decks)
            self.say(ShoeCommitted, **names, scheme="bacfair/1", decks=decks, commitment=commitment)
            self.say(EntropyTaken, **names, kind=1, entropy=entropy)
            key = fair.key_of(seed, self.table, shoe, decks, entropy=entropy.encode())
            self.orders[shoe] = [fair.CARDS[code] for code in fair.order_of(key, decks)]
            self.seeds[shoe] = seed
        cut = self.house.shoe.cut_cards_from_end if self.source == "virtual" else None
        self.say(ShoeLoaded, **names, decks=decks, source=self.source, cut_cards_from_end=cut)
        self.loaded.add(shoe)
        if self.source == "virtual" and self.house.shoe.burn == "first_card_value":
            first = self.orders[shoe][0]
            for index in range(1, 2 + (WORTH[first[0]] or 10)):
                self.out[shoe] = index
                self.say(CardBurned, **names, index=index, card=first if index == 1 else None)
        return self

    def end(self, shoe: str, reason: str = "cut_card") -> Story:
        """End a shoe and reveal its seed."""
        seed = self.seeds[shoe].hex() if shoe in self.seeds else None
        self.say(
            ShoeEnded,
            operator=OPERATOR,
            table=self.table,
            shoe=shoe,
            reason=reason,
            cards_out=self.out[shoe],
            seed=seed,
        )
        return self

    # ---------------------------------------------------------------------------------------------- a coup

    def coup(
        self,
        cards: str = "",
        bets: Iterable[Bet] = (),
        *,
        shoe: str = "S1",
        number: int = 1,
        void: str | None = None,
        dealer_seat: int | None = None,
        squeeze: int | None = None,
        announce: dict[str, Any] | None = None,
        pay_by: str | None = None,
        during: Callable[[list[BetAccepted]], object] | None = None,
    ) -> Story:
        """One coup from opening to payment. ``cards`` in the order of dealing; empty: the shoe's own.

        ``announce`` overrides what game says of the result; ``pay_by`` the outcome that wallet pays by;
        ``during`` is called with the bets before betting is closed.
        """
        names = {"operator": OPERATOR, "table": self.table, "shoe": shoe, "coup": number}
        if shoe not in self.loaded:
            self.load(shoe)
        self.say(
            CoupOpened,
            **names,
            house_number=self.house_number,
            spots=("player", "banker", "tie"),
            dealer_seat=dealer_seat,
            dealer="croupier-7",
        )
        accepted = self._place(names, bets)
        if during is not None:
            during([each.data for each in accepted])
            accepted = [each for each in accepted if self.left[each.data.bet]]
        self.say(BettingClosed, **names)
        sealed = self._seal(names, accepted)
        if void is not None:
            ended = self.say(CoupVoided, **names, reason=void)
            self._give_back(names, accepted, ended, void)
            return self
        dealt = cards.split() or self._next_cards(shoe)
        hands = self._deal(names, dealt, sealed, squeeze)
        result = {**_result_of(hands), **(announce or {})}
        ended = self.say(CoupConcluded, **names, version=1, tiers=tiers_of(str(result["outcome"])), **result)
        self._settle(names, accepted, ended, pay_by or str(result["outcome"]))
        return self

    def _place(self, names: dict[str, Any], bets: Iterable[Bet]) -> list[Recorded[Any]]:
        accepted = []
        for bet in bets:
            if bet.account not in self.accounts:
                self.fund(bet.account, 1_000_000, bet.currency)
            self.bet_number += 1
            fields: dict[str, Any] = {
                **names,
                "bet": f"main.{self.bet_number}",
                "account": bet.account,
                "tx": f"tx-{self.bet_number}",
                "seat": bet.seat,
                "spot": bet.spot,
                "currency": bet.currency,
                "exponent": exponent_of(bet.currency),
                "stake": bet.stake,
            }
            if bet.refused is not None:
                self.say(BetRefused, **fields, code=bet.refused)
                continue
            if bet.funding == "operator":
                self.say(DebitRequested, **fields)
            entry = (
                _post(*source_of(bet), bet.currency, bet.stake),
                _post("2030", str(fields["bet"]), bet.currency, -bet.stake),
            )
            event = self.say(BetAccepted, **fields, funding=bet.funding, grant=bet.grant, entry=entry)
            accepted.append(event)
            self.left[str(fields["bet"])] = bet.stake
        return accepted

    def fund(self, account: str, amount: int, currency: str = "EUR") -> Story:
        """Open an account with cash in it."""
        if account not in self.accounts:
            self.accounts.add(account)
            self.say(AccountOpened, operator=OPERATOR, account=account)
        entry = (_post("1030", None, currency, amount), _post("2010", account, currency, -amount))
        self.say(
            Deposited,
            operator=OPERATOR,
            account=account,
            tx=f"in-{account}",
            currency=currency,
            exponent=exponent_of(currency),
            amount=amount,
            entry=entry,
        )
        return self

    def _seal(self, names: dict[str, Any], accepted: list[Recorded[Any]]) -> Recorded[Any]:
        totals: dict[tuple[str, str], list[int]] = defaultdict(list)
        on_player: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for event in accepted:
            bet = event.data
            left = self.left.get(bet.bet, 0)
            totals[bet.currency, bet.spot].append(left)
            if bet.spot == "player" and bet.seat is not None:
                on_player[bet.currency][bet.seat] += left
        return self.say(
            BetsSealed,
            **names,
            first=accepted[0].sequence if accepted else None,
            last=accepted[-1].sequence if accepted else None,
            bets=len(accepted),
            totals=tuple(
                SpotTotal(
                    spot=spot,
                    currency=currency,
                    exponent=exponent_of(currency),
                    bets=len(stakes),
                    stake=sum(stakes),
                )
                for (currency, spot), stakes in sorted(totals.items())
            ),
            largest_player=tuple(
                LargestPlayerBet(
                    currency=currency,
                    exponent=exponent_of(currency),
                    stake=max(seats.values()),
                    seats=tuple(sorted(s for s, stake in seats.items() if stake == max(seats.values()))),
                )
                for currency, seats in sorted(on_player.items())
            ),
            digest=accepted[-1].hash if accepted else self._heads.get(self.wallet, (0, FIRST_PREVIOUS))[1],
        )

    def _deal(
        self, names: dict[str, Any], cards: list[str], sealed: Recorded[Any], squeeze: int | None
    ) -> dict[str, list[str]]:
        hands: dict[str, list[str]] = {"player": [], "banker": []}
        order = [*self.house.deal.order, *_third_hands(cards, self.house.deal.order)]
        shoe = names["shoe"]
        for place, (card, hand) in enumerate(zip(cards, order, strict=False)):
            hands[hand].append(card)
            self.out[shoe] += 1
            self.say(
                CardDealt,
                **names,
                seal=reference(sealed),
                index=self.out[shoe],
                hand=hand,
                position=len(hands[hand]),
                card=card,
            )
            if place == 3 and self.house.deal.squeeze != "none":
                self.say(CardsToSqueeze, **names, seat=squeeze)
        return hands

    def _next_cards(self, shoe: str) -> list[str]:
        """The cards of the next coup of a virtual shoe, by the table that game uses."""
        ahead = self.orders[shoe][self.out[shoe] : self.out[shoe] + 6]
        return ahead[: 4 + len(_third_hands(ahead, self.house.deal.order, strict=True))]

    def _settle(
        self, names: dict[str, Any], accepted: list[Recorded[Any]], concluded: Recorded[Any], outcome: str
    ) -> None:
        parts = [accepted[at : at + 100] for at in range(0, max(1, len(accepted)), 100)]
        for number, part in enumerate(parts, start=1):
            lines: dict[tuple[str, str | None, str], int] = defaultdict(int)
            rows = []
            for event in part:
                bet = event.data.model_copy(update={"stake": self.left.get(event.data.bet, 0)})
                result = self.result_of(bet, outcome)
                ended = self.paid.setdefault((names["shoe"], names["coup"]), [])
                ended.append((bet, result))
                rows.append(
                    SettledBet(
                        bet=bet.bet,
                        account=bet.account,
                        spot=bet.spot,
                        currency=bet.currency,
                        exponent=bet.exponent,
                        stake=bet.stake,
                        funding=bet.funding,
                        seat=bet.seat,
                        **result.model_dump(),
                    )
                )
                end_bet(lines, bet, result)
            self.say(
                CoupSettled,
                **names,
                version=1,
                result=reference(concluded),
                house_number=self.house_number,
                outcome=outcome,
                part=number,
                parts=len(parts),
                bets=tuple(rows),
                entry=_entry(lines),
            )

    def result_of(self, bet: BetAccepted, outcome: str) -> BetResult:
        """What a bet comes to; void without an outcome."""
        tier = tiers_of(outcome)[bet.spot] if outcome else "void"
        returned, commission, exact = self._pay(bet.spot, tier, bet.stake) if outcome else (bet.stake, 0, "0")
        deferred = bool(commission) and bet.funding == "cash"
        deferred = deferred and self.house.commission.collection == "deferred"
        if bet.funding == "free":
            returned = returned - bet.stake if tier == "win" else 0
        elif deferred:
            returned += commission
        return BetResult(
            tier=tier, returned=returned, commission=commission, commission_exact=exact, deferred=deferred
        )

    def _pay(self, spot: str, tier: str, stake: int) -> tuple[int, int, str]:
        if tier == "lose":
            return 0, 0, "0"
        if tier == "push":
            return stake, 0, "0"
        if spot == "tie":
            return 9 * stake, 0, "0"
        if spot == "player":
            return 2 * stake, 0, "0"
        commission = (5 * stake + 50) // 100
        return 2 * stake - commission, commission, _twentieths(stake)

    def _give_back(
        self, names: dict[str, Any], accepted: list[Recorded[Any]], ended: Recorded[Any], reason: str
    ) -> None:
        lines: dict[tuple[str, str | None, str], int] = defaultdict(int)
        rows = []
        for event in accepted:
            bet = event.data.model_copy(update={"stake": self.left.get(event.data.bet, 0)})
            rows.append(
                ReturnedBet(
                    bet=bet.bet,
                    account=bet.account,
                    spot=bet.spot,
                    currency=bet.currency,
                    exponent=bet.exponent,
                    stake=bet.stake,
                    funding=bet.funding,
                )
            )
            end_bet(lines, bet, self.result_of(bet, ""))
        self.say(
            CoupReturned,
            **names,
            result=reference(ended),
            reason=reason,
            part=1,
            parts=1,
            bets=tuple(rows),
            entry=_entry(lines),
        )


def source_of(bet: Bet | BetAccepted) -> tuple[str, str | None]:
    """Where a stake comes from, and goes back to."""
    ledger = {"cash": "2010", "free": "2020", "operator": "1050"}[bet.funding]
    return ledger, None if ledger == "1050" else bet.account


def end_bet(
    lines: dict[tuple[str, str | None, str], int], bet: BetAccepted, result: BetResult, sign: int = 1
) -> None:
    """The lines of a bet that ends, or (``sign`` -1) of the same undone."""
    currency, stake = bet.currency, bet.stake
    won, commission = result.returned - stake, result.commission
    back = result.returned
    if bet.funding == "free" and result.tier in ("push", "void"):
        lines["2020", bet.account, currency] -= sign * stake
        won = 0
    elif bet.funding == "free" and result.tier == "win":
        lines["5010", None, currency] -= sign * stake
        won = back
    cash = "2010" if bet.funding == "free" else source_of(bet)[0]
    lines["2030", bet.bet, currency] += sign * stake
    lines[cash, None if cash == "1050" else bet.account, currency] -= sign * back
    lines["4020", None, currency] -= sign * commission
    if result.deferred:
        lines["1065", bet.account, currency] += sign * commission
    else:
        won += commission
    lines[SPOT_LEDGER[bet.spot], None, currency] += sign * won


def reference(event: Recorded[Any]) -> EventRef:
    """The place and hash of an event."""
    return EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)


def tiers_of(outcome: str) -> dict[str, str]:
    """What each spot reaches."""
    tie = outcome == "tie"
    return {
        "player": "push" if tie else "win" if outcome == "player" else "lose",
        "banker": "push" if tie else "win" if outcome == "banker" else "lose",
        "tie": "win" if tie else "lose",
    }


def with_other_bytes(event: Recorded[Any], old: bytes, new: bytes) -> Recorded[Any]:
    """The event as somebody changed it in a store, leaving the rest of the stream as it was."""
    assert event.body.count(old) >= 1, f"{old!r} does not stand in {event.body!r}"
    return decode(event.body.replace(old, new, 1))


def _post(ledger: str, party: str | None, currency: str, amount: int) -> Posting:
    return Posting(ledger=ledger, party=party, currency=currency, amount=amount)


def _entry(lines: dict[tuple[str, str | None, str], int]) -> tuple[Posting, ...]:
    return tuple(_post(*line, amount) for line, amount in lines.items() if amount)


def _twentieths(stake: int) -> str:
    whole, rest = divmod(stake, 20)
    if not rest:
        return str(whole)
    common = next(each for each in (10, 5, 4, 2, 1) if stake % each == 0 and 20 % each == 0)
    return f"{stake // common}/{20 // common}"


def _total(cards: list[str]) -> int:
    return sum(WORTH[card[0]] for card in cards) % 10


def _result_of(hands: dict[str, list[str]]) -> dict[str, Any]:
    player, banker = _total(hands["player"]), _total(hands["banker"])
    two = [_total(hand[:2]) for hand in hands.values()]
    return {
        "outcome": "player" if player > banker else "banker" if banker > player else "tie",
        "player_total": player,
        "banker_total": banker,
        "natural": max(two) >= 8,
        "cards": sum(map(len, hands.values())),
    }


def _third_hands(cards: list[str], order: Sequence[str], *, strict: bool = False) -> list[str]:
    """Whose the cards after the fourth are, by Banker's total. Surplus ones go to Banker, unless strict."""
    hands: dict[str, list[str]] = {"player": [], "banker": []}
    for card, hand in zip(cards[:4], order, strict=False):
        hands[hand].append(card)
    player, banker = _total(hands["player"]), _total(hands["banker"])
    third: list[str] = []
    natural = max(player, banker) >= 8
    if not natural and player <= 5:
        third.append("player")
        if len(cards) < 5:
            return third
        drawn = WORTH[cards[4][0]]
        draws = {3: range(10), 4: range(2, 8), 5: range(4, 8), 6: range(6, 8)}.get(banker)
        if banker <= 2 or (draws is not None and drawn in draws and not (banker == 3 and drawn == 8)):
            third.append("banker")
    elif not natural and banker <= 5:
        third.append("banker")
    if not strict:
        third += ["banker"] * (len(cards) - 4 - len(third))
    return third
