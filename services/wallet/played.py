"""What a player has staked, lost and deposited so far in the running periods, read from the events.

Only players with limits are counted as they play. When one is met for the first time since the start, this
looks up what he has done since the week or the month began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from schemas.envelope import decode
from schemas.events.accounts import Deposited
from schemas.events.base import wallet_stream
from schemas.events.wallet import BetAccepted, BetRolledBack
from schemas.gamingday import first_day_of, periods_of
from services.runtime.tables import StreamRow, table_of
from services.wallet.core.limits import Play
from services.wallet.store import bodies_of, number_of
from services.wallet.tables import BET, TRANSACTION


def find_plays(db: Connection, shard: str, account: str, day: str) -> dict[str, Play]:
    """By currency, what the account has played in the periods of a gaming day."""
    since = min(first_day_of(day, "week"), first_day_of(day, "month"))
    first = _first_sequence(db, shard, since)
    query = sa.select(TRANSACTION.c.sequence).where(
        TRANSACTION.c.account == account, TRANSACTION.c.sequence >= first
    )
    plays: dict[str, Play] = {}
    days: dict[int, str] = {}
    for body in bodies_of(db, shard, sorted(db.scalars(query))).values():
        event = decode(body)
        data, on = event.data, event.envelope.gamingday
        if not isinstance(data, Deposited | BetAccepted | BetRolledBack):
            continue
        play = plays.setdefault(data.currency, Play())
        play.begin(day)
        match data:
            case Deposited():
                _add(play.deposited, play, on, data.amount)
            case BetRolledBack():
                _add(play.staked, play, on, -data.amount)
            case BetAccepted():
                _add(play.staked, play, on, data.stake)
                days[number_of(data.bet)] = on
                if on == day and (not play.first_bet or event.envelope.time < play.first_bet):
                    play.first_bet = event.envelope.time
    _count_losses(db, days, plays)
    return plays


def _first_sequence(db: Connection, shard: str, since: str) -> int:
    """About the first event of a gaming day or later: sequences rise with time, so halving finds it."""
    stream = table_of(StreamRow)
    low, high = 1, db.scalar(sa.select(stream.c.sequence).where(stream.c.name == wallet_stream(shard))) or 0
    while low < high:
        middle = (low + high) // 2
        body = bodies_of(db, shard, [middle])[middle]
        if decode(body).envelope.gamingday < since:
            low = middle + 1
        else:
            high = middle
    return low


def _add(sums: dict[str, int], play: Play, on: str, amount: int) -> None:
    for name, period in periods_of(on).items():
        if play.periods[name] == period:
            sums[name] += amount


def _count_losses(db: Connection, days: Mapping[int, str], plays: Mapping[str, Play]) -> None:
    # A bet counts for the day on which it was taken: only over a cut-off is that not the day of its
    # settlement.
    for row in _bets(db, days):
        play = plays[row.currency]
        if row.status in ("won", "lost", "push") and row.funding != "free":
            _add(play.lost, play, days[row.number], row.left - row.returned)
        elif row.status == "void":
            _add(play.staked, play, days[row.number], -row.left)
        elif row.status == "open" and row.funding != "free":
            play.in_play += row.left


def _bets(db: Connection, numbers: Iterable[int]) -> Iterable[Any]:
    wanted = list(numbers)
    for start in range(0, len(wanted), 500):
        yield from db.execute(sa.select(BET).where(BET.c.number.in_(wanted[start : start + 500])))
