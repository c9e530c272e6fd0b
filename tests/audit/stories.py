"""Stories that several tests tell, and how a test asks audit about one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from schemas.envelope import Recorded
from schemas.events.audit import CoupVerified, DiscrepancyFound
from schemas.events.base import Payload
from services.audit.core.facts import CoupAccount, ShoeAccount
from services.audit.core.verifier import Verifier
from tests.audit.builder import Bet, Story, Tamper


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.houses: list[tuple[str, int, str]] = []
        self.shoes: list[ShoeAccount] = []
        self.coups: list[CoupAccount] = []

    def house(self, operator: str, table: str, number: int, house: Any) -> None:
        self.houses.append((table, number, house.id))

    def shoe(self, account: ShoeAccount) -> None:
        self.shoes.append(account)

    def coup(self, account: CoupAccount) -> None:
        self.coups.append(account)


def said(events: Iterable[Recorded[Any]], verifier: Verifier | None = None) -> list[Payload]:
    """Everything that audit says of these events, the end included."""
    verifier = verifier or Verifier()
    payloads = [payload for event in events for payload in verifier.observe(event)]
    return [*payloads, *verifier.finish()]


def verified(payloads: Iterable[Payload]) -> list[tuple[str, int]]:
    """Shoe and number of the coups that were verified."""
    return [(each.shoe, each.coup) for each in payloads if isinstance(each, CoupVerified)]


def findings(payloads: Iterable[Payload]) -> list[DiscrepancyFound]:
    """The findings among them."""
    return [each for each in payloads if isinstance(each, DiscrepancyFound)]


def checks(payloads: Iterable[Payload]) -> list[str]:
    """Which checks failed, each once, in order."""
    return list(dict.fromkeys(each.check for each in findings(payloads)))


def change(kind: type[Payload], nth: int = 1, **fields: Any) -> Tamper:
    """Other values in the nth event of a kind. A callable value is given the old one."""
    seen = 0

    def tamper(payload: Payload) -> Payload:
        nonlocal seen
        if type(payload) is not kind:
            return payload
        seen += 1
        if seen != nth:
            return payload
        update = {
            name: value(getattr(payload, name)) if callable(value) else value
            for name, value in fields.items()
        }
        return payload.model_copy(update=update)

    return tamper


def replace(kind: type[Payload], by: Callable[[Payload], Any], nth: int = 1) -> Tamper:
    """Something else in place of the nth event of a kind."""
    seen = 0

    def tamper(payload: Payload) -> Any:
        nonlocal seen
        if type(payload) is not kind:
            return payload
        seen += 1
        return by(payload) if seen == nth else payload

    return tamper


BETS = (
    Bet("player", 1_000),
    Bet("banker", 2_050, account="bob", seat=2),
    Bet("tie", 300, account="bob", seat=2),
    Bet("player", 400, account="carol", seat=None),
    Bet("tie", 5_000_000, account="carol", seat=None, refused="INSUFFICIENT_FUNDS"),
)


def plain(tamper: Tamper | None = None, house: str = "nl", **options: Any) -> Story:
    """Three coups of recorded cards, one of them void, and money in two currencies."""
    story = Story(house, tamper=tamper, **options).open()
    story.coup("KS 2H 9C 5D", BETS)  # Player 9 against 7
    story.coup("AS 2H 3C 5D 4C", BETS, number=2)  # Player 8 against Banker 7
    story.coup("7S 3H KC KD 5D", [*BETS, Bet("banker", 99, account="dai", currency="JPY")], number=3)
    story.coup("", BETS, number=4, void="misdeal")
    story.coup("6S 6H KC KD", BETS, number=5)  # a tie
    return story


def virtual(tamper: Tamper | None = None, house: str = "nl", coups: int = 4, **options: Any) -> Story:
    """A virtual shoe from commitment to reveal."""
    story = Story(house, source="virtual", tamper=tamper, **options).open().load("V1")
    for number in range(1, coups + 1):
        story.coup("", BETS, shoe="V1", number=number)
    return story.end("V1", "replaced")


def big_table(tamper: Tamper | None = None) -> Story:
    """The Lithuanian house with recorded cards: players deal, the largest Player bet looks at the cards."""
    story = Story("lt", tamper=tamper).open().sit(2, 5, 9).load("S1").pass_shoe("S1", 5, "recorded")
    story.coup(
        "9S 8H 2C 3D KC",
        [
            Bet("player", 700, account="alice", seat=2),
            Bet("player", 500, account="bob", seat=9),
            Bet("player", 200, account="bob", seat=9),
            Bet("banker", 900, account="carol", seat=5),
        ],
        dealer_seat=5,
        squeeze=9,
    )
    story.coup("9H 8D 2D 3C KH", [Bet("banker", 900, account="carol", seat=5)], number=2, dealer_seat=5)
    return story
