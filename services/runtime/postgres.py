"""PostgreSQL as all our services use it: how a database is opened, and what is said when it cannot be.

One URL with ``{service}`` in it names the databases of an installation, and the role that each service is.
Passwords come from the URL, or in libpq's own ways (``PGPASSFILE``, ``PGPASSWORD``).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from time import monotonic
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql
from psycopg.abc import PQGen
from sqlalchemy import URL, Engine, ExceptionContext, NullPool, event

from services.runtime.bulk import SAY
from services.runtime.ports import DatabaseUnavailable

R = TypeVar("R")

CONNECT_SECONDS: Final = 10
LOCK_SECONDS: Final = 10
"""So long one writer waits for another's transaction."""
STATEMENT_SECONDS: Final = 30
IDLE_SECONDS: Final = 30
"""So long the server keeps a transaction open that its client does not go on with. A writer decides a batch
in a fraction of a second; one that was suspended in the middle must not hold its successor up for ever."""
ANSWER_SECONDS: Final = 40
"""So long a client waits for an answer. More than the server's own limits, which give the better words; this
one is for a server that says nothing at all."""

_READERS_MAX: Final = 10
_READERS_KEPT: Final = 3


class NotPrepared(DatabaseUnavailable):
    """A database that was not made ready for this version of the program."""


def url_of(database: str, service: str) -> str:
    """The URL of one service's database, where ``database`` is the URL of all with ``{service}`` in it."""
    return database.replace("{service}", service)


def open_postgres(url: str, *, writer: bool, name: str) -> Engine:
    """An engine on a PostgreSQL database. ``name`` is what the server's administrator sees of us.

    A writer's has no pool: one connection lives as long as the writer, and who loses it begins anew. A
    reader's keeps a few, and every one of its transactions is read-only.

    All its errors of connections and time limits are ``DatabaseUnavailable``; nothing is connected yet.
    """
    limits = {
        # What makes this level enough is said in services/runtime/store.py.
        "default_transaction_isolation": r"read\ committed",
        "default_transaction_read_only": "off" if writer else "on",
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "lock_timeout": f"{LOCK_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        # The server, too, must notice that the other end is gone, or a dead writer's locks live on for hours.
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    if writer:
        return _engine(address(url), name, limits, _Impatient, poolclass=NullPool)
    return _engine(
        address(url),
        name,
        limits,
        _Pooled,
        pool_size=_READERS_KEPT,
        max_overflow=_READERS_MAX - _READERS_KEPT,
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=True,
    )


def open_as_owner(url: str, owner: str, *, name: str) -> Engine:
    """An engine for an administrator who acts as the owner of a database. A migration may take its time."""
    engine = _engine(
        address(url), name, {"lock_timeout": f"{LOCK_SECONDS}s"}, psycopg.Connection, poolclass=NullPool
    )

    @event.listens_for(engine, "connect")
    def _become(connection: psycopg.Connection[Any], _: Any) -> None:
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(owner)))
        connection.commit()

    return engine


def _engine(
    url: URL, name: str, settings: Mapping[str, str], kind: type[psycopg.Connection[Any]], **pool: Any
) -> Engine:
    own = url.query.get("options", "")
    options = [f"-c {setting}={value}" for setting, value in settings.items()]
    options += [own] if isinstance(own, str) else own
    engine = sa.create_engine(
        url,
        use_native_hstore=False,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": name,
            "options": " ".join(options),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": int(ANSWER_SECONDS * 1000),
        },
        **pool,
    )
    where = in_words(url)

    def say(error: BaseException, lost: bool, connected: bool = True) -> DatabaseUnavailable | None:
        reason = _reason(error, lost=lost, connected=connected) if isinstance(error, psycopg.Error) else None
        return None if reason is None else DatabaseUnavailable(f"{where}: {reason}")

    engine.update_execution_options(**{SAY: say})

    @event.listens_for(engine, "do_connect")
    def _connect(_: Any, __: Any, cargs: Any, cparams: dict[str, Any]) -> psycopg.Connection[Any]:
        return kind.connect(*cargs, **cparams)

    @event.listens_for(engine, "handle_error")
    def _say(context: ExceptionContext) -> None:
        if context.is_pre_ping:
            return  # the pool connects anew by itself
        lost, connected = context.is_disconnect, context.connection is not None
        if (said := say(context.original_exception, lost, connected)) is not None:
            raise said from context.original_exception

    return engine


def address(url: str) -> URL:
    """The parts of a URL.

    Raises:
        ValueError: it is not PostgreSQL's.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        # Not chained: the error quotes the URL, and with it a password.
        raise ValueError("not a URL; write postgresql://USER@HOST:5432/DATABASE") from None
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(
            f"{parsed.drivername!r} is not PostgreSQL; write postgresql://USER@HOST:5432/DATABASE"
        )
    return parsed.set(drivername="postgresql+psycopg")


def in_words(url: URL) -> str:
    """Which database a URL means, without the password."""
    host = f"{url.host or 'this machine'}:{url.port or 5432}"
    return f"PostgreSQL at {host}, database {url.database}, user {url.username or '(yours)'}"


def check_migrated(engine: Engine, service: str) -> None:
    """See whether the database of a service is at the version that this program writes.

    Raises:
        NotPrepared: it is older or newer, or was never prepared.
        DatabaseUnavailable: it cannot be reached.
    """
    where = in_words(engine.url)
    with engine.connect() as connection, connection.begin():
        there = (
            set(connection.scalars(sa.text("SELECT version_num FROM alembic_version")))
            if sa.inspect(connection).has_table("alembic_version")
            else set()
        )
    config = Config()
    config.set_main_option("script_location", f"services.{service}:migrations")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    if there == set(script.get_heads()):
        return
    if not there:
        raise NotPrepared(f"{where}: it has no tables yet; run `sabot prepare`")
    known = {revision.revision for revision in script.walk_revisions()}
    if there <= known:
        raise NotPrepared(f"{where}: its tables are of an earlier version; run `sabot prepare`")
    raise NotPrepared(f"{where}: its tables are of a later version; run the program that made them")


class _Impatient(psycopg.Connection[Any]):
    """A connection that does not wait for ever.

    The server's own limits do not help where the server hangs; and its machine still acknowledges every
    packet, so that the network's limits do not help either.
    """

    def wait(self, gen: PQGen[R], *args: Any, **kwargs: Any) -> R:
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: PQGen[R]) -> Generator[Any, Any, R]:
        """The same, ended when it takes too long: who drives it asks again several times a second."""
        until = monotonic() + ANSWER_SECONDS
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer for {ANSWER_SECONDS} seconds")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: R = end.value
            return result


class _Pooled(_Impatient):
    """A connection that nobody closes: it goes with the engine whose pool keeps it."""

    def __del__(self, *_: Any) -> None:
        self.pgconn.finish()  # and no warning that it was forgotten


def _reason(error: psycopg.Error, *, lost: bool, connected: bool) -> str | None:
    """Why the database is not available; None for an error of another kind."""
    # What comes before the reason is how libpq went about it.
    said = next(iter(str(error).strip().splitlines()), type(error).__name__).rpartition("failed: ")[2]
    match error:
        case psycopg.errors.LockNotAvailable():
            return f"another session has held what we need for {LOCK_SECONDS} seconds"
        case psycopg.errors.QueryCanceled():
            return said
    if not connected:
        unprepared = "does not exist" in said or "permission denied for database" in said
        return said + ("; run `sabot prepare`" if unprepared else "")
    return f"the connection was lost: {said}" if lost else None
