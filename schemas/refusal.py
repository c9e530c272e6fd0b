"""How a command is refused: a code for machines, the field, and words for the person who must act."""

from __future__ import annotations


class Refusal(Exception):
    """A command that cannot be carried out. Nothing was written.

    ``code`` is one of the internal codes (``INSUFFICIENT_FUNDS``, ``IDEMPOTENCY_CONFLICT``, …), ``field``
    is the path of what was wrong in the command (``bets[0].stake``), or empty where no single field was.
    """

    def __init__(self, code: str, field: str, words: str) -> None:
        super().__init__(words)
        self.code, self.field, self.words = code, field, words
