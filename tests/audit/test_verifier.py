"""The verifier: what is right is verified once, and what is wrong is found and said in words."""

from itertools import pairwise

import pytest

from schemas.envelope import Envelope
from schemas.events.accounts import AccountOpened, Deposited
from schemas.events.audit import CoupVerified
from schemas.events.base import EventRef, Posting
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
    ShoeCommitted,
    ShoeEnded,
    ShoeLoaded,
    TableOpened,
)
from schemas.events.wallet import (
    BetAccepted,
    BetRefused,
    BetsSealed,
    ConflictDetected,
    CoupReturned,
    CoupSettled,
)
from services.audit.core.verifier import Verifier
from tests.audit.builder import HOUSES, OPERATOR, Bet, Story, reference, with_other_bytes
from tests.audit.stories import (
    BETS,
    Heard,
    big_table,
    change,
    checks,
    findings,
    plain,
    replace,
    said,
    verified,
    virtual,
)

# ------------------------------------------------------------------------------------------ what is right


def test_every_coup_is_verified_once_and_nothing_is_found():
    payloads = said(plain().events)
    assert verified(payloads) == [("S1", 1), ("S1", 2), ("S1", 3), ("S1", 4), ("S1", 5)]
    assert findings(payloads) == []


def test_a_verdict_says_what_was_worked_out():
    story = plain()
    first = next(each for each in said(story.events) if isinstance(each, CoupVerified))
    assert (first.status, first.version, first.outcome, first.cards) == (
        "settled",
        1,
        "player",
        ("KS", "2H", "9C", "5D"),
    )
    assert first.bets == 4
    (euro,) = first.turnover
    assert (euro.staked, euro.returned, euro.commission) == (3_750, 2_800, 0)
    assert first.result == reference(story.of(CoupConcluded)[0])
    assert first.settlement == reference(story.of(CoupSettled)[0])


def test_a_void_coup_is_verified_when_every_stake_is_back():
    payloads = said(plain().events)
    void = next(each for each in payloads if isinstance(each, CoupVerified) and each.coup == 4)
    assert (void.status, void.outcome, void.cards) == ("void", None, ())
    assert void.turnover[0].staked == void.turnover[0].returned == 3_750


@pytest.mark.parametrize("house", sorted(set(HOUSES) - {"lt"}))
def test_every_house_with_recorded_cards(house):
    payloads = said(plain(house=house).events)
    assert len(verified(payloads)) == 5
    assert findings(payloads) == []


@pytest.mark.parametrize("house", ["nl", "fr", "dk"])
def test_a_virtual_shoe_to_its_cut_card(house):
    heard = Heard()
    story = Story(house, source="virtual").open().load("V1")
    number = 0
    while story.out["V1"] <= 8 * 52 - 14:
        number += 1
        story.coup("", BETS, shoe="V1", number=number)
    story.end("V1")
    payloads = said(story.events, Verifier(heard))
    assert findings(payloads) == []
    assert len(verified(payloads)) == number
    (shoe,) = heard.shoes
    assert shoe.verified
    assert shoe.cards_out == story.out["V1"]


def test_a_shuffle_for_every_round():
    story = Story("de", source="virtual").open()
    for number in range(1, 4):
        story.load(f"R{number}", seed=bytes([number]) * 32)
        story.coup("", BETS, shoe=f"R{number}", number=number)
        story.end(f"R{number}", "every_round")
    payloads = said(story.events)
    assert findings(payloads) == []
    assert len(verified(payloads)) == 3


def test_recorded_cards_shuffled_every_round_are_counted_coup_by_coup():
    story = Story("de", decks=1).open()
    story.coup("KS 2H 9C 5D", number=1).coup("KS 2H 9C 5D", number=2)
    assert findings(said(story.events)) == []


def test_the_big_table():
    heard = Heard()
    payloads = said(big_table().events, Verifier(heard))
    assert findings(payloads) == []
    assert len(verified(payloads)) == 2
    assert [(coup.dealer_seat, coup.squeezed, coup.squeezed_by) for coup in heard.coups] == [
        (5, True, 9),
        (5, True, None),
    ]


def test_a_hundred_and_one_bets_are_paid_in_two_parts():
    story = Story().open()
    story.coup("KS 2H 9C 5D", [Bet("player", 100, seat=None) for _ in range(101)])
    assert [event.data.part for event in story.of(CoupSettled)] == [1, 2]
    payloads = said(story.events)
    assert findings(payloads) == []
    assert verified(payloads) == [("S1", 1)]


def test_a_file_may_go_back_to_an_earlier_shoe():
    story = Story().open().coup("KS 2H 9C 5D", shoe="A", number=7).coup("KS 2H 9C 5D", shoe="B")
    story.coup("KS 2H 9C 5D", shoe="A", number=3)
    assert verified(said(story.events)) == [("A", 7), ("B", 1), ("A", 3)]


def test_the_house_may_change_between_coups():
    story = plain()
    story.set_house(HOUSES["fr"]).coup("KS 2H 9C 5D", BETS, number=6)
    assert findings(said(story.events)) == []


def test_accounts_for_reports():
    heard = Heard()
    said(plain().events, Verifier(heard))
    assert heard.houses == [("T1", 1, "nl")]
    first = heard.coups[0]
    assert (first.table, first.shoe, first.coup, first.house, first.status) == (
        "T1",
        "S1",
        1,
        "nl",
        "settled",
    )
    assert (first.player, first.banker) == (("KS", "9C"), ("2H", "5D"))
    assert (first.player_total, first.banker_total, first.natural) == (9, 7, True)
    assert [(bet.account, bet.status, bet.net) for bet in first.bets] == [
        ("alice", "won", 1_000),
        ("bob", "lost", -2_050),
        ("bob", "lost", -300),
        ("carol", "won", 400),
        ("carol", "refused", 0),
    ]
    assert first.bets[-1].refusal == "INSUFFICIENT_FUNDS"
    assert [coup.verdict for coup in heard.coups] == ["verified"] * 5
    third = heard.coups[2]
    assert [(row.currency, row.staked, row.returned, row.commission) for row in third.turnover] == [
        ("EUR", 3_750, 3_997, 103),
        ("JPY", 99, 193, 5),
    ]


