"""What the services have recorded already, held against a line that speaks of it.

A line that repeats what is known is no fault. One that says something else of the same transaction, or of the
same coup, cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.commands.wallet import Deposit, PlaceBet
from services.game import store as game_store
from services.game.core.state import CoupKey as GameCoupKey
from services.room.lines import CoupLine, DepositLine, LineError
from services.room.room import Room
from services.wallet import queries as wallet_queries
from services.wallet import store as wallet_store
from services.wallet.core.operations import differing_fields
from services.wallet.core.state import CoupKey, Transaction, TransactionKey

_Known = Mapping[tuple[str, str], Transaction]
"""Transactions by the operator's reference of the account, and their id."""


class Records:
    """Asks game's and wallet's tables, as they are committed."""

    def __init__(self, room: Room) -> None:
        self._room, self._operator = room, room.settings.operator

    def check_deposit(self, line: DepositLine) -> None:
        """Refuse a deposit whose id stands for something else.

        Raises:
            LineError: it does.
        """
        known = self._transactions([(line.account, line.tx)]).get((line.account, line.tx))
        command = Deposit(
            operator=self._operator,
            account=line.account,
            tx=line.tx,
            currency=line.currency,
            amount=line.amount,
        )
        _refuse_conflict(known, command, "")

    def check_coup(self, line: CoupLine) -> bool:
        """Whether the coup is over and paid already, with these very cards and bets.

        Raises:
            LineError: it is known with other cards, at another house or with other bets, or an id of its bets
                stands for something else.
        """
        key = CoupKey(self._operator, line.table, line.shoe, line.coup)
        ended = self._is_over(line, key)
        known = self._transactions([(bet.account, bet.tx) for bet in line.bets])
        for bet in line.bets:
            command = PlaceBet(
                operator=self._operator,
                account=bet.account,
                tx=bet.tx,
                table=line.table,
                shoe=line.shoe,
                coup=line.coup,
                seat=bet.seat,
                spot=bet.spot,
                currency=bet.currency,
                stake=bet.stake,
            )
            _refuse_conflict(known.get((bet.account, bet.tx)), command, f"bets[{bet.index}].")
        return ended and self._is_paid(line, key, known)

    def _transactions(self, asked: Sequence[tuple[str, str]]) -> _Known:
        db = self._room.wallet_reader
        with db.begin():
            ids = wallet_store.find_references(db, [(self._operator, account) for account, _ in asked])
            keys = {
                TransactionKey(ids[self._operator, account], tx): (account, tx)
                for account, tx in asked
                if (self._operator, account) in ids
            }
            found = wallet_store.find_transactions(db, self._room.settings.shard, keys)
        return {keys[key]: transaction for key, transaction in found.items()}

    def _is_over(self, line: CoupLine, key: CoupKey) -> bool:
        game_key = GameCoupKey(*key)
        db = self._room.game_reader
        with db.begin():
            ended = game_store.find_coups(db, [game_key]).get(game_key)
            if ended is None:
                return False
            house = game_store.find_house(db, key.operator, key.table, ended.house_number)
        which = f"coup {line.coup} of shoe {line.shoe!r}"
        if ended.cards != line.cards:
            was = " ".join(ended.cards)
            raise LineError("cards", f"{which} was recorded with other cards: {was}")
        if house is not None and house.id != line.house.id:
            raise LineError("house", f"{which} was recorded at house {house.id!r}")
        return True

    def _is_paid(self, line: CoupLine, key: CoupKey, known: _Known) -> bool:
        db = self._room.wallet_reader
        with db.begin():
            phase = wallet_store.find_coups(db, [key]).get(key, ("open", 0))[0]
            recorded = wallet_queries.bets_of_coup(db, key)
        which = f"coup {line.coup} of shoe {line.shoe!r}"
        for bet in line.bets:
            if (bet.account, bet.tx) not in known:
                words = f"{which} is over and was recorded without this bet"
                raise LineError(f"bets[{bet.index}].tx", words)
        if len(recorded) != len(line.bets):
            raise LineError("bets", f"{which} was recorded with {len(recorded)} bets")
        return phase != "sealed"


def _refuse_conflict(known: Transaction | None, command: Deposit | PlaceBet, path: str) -> None:
    if known is None:
        return
    differing = differing_fields(known.event, command)
    if differing:
        name = "tx" if differing[0] in ("operation", "table", "shoe", "coup") else differing[0]
        words = f"transaction {command.tx!r} was used before with another {', '.join(differing)}"
        raise LineError(path + name, words)
