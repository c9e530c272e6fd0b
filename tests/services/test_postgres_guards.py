"""What PostgreSQL itself does not let happen, whoever asks: each guard is broken and must say its name.

All of it is tried as the owner of the tables. The services' own roles may do less (``test_postgres_rights``).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import psycopg
import pytest
import sqlalchemy as sa

from services.runtime import bulk
from services.runtime.tables import StreamRow, table_of
from services.runtime.writer import WriterStopped
from tests.services.guests import make_guests_table, names_in, open_bus, open_guests
from tests.support.postgres import SERVICES, Databases

HASH = "repeat('a', 64)"
COUNT = "UPDATE outbox SET commits = commits + 1;"

EVENTS = """
    INSERT INTO stream (name, sequence, hash) VALUES ('wallet/main', 0, repeat('0', 64));
    INSERT INTO event VALUES (1, 1, 1, 'one'), (2, 1, 2, 'two');
    UPDATE stream SET sequence = 2, hash = encode(sha256('two'), 'hex');
    INSERT INTO inbox (stream, sequence, hash) VALUES ('game/main.T', 5, repeat('a', 64));
    INSERT INTO dead_letter (topic, partition, "offset", reason, body, received_at)
        VALUES ('game.events', 0, 3, 'a reason', 'x', 'noon');
"""
"""How every service's database looks before its guards are tried."""

APPEND_THREE = "INSERT INTO event VALUES (3, 1, 3, 'three');"
MOVE_TO_THREE = "UPDATE stream SET sequence = 3, hash = encode(sha256('three'), 'hex');"

RUNTIME = [
    ("event_append_only", "UPDATE event SET body = 'other' WHERE position = 1"),
    ("event_append_only", "UPDATE event SET body = body"),
    ("event_append_only", "DELETE FROM event"),
    ("event_append_only", "TRUNCATE event"),
    ("event_position_from_one", "INSERT INTO event VALUES (0, 1, 3, 'three')"),
    ("event_sequence_from_one", "INSERT INTO event VALUES (3, 1, 0, 'three')"),
    ("event_body_size", "INSERT INTO event VALUES (3, 1, 3, '')"),
    ("event_body_size", "INSERT INTO event VALUES (3, 1, 3, convert_to(repeat('x', 65536), 'UTF8'))"),
    ("event_pkey", "INSERT INTO event VALUES (2, 1, 3, 'three')"),
    ("event_stream_id_sequence_key", "INSERT INTO event VALUES (3, 1, 2, 'three')"),
    ("event_stream_id_fkey", "INSERT INTO event VALUES (3, 9, 3, 'three')"),
    ("event_positions_gapless", "INSERT INTO event VALUES (4, 1, 3, 'three')"),
    ("event_positions_gapless", "INSERT INTO event VALUES (3, 1, 3, 'three'), (5, 1, 4, 'four')"),
    ("event_sequences_gapless", "INSERT INTO event VALUES (3, 1, 4, 'four')"),
    ("event_sequences_gapless", "INSERT INTO event VALUES (3, 1, 3, 'three'), (4, 1, 5, 'five')"),
    ("stream_head_is_last_event", COUNT + APPEND_THREE),
    ("stream_head_is_last_event", COUNT + MOVE_TO_THREE),
    (
        "stream_head_is_last_event",
        COUNT + APPEND_THREE + MOVE_TO_THREE.replace("'three'", "'four'"),
    ),
    (
        "stream_head_is_last_event",
        COUNT + "INSERT INTO stream (name, sequence, hash) VALUES ('a', 0, repeat('b', 64))",
    ),
    ("stream_written_by_one", APPEND_THREE + MOVE_TO_THREE),
    ("stream_only_grows", "UPDATE stream SET sequence = 1"),
    ("stream_only_grows", "UPDATE stream SET hash = repeat('b', 64)"),
    ("stream_only_grows", "UPDATE stream SET name = 'wallet/other'"),
    ("stream_never_removed", "DELETE FROM stream"),
    ("stream_hash_form", "INSERT INTO stream (name, sequence, hash) VALUES ('a', 0, repeat('A', 64))"),
    (
        "stream_sequence_from_zero",
        f"INSERT INTO stream (name, sequence, hash) VALUES ('a', -1, {HASH})",
    ),
    ("outbox_one_row", "INSERT INTO outbox (published, commits) VALUES (0, 0)"),
    ("outbox_never_removed", "DELETE FROM outbox"),
    ("outbox_never_removed", "TRUNCATE outbox"),
    ("outbox_only_grows", "UPDATE outbox SET commits = commits + 2"),
    ("outbox_only_grows", "UPDATE outbox SET commits = commits - 1"),
    ("outbox_only_grows", "UPDATE outbox SET published = 2; UPDATE outbox SET published = 1"),
    ("outbox_published_exists", "UPDATE outbox SET published = 3"),
    ("inbox_only_grows", "UPDATE inbox SET sequence = 4"),
    ("inbox_only_grows", "UPDATE inbox SET hash = repeat('b', 64)"),
    ("inbox_only_grows", "UPDATE inbox SET stream = 'game/main.U'"),
    ("inbox_never_removed", "DELETE FROM inbox"),
    (
        "inbox_sequence_from_zero",
        f"INSERT INTO inbox (stream, sequence, hash) VALUES ('a', -1, {HASH})",
    ),
    ("inbox_hash_form", "INSERT INTO inbox (stream, sequence, hash) VALUES ('a', 1, repeat('a', 63))"),
    ("dead_letter_append_only", "UPDATE dead_letter SET reason = 'another'"),
    ("dead_letter_append_only", "DELETE FROM dead_letter"),
]

