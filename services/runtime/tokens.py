"""OIDC bearer tokens of people: who somebody is, for which operator, in which roles.

A token is a JWS in compact form (RFC 7519, OpenID Connect Core 3.1.3.7), signed with RS256, ES256 or EdDSA by
a key of the issuer's JWKS (RFC 7517). ``none`` and the HS algorithms are never taken (RFC 8725, 3.1): which
algorithm counts is decided by the key, not by the token.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from services.runtime.operator_entries import IssuerEntry, Operator
from services.runtime.operator_table import Table
from services.runtime.ports import Clock
from services.runtime.roles import Role

ALGORITHMS: Final = frozenset({"RS256", "ES256", "EdDSA"})
LEEWAY_SECONDS: Final = 30
"""So far an issuer's clock may be from ours."""
REFRESH_SECONDS: Final = 30
"""An unknown key makes us ask the issuer, but not more often than that."""
_AGE_SECONDS: Final = 600
"""After this keys are asked for again, so that one that the issuer takes back does not count for ever."""
_AGE_MAX_SECONDS: Final = 3600
"""So long keys count while the issuer does not answer."""
_FETCH_TIMEOUT_SECONDS: Final = 5.0
_JWKS_BYTES_MAX: Final = 256 * 1024
_TOKEN_LENGTH_MAX: Final = 8192
_RSA_BITS_MIN: Final = 2048
_NAME_LENGTH_MAX: Final = 128

log = logging.getLogger(__name__)


class BadToken(ValueError):
    """A token that says nothing to us. ``code`` is ``TOKEN_INVALID`` or ``TOKEN_EXPIRED``."""

    def __init__(self, words: str, code: str = "TOKEN_INVALID") -> None:
        super().__init__(words)
        self.code = code


class IssuerUnavailable(Exception):
    """The issuer's keys cannot be had at the moment. Nothing is known about the token."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a token speaks of."""

    operator: Operator
    name: str
    roles: frozenset[Role]


class Tokens:
    """Reads tokens. Keeps the keys of their issuers. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[str, KeySet] = {}

    async def read(self, token: str, table: Table) -> Person:
        """Who sent this token.

        Raises:
            BadToken: it is no token, its signature is not the issuer's, it is not for us, it is too late.
            IssuerUnavailable: the issuer's keys cannot be had.
        """
        heading = _heading(token)
        entries = table.issuers(heading.issuer)
        if not entries:
            raise BadToken("the token's issuer is not one that we know")
        wrong = BadToken(f"the token's claim {entries[0][1].operator_claim} names no operator of its issuer")
        verified: dict[str, dict[str, Any]] = {}
        # Several operators may share an issuer, and one may have an entry for each of several audiences.
        for operator, entry in entries:
            source = entry.jwks_url or entry.jwks_file or ""
            try:
                if source not in verified:
                    verified[source] = await self._verified(token, heading, source, entry)
                claims = verified[source]
                if _claim(claims, entry.operator_claim) == operator.name:
                    self._check(claims, entry)
                    return Person(operator, _name(claims, entry), _roles(claims, entry))
            except BadToken as error:
                wrong = error
        raise wrong

    async def _verified(
        self, token: str, heading: _Heading, source: str, entry: IssuerEntry
    ) -> dict[str, Any]:
        keys = self._keys.get(source)
        if keys is None:
            keys = self._keys[source] = KeySet(source, remote=entry.jwks_url is not None)
        key = await keys.find(heading.kid, self._clock.now())
        if key is None or key.algorithm_name != heading.algorithm:
            raise BadToken("the token is not signed with a key of its issuer")
        try:
            jwt.PyJWS().decode(token, key, algorithms=[key.algorithm_name])
        except jwt.PyJWTError:
            raise BadToken("the token's signature does not fit") from None
        return heading.claims

    def _check(self, claims: Mapping[str, Any], entry: IssuerEntry) -> None:
        if claims.get("iss") != entry.issuer:
            raise BadToken("the token's issuer is not one that we know")
        audience = claims.get("aud")
        if audience != entry.audience and not (isinstance(audience, list) and entry.audience in audience):
            raise BadToken("the token is not for us: its claim aud is another one")
        now = self._clock.now().timestamp()
        expires = _seconds(claims, "exp")
        if expires is None:
            raise BadToken("the token does not say when it expires")
        begins = max(_seconds(claims, "nbf") or 0, _seconds(claims, "iat") or 0)
        if begins > now + LEEWAY_SECONDS:
            raise BadToken("the token is from the future")
        if now >= expires + LEEWAY_SECONDS:
            raise BadToken("the token has expired; get a new one", "TOKEN_EXPIRED")


@dataclass(frozen=True, slots=True)
class _Heading:
    """What a token claims. Nothing of it is verified yet."""

    kid: str
    algorithm: str
    issuer: str
    claims: dict[str, Any]


def _heading(token: str) -> _Heading:
    if len(token) > _TOKEN_LENGTH_MAX:
        raise BadToken(f"the token is longer than {_TOKEN_LENGTH_MAX} characters")
    try:
        unverified = jwt.PyJWS().decode_complete(token, options={"verify_signature": False})
        claims = json.loads(unverified["payload"])
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise BadToken("that is not a token") from None
    header = unverified["header"]
    kid, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise BadToken(f"the token is not signed with one of {', '.join(sorted(ALGORITHMS))}")
    if "crit" in header or header.get("b64", True) is not True:
        raise BadToken("the token has a header that must be understood and is not")
    if not isinstance(kid, str) or not kid:
        raise BadToken("the token does not say which key signed it (kid)")
    issuer = claims.get("iss") if isinstance(claims, dict) else None
    if not isinstance(issuer, str):
        raise BadToken("the token does not say who issued it")
    return _Heading(kid, algorithm, issuer, claims)


def _claim(claims: Mapping[str, Any], path: str) -> object:
    """A claim of that name; where there is none, what the path with points leads to."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadToken(f"the token's claim {name} is not a time")
    return value


