"""The outbox fences a second writer; on PostgreSQL the database itself holds what must not happen."""

from alembic import op

from services.runtime.migrating import count_commits, guard_runtime_tables, on_postgres

revision = "wallet_0002"
down_revision = "wallet_0001"

GUARDS = (
    # --------------------------------------------------------------------------------------- transactions
    "ALTER TABLE wallet_transaction ADD CONSTRAINT wallet_transaction_balance CHECK (balance >= 0)",
    # --------------------------------------------------------------------------------------- balances
    """
    ALTER TABLE wallet_balance
        ADD CONSTRAINT wallet_balance_cash_not_overdrawn CHECK (ledger <> '2010' OR amount <= 0),
        ADD CONSTRAINT wallet_balance_not_zero CHECK (amount <> 0),
        ADD CONSTRAINT wallet_balance_without_bets CHECK (ledger <> '2030'),
        ADD CONSTRAINT wallet_balance_cash_has_a_player CHECK ((ledger = '2010') = (party <> ''))
    """,
    # --------------------------------------------------------------------------------------- bets
    """
    ALTER TABLE wallet_bet
        ADD CONSTRAINT wallet_bet_number_from_one CHECK (number >= 1),
        ADD CONSTRAINT wallet_bet_stake_positive CHECK (stake > 0),
        ADD CONSTRAINT wallet_bet_status_known CHECK (
            status IN ('open', 'won', 'lost', 'push', 'void', 'refused')),
        ADD CONSTRAINT wallet_bet_refused_for_a_reason CHECK ((status = 'refused') = (code <> 'OK')),
        ADD CONSTRAINT wallet_bet_pays_by_status CHECK (
            CASE
                WHEN status = 'won' THEN returned >= stake AND commission >= 0
                WHEN status IN ('push', 'void') THEN returned = stake AND commission = 0
                ELSE returned = 0 AND commission = 0
            END),
        ADD CONSTRAINT wallet_bet_hash_form CHECK (hash ~ '^[0-9a-f]{64}$')
    """,
    """
    CREATE TRIGGER wallet_bet_never_removed BEFORE DELETE OR TRUNCATE ON wallet_bet
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('a bet is never removed')
    """,
    # --------------------------------------------------------------------------------------- coups
    """
    ALTER TABLE wallet_coup
        ADD CONSTRAINT wallet_coup_phase_known CHECK (phase IN ('open', 'sealed', 'settled', 'returned')),
        ADD CONSTRAINT wallet_coup_settled_by_a_version CHECK (
            version >= 0 AND (phase = 'settled') = (version > 0))
    """,
    """
    CREATE FUNCTION sabot_coup_goes_forward() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (NEW.operator, NEW.table_name, NEW.shoe, NEW.coup, NEW.house_number, NEW.spots)
            <> (OLD.operator, OLD.table_name, OLD.shoe, OLD.coup, OLD.house_number, OLD.spots)
            OR (NEW.phase, NEW.version) <> (OLD.phase, OLD.version)
            AND NOT (OLD.phase = 'open' OR OLD.phase = 'sealed' AND NEW.phase IN ('settled', 'returned'))
        THEN
            PERFORM public.sabot_violated(TG_NAME, 'coup ' || OLD.coup || ' of shoe ' || OLD.shoe || ' at '
                || OLD.table_name || ' would go from ' || OLD.phase || ' to ' || NEW.phase || ', or change');
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER wallet_coup_goes_forward BEFORE UPDATE ON wallet_coup
        FOR EACH ROW EXECUTE FUNCTION sabot_coup_goes_forward()
    """,
    # When a coup is over, so are all its bets.
    """
    CREATE FUNCTION sabot_coup_is_over() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (
            SELECT 1 FROM public.wallet_bet
            WHERE (operator, table_name, shoe, coup) = (NEW.operator, NEW.table_name, NEW.shoe, NEW.coup)
                AND status = 'open')
        THEN
            PERFORM public.sabot_violated(TG_NAME, 'coup ' || NEW.coup || ' of shoe ' || NEW.shoe || ' at '
                || NEW.table_name || ' is ' || NEW.phase || ' and has an open bet');
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER wallet_coup_over_without_open_bets AFTER INSERT OR UPDATE ON wallet_coup
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.phase IN ('settled', 'returned'))
        EXECUTE FUNCTION sabot_coup_is_over()
    """,
    # --------------------------------------------------------------------------------------- the books
    # All balances of a currency, and the stakes of its open bets (account 2030, which has no balance row):
    # they are equal whenever a transaction ends. Only triggers write here, with their owner's rights.
    """
    CREATE TABLE wallet_books (
        currency varchar PRIMARY KEY,
        balances numeric NOT NULL,
        in_play numeric NOT NULL
    )
    """,
    """
    CREATE FUNCTION sabot_books_balance() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        books public.wallet_books;
    BEGIN
        SELECT * INTO books FROM public.wallet_books WHERE currency = NEW.currency;
        IF books.balances <> books.in_play THEN
            PERFORM public.sabot_violated(TG_NAME, 'the balances in ' || books.currency || ' sum to '
                || books.balances || ', and the stakes of open bets to ' || books.in_play);
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE CONSTRAINT TRIGGER wallet_books_balance AFTER INSERT OR UPDATE ON wallet_books
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sabot_books_balance()
    """,
    """
    CREATE TRIGGER wallet_books_never_removed BEFORE DELETE OR TRUNCATE ON wallet_books
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('the books stay')
    """,
    """
    CREATE TRIGGER wallet_balance_row_by_row BEFORE TRUNCATE ON wallet_balance
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('delete the rows instead, so that they are counted')
    """,
    """
    CREATE FUNCTION sabot_book(currency varchar, balances numeric, in_play numeric) RETURNS void
    LANGUAGE sql AS $$
        INSERT INTO public.wallet_books VALUES (currency, balances, in_play)
        ON CONFLICT ON CONSTRAINT wallet_books_pkey DO UPDATE SET
            balances = wallet_books.balances + excluded.balances,
            in_play = wallet_books.in_play + excluded.in_play
    $$
    """,
    """
    CREATE FUNCTION sabot_book_new_balances() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        PERFORM public.sabot_book(currency, sum(amount), 0) FROM added GROUP BY currency;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION sabot_book_gone_balances() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        PERFORM public.sabot_book(currency, -sum(amount), 0) FROM gone GROUP BY currency;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION sabot_book_changed_balances() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        PERFORM public.sabot_book(currency, sum(amount), 0) FROM (
            SELECT currency, amount FROM added UNION ALL SELECT currency, -amount FROM gone
        ) AS change GROUP BY currency HAVING sum(amount) <> 0;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION sabot_book_new_bets() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        wrong text;
    BEGIN
        SELECT 'bets ' || first || ' to ' || last || ' do not follow bet ' || before INTO wrong
        FROM (
            SELECT batch.*, coalesce(
                (SELECT max(number) FROM public.wallet_bet WHERE number < batch.first), 0) AS before
            FROM (SELECT min(number) AS first, max(number) AS last, count(*) AS many FROM added) AS batch
        ) AS placed
        WHERE many > 0 AND (first <> before + 1 OR last - first + 1 <> many);
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('wallet_bet_numbers_gapless', wrong);
        END IF;
        PERFORM public.sabot_book(currency, 0, sum(stake)) FROM added WHERE status = 'open' GROUP BY currency;
        RETURN NULL;
    END $$
    """,
    # What was bet stays as it was, and a bet ends once.
    """
    CREATE FUNCTION sabot_book_ended_bets() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
    DECLARE
        wrong text;
    BEGIN
        SELECT 'bet ' || before.number || ' is ' || before.status || ', and would become '
            || coalesce(after.status, 'another bet') || ' or change' INTO wrong
        FROM gone AS before LEFT JOIN added AS after USING (number)
        WHERE after IS DISTINCT FROM before AND (
            before.status <> 'open'
            OR (after.operator, after.table_name, after.shoe, after.coup, after.account, after.tx,
                after.seat, after.spot, after.currency, after.exponent, after.stake, after.code,
                after.sequence, after.hash)
            IS DISTINCT FROM
               (before.operator, before.table_name, before.shoe, before.coup, before.account, before.tx,
                before.seat, before.spot, before.currency, before.exponent, before.stake, before.code,
                before.sequence, before.hash))
        LIMIT 1;
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('wallet_bet_ends_once', wrong);
        END IF;
        PERFORM public.sabot_book(currency, 0, sum(stake)) FROM (
            SELECT currency, stake FROM added WHERE status = 'open'
            UNION ALL SELECT currency, -stake FROM gone WHERE status = 'open'
        ) AS change GROUP BY currency HAVING sum(stake) <> 0;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER wallet_balance_new AFTER INSERT ON wallet_balance REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_book_new_balances()
    """,
    """
    CREATE TRIGGER wallet_balance_gone AFTER DELETE ON wallet_balance REFERENCING OLD TABLE AS gone
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_book_gone_balances()
    """,
    """
    CREATE TRIGGER wallet_balance_changed AFTER UPDATE ON wallet_balance
        REFERENCING OLD TABLE AS gone NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_book_changed_balances()
    """,
    """
    CREATE TRIGGER wallet_bet_new AFTER INSERT ON wallet_bet REFERENCING NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_book_new_bets()
    """,
    """
    CREATE TRIGGER wallet_bet_ended AFTER UPDATE ON wallet_bet
        REFERENCING OLD TABLE AS gone NEW TABLE AS added
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_book_ended_bets()
    """,
)


def upgrade() -> None:
    count_commits()
    if on_postgres():
        guard_runtime_tables()
        for statement in GUARDS:
            op.execute(statement)
