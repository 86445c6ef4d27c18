"""Transactions on a PostgreSQL server, which may restart, drop a connection, or lose the reply to a COMMIT."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store.database.change_limits import CHANGE_LIMITS_OPTION, ChangeLimits
from duetime.scheduler.store.database.clock import Sample
from duetime.scheduler.store.database.database import BUSY_TIMEOUT_S, Database, Stored, Tried, Work, dispose
from duetime.scheduler.store.database.dialects import DIALECT, POSTGRES, LockTaken
from duetime.scheduler.store.database.driver_errors import translated
from duetime.scheduler.store.database.unreadable import UNREADABLE_OPTION, Unreadable
from duetime.scheduler.store.schema.values import decode, encode
from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

_DEADLOCKED = frozenset({"40001", "40P01"})  # PostgreSQL rolled the transaction back: nothing of it exists
_OUTRUN = _DEADLOCKED | {"23505"}  # so does a statement that lost the race for a unique number
_OVER = ("08", "57P01", "57P02", "57P03")  # the connection failed, or the server ends the session or shuts down
_BY_INDEX = (
    "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c random_page_cost=1.1 -c jit=off"
)
_RECONNECT_PAUSE_S = 0.1
"""Seconds between tries to reach a server that is away."""


_FOR_READING = (
    "-c statement_timeout={} -c plan_cache_mode=force_custom_plan -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c random_page_cost=1.1 -c jit=off"
)
"""Planner settings: every read is a page, so a join that scans a table never pays off."""

READ_TIMEOUT_S = 30.0
"""Longest duration of one read; its caller has given up by then."""


MAX_POOL_CONNECTIONS = 32
"""Connections per process under load: for writes, and for reads."""


class EndUnknown(StoreUnavailable):
    """The connection broke during the commit of this `result`."""

    def __init__(self, result: object) -> None:
        super().__init__(
            "The connection to the database broke during the commit, so the change may or may not be stored. "
            "Read it again, or repeat the call with the same idempotency_key."
        )
        self.result = result


_IDENTITY = (
    "SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), oid, current_schema()) "
    "FROM pg_database WHERE datname = current_database()"
)


class Postgres(Database):
    """A PostgreSQL server. Work that left nothing behind, after a dropped connection or a deadlock, is tried once more.

    Writes and reads have connections of their own, because planner settings belong to a session. Plans of writes stay
    until the tables are analysed again, those of the server's checks of keys too. A plan made for an empty table must
    not scan one with a million rows. So every row is found by an index (without: 15 times slower at 30,000 runs), by
    writes of many rows as well. A write has no time limit. Reads are planned for their parameters, whether they have a
    transaction (`read`) or are one statement (`look`), and end after `READ_TIMEOUT_S`.
    """

    def __init__(self, url: URL) -> None:
        known = {UNREADABLE_OPTION: Unreadable(), DIALECT: POSTGRES, CHANGE_LIMITS_OPTION: ChangeLimits()}
        self.engine = _engine(url, _BY_INDEX, known, pool_size=8)
        self.reader = _engine(url, _FOR_READING.format(round(READ_TIMEOUT_S * 1000)), known, pool_size=4)
        from psycopg import IsolationLevel  # noqa: PLC0415 - the driver is optional
        from psycopg.pq import TransactionStatus  # noqa: PLC0415 - as above

        self._busy = TransactionStatus.ACTIVE
        self._reading, self._writing = IsolationLevel.REPEATABLE_READ, IsolationLevel.READ_COMMITTED

    def read(self, work: Work[T]) -> T:
        return self._attempted(work, self._reading)

    def look(self, work: Work[T]) -> T:
        """Run `work` in one round trip instead of three."""
        return self._attempted(work, None)

    def command(self, work: Work[T]) -> T:
        """Run `work`, statements that no transaction may hold, such as `CREATE INDEX CONCURRENTLY`; without a limit."""
        with translated(), self.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.autocommit = True
            return work(connection)

    def attempt(self, work: Work[T]) -> Tried[T]:
        with self.last_write.watched(), translated():
            try:
                connection = self.engine.connect()
            except DBAPIError:
                return Tried()
            with connection:
                raw: Any = connection.connection.driver_connection
                return Tried() if _has_unread_message(raw) else self._alone(connection, raw, work)

    def _alone(self, connection: Connection, raw: Any, work: Work[T]) -> Tried[T]:
        if not raw.autocommit:
            raw.autocommit = True
        try:
            result = self._ran(connection, raw, work)
        except DBAPIError as error:
            if error.connection_invalidated:
                return Tried(may_be_stored=True)
            if _code(error.orig) in _OUTRUN:
                return Tried()
            raise
        connection.commit()  # a rollback would make the driver drop its prepared statements
        return Tried(result)

    def write(
        self,
        work: Work[T],
        *,
        durable: bool = True,  # noqa: ARG002 - its crash may leave workers alive
        stored: Stored[T] | None = None,
        may_be_stored: bool = False,
    ) -> T:
        with self.last_write.watched():
            return self._patiently(work) if may_be_stored else self._stored(work, stored)

    def _stored(self, work: Work[T], stored: Stored[T] | None) -> T:
        try:
            return self._attempted(work, self._writing)
        except EndUnknown as end:
            result = cast("T", end.result)
            if stored is None or not self._there(lambda connection: stored(connection, result)):
                raise
            return result

    def sample(self) -> Sample:
        """Return the server's time."""

        def work(connection: Connection) -> Sample:
            asked_at = time.monotonic()
            at = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
            return Sample(at, asked_at, time.monotonic())

        return self.look(work)

    def identity(self) -> str:
        """Return a name that no other database on any server has; empty where it cannot be determined."""

        def work(connection: Connection) -> str:
            condition = "has_function_privilege('pg_control_system()', 'execute')"
            if not connection.exec_driver_sql(f"SELECT {condition}").scalar_one():
                return ""
            return str(connection.exec_driver_sql(_IDENTITY).scalar_one())

        return self.read(work)

    @contextmanager
    def alone(self, lock_id: int, name: str) -> Iterator[bool]:  # noqa: ARG002 - a file's lock has a name
        """Hold a lock of a session that has no transaction open: it ends with its process."""
        with translated(), self.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.autocommit = True
            got = bool(connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({lock_id})").scalar_one())
            try:
                yield got
                if got:
                    with suppress(DBAPIError):  # a session that broke has no lock
                        connection.exec_driver_sql(f"SELECT pg_advisory_unlock({lock_id})")
            finally:
                connection.invalidate()  # the end of the session releases the lock, but only some time later

    def _attempted(self, work: Work[T], isolation: int | None) -> T:
        with translated():
            try:
                return self._behind_locks(work, isolation)
            except DBAPIError as error:
                if not (error.connection_invalidated or _code(error.orig) in _DEADLOCKED):
                    raise
            return self._behind_locks(work, isolation)

    def _behind_locks(self, work: Work[T], isolation: int | None) -> T:
        """Run `work`, and again behind each lock that another transaction had, which it shares before all else then."""
        wanted: set[int] = set()

        def behind(connection: Connection) -> T:
            for lock_id in sorted(wanted):
                POSTGRES.wait_for_lock(connection, lock_id, shared=True)
            return work(connection)

        while True:
            try:
                return self._once(behind if wanted else work, isolation)
            except LockTaken as taken:
                wanted.add(taken.lock_id)

    def close(self) -> None:
        dispose(self.reader)
        super().close()

    def _once(self, work: Work[T], isolation: int | None) -> T:
        engine = self.engine if isolation == self._writing else self.reader
        with engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            if raw.autocommit != (isolation is None):
                raw.autocommit = isolation is None
            if isolation is not None and raw.isolation_level != isolation:
                raw.isolation_level = isolation  # sent with BEGIN; SQLAlchemy's own way costs a third of a transaction
            result = self._ran(connection, raw, work)
            try:
                connection.commit()  # reads too: a rollback would make the driver drop its prepared statements
            except DBAPIError as error:
                if error.connection_invalidated and isolation == self._writing:
                    raise EndUnknown(result) from error
                raise
            return result

    def _ran(self, connection: Connection, raw: Any, work: Work[T]) -> T:
        """Run `work`; an exception amid a statement, as a signal raises, leaves an answer that no one else may read."""
        try:
            return work(connection)
        except BaseException:
            if raw.pgconn.transaction_status == self._busy:
                connection.invalidate()
            raise

    def _there(self, look: Work[bool]) -> bool:
        """Check whether rows exist; False when the server does not reply."""
        with suppress(StoreUnavailable):
            return self._patiently(look)
        return False

    def _patiently(self, work: Work[T]) -> T:
        """Run `work` until the server replies, for the busy timeout at most.

        An unconfirmed earlier write may appear in between; the next run of `work` finds it.
        """
        latest = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                return self._attempted(work, self._writing)
            except (StoreUnavailable, DBAPIError) as error:
                if isinstance(error, DBAPIError) and _code(error.orig) not in _OUTRUN:
                    raise
                if time.monotonic() > latest:
                    raise EndUnknown(None) from error
            time.sleep(_RECONNECT_PAUSE_S)


def _engine(url: URL, planner: str, options: Mapping[str, Any], *, pool_size: int) -> Engine:
    made = create_engine(
        url,
        execution_options=options,
        pool_size=pool_size,
        max_overflow=MAX_POOL_CONNECTIONS - pool_size,
        pool_timeout=BUSY_TIMEOUT_S,
        skip_autocommit_rollback=True,
        pool_use_lifo=True,  # the last used connection has its statements prepared and planned
        json_serializer=encode,
        json_deserializer=decode,
        use_native_hstore=False,  # else each process asks for its types
        connect_args={
            "connect_timeout": BUSY_TIMEOUT_S,
            "prepare_threshold": 1,  # most statements are large: planning takes longer than running
            "application_name": "duetime",
            "options": f"-c timezone=UTC -c lock_timeout={BUSY_TIMEOUT_S}s {planner}",
        },
    )
    event.listen(made, "handle_error", _recognise)
    return made


def _recognise(context: ExceptionContext) -> None:
    """Detect a closed session by the server's last message, even before the connection ends.

    SQLAlchemy then replaces all pooled connections, which are as old as this one.
    """
    if _code(context.original_exception).startswith(_OVER):
        context.is_disconnect = True


def _has_unread_message(raw: Any) -> bool:
    """Whether the server has sent a message unasked: mostly the end of the session."""
    if sys.platform == "win32":
        return False
    poller = select.poll()
    poller.register(raw.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


def _code(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""
