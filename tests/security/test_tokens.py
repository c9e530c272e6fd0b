"""Bearer tokens: which count, what they say, and how often an issuer is asked for its keys."""

import asyncio
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from services.runtime.operators import Operators
from services.runtime.ports_system import ManualClock
from services.runtime.roles import Role
from services.runtime.tokens import BadToken, IssuerUnavailable, Tokens
from tests.security.support import NOW, SECONDS, served, written
from tests.security.tokens import ISSUER, Provider, entry, private_key, public_jwk, raw, token


class Desk:
    """Reads tokens by the keys of a file."""

    def __init__(self, folder, keys=None, **more):
        keys = keys or [public_jwk(each, each) for each in ("EdDSA", "RS256", "ES256")]
        self.file = folder / "jwks.json"
        self.file.write_text(json.dumps({"keys": keys}))
        text = entry(str(self.file), **more) + entry(str(self.file), "north", **more)
        self.table = Operators.load(written(folder, text), {}).table
        self.clock = ManualClock(NOW)
        self.tokens = Tokens(self.clock)

    def read(self, said):
        return asyncio.run(self.tokens.read(said, self.table))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_who_a_token_speaks_of(desk, algorithm):
    person = desk.read(token(algorithm, algorithm, roles=["cash", "see", "none of ours", 5]))
    assert (person.operator.name, person.name) == ("main", "anna")
    assert person.roles == {Role.CASHIER, Role.AUDITOR}


def test_operators_may_share_an_issuer(desk):
    assert desk.read(token(sabot_operator="north")).operator.name == "north"


@pytest.mark.parametrize("operator", [None, "south", "", ["main"], {"main": 1}, 5])
def test_a_token_without_an_operator_of_its_issuer_is_nobodys(desk, operator):
    with pytest.raises(BadToken, match="names no operator"):
        desk.read(token(sabot_operator=operator))


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("cash", {Role.CASHIER}),
        (None, set()),
        ([], set()),
        ({"cash": 1}, set()),
        (7, set()),
        (["Cash"], set()),
    ],
)
def test_roles_are_a_string_or_a_list(desk, roles, expected):
    assert desk.read(token(roles=roles)).roles == expected


def test_claims_may_lie_deeper_or_have_points_in_their_names(tmp_path):
    desk = Desk(tmp_path, roles_claim="realm.roles", operator_claim="https://x/op", name_claim="user.name")
    claims: dict[str, Any] = {"realm": {"roles": ["see"]}, "https://x/op": "main", "user.name": "Anna K"}
    person = desk.read(token(**claims))
    assert (person.name, person.roles) == ("Anna K", {Role.AUDITOR})


@pytest.mark.parametrize("name", [None, "", "x" * 129, "a\nb", 5, ["anna"]])
def test_a_person_has_a_name(tmp_path, name):
    with pytest.raises(BadToken, match="who it is"):
        Desk(tmp_path, name_claim="user").read(token(user=name))


# ---------------------------------------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "who issued it"),
        ({"aud": "other"}, "not for us"),
        ({"aud": None}, "not for us"),
        ({"aud": ["a", "b"]}, "not for us"),
        ({"exp": None}, "when it expires"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": float("inf")}, "not a time"),
        ({"exp": float("nan")}, "not a time"),
        ({"nbf": SECONDS + 31}, "from the future"),
        ({"iat": SECONDS + 31}, "from the future"),
    ],
)
def test_a_claim_that_does_not_fit(desk, claims, words):
    with pytest.raises(BadToken, match=words) as error:
        desk.read(token(**claims))
    assert error.value.code == "TOKEN_INVALID"


def test_clocks_may_be_off_a_little(desk):
    assert desk.read(token(aud=["x", "sabot"], nbf=SECONDS + 30, iat=SECONDS + 30, exp=SECONDS - 29))
    with pytest.raises(BadToken, match="expired") as error:
        desk.read(token(exp=SECONDS - 30))
    assert error.value.code == "TOKEN_EXPIRED"


def test_an_expired_token_with_a_wrong_signature_is_no_token(desk):
    with pytest.raises(BadToken) as error:
        desk.read(token(name="stranger", exp=1))
    assert error.value.code == "TOKEN_INVALID"


PEM, SPKI = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
CLAIMS = {"iss": ISSUER, "aud": "sabot", "sub": "anna", "exp": SECONDS + 600, "sabot_operator": "main"}


def test_the_key_decides_which_algorithm(desk):
    public = public_jwk("RS256", "RS256")
    for algorithm in ("none", "None", "HS256", "HS512", "RS512", "PS256", "ES384", "", None, ["RS256"]):
        with pytest.raises(BadToken, match="not signed with one of"):
            desk.read(raw({"alg": algorithm, "kid": "RS256"}, CLAIMS))
    with pytest.raises(BadToken, match="not signed with a key"):
        desk.read(token("ES256", "RS256"))
    with pytest.raises(BadToken, match="not signed with a key"):
        desk.read(raw({"alg": "EdDSA", "kid": "RS256"}, CLAIMS))
    # The public key as the secret of an HMAC: the classic.
    unsigned = raw({"alg": "HS256", "kid": "RS256"}, CLAIMS)
    for secret in (json.dumps(public), private_key("RS256").public_key().public_bytes(PEM, SPKI).decode()):
        signature = hmac.digest(secret.encode(), unsigned.rstrip(".").encode(), "sha256")
        with pytest.raises(BadToken, match="not signed with one of"):
            desk.read(raw({"alg": "HS256", "kid": "RS256"}, CLAIMS, signature))


