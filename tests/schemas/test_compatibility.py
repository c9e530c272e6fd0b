"""What breaks a reader, planted one by one, and what does not."""

import copy

import pytest

from schemas.compatibility import breaking_changes, widened_places
from schemas.events import EVENTS
from schemas.generate import event_schema

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
CARD = {"type": "string", "pattern": "^[A2-9TJQK]$"}


def fields(**properties):
    """A document with these fields, those without a default required."""
    required = [name for name, schema in properties.items() if "default" not in schema]
    return {"type": "object", "properties": properties, "required": required}


def optional(schema, default=None):
    return {**schema, "default": default}


def changes(old, new):
    """What breaks where a field ``f`` changes from one schema to another."""
    return breaking_changes(fields(f=old), fields(f=new))


# ------------------------------------------------------------------------------------------------- fields


def test_the_same_schema_breaks_nothing():
    for payload in EVENTS.values():
        schema = event_schema(payload)
        assert breaking_changes(schema, copy.deepcopy(schema)) == []
        assert widened_places(schema, copy.deepcopy(schema)) == []


def test_a_field_that_is_removed():
    assert breaking_changes(fields(f=STRING, g=STRING), fields(g=STRING)) == ["f: was removed"]
    assert breaking_changes(fields(f=optional(STRING)), fields()) == ["f: was removed"]


def test_a_field_that_is_renamed_is_removed_and_new():
    assert breaking_changes(fields(f=STRING), fields(g=STRING)) == [
        "f: was removed",
        "g: is new and required: give it a default",
    ]


def test_a_new_field_needs_a_default():
    assert breaking_changes(fields(), fields(f=STRING)) == ["f: is new and required: give it a default"]
    assert breaking_changes(fields(), fields(f=optional(STRING, "x"))) == []
    assert breaking_changes(fields(), fields(f=optional({"anyOf": [STRING, NULL]}))) == []


def test_an_optional_field_that_becomes_required():
    assert changes(optional(STRING, "x"), STRING) == ["f: is required now"]
    assert changes(STRING, optional(STRING, "x")) == []


def test_a_default_that_changes_the_meaning_of_old_documents():
    assert changes(optional(INTEGER, 1), optional(INTEGER, 2)) == ["f: its default changed from 1 to 2"]
    assert changes(optional(INTEGER, 1), optional(INTEGER, True)) == ["f: its default changed from 1 to true"]
    gone = {"type": "object", "properties": {"f": INTEGER}}
    assert breaking_changes(fields(f=optional(INTEGER, 1)), gone) == ["f: its default 1 went away"]
    assert breaking_changes(gone, fields(f=optional(INTEGER, 1))) == []


def test_fields_that_are_not_listed():
    strict = {**fields(f=STRING), "additionalProperties": False}
    assert breaking_changes(fields(f=STRING), strict) == ["*: fields that are not listed are no longer taken"]
    assert breaking_changes(strict, fields(f=STRING)) == []


