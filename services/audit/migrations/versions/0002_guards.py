"""The outbox fences a second writer; on PostgreSQL the database itself holds what must not happen."""

from alembic import op

from services.runtime.migrating import count_commits, guard_runtime_tables, on_postgres

revision = "audit_0002"
down_revision = "audit_0001"

GUARDS = (
    """
    CREATE TRIGGER audit_stream_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_stream
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('evidence is never changed or removed')
    """,
    """
    ALTER TABLE audit_evidence
        ADD CONSTRAINT audit_evidence_sequence_from_one CHECK (sequence >= 1),
        ADD CONSTRAINT audit_evidence_hash_size CHECK (octet_length(hash) = 32)
    """,
    """
    CREATE TRIGGER audit_evidence_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_evidence
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('evidence is never changed or removed')
    """,
    # The evidence of a stream counts from 1, without gaps, as the stream does.
    """
    CREATE FUNCTION sabot_evidence_follows() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        wrong text;
    BEGIN
        SELECT name || ': ' || first || ' to ' || last || ' do not follow ' || before INTO wrong
        FROM public.audit_stream JOIN (
            SELECT batch.*, coalesce((
                SELECT max(sequence) FROM public.audit_evidence AS earlier
                WHERE earlier.stream_id = batch.stream_id AND earlier.sequence < batch.first), 0) AS before
            FROM (
                SELECT stream_id, min(sequence) AS first, max(sequence) AS last, count(*) AS many
                FROM added GROUP BY stream_id
            ) AS batch
        ) AS placed ON audit_stream.id = placed.stream_id
        WHERE first <> before + 1 OR last - first + 1 <> many
        LIMIT 1;
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('audit_evidence_gapless', wrong);
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER audit_evidence_follows AFTER INSERT ON audit_evidence REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_evidence_follows()
    """,
    """
    ALTER TABLE audit_verdict
        ADD CONSTRAINT audit_verdict_known CHECK (verdict IN ('verified', 'discrepancy'))
    """,
)


def upgrade() -> None:
    count_commits()
    if on_postgres():
        guard_runtime_tables()
        for statement in GUARDS:
            op.execute(statement)
