"""Writes ``schemas/generated`` from the models: JSON Schemas and the AsyncAPI document (``make schemas``).

The models are the only source. What stands here beside them is what a model cannot say: the units of
amounts, the attributes of the envelope in words, and who sends and receives on which topic.

An event schema that is already there is only replaced by one under which everything that was ever written
can still be read (``schemas.compatibility``). ``--check`` writes nothing and names what is not up to date.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from schemas.compatibility import breaking_changes, widened_places
from schemas.envelope import EVENT_BYTES_MAX, Envelope
from schemas.events import EVENTS
from schemas.events.audit import AUDIT_EVENTS
from schemas.events.base import Payload
from schemas.events.game import GAME_EVENTS
from schemas.events.wallet import WALLET_EVENTS
from schemas.house import House

GENERATED: Final = Path(__file__).parent / "generated"

JSON_SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI_VERSION: Final = "3.0.0"
KAFKA_BINDING_VERSION: Final = "0.5.0"
DOCUMENT_VERSION: Final = "1.0.0"
"""Of the AsyncAPI document as a whole. Events have versions of their own, in their types."""

_MINOR_UNITS: Final = "minor units of the currency"
UNITS: Final = {
    "amount": _MINOR_UNITS,
    "stake": _MINOR_UNITS,
    "staked": _MINOR_UNITS,
    "returned": _MINOR_UNITS,
    "commission": _MINOR_UNITS,
    "commission_exact": f"{_MINOR_UNITS}, as a fraction",
    "exponent": "digits after the decimal point",
    "decks": "decks of 52 cards",
    "cut_cards_from_end": "cards",
    "cards_out": "cards",
    "rate": "fraction of the winnings",
    "edge_percent": "per cent of the stake",
}
"""By field name: what a number, or a number written as a string, counts."""

_ATTRIBUTES: Final = {
    "specversion": "The version of CloudEvents.",
    "id": "`<stream>/<sequence>`: this event and no other.",
    "source": "The service that wrote the event, such as `sabot/game`.",
    "type": "The event's type, with its version.",
    "datacontenttype": "What `data` is written in.",
    "stream": "`game/<operator>.<table>`, `wallet/<shard>` or `audit/<operator>`.",
    "sequence": "Place in the stream: from 1, without gaps.",
    "previous": "SHA-256 of the bytes before it in its stream, in hexadecimal; 64 zeros for the first.",
    "causationid": "What made this event: the id of another event, or of a command.",
    "correlationid": "What belongs together: all events of a coup have `<operator>/<table>/<shoe>/<coup>`.",
}
_FORMATS: Final = {"source": "uri-reference", "time": "date-time", "gamingday": "date"}


# ------------------------------------------------------------------------------------------- descriptions


@cache
def _syntax(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """The strings below a module's names and below the fields of its classes; the module itself is ``""``."""
    body = _syntax(module).body
    bodies = {node.name: node.body for node in body if isinstance(node, ast.ClassDef)}
    return {owner: dict(_documented(body)) for owner, body in {"": body, **bodies}.items()}


