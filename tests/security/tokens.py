"""An identity provider of a test's own: keys of every kind, tokens of every fault, a JWKS over HTTP."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from fastapi import FastAPI, Response

from tests.security.support import SECONDS

ISSUER = "https://login.example"

_MADE: dict[str, Any] = {}


def private_key(algorithm: str, name: str = "") -> Any:
    """A key, made once a run: RSA's take their time."""
    if algorithm + name not in _MADE:
        _MADE[algorithm + name] = {
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "RS512": lambda: rsa.generate_private_key(65537, 2048),
            "weak": lambda: rsa.generate_private_key(65537, 1024),
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }[algorithm]()
    return _MADE[algorithm + name]


def public_jwk(algorithm: str, kid: str, name: str = "", **more: Any) -> dict[str, Any]:
    """A key as a JWKS has it."""
    kind = "RS256" if algorithm == "weak" else algorithm
    jwk = jwt.get_algorithm_by_name(kind).to_jwk(private_key(algorithm, name).public_key(), as_dict=True)
    return jwk | {"kid": kid, "alg": kind, "use": "sig"} | more


def token(algorithm: str = "EdDSA", kid: str = "EdDSA", name: str = "", **claims: Any) -> str:
    """A token of anna's, a cashier of ``main``. A claim that is None is left out."""
    said = {
        "iss": ISSUER, "aud": "sabot", "sub": "anna", "iat": SECONDS, "exp": SECONDS + 600,
        "sabot_operator": "main", "roles": ["cash"],
    } | claims  # fmt: skip
    said = {key: value for key, value in said.items() if value is not None}
    return jwt.encode(said, private_key(algorithm, name), algorithm=algorithm, headers={"kid": kid})


def raw(header: dict[str, Any], claims: Any, signature: bytes = b"") -> str:
    """A token that no library would make."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


class Provider:
    """A JWKS over HTTP that counts who asks for it, and can be out of order."""

    def __init__(self) -> None:
        self.keys = [public_jwk(each, each) for each in ("EdDSA", "RS256", "ES256")]
        self.asked, self.answer = 0, ""
        """``answer``: instead of the keys; ``500`` for an error."""
        self.app = FastAPI()

        @self.app.get("/jwks.json")
        def jwks() -> Response:
            self.asked += 1
            text = self.answer or json.dumps({"keys": self.keys})
            return Response(text, status_code=500 if text == "500" else 200)


def entry(source: str, operator: str = "main", **more: str) -> str:
    """An operator with that provider."""
    lines = {
        "issuer": ISSUER, "audience": "sabot", "jwks_file" if source.startswith("/") else "jwks_url": source,
    } | more  # fmt: skip
    listed = "\n".join(f'{key} = "{value}"' for key, value in lines.items())
    roles = 'roles = { cash = "cashier", see = "auditor", boss = "pit_boss", ok = "approver" }'
    return (
        f'[[operator]]\nname = "{operator}"\ncurrencies = ["EUR"]\n[[operator.issuers]]\n{listed}\n{roles}\n'
    )
