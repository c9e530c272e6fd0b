"""What cannot be done with servers is said in one line, with a status that tells whose fault it is."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from deploy.kafka.ports import HeldPort
from services.room import remote
from services.runtime.installation import writer_name
from services.runtime.store import EventStore
from tests.end_to_end.servers import Servers, Topics
from tests.end_to_end.support import run_command
from tests.support.postgres import Postgres

EXAMPLE = Path(__file__).parents[2] / "examples" / "nl.jsonl"
SECRET = "the-password"
AN_URL = f"postgresql://sabot_{{service}}:{SECRET}@127.0.0.1:5432/sabot_{{service}}"

REFUSED = 2
"""The command line is wrong. Of verify: nothing could be looked at, for 1 says that something was found."""
FAILED = 1
"""The world is not as it should be: the same command may succeed later."""


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens, however long the test takes."""
    with closing(HeldPort()) as port:
        yield port.address


def refused(*arguments: str | Path, status: int) -> str:
    """What the command says on standard error: one line, and no password."""
    ended = run_command(*arguments)
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith("sabot: "), ended.err
    assert ended.err.count("\n") == 1, ended.err
    assert SECRET not in ended.err
    return ended.err.removeprefix("sabot: ").rstrip("\n")


def ingest_of(folder: Path) -> Sequence[str | Path]:
    """The beginning of an ingest that leaves nothing outside of the folder."""
    (folder / "coups.jsonl").write_bytes(EXAMPLE.read_bytes())
    return ["ingest", folder / "coups.jsonl", "--data", folder / "data"]


# ------------------------------------------------------------------------------------------ no server needed


@pytest.mark.parametrize(
    "command",
    [["verify"], ["ingest", EXAMPLE], ["prepare"], ["game", "serve"], ["game", "republish", "x", "1"]],
)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kafka", "localhost"], "kafka: 'localhost' is no broker; write host:port"),
        (["--kafka", "127.0.0.1:99999"], "kafka: '127.0.0.1:99999' is no broker; write host:port"),
        (["--kafka", "127.0.0.1:9092/a/b"], "kafka: 'a/b' cannot be the name of an installation"),
        (["--database", f"mysql://u:{SECRET}@host/x_{{service}}"], "database: 'mysql' is not PostgreSQL"),
        (["--database", "sabot.db"], "database: 'sabot.db' is not PostgreSQL"),
        (["--database", f"postgresql://sabot:{SECRET}@host/sabot"], "database: write {service} where"),
    ],
)
def test_an_address_that_is_none_is_named_by_every_command(command, options, words):
    assert words in refused(*command, *options, status=REFUSED)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["verify", "--database", AN_URL],
            "the databases are in PostgreSQL; say with --kafka where the bus is",
        ),
        (["prepare"], "name what to make ready: --kafka, or --database with --admin"),
        (["prepare", "--database", AN_URL], "--database needs --admin"),
        (["prepare", "--database", AN_URL, "--admin", SECRET], "--admin: not a URL; write postgresql://"),
        (
            ["prepare", "--database", AN_URL, "--admin", f"mysql://u:{SECRET}@h/d"],
            "--admin: 'mysql' is not Postgre",
        ),
        (
            ["ingest", EXAMPLE, "--game", "http://127.0.0.1:8101"],
            "--game and --wallet are for services at work",
        ),
    ],
)
def test_an_option_that_lacks_another_or_is_nonsense_is_named(arguments, words):
    assert words in refused(*arguments, status=REFUSED)


@pytest.mark.parametrize("command", [["wallet", "serve"], ["ingest", EXAMPLE]])
def test_a_store_that_another_writer_has_written_to_while_it_was_opened_is_left_to_him(
    tmp_path, monkeypatch, command
):
    opened = EventStore.__init__

    def opened_and_overtaken(store: EventStore, engine: Engine) -> None:
        opened(store, engine)
        with engine.connect() as other, other.begin():
            other.exec_driver_sql("UPDATE outbox SET commits = commits + 1")

    monkeypatch.setattr(EventStore, "__init__", opened_and_overtaken)
    words = refused(*command, "--data", tmp_path, status=FAILED)
    assert words == "another writer has written to this store"


def test_verifying_where_no_broker_listens_is_said_at_once(nobody):
    assert refused("verify", "--kafka", nobody, status=REFUSED) == f"no Kafka broker answers at {nobody}"


def test_preparing_where_no_broker_listens_is_said_at_once(nobody):
    assert refused("prepare", "--kafka", nobody, status=FAILED) == f"no Kafka broker answers at {nobody}"


def test_ingesting_where_no_broker_listens_writes_nothing(nobody, tmp_path):
    words = refused(*ingest_of(tmp_path), "--kafka", nobody, status=FAILED)
    assert words == f"no Kafka broker answers at {nobody}"
    assert not (tmp_path / "data").exists()


# ----------------------------------------------------------------------------------- no database, or not ours


def test_a_database_where_nobody_listens_is_named_without_its_password(nobody, tmp_path):
    database = f"postgresql://sabot_{{service}}:{SECRET}@{nobody}/sabot_{{service}}"
    for arguments, service, status in (
        (["verify", "--kafka", nobody], "audit", REFUSED),
        (ingest_of(tmp_path), "game", FAILED),
        (["wallet", "serve"], "wallet", FAILED),
        (["audit", "republish", "audit/main", "1"], "audit", FAILED),
    ):
        # Who verifies looks at the bus first.
        words = refused(*arguments, "--database", database, status=status)
        if arguments[0] != "verify":
            place = f"PostgreSQL at {nobody}, database sabot_{service}, user sabot_{service}"
            assert words == f"{place}: Connection refused"
    assert not (tmp_path / "data").exists()


