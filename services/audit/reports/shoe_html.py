"""The coups of a run as one HTML page: self-contained, printable, readable without JavaScript.

Coups are written as they come, into a spool; the summary that stands above them is written at the end,
when all of them were counted. The page loads nothing: style and pictures are inside, and every card is
drawn once and used wherever it lies.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final, TextIO

from schemas.events.base import Outcome
from schemas.house import House
from services.audit.core.facts import BetAccount, CoupAccount, ShoeAccount
from services.audit.core.tableau import TooFewCards, expected_play, rule_in_words, total
from services.audit.reports import cards
from services.audit.reports.markup import NAMES, badge, coloured, header_row, number, spot_name
from services.audit.reports.summary import Facts, write_below, write_summary
from services.audit.reports.tally import Tally, amount, by_currency, signed

FINDINGS_LISTED: Final = 200
_SPOOL_CHARACTERS: Final = 4 * 1024 * 1024

_VERDICTS: Final = {
    "verified": ("good", "verified"),
    "discrepancy": ("bad", "not verified"),
    "open": ("open", "not settled yet"),
}


class ShoeReport:
    """A ``Listener`` that writes what it hears as an HTML page to ``out``.

    ``facts`` are pairs of label and text for the head of the page, such as the run's seed or its time.
    Coups beyond ``coups_max`` are counted in the summary and not drawn.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        title: str = "Baccarat, coup by coup",
        facts: Sequence[tuple[str, str]] = (),
        coups_max: int = 2_000,
    ) -> None:
        self._out, self._title, self._facts, self._coups_max = out, title, tuple(facts), coups_max
        self._houses: dict[tuple[str, int], House] = {}
        self._shown: dict[tuple[str, int], House] = {}
        self._tally = Tally()
        self._used: set[str] = set()
        self._spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by finish
            max_size=_SPOOL_CHARACTERS, mode="w+", encoding="utf-8", newline="\n"
        )

    # -------------------------------------------------------------------------------------------- listening

    def house(self, operator: str, table: str, number: int, house: House) -> None:
        """A table plays by this house from here on."""
        del operator
        self._houses[table, number] = house
        self._shown.setdefault((house.id, house.version), house)

    def shoe(self, account: ShoeAccount) -> None:
        """A shoe ended."""
        self._tally.add_shoe(account)

    def coup(self, account: CoupAccount) -> None:
        """Write a coup into the spool, and count it."""
        house = self._houses.get((account.table, account.house_number))
        anchor = f"c{self._tally.coups + 1}"
        self._tally.add(account, anchor, house)
        for words in account.findings:
            if len(self._tally.found) < FINDINGS_LISTED:
                self._tally.found.append((anchor, _title_of(account), words))
        if self._tally.coups <= self._coups_max:
            self._used.update(card for _, card in account.dealt)
            self._spool.writelines(_coup(account, anchor, house))

    def correction(self, before: CoupAccount, after: CoupAccount) -> None:
        """Write what a coup came to by another result, and count it so."""
        self._tally.correct(before, after)
        anchor = f"r{self._tally.corrected}"
        for words in after.findings:
            if len(self._tally.found) < FINDINGS_LISTED:
                self._tally.found.append((anchor, _title_of(after), words))
        if self._tally.coups <= self._coups_max:
            house = self._houses.get((after.table, after.house_number))
            self._spool.writelines(_coup(after, anchor, house))

    # ---------------------------------------------------------------------------------------------- writing

    def finish(self) -> None:
        """Write the page. Nothing may be added after it."""
        write = self._out.write
        style = (files("services.audit.reports") / "shoe.css").read_text("utf-8")
        write(
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self._title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
            '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>\n'
            f"{cards.symbols(self._used)}\n</defs></svg>\n"
        )
        write_summary(self._out, Facts(self._title, self._facts, list(self._shown.values())), self._tally)
        write(f'<h2 id="coups">{"The coups" if self._tally.coups else "No coup was played"}</h2>\n')
        if self._tally.coups > self._coups_max:
            write(
                f'<p class="soft">The first {self._coups_max:,} of {self._tally.coups:,} coups are shown; '
                "the sums above are those of all.</p>\n"
            )
        self._spool.seek(0)
        shutil.copyfileobj(self._spool, self._out)
        self._spool.close()
        write_below(self._out, self._tally)
        write(
            "<footer><p>Written by Sabot’s audit from the recorded events alone: cards, draws, results and "
            "payments were worked out again from audit’s own formulation of the rules, which shares no code "
            "with the services that dealt and paid.</p></footer>\n</main>\n</body>\n</html>\n"
        )