def test_books_at_the_end():
    verifier = Verifier()
    story = plain()
    said(story.events, verifier)
    trial = verifier.trial_balance("wallet/main")
    for currency in ("EUR", "JPY"):
        assert sum(amount for (_, each), amount in trial.items() if each == currency) == 0
        assert trial["2030", currency] == 0
    cash = verifier.balances("wallet/main")
    assert sum(cash.values()) == -sum(amount for (ledger, _), amount in trial.items() if ledger == "2010")
    assert cash["dai", "JPY"] == 1_000_000 + 94
    assert verifier.balances("wallet/none") == verifier.trial_balance("wallet/none") == {}
    assert verifier.heads()[story.wallet] == (story.stream(story.wallet)[-1].sequence, story.events[-1].hash)


# ------------------------------------------------------------------------------- the golden round of reports


def test_worked_example_of_the_wallet_reference():
    """Five rounds: GGR −7,500, which is what the players won."""
    story = Story().open()
    story.coup("KS 9H KC KD", [Bet("banker", 10_000)])
    story.coup("KS 9H KC KD", [Bet("player", 10_000)], number=2)
    story.coup("6S 6H KC KD", [Bet("tie", 1_000)], number=3)
    story.coup("6S 6H KC KD", [Bet("banker", 10_000)], number=4)
    story.coup("", [Bet("player", 5_000)], number=5, void="misdeal")
    verifier = Verifier()
    assert findings(said(story.events, verifier)) == []
    trial = verifier.trial_balance("wallet/main")
    house = {ledger: -amount for (ledger, _), amount in trial.items() if ledger.startswith("4")}
    assert house == {"4010": 10_000, "4011": -10_000, "4012": -8_000, "4020": 500}
    assert verifier.balances("wallet/main")["alice", "EUR"] == 1_000_000 + 7_500


# ---------------------------------------------------------------------------------------- cards and results


def one(payloads, check):
    """The only finding of a check."""
    (finding,) = [each for each in findings(payloads) if each.check == check]
    return finding


def test_case_15_an_illegal_draw_is_found_although_the_outcome_is_consistent():
    story = Story().open().coup("K A Q 6 5 8", BETS)  # recorded as a tie of five; Banker had 7
    payloads = said(story.events)
    assert verified(payloads) == []
    finding = one(payloads, "tableau")
    assert finding.words == "Banker had 7 and stands: the sixth card 8 may not be drawn"
    assert (finding.stream, finding.table, finding.shoe, finding.coup) == (story.game, "T1", "S1", 1)
    assert finding.sequence == story.of(CardDealt)[5].sequence
    result = one(payloads, "result")
    assert result.recorded == "5–5, a tie, with 6 cards"
    assert result.expected == "5–7, Banker wins, with 5 cards"
    assert next(each.recorded for each in findings(payloads) if each.check == "payout") == "1000"


def test_a_card_that_must_be_drawn_is_missed():
    payloads = said(Story().open().coup("4S 2H KC KD").events)
    finding = one(payloads, "tableau")
    assert finding.words == ("Player had 4 and must draw a third card, and coup 1 was concluded with 4 cards")
    assert verified(payloads) == []


def test_a_natural_after_which_somebody_drew():
    payloads = said(Story().open().coup("9S 2H KC KD 4C").events)
    assert "Player had a natural 9, so both hands stand" in one(payloads, "tableau").words


@pytest.mark.parametrize(
    ("announce", "expected"),
    [
        ({"outcome": "banker"}, "9–7, Player wins, a natural, with 4 cards"),
        ({"player_total": 8}, "9–7, Player wins, a natural, with 4 cards"),
        ({"natural": False}, "9–7, Player wins, a natural, with 4 cards"),
        ({"cards": 5}, "9–7, Player wins, a natural, with 4 cards"),
    ],
)
def test_a_wrong_announcement(announce, expected):
    payloads = said(Story().open().coup("KS 2H 9C 5D", BETS, announce=announce).events)
    assert one(payloads, "result").expected == expected
    assert verified(payloads) == []


def test_a_bet_paid_by_a_wrong_result_is_found_in_money_too():
    payloads = said(Story().open().coup("KS 2H 9C 5D", BETS, announce={"outcome": "banker"}).events)
    assert checks(payloads) == ["result", "tiers", "payout", "commission"]
    words = [each.words for each in findings(payloads) if each.check == "payout"]
    assert words[0] == "bet main.1 of 10.00 EUR on player was paid 0.00 EUR, and 20.00 EUR was due"


def test_wrong_tiers():
    payloads = said(
        plain(change(CoupConcluded, tiers={"player": "win", "banker": "lose", "tie": "push"})).events
    )
    finding = one(payloads, "tiers")
    assert finding.words == "after player wins, tie is announced as push, not lose"
    payloads = said(plain(change(CoupConcluded, 4, tiers={"player": "push", "banker": "lose"})).events)
    assert [each.words for each in findings(payloads)] == [
        "after a tie, banker is announced as lose, not push",
        "after a tie, tie is announced as nothing, not win",
    ]


def test_a_card_to_the_wrong_hand():
    payloads = said(plain(change(CardDealt, 2, hand="player", position=2)).events)
    finding = findings(payloads)[0]
    assert (finding.check, finding.coup) == ("deal_order", 1)
    assert finding.words == "card 2 of the coup, 2H, went to Player, and it is Banker's"
    assert ("S1", 1) not in verified(payloads)
    assert len(verified(payloads)) == 4