COUP = "'main', 'T', 'S'"
CONCLUDED = "'concluded', '', NULL, 1"


def said_anew(*outcomes: str | None, coup: int = 1, **other: str) -> str:
    """Game says these things of a coup, one after another, the last one in force."""
    number, last = len(outcomes), outcomes[-1]
    results = ", ".join(
        f"jsonb_build_object('hash', repeat('{'abcd'[place]}', 64), 'outcome', "
        f"{'NULL' if outcome is None else repr(outcome)}::text)"
        for place, outcome in enumerate(outcomes)
    )
    columns = {
        "status": "'voided'" if last is None else "'concluded'",
        "outcome": "NULL" if last is None else repr(last),
        "player_total": "NULL" if last is None else {"player": "9", "banker": "1", "tie": "5"}[last],
        "banker_total": "NULL" if last is None else "5",
        "version": str(number),
        "sequence": str(8 + number),
        "hash": f"repeat('{'abcd'[number - 1]}', 64)",
        "results": f"jsonb_build_array({results})::text",
    }
    changed = ", ".join(f"{name} = {value}" for name, value in {**columns, **other}.items())
    return f"UPDATE game_coup SET {changed} WHERE coup = {coup};"


GAME = [
    ("game_coup_is_over", "UPDATE game_coup SET cards = '9C' WHERE coup = 1"),
    ("game_coup_is_over", "UPDATE game_coup SET dealer_seat = 3 WHERE coup = 1"),
    ("game_coup_is_over", "UPDATE game_coup SET outcome = 'tie', banker_total = 8 WHERE coup = 1"),
    ("game_coup_is_over", said_anew("player", "tie", coup=2)),
    ("game_coup_is_over", said_anew("banker", "tie")),
    ("game_coup_is_over", said_anew("player", "tie", cards="'9C'")),
    ("game_coup_is_over", said_anew("player", "tie", sequence="9")),
    ("game_coup_is_over", said_anew("player", "tie") + said_anew("player", "banker", "tie")),
    ("game_coup_is_over", said_anew("player", None) + said_anew("player", None, "tie")),
    (
        "game_coup_sequence_from_one",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'voided', '', NULL, 1, NULL, NULL, NULL, 1, 0)",
    ),
    (
        "game_coup_hash_form",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'voided', '', NULL, 1, NULL, NULL, NULL, 1, 1, 'A')",
    ),
    (
        "game_coup_results_counted",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'voided', '', NULL, 1, NULL, NULL, NULL, 2, 1, {HASH})",
    ),
    ("game_coup_results_counted", said_anew("player", "tie", version="3")),
    ("game_coup_last_result_in_force", said_anew("player", "tie", hash="repeat('c', 64)")),
    ("game_coup_last_result_in_force", said_anew("player", "tie", outcome="'player'", player_total="6")),
    ("game_coup_status_known", f"INSERT INTO game_coup VALUES ({COUP}, 3, 'open', '', NULL, 1)"),
    (
        "game_coup_outcome_known",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'concluded', '', NULL, 1, 'nobody', 1, 1)",
    ),
    (
        "game_coup_concluded_says_outcome",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'concluded', '', NULL, 1)",
    ),
    (
        "game_coup_concluded_says_outcome",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'voided', '', NULL, 1, 'tie', 1, 1)",
    ),
    (
        "game_coup_totals",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, {CONCLUDED}, 'player', 10, 1)",
    ),
    (
        "game_coup_outcome_follows",
        f"INSERT INTO game_coup VALUES ({COUP}, 3, 'concluded', '', NULL, 1, 'player', 1, 2)",
    ),
    ("game_house_in_force", "UPDATE game_house SET house = '{}'"),
    ("game_house_number_from_one", "INSERT INTO game_house VALUES ('main', 'T', 0, '')"),
    ("game_undealt_seed_committed", "UPDATE game_undealt_seed SET seed = sha256('another')"),
    ("game_undealt_seed_size", "INSERT INTO game_undealt_seed VALUES ('main', 'T', 'S9', 'short')"),
    ("game_undealt_cards_committed", "UPDATE game_undealt_cards SET cards = '9C 9D'"),
]
GAME_BEFORE = f"""
    INSERT INTO game_coup VALUES ({COUP}, 1, 'concluded', '8C 8D', NULL, 1, 'player', 8, 0, 1, 9, {HASH});
    INSERT INTO game_coup VALUES ({COUP}, 2, 'voided', '', NULL, 1);
    INSERT INTO game_house VALUES ('main', 'T', 1, 'a house');
    INSERT INTO game_undealt_seed VALUES ({COUP}, sha256('seed'));
    INSERT INTO game_undealt_cards VALUES ({COUP}, 2, '8C 8D');
"""