def _documented(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, below in pairwise(body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text


def _plain(text: str) -> str:
    """A docstring as one paragraph of Markdown."""
    return " ".join(text.split()).replace("``", "`")


def _description(model: type[BaseModel], field: str) -> str | None:
    """What stands below the field, or else below the name of its type."""
    for cls in model.__mro__:
        if not cls.__module__.startswith("schemas."):
            continue
        own = _docstrings(cls.__module__).get(cls.__qualname__, {})
        if field in own:
            return _plain(own[field])
        annotation = inspect.get_annotations(cls).get(field)
        if isinstance(annotation, str):
            return _type_description(cls.__module__, annotation.removesuffix(" | None"))
    return None


def _type_description(module: str, name: str) -> str | None:
    """What stands below the name of a type in the module that it comes from."""
    own = _docstrings(module)[""]
    if name in own:
        return _plain(own[name])
    for node in _syntax(module).body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            origin = node.module or ""
            return _type_description(origin, name) if origin.startswith("schemas.") else None
    return None


class _Described(GenerateJsonSchema):
    """pydantic's schemas, with what the docstrings say, and in words that older drafts know as well.

    AsyncAPI reads JSON Schema as draft 7 does. What only 2020-12 knows would be passed over there.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        model: type[BaseModel] = schema["cls"]
        document = super().model_schema(schema)
        if "description" in document:
            document["description"] = _plain(document["description"])
        for name, field in document.get("properties", {}).items():
            if (words := _description(model, name)) is not None:
                field["description"] = words
            if name in UNITS and (field.get("type") in ("integer", "string") or "anyOf" in field):
                field["x-unit"] = UNITS[name]
        return document

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        """Several places of one kind are an array of that kind, of fixed length."""
        document = super().tuple_schema(schema)
        places = document.get("prefixItems")
        if places and "items" not in document and all(place == places[0] for place in places):
            del document["prefixItems"]
            document["items"] = places[0]
        return document

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A name that does not match the pattern is refused; pydantic's schema would let it pass."""
        document = super().dict_schema(schema)
        if "patternProperties" in document:
            document["additionalProperties"] = False
        return document


# ---------------------------------------------------------------------------------------------- documents


def event_schema(payload: type[Payload]) -> dict[str, Any]:
    """The schema of a whole event: the envelope with its data."""
    whole: type[BaseModel] = Envelope[payload]  # type: ignore[valid-type]
    document = whole.model_json_schema(schema_generator=_Described)
    attributes = document["properties"]
    for name, words in _ATTRIBUTES.items():
        attributes[name]["description"] = words
    for name, form in _FORMATS.items():
        attributes[name]["format"] = form
    attributes["type"] = {"const": payload.type_name(), **attributes["type"]}
    # Every event has all attributes. The models' defaults are for those who write one.
    for attribute in attributes.values():
        attribute.pop("default", None)
    return {
        "$schema": JSON_SCHEMA,
        "title": payload.type_name(),
        "description": _plain(payload.__doc__ or ""),
        "type": "object",
        "properties": attributes,
        "required": list(attributes),
        "$defs": document["$defs"],
    }


def house_schema() -> dict[str, Any]:
    """The schema of a rule sheet, in which an unknown key is a misspelled one."""
    document = House.model_json_schema(schema_generator=_Described)
    definitions = document.pop("$defs")
    for each in (document, *definitions.values()):
        if each.get("type") == "object":
            each["additionalProperties"] = False
    words = (
        "A house: one rule sheet, as data. This is its form; whether its parts fit together (a price that "
        "comes out in whole minor units, a cut card that a shoe has room for) is checked when it is loaded."
    )
    return {"$schema": JSON_SCHEMA, **document, "description": words, "$defs": definitions}


@dataclass(frozen=True, slots=True)
class _Topic:
    producer: str
    consumers: tuple[str, ...]
    events: tuple[type[Payload], ...]
    summary: str
    key: str

    @property
    def name(self) -> str:
        return f"{self.producer}.events"


TOPICS: Final = (
    _Topic(
        "game",
        ("wallet", "audit"),
        GAME_EVENTS,
        "Tables, shoes, cards and outcomes: one stream a table.",
        "the stream's name, `game/<operator>.<table>`",
    ),
    _Topic(
        "wallet",
        ("game", "audit"),
        WALLET_EVENTS,
        "Accounts, bets, seals and settlements: one stream a wallet shard.",
        "the name of the shard",
    ),
    _Topic(
        "audit",
        (),
        AUDIT_EVENTS,
        "Verdicts on what the others recorded: one stream an operator. No service of ours acts on them.",
        "the name of the operator",
    ),
)

_CHANNEL_WORDS: Final = (
    "A record is one event: its value is the event's bytes, its key is {key}. So a stream stays in one "
    "partition and in order; a partition may hold several streams. Delivery is at least once: keep the last "
    "`sequence` of each stream, skip what is not above it, and stop that stream at a gap. An event measures "
    "{bytes:,} bytes at the most. A topic that is in use must not get more partitions: keys would move to "
    "others, and order would be lost."
)


def asyncapi() -> dict[str, Any]:
    """What is sent over the bus, by whom, to whom."""
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {
            "title": "Sabot's events",
            "version": DOCUMENT_VERSION,
            "description": (
                "The events by which the services of a baccarat room know each other: CloudEvents 1.0 in "
                "structured JSON, each with its place in a stream and the hash of the event before it. A "
                "type ends in its version. Fields may be added to a version, with a default; a reader passes "
                "over those that it does not know."
            ),
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": {topic.name: _channel(topic) for topic in TOPICS},
        "operations": dict(each for topic in TOPICS for each in _operations(topic)),
        "components": {"messages": {name: _message(name, EVENTS[name]) for name in EVENTS}},
    }


def _channel(topic: _Topic) -> dict[str, Any]:
    return {
        "address": topic.name,
        "title": f"Events of {topic.producer}",
        "summary": topic.summary,
        "description": _CHANNEL_WORDS.format(key=topic.key, bytes=EVENT_BYTES_MAX),
        "messages": {
            payload.type_name(): {"$ref": f"#/components/messages/{payload.type_name()}"}
            for payload in topic.events
        },
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "replicas": 3,
                "topicConfiguration": {
                    "cleanup.policy": ["delete"],
                    "retention.ms": -1,
                    "min.insync.replicas": 2,
                },
                "bindingVersion": KAFKA_BINDING_VERSION,
            }
        },
    }


