"""What comes through the door of a service, over real HTTP: signatures, tokens, sizes, states, rates."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from services.runtime.development_issuer import DevelopmentIssuer
from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock, SeededRng
from services.runtime.settings import Settings
from services.runtime.signing import KEY, NONCE, SIGNATURE, TIMESTAMP, Key
from tests.security.support import NEW, NORTH, NOW, OLD, TWO, Answer, Door, door, served, written

MIB = 1024 * 1024
DEPOSIT = {"operator": "main", "note": "x" * 300}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    with door(Operators.load(written(tmp_path_factory.mktemp("two")), {})) as opened:
        yield opened


@pytest.fixture
def two(lasting):
    """A service of two operators. Tests share it; what they refuse they have for themselves."""
    lasting.refused.clear()
    return lasting


def problem(answer: Answer, status: int, code: str, *, retryable: bool = False) -> str:
    """The words of a problem document that must be this one."""
    said = answer.json
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, said["status"], said["code"], said["retryable"]) == (
        status,
        status,
        code,
        retryable,
    )
    assert ("www-authenticate" in answer.headers) == (status == 401)
    return str(said["detail"])


# --------------------------------------------------------------------------------------- machines with keys


def test_who_signs_is_let_in(two):
    for key in (OLD, NEW):
        answer = two.ask(key, "POST", "/v1/deposits", DEPOSIT)
        assert (answer.status, answer.json) == (
            200,
            {"by": f"machine:{key.id}", "for": "main", "length": 300},
        )
    assert two.refused == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/deposits"), ("GET", "/v1/things/main/T1"), ("GET", "/none"), ("DELETE", "/v1/deposits"),
     ("GET", "/healthz/"), ("GET", "/v1/openapi.json/"), ("GET", "//healthz"), ("GET", "/HEALTHZ"),
     ("GET", "/healthz/../v1/echo/x"), ("GET", "/docs")],
)  # fmt: skip
def test_who_does_not_sign_is_not(two, method, path):
    words = problem(two.send(method, path, b"not even JSON"), 401, "BAD_SIGNATURE")
    assert words.startswith("the request is not signed: sabot-key, sabot-timestamp")
    assert two.refused == ["BAD_SIGNATURE"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/openapi.json", "/healthz?a=b", "/%68ealthz"])
def test_what_anybody_may_ask(two, path):
    assert two.send("GET", path).status == 200


def test_path_and_query_count_as_they_are_sent(two):
    target = "/v1/echo/a%20b%2Bc?to=2&from=1&x=%2f&&y"
    answer = two.ask(OLD, "GET", target)
    assert (answer.status, answer.json["text"]) == (200, "a b+c")
    signed = two.signed(OLD, "GET", target)
    for other in (
        "/v1/echo/a%20b%2Bc?from=1&to=2&x=%2f&&y", "/v1/echo/a%20b%2bc?to=2&from=1&x=%2f&&y",
        "/v1/echo/a%20b%2Bc?to=2&from=1&x=%2F&&y", "/v1/echo/a%20b%2Bc",
    ):  # fmt: skip
        problem(two.send("GET", other, headers=signed), 401, "BAD_SIGNATURE")
    assert two.send("GET", target, headers=signed).status == 200


def test_an_altered_byte_a_replay_and_a_clock_that_is_off(two):
    body = json.dumps(DEPOSIT).encode()
    signed = two.signed(OLD, "POST", "/v1/deposits", body)
    altered = body.replace(b"main", b"mein")
    problem(two.send("POST", "/v1/deposits", altered, signed), 401, "BAD_SIGNATURE")
    assert two.send("POST", "/v1/deposits", body, signed).status == 200
    assert "used before" in problem(two.send("POST", "/v1/deposits", body, signed), 401, "BAD_SIGNATURE")
    late = two.signed(OLD, "POST", "/v1/deposits", body)
    two.clock.advance(301)
    assert "from our clock" in problem(two.send("POST", "/v1/deposits", body, late), 401, "BAD_SIGNATURE")


def test_of_ten_that_are_the_same_one_is_let_in(two):
    body = json.dumps(DEPOSIT).encode()
    signed = two.signed(OLD, "POST", "/v1/deposits", body)
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: two.send("POST", "/v1/deposits", body, signed), range(10)))
    assert sorted(answer.status for answer in answers) == [200] + 9 * [401]


def test_a_stranger_and_a_wrong_secret_are_told_the_same(two):
    wrong = two.ask(Key("old", b"something else" * 3), "GET", "/v1/things/main/T1")
    stranger = two.ask(Key("nobody", OLD.secret), "GET", "/v1/things/main/T1")
    problem(wrong, 401, "BAD_SIGNATURE")
    assert wrong.content == stranger.content


@pytest.mark.parametrize("name", [KEY, TIMESTAMP, NONCE, SIGNATURE, "authorization"])
def test_a_header_that_is_there_twice(two, name):
    signed = two.signed(OLD, "GET", "/v1/echo/x")
    lines = "".join(f"{key}: {value}\r\n" for key, value in signed.items())
    twice = f"{name}: {signed.get(name, 'Bearer x')}\r\n" * (2 if name == "authorization" else 1)
    answer = exchange(two, f"GET /v1/echo/x HTTP/1.1\r\nHost: x\r\n{lines}{twice}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"there twice" in answer


def test_signed_and_with_a_token(two):
    both = two.signed(OLD, "GET", "/v1/echo/x") | {"Authorization": "Bearer x"}
    assert "not both" in problem(two.send("GET", "/v1/echo/x", headers=both), 401, "BAD_SIGNATURE")


def test_bytes_that_are_no_text(two):
    lines = b"Sabot-Key: \xff\r\nSabot-Timestamp: 1\r\nSabot-Nonce: \xfe\r\nSabot-Signature: \xff\r\n"
    answer = exchange(two, b"GET /v1/echo/x HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 401 ")
    answer = exchange(two, b"GET /v1/echo/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n")
    assert b"TOKEN_INVALID" in answer


def test_a_key_is_rotated_and_revoked_while_the_service_runs(tmp_path):
    operators = Operators.load(written(tmp_path), {})
    with door(operators) as service, operators.watched(seconds=0.01):
        assert service.ask(OLD, "GET", "/v1/echo/x").status == 200
        written(tmp_path, TWO.replace('id = "old"', 'id = "newer"'))
        while service.ask(OLD, "GET", "/v1/echo/x").status == 200:
            threading.Event().wait(0.01)
        problem(service.ask(OLD, "GET", "/v1/echo/x"), 401, "BAD_SIGNATURE")
        assert service.ask(NEW, "GET", "/v1/echo/x").status == 200
        assert service.ask(Key("newer", OLD.secret), "GET", "/v1/echo/x").status == 200


# ---------------------------------------------------------------------------------- what belongs to another


def test_what_is_anothers_is_answered_as_what_is_not_there(two):
    assert two.ask(OLD, "GET", "/v1/things/main/T1").json == {"thing": "T1"}
    absent = two.ask(OLD, "GET", "/v1/things/main/T9")
    problem(absent, 404, "NOT_FOUND")
    for caller, path in (
        (NORTH, "/v1/things/main/T1"),
        (NORTH, "/v1/things/main/T9"),
        (OLD, "/v1/things/x/T1"),
    ):
        answer = two.ask(caller, "GET", path)
        assert (answer.status, answer.content) == (absent.status, absent.content)


def test_nobody_acts_for_another(two):
    existing = two.ask(NORTH, "POST", "/v1/deposits", DEPOSIT)
    problem(existing, 403, "FORBIDDEN")
    assert existing.json["field"] == "operator"
    unknown = two.ask(NORTH, "POST", "/v1/deposits", DEPOSIT | {"operator": "no such"})
    assert existing.content == unknown.content


# --------------------------------------------------------------------------------------- people with tokens


@contextmanager
def with_people(folder):
    """A service whose operator has an issuer, over HTTP."""
    clock = ManualClock(NOW)
    issuer = DevelopmentIssuer("", clock, SeededRng("issuer"))
    with served(issuer.app()) as url:
        issuer.url = url
        main, north = TWO.split('[[operator]]\nname = "north"')
        text = f'{main}\n{issuer.entry()}\n[[operator]]\nname = "north"{north}\n{issuer.entry()}'
        with door(Operators.load(written(folder, text), {}), clock) as opened:
            yield issuer, opened


@pytest.fixture
def people(tmp_path):
    with with_people(tmp_path) as opened:
        yield opened


def test_a_person_is_let_in(people):
    issuer, service = people
    said = issuer.token("anna", "main", ["cashier"])
    answer = service.say(said, "POST", "/v1/deposits", DEPOSIT)
    assert (answer.status, answer.json["by"]) == (200, "person:anna")
    assert service.ask(OLD, "GET", "/v1/echo/x").status == 200
    problem(service.say(said, "POST", "/v1/reconciliations"), 403, "FORBIDDEN")
    problem(
        service.say(issuer.token("anna", "north", ["cashier"]), "POST", "/v1/deposits", DEPOSIT),
        403,
        "FORBIDDEN",
    )
    problem(service.say(issuer.token("anna", "main", []), "POST", "/v1/deposits", DEPOSIT), 403, "FORBIDDEN")
    problem(service.say(issuer.token("anna", "none", ["cashier"]), "GET", "/v1/echo/x"), 401, "TOKEN_INVALID")


def test_a_token_that_has_expired_or_is_none(people):
    issuer, service = people
    said = issuer.token("anna", "main", ["cashier"], 60)
    assert service.say(said, "GET", "/v1/echo/x").status == 200
    service.clock.advance(90)
    problem(service.say(said, "GET", "/v1/echo/x"), 401, "TOKEN_EXPIRED")
    problem(service.say("a.b.c", "GET", "/v1/echo/x"), 401, "TOKEN_INVALID")
    for words in ("Basic YTpi", "Bearer", "Bearer ", "bearer: x", said):
        answer = service.send("GET", "/v1/echo/x", headers={"Authorization": words})
        problem(answer, 401, "TOKEN_INVALID")
    stranger = DevelopmentIssuer(issuer.url, service.clock, SeededRng("another"))
    service.clock.advance(30)
    problem(
        service.say(stranger.token("anna", "main", ["cashier"]), "GET", "/v1/echo/x"), 401, "TOKEN_INVALID"
    )


def test_an_issuer_that_does_not_answer_is_nobodys_fault(tmp_path):
    with with_people(tmp_path) as (issuer, _):
        pass
    with door(Operators.load(tmp_path / "operators.toml", {})) as service:
        answer = service.say(issuer.token("anna", "main", ["cashier"]), "GET", "/v1/echo/x")
        problem(answer, 503, "TEMPORARY", retryable=True)
        assert service.ask(OLD, "GET", "/v1/echo/x").status == 200


# ---------------------------------------------------------------------------------------------------- sizes


def test_a_body_of_one_mebibyte_and_no_more(two):
    for size, status in ((MIB, 200), (MIB + 1, 413)):
        body = json.dumps(DEPOSIT | {"note": ""}).encode()
        body = body.replace(b'""', b'"' + b"x" * (size - len(body)) + b'"')
        assert len(body) == size
        answer = two.send("POST", "/v1/deposits", body, two.signed(OLD, "POST", "/v1/deposits", body))
        assert answer.status == status
    assert "1,048,576" in problem(answer, 413, "TOO_LARGE")
    assert answer.headers["connection"] == "close"


def test_a_body_in_chunks(two):
    body = json.dumps(DEPOSIT | {"note": "x" * 200_000}).encode()
    parts = [body[at : at + 10_000] for at in range(0, len(body), 10_000)]
    signed = two.signed(OLD, "POST", "/v1/deposits", body)
    answer = two.send("POST", "/v1/deposits", iter(parts), signed)
    assert (answer.status, answer.json["length"]) == (200, 200_000)
    long = (b"x" * 65_536 for _ in range(17))
    problem(two.send("POST", "/v1/deposits", long, signed), 413, "TOO_LARGE")


def test_who_sends_without_end_is_cut_off(two):
    place = urlsplit(two.url)
    signed = "".join(f"{k}: {v}\r\n" for k, v in two.signed(OLD, "POST", "/v1/deposits").items())
    head = f"POST /v1/deposits HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{signed}\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(head.encode())
        sent = 0
        with suppress(OSError):
            while sent < 200:
                connection.sendall(b"100000\r\n" + b"x" * MIB + b"\r\n")
                sent += 1
    assert 8 <= sent < 40


@pytest.mark.parametrize("length", [20 * MIB, 10**18])
def test_who_says_that_he_will_send_too_much_is_told_at_once(two, length):
    signed = "".join(f"{k}: {v}\r\n" for k, v in two.signed(OLD, "POST", "/v1/deposits").items())
    head = f"POST /v1/deposits HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{signed}\r\n"
    assert exchange(two, head.encode()).startswith(b"HTTP/1.1 413 ")
    expecting = head.replace(str(length), str(2 * MIB)).replace("Host", "Expect: 100-continue\r\nHost")
    assert exchange(two, expecting.encode()).startswith(b"HTTP/1.1 413 ")


def test_who_is_unknown_is_told_without_his_body_being_read(two):
    head = b"POST /v1/deposits HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    assert exchange(two, head).startswith(b"HTTP/1.1 401 ")


def test_who_goes_away_in_the_middle_harms_nobody(two):
    signed = "".join(f"{k}: {v}\r\n" for k, v in two.signed(OLD, "POST", "/v1/deposits").items())
    place = urlsplit(two.url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(
            f"POST /v1/deposits HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n{signed}\r\nhalf".encode()
        )
    assert two.ask(OLD, "POST", "/v1/deposits", DEPOSIT).status == 200
    assert two.refused == []


# -------------------------------------------------------------------------------------------- states, rates


def test_w41_an_operator_that_is_stopped_and_one_that_is_read_only(tmp_path):
    text = TWO.replace('name = "main"', 'name = "main"\nstopped = true')
    text = text.replace('name = "north"', 'name = "north"\nread_only = true')
    with door(Operators.load(written(tmp_path, text), {}), reading={"/v1/reconciliations"}) as service:
        stopped = service.ask(OLD, "POST", "/v1/deposits", DEPOSIT)
        problem(stopped, 423, "OPERATOR_STOPPED")
        resting = service.ask(NORTH, "POST", "/v1/deposits", DEPOSIT | {"operator": "north"})
        problem(resting, 503, "READ_ONLY", retryable=True)
        assert resting.headers["retry-after"] == "1"
        for key, operator in ((OLD, "main"), (NORTH, "north")):
            assert service.ask(key, "GET", f"/v1/things/{operator}/x").status == 404
            assert service.ask(key, "POST", "/v1/reconciliations").status == 200
        written(tmp_path, TWO)
        service.operators.reload()
        assert service.ask(OLD, "POST", "/v1/deposits", DEPOSIT).status == 200


def test_a_rate_counts_for_each_key_by_itself(tmp_path):
    text = TWO.replace('name = "main"', 'name = "main"\nrate = { requests_per_second = 2, burst = 3 }')
    with door(Operators.load(written(tmp_path, text), {})) as service:
        forged = service.signed(Key("old", b"wrong" * 9), "GET", "/v1/echo/x")
        for _ in range(5):
            problem(service.send("GET", "/v1/echo/x", headers=forged), 401, "BAD_SIGNATURE")
        assert [service.ask(OLD, "GET", "/v1/echo/x").status for _ in range(4)] == [200, 200, 200, 429]
        answer = service.ask(OLD, "GET", "/v1/echo/x")
        problem(answer, 429, "RATE_LIMITED", retryable=True)
        assert answer.headers["retry-after"] == "1"
        assert service.ask(NEW, "GET", "/v1/echo/x").status == 200
        assert [service.ask(NORTH, "GET", "/v1/echo/x").status for _ in range(9)] == 9 * [200]
        service.clock.advance(0.5)
        assert [service.ask(OLD, "GET", "/v1/echo/x").status for _ in range(2)] == [200, 429]
        service.clock.advance(60)
        assert [service.ask(OLD, "GET", "/v1/echo/x").status for _ in range(4)] == [200, 200, 200, 429]


# --------------------------------------------------------------------------------------------------- nobody


def test_without_a_file_nobody_is_asked():
    with door(Operators.open(Settings(operator="club"))) as service:
        answer = service.send("POST", "/v1/deposits", json.dumps(DEPOSIT).encode())
        assert (answer.status, answer.json["by"], answer.json["for"]) == (200, "anybody:anybody", "club")
        assert service.send("GET", "/v1/things/main/T1").status == 200
        problem(service.send("POST", "/v1/deposits", b"x" * (MIB + 1)), 413, "TOO_LARGE")


def exchange(service: Door, request: bytes) -> bytes:
    """All that comes back for these bytes."""
    place = urlsplit(service.url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received or b"}" not in received:
            part = connection.recv(65_536)
            if not part:
                break
            received += part
        return received
