"""Game, wallet and audit as three processes, and somebody who plays by HTTP alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from schemas.envelope import Recorded
from schemas.events.wallet import CoupReturned, CoupSettled
from tests.end_to_end.support import Answer, Service, eventually

OPERATOR, SHARD = "main", "main"


class Room:
    """The three processes of an installation. A context manager; leaving ends whatever still runs."""

    def __init__(
        self,
        options: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        """``options`` name the installation. ``ports`` are those at which the services answer."""
        self._options, self._environment, self._ports = options, environment or {}, ports or {}
        self.started: list[Service] = []
        """Every process, also those that have ended."""
        # All at once, as somebody would who starts a machine.
        self.game, self.wallet, self.audit = (self.start(name) for name in ("game", "wallet", "audit"))

    def start(self, name: str) -> Service:
        service = Service(name, self._options, self._environment, port=self._ports.get(name, 0))
        self.started.append(service)
        return service

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for service in self.started:
                stack.callback(service.clear_away)

    @property
    def services(self) -> tuple[Service, Service, Service]:
        return self.game, self.wallet, self.audit

    def stop(self) -> None:
        """SIGTERM to each; every one ends well."""
        for service in self.services:
            assert service.end() == 0, service.said

    # Commands. Who is told "send the same again" does so.

    def post(self, service: Service, path: str, body: dict[str, Any]) -> Answer:
        def once() -> Answer | None:
            answer = service.ask("POST", path, {"operator": OPERATOR, **body})
            retryable = answer.status != 200 and answer.body["retryable"]
            return None if retryable else answer

        return eventually(once)

    def do(self, service: Service, path: str, **body: Any) -> Any:
        answer = self.post(service, path, body)
        assert answer.status == 200, answer
        return answer.body

    def open_table(self, table: str, players: int, house: str = "nl") -> None:
        self.do(self.game, "/v1/tables/open", table=table, house=house, shard=SHARD, source="virtual")
        for seat in range(1, players + 1):
            self.do(self.game, "/v1/seats/take", table=table, seat=seat)
            self.do(
                self.wallet,
                "/v1/deposits",
                account=player(table, seat),
                tx="buy-in",
                currency="EUR",
                amount="100.00",
            )
        self.do(self.game, "/v1/shoes/commit", table=table, shoe="S1")
        self.do(self.game, "/v1/shoes/load", table=table, shoe="S1", entropy=f"entropy-of-{table}")

    def open_coup(self, table: str, coup: int) -> None:
        self.do(self.game, "/v1/coups/open", table=table, shoe="S1", coup=coup)

    def bet(self, table: str, coup: int, seat: int, spot: str, *, tx: str = "") -> Answer:
        body = {"table": table, "shoe": "S1", "coup": coup, "account": player(table, seat), "seat": seat}
        body |= {"tx": tx or f"bet-{coup}", "spot": spot, "currency": "EUR", "stake": "10.00"}
        return self.post(self.wallet, "/v1/bets", body)

    def close(self, table: str, coup: int) -> None:
        self.do(self.game, "/v1/coups/close", table=table, shoe="S1", coup=coup)

    def play(self, table: str, coup: int, players: int) -> None:
        """A whole coup, up to the closing of its bets."""
        self.open_coup(table, coup)
        for seat in range(1, players + 1):
            assert self.bet(table, coup, seat, ("banker", "player", "tie")[seat % 3]).status == 200
        self.close(table, coup)

    # Questions.

    def result(self, table: str, coup: int) -> Any:
        """The coup, when it is over."""

        def asked() -> Any:
            answer = self.game.ask("GET", f"/v1/coups/{OPERATOR}/{table}/S1/{coup}")
            return answer.body if answer.status == 200 else None

        return eventually(asked)

    def bets(self, table: str, coup: int) -> Any:
        return self.wallet.get(f"/v1/coups/{OPERATOR}/{table}/S1/{coup}/bets")

    def paid(self, table: str, coup: int) -> Any:
        """The bets, when none is open any more."""

        def asked() -> Any:
            bets = self.bets(table, coup)
            return None if any(bet["status"] == "open" for bet in bets) else bets

        return eventually(asked)

    def phase(self, table: str) -> str:
        """How far the table's coup is."""
        phase: str = self.game.get(f"/v1/tables/{OPERATOR}/{table}")["coup"]["phase"]
        return phase

    def cash_in_play(self, table: str, seat: int) -> str:
        """The stakes of a player that are not decided yet."""
        [balance] = self.wallet.get(f"/v1/accounts/{OPERATOR}/{player(table, seat)}")["balances"]
        in_play: str = balance["in_play"]
        return in_play

    def cash(self, table: str, seat: int) -> Decimal:
        [balance] = self.wallet.get(f"/v1/accounts/{OPERATOR}/{player(table, seat)}")["balances"]
        assert balance["in_play"] == "0.00"
        return Decimal(balance["cash"])

    def all_verified(self, coups: int) -> None:
        """Audit has verified so many coups, and found nothing."""
        eventually(lambda: sum(self.audit.get("/v1/verdicts").values()) == coups)
        assert self.audit.get("/v1/verdicts") == {"verified": coups, "discrepancy": 0}
        assert self.audit.get(f"/v1/operators/{OPERATOR}/findings") == {"items": [], "next": None}


def player(table: str, seat: int) -> str:
    return f"{table}-seat-{seat}"


def assert_paid_once(events: Iterable[Recorded[Any]]) -> None:
    """No coup was settled or returned twice, and every bet ended once."""
    ends: Counter[str] = Counter()
    parts: Counter[tuple[str, str, int, int]] = Counter()
    for event in events:
        if isinstance(event.data, CoupSettled | CoupReturned):
            each = event.data
            parts[each.table, each.shoe, each.coup, each.part] += 1
            ends.update(bet.bet for bet in each.bets)
    assert set(ends.values()) == set(parts.values()) == {1}
