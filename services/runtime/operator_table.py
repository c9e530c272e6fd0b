"""The operators of one moment, looked up by name, key and issuer; and how they are read from a file."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from services.runtime.operator_entries import (
    SECRET_LENGTH_MIN,
    IssuerEntry,
    KeyEntry,
    Operator,
    SecretPlace,
)
from services.runtime.signing import Key


class OperatorsError(ValueError):
    """An operators' file that cannot be taken. ``problems`` are pairs of key path and reason."""

    def __init__(self, file: str, problems: list[tuple[str, str]]) -> None:
        self.file, self.problems = file, problems
        listed = "; ".join(f"{path}: {reason}" for path, reason in problems)
        super().__init__(f"{file}: {listed}")


class UnknownOperator(LookupError):
    """There is no operator of that name in this deployment."""


@dataclass(frozen=True, slots=True)
class OperatorKey(Key):
    """A key of an operator, with its secret."""

    operator: Operator
    entry: KeyEntry


class Table:
    """The operators of one moment. Never changes."""

    def __init__(
        self, operators: Iterable[Operator], secrets: Mapping[str, bytes], *, development: bool
    ) -> None:
        """``secrets``: by the ids of keys."""
        self.development = development
        """Whether secrets may stand in the file: nothing for a service that others reach."""
        self.operators: Mapping[str, Operator] = {each.name: each for each in operators}
        self._keys = {
            entry.id: OperatorKey(entry.id, secrets[entry.id], operator, entry)
            for operator in self.operators.values()
            for entry in operator.keys
        }
        issuers: defaultdict[str, list[tuple[Operator, IssuerEntry]]] = defaultdict(list)
        for operator in self.operators.values():
            for issuer in operator.issuers:
                issuers[issuer.issuer].append((operator, issuer))
        self._issuers = {name: tuple(entries) for name, entries in issuers.items()}
        self._outgoing = {
            each.name: Key(each.seamless.key_id, secrets[each.seamless.key_id])
            for each in self.operators.values()
            if each.seamless is not None
        }

    def find(self, name: str) -> Operator | None:
        """The operator of that name."""
        return self.operators.get(name)

    def get(self, name: str) -> Operator:
        """The operator of that name.

        Raises:
            UnknownOperator: there is none.
        """
        operator = self.find(name)
        if operator is None:
            raise UnknownOperator(f"{name!r} is no operator of this deployment")
        return operator

    def key(self, key_id: str, moment: datetime) -> OperatorKey | None:
        """The key of that id, if it is in force."""
        key = self._keys.get(key_id)
        return key if key is not None and key.entry.in_force(moment) else None

    def issuers(self, url: str) -> tuple[tuple[Operator, IssuerEntry], ...]:
        """The entries of that issuer, with the operator of each."""
        return self._issuers.get(url, ())

    def outgoing(self, name: str) -> Key:
        """The key with which we sign our calls to that operator's wallet.

        Raises:
            UnknownOperator: there is no such operator, or his balances are here.
        """
        try:
            return self._outgoing[name]
        except KeyError:
            raise UnknownOperator(f"{name!r} is no operator with a wallet of his own") from None

    def of_shard(self, shard: str) -> tuple[Operator, ...]:
        """The operators whose accounts that wallet shard has, in the order of the file."""
        return tuple(each for each in self.operators.values() if each.shard == shard)


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    development: bool = False
    operator: tuple[Operator, ...]


