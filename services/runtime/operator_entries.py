"""What a deployment says of an operator, as it is written in the operators' file.

``examples/operators.toml`` is one. Every entry is frozen and checked; amounts become minor units here.
Secrets are named, not contained: ``operator_table`` reads them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from schemas.events.base import Currency, OperatorName
from schemas.money import MoneyError, exponent_of, parse_amount
from services.runtime.calendar import GamingCalendar
from services.runtime.roles import Role
from services.runtime.settings import SHARD_LENGTH_MAX

SECRET_LENGTH_MIN: Final = 32
KEYS_ACTIVE_MAX: Final = 2


def _known_currency(code: str) -> str:
    exponent_of(code)
    return code


def _some(codes: tuple[str, ...]) -> tuple[str, ...]:
    if not codes:
        raise ValueError("names none")
    return codes


Known = Annotated[Currency, AfterValidator(_known_currency)]
KeyId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Claim = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _Entry(BaseModel):
    # An unknown key is a misspelled one and would be a silent default.
    model_config = ConfigDict(frozen=True, extra="forbid")


def _secure(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not host or parts.scheme not in {"http", "https"} or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not a URL such as https://wallet.example.com/v1")
    if parts.username or parts.password:
        raise ValueError("a URL here has no user or password in it")
    if parts.scheme != "https" and not loopback:
        raise ValueError(f"{url!r} must begin with https: only this machine itself may be asked without TLS")
    return url


Url = Annotated[str, AfterValidator(_secure)]


def _zoned(moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("write the moment with its zone, such as 2026-11-30T00:00:00Z")
    return moment.astimezone(UTC)


Moment = Annotated[datetime, BeforeValidator(_zoned)]


def _beside(name: str, info: ValidationInfo) -> str:
    return str(Path((info.context or {}).get("folder", ".")) / name)


File = Annotated[str, AfterValidator(_beside)]
"""A file; in the operators' file relative to it."""


class SecretPlace(_Entry):
    """Where a secret is: exactly one of the three."""

    secret_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """An environment variable. Read when the process starts: a new one needs a restart."""
    secret_file: File | None = None
    """A file. A line end behind the secret is not part of it."""
    secret: SecretStr | None = None
    """The secret itself: only where ``development = true``."""

    @model_validator(mode="after")
    def _one_place(self) -> SecretPlace:
        given = [each for each in (self.secret_env, self.secret_file, self.secret) if each is not None]
        if len(given) != 1:
            raise ValueError("say where the secret is: secret_env or secret_file, one of them")
        return self


class KeyEntry(SecretPlace):
    """A key with which the operator's machines sign, and when it is in force."""

    id: KeyId
    not_before: Moment | None = None
    not_after: Moment | None = None
    """The first moment at which it is no longer in force."""

    @model_validator(mode="after")
    def _in_order(self) -> KeyEntry:
        if self.not_before and self.not_after and self.not_before >= self.not_after:
            raise ValueError("not_before must be earlier than not_after")
        return self

    def in_force(self, moment: datetime) -> bool:
        """Whether what it signs counts at this moment."""
        return (self.not_before is None or self.not_before <= moment) and (
            self.not_after is None or moment < self.not_after
        )


class SeamlessEntry(SecretPlace):
    """The operator's own wallet, where balances are his."""

    url: Url
    key_id: KeyId
    """The key with which we sign our calls. Never one with which the operator calls us."""
    dialect: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")] = "sabot"
    """The adapter that speaks to it."""
    connect_timeout_ms: int = Field(ge=50, le=10_000, default=1_000)
    timeout_ms: int = Field(ge=100, le=60_000, default=3_000)
    """Until a call's outcome counts as unknown."""
    recovery: Literal["allow", "block"] = "block"
    """Whether a player may bet while a correction's debit that the operator refused is open."""


class IssuerEntry(_Entry):
    """Who says who a person is: an OIDC issuer, and how its tokens are read."""

    issuer: Url
    audience: Claim
    jwks_url: Url | None = None
    jwks_file: File | None = None
    roles_claim: Claim = "roles"
    """A claim, or a path with points into one (``realm_access.roles``): a string, or a list of them."""
    roles: Mapping[str, Role]
    """Which of our roles each of the claim's values stands for. Other values give no role."""
    operator_claim: Claim = "sabot_operator"
    """The claim, or path, that must have this operator's name for its value."""
    name_claim: Claim = "sub"
    """By what a person is named in the records."""

    @model_validator(mode="after")
    def _one_place(self) -> IssuerEntry:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("say where the issuer's keys are: jwks_url or jwks_file, one of them")
        if not self.roles:
            raise ValueError("roles names no value: nobody could do anything")
        return self


