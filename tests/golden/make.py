"""Adds golden events that are missing: ``python -m tests.golden.make``. It never overwrites one.

The events tell of one evening: a table of the big house, one coup with bets that Banker wins, one coup
that is void, and audit's verdicts; then a second table, of recorded cards, with a coup that is corrected and
one that is void after it was paid, and all that moves money beside the tables. What happens is written down
here; cards, seed and commitment belong together, and so do bets, seals, entries and settlements. Hashes come
from the bytes of the files that are there. For a new type of event let something more happen, at the END of
its stream: what was written before stands, and cannot move.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from schemas.envelope import FIRST_PREVIOUS, Recorded, decode, encode, hash_of
from schemas.events.accounts import (
    AccountFrozen,
    AccountOpened,
    AccountReleased,
    Adjusted,
    AdjustmentDeclined,
    AdjustmentProposed,
    ChargedBack,
    CommissionCollected,
    Deposited,
    FreeBetGranted,
    FreeBetWithdrawn,
    FundsHeld,
    FundsSegregated,
    HoldReleased,
    HouseFunded,
    LimitSet,
    PaymentSettled,
    ReceivableRecovered,
    SelfExcluded,
    Tipped,
    TombstoneCreated,
    TransactionRefused,
    WithdrawalApproved,
    WithdrawalPaid,
    WithdrawalRejected,
    WithdrawalRequested,
    WithdrawalReturned,
)
from schemas.events.audit import CoupVerified, DiscrepancyFound, Turnover
from schemas.events.base import (
    CoupPayload,
    EventRef,
    Hand,
    Payload,
    Posting,
    audit_stream,
    game_stream,
    wallet_stream,
)
from schemas.events.game import (
    BettingClosed,
    CardBurned,
    CardDealt,
    CardsToSqueeze,
    CoupConcluded,
    CoupCorrected,
    CoupOpened,
    CoupVoided,
    DealtCard,
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
    BetRolledBack,
    BetsSealed,
    CallAnswered,
    ConflictDetected,
    CorrectedBet,
    CoupReturned,
    CoupSettled,
    DebitRequested,
    Funding,
    LargestPlayerBet,
    ReturnedBet,
    SettledBet,
    SettlementCorrected,
    Shortfall,
    SpotTotal,
)
from schemas.house import shipped_houses
from tests.golden import EVENTS_FOLDER, MANIFEST

OPERATOR, TABLE, SHARD, SHOE = "nordic", "T1", "main", "2026-01-15-1"
ADA, BO = "a5jvqpzgm7xk2wdhe", "ah3tnc6u4rlysb2fo"
AT_TABLE: dict[str, Any] = {"operator": OPERATOR, "table": TABLE}
AT_SHOE: dict[str, Any] = {**AT_TABLE, "shoe": SHOE}
EUROS: dict[str, Any] = {"currency": "EUR", "exponent": 2}

SEED = "100f19d57bad6d27b51d2434ea84c9da8c13cb0f531591ec593639bebf8e57ed"
COMMITMENT = "ea4cb073f517d67acdb4e1004810d0aa73a53b03e3241408ce7efa006923832a"
ENTROPY = "seat3-164"


@dataclass
class Album:
    """The golden events: those that are there, and those that are added."""

    folder: Path
    added: list[str] = field(default_factory=list)
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    _numbers: Counter[str] = field(default_factory=Counter)
    _count: int = 0

    def add(self, payload: Payload, cause: str | Recorded[Any]) -> Recorded[Any]:
        """The event that says this: from its file, or else written to a new one.

        Raises:
            ValueError: the file says something else. It is right, and this script is wrong.
        """
        self._count += 1
        self._numbers[payload.type_name()] += 1
        number = self._numbers[payload.type_name()]
        path = self.folder / f"{payload.type_name()}{'' if number == 1 else f'.{number}'}.json"
        stream = _stream(payload)
        sequence, previous = self._heads.get(stream, (0, FIRST_PREVIOUS))
        if path.exists():
            event = decode(path.read_bytes())
            if (event.stream, event.sequence, event.data) != (stream, sequence + 1, payload):
                raise ValueError(
                    f"{path.name} says something else: add at the end of the stream, nowhere else"
                )
        else:
            event = self._encoded(payload, cause, stream, sequence + 1, previous)
            path.write_bytes(event.body)
            self.added.append(path.name)
        self._heads[stream] = (event.sequence, event.hash)
        return event

    def _encoded(
        self, payload: Payload, cause: str | Recorded[Any], stream: str, sequence: int, previous: str
    ) -> Recorded[Any]:
        moment = datetime(2026, 1, 15, 20, 0, tzinfo=UTC) + timedelta(milliseconds=1_375 * self._count)
        if isinstance(cause, str):
            causation = correlation = cause
        else:
            causation, correlation = cause.envelope.id, cause.envelope.correlationid
        if isinstance(payload, CoupPayload):
            correlation = f"{payload.operator}/{payload.table}/{payload.shoe}/{payload.coup}"
        return encode(
            payload,
            source=f"sabot/{stream.partition('/')[0]}",
            stream=stream,
            sequence=sequence,
            previous=previous,
            time=moment.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            gamingday="2026-01-15",
            causationid=causation,
            correlationid=correlation,
        )


def _stream(payload: Payload) -> str:
    match payload.NAME.split(".")[1]:
        case "game":
            return game_stream(payload.operator, payload.table)  # type: ignore[attr-defined]
        case "wallet":
            return wallet_stream(SHARD)
        case service:
            assert service == "audit", f"whose event is {payload.NAME}?"
            return audit_stream(payload.operator)


def ref(event: Recorded[Any]) -> EventRef:
    """The event's place and hash."""
    return EventRef(stream=event.stream, sequence=event.sequence, hash=event.hash)


