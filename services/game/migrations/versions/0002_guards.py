"""The outbox fences a second writer; on PostgreSQL the database itself holds what must not happen."""

from alembic import op

from services.runtime.migrating import count_commits, guard_runtime_tables, on_postgres

revision = "game_0002"
down_revision = "game_0001"

GUARDS = (
    """
    ALTER TABLE game_coup
        ADD CONSTRAINT game_coup_status_known CHECK (status IN ('concluded', 'voided')),
        ADD CONSTRAINT game_coup_outcome_known CHECK (outcome IN ('player', 'banker', 'tie')),
        ADD CONSTRAINT game_coup_concluded_says_outcome CHECK (
            (status = 'concluded')
            = (outcome IS NOT NULL AND player_total IS NOT NULL AND banker_total IS NOT NULL)),
        ADD CONSTRAINT game_coup_totals CHECK (
            player_total BETWEEN 0 AND 9 AND banker_total BETWEEN 0 AND 9),
        ADD CONSTRAINT game_coup_outcome_follows CHECK (
            sign(player_total - banker_total)
            = CASE outcome WHEN 'player' THEN 1 WHEN 'banker' THEN -1 ELSE 0 END)
    """,
    """
    CREATE TRIGGER game_coup_is_over BEFORE UPDATE ON game_coup
        FOR EACH ROW EXECUTE FUNCTION sabot_same('a coup that is over does not change')
    """,
    "ALTER TABLE game_house ADD CONSTRAINT game_house_number_from_one CHECK (number >= 1)",
    """
    CREATE TRIGGER game_house_in_force BEFORE UPDATE ON game_house
        FOR EACH ROW EXECUTE FUNCTION sabot_same('a house that was set does not change; another is set')
    """,
    "ALTER TABLE game_undealt_seed ADD CONSTRAINT game_undealt_seed_size CHECK (octet_length(seed) = 32)",
    """
    CREATE TRIGGER game_undealt_seed_committed BEFORE UPDATE ON game_undealt_seed
        FOR EACH ROW EXECUTE FUNCTION sabot_same('the seed of a committed shoe does not change')
    """,
    """
    CREATE TRIGGER game_undealt_cards_committed BEFORE UPDATE ON game_undealt_cards
        FOR EACH ROW EXECUTE FUNCTION sabot_same('the cards of an open coup do not change')
    """,
)


def upgrade() -> None:
    count_commits()
    if on_postgres():
        guard_runtime_tables()
        for statement in GUARDS:
            op.execute(statement)