AUDIT = [
    ("audit_stream_append_only", "UPDATE audit_stream SET name = 'another'"),
    ("audit_stream_append_only", "DELETE FROM audit_stream"),
    ("audit_evidence_append_only", "UPDATE audit_evidence SET hash = sha256('another')"),
    ("audit_evidence_append_only", "DELETE FROM audit_evidence"),
    ("audit_evidence_append_only", "TRUNCATE audit_evidence"),
    ("audit_evidence_hash_size", "INSERT INTO audit_evidence VALUES (1, 3, 'short')"),
    ("audit_evidence_sequence_from_one", "INSERT INTO audit_evidence VALUES (1, 0, sha256(''))"),
    ("audit_evidence_gapless", "INSERT INTO audit_evidence VALUES (1, 4, sha256(''))"),
    ("audit_evidence_gapless", "INSERT INTO audit_evidence VALUES (1, 3, sha256('')), (1, 5, sha256(''))"),
    ("audit_evidence_gapless", "INSERT INTO audit_evidence VALUES (2, 2, sha256(''))"),
    ("audit_verdict_known", f"INSERT INTO audit_verdict VALUES ({COUP}, 1, 'perhaps', 1)"),
]
AUDIT_BEFORE = """
    INSERT INTO audit_stream (name) VALUES ('game/main.T'), ('wallet/main');
    INSERT INTO audit_evidence VALUES (1, 1, sha256('1')), (1, 2, sha256('2'));
"""