def test_the_third_card_to_the_wrong_hand():
    payloads = said(
        Story(tamper=change(CardDealt, 5, hand="player", position=3)).open().coup("7S 3H KC KD 5D").events
    )
    assert one(payloads, "tableau").words == "card 5 of the coup, 5D, went to Player, and it is Banker's"


def test_a_wrong_place_in_the_hand():
    payloads = said(plain(change(CardDealt, 3, position=3)).events)
    assert one(payloads, "deal_order").words == "9C was put in place 3 of Player's hand, not 2"


def test_the_deal_order_of_the_house_counts():
    story = Story("lt").open().sit(3).load("S1").pass_shoe("S1", 3, "recorded")
    story.house = HOUSES["nl"]  # the croupier deals as elsewhere
    payloads = said(story.coup("KS 2H 9C 5D", dealer_seat=3).events)
    assert "deal_order" in checks(payloads)


# --------------------------------------------------------------------------------------------------- shoes


def test_cards_are_numbered_without_a_gap():
    payloads = said(plain(change(CardDealt, 3, index=4)).events)
    assert [each.words for each in findings(payloads)] == [
        "card 4 of shoe S1 came after card 2",
        "card 4 of shoe S1 came after card 4",
    ]


def test_a_card_that_the_decks_do_not_hold():
    story = Story(decks=1).open().coup("KS 2H 9C 5D").coup("AS 2H 8C 4D", number=2)
    payloads = said(story.events)
    finding = one(payloads, "decks")
    assert finding.words == "2H came out for the 2nd time, from a shoe of 1 deck"
    assert (finding.coup, finding.expected) == (2, "at most 1")
    assert verified(payloads) == [("S1", 1)]


def test_more_of_a_rank_than_the_decks_hold_without_suits():
    story = Story(decks=1).open().coup("K K 9 9").coup("K K 9 9", number=2).coup("K 2 8 8", number=3)
    assert (
        one(said(story.events), "decks").words
        == "card of rank K came out for the 5th time, from a shoe of 1 deck"
    )


def test_decks_are_counted_over_voided_coups_too():
    story = Story(decks=1).open()
    story.coup("KS 2H 9C 5D")
    first = story.of(CardDealt)[0].data

    def tamper(payload):
        return (
            [first.model_copy(update={"coup": 2, "index": 5, "seal": reference(story.events[-1])}), payload]
            if isinstance(payload, CoupVoided)
            else payload
        )

    story.tamper = tamper
    payloads = said(story.coup("", number=2, void="two cards stuck together").events)
    assert one(payloads, "decks").words == "KS came out for the 2nd time, from a shoe of 1 deck"


@pytest.mark.parametrize(
    ("tamper", "check", "words"),
    [
        (change(ShoeCommitted, commitment="0" * 64), "commitment", "is not the one that the house committed"),
        (change(ShoeEnded, seed="11" * 32), "commitment", "is not the one that the house committed"),
        (change(ShoeEnded, seed=None), "commitment", "the seed of shoe V1 was not revealed"),
        (change(EntropyTaken, nonce=1), "commitment", "shoe V1 uses nonce 1"),
        (change(ShoeLoaded, decks=6), "decks", "committed with 8 decks and loaded with 6"),
        (change(ShoeCommitted, decks=6), "decks", "a shoe of 6 decks, where house nl plays with 8"),
        (change(ShoeLoaded, cut_cards_from_end=20), "cut_card", "is not where the house puts it"),
        (change(ShoeLoaded, source="recorded"), "shoe", "has recorded cards at a table of virtual cards"),
        (change(ShoeEnded, cards_out=99), "shoe", "cards left shoe V1, not 99"),
        (change(ShoeEnded, reason="cut_card"), "cut_card", "which had not come out after"),
        (change(CardBurned, card="2S"), "burn", "burned 4 cards where 3 were due"),
        (change(CardBurned, card=None), "burn", "the first burned card of shoe V1 was not shown"),
        (change(CardBurned, 2, card="2S"), "burn", "burned card 2 of shoe V1 was shown"),
        (change(CardBurned, 2, index=3), "index", "card 3 of shoe V1 came after card 1"),
        (
            replace(CardBurned, lambda _: None, 7),
            "burn",
            "began with 7 burned cards where the house asks for 8",
        ),
        (replace(EntropyTaken, lambda _: None), "commitment", "shoe V1 was loaded without entropy"),
        (replace(ShoeCommitted, lambda _: None), "commitment", "before its commitment"),
        (replace(ShoeLoaded, lambda _: None), "shoe", "shoe V1 is used, but it was not loaded"),
        (
            replace(ShoeCommitted, lambda each: [each, each]),
            "commitment",
            "a second commitment was made for shoe V1",
        ),
        (replace(EntropyTaken, lambda each: [each, each]), "commitment", "a second time"),
        (replace(ShoeLoaded, lambda each: [each, each]), "shoe", "shoe V1 was loaded twice"),
        (replace(ShoeEnded, lambda each: [each, each]), "shoe", "ended without ever having been in play"),
    ],
)
def test_shoes_that_are_not_as_they_must_be(tamper, check, words):
    payloads = said(virtual(tamper).events)
    found = [each.words for each in findings(payloads) if each.check == check]
    assert any(words in each for each in found), [each.words for each in findings(payloads)]


def test_a_dealt_card_that_is_not_the_committed_one():
    """The house replaces a card by another of the same value: the tableau sees nothing, the seed tells."""
    story = virtual()
    card = story.of(CardDealt)[5].data
    other = card.card[0] + ("S" if card.card[1] != "S" else "H")
    payloads = said(virtual(change(CardDealt, 6, card=other)).events)
    finding = one(payloads, "commitment")
    assert finding.words == (
        f"card {card.index} of shoe V1, dealt in coup {card.coup}, was {other}, "
        f"but the committed shuffle has {card.card} there"
    )
    assert (finding.table, finding.shoe, finding.coup) == ("T1", "V1", card.coup)


