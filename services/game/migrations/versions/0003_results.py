"""A coup that is over can have another result, or be void: the event that said so, and all that was said."""

import json
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

from services.runtime.migrating import on_postgres

revision = "game_0003"
down_revision = "game_0002"

_EVENTS_AT_ONCE = 5_000
_ENDS = (b'"type":"sabot.game.coup.concluded.v1"', b'"type":"sabot.game.coup.voided.v1"')

GUARDS = (
    """
    ALTER TABLE game_coup
        ADD CONSTRAINT game_coup_sequence_from_one CHECK (sequence >= 1),
        ADD CONSTRAINT game_coup_hash_form CHECK (hash ~ '^[0-9a-f]{64}$'),
        ADD CONSTRAINT game_coup_results_counted CHECK (
            CASE WHEN results IS NULL THEN version = 1
            ELSE version > 1 AND jsonb_array_length(results::jsonb) = version END),
        ADD CONSTRAINT game_coup_last_result_in_force CHECK (
            results IS NULL
            OR (hash IS NOT NULL AND results::jsonb -> -1 ->> 'hash' IS NOT DISTINCT FROM hash
                AND results::jsonb -> -1 ->> 'outcome' IS NOT DISTINCT FROM outcome))
    """,
    # What was said stays said: a new version comes behind those that are there, of a coup that had a result.
    """
    CREATE FUNCTION sabot_coup_is_over() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        before jsonb;
    BEGIN
        IF NEW IS NOT DISTINCT FROM OLD THEN
            RETURN NEW;
        END IF;
        IF OLD.status <> 'concluded' THEN
            PERFORM public.sabot_violated(TG_NAME, 'a coup that is void does not change');
        END IF;
        IF (NEW.operator, NEW.table_name, NEW.shoe, NEW.coup, NEW.cards, NEW.dealer_seat, NEW.house_number)
            IS DISTINCT FROM
            (OLD.operator, OLD.table_name, OLD.shoe, OLD.coup, OLD.cards, OLD.dealer_seat, OLD.house_number)
            OR NEW.version <= OLD.version OR NEW.sequence IS NULL OR NEW.sequence <= OLD.sequence
        THEN
            PERFORM public.sabot_violated(TG_NAME,
                'a coup that is over does not change, but for the next version of its result');
        END IF;
        SELECT jsonb_agg(each.result ORDER BY each.place) INTO before
            FROM jsonb_array_elements(NEW.results::jsonb) WITH ORDINALITY AS each (result, place)
            WHERE each.place <= OLD.version;
        IF coalesce(
            before IS DISTINCT FROM OLD.results::jsonb AND OLD.results IS NOT NULL
                OR before -> -1 ->> 'hash' IS DISTINCT FROM OLD.hash
                OR before -> -1 ->> 'outcome' IS DISTINCT FROM OLD.outcome, true)
        THEN
            PERFORM public.sabot_violated(TG_NAME, 'what was said of a coup before does not change');
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER game_coup_is_over BEFORE UPDATE ON game_coup
        FOR EACH ROW EXECUTE FUNCTION sabot_coup_is_over()
    """,
)


def upgrade() -> None:
    op.add_column("game_coup", sa.Column("version", sa.Integer, nullable=False, server_default="1"))
    op.add_column("game_coup", sa.Column("sequence", sa.BigInteger, nullable=True))
    op.add_column("game_coup", sa.Column("hash", sa.String(64), nullable=True))
    op.add_column("game_coup", sa.Column("results", sa.String, nullable=True))
    if on_postgres():
        op.execute("DROP TRIGGER game_coup_is_over ON game_coup")
    _say_which_events_ended_coups()
    if on_postgres():
        for statement in GUARDS:
            op.execute(statement)


def _say_which_events_ended_coups() -> None:
    """Whoever corrects a coup names the event that ended it. Until now nobody had to know which that was."""
    db = op.get_bind()
    position = 0
    while rows := _events_behind(db, position):
        ended = [row for row in rows if any(kind in bytes(row.body) for kind in _ENDS)]
        if ended:
            db.execute(_SAY, [_place_of(row) for row in ended])
        position = rows[-1].position


def _events_behind(db: sa.Connection, position: int) -> Any:
    return db.execute(_EVENTS, {"position": position, "limit": _EVENTS_AT_ONCE}).all()


def _place_of(row: Any) -> dict[str, Any]:
    body = bytes(row.body)
    data = json.loads(body)["data"]
    return {
        **{f"_{name}": data[name] for name in ("operator", "table", "shoe", "coup")},
        "_sequence": row.sequence,
        "_hash": sha256(body).hexdigest(),
    }


_EVENTS = sa.text(
    "SELECT position, sequence, body FROM event WHERE position > :position ORDER BY position LIMIT :limit"
)
_SAY = sa.text(
    "UPDATE game_coup SET sequence = :_sequence, hash = :_hash "
    "WHERE operator = :_operator AND table_name = :_table AND shoe = :_shoe AND coup = :_coup"
)