def bet(  # noqa: PLR0917
    number: int,
    stake: int = 100,
    status: str = "open",
    returned: int = 0,
    commission: int = 0,
    left: int | None = None,
    funding: str = "cash",
    grant: str | None = None,
) -> str:
    """A bet of player ``a`` on the coup that stands open."""
    code = "NO_FUNDS" if status == "refused" else "OK"
    rest = (0 if status == "rolled_back" else stake) if left is None else left
    named = "NULL" if grant is None else f"'{grant}'"
    return (
        f"INSERT INTO wallet_bet VALUES ({number}, {COUP}, 1, 'a', 't{number}', NULL, 'player', 'EUR', 2,"
        f" {stake}, {rest}, '{funding}', {named}, '{code}', {number}, '{status}', '',"
        f" {returned}, {commission}, 0);"
    )


LOSE = (
    "UPDATE wallet_bet SET status = 'lost' WHERE number = 1;"
    "INSERT INTO wallet_balance VALUES ('main', '4010', '', 'EUR', -100);"
)
WALLET = [
    ("wallet_books_balance", "UPDATE wallet_balance SET amount = amount - 1 WHERE ledger = '2010'"),
    ("wallet_books_balance", "DELETE FROM wallet_balance WHERE ledger = '1030'"),
    ("wallet_books_balance", "INSERT INTO wallet_balance VALUES ('main', '4010', '', 'EUR', 5)"),
    ("wallet_books_balance", "INSERT INTO wallet_balance VALUES ('main', '4010', '', 'JPY', 5)"),
    ("wallet_books_balance", "UPDATE wallet_bet SET status = 'lost' WHERE number = 1"),
    ("wallet_books_balance", bet(3)),
    (
        "wallet_books_balance",
        """INSERT INTO wallet_balance VALUES ('main', '2010', 'a', 'EUR', -901)
           ON CONFLICT (operator, ledger, party, currency) DO UPDATE SET amount = excluded.amount""",
    ),
    ("wallet_books_never_removed", "DELETE FROM wallet_books"),
    ("wallet_balance_row_by_row", "TRUNCATE wallet_balance"),
    ("wallet_balance_cash_not_overdrawn", "UPDATE wallet_balance SET amount = 1 WHERE ledger = '2010'"),
    ("wallet_balance_not_zero", "UPDATE wallet_balance SET amount = 0"),
    ("wallet_balance_without_bets", "INSERT INTO wallet_balance VALUES ('main', '2030', '', 'EUR', -100)"),
    (
        "wallet_balance_cash_has_a_player",
        "INSERT INTO wallet_balance VALUES ('main', '2010', '', 'EUR', -100)",
    ),
    (
        "wallet_balance_cash_has_a_player",
        "INSERT INTO wallet_balance VALUES ('main', '4010', 'a', 'EUR', -100)",
    ),
    ("wallet_bet_never_removed", "DELETE FROM wallet_bet"),
    ("wallet_bet_never_removed", "TRUNCATE wallet_bet"),
    ("wallet_bet_number_from_one", bet(0)),
    ("wallet_bet_numbers_gapless", bet(4)),
    ("wallet_bet_stake_positive", bet(3, stake=0)),
    ("wallet_bet_status_known", bet(3, status="perhaps")),
    ("wallet_bet_refused_for_a_reason", bet(3).replace("'OK'", "'NO_FUNDS'")),
    ("wallet_bet_pays_by_status", bet(3, returned=1)),
    ("wallet_bet_pays_by_status", bet(3, status="won", returned=99)),
    ("wallet_bet_pays_by_status", bet(3, status="won", returned=200, commission=-1)),
    ("wallet_bet_pays_by_status", bet(3, status="lost", returned=1)),
    ("wallet_bet_pays_by_status", bet(3, status="push", returned=99)),
    ("wallet_bet_pays_by_status", bet(3, status="void", returned=100, commission=1)),
    ("wallet_bet_stake_positive", bet(3, left=101)),
    ("wallet_bet_stake_positive", bet(3, left=-1)),
    ("wallet_bet_funding_known", bet(3, funding="gold")),
    ("wallet_bet_funding_known", bet(3, funding="free")),
    ("wallet_bet_funding_known", bet(3, grant="main.g1")),
    ("wallet_bet_rolled_back_whole", bet(3, status="rolled_back", left=1)),
    ("wallet_bet_pays_by_status", bet(3, status="won", returned=-1, funding="free", grant="main.g1")),
    ("wallet_bet_pays_by_status", bet(3, status="push", returned=100, funding="free", grant="main.g1")),
    (
        "wallet_bet_ends_once",
        (
            'UPDATE wallet_bet SET "left" = 50 WHERE number = 1; '
            'UPDATE wallet_bet SET "left" = 60 WHERE number = 1'
        ),
    ),
    ("wallet_bet_ends_once", "UPDATE wallet_bet SET status = 'pending' WHERE number = 1"),
    (
        "wallet_bet_ends_once",
        bet(3, status="pending") + "UPDATE wallet_bet SET status = 'won', returned = 100 WHERE number = 3",
    ),
    (
        "wallet_bet_ends_once",
        LOSE + "UPDATE wallet_bet SET status = 'rolled_back', \"left\" = 0 WHERE number = 1",
    ),
    ("wallet_bet_ends_once", LOSE + "UPDATE wallet_bet SET status = 'open' WHERE number = 1"),
    ("wallet_bet_ends_once", "UPDATE wallet_bet SET number = 3 WHERE number = 1"),
    *(
        ("wallet_bet_ends_once", f"UPDATE wallet_bet SET {change} WHERE number = 1")
        for change in (
            "account = 'b'",
            "stake = 200",
            "currency = 'JPY'",
            "exponent = 0",
            "spot = 'tie'",
            "seat = 4",
            "tx = 'other'",
            "coup = 2",
            "shoe = 'S2'",
            "table_name = 'U'",
            "operator = 'other'",
            "funding = 'operator'",
        )
    ),
    (
        "wallet_coup_phase_known",
        f"INSERT INTO wallet_coup VALUES ({COUP}, 3, 1, 'tie', 'perhaps', 0, NULL, NULL)",
    ),
    *(
        (
            "wallet_coup_settled_by_a_version",
            f"INSERT INTO wallet_coup VALUES ({COUP}, 3, 1, 'tie', {said}, NULL, NULL)",
        )
        for said in ("'settled', 0", "'settled', -1", "'open', 1", "'open', -1", "'returned', -1")
    ),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET phase = 'open' WHERE coup = 1"),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET phase = 'sealed' WHERE coup = 2"),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET phase = 'returned', version = 0 WHERE coup = 2"),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET phase = 'returned' WHERE coup = 2"),
    (
        "wallet_coup_goes_forward",
        (
            "UPDATE wallet_coup SET version = 3 WHERE coup = 2; "
            "UPDATE wallet_coup SET version = 2 WHERE coup = 2"
        ),
    ),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET spots = 'tie' WHERE coup = 1"),
    ("wallet_coup_goes_forward", "UPDATE wallet_coup SET house_number = 2 WHERE coup = 1"),
    (
        "wallet_coup_over_without_open_bets",
        "UPDATE wallet_coup SET phase = 'settled', version = 1 WHERE coup = 1",
    ),
    ("wallet_coup_over_without_open_bets", "UPDATE wallet_coup SET phase = 'returned' WHERE coup = 1"),
    ("wallet_transaction_balance", "INSERT INTO wallet_transaction VALUES ('a', 't', 1, -1)"),
    ("wallet_transaction_has_an_event", "INSERT INTO wallet_transaction VALUES ('a', 't', 0, 1)"),
    ("wallet_transaction_never_removed", "DELETE FROM wallet_transaction"),
    ("wallet_transaction_never_removed", "TRUNCATE wallet_transaction"),
    ("wallet_balance_owed_by_players", "INSERT INTO wallet_balance VALUES ('main', '1060', 'a', 'EUR', -1)"),
    ("wallet_balance_owed_by_players", "INSERT INTO wallet_balance VALUES ('main', '1065', 'a', 'EUR', -1)"),
    ("wallet_balance_put_aside", "INSERT INTO wallet_balance VALUES ('main', '2040', 'w', 'EUR', 1)"),
    ("wallet_balance_put_aside", "INSERT INTO wallet_balance VALUES ('main', '2090', 'h', 'EUR', 1)"),
    (
        "wallet_balance_cash_not_overdrawn",
        "INSERT INTO wallet_balance VALUES ('main', '2020', 'a', 'EUR', 1)",
    ),
]
WALLET_BEFORE = f"""
    INSERT INTO wallet_balance VALUES ('main', '1030', '', 'EUR', 1000), ('main', '2010', 'a', 'EUR', -900);
    INSERT INTO wallet_coup VALUES ({COUP}, 1, 1, 'player,tie', 'sealed', 0, NULL, NULL);
    INSERT INTO wallet_coup VALUES ({COUP}, 2, 1, 'player,tie', 'settled', 1, 9, repeat('e', 64));
    {bet(1)}
    {bet(2, status="refused")}
"""

