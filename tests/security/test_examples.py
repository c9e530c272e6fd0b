"""The programs and figures in docs/security.md that an integrator checks his code with."""

import re
import subprocess
from pathlib import Path

import pytest

from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock, SystemClock
from services.runtime.signing import Key, signature_of
from tests.security.support import door, written

DOCUMENT = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
PROGRAMS = dict(re.findall(r"^```(python|bash)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL))
ROWS = re.findall(
    r"^\| `(\w+) (/\S+)` \| (?:`(.*?)`)? ?\| (?:`(.*?)`)? ?\| `(\d+)` \| `(\w+)` \| `(\w{64})` \|$",
    DOCUMENT,
    re.MULTILINE,
)
KEY = Key("main-2026-11", b"example-secret-that-signs-nothing-real")


@pytest.fixture
def service(tmp_path):
    text = (
        'development = true\n[[operator]]\nname = "main"\ncurrencies = ["EUR"]\n'
        f'[[operator.keys]]\nid = "{KEY.id}"\nsecret = "{KEY.secret.decode()}"\n'
    )
    with door(Operators.load(written(tmp_path, text), {}), ManualClock(SystemClock().now())) as opened:
        yield opened


def test_there_are_two_rows():
    assert [row[0] for row in ROWS] == ["POST", "GET"]


@pytest.mark.parametrize("row", ROWS)
def test_the_signatures_in_the_table(row):
    method, path, query, body, timestamp, nonce, signature = row
    assert (
        signature_of(KEY, method, path, query, body.encode(), timestamp=timestamp, nonce=nonce) == signature
    )
    program: dict = {}
    exec(PROGRAMS["python"], program)
    headers = program["signed"](method, path, query, body.encode(), timestamp, nonce)
    assert headers["Sabot-Signature"] == signature


def test_the_python_program_deposits(service):
    program: dict = {}
    exec(PROGRAMS["python"], program)
    assert program["deposit"](service.url, "alice", "d1", "100.00")["by"] == f"machine:{KEY.id}"


def test_the_shell_program_deposits_and_makes_the_signature_of_the_table(service):
    environment = {"PATH": "/usr/bin:/bin", "url": service.url}
    done = subprocess.run(
        ["bash", "-euc", PROGRAMS["bash"]], env=environment, capture_output=True, text=True, check=True
    )
    assert f'"by":"machine:{KEY.id}"' in done.stdout
    *_, timestamp, nonce, signature = ROWS[0]
    fixed = environment | {"timestamp": timestamp, "nonce": nonce}
    shown = subprocess.run(
        ["bash", "-euc", PROGRAMS["bash"] + 'echo "$signature"'],
        env=fixed, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.endswith(signature + "\n")