def _name(claims: Mapping[str, Any], entry: IssuerEntry) -> str:
    name = _claim(claims, entry.name_claim)
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _NAME_LENGTH_MAX:
        raise BadToken(f"the token's claim {entry.name_claim} does not say who it is")
    return name


def _roles(claims: Mapping[str, Any], entry: IssuerEntry) -> frozenset[Role]:
    said = _claim(claims, entry.roles_claim)
    values = said if isinstance(said, list) else [said]
    return frozenset(entry.roles[each] for each in values if isinstance(each, str) and each in entry.roles)


class KeySet:
    """The public keys of an issuer, asked for when one is missing or they are old. For one event loop."""

    def __init__(self, source: str, *, remote: bool) -> None:
        """``source`` is a URL if ``remote``, otherwise a file."""
        self._source, self._remote = source, remote
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = self._asked = -math.inf
        self._failed = False
        self._asking = asyncio.Lock()
        self.fetches = 0
        """How often the issuer was asked."""

    async def find(self, kid: str, now: datetime) -> jwt.PyJWK | None:
        """The key of that id, if the issuer has one.

        Raises:
            IssuerUnavailable: that cannot be known.
        """
        moment = now.timestamp()
        if kid not in self._keys or moment - self._fetched > _AGE_SECONDS:
            # While somebody asks already, who has a key need not wait for the answer.
            if kid not in self._keys or not self._asking.locked():
                await self._refresh(kid, moment)
            unknown = kid not in self._keys and self._failed
            if unknown or moment - self._fetched > _AGE_MAX_SECONDS:
                raise IssuerUnavailable("the issuer's keys cannot be had at the moment; try again")
        return self._keys.get(kid)

    async def _refresh(self, kid: str, moment: float) -> None:
        async with self._asking:
            fresh = moment - self._fetched <= _AGE_SECONDS
            if (fresh and kid in self._keys) or 0 <= moment - self._asked < REFRESH_SECONDS:
                return
            self._asked = moment
            self.fetches += 1
            try:
                # In a thread: neither a name's look-up nor a TLS context may hold up other callers.
                keys = _usable(await asyncio.to_thread(self._fetch))
            except (httpx2.HTTPError, OSError, ValueError, jwt.PyJWTError) as error:
                log.error("the keys at %s cannot be had: %s", self._source, error)
                self._failed = True
                return
            self._keys, self._fetched, self._failed = keys, moment, False

    def _fetch(self) -> Any:
        if not self._remote:
            return json.loads(Path(self._source).read_bytes())
        with (
            httpx2.Client(timeout=_FETCH_TIMEOUT_SECONDS, follow_redirects=False) as client,
            client.stream("GET", self._source, headers={"Accept": "application/json"}) as answer,
        ):
            answer.raise_for_status()
            body = bytearray()
            for part in answer.iter_bytes():
                body += part
                if len(body) > _JWKS_BYTES_MAX:
                    raise ValueError(f"more than {_JWKS_BYTES_MAX} bytes")
        return json.loads(body)


def _usable(document: object) -> dict[str, jwt.PyJWK]:
    """The keys of a JWKS that sign with an algorithm that we take, by their ids."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("that is no JWKS: a JSON object with a list of keys")
    usable: dict[str, jwt.PyJWK] = {}
    for each in listed:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that we do not know
        strong = not isinstance(key.key, RSAPublicKey) or key.key.key_size >= _RSA_BITS_MIN
        if key.key_id and key.algorithm_name in ALGORITHMS and strong:
            usable[key.key_id] = key
    return usable