BEFORE = {"game": GAME_BEFORE, "wallet": WALLET_BEFORE, "audit": AUDIT_BEFORE}
BREACHES = [
    *(("audit", name, sql) for name, sql in (*RUNTIME, *AUDIT)),
    *(("game", name, sql) for name, sql in GAME),
    *(("wallet", name, sql) for name, sql in WALLET),
]

Connect = Callable[..., AbstractContextManager[psycopg.Connection]]


@pytest.fixture(scope="module")
def connect(postgres) -> Iterator[Connect]:
    """Connects to databases of this module as their owners. Whatever is tried there is undone."""
    databases = Databases(postgres)

    @contextmanager
    def connect(service: str, role: str = "_owner") -> Iterator[psycopg.Connection]:
        databases.url_of(service)
        url = sa.make_url(postgres.admin).set(database=databases.prefix + service)
        role = f"-c role=sabot_{service}{role}"
        with closing(psycopg.connect(url.render_as_string(hide_password=False), options=role)) as connection:
            yield connection
            connection.commit()

    for service, before in BEFORE.items():
        with connect(service) as connection:
            connection.execute(COUNT + EVENTS + before)
    yield connect
    databases.close()


@pytest.mark.parametrize(("service", "name", "sql"), BREACHES)
def test_a_guard_says_what_was_violated(connect, service, name, sql):
    with pytest.raises(psycopg.errors.IntegrityError) as violation, connect(service) as connection:
        connection.execute(sql)
    assert violation.value.diag.constraint_name == name
    assert name in str(violation.value)


