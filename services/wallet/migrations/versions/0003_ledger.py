"""The ledger of operators: balances by operator, bets that can be rolled back, what stays open over days.

The tables of the first version were projections without what these need, and were never part of a release: a
database that has events of theirs cannot be taken along.
"""

import sqlalchemy as sa
from alembic import op

from services.runtime.migrating import on_postgres

revision = "wallet_0003"
down_revision = "wallet_0002"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_UNITS = sa.Numeric(38, 0).with_variant(sa.String(40), "sqlite")

_OLD = (
    "wallet_account",
    "wallet_balance",
    "wallet_transaction",
    "wallet_coup",
    "wallet_bet",
)
_OLD_FUNCTIONS = (
    "sabot_coup_goes_forward",
    "sabot_coup_is_over",
    "sabot_books_balance",
    "sabot_book_new_balances",
    "sabot_book_gone_balances",
    "sabot_book_changed_balances",
    "sabot_book_new_bets",
    "sabot_book_ended_bets",
)


def upgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM event")):
        raise RuntimeError(
            "this wallet was written by a version before the first release; begin with a new database"
        )
    for table in _OLD:
        op.drop_table(table)
    if on_postgres():
        op.execute("DROP TABLE wallet_books")
        for function in _OLD_FUNCTIONS:
            op.execute(f"DROP FUNCTION {function}()")
        op.execute("DROP FUNCTION sabot_book(varchar, numeric, numeric)")
    _create()
    if on_postgres():
        for statement in GUARDS:
            op.execute(statement)