def write_report(
    out: TextIO,
    coups: Iterable[CoupAccount],
    *,
    houses: Iterable[tuple[str, int, House]] = (),
    shoes: Iterable[ShoeAccount] = (),
    title: str = "Baccarat, coup by coup",
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """The page for coups that are at hand already. ``houses`` are table, number and document."""
    report = ShoeReport(out, title=title, facts=facts)
    for table, house_number, house in houses:
        report.house("", table, house_number, house)
    for shoe in shoes:
        report.shoe(shoe)
    for coup in coups:
        report.coup(coup)
    report.finish()


# ------------------------------------------------------------------------------------------------- one coup


def _title_of(coup: CoupAccount) -> str:
    return f"{coup.table} · shoe {coup.shoe} · coup {coup.coup}"


def _coup(coup: CoupAccount, anchor: str, house: House | None) -> Iterable[str]:
    colour, verdict = _VERDICTS[coup.verdict]
    again = f", corrected (result {coup.version})" if coup.version > 1 else ""
    yield f'<article class="sheet" id="{anchor}">\n<header>{_result(coup)}<h3>Coup {coup.coup}{again}</h3>'
    where = f"table {escape(coup.table)} · shoe {escape(coup.shoe)}{_house(coup)}"
    yield f'<span class="soft small">{where}</span>'
    yield f'<span class="chip end {colour}">{"✓ " if colour == "good" else ""}{verdict}</span></header>\n'
    if coup.dealt and coup.version == 1:
        places = list(enumerate(coup.dealt, start=1))
        yield '<div class="play">'
        for hand in ("player", "banker"):
            yield _hand(coup, hand, [(place, card) for place, (got, card) in places if got == hand])
        yield "</div>\n"
    yield f'<p class="rule soft small">{escape(_words(coup, house))}</p>\n'
    if coup.findings:
        yield '<div class="say bad"><ul>'
        yield from (f"<li>{escape(words)}</li>" for words in coup.findings)
        yield "</ul></div>\n"
    if coup.bets:
        yield from _bets(coup.bets)
    else:
        yield '<p class="rule soft small">Nobody bet.</p>\n'
    yield "</article>\n"


def _house(coup: CoupAccount) -> str:
    return f" · house {escape(coup.house)}" if coup.house else ""


def _result(coup: CoupAccount) -> str:
    if coup.outcome is not None:
        return badge(coup.outcome)
    return '<span class="o oV">V</span>' if coup.status == "void" else '<span class="o oV">·</span>'


def _words(coup: CoupAccount, house: House | None) -> str:
    """What happened, in sentences: the result, the row of the tableau, who dealt and who looked."""
    said = []
    if coup.version > 1:
        it = (
            "void"
            if coup.outcome is None
            else "a tie"
            if coup.outcome == "tie"
            else f"won by {NAMES[coup.outcome]}"
        )
        said.append(f"The result was corrected: the coup was {it}. The bets were paid anew.")
        return " ".join(said)
    if coup.outcome is not None:
        if coup.outcome == "tie":
            said.append(f"A tie, {coup.player_total}–{coup.banker_total}.")
        else:
            won, lost = coup.player_total, coup.banker_total
            if coup.outcome == "banker":
                won, lost = lost, won
            said.append(f"{NAMES[coup.outcome]} wins, {won} to {lost}.")
    elif coup.status == "void":
        said.append("The coup is void: every stake went back.")
    if house is not None and len(coup.dealt) >= 4:
        try:
            said.append(rule_in_words(expected_play([card for _, card in coup.dealt], house.deal.order)))
        except TooFewCards as lacking:
            said.append(f"{lacking}.")
    if coup.dealer_seat is not None:
        said.append(f"Seat {coup.dealer_seat} dealt.")
    if coup.squeezed:
        who = "A croupier" if coup.squeezed_by is None else f"Seat {coup.squeezed_by}"
        said.append(f"{who} looked at Player’s cards first.")
    return " ".join(said)


def _hand(coup: CoupAccount, hand: Outcome, got: list[tuple[int, str]]) -> str:
    name, letter = NAMES[hand], hand[0].upper()
    held = [card for _, card in got]
    spoken = ", ".join(cards.name_of(card) for card in held) or "no cards"
    drawn = "".join(_card(nth, place, card) for nth, (place, card) in enumerate(got, start=1))
    won = coup.outcome == hand
    return (
        f'<section class="hand h{letter}{" won" if won else ""}"><h4>{badge(hand)}'
        f'<span class="w">{name}{" wins" if won else ""}</span>{_totals(held)}</h4>'
        f'<div class="cards" role="img" aria-label="{name}: {escape(spoken)}">{drawn}</div></section>'
    )


def _card(nth: int, place: int, card: str) -> str:
    """A card with its place in the order of dealing; a third card lies across, as on the table."""
    across = " q" if nth == 3 else ""
    return f'<span class="k{across}"><svg viewBox="0 0 60 84"><use href="#k{card}"/></svg>{place}</span>'


def _totals(held: list[str]) -> str:
    if len(held) < 2:
        return ""
    two, final = total(held[:2]), total(held)
    if len(held) > 2:
        return f'<span class="t">{two} on two cards, then <b class="n">{final}</b></span>'
    natural = "natural " if two >= 8 else ""
    return f'<span class="t">{natural}<b class="n">{final}</b></span>'


def _bets(bets: Sequence[BetAccount]) -> Iterable[str]:
    head = header_row(["Seat", "Account", "Spot", "Ended"], ["Stake", "Returned", "Commission", "Net"])
    yield f'<div class="bets wide"><table class="coup-bets">{head}<tbody>\n'
    yield from (_bet(bet) for bet in bets)
    yield "</tbody>\n<tfoot>\n"
    for row in by_currency(bets):
        amounts = [row.amount(row.staked), row.amount(row.returned), row.amount(row.commission)]
        yield f'<tr><th scope="row" colspan="4">Total of {row.bets} {"bet" if row.bets == 1 else "bets"}, '
        yield f"{row.currency}</th>{''.join(map(number, amounts))}"
        yield number(signed(row.net, row.exponent), coloured(row.net)) + "</tr>\n"
    yield "</tfoot></table></div>\n"


def _bet(bet: BetAccount) -> str:
    seat = "–" if bet.seat is None else str(bet.seat)
    who = f"<td>{seat}</td><td>{escape(bet.account)}</td><td>{spot_name(bet.spot)}</td>"
    stake = f"{amount(bet.stake, bet.exponent)} {escape(bet.currency)}"
    if bet.status == "refused":
        why = escape((bet.refusal or "").replace("_", " ").lower())
        nothing = "<td></td>" * 3
        return f'<tr class="no">{who}<td>refused: {why}</td>{number(stake, " w")}{nothing}</tr>\n'
    paid = number(amount(bet.returned, bet.exponent)) + number(amount(bet.commission, bet.exponent))
    net = number(signed(bet.net, bet.exponent), coloured(bet.net))
    return f"<tr>{who}<td>{bet.status}</td>{number(stake)}{paid}{net}</tr>\n"