def test_a_virtual_card_without_suit():
    payloads = said(virtual(change(CardDealt, card=lambda card: card[0])).events)
    assert "was a card without suit, but the committed shuffle has" in one(payloads, "commitment").words


def test_no_coup_is_opened_after_the_cut_card():
    story = Story("nl", source="virtual").open().load("V1")
    number = 0
    while story.out["V1"] <= 8 * 52 - 14:
        number += 1
        story.coup("", shoe="V1", number=number)
    payloads = said(story.coup("", shoe="V1", number=number + 1).events)
    finding = one(payloads, "cut_card")
    assert (finding.coup, finding.words) == (
        number + 1,
        f"coup {number + 1} was opened after the cut card of shoe V1 had come out",
    )


def test_a_round_that_was_not_shuffled():
    story = Story("de", source="virtual").open().load("R1").coup("", shoe="R1").coup("", shoe="R1", number=2)
    finding = one(said(story.events), "shuffle")
    assert finding.words.startswith("shoe R1 was not shuffled for coup 2:")


def test_unrevealed_commitments_are_counted():
    story = Story(source="virtual").open().load("V1").coup("", shoe="V1")
    verifier = Verifier()
    assert findings(said(story.events, verifier)) == []
    assert list(verifier.unrevealed()) == [("game/op.T1", "V1")]


def test_a_shoe_that_ended_gives_no_more_cards():
    story = virtual()
    payloads = said(story.coup("", shoe="V1", number=9).events)
    assert "shoe V1 is used, but it had ended" in [each.words for each in findings(payloads)]
    assert len(verified(payloads)) == 4


# ------------------------------------------------------------------------------------- tables and sequence


@pytest.mark.parametrize(
    ("tamper", "check", "words"),
    [
        (change(CoupOpened, house_number=2), "house", "coup 1 goes by house 2, and 1 is in force"),
        (
            change(CoupOpened, spots=("player", "banker")),
            "spots",
            "the spots of coup 1 are not those of house nl",
        ),
        (change(HouseSet, house_number=4), "house", "house 4 follows house 0"),
        (change(CoupOpened, dealer_seat=3), "dealer", "seat 3 dealt, and it was for a croupier to deal"),
        (change(CoupConcluded, version=2), "result", "the first result of coup 1 has version 2"),
        (replace(TableOpened, lambda _: None), "order", "table T1 is used and was never opened"),
        (replace(TableOpened, lambda each: [each, each]), "order", "table T1 was opened twice"),
        (replace(HouseSet, lambda _: None), "house", "no house was set before coup 1"),
        (replace(BettingClosed, lambda _: None), "order", "was dealt before betting on coup 1 was closed"),
        (replace(BettingClosed, lambda each: [each, each]), "order", "betting on coup 1 was closed twice"),
        (replace(CoupOpened, lambda each: [each, each]), "order", "coup 1 of shoe S1 was opened twice"),
        (
            replace(CoupConcluded, lambda each: [each, each]),
            "order",
            "coup 1 of shoe S1 goes on, and it is not open",
        ),
        (replace(CoupConcluded, lambda _: None), "order", "coup 2 was opened while coup 1 was open"),
        (change(CoupOpened, 2, coup=1), "order", "coup 1 of shoe S1 was opened before"),
        (change(CardDealt, table="T2"), "stream", "of table T2 does not belong into game/op.T1"),
    ],
)
def test_game_out_of_order(tamper, check, words):
    payloads = said(plain(tamper).events)
    found = [each.words for each in findings(payloads) if each.check == check]
    assert any(words in each for each in found), [each.words for each in findings(payloads)]
    assert ("S1", 1) not in verified(payloads) or check == "order" or "house 4" in words or "T2" in words


def test_a_house_that_changes_during_a_coup():
    story = Story().open()

    def tamper(payload):
        if isinstance(payload, BettingClosed):
            return [HouseSet(operator=OPERATOR, table="T1", house_number=2, house=HOUSES["fr"]), payload]
        return payload

    story.tamper = tamper
    assert one(said(story.coup("KS 2H 9C 5D").events), "house").words == "the house changed during coup 1"


def test_nothing_happens_at_a_closed_table():
    payloads = said(plain().close().coup("KS 2H 9C 5D", number=6).events)
    assert one(payloads, "order").words == "a coup was opened at table T1, which is closed"


def test_an_event_in_a_foreign_stream():
    story = plain()
    story.write(story.of(AccountOpened)[0].data, story.game)
    assert one(said(story.events), "stream").words == (
        "sabot.wallet.account.opened.v1 has no place in game/op.T1"
    )
    story.write(story.of(BettingClosed)[0].data, story.wallet)
    assert "sabot.game.betting.closed.v1 has no place in wallet/main" in [
        each.words for each in findings(said(story.events))
    ]


# ----------------------------------------------------------------------------------- who deals, who looks


def test_player_win_passes_the_shoe():
    story = Story("lt", source="virtual").open().sit(2, 5, 9).load("V1").pass_shoe("V1", 2, "first_dealer")
    dealt = []
    for number in range(1, 12):
        story.coup("", shoe="V1", number=number, dealer_seat=story.holder)
        dealt.append(story.holder)
        if story.of(CoupConcluded)[-1].data.outcome == "player":
            story.pass_shoe("V1", {2: 5, 5: 9, 9: 2}[story.holder or 0], "player_win")
    payloads = said(story.end("V1", "replaced").events)
    assert findings(payloads) == []
    assert len(verified(payloads)) == 11
    assert set(dealt) == {2, 5, 9}


def _until_player_wins():
    story = Story("lt", source="virtual").open().sit(2, 5, 9).load("V1").pass_shoe("V1", 2, "first_dealer")
    number = 1
    while True:
        story.coup("", shoe="V1", number=number, dealer_seat=2)
        if story.of(CoupConcluded)[-1].data.outcome == "player":
            return story, number
        number += 1