def _create() -> None:
    op.create_table(
        "wallet_account",
        sa.Column("account", sa.String, primary_key=True),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("frozen", sa.Integer, nullable=False),
        sa.Column("excluded_until", sa.String, nullable=False),
    )
    op.create_table(
        "wallet_balance",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("ledger", sa.String(4), primary_key=True),
        sa.Column("party", sa.String, primary_key=True),
        sa.Column("currency", sa.String, primary_key=True),
        sa.Column("amount", _UNITS, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "wallet_transaction",
        sa.Column("account", sa.String, primary_key=True),
        sa.Column("tx", sa.String, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("balance", _UNITS, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "wallet_coup",
        sa.Column("operator", sa.String, primary_key=True),
        sa.Column("table_name", sa.String, primary_key=True),
        sa.Column("shoe", sa.String, primary_key=True),
        sa.Column("coup", sa.Integer, primary_key=True),
        sa.Column("house_number", sa.Integer, nullable=False),
        sa.Column("spots", sa.String, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("result_sequence", sa.BigInteger, nullable=True),
        sa.Column("result_hash", sa.String, nullable=True),
    )
    op.create_index("wallet_coup_unfinished", "wallet_coup", ["phase"])
    op.create_table(
        "wallet_bet",
        sa.Column("number", _BIG, primary_key=True),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("table_name", sa.String, nullable=False),
        sa.Column("shoe", sa.String, nullable=False),
        sa.Column("coup", sa.Integer, nullable=False),
        sa.Column("account", sa.String, nullable=False),
        sa.Column("tx", sa.String, nullable=False),
        sa.Column("seat", sa.Integer, nullable=True),
        sa.Column("spot", sa.String, nullable=False),
        sa.Column("currency", sa.String, nullable=False),
        sa.Column("exponent", sa.Integer, nullable=False),
        sa.Column("stake", sa.BigInteger, nullable=False),
        sa.Column("left", sa.BigInteger, nullable=False),
        sa.Column("funding", sa.String, nullable=False),
        sa.Column("grant", sa.String, nullable=True),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("tier", sa.String, nullable=False),
        sa.Column("returned", sa.BigInteger, nullable=False),
        sa.Column("commission", sa.BigInteger, nullable=False),
        sa.Column("deferred", sa.Integer, nullable=False),
    )
    op.create_index("wallet_bet_coup", "wallet_bet", ["operator", "table_name", "shoe", "coup"])
    op.create_table(
        "wallet_item",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("operator", sa.String, nullable=False),
        sa.Column("account", sa.String, nullable=False),
        sa.Column("is_open", sa.Integer, nullable=False),
        sa.Column("document", sa.String, nullable=False),
    )
    op.create_index("wallet_item_open", "wallet_item", ["is_open"])
    op.create_index("wallet_item_account", "wallet_item", ["account", "kind"])


GUARDS = (
    # --------------------------------------------------------------------------------------- transactions
    """
    ALTER TABLE wallet_transaction
        ADD CONSTRAINT wallet_transaction_balance CHECK (balance >= 0),
        ADD CONSTRAINT wallet_transaction_has_an_event CHECK (sequence >= 1)
    """,
    """
    CREATE TRIGGER wallet_transaction_never_removed BEFORE DELETE OR TRUNCATE ON wallet_transaction
        FOR EACH STATEMENT EXECUTE FUNCTION sabot_never('a transaction id is never forgotten')
    """,
    # --------------------------------------------------------------------------------------- balances
    """
    ALTER TABLE wallet_balance
        ADD CONSTRAINT wallet_balance_cash_not_overdrawn CHECK (ledger NOT IN ('2010', '2020') OR amount <=
        0), ADD CONSTRAINT wallet_balance_owed_by_players CHECK (ledger NOT IN ('1060', '1065') OR amount >=
        0), ADD CONSTRAINT wallet_balance_put_aside CHECK (ledger NOT IN ('2040', '2090') OR amount <= 0),
        ADD CONSTRAINT wallet_balance_not_zero CHECK (amount <> 0),
        ADD CONSTRAINT wallet_balance_without_bets CHECK (ledger <> '2030'),
        ADD CONSTRAINT wallet_balance_cash_has_a_player CHECK (
            (ledger IN ('1060', '1065', '2010', '2020', '2040', '2090')) = (party <> ''))
    """,
    # --------------------------------------------------------------------------------------- bets
    """
    ALTER TABLE wallet_bet
        ADD CONSTRAINT wallet_bet_number_from_one CHECK (number >= 1),
        ADD CONSTRAINT wallet_bet_stake_positive CHECK (stake > 0 AND "left" BETWEEN 0 AND stake),
        ADD CONSTRAINT wallet_bet_status_known CHECK (status IN (
            'open', 'pending', 'won', 'lost', 'push', 'void', 'rolled_back', 'refused')),
        ADD CONSTRAINT wallet_bet_funding_known CHECK (
            funding IN ('cash', 'free', 'operator') AND (funding = 'free') = ("grant" IS NOT NULL)
            OR status = 'refused'),
        ADD CONSTRAINT wallet_bet_refused_for_a_reason CHECK ((status = 'refused') = (code <> 'OK')),
        ADD CONSTRAINT wallet_bet_rolled_back_whole CHECK (status <> 'rolled_back' OR "left" = 0),
        ADD CONSTRAINT wallet_bet_pays_by_status CHECK (
            CASE
                WHEN status = 'won' THEN
                    returned >= CASE funding WHEN 'free' THEN 0 ELSE "left" END AND commission >= 0
                WHEN status IN ('push', 'void') THEN
                    returned = CASE funding WHEN 'free' THEN 0 ELSE "left" END AND commission = 0
                ELSE returned = 0 AND commission = 0
            END)
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
            CASE phase WHEN 'settled' THEN version > 0 WHEN 'returned' THEN version >= 0 ELSE version = 0 END)
    """,
    """
    CREATE FUNCTION sabot_coup_goes_forward() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (NEW.operator, NEW.table_name, NEW.shoe, NEW.coup, NEW.house_number, NEW.spots)
            <> (OLD.operator, OLD.table_name, OLD.shoe, OLD.coup, OLD.house_number, OLD.spots)
            OR (NEW.phase, NEW.version) <> (OLD.phase, OLD.version)
            AND NOT (OLD.phase = 'open' OR OLD.phase = 'sealed' AND NEW.phase IN ('settled', 'returned')
                OR OLD.phase = 'settled' AND NEW.phase IN ('settled', 'returned')
                    AND NEW.version > OLD.version)
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
                AND status IN ('open', 'pending'))
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
    # All balances of a currency, and what is left of its open bets (account 2030, which has no balance row):
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
        PERFORM public.sabot_book(currency, 0, sum("left")) FROM added WHERE status = 'open'
            GROUP BY currency;
        RETURN NULL;
    END $$
    """,
    # What was bet stays as it was; a bet is taken once and ends once, but for a correction of its coup.
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
            NOT CASE before.status
                WHEN 'open' THEN after.status IN ('open', 'won', 'lost', 'push', 'void', 'rolled_back')
                WHEN 'pending' THEN after.status IN ('open', 'refused')
                WHEN 'won' THEN after.status IN ('won', 'lost', 'push', 'void')
                WHEN 'lost' THEN after.status IN ('won', 'lost', 'push', 'void')
                WHEN 'push' THEN after.status IN ('won', 'lost', 'push', 'void')
                ELSE false
            END
            OR after."left" > before."left"
            OR (after.operator, after.table_name, after.shoe, after.coup, after.account, after.tx,
                after.seat, after.spot, after.currency, after.exponent, after.stake, after.funding,
                after."grant")
            IS DISTINCT FROM
               (before.operator, before.table_name, before.shoe, before.coup, before.account, before.tx,
                before.seat, before.spot, before.currency, before.exponent, before.stake, before.funding,
                before."grant"))
        LIMIT 1;
        IF wrong IS NOT NULL THEN
            PERFORM public.sabot_violated('wallet_bet_ends_once', wrong);
        END IF;
        PERFORM public.sabot_book(currency, 0, sum("left")) FROM (
            SELECT currency, "left" FROM added WHERE status = 'open'
            UNION ALL SELECT currency, -"left" FROM gone WHERE status = 'open'
        ) AS change GROUP BY currency HAVING sum("left") <> 0;
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
