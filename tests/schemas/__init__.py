"""The language of the services: it may grow, and nothing that was ever said becomes unreadable.

``faults`` checks a document against a JSON Schema. It knows the keywords that the generated schemas use and
fails on any other, so that it cannot pass over what it does not understand.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "format", "x-unit"}
CHECKS = {
    # As JSON: in Python, 1 and true are equal.
    "const": lambda value, wanted: json.dumps(value) == json.dumps(wanted),
    "enum": lambda value, wanted: json.dumps(value) in map(json.dumps, wanted),
    "minimum": lambda value, wanted: value >= wanted,
    "maximum": lambda value, wanted: value <= wanted,
    "exclusiveMinimum": lambda value, wanted: value > wanted,
    "minLength": lambda value, wanted: len(value) >= wanted,
    "maxLength": lambda value, wanted: len(value) <= wanted,
    "minItems": lambda value, wanted: len(value) >= wanted,
    "maxItems": lambda value, wanted: len(value) <= wanted,
    # JSON Schema's $ is the very end; Python's also stands before a last line feed. \d is ASCII there.
    "pattern": lambda value, wanted: re.search(wanted.replace("$", r"\Z"), value, re.ASCII),
}
STRUCTURE = {
    "type", "$ref", "anyOf", "properties", "required", "additionalProperties", "patternProperties", "items",
}  # fmt: skip


def faults(schema: dict[str, Any], value: Any) -> list[str]:
    """Where a document is not what the schema says, each as "PATH: keyword"."""
    return list(_faults(schema, value, schema, ""))


def _faults(schema: Any, value: Any, root: dict[str, Any], path: str) -> Iterator[str]:
    unknown = schema.keys() - ANNOTATIONS - CHECKS.keys() - STRUCTURE
    assert not unknown, f"{path}: this checker does not know {sorted(unknown)}: teach it"
    if "$ref" in schema:
        yield from _faults(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root, path)
    if "anyOf" in schema and all(list(_faults(each, value, root, path)) for each in schema["anyOf"]):
        yield f"{path}: anyOf"
    if "type" in schema and not _is_of(schema["type"], value):
        yield f"{path}: type"
        return
    yield from (
        f"{path}: {key}" for key, check in CHECKS.items() if key in schema and not check(value, schema[key])
    )
    if isinstance(value, dict):
        yield from (f"{path}.{name}: required" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            yield from _field_faults(schema, name, item, root, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _faults(schema["items"], item, root, f"{path}[{index}]")


def _field_faults(schema: Any, name: str, item: Any, root: dict[str, Any], path: str) -> Iterator[str]:
    by_pattern = [each for key, each in schema.get("patternProperties", {}).items() if re.search(key, name)]
    named = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    for each in [*named, *by_pattern]:
        yield from _faults(each, item, root, path)
    others = schema.get("additionalProperties")
    if not named and not by_pattern and others is False:
        yield f"{path}: additionalProperties"
    if not named and not by_pattern and isinstance(others, dict):
        yield from _faults(others, item, root, path)


def _is_of(name: str, value: Any) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
