"""The protocols that we speak, by the name that an operator's entry gives (``dialect``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from services.seamless.adapter import Adapter
from services.seamless.adapters.one_wallet import OneWallet
from services.seamless.adapters.sabot import Sabot

_ADAPTERS: Final[dict[str, Callable[[], Adapter]]] = {"sabot": Sabot, "one_wallet": OneWallet}

DIALECTS: Final = tuple(_ADAPTERS)


class UnknownDialect(ValueError):
    """A protocol that no adapter speaks."""


def adapter_named(name: str) -> Adapter:
    """The adapter of that name; ``one-wallet`` and ``one_wallet`` are the same.

    Raises:
        UnknownDialect: there is none.
    """
    try:
        return _ADAPTERS[name.replace("-", "_")]()
    except KeyError:
        raise UnknownDialect(
            f"{name!r} is no protocol that we speak: write one of {', '.join(DIALECTS)}"
        ) from None
