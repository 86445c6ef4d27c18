"""Opens a database: detects its kind, and checks or upgrades its schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from duetime.scheduler.audit.chain import AuditKeys
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.store.access.api_keys import ApiKeys
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.access.ended_sessions import EndedAdminSessions
from duetime.scheduler.store.access.secrets import Secrets
from duetime.scheduler.store.alerts.alerts import Alerts
from duetime.scheduler.store.alerts.process_turns import ProcessTurns
from duetime.scheduler.store.audit.chain import AuditChain
from duetime.scheduler.store.audit.log import AuditLog
from duetime.scheduler.store.backlog import Backlog
from duetime.scheduler.store.bulk.batches import Batches
from duetime.scheduler.store.chains.approvals import Approvals
from duetime.scheduler.store.chains.chains import Chains
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.chains.dependencies import Dependencies
from duetime.scheduler.store.claims import Claims
from duetime.scheduler.store.database import transaction_order
from duetime.scheduler.store.database.change_limits import ChangeLimits
from duetime.scheduler.store.database.clock import ServerClock, utc_now
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.database.server_keys import ServerKey
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.store.database.table_statistics import TableStatistics
from duetime.scheduler.store.dead_letters.letters import DeadLetters
from duetime.scheduler.store.deliveries.deliveries import Deliveries
from duetime.scheduler.store.deliveries.quiet_hours import UserQuietHours
from duetime.scheduler.store.dispatch.blocked_runs import BlockedRuns
from duetime.scheduler.store.dispatch.series import SeriesTimers
from duetime.scheduler.store.estimates import Estimates
from duetime.scheduler.store.external.claimed_runs import ClaimedRuns
from duetime.scheduler.store.external.external_workers import ExternalWorkers
from duetime.scheduler.store.forms import forms_of
from duetime.scheduler.store.history import History
from duetime.scheduler.store.inbox import Inbox
from duetime.scheduler.store.integrity import Integrity
from duetime.scheduler.store.lists.tenant_counts import ChangeAdmission
from duetime.scheduler.store.migrations import absent_indexes
from duetime.scheduler.store.migrations.copy import copy_file
from duetime.scheduler.store.migrations.schema_state import SchemaState
from duetime.scheduler.store.migrations.table_locks import BlockersNotice, unnoticed
from duetime.scheduler.store.migrations.upgrade import Upgrade, check, refuse_foreign, upgrade
from duetime.scheduler.store.policies.decisions import Decisions
from duetime.scheduler.store.policies.versions import PolicyVersions
from duetime.scheduler.store.pools import Pools
from duetime.scheduler.store.retention.retention import Retention
from duetime.scheduler.store.run_history.run_history import RunHistory
from duetime.scheduler.store.run_history.run_logs import RunLogs
from duetime.scheduler.store.runners import Runners
from duetime.scheduler.store.signals.addresses import FireAddresses
from duetime.scheduler.store.signals.signals import Signals
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.store.tasks import Tasks
from duetime.scheduler.store.text_index.search import Search
from duetime.scheduler.store.usage import Usage
from duetime.scheduler.store.workers import Workers
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


class Store:
    """All persistent state of Duetime. Thread-safe; several processes may open one database."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        secret_keys: Sequence[str] = (),
        audit_keys: Sequence[str] = (),
    ) -> None:
        self._database, self._clock = database, clock
        forms, cursors = forms_of(database), Cursors(database)
        self.commits = Commits(database)
        parts = (database, clock, self.commits)
        self.dependencies = Dependencies(*parts)
        self.approvals, self.batches = Approvals(*parts), Batches(*parts)
        self.signals, self.fire_addresses = Signals(*parts), FireAddresses(*parts)
        self.series, self.blocked = SeriesTimers(*parts), BlockedRuns(database, clock)
        self.tasks = Tasks(database, clock, forms, cursors, self.commits)
        self.chains = Chains(database, clock, forms, self.commits)
        self.pools, self.policies = Pools(database, clock), PolicyVersions(database, clock)
        self.decisions, self.usage = Decisions(database, cursors), Usage(database)
        self.claims = Claims(database, clock, forms, self.commits, on_settings=self.pools.see, pools=self.usage.pools)
        self.runners = Runners(database, clock)
        self.history = History(database, cursors)
        self.dead_letters = DeadLetters(database, clock, cursors, self.commits)
        self.run_history = RunHistory(database, cursors)
        self.run_logs, self.inbox = RunLogs(database), Inbox(database, clock, cursors)
        self.deliveries, self.quiet_hours = Deliveries(database, clock), UserQuietHours(database, clock)
        self.workers = Workers(database, clock)
        self.external_workers, self.claimed_runs = ExternalWorkers(database, clock), ClaimedRuns(database)
        self.estimates = Estimates(database, clock)
        self.integrity, self.table_statistics = Integrity(database), TableStatistics(database)
        self.search, self.schema = Search(database), SchemaState(database)
        self.backlog = Backlog(database)
        self.api_keys, self.ended_sessions = ApiKeys(database, clock), EndedAdminSessions(database, clock)
        self.audit = AuditLog(database, clock, cursors)
        self._server_keys: dict[str, ServerKey] = {}
        self.secrets = Secrets(database, clock, Cipher(secret_keys))
        self.retention = Retention(database, clock)
        self.audit_chain = AuditChain(database, clock, AuditKeys(audit_keys))
        self.alerts, self.turns = Alerts(database), ProcessTurns(database, clock)

    def now(self) -> datetime:
        """Return the time (UTC) by the deciding clock: the server's, for a file the system's."""
        return self._clock()

    def limit_changes(self, check: ChangeAdmission) -> None:
        """Check the quotas of a tenant in the transaction of each change of a caller, too."""
        ChangeLimits.of(self._database.engine).check = check

    def check_writable(self) -> None:
        """Raise StoreUnwritable while writes fail because the disk is full or read-only. Writes nothing."""
        self._database.check_writable()

    def unwritable_rows(self) -> int:
        """Return how many rows this process has lately tried in vain to write."""
        return self._database.unwritable.count()

    def server_key(self, name: str) -> bytes:
        """Return the secret key of this name, which all processes on this database share; made at first use."""
        return self._server_keys.setdefault(name, ServerKey(self._database, name)).get()

    def skew(self) -> float:
        """Return by how many seconds the wall clock of this process is ahead of `now`.

        0 where it is the deciding clock. Makes no query.
        """
        return self._clock.skew() if isinstance(self._clock, ServerClock) else 0.0

    def clock_leapt(self) -> bool:
        """Whether the server's clock jumped lately, so that leases of other processes may follow the old time."""
        return isinstance(self._clock, ServerClock) and self._clock.leapt()

    def identity(self) -> str:
        """Return a name that no other database has; empty where there is none, as for a file."""
        return self._database.identity() if isinstance(self._database, Postgres) else ""

    def file(self) -> str:
        """Return the file of the database, as the operating system names it: a copy has another; empty without one."""
        return self._database.file()

    def disk_used(self) -> float | None:
        """Return the used share, 0 to 1, of the volume that holds the database; None for a server's, or unknown."""
        return self._database.disk_used()

    def close(self) -> None:
        self._database.close()


