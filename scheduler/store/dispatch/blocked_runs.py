"""Blocked runs that are not due: whose turn it is to be checked again, and what a check found.

`check_at` of a run is when it is checked next; each process takes other runs, so that one looks at each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.states import BLOCKED_ALERT_KEY, BLOCKED_PREFIX
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.deliveries import inbox
from duetime.scheduler.store.schema.tables.events import keys
from duetime.scheduler.store.schema.tables.tasks import BLOCKED_RUNS, runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements import event_log, read
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, false, null, select, text, true, update

_NOT_DUE = (State.SCHEDULED, State.WAITING)
_TO_CHECK = (
    select(runs.c.id, runs.c.tenant, runs.c.task_id, runs.c.summary, tasks.c.created_at)
    .join_from(runs, tasks, tasks.c.id == runs.c.task_id)
    .where(
        text(BLOCKED_RUNS),
        runs.c.state.in_(_NOT_DUE),
        runs.c.current == true(),
        tasks.c.paused == false(),
        tasks.c.action.in_(bindparam("actions", expanding=True)),
    )
    .limit(bindparam("most"))
    .with_for_update(of=[runs], skip_locked=True)
)
_NEW = _TO_CHECK.where(runs.c.check_at.is_(null())).order_by(runs.c.id)
_DUE = _TO_CHECK.where(runs.c.check_at <= bindparam("now", type_=Instant())).order_by(runs.c.check_at)
_LATER = Batch(update(runs).where(runs.c.id == bindparam("run_id")).values(check_at=bindparam("at")))
_ALERTS = select(keys.c.task_id).where(keys.c.tenant == bindparam("of"), keys.c.key == bindparam("alert"))
_READ = (
    update(inbox)
    .where(inbox.c.tenant == bindparam("of"), inbox.c.task_id.in_(_ALERTS), inbox.c.read_at.is_(None))
    .values(read_at=bindparam("now", type_=Instant()))
)

NextCheck = Callable[[str, datetime, datetime], datetime]
"""Returns the time of a run's next check, from its id, the time its task was made, and now."""


@dataclass(frozen=True, slots=True)
class BlockedRun:
    """A blocked run that is to be checked, and what its last check found missing."""

    run_id: str
    tenant: str
    task_id: str
    missing: str


class BlockedRuns:
    """Blocked runs that are not due, of all tenants. Any number of processes may call."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def take(self, actions: Collection[str], *, limit: int, following: NextCheck) -> list[BlockedRun]:
        """Return at most `limit` runs whose check is due, and date the next one of each and of those that are new."""

        def work(connection: Connection) -> list[BlockedRun]:
            now = self._now()
            parameters = {"actions": list(actions), "most": limit, "now": now}
            due, new = (unreadable.rows(connection, each, parameters) for each in (_DUE, _NEW))
            dated = [{"run_id": row.id, "at": following(row.id, row.created_at, now)} for row in (*due, *new)]
            _LATER.run(connection, dated)
            return [BlockedRun(row.id, row.tenant, row.task_id, row.summary) for row in due]

        return self._database.write(work, durable=False)

    def checked(self, run: BlockedRun, missing: str | None) -> bool:
        """Store what the check found missing, None if nothing; False where the run has changed since it was taken."""

        def work(connection: Connection) -> bool:
            record, now = read.locked_record(connection, run.tenant, run.task_id), self._now()
            found = record.run
            if found.id != run.run_id or found.state not in _NOT_DUE or found.summary != run.missing:
                return False
            connection.execute(update(runs).where(runs.c.id == found.id).values(summary=missing))
            if missing is None:
                message = f"prerequisite available: {run.missing.removeprefix(BLOCKED_PREFIX)}"
                names = (run.tenant, run.task_id, found.id)
                kind, actor = EventKind.UNBLOCKED, DUETIME_ACTOR
                event_log.append(connection, [event_log.entry(*names, now, kind=kind, actor=actor, reason=message)])
                _read_alert(connection, run.tenant, run.run_id, now)
            return True

        return self._database.write(work)

    def read_alert(self, tenant: str, run_id: str) -> None:
        """Mark the message that reported a blocked run as read: nothing is missing any more."""
        self._database.write(lambda connection: _read_alert(connection, tenant, run_id, self._now()))


def _read_alert(connection: Connection, tenant: str, run_id: str, now: datetime) -> None:
    connection.execute(_READ, {"of": tenant, "alert": BLOCKED_ALERT_KEY.format(run_id), "now": now})
