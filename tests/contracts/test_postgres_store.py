"""The event store over PostgreSQL keeps the contract."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from deploy.postgres.server import Server
from services.runtime import postgres as postgres_module
from services.runtime.writer import WriterStopped
from tests.contracts.store import StoreContract, Unsteady
from tests.services.guests import GUEST, names_in, open_guests, work
from tests.support.postgres import Databases
from tests.support.proxy import Proxy


@pytest.fixture
def guests(databases: Databases) -> Databases:
    """A wallet's database, with the table of the small service that stands in for wallet here."""
    with databases.open_as_owner("wallet").begin() as db:
        GUEST.create(db)
        db.execute(sa.text("GRANT SELECT, INSERT ON guest TO sabot_wallet"))
    return databases


@pytest.fixture
def connect(guests: Databases) -> Callable[[], Engine]:
    return lambda: guests.open("wallet")


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
            def once(_: object) -> None:
                sa.event.remove(engine, "commit", once)
                do()

            return lambda: sa.event.listen(engine, "commit", once)

        def end_the_session() -> None:
            with psycopg.connect(guests.postgres.admin) as admin:
                ended = admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                    "WHERE application_name = 'test-wallet' AND datname = %s",
                    [guests.prefix + "wallet"],
                ).fetchall()
            assert ended == [(True,)]

        match request.param:
            case "the session is ended before the commit":
                return Unsteady(engine, at_the_commit(end_the_session), committed=False)
            case "the commit does not arrive":
                return Unsteady(engine, lambda: proxy.lose("commit"), committed=False)
            case "the answer is lost":
                return Unsteady(engine, lambda: proxy.lose("answer"), committed=True)
        server: Server = request.getfixturevalue("own_postgres")

        def crash() -> None:
            server.kill()
            server.start()

        if request.param == "the server is killed before the commit":
            return Unsteady(engine, at_the_commit(crash), committed=False)
        proxy.on_answer = crash
        return Unsteady(engine, lambda: proxy.lose("answer"), committed=True)


def test_a_server_that_hangs_stops_the_writer_and_what_it_does_later_is_not_done_twice(
    connect, own_postgres: Server, tmp_path, monkeypatch
):
    """The commit lies in the server's buffer when the client gives up; the server carries it out afterwards."""
    from contextlib import closing

    from tests.services.guests import open_bus

    with closing(open_bus(tmp_path)) as bus:
        engine = connect()
        writer = open_guests(engine, bus)
        monkeypatch.setattr(postgres_module, "ANSWER_SECONDS", 0.3)
        ann = writer.submit("Ann")
        sa.event.listen(engine, "commit", lambda _: own_postgres.pause())
        with pytest.raises(WriterStopped, match="no answer for"):
            writer.step()
        assert isinstance(ann.exception(0), Exception)
        own_postgres.resume()
        monkeypatch.undo()
        new = open_guests(connect(), bus)
        again = new.submit("Ann")
        work(new)
        new.close()
        writer.close()
        assert again.result(0) == []
        assert names_in(connect()) == {"Ann"}
        assert len(list(bus.read("wallet.events"))) == 1
