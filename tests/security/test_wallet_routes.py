"""Every route of wallet, asked by nobody, by a wrong signature, by another operator, and by every role.

The routes are those of the OpenAPI document: a new one that is not in the table below fails the first test.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import jwt
import pytest
from starlette.testclient import TestClient

from services.runtime.bus.embedded import EmbeddedBus
from services.runtime.callers import Authenticator
from services.runtime.database import open_sqlite
from services.runtime.installation import Installation
from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock, SeededIds
from services.runtime.process import WriterThread
from services.runtime.roles import ROLE_RIGHTS, Right, Role
from services.runtime.security import OPEN_PATHS
from services.runtime.settings import Settings
from services.runtime.signing import Key, signed_headers
from services.wallet.api import wallet_app
from services.wallet.wiring import open_wallet
from tests.contracts.streams import START
from tests.security.tokens import ISSUER, private_key, public_jwk
from tests.wallet.world import Game

ANN, BEA = (Key(name, f"{name}-secret-that-is-certainly-long-enough".encode()) for name in ("a-key", "b-key"))
SECONDS = int(START.timestamp())


class Route(NamedTuple):
    """How a route is asked: for operator ``{op}``, about things of operator a."""

    target: str
    body: dict[str, Any] | None
    right: Right | None
    """What it takes; None: only to be known."""


MONEY = {"account": "alice", "currency": "EUR", "amount": "1.00"}
BET = {
    "account": "alice",
    "table": "T1",
    "shoe": "S1",
    "coup": 1,
    "spot": "tie",
    "currency": "EUR",
    "stake": "1.00",
}

ROUTES = {
    "POST /v1/deposits": Route("/v1/deposits", MONEY, Right.DEPOSIT),
    "POST /v1/withdrawals": Route("/v1/withdrawals", MONEY, Right.WITHDRAW),
    "POST /v1/withdrawals/{withdrawal}/{step}": Route(
        "/v1/withdrawals/{w}/approve", {}, Right.WITHDRAWAL_APPROVE
    ),
    "POST /v1/chargebacks": Route("/v1/chargebacks", MONEY | {"reason": "r"}, Right.WITHDRAWAL_PAY),
    "POST /v1/recoveries": Route("/v1/recoveries", MONEY, Right.ADJUST),
    "POST /v1/adjustments": Route(
        "/v1/adjustments", MONEY | {"direction": "credit", "reason": "r"}, Right.ADJUST
    ),
    "POST /v1/adjustments/decisions": Route(
        "/v1/adjustments/decisions",
        {"account": "alice", "target": "a-first-17", "approve": True},
        Right.ADJUSTMENT_APPROVE,
    ),
    "POST /v1/tips": Route("/v1/tips", MONEY, Right.TIP),
    "POST /v1/free-bets": Route("/v1/free-bets", MONEY | {"campaign": "c"}, Right.BONUS),
    "POST /v1/free-bets/{grant}/withdraw": Route("/v1/free-bets/{g}/withdraw", {}, Right.BONUS),
    "POST /v1/holds": Route("/v1/holds", MONEY | {"kind": "risk", "reason": "r"}, Right.ACCOUNTS_MANAGE),
    "POST /v1/holds/{hold}/release": Route("/v1/holds/{h}/release", {}, Right.ACCOUNTS_MANAGE),
    "POST /v1/commission": Route(
        "/v1/commission", {"account": "alice", "table": "T1", "currency": "EUR"}, Right.BET
    ),
    "POST /v1/accounts/freeze": Route(
        "/v1/accounts/freeze", {"account": "alice", "reason": "r"}, Right.ACCOUNTS_MANAGE
    ),
    "POST /v1/accounts/release": Route(
        "/v1/accounts/release", {"account": "alice", "reason": "r"}, Right.ACCOUNTS_MANAGE
    ),
    "POST /v1/limits": Route(
        "/v1/limits",
        {"account": "alice", "kind": "stake", "period": "day", "currency": "EUR", "value": "90.00"},
        Right.LIMITS,
    ),
    "POST /v1/exclusions": Route("/v1/exclusions", {"account": "zoe", "until": None}, Right.EXCLUDE),
    "POST /v1/house/funding": Route("/v1/house/funding", {"currency": "EUR", "amount": "1.00"}, Right.HOUSE),
    "POST /v1/house/payments": Route(
        "/v1/house/payments", {"currency": "EUR", "amount": "1.00", "fee": "0.00"}, Right.HOUSE
    ),
    "POST /v1/house/segregation": Route(
        "/v1/house/segregation",
        {"currency": "EUR", "amount": "1.00", "direction": "to_players"},
        Right.HOUSE,
    ),
    "POST /v1/rollbacks": Route("/v1/rollbacks", {"account": "alice", "target": "b1"}, Right.ROLL_BACK),
    "POST /v1/refunds": Route(
        "/v1/refunds",
        {"account": "alice", "target": "b1", "currency": "EUR", "amount": "0.10"},
        Right.ROLL_BACK,
    ),
    "POST /v1/bets": Route("/v1/bets", BET, Right.BET),
    "POST /v1/bets/batch": Route("/v1/bets/batch", {"bets": [BET]}, Right.BET),
    "POST /v1/repairs": Route("/v1/repairs", {"table": "T1", "shoe": "S1", "coup": 1}, Right.REPAIR),
    "POST /v1/reconciliations": Route(
        "/v1/reconciliations",
        {"from": "2000-01-01", "to": "2100-01-01", "transactions": []},
        Right.LEDGER_READ,
    ),
    "GET /v1/coups/{operator}/{table}/{shoe}/{coup}/bets": Route(
        "/v1/coups/{op}/T1/S1/1/bets", None, Right.BETS_READ
    ),
    "GET /v1/accounts/{operator}/{account}": Route("/v1/accounts/{op}/alice", None, Right.ACCOUNTS_READ),
    "GET /v1/open/{shelf}": Route("/v1/open/withdrawals?operator={op}", None, Right.ACCOUNTS_READ),
    "GET /v1/transactions": Route("/v1/transactions?operator={op}", None, Right.LEDGER_READ),
    "GET /v1/transactions/status": Route(
        "/v1/transactions/status?operator={op}&account=alice&tx=d1", None, Right.LEDGER_READ
    ),
    "GET /v1/trial-balance": Route("/v1/trial-balance?operator={op}", None, Right.LEDGER_READ),
    "GET /v1/ping": Route("/v1/ping", None, None),
}


class House:
    """Wallet with two operators, each with an ``alice``; only a's has anything."""

    def __init__(self, folder: Path) -> None:
        jwks = folder / "jwks.json"
        jwks.write_text(json.dumps({"keys": [public_jwk("EdDSA", "EdDSA")]}))
        file = folder / "operators.toml"
        file.write_text("development = true\n" + _operator("a", ANN, jwks) + _operator("b", BEA, jwks))
        self.clock = ManualClock(START)
        self.operators = Operators.load(file, {})
        self.bus = EmbeddedBus(folder / "bus.db")
        self.writer = open_wallet(
            Installation(folder),
            self.bus,
            Settings(operator="a"),
            clock=self.clock,
            ids=SeededIds("routes"),
            operators=self.operators,
        )
        self.reader = open_sqlite(folder / "wallet.db", writer=False)
        self.app = wallet_app(self.writer, self.reader, Authenticator(self.operators, self.clock), self.clock)
        game = Game(operator="a")
        self.bus.publish([*game.open_table(), game.open(1)])
        self.thread = WriterThread(self.writer, threading.Event())
        self.thread.start()
        self.client = TestClient(self.app)
        self._nonces = 0
        self.ids = self._furnish()

    def _furnish(self) -> dict[str, str]:
        """a's alice has money, a bet, and one of everything that is open."""
        assert (
            self.ask(ANN, "POST", "/v1/deposits", MONEY | {"tx": "d1", "amount": "50.00"}).status_code == 200
        )
        assert self.ask(ANN, "POST", "/v1/bets", BET | {"tx": "b1"}).status_code == 200
        ids = {}
        for letter, name, path, more in (
            ("w", "withdrawal", "/v1/withdrawals", {}),
            ("h", "hold", "/v1/holds", {"kind": "risk", "reason": "r"}),
            ("g", "grant", "/v1/free-bets", {"campaign": "c"}),
        ):
            answer = self.ask(ANN, "POST", path, MONEY | {"tx": f"first-{letter}"} | more)
            ids[letter] = answer.json()[name]
        body = MONEY | {"tx": "a-first-17", "direction": "credit", "reason": "r"}
        assert self.ask(ANN, "POST", "/v1/adjustments", body).status_code == 200
        return ids

    def ask(self, key: Key, method: str, target: str, document: Any = None) -> httpx2.Response:
        """A signed request."""
        body = b"" if document is None else json.dumps(document).encode()
        self._nonces += 1
        path, _, query = target.partition("?")
        headers = signed_headers(key, method, path, query, body, timestamp=SECONDS, nonce=f"n{self._nonces}")
        return self.send(method, target, body, headers)

    def say(self, role: Role, method: str, target: str, document: Any = None) -> httpx2.Response:
        """A person's request, at operator a."""
        claims = {
            "iss": ISSUER, "aud": "sabot", "sub": f"person-{role.value}", "exp": SECONDS + 600,
            "sabot_operator": "a", "roles": [role.value],
        }  # fmt: skip
        token = jwt.encode(claims, private_key("EdDSA"), algorithm="EdDSA", headers={"kid": "EdDSA"})
        body = b"" if document is None else json.dumps(document).encode()
        return self.send(method, target, body, {"Authorization": f"Bearer {token}"})

    def send(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        kind = {"Content-Type": "application/json"}
        answer: httpx2.Response = self.client.request(method, target, content=body, headers=kind | headers)
        return answer

    def request(self, name: str, tx: str, *, operator: str | None) -> tuple[str, str, Any]:
        """Method, target and body of a route; ``operator``: named in it, or left out."""
        route = ROUTES[name]
        target = route.target.format(op=operator or "b", **self.ids)
        if operator is None:
            target = target.replace("operator=b&", "").replace("?operator=b", "")
        body = route.body
        if body is not None:
            named = {} if operator is None else {"operator": operator}
            body = body | {"tx": tx} | named
            if "bets" in body:
                body["bets"] = [each | {"tx": tx} | named for each in body["bets"]]
        return name.split(maxsplit=1)[0], target, body

    def events_of(self, operator: str) -> int:
        """How many events there are of an operator."""
        from schemas.envelope import decode
        from services.runtime.store import read_all

        with self.reader.connect() as db, db.begin():
            return sum(decode(each.body).data.operator == operator for each in read_all(db))

    def close(self) -> None:
        self.client.close()
        self.thread.finish()
        self.bus.close()
        self.reader.dispose()


def _operator(name: str, key: Key, jwks: Path) -> str:
    roles = ", ".join(f'{each.value} = "{each.value}"' for each in Role)
    return (
        f'[[operator]]\nname = "{name}"\ncurrencies = ["EUR"]\n'
        f'[[operator.keys]]\nid = "{key.id}"\nsecret = "{key.secret.decode()}"\n'
        f'[[operator.issuers]]\nissuer = "{ISSUER}"\naudience = "sabot"\njwks_file = "{jwks}"\n'
        f"roles = {{ {roles} }}\n"
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with closing(House(tmp_path_factory.mktemp("house"))) as house:
        yield house


def test_every_route_is_in_the_table(house):
    document = house.app.openapi()
    routes = {
        f"{method.upper()} {path}"
        for path, item in document["paths"].items()
        for method in item
        if path not in OPEN_PATHS
    }
    assert routes == ROUTES.keys()


@pytest.mark.parametrize("name", ROUTES)
def test_nobody_is_let_in(house, name):
    method, target, body = house.request(name, "t", operator="a")
    before = house.events_of("a")
    answer = house.send(method, target, json.dumps(body).encode(), {})
    assert (answer.status_code, answer.json()["code"]) == (401, "BAD_SIGNATURE")
    wrong = house.ask(Key(ANN.id, b"another-secret-that-is-long-enough"), method, target, body)
    assert (wrong.status_code, wrong.json()["code"]) == (401, "BAD_SIGNATURE")
    assert house.events_of("a") == before


@pytest.mark.parametrize("name", [name for name in ROUTES if ROUTES[name].right is not None])
def test_another_operators_key_reaches_nothing_of_a(house, name):
    """b names a: what is read is not there, what would be done is forbidden. Nothing of a's is in the
    answer."""
    method, target, body = house.request(name, f"named-{name}", operator="a")
    before = house.events_of("a")
    answer = house.ask(BEA, method, target, body)
    if name == "POST /v1/bets/batch":
        assert answer.json()["bets"][0]["code"] == "FORBIDDEN"
    else:
        assert (answer.status_code, answer.json()["code"]) in ((404, "NOT_FOUND"), (403, "FORBIDDEN"))
    assert "50" not in answer.text
    assert house.events_of("a") == before
    right = ROUTES[name].right
    assert right is not None
    if right.reads:
        nobody = house.request(name, "t", operator="nobody-of-that-name")
        assert house.ask(BEA, *nobody).content == answer.content, "as of an operator that there is not"


@pytest.mark.parametrize("name", [name for name in ROUTES if ROUTES[name].right is not None])
def test_in_its_own_name_another_operator_meets_its_own_things_only(house, name):
    """b's alice, b's ids: those of a are answered like those that there are not."""
    before = house.events_of("a")
    method, target, body = house.request(name, f"own-{name}"[:60], operator=None)
    answer = house.ask(BEA, method, target, body)
    assert house.events_of("a") == before
    assert answer.status_code < 500
    for secret in ("50.00", "48.00", "first-w", "a-first-17"):
        if secret not in target and secret not in json.dumps(body):
            assert secret not in answer.text
    ids = house.ids
    house.ids = {letter: f"main.{letter}999" for letter in ids}
    try:
        strange = house.request(name, f"own-{name}"[:60], operator=None)
    finally:
        house.ids = ids
    if strange[1] != target:
        assert house.ask(BEA, *strange).content == answer.content
        assert answer.status_code == 404


def test_the_same_account_and_the_same_id_stay_apart(house):
    """Both have an alice with a d1."""
    first = house.ask(BEA, "POST", "/v1/deposits", MONEY | {"tx": "d1", "amount": "7.00"})
    assert first.json()["code"] == "OK"
    own = house.ask(BEA, "GET", "/v1/transactions/status?account=alice&tx=d1").json()
    assert own["answer"] == first.json()
    feed = house.ask(BEA, "GET", "/v1/transactions?limit=1000").json()["transactions"]
    assert [row["amount"] for row in feed if row["tx"] == "d1"] == ["7.00"]
    table = house.ask(BEA, "GET", "/v1/transactions?limit=1000&format=csv").text
    assert "50.00" not in table
    balance = house.ask(BEA, "GET", "/v1/trial-balance").json()["lines"]
    assert {row["operator"] for row in balance} == {"b"}
    rows = house.ask(
        BEA,
        "POST",
        "/v1/reconciliations",
        {
            "from": "2000-01-01",
            "to": "2100-01-01",
            "transactions": [
                {"account": "alice", "tx": "d1", "amount": "50.00", "currency": "EUR"},
                {"account": "alice", "tx": "first-w"},
            ],
        },
    ).json()["lines"]
    status = {row["tx"]: row["status"] for row in rows}
    assert (status["d1"], status["first-w"]) == ("different", "missing_here")


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", [name for name in ROUTES if ROUTES[name].right is not None])
def test_every_role_may_what_its_rights_say(house, name, role):
    right = ROUTES[name].right
    method, target, body = house.request(name, f"{role.value}-{name}"[:60], operator="a")
    answer = house.say(role, method, target, body)
    may = right in ROLE_RIGHTS[role]
    codes = [each["code"] for each in answer.json()["bets"]] if name == "POST /v1/bets/batch" else []
    if codes:
        assert (codes != ["FORBIDDEN"]) is may
    elif may:
        assert answer.status_code not in (401, 403) or answer.json()["code"] == "FOUR_EYES"
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


def test_two_people_are_needed_for_an_adjustment(house):
    body = MONEY | {"tx": "four-eyes", "direction": "credit", "reason": "goodwill"}
    assert house.say(Role.CASHIER, "POST", "/v1/adjustments", body).json()["code"] == "OK"
    decision = {"account": "alice", "tx": "decision", "target": "four-eyes", "approve": True}
    route = "/v1/adjustments/decisions"
    assert house.say(Role.CASHIER, "POST", route, decision).json()["code"] == "FORBIDDEN"
    assert house.ask(ANN, "POST", route, decision).json()["code"] == "FORBIDDEN", "a machine is nobody's eyes"
    answer = house.say(Role.APPROVER, "POST", route, decision).json()
    assert (answer["code"], answer["amount"], answer["direction"]) == ("OK", "1.00", "credit")
