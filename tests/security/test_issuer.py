"""``sabot issuer``: a process that gives tokens, and the command that fetches one."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from services.runtime.development_issuer import DevelopmentIssuer
from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock, SeededRng, SystemClock
from tests.security.support import TWO, door, served, written

PROGRAM = [sys.executable, "-c", "from services.cli.issuer import group; group()()"]


def run(*arguments):
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def at_work():
    command = [*PROGRAM, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            line = process.stderr.readline()
            url = re.search(r"ready on (http://\S+)", line)
            assert url is not None, line
            os.set_blocking(process.stdout.fileno(), False)
            yield url[1], process.stdout.read()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)


def test_a_token_from_the_command_line_opens_the_door(tmp_path):
    with at_work() as (url, entry):
        main = TWO.partition('[[operator]]\nname = "north"')[0]
        operators = Operators.load(written(tmp_path, f"{main}\n{entry}"), {})
        with door(operators, ManualClock(SystemClock().now())) as service:
            made = run("token", "--user", "anna", "--operator", "main", "--role", "cashier", "--issuer", url)
            assert made.returncode == 0, made.stderr
            answer = service.say(made.stdout.strip(), "POST", "/v1/deposits", {"operator": "main"})
            assert (answer.status, answer.json["by"]) == (200, "person:anna")
        refused = run("token", "--user", "an na", "--operator", "main", "--role", "cashier", "--issuer", url)
        assert (refused.returncode, "--user" in refused.stderr) == (2, True)


def test_words_for_what_goes_wrong():
    nobody = run(
        "token", "--user", "a", "--operator", "m", "--role", "cashier", "--issuer", "http://127.0.0.1:9"
    )
    assert nobody.returncode == 1
    assert "no issuer answers at http://127.0.0.1:9" in nobody.stderr.replace("\n", " ")
    world = run("serve", "--host", "0.0.0.0")
    assert (world.returncode, "not a loopback address" in world.stderr) == (2, True)
    role = run("token", "--user", "a", "--operator", "m", "--role", "king")
    assert role.returncode == 2


def test_what_it_publishes():
    issuer = DevelopmentIssuer("", SystemClock(), SeededRng("x"))
    with served(issuer.app()) as url:
        issuer.url = url
        import httpx2

        found = httpx2.get(f"{url}/.well-known/openid-configuration").json()
        assert found["issuer"] == url
        keys = httpx2.get(found["jwks_uri"]).json()["keys"]
        assert [(key["kid"], "d" in key) for key in keys] == [(issuer.kid, False)]
        wrong = httpx2.post(found["token_endpoint"], json={"user": "a", "operator": "m", "roles": ["king"]})
        assert wrong.status_code == 422


@pytest.mark.parametrize("seed", ["a", "b"])
def test_its_key_comes_from_the_port(seed):
    first, second = (DevelopmentIssuer("", SystemClock(), SeededRng(seed)) for _ in range(2))
    assert first.kid == second.kid
