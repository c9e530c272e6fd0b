"""A log with gaps in it, read as those read it who wait at each until it is filled."""

from hypothesis import given
from hypothesis import strategies as st

from services.audit.core.bytework import Links
from services.audit.core.gaps import Reach, without_early

A, B = "game/op.T1", "wallet/main"


def read(log: str, stream: str = A) -> str:
    """The numbers that are left of a log of one stream; ``?`` is a record that does not tell its place."""
    return "".join(name for name, _ in kept([(name, stream) for name in log]))


def kept(log: list[tuple[str, str]]) -> list[tuple[str, str]]:
    def links_of(record: tuple[str, str]) -> Links | None:
        name, stream = record
        return None if name == "?" else Links(stream, int(name), "")

    reach = Reach()
    for links in map(links_of, log):
        if links is not None:
            reach.note(links)
    return list(without_early(log, links_of, reach))


def test_a_log_without_gaps_is_left_as_it_is():
    for log in ("", "1", "123", "1?2?3", "11223", "123123", "12321"):
        assert read(log) == log


def test_what_came_too_early_and_again_in_its_turn_is_there_once():
    assert read("12" + "45" + "345") == "12345"
    assert read("23" + "123") == "123"
    assert read("1?45?2345") == "1??2345"


def test_two_gaps_of_which_one_is_filled_within_the_other_are_both_filled():
    assert read("1" + "3" + "567" + "23567" + "4567") == "1234567"


def test_a_gap_that_is_not_filled_is_left_for_everybody_to_see():
    for log in ("1245", "345", "1" + "345" + "35", "12" + "45" + "3"):
        assert read(log) == log, "the last one waits for 4 to come behind 3"


def test_each_stream_has_gaps_of_its_own():
    log = [("1", A), ("3", A), ("1", B), ("3", B), ("2", A), ("3", A)]
    assert kept(log) == [("1", A), ("1", B), ("3", B), ("2", A), ("3", A)]


@given(st.integers(1, 9), st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=12))
def test_a_stream_that_was_published_again_from_anywhere_is_whole_and_in_order(length, published):
    """Pieces of it, from anywhere to the end, some with a record lost; and all of it in the end."""
    pieces = []
    for first, is_whole in published:
        piece = [str(number) for number in range(min(first, length), length + 1)]
        pieces.append(piece if is_whole else piece[:1] + piece[2:])
    everything = [str(number) for number in range(1, length + 1)]
    log = [(name, A) for piece in [*pieces, everything] for name in piece]
    left = [int(name) for name, _ in kept(log)]
    furthest = 0
    for number in left:
        assert number <= furthest + 1, "nobody waits here any more"
        furthest = max(furthest, number)
    assert furthest == length
