"""The event store over PostgreSQL keeps the contract."""

from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from deploy.postgres.server import Server
from schemas.refusal import Refusal
from services.runtime import postgres
from services.runtime.ports import DatabaseUnavailable
from services.runtime.writer import WriterStopped
from tests.contracts.store import StoreContract, Unsteady
from tests.services.guests import make_guests_table, names_in, open_guests, work
from tests.support.postgres import Databases
from tests.support.proxy import Proxy


@pytest.fixture
def guests(databases: Databases) -> Databases:
    """A wallet's database, with the table of the small service that stands in for wallet here."""
    make_guests_table(databases)
    return databases


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def connect(self, guests: Databases) -> Callable[[], Engine]:
        return lambda: guests.open("wallet")

    @pytest.fixture
    def program(self, guests: Databases) -> str:
        return (
            "from services.runtime.postgres import open_postgres\n"
            f"engine = open_postgres({guests.url_of('wallet')!r}, writer=True, name='a child')\n"
        )

    @pytest.fixture
    def proxy(self, guests: Databases) -> Iterator[Proxy]:
        url = sa.make_url(guests.postgres.admin)
        with Proxy(url.host or "", url.port or 5432) as proxy:
            yield proxy

    @pytest.fixture(
        params=[
            "the session is ended before the writes",
            "the session is ended before the commit",
            "the commit does not arrive",
            "the answer is lost",
            "the server is killed before the commit",
            "the server is killed after the commit",
        ]
    )
    def unsteady(self, request, guests: Databases, proxy: Proxy) -> Unsteady:
        engine = guests.open("wallet", port=proxy.port)

        def at_the_commit(do: Callable[[], object]) -> Callable[[], None]:
            return lambda: sa.event.listen(engine, "commit", lambda _: do())

        def after_the_first_statement(do: Callable[[], object]) -> Callable[[], None]:
            return lambda: sa.event.listen(engine, "after_cursor_execute", lambda *_: do(), once=True)

        def end_the_session() -> None:
            with psycopg.connect(guests.postgres.admin) as admin:
                ended = admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                    "WHERE application_name = 'test-wallet' AND datname = %s",
                    [guests.prefix + "wallet"],
                ).fetchall()
            assert ended == [(True,)]

        server: Server | None = None
        if "killed" in request.param:
            server = request.getfixturevalue("own_postgres")

        def crash() -> None:
            assert server is not None
            server.kill()
            server.start()

        match request.param:
            case "the session is ended before the writes":
                break_next, committed = after_the_first_statement(end_the_session), False
            case "the session is ended before the commit":
                break_next, committed = at_the_commit(end_the_session), False
            case "the commit does not arrive":
                break_next, committed = partial(proxy.lose, "commit"), False
            case "the answer is lost":
                break_next, committed = partial(proxy.lose, "answer"), True
            case "the server is killed before the commit":
                break_next, committed = at_the_commit(crash), False
            case "the server is killed after the commit":
                proxy.on_answer = crash
                break_next, committed = partial(proxy.lose, "answer"), True
            case _:
                raise AssertionError(request.param)
        return Unsteady(engine, break_next, committed, DatabaseUnavailable)

    def test_a_server_that_hangs_stops_the_writer_and_what_it_does_later_is_done_once(
        self, connect, bus, own_postgres: Server, monkeypatch
    ):
        """The commit lies in the server's buffer when the client gives up, and is carried out afterwards."""
        engine = connect()
        writer = open_guests(engine, bus)
        monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.3)
        ann = writer.submit("Ann")
        sa.event.listen(engine, "commit", lambda _: own_postgres.pause())
        with pytest.raises(WriterStopped, match=r"no answer for 0\.3 seconds"):
            writer.step()
        assert isinstance(ann.exception(0), Refusal)
        own_postgres.resume()
        monkeypatch.undo()
        new = open_guests(connect(), bus)  # waits for the server to be done with what came before
        again = new.submit("Ann")
        work(new)
        new.close()
        writer.close()
        assert again.result(0) == []
        assert names_in(connect()) == {"Ann"}
        assert len(list(bus.read("wallet.events"))) == 1
