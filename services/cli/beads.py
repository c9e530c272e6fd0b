"""The bead plate in a terminal: every coup in its order, six to a column, with audit's verdict."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from schemas.house import House
from services.audit.core.facts import CoupAccount, ShoeAccount

_ROWS: Final = 6
_COLUMNS_MAX: Final = 36
_BEADS: Final = {"banker": ("B", "red"), "player": ("P", "blue"), "tie": ("T", "green")}


class BeadPlate:
    """A ``Listener`` that keeps the latest coups, as many as fit in eighty columns."""

    def __init__(self) -> None:
        self._beads: list[tuple[str, str]] = []

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        """Not shown here."""

    def shoe(self, account: ShoeAccount) -> None:
        """Not shown here."""

    def coup(self, account: CoupAccount) -> None:
        if account.verdict != "verified":
            bead = ("✗", "bold white on red")
        elif account.outcome is None:
            bead = ("–", "dim")
        else:
            bead = _BEADS[account.outcome]
        self._beads.append(bead)
        if len(self._beads) > _ROWS * _COLUMNS_MAX:
            del self._beads[:_ROWS]  # whole columns leave on the left, as on a real plate

    def text(self) -> Text:
        """The plate; empty where no coup was played."""
        plate = Text()
        for row in range(min(_ROWS, len(self._beads))):
            for letter, style in self._beads[row::_ROWS]:
                plate.append(letter, style)
                plate.append(" ")
            plate.append("\n")
        return plate