@pytest.mark.parametrize(("service", "name", "sql"), BREACHES)
def test_to_the_service_itself_it_says_the_same_where_that_may_try_at_all(connect, service, name, sql):
    refused = (psycopg.errors.IntegrityError, psycopg.errors.InsufficientPrivilege)
    with pytest.raises(refused) as violation, connect(service, role="") as connection:
        connection.execute(sql)
    if isinstance(violation.value, psycopg.errors.InsufficientPrivilege):
        assert "permission denied for table" in str(violation.value)
    else:
        assert violation.value.diag.constraint_name == name


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "sql",
    [
        COUNT + APPEND_THREE + MOVE_TO_THREE,
        "UPDATE stream SET sequence = sequence; UPDATE outbox SET published = 2, commits = commits + 1",
        "UPDATE inbox SET sequence = 6, hash = repeat('b', 64)",
        "UPDATE inbox SET held_reason = 'event 6 is missing'",
    ],
)
def test_the_runtime_may_do_what_it_does(connect, service, sql):
    with connect(service) as connection, connection.transaction(force_rollback=True):
        connection.execute(sql)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize(
    ("service", "sql"),
    [
        ("game", "UPDATE game_coup SET cards = cards, status = status"),
        ("game", "DELETE FROM game_undealt_seed"),
        ("game", said_anew("player", "tie") + said_anew("player", "tie", "player")),
        ("game", said_anew("player", "tie", "player")),
        ("game", said_anew("player", None)),
        ("wallet", "UPDATE wallet_bet SET status = status, returned = returned"),
        ("wallet", "UPDATE wallet_coup SET phase = phase"),
        ("wallet", LOSE + "UPDATE wallet_coup SET phase = 'settled', version = 1 WHERE coup = 1"),
        (
            "wallet",
            """UPDATE wallet_bet SET status = 'void', returned = 100 WHERE number = 1;
               UPDATE wallet_coup SET phase = 'returned' WHERE coup = 1;
               UPDATE wallet_balance SET amount = -1000 WHERE ledger = '2010'""",
        ),
        ("wallet", bet(3) + "UPDATE wallet_balance SET amount = -800 WHERE ledger = '2010'"),
        ("wallet", bet(3, status="refused")),
        (
            "wallet",
            """UPDATE wallet_bet SET status = 'rolled_back', "left" = 0 WHERE number = 1;
               UPDATE wallet_balance SET amount = -1000 WHERE ledger = '2010'""",
        ),
        (
            "wallet",
            """UPDATE wallet_bet SET "left" = 40 WHERE number = 1;
               UPDATE wallet_balance SET amount = -960 WHERE ledger = '2010'""",
        ),
        (
            "wallet",
            bet(3, status="pending", funding="operator")
            + """UPDATE wallet_bet SET status = 'open', sequence = 9 WHERE number = 3;
               INSERT INTO wallet_balance VALUES ('main', '1050', '', 'EUR', 100)""",
        ),
        (
            "wallet",
            bet(3, status="pending", funding="operator")
            + "UPDATE wallet_bet SET status = 'refused', code = 'DEBIT_UNKNOWN' WHERE number = 3",
        ),
        (
            "wallet",
            LOSE
            + """UPDATE wallet_bet SET status = 'won', returned = 200 WHERE number = 1;
               UPDATE wallet_balance SET amount = -1100 WHERE ledger = '2010';
               UPDATE wallet_balance SET amount = 100 WHERE ledger = '4010'""",
        ),
        ("wallet", "UPDATE wallet_coup SET phase = 'returned', version = 2 WHERE coup = 2"),
        ("wallet", "UPDATE wallet_coup SET version = 2 WHERE coup = 2"),
    ],
)
def test_a_service_may_do_what_it_does(connect, service, sql):
    with connect(service) as connection, connection.transaction(force_rollback=True):
        connection.execute(sql)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("service", SERVICES)
