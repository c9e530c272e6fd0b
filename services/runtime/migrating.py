"""What the ``env.py`` of every service's migrations does, and the tables that all of them have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op


def run() -> None:
    """Run the migrations over the connection that ``services.runtime.database.migrate`` hands in."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()


def count_commits() -> None:
    """The runtime's tables, second version: the outbox counts the writers' commits. Frozen, too."""
    op.add_column("outbox", sa.Column("commits", sa.BigInteger, nullable=False, server_default="0"))
    op.execute("INSERT INTO outbox (published, commits) SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM outbox)")


def create_runtime_tables() -> None:
    """The runtime's tables, first version. Frozen: a change is a new function and a new migration."""
    op.create_table(
        "stream",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("stream_id", sa.Integer, sa.ForeignKey("stream.id"), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=True),
        sa.UniqueConstraint("stream_id", "sequence"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("published", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "inbox",
        sa.Column("stream", sa.String, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("held_topic", sa.String, nullable=True),
        sa.Column("held_partition", sa.Integer, nullable=True),
        sa.Column("held_offset", sa.BigInteger, nullable=True),
        sa.Column("held_reason", sa.String, nullable=True),
    )
    op.create_table(
        "consumer_offset",
        sa.Column("topic", sa.String, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("next", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "dead_letter",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("topic", sa.String, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("received_at", sa.String, nullable=False),
        sa.UniqueConstraint("topic", "partition", "offset"),
    )


def on_postgres() -> bool:
    """Whether the migration runs on PostgreSQL, where constraints are made that SQLite cannot have."""
    return op.get_bind().dialect.name == "postgresql"


def guard_runtime_tables() -> None:
    """What PostgreSQL holds the runtime's tables to, even against a defect of ours. First version; frozen."""
    for statement in _RUNTIME_GUARDS:
        op.execute(statement)


_RUNTIME_GUARDS = (
    # ----------------------------------------------------------------------------------------- for all guards
    """
    CREATE FUNCTION sabot_violated(guard text, words text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION USING
            ERRCODE = 'check_violation', CONSTRAINT = guard, MESSAGE = guard || ': ' || words;
    END $$
    """,
    # As a trigger of what nobody may do, not even the tables' owner.
    """
    CREATE FUNCTION sabot_never() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM public.sabot_violated(TG_NAME, TG_ARGV[0]);
        RETURN NULL;
    END $$
    """,
    # As a trigger of rows that stay as they are; writing the same again is no change.
    """
    CREATE FUNCTION sabot_same() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW IS DISTINCT FROM OLD THEN
            PERFORM public.sabot_violated(TG_NAME, TG_ARGV[0]);
        END IF;
        RETURN NEW;
    END $$
    """,
    # ------------------------------------------------------------------------------------------ event
    """
    ALTER TABLE event
        ADD CONSTRAINT event_position_from_one CHECK (position >= 1),
        ADD CONSTRAINT event_sequence_from_one CHECK (sequence >= 1),
        ADD CONSTRAINT event_body_size CHECK (octet_length(body) BETWEEN 1 AND 65535)
    """,
    """
    CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON event
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('an event is never changed or removed')
    """,
    # Positions count all events, sequences those of a stream: from 1, without gaps, in the order of commits.
    """
    CREATE FUNCTION sabot_event_follows() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        wrong text;
    BEGIN
        SELECT 'events ' || first || ' to ' || last || ' do not follow event ' || before INTO wrong
        FROM (
            SELECT batch.*, coalesce(
                (SELECT max(position) FROM public.event WHERE position < batch.first), 0) AS before
            FROM (SELECT min(position) AS first, max(position) AS last, count(*) AS many FROM added) AS batch
        ) AS placed
        WHERE many > 0 AND (first <> before + 1 OR last - first + 1 <> many);
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('event_positions_gapless', wrong);
        END IF;
        SELECT name || ' ends with ' || sequence || ' and gets ' || first || ' to ' || last INTO wrong
        FROM public.stream JOIN (
            SELECT stream_id, min(added.sequence) AS first, max(added.sequence) AS last, count(*) AS many
            FROM added GROUP BY stream_id
        ) AS batch ON stream.id = batch.stream_id
        WHERE first <> sequence + 1 OR last - first + 1 <> many
        LIMIT 1;
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('event_sequences_gapless', wrong);
        END IF;
        -- Changes nothing, but has these streams looked at when the transaction ends: one check a stream
        -- instead of one an event.
        UPDATE public.stream SET sequence = sequence WHERE id IN (SELECT stream_id FROM added);
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER event_follows AFTER INSERT ON event REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_event_follows()
    """,
    # ------------------------------------------------------------------------------------------ stream
    """
    ALTER TABLE stream
        ADD CONSTRAINT stream_sequence_from_zero CHECK (sequence >= 0),
        ADD CONSTRAINT stream_hash_form CHECK (hash ~ '^[0-9a-f]{64}$')
    """,
    """
    CREATE TRIGGER stream_never_removed BEFORE DELETE OR TRUNCATE ON stream
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('a stream is never removed')
    """,
    """
    CREATE FUNCTION sabot_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (NEW.id, NEW.name) <> (OLD.id, OLD.name) OR NEW.sequence < OLD.sequence
            OR (NEW.sequence = OLD.sequence AND NEW.hash <> OLD.hash)
        THEN
            PERFORM public.sabot_violated(TG_NAME, OLD.name || ' would go back to ' || NEW.sequence);
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER stream_only_grows BEFORE UPDATE ON stream
        FOR EACH ROW EXECUTE FUNCTION sabot_stream_only_grows()
    """,
    # The head of a stream is its last event; and who wrote that has counted himself, so that he was alone.
    """
    CREATE FUNCTION sabot_stream_ends() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        head public.stream;
        last public.event;
    BEGIN
        SELECT * INTO head FROM public.stream WHERE id = NEW.id;
        IF head IS DISTINCT FROM NEW THEN
            RETURN NULL;  -- changed again since, and looked at on that account
        END IF;
        SELECT * INTO last FROM public.event WHERE stream_id = NEW.id ORDER BY sequence DESC LIMIT 1;
        IF head.sequence <> coalesce(last.sequence, 0)
            OR head.hash <> coalesce(encode(sha256(last.body), 'hex'), repeat('0', 64))
        THEN
            PERFORM public.sabot_violated('stream_head_is_last_event',
                head.name || ' is said to end with ' || head.sequence || ', its last event is '
                || coalesce(last.sequence, 0) || ', or has another hash');
        END IF;
        IF NOT EXISTS (SELECT 1 FROM public.outbox WHERE xmin = pg_current_xact_id()::xid) THEN
            PERFORM public.sabot_violated('stream_written_by_one',
                head.name || ' was written beside the one writer: its transaction did not count itself');
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER stream_ends AFTER INSERT OR UPDATE ON stream DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION sabot_stream_ends()
    """,
    # ------------------------------------------------------------------------------------------ outbox, inbox
    "CREATE UNIQUE INDEX outbox_one_row ON outbox ((true))",
    """
    CREATE TRIGGER outbox_never_removed BEFORE DELETE OR TRUNCATE ON outbox
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('the outbox has one row, always')
    """,
    """
    CREATE FUNCTION sabot_outbox_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.published < OLD.published OR NEW.commits < OLD.commits OR NEW.commits > OLD.commits + 1 THEN
            PERFORM public.sabot_violated(TG_NAME,
                OLD.published || ' published in ' || OLD.commits || ' commits would become '
                || NEW.published || ' in ' || NEW.commits);
        END IF;
        IF NEW.published > OLD.published
            AND NEW.published > coalesce((SELECT max(position) FROM public.event), 0)
        THEN
            PERFORM public.sabot_violated('outbox_published_exists',
                'event ' || NEW.published || ' cannot have been published: it is not there');
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER outbox_only_grows BEFORE UPDATE ON outbox
        FOR EACH ROW EXECUTE FUNCTION sabot_outbox_only_grows()
    """,
    """
    ALTER TABLE inbox
        ADD CONSTRAINT inbox_sequence_from_zero CHECK (sequence >= 0),
        ADD CONSTRAINT inbox_hash_form CHECK (hash ~ '^[0-9a-f]{64}$')
    """,
    """
    CREATE TRIGGER inbox_never_removed BEFORE DELETE OR TRUNCATE ON inbox
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('what was applied is not forgotten')
    """,
    """
    CREATE FUNCTION sabot_inbox_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.stream <> OLD.stream OR NEW.sequence < OLD.sequence
            OR (NEW.sequence = OLD.sequence AND NEW.hash <> OLD.hash)
        THEN
            PERFORM public.sabot_violated(TG_NAME,
                OLD.stream || ' would go back from ' || OLD.sequence || ' to ' || NEW.sequence);
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER inbox_only_grows BEFORE UPDATE ON inbox
        FOR EACH ROW EXECUTE FUNCTION sabot_inbox_only_grows()
    """,
    """
    CREATE TRIGGER dead_letter_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dead_letter
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('a dead letter is never changed or removed')
    """,
)
