"""The interface is what its OpenAPI document says: asked whatever schemathesis thinks of, and with sense."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

from services.runtime.process import WriterThread
from tests.wallet.test_api import serving
from tests.wallet.test_idempotency import furnished
from tests.wallet.world import OPERATOR, SHOE, TABLE, World, app_of

EXAMPLES = 20
"""For each route and way of asking: 36 routes, three ways, about 40 s together."""

SENSE: dict[str, list[Any]] = {
    "operator": [OPERATOR, "other"],
    "account": ["Ann", "Bea", "Zoe"],
    "tx": ["B1", "B2", "A1", "one", "two", "three", "four", "five"],
    "currency": ["EUR", "EUR", "JPY", "XXQ"],
    "amount": ["1.00", "1", "0.01", "1000000.00", "10000000000000.00", "0", "1.005"],
    "stake": ["1.00", "3", "99999.00"],
    "fee": ["0", "0.50"],
    "value": ["1.00", "120", None],
    "table": [TABLE, "T2", "T9"],
    "shoe": [SHOE],
    "coup": [1, 2, 9],
    "spot": ["banker", "tie", "dragon"],
    "seat": [3, None],
    "grant": ["main.g3", "main.g9", None],
    "target": ["B1", "B2", "A1", "A2", "B9"],
    "until": ["2026-03-02", "2027-01-01", None],
    "expires": ["2026-03-02", None],
    "from": ["2026-03-01"],
    "to": ["2026-03-01", "2026-12-31"],
    "withdrawal": ["main.w1"],
    "hold": ["main.h2"],
    "cursor": [0, 5, 10**6],
}
"""Values with which something can happen."""


@pytest.fixture
def document(world: World) -> dict[str, Any]:
    found: dict[str, Any] = app_of(world).openapi()
    return found


def posts(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((path, item["post"]) for path, item in document["paths"].items() if "post" in item)


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return found
    return schema


def sensible(value: Any, choose: Any) -> Any:
    """The same document, with sense in every field that has a known name."""
    if isinstance(value, dict):
        return {
            name: choose(SENSE[name]) if name in SENSE and not isinstance(part, list | dict) else
            sensible(part, choose)
            for name, part in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        return [sensible(part, choose) for part in value[:3]]
    return value


class Questions:
    """Asks routes, and keeps what was wrong with the answers."""

    def __init__(self, way: str) -> None:
        self.with_sense = way == "with sense"
        self.mode = GenerationMode.NEGATIVE if way == "otherwise" else GenerationMode.POSITIVE
        self.faults: list[str] = []
        self.codes: Counter[int] = Counter()

    def ask(self, operation: Any) -> None:
        """Ask one route as often as may be."""
        documented = set(operation.definition.raw["responses"])

        @settings(
            max_examples=EXAMPLES,
            database=None,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(operation.as_strategy(generation_mode=self.mode), st.randoms(use_true_random=False))
        def asked(case: Any, random: Any) -> None:
            if self.with_sense:
                case.body = sensible(case.body, random.choice)
                case.path_parameters = sensible(case.path_parameters, random.choice)
                case.query = sensible(case.query, random.choice)
            if (fault := self._fault(case.call(), documented)) is not None:
                self.faults.append(f"{operation.label}: {fault} for {case.as_curl_command()}")

        asked()

    def _fault(self, answer: Any, documented: set[str]) -> str | None:
        status, kind = answer.status_code, answer.headers.get("content-type", [""])[0]
        self.codes[status] += 1
        if status >= 500:
            return f"{status}"
        if status >= 400 and kind != "application/problem+json":
            return f"{status} as {kind}"
        if str(status) not in documented and status not in (404, 405):
            return f"{status}, which is not documented,"
        return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", ["as described", "otherwise", "with sense"])
def test_schemathesis_finds_no_server_error(world, way):
    furnished(world)
    thread = WriterThread(world.wallet, threading.Event())
    thread.start()
    questions = Questions(way)
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app_of(world))
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        if way != "otherwise" or operation.body or any(True for _ in operation.iter_parameters()):
            questions.ask(operation)
    stopped = world.wallet.stopped
    thread.finish()
    assert (questions.faults, stopped) == ([], None)
    codes = questions.codes
    assert codes[422] > 100
    if way == "with sense":
        assert codes[200] > 100
        assert {200, 404, 409, 422} <= set(codes), "the questions reach something"
    assert all(amount <= 0 for line, amount in world.balances().items() if line[0] in ("2010", "2020"))


# ------------------------------------------------------------------------------------------ what it documents


def test_it_is_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")
    assert all(
        path.startswith("/v1/") or path in ("/healthz", "/readyz", "/metrics") for path in document["paths"]
    )


def test_every_post_route_documents_its_problems(document):
    for path, operation in posts(document):
        for status in ("400", "401", "403", "404", "409", "413", "422", "423", "429", "503"):
            content = operation["responses"][status]["content"]
            assert set(content) == {"application/problem+json"}, (path, status)
            schema = content["application/problem+json"]["schema"]
            assert {"code", "field", "retryable", "detail", "status", "title", "type"} == set(
                schema["required"]
            )
            assert content["application/problem+json"]["example"]["code"]
        assert "200" in operation["responses"]
        assert operation.get("summary") or operation.get("description")


def test_every_post_route_has_an_example_that_it_takes(world, document):
    """The example of the document, sent as it is, is never called invalid."""
    furnished(world)
    with serving(world) as client:
        for path, operation in posts(document):
            body = resolved(document, operation["requestBody"]["content"]["application/json"]["schema"])
            (example,) = body["examples"]
            assert set(body.get("required", ())) <= set(example), path
            route = path.format(withdrawal="main.w1", hold="main.h2", grant="main.g3", step="approve")
            answer = _post(client, route, example)
            assert answer["code"] not in ("INVALID", "PRECISION"), (path, answer)
            for row in answer.get("bets", ()):
                assert row["code"] != "INVALID"


def _post(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = client.post(path, json=body).json()
    return {"code": "OK"} | said


MONEY = ("amount", "stake", "fee", "value", "balance", "cash", "left", "returned", "commission", "shortfall")


def test_amounts_are_strings_everywhere(document):
    """In every schema and every example of the document."""

    def walk(part: Any, place: str) -> Iterator[str]:
        if isinstance(part, dict):
            for name, value in part.items():
                where = f"{place}/{name}"
                if name in MONEY and isinstance(value, int | float) and not isinstance(value, bool):
                    yield f"{where} is a number in an example"
                if name in MONEY and isinstance(value, dict) and re.search(r'"?(integer|number)', str(value)):
                    yield f"{where} is a number in a schema"
                yield from walk(value, where)
        elif isinstance(part, list):
            for number, value in enumerate(part):
                yield from walk(value, f"{place}/{number}")

    assert list(walk(document, "")) == []


def test_amounts_are_strings_in_every_answer(world):
    """And in what is answered: no number but counts, places and coups."""
    furnished(world)
    counted = {"sequence", "cursor", "coup", "seat", "status", "matched", "missing_here", "missing_there"}
    counted |= {"different", "version", "exponent"}

    def walk(part: Any, name: str) -> Iterator[str]:
        if isinstance(part, dict):
            for key, value in part.items():
                yield from walk(value, key)
        elif isinstance(part, list):
            for value in part:
                yield from walk(value, name)
        elif isinstance(part, int | float) and not isinstance(part, bool) and name not in counted:
            yield name

    shelves = ("withdrawals", "holds", "free-bets", "adjustments", "limits", "commission", "calls")
    paths = [f"/v1/open/{shelf}?closed=true" for shelf in shelves]
    paths += [f"/v1/accounts/{OPERATOR}/Ann", "/v1/transactions", "/v1/trial-balance"]
    paths += [f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/1/bets", "/v1/transactions/status?account=Ann&tx=B1"]
    with serving(world) as client:
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert list(walk(answer.json(), "")) == [], path


@pytest.mark.parametrize("cursor", [2**63 - 1, 2**63, 10**30])
def test_a_cursor_beyond_every_number_is_no_server_error(world, cursor):
    with serving(world) as client:
        answer = client.get("/v1/transactions", params={"operator": OPERATOR, "cursor": cursor})
    assert answer.status_code in (200, 422)