def posting(ledger: str, party: str | None, amount: int) -> Posting:
    return Posting(ledger=ledger, party=party, currency="EUR", amount=amount)


# --------------------------------------------------------------------------------------------- the evening


def tell(album: Album) -> None:
    """The whole evening, in the order in which it happened."""
    _opening(album)
    _deposits(album)
    _first_coup(album)
    _second_coup(album)
    _closing(album)
    _house_money(album)
    _second_table(album)
    _corrected_coup(album)
    _coup_of_all_funds(album)
    _accounts(album)


def _opening(album: Album) -> None:
    add = album.add
    house = shipped_houses()["lt"]
    add(TableOpened(**AT_TABLE, shard=SHARD, seats=12, source="virtual"), "c-open-table")
    add(HouseSet(**AT_TABLE, house_number=1, house=house), "c-open-table")
    add(SeatTaken(**AT_TABLE, seat=3), "c-sit-3")
    add(SeatTaken(**AT_TABLE, seat=7), "c-sit-7")
    add(ShoeCommitted(**AT_SHOE, scheme="bacfair/1", decks=8, commitment=COMMITMENT), "c-commit")
    add(EntropyTaken(**AT_SHOE, kind=1, entropy=ENTROPY), "c-load")
    add(ShoeLoaded(**AT_SHOE, decks=8, source="virtual", cut_cards_from_end=14), "c-load")
    add(CardBurned(**AT_SHOE, index=1, card="AH"), "c-load")
    add(CardBurned(**AT_SHOE, index=2, card=None), "c-load")
    add(ShoePassed(**AT_SHOE, from_seat=None, to_seat=3, reason="first_dealer"), "c-load")


def _deposits(album: Album) -> None:
    for account, tx, amount in ((ADA, "psp-1", 50_000), (BO, "psp-2", 20_000)):
        album.add(AccountOpened(operator=OPERATOR, account=account), f"c-{tx}")
        album.add(
            Deposited(
                operator=OPERATOR,
                account=account,
                tx=tx,
                **EUROS,
                amount=amount,
                entry=(posting("1030", None, amount), posting("2010", account, -amount)),
            ),
            f"c-{tx}",
        )


def _stake(
    album: Album, coup: dict[str, Any], bet: int, *, account: str, seat: int, spot: str, stake: int
) -> Recorded[Any]:
    return album.add(
        BetAccepted(
            **coup,
            bet=f"{SHARD}.{bet}",
            account=account,
            tx=f"bet-{bet}",
            seat=seat,
            spot=spot,
            **EUROS,
            stake=stake,
            entry=(posting("2010", account, stake), posting("2030", f"{SHARD}.{bet}", -stake)),
        ),
        f"c-bet-{bet}",
    )


