"""The top of a report: verdict, house, shoes, outcomes against their expectation, money, bead plates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt
from typing import Final, TextIO

from schemas.events.base import Outcome
from schemas.house import House, Shuffle
from services.audit.core.money import profit
from services.audit.reports.markup import NAMES, coloured, header_row, number, spot_name
from services.audit.reports.tally import OUTCOMES, Bead, MoneyRow, Tally, signed, total_of

BEAD_ROWS: Final = 6
BEAD_COLUMNS_MAX: Final = 40
"""A plate with more columns goes on below."""
SHOES_ABOVE_MAX: Final = 3
"""With more shoes than this the list of them comes behind the coups."""
_CELL: Final = 26

_ICON: Final = '<svg viewBox="0 0 24 24" aria-hidden="true">{}</svg>'
_STROKE: Final = 'fill="none" stroke="var(--sheet)" stroke-width="2.4"'
_TICK: Final = _ICON.format(
    f'<circle cx="12" cy="12" r="11" fill="currentColor"/><path d="m7 12.5 3.5 3.5L17.5 9" {_STROKE}/>'
)
_WARNING: Final = _ICON.format(
    f'<path d="M12 1 23.5 22H.5Z" fill="currentColor"/><path d="M12 9v6.5m0 2v2" {_STROKE}/>'
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a report is about."""

    title: str
    labelled: Sequence[tuple[str, str]]
    houses: Sequence[House]


def write_summary(out: TextIO, facts: Facts, tally: Tally) -> None:
    """Everything above the coups, and the beginning of ``main``."""
    out.writelines(_head(facts))
    out.write("<main>\n")
    out.writelines(_verdict(tally))
    out.write('<h2>Summary</h2>\n<div class="grid sum">\n')
    out.writelines(_outcomes(tally))
    out.writelines(_houses(facts.houses))
    out.write("</div>\n")
    out.writelines(_money(tally))
    out.writelines(_bead_plates(tally))
    if len(tally.shoes) <= SHOES_ABOVE_MAX:
        write_shoes(out, tally)


def write_below(out: TextIO, tally: Tally) -> None:
    """What stands under the coups because there is too much of it to stand above them."""
    if len(tally.shoes) > SHOES_ABOVE_MAX:
        write_shoes(out, tally)


def write_shoes(out: TextIO, tally: Tally) -> None:
    """Commitment, entropy and seed of every virtual shoe."""
    out.writelines(_shoes(tally))


# ----------------------------------------------------------------------------------------------------- head


def _head(facts: Facts) -> Iterable[str]:
    yield f'<header class="top"><div><p class="brand">Sabot</p><h1>{escape(facts.title)}</h1>'
    if facts.labelled:
        rows = (
            f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in facts.labelled
        )
        yield f'<dl class="facts">{"".join(rows)}</dl>'
    yield "</div></header>\n"


def _verdict(tally: Tally) -> Iterable[str]:
    wrong, waiting = tally.verdicts["discrepancy"], tally.verdicts["open"]
    verified = tally.verdicts["verified"]
    if wrong or tally.shoes_wrong:
        yield f'<div class="verdict bad">{_WARNING}<div><strong>{_wrong(tally)}</strong>'
        yield f"<p>{verified:,} {_coups(verified)} verified{_waiting(waiting)}.</p></div></div>\n"
        yield '<div class="say bad first"><ul>'
        yield from (
            f'<li><a href="#{anchor}">{escape(coup)}</a>: {escape(words)}</li>'
            for anchor, coup, words in tally.found
        )
        yield from (
            f"<li>shoe {escape(shoe.shoe)} of table {escape(shoe.table)}: what was dealt does not follow "
            "from what the house had committed itself to</li>"
            for shoe in tally.shoes
            if not shoe.verified
        )
        yield "</ul></div>\n"
        return
    if not tally.coups:
        yield '<div class="verdict open"><div><strong>There is no coup to report</strong></div></div>\n'
        return
    colour, words = "good", f"All {tally.coups:,} coups are verified"
    if waiting:
        colour, words = "open", f"{verified:,} of {tally.coups:,} {_coups(tally.coups)} verified"
    elif tally.coups == 1:
        words = "The coup is verified"
    yield f'<div class="verdict {colour}">{_TICK}<div><strong>{words}</strong>'
    yield "<p>Cards, draws, totals, results, payments and postings were worked out again and agree"
    yield f"{_waiting(waiting)}.</p></div></div>\n"


def _wrong(tally: Tally) -> str:
    coups, shoes = tally.verdicts["discrepancy"], tally.shoes_wrong
    said = []
    if coups:
        said.append(f"{coups:,} of {tally.coups:,} {_coups(tally.coups)}")
    if shoes:
        said.append(f"{shoes:,} {'shoe' if shoes == 1 else 'shoes'}")
    return f"Not as the rules have it: {' and '.join(said)}"