def test_a_shoe_that_should_have_passed():
    story, number = _until_player_wins()
    payloads = said(story.coup("", shoe="V1", number=number + 1, dealer_seat=2).events)
    finding = one(payloads, "shoe_passing")
    assert finding.words == "Player had won: the shoe should have gone to seat 5 before this coup"
    assert finding.coup == number + 1


def test_a_shoe_that_passed_to_the_wrong_seat():
    story, _ = _until_player_wins()
    story.pass_shoe("V1", 9, "player_win")
    assert (
        one(said(story.events), "shoe_passing").words == "the shoe was passed to seat 9, and seat 5 is next"
    )


@pytest.mark.parametrize(
    ("to", "reason", "source", "words"),
    [
        (5, "player_win", 2, "the shoe was passed on, and Player had not won"),
        (5, "first_dealer", None, "the shoe was passed from nobody, and it lay before seat 2"),
        (5, "recorded", 2, "the shoe was passed by a record at a table that deals its own cards"),
        (5, "player_win", 9, "the shoe was passed from seat 9, and it lay before seat 2"),
    ],
)
def test_a_shoe_that_passed_without_a_reason(to, reason, source, words):
    story = Story("lt", source="virtual").open().sit(2, 5, 9).load("V1").pass_shoe("V1", 2, "first_dealer")
    story.pass_shoe("V1", to, reason, source=source)
    assert words in [each.words for each in findings(said(story.events)) if each.check == "shoe_passing"]


def test_a_dealer_who_gets_up_passes_the_shoe_on():
    story = Story("lt", source="virtual").open().sit(2, 5, 9).load("V1").pass_shoe("V1", 2, "first_dealer")
    story.get_up(2).pass_shoe("V1", 5, "dealer_left", source=2)
    story.coup("", shoe="V1", dealer_seat=5)
    assert findings(said(story.events)) == []
    story.get_up(5).pass_shoe("V1", 2, "dealer_left", source=5)
    assert "the shoe was passed to seat 2, and seat 9 is next" in [
        each.words for each in findings(said(story.events))
    ]


def test_somebody_else_dealt():
    payloads = said(big_table(change(CoupOpened, dealer_seat=9)).events)
    assert one(payloads, "dealer").words == "seat 9 dealt, and it was for seat 5 to deal"


def test_seats():
    story = Story("lt").open().sit(2, 2, 15).get_up(7)
    assert [each.words for each in findings(said(story.events))] == [
        "seat 2 was taken twice",
        "seat 15 does not exist: the table has 14",
        "seat 7 was left by nobody",
    ]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (change(CardsToSqueeze, seat=2), "seat 2 looked at Player's cards, and seat 9 was to do so"),
        (change(CardsToSqueeze, seat=None), "a croupier looked at Player's cards, and seat 9 was to do so"),
        (change(CardsToSqueeze, 2, seat=5), "seat 5 looked at Player's cards, and a croupier was to do so"),
        (replace(CardsToSqueeze, lambda _: None), "nobody was named to look at Player's cards"),
        (replace(CardsToSqueeze, lambda each: [each, each]), "Player's cards were given to look at twice"),
    ],
)
def test_who_may_look_at_the_cards(tamper, words):
    assert one(said(big_table(tamper).events), "squeeze").words == words


def test_nobody_looks_where_the_cards_are_shown():
    story = Story().open().coup("KS 2H 9C 5D")
    look = CardsToSqueeze(operator=OPERATOR, table="T1", shoe="S1", coup=2, seat=None)

    def tamper(payload):
        return [look, payload] if isinstance(payload, CoupConcluded) else payload

    story.tamper = tamper
    payloads = said(story.coup("KS 2H 9C 5D", number=2).events)
    assert one(payloads, "squeeze").words == "this house shows the cards at once"


# ----------------------------------------------------------------------------------------------------- seal


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"bets": 3}, "number of bets"),
        ({"first": 99}, "first bet"),
        ({"last": 99}, "last bet"),
        ({"digest": "0" * 64}, "digest"),
        ({"totals": lambda totals: totals[:1]}, "totals"),
        ({"totals": lambda totals: (totals[0].model_copy(update={"stake": 1}), *totals[1:])}, "totals"),
        ({"largest_player": ()}, "largest Player bets"),
        (
            {"largest_player": lambda largest: (largest[0].model_copy(update={"seats": (1, 2)}),)},
            "largest Player bets",
        ),
    ],
)
def test_the_seal_says_what_the_bets_say(fields, what):
    payloads = said(plain(change(BetsSealed, **fields)).events)
    finding = one(payloads, "seal")
    assert finding.words == f"the seal of coup 1 has another {what} than the accepted bets"
    assert verified(payloads)[0] == ("S1", 2)


def test_a_seal_without_bets_has_the_latest_events_hash():
    story = Story(tamper=change(BetsSealed, digest="1" * 64)).open().coup("KS 2H 9C 5D")
    assert one(said(story.events), "seal").words.startswith("the seal of coup 1 has another digest")


def test_a_card_that_names_another_seal():
    def other(seal: EventRef) -> EventRef:
        return seal.model_copy(update={"hash": "0" * 64})

    payloads = said(plain(change(CardDealt, 2, seal=other)).events)
    assert one(payloads, "seal").words == "card 2H names another seal than the first card of coup 1"
    everywhere = Story(tamper=lambda payload: payload.model_copy(update={"seal": other(payload.seal)})
                       if isinstance(payload, CardDealt) else payload)  # fmt: skip
    payloads = said(everywhere.open().coup("KS 2H 9C 5D").events)
    assert one(payloads, "seal").words == "the cards of coup 1 name another seal than wallet's"
    assert verified(payloads) == []