def _first_coup(album: Album) -> None:
    """Banker has a natural 8 against 2, and wins; the commission falls between two cents."""
    add, coup = album.add, {**AT_SHOE, "coup": 1}
    spots = ("player", "banker", "tie")
    add(CoupOpened(**coup, house_number=1, spots=spots, dealer_seat=3, video="cam4/0512"), "c-open-1")
    first = _stake(album, coup, 1, account=ADA, seat=3, spot="banker", stake=1_010)
    last = _stake(album, coup, 2, account=BO, seat=7, spot="player", stake=2_500)
    add(
        BetRefused(
            **coup,
            bet=f"{SHARD}.3",
            account=BO,
            tx="bet-3",
            seat=7,
            spot="tie",
            **EUROS,
            stake=100_000,
            code="INSUFFICIENT_FUNDS",
        ),
        "c-bet-3",
    )
    add(
        ConflictDetected(operator=OPERATOR, kind="idempotency", account=BO, tx="bet-2", fields=("stake",)),
        "c-bet-2-again",
    )
    closed = add(BettingClosed(**coup), "c-close-1")
    seal = add(
        BetsSealed(
            **coup,
            first=first.sequence,
            last=last.sequence,
            bets=2,
            totals=(
                SpotTotal(spot="banker", **EUROS, bets=1, stake=1_010),
                SpotTotal(spot="player", **EUROS, bets=1, stake=2_500),
            ),
            largest_player=(LargestPlayerBet(**EUROS, stake=2_500, seats=(7,)),),
            digest=last.hash,
        ),
        closed,
    )
    by = ref(seal)
    add(CardDealt(**coup, seal=by, index=3, hand="banker", position=1, card="4C"), seal)
    add(CardDealt(**coup, seal=by, index=4, hand="banker", position=2, card="4S"), seal)
    add(CardDealt(**coup, seal=by, index=5, hand="player", position=1, card="7S"), seal)
    add(CardDealt(**coup, seal=by, index=6, hand="player", position=2, card="5C"), seal)
    add(CardsToSqueeze(**coup, seat=7), seal)
    result = add(
        CoupConcluded(
            **coup,
            version=1,
            outcome="banker",
            player_total=2,
            banker_total=8,
            natural=True,
            cards=4,
            tiers={"player": "lose", "banker": "win", "tie": "lose"},
        ),
        seal,
    )
    settlement = add(_settlement(coup, ref(result)), result)
    add(
        CoupVerified(
            **coup,
            status="settled",
            version=1,
            outcome="banker",
            cards=("4C", "4S", "7S", "5C"),
            bets=2,
            turnover=(Turnover(**EUROS, staked=3_510, returned=1_969, commission=51),),
            result=ref(result),
            settlement=ref(settlement),
        ),
        settlement,
    )


def _settlement(coup: dict[str, Any], result: EventRef) -> CoupSettled:
    """1010 on Banker wins 1010 less 5 %: 50.5 cents, of which the house keeps 51."""
    return CoupSettled(
        **coup,
        version=1,
        result=result,
        house_number=1,
        outcome="banker",
        part=1,
        parts=1,
        bets=(
            SettledBet(
                bet=f"{SHARD}.1",
                account=ADA,
                spot="banker",
                tier="win",
                **EUROS,
                stake=1_010,
                returned=1_969,
                commission=51,
                commission_exact="101/2",
            ),
            SettledBet(
                bet=f"{SHARD}.2",
                account=BO,
                spot="player",
                tier="lose",
                **EUROS,
                stake=2_500,
                returned=0,
                commission=0,
                commission_exact="0",
            ),
        ),
        entry=(
            posting("2030", f"{SHARD}.1", 1_010),
            posting("2010", ADA, -1_969),
            posting("4020", None, -51),
            posting("4011", None, 1_010),
            posting("2030", f"{SHARD}.2", 2_500),
            posting("4010", None, -2_500),
        ),
    )


def _second_coup(album: Album) -> None:
    """Void before a card was dealt: the stake goes back."""
    add, coup = album.add, {**AT_SHOE, "coup": 2}
    spots = ("player", "banker", "tie")
    add(CoupOpened(**coup, house_number=1, spots=spots, dealer_seat=3, dealer="d41"), "c-open-2")
    _stake(album, coup, 4, account=BO, seat=7, spot="tie", stake=500)
    voided = add(CoupVoided(**coup, reason="a card was exposed", approver="p17"), "c-void-2")
    returned = add(
        CoupReturned(
            **coup,
            result=ref(voided),
            reason="a card was exposed",
            part=1,
            parts=1,
            bets=(ReturnedBet(bet=f"{SHARD}.4", account=BO, spot="tie", **EUROS, stake=500),),
            entry=(posting("2030", f"{SHARD}.4", 500), posting("2010", BO, -500)),
        ),
        voided,
    )
    add(
        CoupVerified(
            **coup,
            status="void",
            version=1,
            outcome=None,
            cards=(),
            bets=1,
            turnover=(Turnover(**EUROS, staked=500, returned=500, commission=0),),
            result=ref(voided),
            settlement=ref(returned),
        ),
        returned,
    )
    _finding(album, returned)


def _finding(album: Album, cause: Recorded[Any]) -> None:
    """About another table, whose events are not here: this evening was in order."""
    album.add(
        DiscrepancyFound(
            operator=OPERATOR,
            check="tableau",
            stream=game_stream(OPERATOR, "T9"),
            sequence=214,
            table="T9",
            shoe="2026-01-15-4",
            coup=12,
            recorded="banker has 3 cards",
            expected="banker has 2 cards",
            words="Banker drew a card on 7.",
        ),
        cause,
    )