def _units(text: object, info: ValidationInfo) -> int | None:
    # A default is not validated, so the currency is there unless it is unknown itself.
    if "currency" not in info.data:
        raise ValueError("is in a currency that we do not know")
    try:
        units = parse_amount(text, info.data["currency"])
    except MoneyError as error:
        raise ValueError(str(error)) from None
    if units == 0:
        raise ValueError("a limit of nothing lets nobody play; leave it out, or stop the operator")
    return units


Limit = Annotated[int | None, BeforeValidator(_units)]
"""A decimal string in the file, minor units afterwards; none: no limit."""


class Limits(_Entry):
    """What is the most in one currency."""

    currency: Known
    """Of the table's name; not written in it."""
    amount_max: Limit = None
    """A single amount of any kind."""
    deposit_max: Limit = None
    """A single deposit; likewise the next two."""
    withdrawal_max: Limit = None
    stake_max: Limit = None
    player_deposit_day: Limit = None
    """What a player may deposit in a gaming day, unless he has set himself less; likewise the next ones."""
    player_deposit_week: Limit = None
    player_deposit_month: Limit = None
    player_stake_day: Limit = None
    player_stake_week: Limit = None
    player_stake_month: Limit = None
    player_loss_day: Limit = None
    player_loss_week: Limit = None
    player_loss_month: Limit = None


class RateEntry(_Entry):
    """How often one key, or one person, may ask: a bucket that fills steadily."""

    requests_per_second: int = Field(ge=1, le=1_000_000)
    burst: int = Field(ge=1, le=1_000_000)
    """So many at once."""


class Operator(_Entry):
    """One operator of a deployment."""

    name: OperatorName
    shard: Annotated[OperatorName, Field(max_length=SHARD_LENGTH_MAX)] = "main"
    """The wallet shard that has his accounts."""
    currencies: Annotated[tuple[Known, ...], AfterValidator(_some)]
    zone: str = "UTC"
    cut_off: time = time(6)
    mode: Literal["own", "seamless"] = "own"
    stopped: bool = False
    """The kill switch (W41): nothing is taken in his name any more; what is there can be read."""
    read_only: bool = False
    """For a while nothing is taken in his name."""
    limits: Mapping[str, Limits] = {}
    player_minutes_day: int | None = Field(ge=1, le=24 * 60, default=None)
    """So long a player may play in a gaming day, unless he has set himself less."""
    rate: RateEntry | None = None
    keys: tuple[KeyEntry, ...] = ()
    issuers: tuple[IssuerEntry, ...] = ()
    seamless: SeamlessEntry | None = None

    @property
    def calendar(self) -> GamingCalendar:
        """His gaming days."""
        return GamingCalendar(self.zone, self.cut_off)

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError(f"{zone!r} is not a time zone; write an IANA name such as Europe/Amsterdam")
        return zone

    @field_validator("cut_off", mode="before")
    @classmethod
    def _local_time(cls, cut_off: object) -> object:
        if isinstance(cut_off, time) and cut_off.tzinfo is None:
            return cut_off
        try:
            parsed = time.fromisoformat(cut_off) if isinstance(cut_off, str) else None
        except ValueError:
            parsed = None
        if parsed is None or parsed.tzinfo is not None:
            raise ValueError("the cut-off is a local time such as 06:00, without a zone")
        return parsed

    @field_validator("limits", mode="before")
    @classmethod
    def _named_by_currency(cls, limits: Any) -> Any:
        if not isinstance(limits, Mapping):
            return limits
        # A table that says its currency itself is left to be refused: the name above it does.
        return {
            code: {
                "currency": code,
                **table,
                **({"currency (the table's name says it)": 0} if "currency" in table else {}),
            }
            if isinstance(table, Mapping)
            else table
            for code, table in limits.items()
        }

    @model_validator(mode="after")
    def _together(self) -> Operator:
        strange = sorted(set(self.limits) - set(self.currencies))
        if strange:
            raise ValueError(f"limits for {', '.join(strange)}, which is not one of his currencies")
        if (self.mode == "seamless") != (self.seamless is not None):
            raise ValueError(
                'mode = "seamless" and a table [operator.seamless] go together'
                if self.seamless is None
                else 'a table [operator.seamless] needs mode = "seamless"'
            )
        for key in self.keys:
            begins = key.not_before or datetime.min.replace(tzinfo=UTC)
            active = [each.id for each in self.keys if each.in_force(begins)]
            if len(active) > KEYS_ACTIVE_MAX:
                raise ValueError(
                    f"keys {', '.join(active)} are all in force at once; {KEYS_ACTIVE_MAX} at most may be"
                )
        return self