# ------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (INTEGER, STRING, "integer became string"),
        ({"type": "number"}, INTEGER, "number became integer"),
        (INTEGER, {"type": "array", "items": INTEGER}, "integer became array"),
        ({"anyOf": [INTEGER, STRING]}, INTEGER, "integer or string became integer"),
        ({"type": ["integer", "string"]}, STRING, "integer or string became string"),
        ({}, STRING, "anything became string"),
        ({"anyOf": [STRING, NULL]}, STRING, "may no longer be null"),
        ({"type": ["string", "null"]}, STRING, "may no longer be null"),
        ({"enum": ["a", "b", "c"]}, {"enum": ["a", "c"]}, '"b" is no longer taken'),
        ({"enum": ["a", "b"]}, {"const": "a"}, '"b" is no longer taken'),
        ({"const": 1}, {"const": 2}, "1 is no longer taken"),
        ({"const": 1}, {"const": True}, "integer became boolean"),
        (STRING, {"type": "string", "enum": ["a", "b"]}, 'takes only "a", "b" now'),
        (STRING, CARD, 'pattern "^[A2-9TJQK]$" is new'),
        (CARD, {**STRING, "pattern": "^[A2-9]$"}, 'pattern changed from "^[A2-9TJQK]$" to "^[A2-9]$"'),
        (STRING, {**STRING, "format": "date"}, 'format "date" is new'),
        (INTEGER, {**INTEGER, "minimum": 0}, "takes only >= 0 now"),
        ({**INTEGER, "minimum": 0}, {**INTEGER, "exclusiveMinimum": 0}, "takes only > 0 now"),
        ({**INTEGER, "maximum": 12}, {**INTEGER, "maximum": 8}, "takes only <= 8 now"),
        ({**INTEGER, "maximum": 12}, {**INTEGER, "exclusiveMaximum": 12}, "takes only < 12 now"),
        ({"type": "number", "minimum": 0}, {"type": "number", "exclusiveMinimum": 0}, "takes only > 0 now"),
        (INTEGER, {**INTEGER, "multipleOf": 5}, "multipleOf 5 is new"),
        (STRING, {**STRING, "maxLength": 64}, "takes 64 characters at the most now"),
        ({**STRING, "maxLength": 64}, {**STRING, "maxLength": 32}, "takes 32 characters at the most now"),
        (STRING, {**STRING, "minLength": 1}, "needs 1 characters at least now"),
        ({"type": "array"}, {"type": "array", "minItems": 1}, "needs 1 items at least now"),
        ({"type": "array"}, {"type": "array", "maxItems": 6}, "takes 6 items at the most now"),
        (STRING, {"allOf": [CARD]}, 'pattern "^[A2-9TJQK]$" is new'),
        (STRING, False, "takes nothing now"),
    ],
)
def test_a_value_that_is_narrowed(old, new, words):
    required = {"type": "object", "required": ["f"]}
    before, after = {**required, "properties": {"f": old}}, {**required, "properties": {"f": new}}
    assert breaking_changes(before, after) == [f"f: {words}"]
    assert widened_places(after, before) == ["f"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (INTEGER, {"type": "number"}),
        (STRING, {"anyOf": [INTEGER, STRING]}),
        (STRING, {"anyOf": [STRING, NULL]}),
        (STRING, {}),
        ({"enum": ["a", "b"]}, {"enum": ["c", "b", "a"]}),
        ({"const": "a"}, {"enum": ["a", "b"]}),
        ({"type": "string", "enum": ["a"]}, STRING),
        (CARD, STRING),
        ({**INTEGER, "minimum": 1}, {**INTEGER, "minimum": 0}),
        ({**INTEGER, "maximum": 8}, {**INTEGER, "maximum": 12}),
        ({**STRING, "maxLength": 32}, {**STRING, "maxLength": 64}),
        ({"type": "array", "minItems": 1}, {"type": "array"}),
    ],
)
def test_a_value_that_is_widened(old, new):
    assert changes(old, new) == []
    assert widened_places(fields(f=old), fields(f=new)) == ["f"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({**INTEGER, "minimum": 1}, {**INTEGER, "exclusiveMinimum": 0}),
        ({**INTEGER, "exclusiveMaximum": 10}, {**INTEGER, "maximum": 9}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": ["string", "null"]}, {"anyOf": [NULL, STRING]}),
        (STRING, {**STRING, "title": "F", "description": "words", "x-unit": "cards", "examples": ["x"]}),
        ({**STRING, "description": "old words"}, {**STRING, "description": "new words"}),
        (CARD, {"allOf": [CARD], "description": "words"}),
    ],
)
def test_a_value_that_is_said_in_other_words(old, new):
    assert changes(old, new) == changes(new, old) == []
    assert widened_places(fields(f=old), fields(f=new)) == []


# ---------------------------------------------------------------------------------------------- structures


def test_changes_deep_within():
    def document(stake):
        bets = {"type": "array", "items": {"$ref": "#/$defs/Bet"}}
        return {
            **fields(data={"$ref": "#/$defs/Coup"}),
            "$defs": {
                "Coup": fields(bets=bets),
                "Bet": fields(stake={"$ref": "#/$defs/Stake"}),
                "Stake": stake,
            },
        }

    assert breaking_changes(document(INTEGER), document(STRING)) == [
        "data.bets[].stake: integer became string"
    ]
    assert breaking_changes(document(INTEGER), document(INTEGER)) == []


def test_what_is_defined_elsewhere_is_the_same():
    inline = fields(f=CARD)
    referred = {**fields(f={"$ref": "#/$defs/a~1b"}), "$defs": {"a/b": CARD}}
    assert breaking_changes(inline, referred) == breaking_changes(referred, inline) == []


def test_an_alternative_within_alternatives():
    bet, void = fields(kind={"const": "bet"}, stake=INTEGER), fields(kind={"const": "void"})
    old, new = fields(f={"anyOf": [bet, void]}), fields(f={"anyOf": [void, {**bet, "required": ["kind"]}]})
    assert breaking_changes(old, new) == []
    assert breaking_changes(old, fields(f={"anyOf": [bet]})) == [
        'f.kind: "void" is no longer taken',
        "f.stake: is new and required: give it a default",
    ]


