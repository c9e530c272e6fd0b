"""Every currency has its own decimals: what does not convert exactly is refused (W23; cases 14 and 15)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from schemas.events.accounts import Deposited
from schemas.events.wallet import CoupSettled
from schemas.money import AMOUNT_LIMIT_MINOR_UNITS, MoneyError, exponents, format_amount, parse_amount
from tests.wallet.test_api import serving, until_idle
from tests.wallet.world import OPERATOR, SHOE, TABLE, World


@pytest.fixture
def client(world: World) -> Iterator[TestClient]:
    world.open_table()
    with serving(world) as client:
        client.world = world  # type: ignore[attr-defined]
        yield client


def post(client: TestClient, path: str, **body: object) -> tuple[int, str, str | None]:
    """Status, code, and field or (if it was done) balance."""
    answer = client.post(path, json={"operator": OPERATOR, "account": "Ann"} | body)
    said = answer.json()
    return answer.status_code, said["code"], said.get("field") if said["code"] != "OK" else said["balance"]


@pytest.mark.parametrize(
    ("text", "currency", "units", "said"),
    [
        ("1000", "JPY", 1_000, "1000"),
        ("1.234", "KWD", 1_234, "1.234"),
        ("1.23", "KWD", 1_230, "1.230"),
        ("10.00", "EUR", 1_000, "10.00"),
        ("10", "EUR", 1_000, "10.00"),
        ("0010.5", "EUR", 1_050, "10.50"),
        ("0.00000001", "BTC", 1, "0.00000001"),
        ("21.12345678", "BTC", 2_112_345_678, "21.12345678"),
        ("63727092.34", "EUR", 6_372_709_234, "63727092.34"),
        ("10000000000000.00", "EUR", 10**15, "10000000000000.00"),
    ],
)
def test_w23_money_case_14_what_converts_exactly(client, text, currency, units, said):
    assert post(client, "/v1/deposits", tx="D1", currency=currency, amount=text) == (200, "OK", said)
    (deposited,) = client.world.events(Deposited)
    assert (deposited.data.amount, deposited.data.exponent) == (units, exponents()[currency])


@pytest.mark.parametrize(
    ("text", "currency", "code"),
    [
        ("1.5", "JPY", "PRECISION"),
        ("1.0", "JPY", "PRECISION"),
        ("1.2345", "KWD", "PRECISION"),
        ("10.005", "EUR", "PRECISION"),
        ("10.000", "EUR", "PRECISION"),
        ("0.000000001", "BTC", "PRECISION"),
        ("10000000000000.01", "EUR", "INVALID"),
        ("1000000000000001", "JPY", "INVALID"),
    ],
)
def test_w23_money_case_14_what_does_not(client, world, text, currency, code):
    before = world.events()
    for path, name in (
        ("/v1/deposits", "amount"),
        ("/v1/withdrawals", "amount"),
        ("/v1/tips", "amount"),
        ("/v1/bets", "stake"),
    ):
        place = {"table": TABLE, "shoe": SHOE, "coup": 1, "spot": "tie"} if name == "stake" else {}
        assert post(client, path, tx="X", currency=currency, **place, **{name: text}) == (422, code, name)
    assert world.events() == before


def test_money_case_15_three_bets_of_ten_cents_from_thirty(client):
    post(client, "/v1/deposits", tx="D1", currency="EUR", amount="0.30")
    place = {"table": TABLE, "shoe": SHOE, "coup": 1, "spot": "tie", "currency": "EUR"}
    answers = [post(client, "/v1/bets", tx=f"B{n}", stake="0.10", **place) for n in range(4)]
    assert answers == [
        (200, "OK", "0.20"),
        (200, "OK", "0.10"),
        (200, "OK", "0.00"),
        (422, "INSUFFICIENT_FUNDS", "stake"),
    ]


@pytest.mark.parametrize(
    ("currency", "stake", "paid", "commission"),
    [
        ("JPY", "1010", "1969", "51"),
        ("KWD", "1.010", "1.969", "0.051"),
        ("BTC", "0.00001010", "0.00001969", "0.00000051"),
        ("EUR", "10.10", "19.69", "0.51"),
    ],
)
def test_w24_a_commission_is_rounded_in_each_currencys_own_unit(client, currency, stake, paid, commission):
    world = client.world
    assert post(client, "/v1/deposits", tx="D1", currency=currency, amount=stake)[1] == "OK"
    place = {"table": TABLE, "shoe": SHOE, "coup": 1, "spot": "banker", "currency": currency}
    assert post(client, "/v1/bets", tx="B1", stake=stake, **place)[1] == "OK"
    world.bus.publish([world.game.close(1), world.game.conclude(1, "banker")])
    until_idle(world)
    (bet,) = client.get(f"/v1/coups/{OPERATOR}/{TABLE}/{SHOE}/1/bets").json()
    assert (bet["stake"], bet["returned"], bet["commission"]) == (stake, paid, commission)
    (view,) = client.get(f"/v1/accounts/{OPERATOR}/Ann").json()["balances"]
    assert (view["currency"], view["cash"], view["withdrawable"]) == (currency, paid, paid)
    (settled,) = world.events(CoupSettled)
    assert settled.data.bets[0].commission_exact == "101/2"


def test_currencies_do_not_mix_in_the_books(world):
    """Four currencies in one coup: each balances by itself."""
    world.open_table()
    for currency in ("EUR", "JPY", "KWD", "BTC"):
        world.deposit("Ann", 1_000, currency=currency)
        world.bet("Ann", "banker", 1_000, currency=currency)
    world.play(1, "banker")
    for currency in ("EUR", "JPY", "KWD", "BTC"):
        assert world.totals(currency) == {"1030": 1_000, "2010": -1_950, "4011": 1_000, "4020": -50}


@given(st.sampled_from(sorted(exponents())), st.integers(0, AMOUNT_LIMIT_MINOR_UNITS))
def test_w23_there_and_back(currency, units):
    assert parse_amount(format_amount(units, currency), currency) == units


@given(
    st.sampled_from(["EUR", "JPY", "KWD", "BTC"]),
    st.decimals(min_value=0, max_value=9_999, places=10, allow_nan=False, allow_infinity=False),
)
def test_w23_exact_or_refused(currency, amount):
    """Whatever number of decimals: either the very same amount, or nothing."""
    text = f"{amount:f}".rstrip("0").rstrip(".") or "0"
    decimals = len(text.partition(".")[2])
    if decimals <= exponents()[currency]:
        assert parse_amount(text, currency) == amount.scaleb(exponents()[currency])
    else:
        with pytest.raises(MoneyError, match="too many decimals"):
            parse_amount(text, currency)