def _closing(album: Album) -> None:
    add = album.add
    add(SeatLeft(**AT_TABLE, seat=7), "c-leave-7")
    add(ShoeEnded(**AT_SHOE, reason="table_closed", cards_out=6, seed=SEED), "c-close-table")
    add(TableClosed(**AT_TABLE, reason="end of the evening"), "c-close-table")


# ------------------------------------------------------------------------------------ the second table


SECOND_TABLE: dict[str, Any] = {"operator": OPERATOR, "table": "T2"}
SECOND_SHOE: dict[str, Any] = {**SECOND_TABLE, "shoe": "2026-01-15-2"}
CY = "ac9w2kfq7m4xhjtzd"
"""Plays with what he has at the operator's own wallet."""
SPOTS = ("player", "banker", "tie")


def _house_money(album: Album) -> None:
    """The house's own money, and what the payment provider paid out of the deposits."""
    house: dict[str, Any] = {"operator": OPERATOR, **EUROS, "by": "key:treasury"}
    amount = 1_000_000
    entry = (posting("1020", None, amount), posting("3010", None, -amount))
    album.add(HouseFunded(**house, tx="fund-1", amount=amount, entry=entry), "c-fund-1")
    net = (
        posting("1010", None, 70_000),
        posting("5030", None, 1_050),
        posting("1030", None, -70_000),
        posting("1020", None, -1_050),
    )
    album.add(PaymentSettled(**house, tx="psp-day", amount=70_000, fee=1_050, entry=net), "c-psp-day")
    entry = (posting("1010", None, 9_500), posting("1020", None, -9_500))
    album.add(
        FundsSegregated(**house, tx="segregate-1", amount=9_500, direction="to_players", entry=entry),
        "c-segregate-1",
    )


def _second_table(album: Album) -> None:
    add = album.add
    add(TableOpened(**SECOND_TABLE, shard=SHARD, seats=7, source="recorded"), "c-open-table-2")
    add(HouseSet(**SECOND_TABLE, house_number=1, house=shipped_houses()["nl"]), "c-open-table-2")
    add(AccountOpened(operator=OPERATOR, account=CY), "c-open-cy")


def _second_seal(album: Album, coup: dict[str, Any], bets: list[Recorded[Any]]) -> EventRef:
    """Betting closes, and wallet seals these bets, no two of which are on one spot of one seat."""
    add = album.add
    closed = add(BettingClosed(**coup), f"c-close-2-{coup['coup']}")
    on_player = [bet.data for bet in bets if bet.data.spot == "player"]
    totals = {spot: [bet.data.stake for bet in bets if bet.data.spot == spot] for spot in sorted(SPOTS)}
    seal = add(
        BetsSealed(
            **coup,
            first=bets[0].sequence,
            last=bets[-1].sequence,
            bets=len(bets),
            totals=tuple(
                SpotTotal(spot=spot, **EUROS, bets=len(stakes), stake=sum(stakes))
                for spot, stakes in totals.items()
                if stakes
            ),
            largest_player=tuple(
                LargestPlayerBet(**EUROS, stake=each.stake, seats=(each.seat,)) for each in on_player
            ),
            digest=bets[-1].hash,
        ),
        closed,
    )
    return ref(seal)


def _second_cards(
    album: Album, coup: dict[str, Any], seal: EventRef, first: int, cards: tuple[str, ...]
) -> None:
    """Four cards: the first and the third are Player's."""
    hands: tuple[tuple[Hand, int], ...] = (("player", 1), ("banker", 1), ("player", 2), ("banker", 2))
    for index, ((hand, position), card) in enumerate(zip(hands, cards, strict=True), start=first):
        album.add(
            CardDealt(**coup, seal=seal, index=index, hand=hand, position=position, card=card),
            f"{seal.stream}/{seal.sequence}",
        )