def test_a_token_of_somebody_elses_key(desk):
    with pytest.raises(BadToken, match="does not fit"):
        desk.read(token(name="stranger"))
    with pytest.raises(BadToken, match="not signed with a key of its issuer"):
        desk.read(token(kid="unknown"))


def test_an_altered_token(desk):
    header, _, signature = token().split(".")
    altered = token(roles=["see"], name="stranger").split(".")[1]
    with pytest.raises(BadToken, match="does not fit"):
        desk.read(f"{header}.{altered}.{signature}")


@pytest.mark.parametrize(
    "said",
    [
        "", ".", "..", "...", "a.b.c", "é.é.é", "\udcff", "x" * 8193, "eyJhbGciOiJFZERTQSJ9..",
        raw({"alg": "EdDSA"}, CLAIMS), raw({"alg": "EdDSA", "kid": 5}, CLAIMS),
        raw({"alg": "EdDSA", "kid": "EdDSA", "crit": ["x"], "x": 1}, CLAIMS),
        raw({"alg": "EdDSA", "kid": "EdDSA", "b64": False, "crit": ["b64"]}, CLAIMS),
        raw({"alg": "EdDSA", "kid": "EdDSA"}, [CLAIMS]), raw({"alg": "EdDSA", "kid": "EdDSA"}, "claims"),
        raw({"alg": "EdDSA", "kid": "EdDSA"}, CLAIMS),
        raw({"alg": "EdDSA", "kid": "EdDSA"}, CLAIMS, b"x" * 64),
    ],
)  # fmt: skip
def test_what_is_no_token(desk, said):
    with pytest.raises(BadToken):
        desk.read(said)


def test_keys_that_are_too_weak_or_for_something_else_do_not_count(tmp_path):
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct", "alg": "EdDSA"}
    keys = [
        public_jwk("weak", "weak"), public_jwk("RS512", "RS512"), public_jwk("EdDSA", "enc", use="enc"),
        secret, {"kty": "what"}, "key", {}, public_jwk("EdDSA", "EdDSA"),
    ]  # fmt: skip
    desk = Desk(tmp_path, keys)
    assert desk.read(token())
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        weak = jwt.encode(CLAIMS, private_key("weak"), algorithm="RS256", headers={"kid": "weak"})
    for said in (weak, token("EdDSA", "enc"), raw({"alg": "EdDSA", "kid": "oct"}, CLAIMS)):
        with pytest.raises(BadToken, match="not signed with a key"):
            desk.read(said)


# ----------------------------------------------------------------------------------------- an issuer's keys


@pytest.fixture
def asked(tmp_path):
    provider = Provider()
    with served(provider.app) as url:
        desk = Desk(tmp_path)
        desk.table = Operators.load(written(tmp_path, entry(f"{url}/jwks.json")), {}).table
        yield desk, provider


def test_keys_are_asked_for_once(asked):
    desk, provider = asked

    async def many():
        return await asyncio.gather(*(desk.tokens.read(token(), desk.table) for _ in range(20)))

    assert len(asyncio.run(many())) == 20
    assert provider.asked == 1


def test_an_unknown_key_asks_again_but_not_more_often_than_every_thirty_seconds(asked):
    desk, provider = asked
    desk.read(token())
    provider.keys.append(public_jwk("EdDSA", "new", "new"))
    for _ in range(3):
        with pytest.raises(BadToken, match="not signed with a key"):
            desk.read(token(kid="new", name="new"))
    assert provider.asked == 1
    desk.clock.advance(30)
    assert desk.read(token(kid="new", name="new"))
    for number in range(3):
        with pytest.raises(BadToken):
            desk.read(token(kid=f"made up {number}"))
    assert provider.asked == 2


def test_a_key_that_the_issuer_takes_back_counts_for_ten_minutes_at_most(asked):
    desk, provider = asked
    desk.read(token(exp=SECONDS + 9_000))
    provider.keys = provider.keys[1:]
    desk.clock.advance(600)
    assert desk.read(token(exp=SECONDS + 9_000))
    desk.clock.advance(1)
    with pytest.raises(BadToken, match="not signed with a key"):
        desk.read(token(exp=SECONDS + 9_000))


@pytest.mark.parametrize("answer", ["500", "nonsense", "[]", "{}", '{"keys": 5}', " " * 300_000])
def test_while_an_issuer_is_out_of_order_its_keys_count_for_an_hour(asked, answer):
    desk, provider = asked
    said = token(exp=SECONDS + 9_000)
    desk.read(said)
    provider.answer = answer
    desk.clock.advance(3_599)
    assert desk.read(said)
    with pytest.raises(IssuerUnavailable):
        desk.read(token(kid="new"))
    desk.clock.advance(2)
    with pytest.raises(IssuerUnavailable):
        desk.read(said)
    provider.answer = ""
    desk.clock.advance(30)
    assert desk.read(said)


def test_nobody_answers(tmp_path):
    desk = Desk(tmp_path)
    desk.table = Operators.load(written(tmp_path, entry("http://127.0.0.1:9/jwks.json")), {}).table
    for _ in range(2):
        with pytest.raises(IssuerUnavailable):
            desk.read(token())


def test_a_file_of_keys_that_changes(desk):
    desk.read(token())
    desk.file.write_text(json.dumps({"keys": [public_jwk("EdDSA", "new", "new")]}))
    desk.clock.advance(31)
    assert desk.read(token(kid="new", name="new"))
    with pytest.raises(BadToken):
        desk.read(token())
