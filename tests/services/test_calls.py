"""Calls to a service over HTTP: side by side where they may, in order where they must, and patient."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from schemas.refusal import Refusal
from services.room import calls
from services.room.calls import AddressError, Caller, NoSuchService, Reply

Answer = tuple[int, Any]


class Stand:
    """A service that answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], Answer] = lambda body: (200, {"code": "OK", **body})
        self.asked: list[Any] = []
        stand = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand.asked.append(body)
                status, document = stand.answer(body)
                text = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def stand() -> Iterator[Stand]:
    with closing(Stand()) as stand:
        yield stand


@pytest.fixture
def caller(stand) -> Iterator[Caller]:
    with closing(Caller("wallet", stand.url)) as caller:
        yield caller


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(calls, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(calls, "_AGAIN_SECONDS", 0.01)


def test_an_answer_is_handed_on_with_whether_it_was_given_before(stand, caller):
    assert caller.post("a", "/v1/x", {"tx": 1}).result(10) == Reply({"code": "OK", "tx": 1}, replayed=False)
    stand.answer = lambda body: (200, {"code": "OK_REPLAY"})
    assert caller.post("a", "/v1/x", {"tx": 1}).result(10).replayed is True


def test_a_refusal_keeps_its_code_field_and_words(stand, caller):
    stand.answer = lambda body: (422, {"code": "LIMIT_REACHED", "field": "stake", "detail": "too much"})
    with pytest.raises(Refusal, match="too much") as refused:
        caller.post("a", "/v1/x", {}).result(10)
    assert (refused.value.code, refused.value.field) == ("LIMIT_REACHED", "stake")


def test_calls_of_one_lane_follow_each_other_and_lanes_run_side_by_side(stand, caller):
    """Sixteen players bet three times each: nobody's second bet is decided before his first."""
    together = threading.Barrier(8, timeout=10)  # passed only if eight lanes are asked at the same time

    def answer(body: Any) -> Answer:
        if body["number"] == 0 and body["player"] < 8:
            together.wait()
        return 200, {"code": "OK"}

    stand.answer = answer
    answers = [
        caller.post(f"player {player}", "/v1/bets", {"player": player, "number": number})
        for number in range(3)
        for player in range(16)
    ]
    for each in answers:
        each.result(10)
    assert len(stand.asked) == 48
    for player in range(16):
        assert [each["number"] for each in stand.asked if each["player"] == player] == [0, 1, 2]


def test_temporary_refusals_are_asked_again_and_who_waits_behind_them_waits_on(stand, caller, monkeypatch):
    monkeypatch.setattr(calls, "_AGAIN_SECONDS", 0.01)

    def answer(body: Any) -> Answer:
        busy = len(stand.asked) <= 3
        return (503, {"code": "TEMPORARY", "detail": "busy"}) if busy else (200, {"code": "OK"})

    stand.answer = answer
    answers = [caller.post("a", "/v1/x", {"number": number}) for number in (1, 2)]
    for each in answers:
        each.result(10)
    assert [each["number"] for each in stand.asked] == [1, 1, 1, 1, 2]


@pytest.mark.usefixtures("impatient")
def test_behind_a_call_that_is_not_answered_none_is_sent(stand, caller):
    """Or the second bet might take the money that was meant for the first."""
    stand.answer = lambda body: (503, {"code": "TEMPORARY", "detail": "busy"})
    first, second = (caller.post("a", "/v1/x", {"number": number}) for number in (1, 2))
    for answer in (first, second):
        with pytest.raises(Refusal, match="busy") as refused:
            answer.result(10)
        assert refused.value.code == "TEMPORARY"
    assert {each["number"] for each in stand.asked} == {1}
    stand.answer = lambda body: (200, {"code": "OK"})
    assert caller.post("a", "/v1/x", {"number": 3}).result(10).document == {"code": "OK"}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("text", [b"", b"<html>", b"[1]", b'"OK"'])
def test_what_is_no_answer_is_trouble_until_there_is_one(stand, caller, text):
    stand.answer = lambda body: (200, text)
    with pytest.raises(Refusal, match=f"wallet does not answer at {stand.url}: ") as refused:
        caller.post("a", "/v1/x", {}).result(10)
    assert (refused.value.code, caller.trouble) == ("TEMPORARY", refused.value.words)
    stand.answer = lambda body: (200, {})
    caller.post("a", "/v1/x", {}).result(10)
    assert caller.trouble is None


def test_something_else_at_the_url_is_named_and_not_asked_again(stand, caller):
    stand.answer = lambda body: (404, {"code": "NOT_FOUND", "detail": "Not Found"})
    with pytest.raises(NoSuchService, match=f"what answers at {stand.url} is not wallet"):
        caller.post("a", "/v1/x", {}).result(10)
    assert len(stand.asked) == 1


def test_a_closed_caller_keeps_nobody_waiting(stand):
    stand.answer = lambda body: (503, {"code": "TEMPORARY", "detail": "busy"})
    with closing(Caller("wallet", stand.url)) as caller:
        answers = [caller.post(f"{lane}", "/v1/x", {}) for lane in range(40) for _ in range(2)]
    assert all(answer.done() for answer in answers)


@pytest.mark.parametrize(
    "url", ["", "game", "http://", "https://h:1", "http://h:x", "http://h/x", "http://[::1"]
)
def test_an_url_that_is_none_is_named(url):
    with pytest.raises(AddressError, match="is not where game answers; write http://"):
        Caller("game", url)