def open_store(
    url: str,
    *,
    clock: Callable[[], datetime] | None = None,
    synchronous: str = "FULL",
    migrate: bool = True,
    secret_keys: Sequence[str] = (),
    audit_keys: Sequence[str] = (),
) -> Store:
    """Open the store at a SQLAlchemy URL: `sqlite:///<path>` or `postgresql://...`.

    With `migrate` an older schema is upgraded, and an SQLite file is first copied to the same folder; without it an
    older schema raises `SchemaTooOld`. A newer one raises `SchemaTooNew`. `synchronous` is SQLite's: FULL survives a
    power cut, OFF is for tests. `clock` replaces the server's clock, or the system's with SQLite. `secret_keys` encrypt
    secrets (see `cipher.read_key`); without them none can be set or used. `audit_keys` seal and verify the audit
    chains. Raises `InvalidSetting` for an unusable URL, and `StoreUnavailable` when the database cannot be reached.
    """
    database = connect(url, synchronous=synchronous)
    try:
        if migrate:
            upgrade(database)
        else:
            check(database)
        transaction_order.repair(database)
        return Store(database, clock or _clock_of(database), secret_keys, audit_keys)
    except BaseException:
        database.close()
        raise


def _clock_of(database: Database) -> Callable[[], datetime]:
    return ServerClock(database.sample) if isinstance(database, Postgres) else utc_now


def migrate_store(
    url: str, reached: Callable[[str], None] = lambda _version: None, waiting: BlockersNotice = unnoticed
) -> Upgrade:
    """Upgrade the schema at the URL to the newest, then build the indexes that a server lacks or can have by now.

    `reached` is called with each version on the way, `waiting` with the ids of PostgreSQL's processes that hold it up.
    """
    database = connect(url)
    try:
        done = upgrade(database, reached, waiting)
        transaction_order.repair(database)
        if isinstance(database, Postgres):
            done = replace(done, indexes=tuple(absent_indexes.add(database, waiting)))
        return done
    finally:
        database.close()


def back_up(url: str, target: Path) -> bool:
    """Copy the SQLite file at the URL while others use it; False for another database. Raises StoreUnwritable."""
    database = connect(url)
    try:
        check(database)
        return isinstance(database, Sqlite) and copy_file(database, target) is not None
    finally:
        database.close()


def connect(url: str, *, synchronous: str = "FULL") -> Database:
    parsed = _parsed(url)
    backend = parsed.get_backend_name() if parsed else None
    if parsed and backend == "sqlite":
        return Sqlite(parsed.set(drivername="sqlite+pysqlite"), synchronous=synchronous, admit=refuse_foreign)
    if parsed and backend == "postgresql":
        return _postgres(parsed)
    raise InvalidSetting(
        f"database_url: {_without_password(url)!r} is not a database that Duetime supports. "
        "Accepted: sqlite:///<path> and postgresql://<user>@<host>/<name>. Example: sqlite:////home/alice/duetime.db"
    )


def _postgres(url: URL) -> Postgres:
    try:
        return Postgres(url.set(drivername="postgresql+psycopg"))
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            "database_url: PostgreSQL needs a driver that is not installed. In a checkout: pip install '.[postgres]'."
        ) from error


def _parsed(url: str) -> URL | None:
    try:
        url.encode()  # half a character is in no path and in no name of a host
        return None if "\0" in url else make_url(url)
    except (ArgumentError, ValueError):  # also of a port that is no number
        return None


def _without_password(url: str) -> str:
    return re.sub(r"(//[^:@/]*:).*@", r"\1***@", url)[:100].encode(errors="replace").decode()