def _corrected_coup(album: Album) -> None:
    """Banker's 9 against 8 was a tie: the 9 of spades was read as an 8 (wallet reference, 12b to 12d)."""
    add, coup = album.add, {**SECOND_SHOE, "coup": 1}
    add(ShoeLoaded(**SECOND_SHOE, decks=8, source="recorded", cut_cards_from_end=None), "c-open-2-1")
    add(CoupOpened(**coup, house_number=1, spots=SPOTS, dealer_seat=None, dealer="d41"), "c-open-2-1")
    bets = [
        _stake(album, coup, 5, account=ADA, seat=1, spot="banker", stake=10_000),
        _stake(album, coup, 6, account=BO, seat=2, spot="player", stake=10_000),
        _stake(album, coup, 7, account=ADA, seat=1, spot="tie", stake=1_000),
    ]
    seal = _second_seal(album, coup, bets)
    _second_cards(album, coup, seal, 1, ("8S", "9D", "KC", "KH"))
    result = add(
        CoupConcluded(
            **coup,
            version=1,
            outcome="banker",
            player_total=8,
            banker_total=9,
            natural=True,
            cards=4,
            tiers={"player": "lose", "banker": "win", "tie": "lose"},
        ),
        f"{seal.stream}/{seal.sequence}",
    )
    settlement = add(_settlement_of_banker(coup, ref(result)), result)
    add(
        CoupVerified(
            **coup,
            status="settled",
            version=1,
            outcome="banker",
            cards=("8S", "9D", "KC", "KH"),
            bets=3,
            turnover=(Turnover(**EUROS, staked=21_000, returned=19_500, commission=500),),
            result=ref(result),
            settlement=ref(settlement),
        ),
        settlement,
    )
    corrected = add(
        CoupCorrected(
            **coup,
            version=2,
            corrects=ref(result),
            outcome="tie",
            player_total=9,
            banker_total=9,
            natural=True,
            hands=(
                DealtCard(hand="player", position=1, card="9S"),
                DealtCard(hand="banker", position=1, card="9D"),
                DealtCard(hand="player", position=2, card="KC"),
                DealtCard(hand="banker", position=2, card="KH"),
            ),
            tiers={"player": "push", "banker": "push", "tie": "win"},
            reason="the 9 of spades was read as an 8",
            initiator="key:floor-2",
            approver="p17",
        ),
        "c-correct-2-1",
    )
    add(_correction_to_tie(coup, ref(corrected), ref(result)), corrected)


def _settlement_of_banker(coup: dict[str, Any], result: EventRef) -> CoupSettled:
    """Postings 4 and 6."""
    rows = (
        ("5", ADA, 1, "banker", "win", 10_000, 19_500, 500),
        ("6", BO, 2, "player", "lose", 10_000, 0, 0),
        ("7", ADA, 1, "tie", "lose", 1_000, 0, 0),
    )
    return CoupSettled(
        **coup,
        version=1,
        result=result,
        house_number=1,
        outcome="banker",
        part=1,
        parts=1,
        bets=tuple(
            SettledBet(
                bet=f"{SHARD}.{number}",
                account=account,
                seat=seat,
                spot=spot,
                tier=tier,
                **EUROS,
                stake=stake,
                returned=returned,
                commission=commission,
                commission_exact=str(commission),
            )
            for number, account, seat, spot, tier, stake, returned, commission in rows
        ),
        entry=(
            posting("2030", f"{SHARD}.5", 10_000),
            posting("4011", None, 10_000),
            posting("2010", ADA, -19_500),
            posting("4020", None, -500),
            posting("2030", f"{SHARD}.6", 10_000),
            posting("4010", None, -10_000),
            posting("2030", f"{SHARD}.7", 1_000),
            posting("4012", None, -1_000),
        ),
    )


def _paid(tier: str, returned: int, commission: int = 0, *, deferred: bool = False) -> BetResult:
    return BetResult(
        tier=tier,
        returned=returned,
        commission=commission,
        commission_exact=str(commission),
        deferred=deferred,
    )


def _correction_to_tie(coup: dict[str, Any], result: EventRef, before: EventRef) -> SettlementCorrected:
    """Postings 12b, 12c and 12d in one entry: what comes to nothing in it is left out."""
    rows = (
        ("5", ADA, 1, "banker", 10_000, _paid("win", 19_500, 500), _paid("push", 10_000)),
        ("6", BO, 2, "player", 10_000, _paid("lose", 0), _paid("push", 10_000)),
        ("7", ADA, 1, "tie", 1_000, _paid("lose", 0), _paid("win", 9_000)),
    )
    return SettlementCorrected(
        **coup,
        version=2,
        result=result,
        corrects=before,
        house_number=1,
        outcome="tie",
        reason="the 9 of spades was read as an 8",
        approver="p17",
        part=1,
        parts=1,
        bets=tuple(
            CorrectedBet(
                bet=f"{SHARD}.{number}",
                account=account,
                spot=spot,
                seat=seat,
                **EUROS,
                stake=stake,
                funding="cash",
                before=paid,
                after=due,
            )
            for number, account, seat, spot, stake, paid, due in rows
        ),
        shortfalls=(),
        entry=(
            posting("4011", None, -10_000),
            posting("2010", ADA, 500),
            posting("4020", None, 500),
            posting("4010", None, 10_000),
            posting("2010", BO, -10_000),
            posting("4012", None, 9_000),
        ),
    )


