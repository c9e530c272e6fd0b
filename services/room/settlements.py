"""The settlements file: a row a bet, amounts as decimals in the currency's exponent."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import IO, Final

from schemas.money import format_units
from services.game import store as game_store
from services.game.core.state import CoupKey as GameCoupKey
from services.room.room import Room
from services.wallet.core.state import CoupKey
from services.wallet.queries import BetRecord, bets_of_coup

COLUMNS: Final = (
    "table",
    "shoe",
    "coup",
    "outcome",
    "player_total",
    "banker_total",
    "account",
    "tx",
    "spot",
    "stake",
    "returned",
    "commission",
    "currency",
    "status",
)


class SettlementsFile:
    """Writes rows to an open text file (``newline=""``), the header first."""

    def __init__(self, target: IO[str]) -> None:
        self._writer = csv.writer(target, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def write_coup(self, room: Room, key: CoupKey, order: Sequence[tuple[str, str]]) -> Sequence[BetRecord]:
        """Write the bets of a finished coup, as wallet and game recorded it; returns them.

        ``order`` is that of the rows, by account and transaction. Bets of others come behind, as they came.
        """
        places = {each: place for place, each in reversed(list(enumerate(order)))}
        with room.wallet_reader.begin():
            bets = bets_of_coup(room.wallet_reader, key)
        bets = sorted(bets, key=lambda bet: places.get((bet.account, bet.tx), len(order)))
        with room.game_reader.begin():
            ended = game_store.find_coups(room.game_reader, [GameCoupKey(*key)])[GameCoupKey(*key)]
        void = ended.status == "voided"
        for bet in bets:
            self._writer.writerow(
                (
                    key.table,
                    key.shoe,
                    key.coup,
                    "void" if void else ended.outcome,
                    "" if void else ended.player_total,
                    "" if void else ended.banker_total,
                    bet.account,
                    bet.tx,
                    bet.spot,
                    format_units(bet.stake, bet.exponent),
                    format_units(bet.returned, bet.exponent),
                    format_units(bet.commission, bet.exponent),
                    bet.currency,
                    bet.status,
                )
            )
        return bets