def load_table(path: Path, environment: Mapping[str, str], read: Callable[[Path], str]) -> Table:
    """The operators that a file names, and the secrets that it refers to.

    ``read`` gives a file's text; whoever wants to know which files count passes his own.

    Raises:
        OperatorsError: with every mistake and where it stands.
    """
    try:
        raw = tomllib.loads(read(path))
    except OSError as error:
        raise OperatorsError(str(path), [("file", f"cannot be read: {error.strerror}")]) from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise OperatorsError(str(path), [("file", f"is not valid TOML: {error}")]) from None
    try:
        document = _Document.model_validate(raw, context={"folder": path.parent})
    except ValidationError as error:
        problems = [(_place(raw, each["loc"]), _reason(each["type"], each["msg"])) for each in error.errors()]
        raise OperatorsError(str(path), problems) from None
    secrets = _Secrets(environment, read, inline=document.development)
    problems = [] if document.operator else [("operator", "names none: begin one with [[operator]]")]
    problems += _twice("operator", "name", [each.name for each in document.operator])
    for operator in document.operator:
        where = f"operator[{operator.name}]"
        for key in operator.keys:
            secrets.add(f"{where}.keys[{key.id}]", key.id, key)
        if operator.seamless is not None:
            secrets.add(f"{where}.seamless", operator.seamless.key_id, operator.seamless)
        pairs = [f"{each.issuer} {each.audience}" for each in operator.issuers]
        problems += _twice(f"{where}.issuers", "issuer and audience", pairs)
    problems += secrets.problems
    if problems:
        raise OperatorsError(str(path), problems)
    return Table(document.operator, secrets.found, development=document.development)


class _Secrets:
    """Reads the secrets that entries refer to, and sees that each belongs to one key alone.

    Were the key of our calls also one of calls to us, whoever gets a call could send it back to us.
    """

    def __init__(self, environment: Mapping[str, str], read: Callable[[Path], str], *, inline: bool) -> None:
        self._environment, self._read, self._inline = environment, read, inline
        self.found: dict[str, bytes] = {}
        self.problems: list[tuple[str, str]] = []

    def add(self, where: str, key_id: str, entry: SecretPlace) -> None:
        name, secret = self._secret(entry)
        if isinstance(secret, _Missing):
            self.problems.append((f"{where}.{name}", secret.reason))
            return
        if key_id in self.found:
            self.problems.append((where, f"another key has the id {key_id!r}, too"))
        elif secret in self.found.values():
            self.problems.append((f"{where}.{name}", "is the secret of another key, too"))
        self.found[key_id] = secret

    def _secret(self, entry: SecretPlace) -> tuple[str, bytes | _Missing]:
        if entry.secret is not None:
            name, text = "secret", entry.secret.get_secret_value()
            if not self._inline:
                return name, _Missing(
                    "no secret stands in this file, unless development = true; name a file or a variable"
                )
        elif entry.secret_env is not None:
            name = "secret_env"
            if entry.secret_env not in self._environment:
                return name, _Missing(f"the environment has no {entry.secret_env}")
            text = self._environment[entry.secret_env]
        else:
            name = "secret_file"
            try:
                text = self._read(Path(str(entry.secret_file))).rstrip("\r\n")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is no text"
                return name, _Missing(f"{entry.secret_file} cannot be read: {reason}")
        if len(text) < SECRET_LENGTH_MIN:
            return name, _Missing(f"is shorter than {SECRET_LENGTH_MIN} characters")
        return name, text.encode()


@dataclass(frozen=True, slots=True)
class _Missing:
    reason: str


def _twice(where: str, what: str, names: list[str]) -> Iterable[tuple[str, str]]:
    return ((where, f"two have the same {what}, {a}") for a, b in pairwise(sorted(names)) if a == b)


def _place(raw: Any, loc: tuple[int | str, ...]) -> str:
    """A key path in which entries of a list are called by their names: ``operator[main].keys[k1].id``."""
    path = ""
    for key in loc:
        try:
            raw = raw[key]
        except (LookupError, TypeError):
            raw = None
        if isinstance(key, int):
            names = raw if isinstance(raw, dict) else {}
            name = names.get("name") or names.get("id") or names.get("issuer")
            path += f"[{name if isinstance(name, str) else f'number {key + 1}'}]"
        else:
            path += f".{key}" if path else key
    return path or "file"


def _reason(kind: str, words: str) -> str:
    if kind == "missing":
        return "is missing"
    if kind == "string_pattern_mismatch":
        return words.replace("String should match pattern", "has a form that cannot be taken, it must match")
    if kind in {"dict_type", "mapping_type", "model_type"}:
        return "must be a table"
    if kind == "extra_forbidden":
        return "is no key that we know"
    return words.removeprefix("Value error, ")