def test_maps():
    def tiers(pattern, value, **more):
        return {"type": "object", "patternProperties": {pattern: value}, **more}

    closed = {"additionalProperties": False}
    assert changes(tiers("^[a-z]+$", STRING, **closed), tiers("^[a-z]+$", INTEGER, **closed)) == [
        "f.*: string became integer"
    ]
    assert changes(tiers("^[a-z]+$", STRING, **closed), tiers("^[a-f]+$", STRING, **closed)) == [
        "f.*: names that match ^[a-z]+$ are no longer taken as such"
    ]
    assert changes(tiers("^[a-z]+$", STRING, **closed), tiers("^[a-z]+$", STRING)) == []
    assert changes({"type": "object"}, tiers("^[a-z]+$", STRING)) == ["f.*: anything became string"]
    of_strings, of_integers = ({"type": "object", "additionalProperties": each} for each in (STRING, INTEGER))
    assert changes(of_strings, of_integers) == ["f.*: string became integer"]
    assert changes(tiers("^[a-z]+$", STRING, **closed), of_strings) == []
    assert changes(of_strings, {**of_strings, "propertyNames": {"enum": ["a"]}}) == [
        'f.* (its name): takes only "a" now'
    ]


def test_arrays():
    array = {"type": "array"}
    assert changes({**array, "items": INTEGER}, {**array, "items": STRING}) == ["f[]: integer became string"]
    assert changes(array, {**array, "items": STRING}) == ["f[]: anything became string"]
    pair, other = [STRING, STRING], [STRING, INTEGER]
    assert changes({**array, "prefixItems": pair}, {**array, "prefixItems": other}) == [
        "f[1]: string became integer"
    ]
    assert changes({**array, "items": STRING}, {**array, "prefixItems": [INTEGER], "items": STRING}) == [
        "f[0]: string became integer"
    ]


def test_a_schema_that_contains_itself():
    def tree(leaf):
        node = fields(leaf=leaf, left={"anyOf": [{"$ref": "#/$defs/Node"}, NULL]})
        return {**fields(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}

    assert breaking_changes(tree(INTEGER), tree(INTEGER)) == []
    assert breaking_changes(tree(INTEGER), tree(STRING)) == [
        "root.leaf: integer became string",
        "root.left.leaf: integer became string",
    ]


def test_the_whole_changes():
    assert breaking_changes(STRING, INTEGER) == ["the whole: string became integer"]


@pytest.mark.parametrize("keyword", ["not", "if", "contains", "allOf", "unevaluatedProperties"])
def test_what_cannot_be_followed_is_not_passed_over(keyword):
    with pytest.raises(ValueError, match=f"{keyword} is not compared"):
        changes(STRING, {**STRING, keyword: [STRING, STRING]})


@pytest.mark.parametrize("reference", ["other.json", "#/$defs/Nowhere"])
def test_a_reference_that_leads_nowhere(reference):
    with pytest.raises(ValueError, match=r"leaves the document|points at nothing"):
        changes(STRING, {"$ref": reference})


# --------------------------------------------------------------------------------------- on our own schemas


def spoiled(name, spoil):
    """What breaks if somebody changes the schema of a type of ours like this."""
    old = event_schema(EVENTS[name])
    new = copy.deepcopy(old)
    spoil(new)
    return breaking_changes(old, new)


def test_planted_in_our_own_schemas():
    settled = "sabot.wallet.coup.settled.v1"
    assert spoiled(settled, lambda s: s["properties"].pop("previous")) == ["previous: was removed"]
    assert spoiled(settled, lambda s: s["$defs"]["SettledBet"]["properties"].pop("tier")) == [
        "data.bets[].tier: was removed"
    ]
    assert spoiled(settled, lambda s: s["$defs"]["Posting"]["required"].append("party")) == [
        "data.entry[].party: is required now"
    ]
    assert spoiled(settled, lambda s: s["$defs"]["EventRef"]["properties"].update(hash=INTEGER)) == [
        "data.result.hash: string became integer"
    ]
    assert spoiled("sabot.game.house.set.v1", lambda s: s["$defs"]["Burn"]["enum"].remove("none")) == [
        'data.house.shoe.burn: "none" is no longer taken'
    ]
    assert spoiled("sabot.game.card.burned.v1", lambda s: s["properties"]["type"].update(const="x")) == [
        'type: "sabot.game.card.burned.v1" is no longer taken'
    ]
