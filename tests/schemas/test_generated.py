"""What is generated is up to date, says what the models say, and is never replaced by a break."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import schemas.generate
from schemas.envelope import decode
from schemas.events import EVENTS
from schemas.generate import GENERATED, compare, documents, house_schema, run
from services.audit.service import AuditService
from services.game.service import GameService
from services.runtime.topics import topic_of
from services.wallet.service import WalletService
from tests.architecture import ROOT
from tests.golden import golden_files
from tests.schemas import faults

SERVICES = (GameService, WalletService, AuditService)
SEAT_TAKEN = "sabot.game.seat.taken.v1"
SEAT_TAKEN_PATH = f"events/{SEAT_TAKEN}.schema.json"
ADVICE = "This would break a reader of what is already written: make a new version and an upcaster."


@pytest.fixture
def folder(tmp_path):
    """A copy of what is generated, to be spoiled."""
    return Path(shutil.copytree(GENERATED, tmp_path / "generated"))


def edit(folder, path, change):
    """Change a generated document on disk."""
    document = json.loads((folder / path).read_text("utf-8"))
    change(document)
    (folder / path).write_text(json.dumps(document), "utf-8")


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.json")}


# ----------------------------------------------------------------------------------------------- up to date


def test_what_is_generated_is_up_to_date():
    found = compare(GENERATED, documents())
    assert not found.breaks, f"{ADVICE} {found.breaks}"
    assert not found.stale, f"run `make schemas`: {', '.join(found.stale)}"


def test_the_command_agrees_in_another_process():
    result = subprocess.run(
        [sys.executable, "-m", "schemas.generate", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_check_names_what_is_not_up_to_date(folder):
    (folder / "asyncapi.json").unlink()
    edit(folder, SEAT_TAKEN_PATH, lambda document: document.update(description="Old words."))
    before = everything(folder)
    assert run(folder, documents(), check=True) == (
        1,
        [
            "not up to date: asyncapi.json",
            f"not up to date: {SEAT_TAKEN_PATH}",
            "Write them anew with `make schemas`.",
        ],
    )
    assert everything(folder) == before


def test_writing_brings_up_to_date(folder):
    (folder / "asyncapi.json").unlink()
    (folder / "left-over.json").write_text("{}", "utf-8")
    edit(folder, SEAT_TAKEN_PATH, lambda document: document.update(description="Old words."))
    code, said = run(folder, documents(), check=False)
    assert (code, said) == (0, ["wrote asyncapi.json", f"wrote {SEAT_TAKEN_PATH}", "removed left-over.json"])
    assert run(folder, documents(), check=False) == (0, [])
    assert sorted(each.relative_to(folder) for each in everything(folder)) == sorted(map(Path, documents()))


def test_writing_into_nothing(tmp_path):
    assert run(tmp_path / "new", documents(), check=False)[0] == 0
    assert run(tmp_path / "new", documents(), check=True) == (0, [])


def test_the_command(folder, monkeypatch, capsys):
    monkeypatch.setattr(schemas.generate, "GENERATED", folder)
    (folder / "house.schema.json").unlink()
    assert schemas.generate.main(["--check"]) == 1
    assert "not up to date: house.schema.json" in capsys.readouterr().out
    assert schemas.generate.main([]) == 0
    assert capsys.readouterr().out == "wrote house.schema.json\n"


# ------------------------------------------------------------------------------------------ what would break


def data_of(document):
    return document["$defs"]["SeatTaken"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: data_of(d)["properties"].update(dealer={"type": "string"}), "data.dealer: was removed"),
        (
            lambda d: data_of(d)["properties"].update(seat={"type": "string"}),
            "data.seat: string became integer",
        ),
        (
            lambda d: data_of(d)["properties"]["seat"].update(maximum=200),
            "data.seat: takes only <= 99 now",
        ),
        (lambda d: data_of(d)["required"].remove("seat"), "data.seat: is required now"),
        (
            lambda d: (data_of(d)["required"].remove("seat"), data_of(d)["properties"].pop("seat")),
            "data.seat: is new and required: give it a default",
        ),
    ],
)
def test_a_break_is_refused_and_nothing_is_written(folder, change, words):
    (folder / "asyncapi.json").unlink()
    edit(folder, SEAT_TAKEN_PATH, change)
    before = everything(folder)
    code, said = run(folder, documents(), check=False)
    assert (code, said) == (1, [f"{SEAT_TAKEN}: {words}", f"{ADVICE} Nothing was written."])
    assert everything(folder) == before
    code, said = run(folder, documents(), check=True)
    assert code == 1
    assert said[-2:] == [f"{SEAT_TAKEN}: {words}", ADVICE]


def test_an_event_type_cannot_go_away(folder):
    wanted = documents()
    del wanted[SEAT_TAKEN_PATH]
    code, said = run(folder, wanted, check=False)
    assert code == 1
    assert said[0] == f"{SEAT_TAKEN}: the type is gone, but its events are not"
    assert (folder / SEAT_TAKEN_PATH).exists()


def test_a_new_type_and_an_added_field_are_fine(folder):
    (folder / "events/sabot.game.seat.left.v1.schema.json").unlink()
    wanted = copy.deepcopy(documents())
    data_of(wanted[SEAT_TAKEN_PATH])["properties"]["chips"] = {"type": "integer", "default": 0}
    code, said = run(folder, wanted, check=False)
    assert code == 0
    assert said == ["wrote events/sabot.game.seat.left.v1.schema.json", f"wrote {SEAT_TAKEN_PATH}"]


def test_what_older_readers_would_refuse_is_said(folder):
    edit(folder, SEAT_TAKEN_PATH, lambda d: data_of(d)["properties"]["seat"].update(maximum=50))
    code, said = run(folder, documents(), check=False)
    assert code == 0
    assert said == [
        f"{SEAT_TAKEN}: data.seat takes more than before: upgrade readers before writers",
        f"wrote {SEAT_TAKEN_PATH}",
    ]


# --------------------------------------------------------------------------------------- what the schemas say


def objects(value):
    """Every object within a document, the document included."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