def _coup_of_all_funds(album: Album) -> None:
    """Stakes from the operator's wallet, cash and a gift; commission is marked and collected; one is taken
    back."""
    add, coup = album.add, {**SECOND_SHOE, "coup": 2}
    nl = shipped_houses()["nl"]
    deferred = nl.commission.model_copy(update={"collection": "deferred"})
    house = nl.model_copy(update={"version": 2, "commission": deferred})
    add(HouseSet(**SECOND_TABLE, house_number=2, house=house), "c-house-2")
    add(CoupOpened(**coup, house_number=2, spots=SPOTS, dealer_seat=None, dealer="d41"), "c-open-2-2")
    sealed = [_seamless_stake(album, coup)]
    sealed.append(_stake(album, coup, 9, account=BO, seat=2, spot="banker", stake=10_000))
    sealed.append(_free_stake(album, coup))
    _stake(album, coup, 11, account=ADA, seat=1, spot="player", stake=2_500)
    add(
        BetRolledBack(
            **coup,
            bet=f"{SHARD}.11",
            account=ADA,
            tx="back-11",
            target="bet-11",
            spot="player",
            **EUROS,
            amount=2_500,
            left=0,
            funding="cash",
            reason="requested",
            entry=(posting("2030", f"{SHARD}.11", 2_500), posting("2010", ADA, -2_500)),
        ),
        "c-back-11",
    )
    add(TombstoneCreated(operator=OPERATOR, account=ADA, tx="back-12", target="bet-12"), "c-back-12")
    seal = _second_seal(album, coup, sealed)
    _second_cards(album, coup, seal, 5, ("8C", "9C", "KD", "QH"))
    result = add(
        CoupConcluded(
            **coup,
            version=1,
            outcome="banker",
            player_total=8,
            banker_total=9,
            natural=True,
            cards=4,
            tiers={"player": "lose", "banker": "win", "tie": "lose"},
        ),
        f"{seal.stream}/{seal.sequence}",
    )
    settlement = add(_settlement_of_all_funds(coup, ref(result)), result)
    add(
        CallAnswered(operator=OPERATOR, call=f"{SHARD}.8/1", account=CY, status="done", code="OK"), settlement
    )
    add(
        CommissionCollected(
            operator=OPERATOR,
            account=BO,
            tx="collect-1",
            **EUROS,
            amount=500,
            table=coup["table"],
            seat=2,
            shortfall=0,
            reason="request",
            entry=(posting("2010", BO, 500), posting("1065", BO, -500)),
        ),
        "c-collect-1",
    )
    _withdrawals(album)
    _void_of_all_funds(album, coup, result)


def _seamless_stake(album: Album, coup: dict[str, Any]) -> Recorded[Any]:
    """Posting 17: the operator's wallet is asked first."""
    bet: dict[str, Any] = {
        **coup,
        "bet": f"{SHARD}.8",
        "account": CY,
        "tx": "bet-8",
        "seat": 4,
        "spot": "banker",
        **EUROS,
        "stake": 10_000,
    }
    asked = album.add(DebitRequested(**bet), "c-bet-8")
    album.add(
        CallAnswered(operator=OPERATOR, call=f"{SHARD}.8/debit", account=CY, status="done", code="OK"), asked
    )
    entry = (posting("1050", None, 10_000), posting("2030", f"{SHARD}.8", -10_000))
    return album.add(BetAccepted(**bet, entry=entry, funding="operator"), asked)


def _free_stake(album: Album, coup: dict[str, Any]) -> Recorded[Any]:
    """Postings 13 and 13b."""
    album.add(
        FreeBetGranted(
            operator=OPERATOR,
            account=ADA,
            tx="gift-1",
            **EUROS,
            amount=1_000,
            grant="gift.1",
            campaign="january",
            by="key:marketing",
            entry=(posting("5010", None, 1_000), posting("2020", ADA, -1_000)),
        ),
        "c-gift-1",
    )
    return album.add(
        BetAccepted(
            **coup,
            bet=f"{SHARD}.10",
            account=ADA,
            tx="bet-10",
            seat=1,
            spot="banker",
            **EUROS,
            stake=1_000,
            funding="free",
            grant="gift.1",
            entry=(posting("2020", ADA, 1_000), posting("2030", f"{SHARD}.10", -1_000)),
        ),
        "c-bet-10",
    )


def _settlement_of_all_funds(coup: dict[str, Any], result: EventRef) -> CoupSettled:
    """Postings 17b, 4d and 13c."""
    rows: tuple[tuple[str, str, int, int, int, int, Funding], ...] = (
        ("8", CY, 4, 10_000, 19_500, 500, "operator"),
        ("9", BO, 2, 10_000, 20_000, 500, "cash"),
        ("10", ADA, 1, 1_000, 950, 50, "free"),
    )
    return CoupSettled(
        **coup,
        version=1,
        result=result,
        house_number=2,
        outcome="banker",
        part=1,
        parts=1,
        bets=tuple(
            SettledBet(
                bet=f"{SHARD}.{number}",
                account=account,
                seat=seat,
                spot="banker",
                tier="win",
                **EUROS,
                stake=stake,
                returned=returned,
                commission=commission,
                commission_exact=str(commission),
                funding=funding,
                deferred=funding == "cash",
            )
            for number, account, seat, stake, returned, commission, funding in rows
        ),
        entry=(
            posting("2030", f"{SHARD}.8", 10_000),
            posting("4011", None, 21_000),
            posting("1050", None, -19_500),
            posting("4020", None, -1_050),
            posting("2030", f"{SHARD}.9", 10_000),
            posting("1065", BO, 500),
            posting("2010", BO, -20_000),
            posting("2030", f"{SHARD}.10", 1_000),
            posting("2010", ADA, -950),
            posting("5010", None, -1_000),
        ),
    )


