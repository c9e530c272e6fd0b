"""The operators' file: what it says, how a mistake is named, and how it is read again."""

import os
import re
import signal
import threading
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest

from services.runtime.calendar import GamingCalendar
from services.runtime.operators import Operators, OperatorsError, UnknownOperator
from services.runtime.settings import Settings
from tests.security.support import NEW, NOW, OLD, TWO, written

EXAMPLE = Path(__file__).parents[2] / "examples" / "operators.toml"
NAMES = re.findall(r'secret_env = "(\w+)"', EXAMPLE.read_text())
SECRET = "a-secret-that-is-32-characters-long"


def load(folder, text=TWO, environment=None):
    return Operators.load(written(folder, text), environment or {})


def problems(folder, text, environment=None):
    with pytest.raises(OperatorsError) as error:
        load(folder, text, environment)
    return error.value.problems


URL = 'mode = "seamless"\n[operator.seamless]\nurl = "{}"\n'
ISSUER = '[[operator.issuers]]\nissuer = "{}"\naudience = "s"\nroles = {{ a = "{}" }}\n'


def one(more="", head='name = "main"\ncurrencies = ["EUR"]'):
    return f"development = true\n[[operator]]\n{head}\n{more}\n"


def key(name, more="", secret=None):
    return f'[[operator.keys]]\nid = "{name}"\nsecret = "{secret or name + SECRET}"\n{more}\n'


# --------------------------------------------------------------------------------------------- what it says


def test_the_example_can_be_taken():
    operators = Operators.load(EXAMPLE, {name: f"{name} {SECRET}" for name in NAMES})
    main, north = operators.get("main"), operators.get("north")
    assert main.limits["EUR"].deposit_max == 5_000_000
    assert main.limits["EUR"].player_loss_week is None
    assert main.limits["JPY"].amount_max == 40_000_000
    assert north.seamless is not None
    assert north.seamless.recovery == "block"
    assert operators.table.outgoing("north").id == "to-north-1"
    assert operators.of_shard("north") == (north,)
    assert not operators.is_open


def test_look_ups(tmp_path):
    operators = load(tmp_path)
    assert operators.find("main") is operators.get("main")
    assert operators.find("nobody") is None
    assert operators.calendar_of("north") == GamingCalendar("Europe/Stockholm", time(5))
    assert operators.of("main").day(datetime(2026, 11, 30, 5, 59, tzinfo=UTC)) == date(2026, 11, 29)
    assert [each.name for each in operators.of_shard("main")] == ["main"]
    assert operators.of_shard("none") == ()
    found = operators.table.key("new", NOW)
    assert found is not None
    assert (found.operator.name, found.secret) == ("main", NEW.secret)
    assert operators.table.key("nothing", NOW) is None
    for fault in (
        lambda: operators.get("x"),
        lambda: operators.of("x"),
        lambda: operators.table.outgoing("main"),
    ):
        with pytest.raises(UnknownOperator):
            fault()


def test_a_key_counts_from_one_moment_to_another(tmp_path):
    more = "not_before = 2026-12-01T00:00:00+01:00\nnot_after = 2026-12-31T00:00:00Z"
    table = load(tmp_path, one(key("k", more))).table
    begin, end = datetime(2026, 11, 30, 23, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC)
    moment = timedelta(microseconds=1)
    assert [table.key("k", each) is not None for each in (begin - moment, begin, end - moment, end)] == [
        False,
        True,
        True,
        False,
    ]


def test_without_a_file_there_is_one_operator_for_any_name():
    operators = Operators.open(Settings(operator="club", shard="west", zone="Europe/Oslo", cut_off=time(4)))
    assert operators.is_open
    assert [each.name for each in operators.of_shard("west")] == ["club"]
    assert operators.get("other").name == "other"
    assert operators.of("other") == operators.of("club") == GamingCalendar("Europe/Oslo", time(4))
    operators.reload()
    with operators.watched():
        pass


def test_secrets_come_from_files_and_the_environment_and_are_not_shown(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "k1").write_text(f"{SECRET}-1\n")
    text = (
        one('[[operator.keys]]\nid = "k1"\nsecret_file = "keys/k1"\n'
            '[[operator.keys]]\nid = "k2"\nsecret_env = "K2"').replace("true", "false")
    )  # fmt: skip
    operators = load(tmp_path, text, {"K2": f"{SECRET}-2"})
    first, second = operators.table.key("k1", NOW), operators.table.key("k2", NOW)
    assert first is not None
    assert second is not None
    assert (first.secret, second.secret) == (f"{SECRET}-1".encode(), f"{SECRET}-2".encode())
    assert SECRET not in repr(first)
    assert OLD.secret.decode() not in repr(load(tmp_path).get("main"))


