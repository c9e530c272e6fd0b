"""An OIDC issuer for demonstrations and tests: gives anybody who asks any role. Never for money.

Its key is made when it starts, and is gone when it ends. It listens on the loopback interface only.
"""

from __future__ import annotations

import hashlib
import json
import socket
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from schemas.events.base import OperatorName
from services.runtime.ports import Clock, Rng
from services.runtime.process import check_host
from services.runtime.roles import Role

AUDIENCE: Final = "sabot"
OPERATOR_CLAIM: Final = "sabot_operator"
ROLES_CLAIM: Final = "roles"
LIFETIME_SECONDS: Final = 8 * 3600
"""A shift."""


class TokenBody(BaseModel):
    """Who wants a token."""

    model_config = ConfigDict(extra="forbid")

    user: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.@-]+$", examples=["anna"])]
    operator: OperatorName
    roles: tuple[Role, ...] = ()
    lifetime_seconds: int = Field(ge=1, le=7 * 24 * 3600, default=LIFETIME_SECONDS)


class DevelopmentIssuer:
    """Makes tokens in the name of ``url``."""

    def __init__(self, url: str, clock: Clock, rng: Rng) -> None:
        self.url = url
        self._clock = clock
        self._key = Ed25519PrivateKey.from_private_bytes(rng.token(32))
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        member = {"crv": "Ed25519", "kty": "OKP", "x": _base64url(public)}
        # RFC 7638: the hash of the members that a key of this type must have, sorted.
        thumbprint = hashlib.sha256(json.dumps(member, separators=(",", ":")).encode()).digest()
        self.kid = _base64url(thumbprint)
        self.jwks: dict[str, Any] = {
            "keys": [{**member, "kid": self.kid, "alg": "EdDSA", "use": "sig"}],
        }

    def token(
        self, user: str, operator: str, roles: Collection[str], lifetime_seconds: int = LIFETIME_SECONDS
    ) -> str:
        """A token for that person."""
        now = int(self._clock.now().timestamp())
        claims = {
            "iss": self.url,
            "sub": user,
            "aud": AUDIENCE,
            "iat": now,
            "nbf": now,
            "exp": now + lifetime_seconds,
            OPERATOR_CLAIM: operator,
            ROLES_CLAIM: sorted(roles),
        }
        return jwt.encode(claims, self._key, algorithm="EdDSA", headers={"kid": self.kid})

    def entry(self) -> str:
        """What an operator's entry in the operators' file needs to have for these tokens to count."""
        roles = ", ".join(f'{role.value} = "{role.value}"' for role in Role)
        return (
            f'[[operator.issuers]]\nissuer = "{self.url}"\naudience = "{AUDIENCE}"\n'
            f'jwks_url = "{self.url}/jwks.json"\nroles = {{ {roles} }}\n'
        )

    def app(self) -> FastAPI:
        """The issuer over HTTP: ``/.well-known/openid-configuration``, ``/jwks.json`` and ``POST /token``."""
        app = FastAPI(title="Sabot development issuer", docs_url=None, redoc_url=None)

        @app.get("/.well-known/openid-configuration")
        async def configuration() -> dict[str, Any]:
            """What OpenID Connect Discovery asks for, as far as there is any of it here."""
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/jwks.json",
                "token_endpoint": f"{self.url}/token",
                "id_token_signing_alg_values_supported": ["EdDSA"],
                "response_types_supported": ["token"],
                "subject_types_supported": ["public"],
            }

        @app.get("/jwks.json")
        async def jwks() -> dict[str, Any]:
            """The public key."""
            return self.jwks

        @app.post("/token")
        async def token(body: TokenBody) -> dict[str, Any]:
            """A token for whoever is named."""
            made = self.token(body.user, body.operator, body.roles, body.lifetime_seconds)
            return {"access_token": made, "token_type": "Bearer", "expires_in": body.lifetime_seconds}

        return app


def serve_issuer(
    clock: Clock, rng: Rng, host: str, port: int, ready: Callable[[DevelopmentIssuer], None]
) -> None:
    """Run an issuer until a signal; ``ready`` is told it once it listens. Port 0 takes a free one.

    Raises:
        OpenToTheWorld: ``host`` is not a loopback address.
        OSError: the port is taken.
    """
    check_host(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        taken = listening.getsockname()[1]
        issuer = DevelopmentIssuer(
            f"http://[{host}]:{taken}" if ":" in host else f"http://{host}:{taken}", clock, rng
        )
        config = uvicorn.Config(issuer.app(), log_level="warning", timeout_graceful_shutdown=1)
        ready(issuer)
        uvicorn.Server(config).run(sockets=[listening])


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
