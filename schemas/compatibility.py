"""Whether what was written under a schema can still be read under its successor.

Events are for ever: a stream holds what every earlier version of a program wrote. So an event's schema may
take more than before, and say more than before, but never ask for more than before, and a field never goes
away, because somebody reads it. Anything else is a new version of the event, and an upcaster.

The comparison follows references and looks into objects, arrays and alternatives. It errs on the side of
care: of two different patterns it says that something changed, and of a keyword that it cannot follow it
says so instead of passing it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Schema = Mapping[str, Any]

_ANYTHING: Final[Schema] = {}
_NOTHING: Final[Schema] = {"enum": []}
_NAME: Final[Schema] = {"type": "string"}
_MISSING: Final = object()

_LEAST: Final = {"minLength": "characters", "minItems": "items", "minProperties": "fields"}
_MOST: Final = {"maxLength": "characters", "maxItems": "items", "maxProperties": "fields"}
_COMPARED: Final = frozenset({
    "type", "enum", "const", "anyOf", "oneOf", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "items",
    "prefixItems",
    *_LEAST, *_MOST,
})  # fmt: skip
_SAYS_NOTHING: Final = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator",
    "$schema", "$id", "$comment", "$defs", "$ref",
})  # fmt: skip
"""Keywords that forbid no value. (A default does not either; it is compared where it counts.)"""

_NOT_FOLLOWED: Final = frozenset({
    "allOf", "not", "if", "then", "else", "contains", "dependentSchemas", "unevaluatedItems",
    "unevaluatedProperties", "$dynamicRef",
})  # fmt: skip


class Narrowing(NamedTuple):
    """A place in a document, and what the newer schema does not take there."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{self.path or 'the whole'}: {self.words}"


def breaking_changes(old_schema: Schema, new_schema: Schema) -> list[str]:
    """Each change that a reader would trip over, as "FIELD: what changed". Empty: everything fits.

    A field that was removed, retyped, narrowed so that an old document would no longer be valid, newly
    required, or whose default changed (so that old documents without it would mean something else).

    Raises:
        ValueError: a schema has a keyword that is not followed, or a reference that leads nowhere.
    """
    comparison = _Comparison(old_schema, new_schema, fields_must_stay=True)
    return [str(each) for each in dict.fromkeys(comparison.narrowings("", old_schema, new_schema))]


def widened_places(old_schema: Schema, new_schema: Schema) -> list[str]:
    """Where the new schema takes values that a program of the old one would refuse.

    That is no break: what is written can be read. But readers must be upgraded before writers.
    """
    comparison = _Comparison(new_schema, old_schema, fields_must_stay=False)
    found = comparison.narrowings("", new_schema, old_schema)
    return list(dict.fromkeys(each.path or "the whole" for each in found))


