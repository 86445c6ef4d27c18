"""Says why runs stand as they do: who cancelled them and why, why others were skipped, what blocked ones miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.task_filter import BLOCKED_RUN
from duetime.scheduler.task import State
from sqlalchemy import Connection, and_, bindparam, or_, select

_DECIDED = or_(
    events.c.kind.in_((EventKind.CANCEL_REQUESTED, EventKind.REJECTED, EventKind.SKIPPED)),
    and_(
        events.c.kind == EventKind.CANCELLED, or_(events.c.from_state != State.RUNNING, events.c.from_state.is_(None))
    ),
)
"""Not the end of a run that was asked to stop: its worker wrote that."""

_NEWEST = (
    select(events.c.seq)
    .where(events.c.task_id == runs.c.task_id, events.c.run_id == runs.c.id, _DECIDED)
    .order_by(events.c.seq.desc())
    .limit(1)
    .correlate(runs)
    .scalar_subquery()
)
_OF_RUNS = (
    select(runs.c.id, runs.c.state, events.c.actor, events.c.reason)
    .join_from(runs, events, and_(events.c.task_id == runs.c.task_id, events.c.seq == _NEWEST))
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
)

_BLOCKED = select(runs.c.id, runs.c.summary).where(runs.c.id.in_(bindparam("run_ids", expanding=True)), BLOCKED_RUN)


def stops_in_words(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, str]:
    """Return who cancelled or skipped these runs, with the reason; one whose event is gone is left out."""
    if not run_ids:
        return {}
    found = unreadable.rows(connection, _OF_RUNS, {"run_ids": list(run_ids)})
    return {run_id: _stopped(state, actor, reason) for run_id, state, actor, reason in found}


def _stopped(state: str, actor: str, reason: str | None) -> str:
    return f"{state} by {actor}{f': {reason}' if reason else ''}"


def misses_in_words(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, str]:
    """Return what those of these runs miss that are blocked."""
    if not run_ids:
        return {}
    found = unreadable.rows(connection, _BLOCKED, {"run_ids": list(run_ids)})
    return {run_id: summary.removeprefix(BLOCKED_PREFIX) for run_id, summary in found}