def _coups(count: int) -> str:
    return "coup" if count == 1 else "coups"


def _waiting(waiting: int) -> str:
    return f"; {waiting:,} not settled yet" if waiting else ""


# -------------------------------------------------------------------------------------------------- outcomes


def _outcomes(tally: Tally) -> Iterable[str]:
    decided = tally.decided
    expected = tally.expected()
    head = header_row(["Outcome"], ["Coups", "Share", "Expected", "Deviation"])
    head = head.replace("</tr>", '<th scope="col" class="wb">Share and | expected</th></tr>')
    yield f'<section class="sheet wide"><h3>Outcomes</h3><table class="outcomes">{head}<tbody>\n'
    for outcome in OUTCOMES:
        count = tally.outcomes[outcome]
        share = count / decided if decided else 0.0
        cells = (
            f"{count:,}",
            f"{100 * share:.2f} %",
            f"{100 * expected[outcome]:.2f} %",
            _deviation(count, decided, expected[outcome]),
        )
        yield f'<tr><th scope="row">{spot_name(outcome)}</th>{"".join(map(number, cells))}'
        yield f"<td>{_bar(outcome, share, expected[outcome])}</td></tr>\n"
    yield f'</tbody><tfoot><tr><th scope="row">All</th>{number(f"{decided:,}")}<td colspan="4"></td></tr>'
    yield "</tfoot></table>"
    further = [f"{tally.naturals:,} with a natural", f"{tally.cards:,} cards dealt"]
    if tally.void:
        further.append(f"{tally.void:,} void beside these")
    if tally.refused:
        further.append(f"{tally.refused:,} {'bet' if tally.refused == 1 else 'bets'} refused")
    yield f'<p class="soft small">{" · ".join(further)}. The expected shares are counted over every deal; '
    yield "a deviation within ±2 standard deviations is what chance does in 19 of 20 runs.</p></section>\n"


def _deviation(count: int, coups: int, expected: float) -> str:
    """How far from its expectation a count is, in standard deviations."""
    if not coups or not 0 < expected < 1:
        return "–"
    sigma = (count - coups * expected) / sqrt(coups * expected * (1 - expected))
    return f"{sigma:+.1f} SD".replace("-", "−")


def _bar(outcome: Outcome, share: float, expected: float) -> str:
    letter = outcome[0].upper()
    return (
        '<svg class="bar" viewBox="0 0 200 12" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="x" width="200" height="12"/>'
        f'<rect class="f{letter}" width="{200 * share:.1f}" height="12"/>'
        f'<path class="d" d="M{200 * expected:.1f} 0v12"/></svg>'
    )


# ---------------------------------------------------------------------------------------- houses and shoes


def _houses(houses: Sequence[House]) -> Iterable[str]:
    yield '<section class="sheet"><h3>House rules in force</h3>'
    if not houses:
        yield '<p class="soft">None was set.</p>'
    for house in houses:
        commission = house.commission
        unit = "one minor unit" if commission.rounding_unit == "minor" else commission.rounding_unit
        cards = f"{house.shoe.decks} decks, " + (
            "shuffled for every round"
            if house.shoe.shuffle is Shuffle.EVERY_ROUND
            else f"cut card {house.shoe.cut_cards_from_end} from the end"
        )
        order = " ".join(side[0].upper() for side in house.deal.order)
        yield (
            f'<p><strong>{escape(house.name)}</strong> <span class="soft">({escape(house.id)}, '
            f"version {house.version})</span></p>"
            f'<ul class="small"><li>{cards}; dealt {order.replace(" ", "&nbsp;")}</li>'
            f"<li>Player {_price(house.prices.player)}, Banker {_price(house.prices.banker)}, "
            f"Tie {_price(house.prices.tie)}</li>"
            f"<li>Commission {_percent(commission.rate)} of Banker’s winnings, "
            f"rounded to {escape(unit)}, {escape(commission.rounding_mode.replace('_', ' '))}</li></ul>"
        )
    yield "</section>\n"


def _price(price: str) -> str:
    """The sheet’s own words, and what they come to where they are in the *for* notation."""
    gain = profit(price)
    return f"{escape(price)} (a profit of {gain} to 1)" if " for " in price else escape(price)


def _percent(rate: str) -> str:
    whole, _, rest = rate.partition(".")
    digits = whole + rest.ljust(2, "0")
    text = f"{int(digits[: len(whole) + 2])}"
    return text + (f".{digits[len(whole) + 2 :]}" if digits[len(whole) + 2 :] else "") + " %"