@dataclass
class _Comparison:
    old_root: Schema
    new_root: Schema
    fields_must_stay: bool
    _within: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of schemas that are being compared: one may contain itself."""

    def narrowings(self, path: str, old: Any, new: Any) -> Iterator[Narrowing]:
        """What ``new`` does not take of that which ``old`` takes."""
        pair = (id(old), id(new))
        if pair in self._within or not _schema(new):
            return
        self._within.add(pair)
        yield from self._alternatives(path, _branches(old, self.old_root), _branches(new, self.new_root))
        self._within.remove(pair)

    def _alternatives(self, path: str, old: Sequence[Schema], new: Sequence[Schema]) -> Iterator[Narrowing]:
        """Every alternative of the old schema must fit into one of the new."""
        for branch in old:
            candidates = [each for each in new if _type_fits(_type(branch), _type(each))]
            if candidates:
                yield from min((list(self._inside(path, branch, each)) for each in candidates), key=len)
            elif _type(branch) == "null":
                yield Narrowing(path, "may no longer be null")
            else:
                yield Narrowing(path, f"{_types(old)} became {_types(new)}")

    def _inside(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        yield from (Narrowing(path, words) for words in _scalar_narrowings(old, new))
        yield from self._fields(path, old, new)
        yield from self._further_fields(path, old, new)
        yield from self._items(path, old, new)

    def _fields(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was: Schema = old.get("properties", {})
        now: Schema = new.get("properties", {})
        was_required, now_required = old.get("required", []), new.get("required", [])
        for name, schema in was.items():
            place = _below(path, name)
            if name in now:
                yield from self.narrowings(place, schema, now[name])
                if name not in was_required and name not in now_required:
                    yield from self._default(place, schema, now[name])
            elif self.fields_must_stay:
                yield Narrowing(place, "was removed")
        for name in now_required:
            if name not in was_required:
                words = "is required now" if name in was else "is new and required: give it a default"
                yield Narrowing(_below(path, name), words)

    def _default(self, path: str, old: Any, new: Any) -> Iterator[Narrowing]:
        before = _resolved(old, self.old_root).get("default", _MISSING)
        after = _resolved(new, self.new_root).get("default", _MISSING)
        if not self.fields_must_stay or before is _MISSING:
            return
        if after is _MISSING:
            yield Narrowing(path, f"its default {_json(before)} went away")
        elif _json(before) != _json(after):
            yield Narrowing(path, f"its default changed from {_json(before)} to {_json(after)}")

    def _further_fields(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        """Fields whose names are not listed: maps, and what a reader lets pass."""
        was = _schema(old.get("additionalProperties", True))
        now = _schema(new.get("additionalProperties", True))
        was_named: Schema = old.get("patternProperties", {})
        now_named: Schema = new.get("patternProperties", {})
        place = _below(path, "*")
        names = old.get("propertyNames", _NAME), new.get("propertyNames", _NAME)
        yield from self.narrowings(f"{place} (its name)", *names)
        for pattern, schema in was_named.items():
            if pattern in now_named:
                yield from self.narrowings(place, schema, now_named[pattern])
            elif now == _NOTHING:
                yield Narrowing(place, f"names that match {pattern} are no longer taken as such")
            else:
                yield from self.narrowings(place, schema, now)
        if was == _NOTHING:
            return
        for pattern in now_named:
            if pattern not in was_named:
                yield from self.narrowings(place, was, now_named[pattern])
        if now == _NOTHING:
            yield Narrowing(place, "fields that are not listed are no longer taken")
        else:
            yield from self.narrowings(place, was, now)

    def _items(self, path: str, old: Schema, new: Schema) -> Iterator[Narrowing]:
        was, now = old.get("prefixItems", []), new.get("prefixItems", [])
        was_rest, now_rest = old.get("items", True), new.get("items", True)
        for index in range(max(len(was), len(now))):
            before = was[index] if index < len(was) else was_rest
            after = now[index] if index < len(now) else now_rest
            yield from self.narrowings(f"{path}[{index}]", before, after)
        if _schema(was_rest) != _NOTHING:
            yield from self.narrowings(f"{path}[]", was_rest, now_rest)


# ------------------------------------------------------------------------------------- one value at a time


def _scalar_narrowings(old: Schema, new: Schema) -> Iterator[str]:
    yield from _values(old, new)
    if _takes_less(_lowest(old), _lowest(new)):
        yield f"takes only {_bounds(new, {'minimum': '>=', 'exclusiveMinimum': '>'})} now"
    if _takes_less(_highest(old), _highest(new)):
        yield f"takes only {_bounds(new, {'maximum': '<=', 'exclusiveMaximum': '<'})} now"
    for keyword, what in _LEAST.items():
        if new.get(keyword, 0) > old.get(keyword, 0):
            yield f"needs {new[keyword]} {what} at least now"
    for keyword, what in _MOST.items():
        if keyword in new and (keyword not in old or new[keyword] < old[keyword]):
            yield f"takes {new[keyword]} {what} at the most now"
    for keyword in new:
        if keyword in _NOT_FOLLOWED:
            raise ValueError(f"{keyword} is not compared: teach schemas/compatibility.py what it means")
        if keyword not in _COMPARED and keyword not in _SAYS_NOTHING and not keyword.startswith("x-"):
            yield from _same(keyword, old, new)


def _same(keyword: str, old: Schema, new: Schema) -> Iterator[str]:
    if keyword not in old:
        yield f"{keyword} {_json(new[keyword])} is new"
    elif _json(old[keyword]) != _json(new[keyword]):
        yield f"{keyword} changed from {_json(old[keyword])} to {_json(new[keyword])}"


def _values(old: Schema, new: Schema) -> Iterator[str]:
    was, now = _listed(old), _listed(new)
    if now is None:
        return
    if was is None:
        yield f"takes only {', '.join(now)} now" if now else "takes nothing now"
    else:
        yield from (f"{value} is no longer taken" for value in was if value not in now)


def _listed(schema: Schema) -> list[str] | None:
    """The only values, as JSON, for 1 and true are equal in Python."""
    if "const" in schema:
        return [_json(schema["const"])]
    return [_json(value) for value in schema["enum"]] if "enum" in schema else None


def _lowest(schema: Schema) -> tuple[float, bool] | None:
    """The lower bound in an order in which a greater one takes less."""
    bounds = [
        *([(schema["minimum"], False)] if "minimum" in schema else ()),
        *([(schema["exclusiveMinimum"], True)] if "exclusiveMinimum" in schema else ()),
    ]
    whole = schema.get("type") == "integer"
    return max(((bound + 1, False) if whole and out else (bound, out) for bound, out in bounds), default=None)


def _highest(schema: Schema) -> tuple[float, bool] | None:
    """The upper bound, mirrored, so that here too a greater one takes less."""
    mirrored: dict[str, Any] = {"type": schema.get("type")}
    for keyword, twin in (("maximum", "minimum"), ("exclusiveMaximum", "exclusiveMinimum")):
        if keyword in schema:
            mirrored[twin] = -schema[keyword]
    return _lowest(mirrored)


def _takes_less(old: tuple[float, bool] | None, new: tuple[float, bool] | None) -> bool:
    return new is not None and (old is None or old < new)


def _bounds(schema: Schema, signs: Mapping[str, str]) -> str:
    return " and ".join(f"{sign} {schema[keyword]}" for keyword, sign in signs.items() if keyword in schema)


# --------------------------------------------------------------------------------- what a schema amounts to


def _branches(schema: Any, root: Schema) -> list[Schema]:
    """The alternatives of a schema, each without references and with at most one type."""
    whole = _resolved(schema, root)
    for keyword in ("anyOf", "oneOf"):
        if keyword in whole:
            rest = {key: value for key, value in whole.items() if key != keyword}
            parts = [{**rest, **_resolved(part, root)} for part in whole[keyword]]
            return [branch for part in parts for branch in _branches(part, root)]
    if isinstance(whole.get("type"), list):
        return [{**whole, "type": each} for each in whole["type"]]
    return [whole]


def _resolved(schema: Any, root: Schema) -> Schema:
    """The schema with its own reference followed, and with an ``allOf`` of one part opened."""
    found = _schema(schema)
    while "$ref" in found or len(found.get("allOf", ())) == 1:
        keyword = "$ref" if "$ref" in found else "allOf"
        inner = _target(found["$ref"], root) if keyword == "$ref" else _schema(found["allOf"][0])
        found = {**inner, **{key: value for key, value in found.items() if key != keyword}}
    return found


def _target(reference: str, root: Schema) -> Schema:
    """What ``#/$defs/Name`` points at.

    Raises:
        ValueError: the reference leaves the document, or points at nothing.
    """
    if not reference.startswith("#"):
        raise ValueError(f"{reference!r} leaves the document: only references within it are compared")
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            raise ValueError(f"{reference!r} points at nothing")
        found = found[key]
    return _schema(found)


def _schema(schema: Any) -> Schema:
    if isinstance(schema, bool):
        return _ANYTHING if schema else _NOTHING
    assert isinstance(schema, Mapping), f"{schema!r} is no schema"
    return schema


def _type(schema: Schema) -> str | None:
    """The type of the values, also where a list of values implies it; None where any may come."""
    if "type" in schema:
        return str(schema["type"])
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    types = {_type_of(value) for value in values}
    return types.pop() if len(types) == 1 else None


def _type_of(value: Any) -> str:
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        type(None): "null",
        list: "array",
    }
    return names.get(type(value), "object")


def _type_fits(old: str | None, new: str | None) -> bool:
    return new is None or old == new or (old, new) == ("integer", "number")


def _types(branches: Sequence[Schema]) -> str:
    named = [_type(branch) or "anything" for branch in branches]
    return " or ".join(dict.fromkeys(name for name in named if name != "null" or len(named) == 1))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
