"""Leases: a worker renews those of its runs, learns which of them to stop, and notes what its attempts have done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.store.dispatch import recover
from duetime.scheduler.store.schema.tables.tasks import attempts, runs
from duetime.scheduler.task import State
from sqlalchemy import Connection, Update, bindparam, false, select, update

_THESE = runs.c.id.in_(bindparam("run_ids", expanding=True))
_MINE = (_THESE, runs.c.state == State.RUNNING, runs.c.worker == bindparam("of_worker"))
_RENEW = update(runs).where(*_MINE).values(lease_until=bindparam("until"))
_ANNOUNCE_END = (
    update(attempts)
    .where(attempts.c.run_id.in_(select(runs.c.id).where(*_MINE)), attempts.c.ended_at.is_(None))
    .values(reason=bindparam("why"))
)
_STILL_MINE = select(runs.c.id).where(*_MINE, runs.c.cancel_requested == false())


def _while_running(**values: object) -> Update:
    fenced = (runs.c.id == bindparam("run_id"), runs.c.attempt == bindparam("fence"), runs.c.state == State.RUNNING)
    return update(runs).where(*fenced).values(**values)


PROGRESS = _while_running(progress=bindparam("value"))
CHECKPOINT = _while_running(checkpoint=bindparam("value"))


def renew(connection: Connection, run_ids: Sequence[str], worker: str, until: datetime) -> set[str]:
    """Renew the leases of runs of a worker `until` then; return the runs to stop."""
    connection.execute(_RENEW, {"run_ids": list(run_ids), "of_worker": worker, "until": until})
    return unwanted(connection, run_ids, worker)


def unwanted(connection: Connection, run_ids: Sequence[str], worker: str) -> set[str]:
    """Return the runs to stop: a cancel was requested, or another worker owns them."""
    mine = {"run_ids": list(run_ids), "of_worker": worker}
    return set(run_ids).difference(connection.execute(_STILL_MINE, mine).scalars())


def announce_end(connection: Connection, run_ids: Sequence[str], worker: str) -> None:
    """Note that a worker shuts down, before it hands back these runs: none of them counts as crashed."""
    mine = {"run_ids": list(run_ids), "of_worker": worker, "why": recover.ENDED_IN_ORDER}
    connection.execute(_ANNOUNCE_END, mine)