def test_cards_without_a_seal():
    story = plain()
    bare = [event for event in story.events if not isinstance(event.data, BetsSealed)]
    assert "the cards of coup 1 name a seal that wallet never made" in [
        each.words for each in findings(said(bare)) if each.check == "seal"
    ]


def test_a_bet_after_the_seal():
    bet = plain().of(BetAccepted)[0].data

    def late(payload):
        entry = tuple(
            each.model_copy(update={"party": "main.77"}) if each.ledger == "2030" else each
            for each in bet.entry
        )
        return [payload, bet.model_copy(update={"bet": "main.77", "tx": "late", "entry": entry})]

    story = Story(tamper=replace(BetsSealed, late)).open().coup("KS 2H 9C 5D", BETS)
    payloads = said(story.events)
    assert (
        one(payloads, "late_bet").words == "bet main.77 was accepted after the bets of coup 1 had been sealed"
    )
    assert one(payloads, "settlement").words == "bet main.77 of coup 1 was accepted and not paid"
    assert verified(payloads) == []


def test_bets_sealed_twice():
    payloads = said(plain(replace(BetsSealed, lambda each: [each, each])).events)
    assert findings(payloads)[0].words == "the bets of coup 1 were sealed twice"


# ---------------------------------------------------------------------------------------------------- money


def first_row(**fields):
    """Other values in the first bet of a settlement."""
    return lambda bets: (bets[0].model_copy(update=fields), *bets[1:])


def amount(ledger, by):
    """An entry with another amount on the first posting of a ledger account."""

    def tamper(entry: tuple[Posting, ...]) -> tuple[Posting, ...]:
        place = next(at for at, posting in enumerate(entry) if posting.ledger == ledger)
        posting = entry[place].model_copy(update={"amount": entry[place].amount + by})
        return (*entry[:place], posting, *entry[place + 1 :])

    return tamper


@pytest.mark.parametrize(
    ("tamper", "check", "words"),
    [
        (
            change(CoupSettled, bets=first_row(returned=2_100)),
            "payout",
            "bet main.1 of 10.00 EUR on player was paid 21.00 EUR, and 20.00 EUR was due",
        ),
        (
            change(CoupSettled, bets=first_row(commission=50)),
            "commission",
            ("the commission on bet main.1 of 10.00 EUR was 0.50 EUR (exactly 0 minor units), "
            "and 0.00 EUR (0) was due"),
        ),
        (
            change(CoupSettled, bets=first_row(commission_exact="1/2")),
            "commission",
            ("the commission on bet main.1 of 10.00 EUR was 0.00 EUR (exactly 1/2 minor units), "
            "and 0.00 EUR (0) was due"),
        ),
        (
            change(CoupSettled, bets=first_row(tier="push")),
            "tiers",
            "bet main.1 on player was settled as push, and win was due",
        ),
        (
            change(CoupSettled, bets=lambda bets: bets[1:]),
            "settlement",
            "bet main.1 of coup 1 was accepted and not paid",
        ),
        (
            change(CoupSettled, bets=lambda bets: (*bets, bets[0])),
            "settlement",
            "bet main.1 of coup 1 is paid twice",
        ),
        (
            change(CoupSettled, bets=lambda bets: (*bets, bets[0].model_copy(update={"bet": "x.9"}))),
            "settlement",
            "bet x.9 is paid in coup 1 and was never accepted for it",
        ),
        (
            change(CoupSettled, bets=first_row(account="mallory")),
            "settlement",
            ("bet main.1 ends as 1000 minor units of EUR on player by mallory, "
            "and it was accepted as 1000 minor units of EUR on player by alice"),
        ),
        (
            change(CoupSettled, entry=amount("2010", -100)),
            "entry",
            "the entry moves 21.00 EUR credit on 2010 of alice, and 20.00 EUR credit was due",
        ),
        (
            change(CoupSettled, entry=amount("2010", -100)),
            "entry_sum",
            "the entry does not sum to zero: -1.00 EUR is left over",
        ),
        (
            change(BetAccepted, entry=amount("2030", 100)),
            "bets_in_play",
            "bets in play (2030) come to 9.00 EUR, and the open bets to 10.00 EUR",
        ),
        (
            change(Deposited, entry=amount("1030", 1)),
            "entry",
            "the entry moves 10000.01 EUR debit on 1030, and 10000.00 EUR debit was due",
        ),
        (
            change(Deposited, entry=lambda _: ()),
            "balance",
            "account alice is overdrawn: its cash is -10.00 EUR",
        ),
        (change(BetAccepted, exponent=3), "currency", "EUR has 2 decimals, not 3"),
        (change(Deposited, currency="XXX"), "currency", "XXX is no currency that was declared"),
        (
            replace(AccountOpened, lambda _: None),
            "account",
            "account alice is used and was never opened",
        ),
        (replace(AccountOpened, lambda each: [each, each]), "account", "account alice was opened twice"),
        (change(AccountOpened, operator="other"), "account", "account alice is of operator other, not of op"),
        (change(CoupSettled, part=2), "settlement", ("the settlement of coup 1 is out of order: "
         "part 2 of 1 follows part 0 of 1")),
        (
            replace(CoupSettled, lambda each: [each, each]),
            "second_settlement",
            "coup 1 of shoe S1 was paid, and here it is paid again",
        ),
        (
            change(CoupSettled, result=lambda ref: ref.model_copy(update={"hash": "0" * 64})),
            "result",
            "the settlement of coup 1 does not name the event that ended the coup",
        ),
        (
            change(CoupSettled, outcome="tie"),
            "settlement",
            "coup 1 was settled by outcome tie, and game said player",
        ),
        (
            change(CoupSettled, version=2),
            "settlement",
            "coup 1 was settled by version 2, and game said 1",
        ),
        (
            change(CoupSettled, house_number=2),
            "settlement",
            "coup 1 was settled by house 2, and game said 1",
        ),
        (
            change(CoupOpened, spots=("player", "banker")),
            "spots",
            "bet main.3 is on tie, which coup 1 does not offer",
        ),
        (change(BetAccepted, seat=15), "seat", "bet main.1 is from seat 15, and the table has 14"),
        (
            change(TableOpened, shard="other"),
            "shard",
            "the money of coup 1 is in wallet/main; its table names shard other",
        ),
        (
            replace(BetAccepted, lambda each: [each, each]),
            "bet",
            "bet main.1 was accepted twice",
        ),
        (
            replace(BetsSealed, lambda _: None),
            "seal",
            "coup 1 was settled before its bets were sealed",
        ),
    ],
)  # fmt: skip
def test_money_that_is_not_as_it_must_be(tamper, check, words):
    payloads = said(plain(tamper).events)
    found = [each for each in findings(payloads) if each.check == check]
    assert words in [each.words for each in found], [each.words for each in findings(payloads)]
    if check not in ("account", "second_settlement") and "1030" not in words and "XXX" not in words:
        assert ("S1", 1) not in verified(payloads)
        assert found[0].coup == 1