# ------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "operator", "is missing"),
        ("operator = []", "operator", "names none"),
        ("[[operator", "file", "not valid TOML"),
        ("colour = 1\n" + one(), "colour", "no key that we know"),
        (one(head='currencies = ["EUR"]'), "operator[number 1].name", "is missing"),
        (one(head='name = "a.b"\ncurrencies = ["EUR"]'), "operator[a.b].name", "must match"),
        (one("currencies = []", head='name = "main"'), "M.currencies", "names none"),
        (one('currencies = ["EURO"]', head='name = "main"'), "M.currencies[number 1]", "not a"),
        (one('zone = "Mars"'), "M.zone", "not a time zone"),
        (one('cut_off = "25:00"'), "M.cut_off", "local time"),
        (one('cut_off = "06:00+01:00"'), "M.cut_off", "without a zone"),
        (one("cut_off = 6"), "M.cut_off", "local time"),
        (one('mode = "both"'), "M.mode", "own"),
        (one('mode = "seamless"'), "M", "go together"),
        (one('limits.EUR.deposit_max = "1.234"'), "M.limits.EUR.deposit_max", "too many decimals"),
        (one("limits.EUR.deposit_max = 5"), "M.limits.EUR.deposit_max", "decimal string"),
        (one('limits.EUR.deposit_max = "0.00"'), "M.limits.EUR.deposit_max", "lets nobody play"),
        (one('limits.EUR.deposit_maximum = "5"'), "M.limits.EUR.deposit_maximum", "no key"),
        (one('limits.GBP.deposit_max = "5"'), "M", "limits for GBP"),
        (one('limits.EUR.currency = "EUR"'), "M.limits.EUR.currency (the table's name says it)", "no"),
        (one("limits = 3"), "M.limits", "must be a table"),
        (one("limits.EUR = 3"), "M.limits.EUR", "must be a table"),
        (one("rate = { requests_per_second = 0, burst = 1 }"), "M.rate.requests_per_second", "1"),
        (one('[[operator.keys]]\nid = "k"'), "K", "where the secret is"),
        (one(key("k", 'secret_env = "X"')), "K", "one of them"),
        (one(key("k")).replace("true", "false"), "K.secret", "unless development = true"),
        (one(key("k", secret="short")), "K.secret", "shorter than 32"),
        (one('[[operator.keys]]\nid = "k"\nsecret_env = "K9"'), "K.secret_env", "no K9"),
        (one('[[operator.keys]]\nid = "k"\nsecret_file = "k9"'), "K.secret_file", "No such file"),
        (one(key("k", "not_before = 2026-01-01T00:00:00")), "K.not_before", "with its zone"),
        (
            one(key("k", "not_before = 2026-02-01T00:00:00Z\nnot_after = 2026-01-01T00:00:00Z")),
            "K",
            "earlier than",
        ),
        (one(key("a") + key("a", secret=SECRET)), "M.keys[a]", "another key has the id"),
        (one(key("a") + key("b", secret="a" + SECRET)), "M.keys[b].secret", "of another key"),
        (one(key("a") + key("b") + key("c")), "M", "a, b, c are all in force at once"),
        (one() + one().partition("\n")[2], "operator", "two have the same name, main"),
        (
            one(URL.format("http://a.example") + 'key_id = "k"\nsecret_env = "X"'),
            "M.seamless.url",
            "must begin with https",
        ),
        (
            one(URL.format("https://a.example") + f'key_id = "o"\nsecret = "a{SECRET}"\n' + key("a")),
            "M.seamless.secret",
            "of another key",
        ),
        (
            one(ISSUER.format("https://i.example", "cashier")),
            "M.issuers[https://i.example]",
            "where the issuer's keys are",
        ),
        (
            one(ISSUER.format("https://i.example", "king") + 'jwks_file = "k"'),
            "M.issuers[https://i.example].roles.a",
            "cashier",
        ),
        (
            one(ISSUER.format("https://u:p@i.example", "cashier") + 'jwks_file = "k"'),
            "M.issuers[https://u:p@i.example].issuer",
            "no user or password",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(tmp_path, text, place, words):
    place = place.replace("K", "M.keys[k]", 1) if place.startswith("K") else place
    found = problems(tmp_path, text)
    assert [where.replace("operator[main]", "M") for where, reason in found if words in reason] == [place], (
        found
    )
    assert not any(SECRET in reason for _, reason in found)


def test_every_mistake_is_named(tmp_path):
    text = one('zone = "Mars"\nlimits.EUR.stake_max = "x"\n' + key("k", "not_after = 5", secret="x"))
    places = [place for place, _ in problems(tmp_path, text)]
    assert places == [
        "operator[main].zone",
        "operator[main].limits.EUR.stake_max",
        "operator[main].keys[k].not_after",
    ]


def test_keys_that_follow_one_another_may_be_many(tmp_path):
    keys = [
        key(
            f"k{month}",
            f"not_before = 2026-{month:02}-01T00:00:00Z\nnot_after = 2026-{month + 2:02}-01T00:00:00Z",
        )
        for month in range(1, 10)
    ]
    load(tmp_path, one("".join(keys)))
    assert "all in force" in problems(tmp_path, one("".join(keys) + key("ever")))[0][1]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(OperatorsError, match="cannot be read: No such file"):
        Operators.load(tmp_path / "none.toml", {})


# -------------------------------------------------------------------------------------------- reading again


def test_reading_again_takes_a_key_back_and_leaves_what_was_looked_up_as_it_was(tmp_path):
    operators = load(tmp_path)
    before = operators.table
    assert not operators.changed()
    written(tmp_path, TWO.replace('id = "old"', 'id = "newer"'))
    assert operators.changed()
    operators.reload()
    assert not operators.changed()
    assert before.key("old", NOW) is not None
    assert operators.table.key("old", NOW) is None
    assert operators.table.key("newer", NOW) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not valid TOML"),
        (TWO.replace('"north"\nzone', '"south"\nzone'), r"operator\[north\].shard: cannot change"),
        (TWO.replace("05:00", "04:00"), r"operator\[north\].cut_off: cannot change"),
        (TWO.partition('[[operator]]\nname = "north"')[0], r"operator\[north\]: is gone"),
    ],
)
def test_what_cannot_be_taken_changes_nothing(tmp_path, text, words):
    operators = load(tmp_path)
    before = operators.table
    written(tmp_path, text)
    with pytest.raises(OperatorsError, match=words):
        operators.reload()
    assert operators.table is before
    assert operators.trouble is not None
    assert not operators.changed(), "the same mistake is not said over and over"
    written(tmp_path)
    operators.reload()
    assert operators.trouble is None


