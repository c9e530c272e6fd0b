"""The faults that can be switched on in the sandbox: one table of data. ``faulty`` and ``api`` make them.

Each is one that somebody's wallet had. ``sabot certify`` finds every one of them, and says by which scenario.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

FAULTS: Final[dict[str, str]] = {
    # time and transport
    "slow": "waits before every answer to a movement (--delay-ms)",
    "timeout-after-commit": "carries movements out and never answers",
    "error-after-commit": "carries movements out and answers 500",
    "closes-connections": "closes the connection after every answer",
    "read-only": "is in read-only mode: refuses every movement for now (W41)",
    # what an answer says
    "balance-off-by-one": "answers movements with a balance that is one minor unit too high",
    "float-balance": "answers with balances that are JSON numbers",
    "new-bytes": "answers a repeat with today's balance instead of the original bytes",
    "hides-replays": "does not say that an answer is a repeated one",
    "no-status": "says of every transaction that it is unknown",
    "hides-conflicts": "does not name what differs at a conflict",
    # ids and repeats
    "double-debit": "takes the stake again when a debit is repeated",
    "credits-twice": "pays again when a credit is repeated",
    "late-bet": "takes a debit again that is repeated after its rollback",
    "forgets-tombstones": "does not remember the rollback of a debit that has not come yet",
    "forgets-refusals": "judges a refused debit anew when it is repeated",
    "keeps-early-wins": "refuses a win for good that came before its bet",
    "ignores-conflicts": "answers another request under a known id as if it were the same",
    "ids-without-case": "takes B1 and b1 for one id",
    "ids-for-all": "takes the same id of two players for one",
    "races": "looks for the id first and takes it later: requests at once go through both",
    # bets
    "settles-twice": "pays a second win under another id",
    "settles-after-cancel": "pays a win for a bet that was rolled back",
    "cancels-after-settlement": "gives back the stake of a bet that is settled",
    "trusts-rollback-amounts": "gives back what the rollback says instead of what was taken",
    "refunds-too-much": "does not add refunds up",
    "batch-in-parts": "keeps the beginning of a batch that fails",
    "ignores-rounds": "takes bets after betting closed",
    "skips-recovery": "says OK to a correction that the player cannot pay, and takes nothing",
    "refuses-zero-wins": "refuses a win of nothing",
    "refuses-new-promos": "refuses a promotion whose kind it does not know",
    # money
    "rounds-silently": "rounds amounts that are too fine",
    "accepts-numbers": "takes amounts that are JSON numbers",
    "two-decimals": "thinks that every currency has two decimals",
    "ignores-currency": "takes amounts in any currency for the player's",
    "keeps-a-cent": "does not let the last of a balance go",
    "overdraws": "takes more than there is",
    "small-amounts": "refuses amounts above a million",
    # who asks
    "ignores-signature": "takes requests that are signed wrongly",
    "ignores-query": "does not look at the query when it checks a signature",
    "ignores-clock": "takes requests that were signed long ago",
    "ignores-nonces": "takes the same signed request twice",
    "ignores-sessions": "takes bets with a session that is not alive",
    "strict-fields": "refuses fields that it does not know",
}
"""What it does, by its name."""


class UnknownFault(ValueError):
    """A fault that there is not."""


def checked(names: Iterable[str]) -> frozenset[str]:
    """The same names as a set.

    Raises:
        UnknownFault: one is none.
    """
    wanted = frozenset(names)
    strange = sorted(wanted - FAULTS.keys())
    if strange:
        raise UnknownFault(f"{strange[0]!r} is no fault; sabot operator faults lists them")
    return wanted