def test_a_banker_bet_with_a_wrong_commission():
    """Case 12: 51 of 50.5 exactly is right half up, and 50 is not."""
    story = Story().open().coup("KS 9H KC KD", [Bet("banker", 1_010)])
    assert story.of(CoupSettled)[0].data.bets[0].commission == 51
    assert findings(said(story.events)) == []
    tampered = Story(tamper=change(CoupSettled, bets=first_row(commission=50, returned=1_970)))
    payloads = said(tampered.open().coup("KS 9H KC KD", [Bet("banker", 1_010)]).events)
    assert [each.words for each in findings(payloads) if each.check in ("commission", "payout")] == [
        (
            "the commission on bet main.1 of 10.10 EUR was 0.50 EUR (exactly 101/2 minor units), "
            "and 0.51 EUR (101/2) was due"
        ),
        (
            "bet main.1 of 10.10 EUR on banker was paid 19.70 EUR, and 19.69 EUR was due: "
            "stake and winnings, less 0.51 EUR commission"
        ),
    ]


def test_case_17_a_push_that_was_taken():
    story = Story().open().coup("6S 6H KC KD", [Bet("banker", 10_000)], pay_by="player")
    finding = one(said(story.events), "payout")
    assert (finding.recorded, finding.expected) == ("0", "10000")
    assert finding.words.endswith("was paid 0.00 EUR, and 100.00 EUR was due: a tie returns the stake")


def test_many_wrong_bets_are_summed_up():
    story = Story().open()
    story.coup("KS 9H KC KD", [Bet("player", 100, seat=None) for _ in range(30)], pay_by="player")
    payloads = said(story.events)
    assert [each.words for each in findings(payloads)][-1] == "and 50 more bets of coup 1 likewise"
    assert len(findings(payloads)) == 12


def test_a_stake_that_was_not_there():
    story = Story().open().fund("alice", 500).coup("KS 9H KC KD", [Bet("player", 501)])
    assert one(said(story.events), "balance").words == "account alice is overdrawn: its cash is -0.01 EUR"


def test_a_difference_in_play_is_said_once():
    payloads = said(plain(change(BetAccepted, entry=amount("2030", 100))).events)
    assert [each.sequence for each in findings(payloads) if each.check == "bets_in_play"] == [3]


def test_a_settled_void_and_a_returned_result():
    story = plain()
    settled, returned = story.of(CoupSettled)[0].data, story.of(CoupReturned)[0].data

    def as_settled(payload):
        return settled.model_copy(update={"coup": 4, "result": payload.result, "bets": (), "entry": ()})

    payloads = said(plain(replace(CoupReturned, as_settled)).events)
    assert "coup 4 is void, so that every stake goes back, and wallet settled it" in [
        each.words for each in findings(payloads)
    ]

    def as_returned(payload):
        return returned.model_copy(
            update={
                "coup": 1,
                "result": payload.result,
                "bets": tuple(
                    row.model_copy(update={"bet": f"main.{place}"})
                    for place, row in enumerate(returned.bets, start=1)
                ),
                "entry": tuple(
                    post.model_copy(update={"party": f"main.{int((post.party or '').split('.')[1]) - 16}"})
                    if post.ledger == "2030"
                    else post
                    for post in returned.entry
                ),
            }
        )

    payloads = said(plain(replace(CoupSettled, as_returned)).events)
    assert [each.words for each in findings(payloads)] == ["coup 1 has a result, and wallet returned it"]


def test_case_1_a_repeated_settlement_is_a_finding_and_an_idempotency_conflict_is_not():
    story = plain()
    story.write(
        ConflictDetected(
            operator=OPERATOR, kind="repeated_settlement", table="T1", shoe="S1", coup=2, fields=()
        )
    )
    story.write(
        ConflictDetected(operator=OPERATOR, kind="idempotency", account="alice", tx="tx-1", fields=("spot",))
    )
    payloads = said(story.events)
    assert len(verified(payloads)) == 5
    (finding,) = findings(payloads)
    assert (finding.check, finding.coup, finding.words) == (
        "repeated_settlement",
        2,
        "coup 2 of shoe S1 was to be settled a second time; nobody was paid again",
    )


def test_parts_are_complete_and_in_order():
    bets = [Bet("player", 100, seat=None) for _ in range(201)]
    swapped = Story().open().coup("KS 2H 9C 5D", bets)
    one_, two, three = (event.data for event in swapped.of(CoupSettled))
    order = iter((two, one_, three))
    story = Story(
        tamper=lambda payload: (
            next(order).model_copy(update={"result": payload.result})
            if isinstance(payload, CoupSettled)
            else payload
        )
    )
    payloads = said(story.open().coup("KS 2H 9C 5D", bets).events)
    assert [each.words for each in findings(payloads)] == [
        "the settlement of coup 1 is out of order: part 2 of 3 follows part 0 of 3",
        "the settlement of coup 1 is out of order: part 1 of 3 follows part 2 of 3",
        "the settlement of coup 1 is out of order: part 3 of 3 follows part 1 of 3",
    ]