def _shoes(tally: Tally) -> Iterable[str]:
    if not tally.shoes:
        return
    yield '<h2>Shoes</h2>\n<p class="soft small">The house published each commitment before it knew the '
    yield "entropy, and revealed its seed when the shoe was over. From seed and entropy anybody can shuffle "
    yield "again.</p>\n"
    for shoe in tally.shoes:
        colour, words = (
            ("good", "commitment and every card verified")
            if shoe.verified
            else ("bad", "commitment or cards do not agree")
        )
        reason = escape(shoe.reason.replace("_", " "))
        yield (
            f'<section class="sheet below"><h3>Shoe {escape(shoe.shoe)} '
            f'<span class="chip {colour}">{words}</span></h3>'
            f'<p class="small soft">Table {escape(shoe.table)} · {shoe.decks} decks · '
            f"{shoe.cards_out} cards out · ended: {reason}</p>"
            f'<p class="hex">commitment {escape(shoe.commitment or "")}<br>'
            f"entropy {escape(shoe.entropy or '–')}<br>seed {escape(shoe.seed or 'not revealed')}</p>"
            "</section>\n"
        )
    if tally.shoes_more:
        yield f'<p class="soft small">And {tally.shoes_more:,} more, verified likewise.</p>\n'


# ----------------------------------------------------------------------------------------------------- money


def _money(tally: Tally) -> Iterable[str]:
    yield "<h2>Money</h2>\n"
    if not tally.money:
        yield '<p class="soft">No bet was taken.</p>\n'
        return
    head = header_row(["Spot"], ["Bets", "Staked", "Returned", "Commission", "House win"])
    yield '<div class="grid">\n'
    for currency, rows in tally.currencies():
        total = total_of(row for _, row in rows)
        caption = "The house’s win is what was staked less what was returned; commission is inside it."
        if total.in_play:
            caption += f" {total.amount(total.in_play)} is still in play and counts for nobody."
        yield f'<section class="sheet wide"><table class="money"><caption>{escape(currency)}. {caption}'
        yield f"</caption>{head}<tbody>\n"
        for spot, row in rows:
            yield f'<tr><th scope="row">{spot_name(spot)}</th>{_amounts(row)}</tr>\n'
        yield f'</tbody><tfoot><tr><th scope="row">Total</th>{_amounts(total)}</tr></tfoot></table>'
        yield "</section>\n"
    yield "</div>\n"


def _amounts(row: MoneyRow) -> str:
    cells = [f"{row.bets:,}", row.amount(row.staked), row.amount(row.returned), row.amount(row.commission)]
    win = number(signed(row.house_win, row.exponent), coloured(row.house_win))
    return "".join(map(number, cells)) + win


# ----------------------------------------------------------------------------------------------- bead plates


def _bead_plates(tally: Tally) -> Iterable[str]:
    if not tally.beads:
        return
    yield '<h2>Bead plate</h2>\n<p class="soft small">Every coup in its order, six to a column: B Banker, '
    yield "P Player, T tie. A dot at the upper left is a Banker pair, at the lower right a Player pair.</p>\n"
    several = len(tally.beads) > 1
    for (table, shoe), beads in tally.beads.items():
        yield '<section class="sheet wide below">'
        if several:
            of_shoe = f", shoe {escape(shoe)}" if shoe else ""
            yield f"<h3>Table {escape(table)}{of_shoe}</h3>"
        block = BEAD_ROWS * BEAD_COLUMNS_MAX
        for start in range(0, len(beads), block):
            yield from _plate(beads[start : start + block])
        yield "</section>\n"


def _plate(beads: Sequence[Bead]) -> Iterable[str]:
    columns = -(-len(beads) // BEAD_ROWS)
    width, height = columns * _CELL, BEAD_ROWS * _CELL
    grid = "".join(f"M{x * _CELL} 0v{height}" for x in range(columns + 1))
    grid += "".join(f"M0 {y * _CELL}h{width}" for y in range(BEAD_ROWS + 1))
    counts = ", ".join(
        f"{sum(bead.outcome == outcome for bead in beads)} {NAMES[outcome]}" for outcome in OUTCOMES
    )
    size = f'width="{width + 2}" height="{height + 2}" viewBox="-1 -1 {width + 2} {height + 2}"'
    yield f'<svg class="bead" {size} role="group" aria-label="Bead plate: {counts}">'
    yield f'<path class="g" d="{grid}"/>\n'
    for place, bead in enumerate(beads):
        x = place // BEAD_ROWS * _CELL + _CELL // 2
        y = place % BEAD_ROWS * _CELL + _CELL // 2
        letter = bead.outcome[0].upper()
        dots = f'<circle class="dB" cx="{x - 8}" cy="{y - 8}" r="3"/>' if bead.banker_pair else ""
        dots += f'<circle class="dP" cx="{x + 8}" cy="{y + 8}" r="3"/>' if bead.player_pair else ""
        title = f"Coup {bead.coup}: {NAMES[bead.outcome]}, {bead.totals}"
        yield f'<a href="#{bead.anchor}"><title>{title}</title>'
        yield f'<circle class="f{letter}" cx="{x}" cy="{y}" r="10.5"/>'
        yield f'<text x="{x}" y="{y + 4}">{letter}</text>{dots}</a>\n'
    yield "</svg>"