def _withdrawals(album: Album) -> None:
    """One is paid, one is not approved, and one comes back from the bank."""
    add = album.add
    for number, amount in ((1, 20_000), (2, 3_000), (3, 5_000)):
        name = f"w.{number}"
        of_account: dict[str, Any] = {
            "operator": OPERATOR,
            "account": BO,
            **EUROS,
            "amount": amount,
            "withdrawal": name,
        }
        entry = (posting("2010", BO, amount), posting("2040", name, -amount))
        add(WithdrawalRequested(**of_account, tx=f"out-{number}", entry=entry), f"c-out-{number}")
        if number == 2:
            entry = (posting("2040", name, amount), posting("2010", BO, -amount))
            rejected = WithdrawalRejected(
                **of_account, tx="reject-2", approver="p17", reason="no proof of address", entry=entry
            )
            add(rejected, "c-reject-2")
            continue
        entry = (posting("2040", name, amount), posting("1040", None, -amount))
        approved = WithdrawalApproved(**of_account, tx=f"approve-{number}", approver="p17", entry=entry)
        add(approved, f"c-approve-{number}")
        entry = (posting("1040", None, amount), posting("1010", None, -amount))
        add(WithdrawalPaid(**of_account, tx=f"pay-{number}", by="key:bank", entry=entry), f"c-pay-{number}")
        if number == 3:
            entry = (posting("1010", None, amount), posting("2010", BO, -amount))
            returned = WithdrawalReturned(
                **of_account, tx="return-3", reason="account closed", by="key:bank", entry=entry
            )
            add(returned, "c-return-3")
    add(
        TransactionRefused(
            operator=OPERATOR,
            account=BO,
            tx="out-4",
            operation="withdrawal",
            asked={"currency": "EUR", "amount": 90_000},
            code="INSUFFICIENT_FUNDS",
            field="amount",
        ),
        "c-out-4",
    )


def _void_of_all_funds(album: Album, coup: dict[str, Any], result: Recorded[Any]) -> None:
    """The coup that was paid is void. BO has 7,000 left of the 9,500 that he must give back (10b)."""
    voided = album.add(
        CoupVoided(
            **coup,
            reason="the shoe was marked",
            approver="p17",
            corrects=ref(result),
            version=2,
            initiator="key:floor-2",
        ),
        "c-void-2-2",
    )
    rows: tuple[tuple[str, str, int, int, Funding, BetResult, BetResult], ...] = (
        ("8", CY, 4, 10_000, "operator", _paid("win", 19_500, 500), _paid("void", 10_000)),
        ("9", BO, 2, 10_000, "cash", _paid("win", 20_000, 500, deferred=True), _paid("void", 10_000)),
        ("10", ADA, 1, 1_000, "free", _paid("win", 950, 50), _paid("void", 0)),
    )
    corrected = album.add(
        SettlementCorrected(
            **coup,
            version=2,
            result=ref(voided),
            corrects=ref(result),
            house_number=2,
            outcome=None,
            reason="the shoe was marked",
            approver="p17",
            part=1,
            parts=1,
            bets=tuple(
                CorrectedBet(
                    bet=f"{SHARD}.{number}",
                    account=account,
                    spot="banker",
                    seat=seat,
                    **EUROS,
                    stake=stake,
                    funding=funding,
                    before=paid,
                    after=due,
                )
                for number, account, seat, stake, funding, paid, due in rows
            ),
            shortfalls=(Shortfall(account=BO, currency="EUR", amount=2_500),),
            entry=(
                posting("4011", None, -21_000),
                posting("1050", None, 9_500),
                posting("4020", None, 1_050),
                posting("2010", BO, 7_000),
                posting("2010", ADA, 950),
                posting("5010", None, 1_000),
                posting("2020", ADA, -1_000),
                posting("1060", BO, 2_500),
            ),
        ),
        voided,
    )
    album.add(
        CallAnswered(
            operator=OPERATOR,
            call=f"{SHARD}.8/2",
            account=CY,
            status="pending_recovery",
            code="INSUFFICIENT_FUNDS",
        ),
        corrected,
    )


