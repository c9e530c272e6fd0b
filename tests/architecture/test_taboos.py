"""What a core may not contain, however well it is typed.

- No float where money or odds are worked out: neither a literal nor a call of `float`.
- No `/` in the modules of money: it makes a float of two integers. (Audit's exact fractions may divide.)
- No walk over a set: its order changes from one process to the next, and with it the events.
- No call that reads or writes the world, or whose result another process could not repeat.

A line that must be an exception says why: `# taboo: <reason>`. A needless one is a finding as well.
"""

import ast
import io
import tokenize
from collections.abc import Iterator

import pytest

from tests.architecture import ROOT, core_modules, money_modules

MARKER = "# taboo:"
IMPURE_CALLS = frozenset({
    "__import__", "breakpoint", "compile", "eval", "exec", "hash", "id", "input", "open", "print",
})  # fmt: skip
# What takes an iterable and lets its order show. Not sorted, sum, min, max, any, all, len, set: they do not.
SHOWS_ORDER = frozenset({"enumerate", "iter", "list", "map", "filter", "reversed", "tuple", "zip"})
SET_METHODS = frozenset({"difference", "intersection", "symmetric_difference", "union"})
SET_OPERATORS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)


def findings(source: str, *, core: bool = True, money: bool = False) -> list[str]:
    """Each taboo that a module breaks, as "LINE: what", without those that a marker excuses."""
    found = set(_breaches(ast.parse(source), core=core, money=money))
    excused = _marked_lines(source)
    needless = excused - {line for line, _ in found}
    left = {(line, what) for line, what in found if line not in excused}
    return [f"{line}: {what}" for line, what in sorted(left | {(n, "needless marker") for n in needless})]


def _marked_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT
        and token.string.startswith(MARKER)
        and token.string.removeprefix(MARKER).strip()
    }


def _breaches(tree: ast.AST, *, core: bool, money: bool) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=float() | complex()):
                yield node.lineno, "float literal"
            case ast.Call(func=ast.Name(id="float")):
                yield node.lineno, "float()"
            case (
                ast.BinOp(left=ast.Constant(value=str()), op=ast.Div())
                | ast.BinOp(op=ast.Div(), right=ast.Constant(value=str()))
            ):
                pass  # a path: no number is divided by a string
            case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()) if money:
                yield node.lineno, "true division"
            case ast.Call(func=ast.Name(id=name)) if core and name in IMPURE_CALLS:
                yield node.lineno, f"{name}()"
        if core:
            yield from ((found.lineno, "walk over a set") for found in _walked(node) if _is_set(found))


def _walked(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose order a node lets show."""
    match node:
        case ast.For(iter=walked) | ast.comprehension(iter=walked) | ast.Starred(value=walked):
            yield walked
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in SHOWS_ORDER:
            yield from arguments
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys"), args=arguments):
            yield from arguments


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, op=operator, right=right):
            return isinstance(operator, SET_OPERATORS) and (_is_set(left) or _is_set(right))
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            return method in SET_METHODS and _is_set(value)
    return False


def test_the_code_keeps_the_taboos():
    cores, money = core_modules(), money_modules()
    assert money, "no module of money is where we look"
    broken = {
        str(path): found
        for path in sorted({*cores, *money})
        if (found := findings((ROOT / path).read_text(), core=path in cores, money=path in money))
    }
    assert broken == {}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("rate = 0.05", "float literal"),
        ("rate = 1e3", "float literal"),
        ("def f(rate=.5): ...", "float literal"),
        ("rate = float('0.05')", "float()"),
        ("for seat in {1, 2}: pass", "walk over a set"),
        ("for seat in set(seats): pass", "walk over a set"),
        ("seats = [s for s in frozenset(x)]", "walk over a set"),
        ("seats = {s: 1 for s in {t for t in x}}", "walk over a set"),
        ("seats = list(set(x))", "walk over a set"),
        ("seats = tuple(set(x) - gone)", "walk over a set"),
        ("seats = enumerate(set(x).union(y))", "walk over a set"),
        ("seats = [*{1, 2}]", "walk over a set"),
        ("seats = ','.join({'a', 'b'})", "walk over a set"),
        ("first = next(iter(set(x)))", "walk over a set"),
        ("text = open('shoe').read()", "open()"),
        ("print('dealt')", "print()"),
        ("shard = hash(table) % 4", "hash()"),
        ("clock = __import__('time')", "__import__()"),
    ],
)
def test_a_core_breaks_a_taboo(source, what):
    assert findings("'''A module.'''\n" + source) == [f"2: {what}"]


@pytest.mark.parametrize("source", ["half = total / 2", "total /= 2", "half = Fraction(1) / 2"])
def test_money_does_not_divide(source):
    assert findings(source, money=True) == ["1: true division"]
    assert findings(source, money=False) == []


@pytest.mark.parametrize(
    "source",
    [
        "half = total // 2",
        "path = files('schemas') / 'currencies.toml'",
        "text = '0.05'  # 5 %, as 0.05 / 1",
        "def f(x: float) -> None: ...",
        "refused = isinstance(amount, float)",
        "for seat in sorted({1, 2}): pass",
        "total = sum({1, 2})",
        "known = seat in {1, 2}",
        "seats = {*a, *b}",
        "for seat in seats - gone: pass",
        "shoe.open()",
    ],
)
def test_what_is_no_taboo(source):
    assert findings(source, money=True) == []


def test_outside_the_cores_only_money_counts():
    source = "print(list({1}))\nrate = 0.5\n"
    assert findings(source, core=False, money=True) == ["2: float literal"]


def test_a_marker_excuses_its_line_and_no_other():
    excused = "a = 0.5  # taboo: shown to people, never paid"
    assert findings(excused) == []
    assert findings(excused + "\nb = 0.5") == ["2: float literal"]


@pytest.mark.parametrize("comment", ["# taboo:", "# taboo: ", "# taboo"])
def test_a_marker_without_a_reason_excuses_nothing(comment):
    assert findings(f"a = 0.5  {comment}") == ["1: float literal"]


def test_a_needless_marker_is_a_finding():
    assert findings("a = 5  # taboo: it used to be a float") == ["1: needless marker"]


def test_a_marker_in_a_string_is_no_marker():
    assert findings("a = 0.5, '# taboo: no comment'") == ["1: float literal"]
