"""Golden events: what was written once can be read by whatever comes later, byte for byte.

The files are evidence. A hash in the manifest keeps anybody from making one fit instead of the reader.
"""

import copy
import json
from collections import defaultdict

import pytest

from schemas.envelope import FIRST_PREVIOUS, DecodeError, decode, hash_of
from schemas.events import EVENTS
from schemas.events.base import EventRef
from schemas.generate import event_schema
from tests.golden import EVENTS_FOLDER, MANIFEST, golden_files
from tests.golden.make import extend
from tests.schemas import faults

FILES = golden_files()
FIRSTS = [path for path in FILES if path.stem in EVENTS]
ABSENT = object()
STRANGE: tuple[object, ...] = (
    ABSENT,
    None,
    "x",
    "",
    "X" * 200,
    -1,
    0,
    10**12,
    0.5,
    True,
    [],
    [None],
    {},
    {"Q/": 1},
)
# What our reader takes and the schema does not.
KNOWN = [(("specversion",), ABSENT), (("datacontenttype",), ABSENT), (("data", "kind"), True)]


def name(value):
    return getattr(value, "stem", None)


def test_every_type_has_a_golden_event():
    missing = sorted(EVENTS.keys() - {path.stem for path in FILES})
    assert not missing, f"let it happen at the end of tests/golden/make.py, then run it: {', '.join(missing)}"


def test_no_golden_event_was_touched():
    manifest = json.loads(MANIFEST.read_text("utf-8"))
    found = {path.name: hash_of(path.read_bytes()) for path in FILES}
    touched = sorted(key for key in manifest.keys() | found.keys() if manifest.get(key) != found.get(key))
    assert not touched, f"golden events stay as they are; restore with git: {', '.join(touched)}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_golden_event_can_be_read(path):
    body = path.read_bytes()
    event = decode(body)
    assert path.name.startswith(f"{event.envelope.type}.")
    assert (event.body, event.hash) == (body, hash_of(body))
    assert event.envelope.id == f"{event.stream}/{event.sequence}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_golden_event_is_what_its_schema_says(path):
    document = json.loads(path.read_bytes())
    assert faults(event_schema(EVENTS[document["type"]]), document) == []


def test_golden_events_are_whole_streams():
    streams = defaultdict(list)
    for event in map(decode, (path.read_bytes() for path in FILES)):
        streams[event.stream].append(event)
    for stream, events in streams.items():
        events.sort(key=lambda event: event.sequence)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1)), stream
        previous = [FIRST_PREVIOUS, *(event.hash for event in events[:-1])]
        assert [event.envelope.previous for event in events] == previous, stream


def test_golden_events_refer_to_each_other_rightly():
    events = [decode(path.read_bytes()) for path in FILES]
    hashes = {(event.stream, event.sequence): event.hash for event in events}
    references = [
        value for event in events for value in dict(event.data).values() if isinstance(value, EventRef)
    ]
    assert len(references) >= 7
    assert all(hashes[each.stream, each.sequence] == each.hash for each in references)


def test_golden_entries_balance():
    entries = [entry for path in FILES if (entry := getattr(decode(path.read_bytes()).data, "entry", None))]
    assert len(entries) >= 6
    assert [sum(posting.amount for posting in entry) for entry in entries] == [0] * len(entries)


# ------------------------------------------------------------------------------------ adding golden events


def test_making_them_again_adds_nothing():
    before = MANIFEST.read_bytes()
    assert extend(EVENTS_FOLDER, MANIFEST) == []
    assert MANIFEST.read_bytes() == before


@pytest.fixture
def album(tmp_path):
    """A copy of the golden events, to be spoiled."""
    for path in [*FILES, MANIFEST]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_what_is_missing_is_added_and_nothing_else_changes(album):
    last, manifest = "sabot.game.table.closed.v1.json", album / MANIFEST.name
    (album / last).unlink()
    hashes = json.loads(manifest.read_text("utf-8"))
    before = decode((EVENTS_FOLDER / last).read_bytes())
    manifest.write_text(json.dumps({key: value for key, value in hashes.items() if key != last}), "utf-8")

    assert extend(album, manifest) == [last]

    added = decode((album / last).read_bytes())
    assert (added.stream, added.sequence, added.data) == (before.stream, before.sequence, before.data)
    assert added.envelope.previous == before.envelope.previous
    assert json.loads(manifest.read_text("utf-8")) == hashes | {last: added.hash}
    assert all((album / path.name).read_bytes() == path.read_bytes() for path in FILES if path.name != last)


def test_a_golden_event_that_got_lost_is_not_made_up(album):
    (album / "sabot.game.table.closed.v1.json").unlink()
    with pytest.raises(ValueError, match=r"restore them with git: sabot\.game\.table\.closed\.v1\.json"):
        extend(album, album / MANIFEST.name)


def test_a_file_that_says_something_else_is_not_overwritten(album):
    one, other = (album / f"sabot.game.seat.taken.v1{number}.json" for number in ("", ".2"))
    one.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match=r"seat\.taken\.v1\.json says something else"):
        extend(album, album / MANIFEST.name)


# --------------------------------------------------------------------------------- the reader and the schema


def places(value, path=()):
    """Every place in a document, as the keys that lead to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(document, place, value):
    """A copy of the document in which something else stands at a place, or nothing."""
    other = copy.deepcopy(document)
    inner = other
    for key in place[:-1]:
        inner = inner[key]
    if value is ABSENT:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return other


def can_be_read(document):
    try:
        decode(json.dumps(document, separators=(",", ":")).encode())
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize("path", FIRSTS, ids=name)
def test_reader_and_schema_refuse_the_same(path):
    """Whatever stands in whatever place, but for what is known.

    The schema asks for the attributes that CloudEvents asks for, where our reader would put in the only
    value there is. It cannot say what belongs together in a house. And to pydantic ``true`` is a 1.
    """
    document = json.loads(path.read_bytes())
    schema = event_schema(EVENTS[document["type"]])
    differ = []
    for place in places(document):
        for value in STRANGE:
            if place == ("type",) or (place, value) in KNOWN:
                continue
            other = changed(document, place, value)
            valid, readable = not faults(schema, other), can_be_read(other)
            if valid != readable and not (valid and place[:2] == ("data", "house")):
                differ.append((place, value, valid))
    assert differ == []