EVENT_SCHEMAS = {name: documents()[f"events/{name}.schema.json"] for name in EVENTS}


def test_every_event_and_attribute_is_described():
    for name, schema in EVENT_SCHEMAS.items():
        assert schema["title"] == name
        assert len(schema["description"]) > 10, name
        assert all("title" in each for each in schema["properties"].values() if "$ref" not in each)
        assert [key for key, each in schema["properties"].items() if "description" not in each] == ["data"]


def test_docstrings_of_fields_and_of_their_types_arrive():
    burned = EVENT_SCHEMAS["sabot.game.card.burned.v1"]["$defs"]["CardBurned"]["properties"]
    assert burned["index"]["description"] == "Place in the shoe, from 1."
    assert burned["card"]["description"].startswith("Null where the card left face down")
    assert burned["operator"]["description"].startswith("An operator: no point in it")
    posting = EVENT_SCHEMAS["sabot.wallet.deposited.v1"]["$defs"]["Posting"]
    assert "`amount` is in minor units" in posting["description"]


def test_every_amount_has_a_unit():
    counts = {"exponent", "bets", "seat"}
    for name, schema in EVENT_SCHEMAS.items():
        for each in schema["$defs"].values():
            properties = each.get("properties", {})
            if "currency" not in properties or "operator" in properties:
                continue
            amounts = [key for key, field in properties.items() if field.get("type") == "integer"]
            bare = [key for key in amounts if key not in counts and "x-unit" not in properties[key]]
            assert not bare, f"{name}: say in schemas.generate.UNITS what these count: {bare}"


def test_a_reader_of_an_older_draft_sees_the_same():
    """AsyncAPI reads draft 7, which passes over words that it does not know."""
    since_then = {
        "prefixItems",
        "dependentSchemas",
        "dependentRequired",
        "unevaluatedProperties",
        "minContains",
    }
    for schema in EVENT_SCHEMAS.values():
        assert not [each for each in objects(schema) if since_then & each.keys()]


