"""Adds golden events that are missing: ``python -m tests.golden.make``. It never overwrites one.

The events tell of one evening: a table of the big house, one coup with bets that Banker wins, one coup
that is void, and audit's verdicts. What happens is written down here; cards, seed and commitment belong
together, and so do bets, seals, entries and settlements. Hashes come from the bytes of the files that are
there. For a new type of event let something more happen, at the END of its stream: what was written before
stands, and cannot move.
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
from schemas.events.audit import CoupVerified, DiscrepancyFound, Turnover
from schemas.events.base import (
    CoupPayload,
    EventRef,
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
    AccountOpened,
    BetAccepted,
    BetRefused,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
    Deposited,
    LargestPlayerBet,
    ReturnedBet,
    SettledBet,
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