def test_a_secret_that_changes_or_comes_later_is_noticed(tmp_path):
    (tmp_path / "k1").write_text(f"{SECRET}-1")
    keys = '[[operator.keys]]\nid = "{0}"\nsecret_file = "{0}"\n'
    operators = load(tmp_path, one(keys.format("k1")))
    (tmp_path / "k1").write_text(f"{SECRET}-one")
    assert operators.changed()
    operators.reload()
    found = operators.table.key("k1", NOW)
    assert found is not None
    assert found.secret == f"{SECRET}-one".encode()
    written(tmp_path, one(keys.format("k1") + keys.format("k2")))
    with pytest.raises(OperatorsError, match="k2 cannot be read"):
        operators.reload()
    assert not operators.changed()
    (tmp_path / "k2").write_text(f"{SECRET}-2")
    assert operators.changed()
    operators.reload()
    assert operators.table.key("k2", NOW) is not None


def test_a_file_is_watched(tmp_path, caplog):
    operators = load(tmp_path)
    with operators.watched(seconds=0.01):
        written(tmp_path, TWO.replace('id = "old"', 'id = "newer"'))
        until(lambda: operators.table.key("newer", NOW))
        written(tmp_path, "nonsense")
        until(lambda: operators.trouble)
    assert operators.table.key("newer", NOW) is not None
    assert "not valid TOML" in caplog.text


def test_a_file_that_is_being_written_is_left_alone(tmp_path, caplog):
    operators = load(tmp_path)
    before = operators.table
    with operators.watched(seconds=0.2), (tmp_path / "operators.toml").open("w") as file:
        for piece in TWO.replace('id = "old"', 'id = "newer"').splitlines(keepends=True):
            file.write(piece)
            file.flush()
            threading.Event().wait(0.05)
        assert operators.table is before
        until(lambda: operators.table.key("newer", NOW))
    assert "ERROR" not in caplog.text


def test_sighup_has_the_file_read_again(tmp_path):
    operators = load(tmp_path)
    before, handler = operators.table, signal.getsignal(signal.SIGHUP)
    with operators.watched(seconds=0.01):
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: operators.table is not before)
    assert signal.getsignal(signal.SIGHUP) is handler


def until(true):
    for _ in range(1_000):
        if true():
            return
        threading.Event().wait(0.01)
    pytest.fail("it never happened")