def test_a_rule_sheet_has_no_unknown_keys():
    sheets = sorted((ROOT / "schemas" / "houses").glob("*.toml"))
    assert sheets
    for sheet in sheets:
        document = tomllib.loads(sheet.read_text("utf-8"))
        assert faults(house_schema(), document) == []
        assert faults(house_schema(), document | {"nmae": "x"}) == [".nmae: additionalProperties"]
        document["shoe"]["deks"] = 8
        assert faults(house_schema(), document) == [".shoe.deks: additionalProperties"]
    inside = EVENT_SCHEMAS["sabot.game.house.set.v1"]["$defs"]["House"]
    assert "additionalProperties" not in inside, "in an event a later version's key is passed over"


# ------------------------------------------------------------------------------------------------- AsyncAPI


@pytest.fixture(scope="module")
def asyncapi():
    return json.loads((GENERATED / "asyncapi.json").read_text("utf-8"))


def target(reference, document):
    """What a reference of the AsyncAPI document points at; a KeyError or OSError if at nothing."""
    file, _, pointer = reference.partition("#")
    found = json.loads((GENERATED / file).read_text("utf-8")) if file else document
    for step in pointer.split("/")[1:]:
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


def test_every_reference_resolves(asyncapi):
    references = [each["$ref"] for each in objects(asyncapi) if "$ref" in each]
    assert len(references) > 2 * len(EVENTS)
    for reference in references:
        assert target(reference, asyncapi)
    for schema in EVENT_SCHEMAS.values():
        inner = [each["$ref"] for each in objects(schema) if isinstance(each.get("$ref"), str)]
        assert all(target(reference, schema) for reference in inner)


def test_the_document_has_the_form_of_asyncapi(asyncapi):
    assert asyncapi["asyncapi"] == "3.0.0"
    assert asyncapi.keys() == {
        "asyncapi",
        "info",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    assert asyncapi["info"].keys() >= {"title", "version"}
    assert asyncapi["components"].keys() == {"messages"}
    known = {"address", "title", "summary", "description", "messages", "bindings"}
    assert all(channel.keys() == known for channel in asyncapi["channels"].values())
    for operation in asyncapi["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert operation["channel"].keys() == {"$ref"}
        assert operation.keys() <= {"action", "channel", "title", "description", "bindings"}
    for message in asyncapi["components"]["messages"].values():
        assert message["payload"].keys() == {"$ref"}
        assert message["correlationId"]["location"] == "$message.payload#/correlationid"
    bindings = [each["bindings"] for each in objects(asyncapi) if "bindings" in each]
    assert all(each.keys() == {"kafka"} for each in bindings)
    assert all(each["kafka"]["bindingVersion"] == "0.5.0" for each in bindings)


def test_every_event_is_in_exactly_one_channel(asyncapi):
    channels = asyncapi["channels"]
    assert channels.keys() == {"game.events", "wallet.events", "audit.events"}
    places = Counter(name for channel in channels.values() for name in channel["messages"])
    assert places == Counter(EVENTS.keys())
    messages = asyncapi["components"]["messages"]
    assert messages.keys() == EVENTS.keys()
    for channel in channels.values():
        for name, reference in channel["messages"].items():
            assert target(reference["$ref"], asyncapi) is messages[name]
            assert messages[name]["name"] == name
            assert target(messages[name]["payload"]["$ref"], asyncapi)["title"] == name


def test_events_are_where_the_relay_sends_them(asyncapi):
    for event in map(decode, (path.read_bytes() for path in golden_files())):
        assert event.envelope.type in asyncapi["channels"][topic_of(event.stream)]["messages"]


def test_who_sends_and_who_receives(asyncapi):
    said: dict[str, set[tuple[str, str]]] = {"send": set(), "receive": set()}
    for name, operation in asyncapi["operations"].items():
        channel = target(operation["channel"]["$ref"], asyncapi)["address"]
        said[operation["action"]].add((name.split(".")[0], channel))
    assert said["send"] == {(service.name, f"{service.name}.events") for service in SERVICES}
    assert said["receive"] == {(service.name, topic) for service in SERVICES for topic in service.consumes}
    groups = {
        name.split(".")[0]: each["bindings"]["kafka"]["groupId"]["const"]
        for name, each in asyncapi["operations"].items()
        if each["action"] == "receive"
    }
    assert groups == {service.name: f"sabot-{service.name}" for service in SERVICES}