def test_every_guard_of_a_database_is_tried(connect, service):
    """A constraint or trigger that no test breaks might as well not be there."""
    tried = {name for breached, name, _ in BREACHES if breached in (service, "audit")}
    # Their functions say another name, of what was violated.
    tried |= {"event_follows", "stream_ends", "audit_evidence_follows"}
    tried |= {"wallet_bet_new", "wallet_bet_ended"}
    tried |= {"wallet_balance_new", "wallet_balance_gone", "wallet_balance_changed"}
    with connect(service) as connection:
        found = connection.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace "
            "UNION SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
        ).fetchall()
    assert len(found) > 20
    assert {name for (name,) in found} <= tried


def test_a_writer_that_is_stopped_by_a_guard_says_which(databases, tmp_path, monkeypatch):
    make_guests_table(databases)
    forgetful = {table_of(StreamRow): lambda *_: None}
    update = bulk.update
    monkeypatch.setattr(bulk, "update", lambda db, table, rows: forgetful.get(table, update)(db, table, rows))
    with closing(open_bus(tmp_path)) as bus:
        writer = open_guests(databases.open("wallet"), bus)
        writer.submit("Ann")
        with pytest.raises(WriterStopped, match="stream_head_is_last_event: wallet/guests is said to"):
            writer.step()
        writer.close()
    assert names_in(databases.open("wallet")) == set()