def test_a_part_with_more_than_a_hundred_bets():
    bets = [Bet("player", 100, seat=None) for _ in range(101)]
    whole = Story().open().coup("KS 2H 9C 5D", bets)
    first, second = (event.data for event in whole.of(CoupSettled))

    def joined(payload):
        return payload.model_copy(
            update={
                "parts": 1,
                "bets": first.bets + second.bets,
                "entry": first.entry + second.entry,
            }
        )

    story = Story(tamper=lambda payload: None if isinstance(payload, CoupSettled) and payload.part == 2
                  else joined(payload) if isinstance(payload, CoupSettled) else payload)  # fmt: skip
    payloads = said(story.open().coup("KS 2H 9C 5D", bets).events)
    assert [each.words for each in findings(payloads)] == [
        "a part of the settlement of coup 1 holds 101 bets"
    ]


# --------------------------------------------------------------------------------------- what comes too late


def test_wallet_speaks_of_a_coup_that_is_over():
    story = plain()
    story.write(story.of(BetsSealed)[0].data)
    story.write(story.of(CoupSettled)[0].data)
    payloads = said(story.events)
    assert len(verified(payloads)) == 5
    assert [(each.check, each.coup) for each in findings(payloads)][:2] == [
        ("late", 1),
        ("second_settlement", 1),
    ]


def test_wallet_speaks_of_a_coup_that_game_never_opened():
    def elsewhere(payload):
        return payload.model_copy(update={"coup": 99})

    payloads = said(plain(replace(BetAccepted, elsewhere)).events)
    assert one(payloads, "coup").words == "wallet speaks of coup 99 of shoe S1, which game never opened"


def test_a_settlement_of_a_coup_that_game_did_not_end():
    story = plain()
    bare = [
        event
        for event in story.events
        if not (event.stream == story.game and event.sequence > story.of(CardDealt)[-1].sequence)
    ]
    assert findings(said(bare)) == []  # game's word may still come
    story = plain(replace(CoupConcluded, lambda _: None, 4))
    payloads = said(
        [*story.events, story.write(story.of(HouseSet)[0].data.model_copy(update={"house_number": 2}))]
    )
    assert "coup 5 was settled, and game has not ended it" in [each.words for each in findings(payloads)]


def test_refused_bets_do_not_bring_finished_coups_back():
    story = plain()
    verifier = Verifier()
    said(story.events, verifier)
    refused = Bet("tie", 1, refused="ROUND_CLOSED")
    before = len(story.events)
    story.coup("KS 2H 9C 5D", [refused], number=6)
    story.tamper = change(BetRefused, coup=3)
    story.coup("KS 2H 9C 5D", [refused], number=7)
    payloads = said(story.events[before:], verifier)
    assert (verified(payloads), findings(payloads)) == ([("S1", 6), ("S1", 7)], [])
    assert verifier.open_coups == 0


# ---------------------------------------------------------------------------------------------------- chain


def test_an_event_that_was_changed_shows_at_the_next_one():
    story = plain()
    place = story.events.index(story.of(BetAccepted)[1])
    changed = with_other_bytes(story.events[place], b'"stake":2050', b'"stake":2051')
    payloads = said([*story.events[:place], changed, *story.events[place + 1 :]])
    finding = next(each for each in findings(payloads) if each.check == "chain")
    assert finding.words == (
        f"event {changed.sequence} of wallet/main is not the one that event {changed.sequence + 1} "
        "was chained to: one of the two was changed"
    )
    assert (finding.stream, finding.sequence, finding.coup) == ("wallet/main", changed.sequence, 1)
    assert ("S1", 1) not in verified(payloads)


def test_a_missing_a_repeated_and_a_late_event():
    story = plain()
    game = story.stream(story.game)
    payloads = said([*game[:5], *game[7:]])
    finding = next(each for each in findings(payloads) if each.check == "sequence")
    assert finding.words == "events 6 to 7 are missing from game/op.T1: after 5 comes 8"
    payloads = said([*game[:6], game[5], *game[6:]])
    assert [each.words for each in findings(payloads)] == ["event 6 of game/op.T1 stands there twice"]
    payloads = said([*game[:6], game[3], *game[6:]])
    assert [each.words for each in findings(payloads)] == ["event 4 of game/op.T1 comes after event 6"]


def test_a_stream_that_does_not_begin_at_its_beginning():
    story = plain()
    payloads = said(story.stream(story.game)[1:])
    assert findings(payloads)[0].words == "event 1 is missing from game/op.T1: after 0 comes 2"


def test_an_event_of_an_unknown_type_keeps_its_place():
    story = plain()
    verifier = Verifier()
    for event in story.events[:2]:
        verifier.observe(event)
    first, second = story.events[0], story.events[1]
    unknown: Envelope = second.envelope.model_copy(
        update={"sequence": 3, "previous": second.hash, "type": "sabot.game.unheard.of.v1"}
    )
    assert verifier.observe_unknown(unknown, "ab" * 32) == []
    assert verifier.heads() == {first.stream: (3, "ab" * 32)}
    assert len(verifier.observe_unknown(unknown, "ab" * 32)) == 1


def test_audits_own_stream_is_followed_as_a_chain():
    story = plain()
    verdicts = [each for each in said(story.events) if isinstance(each, CoupVerified)]
    for verdict in verdicts:
        story.write(verdict, "audit/op")
    own = story.stream("audit/op")
    assert said(own) == []
    assert [each.check for each in findings(said([*own[:2], *own[3:]]))] == ["sequence"]
    assert all(later.envelope.previous == earlier.hash for earlier, later in pairwise(own))
