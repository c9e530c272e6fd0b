"""Looking up many keys at once: the right rows, each once, and through an index however many there are."""

import pytest
import sqlalchemy as sa

from services.game import store as game_store
from services.runtime.database import migrate, open_sqlite
from services.runtime.lookup import Lookup
from services.wallet import store as wallet_store
from services.wallet.tables import TRANSACTION

PEOPLE = sa.Table(
    "people",
    sa.MetaData(),
    sa.Column("first", sa.String, primary_key=True),
    sa.Column("second", sa.Integer, primary_key=True),
    sa.Column("note", sa.String),
)


@pytest.fixture
def db():
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        PEOPLE.create(connection)
        rows = [{"first": f"p{number % 7}", "second": number, "note": str(number)} for number in range(1000)]
        connection.execute(sa.insert(PEOPLE), rows)
        yield connection
    engine.dispose()


@pytest.mark.parametrize("asked", [0, 1, 2, 3, 255, 256, 257, 1000])
def test_every_row_that_there_is_comes_once(db, asked):
    keys = [(f"p{number % 7}", number) for number in range(asked)] + [("nobody", 1), ("p1", 0)]
    found = sorted(row.note for row in Lookup(PEOPLE, "first", "second").find(db, keys + keys))
    assert found == sorted(str(number) for number in range(asked))


@pytest.mark.parametrize(
    ("service", "lookup"),
    [
        ("wallet", wallet_store._TRANSACTIONS),
        ("wallet", wallet_store._COUPS),
        ("wallet", wallet_store._REFERENCES),
        ("wallet", wallet_store._COUP_BETS),
        ("wallet", wallet_store._EVENTS),
        ("wallet", wallet_store._ITEMS),
        ("wallet", wallet_store._BETS),
        ("game", game_store._SHOE_LOOKUP),
        ("game", game_store._COUP_LOOKUP),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 128])
def test_no_lookup_of_ours_reads_a_whole_table(tmp_path, service, lookup, size):
    engine = open_sqlite(tmp_path / f"{service}.db", writer=True)
    migrate(engine, service)
    with engine.connect() as db:
        query = str(lookup._query(size))
        values = {f"k{row}_{place}": "1" for row in range(size) for place in range(4)}
        plan = [row[3] for row in db.exec_driver_sql("EXPLAIN QUERY PLAN " + query, values)]
    assert any(step.startswith("SEARCH found USING") for step in plan)
    assert not any(step.startswith("SCAN found") for step in plan)


@pytest.mark.parametrize("size", [1, 256])
def test_nor_does_one_on_postgresql_however_it_is_planned(databases, size):
    """A prepared statement is planned for any number of keys: that plan too must go by the index."""
    lookup = Lookup(TRANSACTION, "account", "tx")
    with databases.open_as_owner("wallet").connect() as db, db.begin():
        rows = "SELECT 'a' || n, 't' || n, n, 0 FROM generate_series(1, 20000) AS n"
        db.execute(sa.text(f"INSERT INTO wallet_transaction {rows}"))
        db.execute(sa.text("ANALYZE wallet_transaction"))
        db.execute(sa.text("SET LOCAL plan_cache_mode = force_generic_plan"))
        assert len(list(lookup.find(db, [(f"a{n}", f"t{n}") for n in range(1, size + 1)]))) == size
        sql = str(lookup._arrays).replace(":k0", "$1").replace(":k1", "$2")
        db.exec_driver_sql(f"PREPARE looked_up (text, text) AS {sql}")
        plan = "\n".join(db.exec_driver_sql("EXPLAIN EXECUTE looked_up ('{a1}', '{t1}')").scalars())
    assert "Index Scan using wallet_transaction_pkey" in plan
    assert "Seq Scan" not in plan