def _accounts(album: Album) -> None:
    """What happens to accounts beside the tables."""
    add = album.add
    staff: dict[str, Any] = {"operator": OPERATOR, **EUROS}
    add(
        FreeBetWithdrawn(
            **staff,
            account=ADA,
            tx="gift-end-1",
            amount=1_000,
            grant="gift.1",
            reason="expired",
            by="key:marketing",
            entry=(posting("2020", ADA, 1_000), posting("5010", None, -1_000)),
        ),
        "c-gift-end-1",
    )
    add(
        Deposited(
            **staff,
            account=BO,
            tx="psp-3",
            amount=3_000,
            entry=(posting("1030", None, 3_000), posting("2010", BO, -3_000)),
        ),
        "c-psp-3",
    )
    add(
        ReceivableRecovered(
            **staff,
            account=BO,
            tx="owed-1",
            amount=2_500,
            by="key:cage",
            entry=(posting("2010", BO, 2_500), posting("1060", BO, -2_500)),
        ),
        "c-owed-1",
    )
    add(
        ChargedBack(
            **staff,
            account=BO,
            tx="chargeback-1",
            amount=20_000,
            shortfall=19_500,
            reason="the card was stolen",
            by="key:psp",
            entry=(posting("2010", BO, 500), posting("1060", BO, 19_500), posting("1030", None, -20_000)),
        ),
        "c-chargeback-1",
    )
    reason, by = "chargeback of psp-2", "p17"
    add(AccountFrozen(operator=OPERATOR, account=BO, tx="freeze-1", reason=reason, by=by), "c-freeze-1")
    add(AccountReleased(operator=OPERATOR, account=BO, tx="free-1", reason="he paid", by=by), "c-free-1")
    _adjustments(album)
    tip = (posting("2010", ADA, 200), posting("2080", None, -200))
    add(Tipped(**staff, account=ADA, tx="tip-1", amount=200, table="T2", dealer="d41", entry=tip), "c-tip-1")
    held: dict[str, Any] = {**staff, "account": ADA, "amount": 3_000, "hold": "h.1", "by": "key:risk"}
    entry = (posting("2010", ADA, 3_000), posting("2090", "h.1", -3_000))
    add(
        FundsHeld(**held, tx="hold-1", kind="dispute", reason="coup 2", expires="2026-02-15", entry=entry),
        "c-hold-1",
    )
    entry = (posting("2090", "h.1", 3_000), posting("2010", ADA, -3_000))
    add(HoldReleased(**held, tx="release-1", reason="settled", entry=entry), "c-release-1")
    add(
        LimitSet(
            **staff,
            account=ADA,
            tx="limit-1",
            kind="loss",
            period="day",
            value=50_000,
            before=None,
            effective="2026-01-15",
            by=ADA,
        ),
        "c-limit-1",
    )
    add(SelfExcluded(operator=OPERATOR, account=CY, tx="exclude-1", until="2026-07-15", by=CY), "c-exclude-1")


def _adjustments(album: Album) -> None:
    """One is made, and one is not."""
    for number, amount, reason in ((1, 2_000, "a spoiled evening"), (2, 9_000, "another one")):
        asked: dict[str, Any] = {
            "operator": OPERATOR,
            "account": ADA,
            "tx": f"adjust-{number}",
            **EUROS,
            "amount": amount,
            "direction": "credit",
            "reason": reason,
            "initiator": "key:floor-2",
        }
        cause = album.add(AdjustmentProposed(**asked), f"c-adjust-{number}")
        entry = (posting("5020", None, amount), posting("2010", ADA, -amount))
        album.add(
            Adjusted(**asked, approver="p17", decision="decide-1", entry=entry)
            if number == 1
            else AdjustmentDeclined(
                operator=OPERATOR,
                account=ADA,
                tx=f"adjust-{number}",
                decision="decide-2",
                reason="once is enough",
                approver="p17",
            ),
            cause,
        )


# ---------------------------------------------------------------------------------------------- the files


def extend(folder: Path, manifest: Path) -> list[str]:
    """Add what is missing to the folder and to the manifest. Returns the names of the files added.

    Raises:
        ValueError: a file of the manifest is not there. It was written once and cannot be written again.
    """
    known: dict[str, str] = json.loads(manifest.read_text("utf-8")) if manifest.exists() else {}
    lost = [name for name in known if not (folder / name).exists()]
    if lost:
        raise ValueError(f"golden events are gone, restore them with git: {', '.join(lost)}")
    album = Album(folder)
    tell(album)
    if album.added:
        known |= {name: hash_of((folder / name).read_bytes()) for name in album.added}
        manifest.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", "utf-8", newline="\n")
    return album.added


if __name__ == "__main__":
    EVENTS_FOLDER.mkdir(exist_ok=True)
    for added in extend(EVENTS_FOLDER, MANIFEST):
        print(f"added {added}", file=sys.stderr)
