"""Settings that come from the environment, checked once at the start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import available_timezones

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from schemas.events.base import OperatorName
from services.runtime.calendar import GamingCalendar

_PREFIX: Final = "SABOT_"

SHARD_LENGTH_MAX: Final = 40
"""A bet's id is the shard's name and a number, and must be a name itself."""


class SettingsError(ValueError):
    """A setting that cannot be taken, in words."""


class Settings(BaseModel):
    """What an installation decides. Each field is read from ``SABOT_<NAME>``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    operator: OperatorName = "main"
    """Who the tables and accounts belong to, where nobody says otherwise."""
    shard: Annotated[OperatorName, Field(max_length=SHARD_LENGTH_MAX)] = "main"
    """The wallet shard of this process."""
    zone: str = "UTC"
    """The operator's time zone, an IANA name such as Europe/Amsterdam."""
    cut_off: time = time(6)
    """Local time at which a gaming day begins."""
    kafka: str | None = None
    """Kafka's brokers (``host:port``, several with commas) instead of the embedded bus; ``/name`` behind them
    sets an installation apart from others that share the brokers."""
    database: str | None = None
    """URL of the PostgreSQL databases instead of files; ``{service}`` in it becomes game, wallet or audit."""
    game: str = "http://127.0.0.1:8101"
    """Where game answers, for a command that drives services at work."""
    wallet: str = "http://127.0.0.1:8102"
    """Where wallet answers."""
    operators: Path | None = None
    """The file of operators, with their shards, currencies, limits, keys and issuers
    (``examples/operators.toml``). Without it there is one operator, and callers are not asked who they
    are."""
    key: str | None = None
    """How a command that drives wallet signs its requests: the key's id, a colon, and a file with its
    secret."""
    trusted_network: bool = False
    """Whether a service may listen where other machines reach it, though it asks nobody who he is: only in a
    network of containers whose ports are published to the loopback interface."""
    seal_timeout_seconds: int = Field(default=30, ge=1, le=3600)
    """A coup whose bets are not sealed in this time is void."""

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError(f"{zone!r} is not a time zone; write an IANA name such as Europe/Amsterdam")
        return zone

    @field_validator("cut_off")
    @classmethod
    def _local(cls, cut_off: time) -> time:
        if cut_off.tzinfo is not None:
            raise ValueError("the cut-off is a local time such as 06:00, without a zone")
        return cut_off

    @field_validator("key")
    @classmethod
    def _key_and_file(cls, key: str | None) -> str | None:
        if key is not None and not (key.partition(":")[0] and key.partition(":")[2]):
            raise ValueError("write the key's id, a colon, and the file with its secret")
        return key

    @property
    def calendar(self) -> GamingCalendar:
        """The operator's gaming days."""
        return GamingCalendar(self.zone, self.cut_off)


def settings_from(environment: Mapping[str, str]) -> Settings:
    """The settings that these environment variables make.

    Raises:
        SettingsError: naming the variable.
    """
    values = {
        name.removeprefix(_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(_PREFIX)
    }
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = _PREFIX + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