def _operations(topic: _Topic) -> Iterator[tuple[str, dict[str, Any]]]:
    channel = {"$ref": f"#/channels/{topic.name}"}
    yield (
        f"{topic.producer}.sends",
        {
            "action": "send",
            "channel": channel,
            "title": f"{topic.producer} says what happened",
            "description": (
                f"Only {topic.producer} writes here, from its event store and in its order. A record "
                "counts as sent when all replicas in sync have it (`acks=all`)."
            ),
            "bindings": {"kafka": {"bindingVersion": KAFKA_BINDING_VERSION}},
        },
    )
    for consumer in topic.consumers:
        yield (
            f"{consumer}.receives.{topic.name}",
            {
                "action": "receive",
                "channel": channel,
                "title": f"{consumer} hears {topic.producer}",
                "bindings": {
                    "kafka": {
                        "groupId": {"type": "string", "const": f"sabot-{consumer}"},
                        "bindingVersion": KAFKA_BINDING_VERSION,
                    }
                },
            },
        )


def _message(name: str, payload: type[Payload]) -> dict[str, Any]:
    topic = next(topic for topic in TOPICS if payload in topic.events)
    return {
        "name": name,
        "title": f"{payload.__name__} {payload.VERSION}",
        "summary": _plain(payload.__doc__ or ""),
        "contentType": "application/cloudevents+json",
        "payload": {"$ref": f"./{_event_path(name)}"},
        "correlationId": {
            "description": _ATTRIBUTES["correlationid"],
            "location": "$message.payload#/correlationid",
        },
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": f"{topic.key[0].upper()}{topic.key[1:]}."},
                "bindingVersion": KAFKA_BINDING_VERSION,
            }
        },
    }


def _event_path(name: str) -> str:
    return f"events/{name}.schema.json"


def documents() -> dict[str, dict[str, Any]]:
    """Everything that is generated, by path below ``schemas/generated``."""
    return {
        **{_event_path(name): event_schema(payload) for name, payload in EVENTS.items()},
        "house.schema.json": house_schema(),
        "asyncapi.json": asyncapi(),
    }


# ------------------------------------------------------------------------------------------ files on disk


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is on disk, against what the models say now."""

    stale: tuple[str, ...]
    """Paths that are missing, different, or belong to no event."""
    breaks: tuple[str, ...]
    """Changes that a reader would trip over, each as "TYPE: FIELD: what changed"."""
    widened: tuple[str, ...]
    """Places that take more than before, each as "TYPE: FIELD"."""


def compare(folder: Path, wanted: dict[str, dict[str, Any]]) -> Comparison:
    """Compare the files below ``folder`` with the documents that should stand there."""
    there = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.json")}
    stale = {path for path, document in wanted.items() if there.get(path) != _text(document)} | (
        there.keys() - wanted
    )
    breaks, widened = [], []
    for path in sorted(stale & there.keys()):
        if not path.startswith("events/"):
            continue
        name = path.removeprefix("events/").removesuffix(".schema.json")
        if path not in wanted:
            breaks.append(f"{name}: the type is gone, but its events are not")
            continue
        old, new = json.loads(there[path]), wanted[path]
        breaks += [f"{name}: {words}" for words in breaking_changes(old, new)]
        widened += [f"{name}: {place}" for place in widened_places(old, new)]
    return Comparison(tuple(sorted(stale)), tuple(breaks), tuple(widened))


def write(folder: Path, wanted: dict[str, dict[str, Any]], stale: Sequence[str]) -> None:
    """Bring these paths up to date. ``folder`` keeps no document that is not wanted."""
    for path in stale:
        if path in wanted:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(_text(wanted[path]), "utf-8", newline="\n")
        else:
            (folder / path).unlink()


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def run(folder: Path, wanted: dict[str, dict[str, Any]], *, check: bool) -> tuple[int, list[str]]:
    """Check, or write: the exit code, and what there is to say."""
    found = compare(folder, wanted)
    said = [f"not up to date: {path}" for path in found.stale] if check else []
    if found.breaks:
        said += found.breaks
        said.append(
            "This would break a reader of what is already written: make a new version and an upcaster."
            + ("" if check else " Nothing was written.")
        )
        return 1, said
    said += [f"{place} takes more than before: upgrade readers before writers" for place in found.widened]
    if check:
        return (1, [*said, "Write them anew with `make schemas`."]) if found.stale else (0, said)
    write(folder, wanted, found.stale)
    return 0, [*said, *(f"{'wrote' if path in wanted else 'removed'} {path}" for path in found.stale)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: ``python -m schemas.generate [--check]``."""
    parser = argparse.ArgumentParser(
        prog="python -m schemas.generate", description=_plain(main.__doc__ or "")
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if anything is not up to date"
    )
    code, said = run(GENERATED, documents(), check=parser.parse_args(arguments).check)
    for line in said:
        print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