class TestAServerThatIsThere:
    """Each of its databases wants to be prepared, and is told from others."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres, kafka_cluster, tmp_path) -> None:
        self.postgres, self.kafka, self.folder = postgres, kafka_cluster.bootstrap, tmp_path
        url = sa.make_url(postgres.admin)
        self.host = f"{url.host}:{url.port or 5432}"

    def everybody_says(self, database: str, reason: str) -> None:
        """Whoever needs the databases says why he cannot have one, and of which service."""
        for arguments, status in (
            (["verify", "--kafka", self.kafka], REFUSED),
            (ingest_of(self.folder), FAILED),
            (["wallet", "serve", "--port", "0"], FAILED),
        ):
            words = refused(*arguments, "--database", database, status=status)
            assert words.startswith(f"PostgreSQL at {self.host}, database ")
            assert reason in words

    def test_databases_that_are_not_there(self):
        database = f"postgresql://sabot_{{service}}:{SECRET}@{self.host}/never_made_{{service}}"
        self.everybody_says(database, "does not exist; run `sabot prepare`")

    def test_databases_without_tables(self):
        url = sa.make_url(self.postgres.admin).render_as_string(hide_password=False)
        self.everybody_says(
            f"{url}?options=-csearch_path%3D{{service}}", "it has no tables yet; run `sabot prepare`"
        )

    def test_a_role_that_is_not_there(self):
        database = f"postgresql://nobody_{{service}}:{SECRET}@{self.host}/postgres"
        self.everybody_says(database, 'role "nobody_')

    def test_a_role_that_may_not(self, databases):
        database = databases.url.replace("{service}", "game", 1)  # game's, at wallet's and audit's databases
        words = refused("verify", "--kafka", self.kafka, "--database", database, status=REFUSED)
        assert "user sabot_game: " in words
        assert "permission denied for database" in words

    def test_publishing_again_where_no_broker_listens(self, databases, nobody):
        place = ["--kafka", nobody, "--database", databases.url]
        words = refused("game", "republish", "game/main.T1", "1", *place, status=FAILED)
        assert words == f"no Kafka broker answers at {nobody}; publish them again when it is there"

    def test_an_administrator_who_may_not(self, databases):
        admin = databases.url_of("game")
        database = f"postgresql://other_{{service}}@{self.host}/other_{{service}}"
        ended = run_command("prepare", "--database", database, "--admin", admin)
        assert (ended.status, ended.err.count("\n")) == (FAILED, 1)
        assert "user sabot_game: permission denied" in ended.err


def test_a_wrong_password_is_said_and_not_shown(own_postgres, postgres, kafka_cluster):
    rules = own_postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(postgres.admin, autocommit=True) as admin:
        admin.execute("CREATE ROLE asked_for_one LOGIN PASSWORD 'another'")
        try:
            rules.write_text("host all asked_for_one 127.0.0.1/32 scram-sha-256\n" + before)
            admin.execute("SELECT pg_reload_conf()")
            database = f"postgresql://asked_for_one:{SECRET}@127.0.0.1:{own_postgres.port}/{{service}}"
            words = refused(
                "verify", "--kafka", kafka_cluster.bootstrap, "--database", database, status=REFUSED
            )
        finally:
            rules.write_text(before)
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("DROP ROLE asked_for_one")
    assert "database audit, user asked_for_one: " in words
    assert "password authentication failed" in words


# ------------------------------------------------------------------------------------------ services at work


@pytest.fixture
def served(kafka_cluster, databases) -> Iterator[Servers]:
    """An installation whose game seems to be at work: somebody calls himself so."""
    servers = Servers(Topics(kafka_cluster.bootstrap), databases)
    with psycopg.connect(databases.url_of("game"), application_name=writer_name("game")):
        yield servers


@pytest.mark.parametrize(
    "url",
    ["nonsense", "https://127.0.0.1:8101", "http://127.0.0.1:99999", "http://[::1", "http://h/game"],
)
def test_an_url_that_is_none_is_said_before_anything_is_asked(served, tmp_path, url):
    words = refused(*ingest_of(tmp_path), *served.options, "--wallet", url, status=REFUSED)
    assert words == f"{url!r} is not where wallet answers; write http://127.0.0.1:8101"


@pytest.mark.parametrize("named_by", ["an option", "the environment"])
def test_services_at_work_that_do_not_answer_are_named(served, nobody, tmp_path, monkeypatch, named_by):
    monkeypatch.setattr(remote, "_FIND_SECONDS", 0.2)
    url = f"http://{nobody}"
    option = ["--game", url] if named_by == "an option" else []
    monkeypatch.setenv("SABOT_GAME", "http://127.0.0.1:1" if option else url)
    words = refused(*ingest_of(tmp_path), *served.options, *option, status=FAILED)
    assert f"game does not answer at {url}: " in words


def test_ingest_beside_an_audit_that_is_at_work_alone_would_run_a_second_one(
    kafka_cluster, databases, tmp_path
):
    servers = Servers(Topics(kafka_cluster.bootstrap), databases)
    with psycopg.connect(databases.url_of("audit"), application_name=writer_name("audit")):
        words = refused(*ingest_of(tmp_path), *servers.options, status=REFUSED)
    assert words == "audit is at work, game and wallet are not: start them or stop it"
