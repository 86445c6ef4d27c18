"""Leaves out due runs that were missed for too long, that a later one stands for, or that are asked for first."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.rules.series.before_run import EVENT_MEMBER, IN_CHAIN
from duetime.scheduler.rules.series.catch_up import catch_up, catches_up
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.approvals import occurrences
from duetime.scheduler.store.statements.series import generation_catch_up, moved_turns
from duetime.scheduler.store.statements.signals import own_waits, run_waits
from duetime.scheduler.task import Overlap, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Row

ON_TIME = timedelta(seconds=30)
"""A run that is due for less than this was not missed: its process looked a little later."""

MAX_TIME_TO_END = timedelta(minutes=1)
"""The longest time that a wait which cannot be ended holds its run up."""

MISSED_REASON = "missed: nothing ran at its time"

log = logging.getLogger(__name__)


class Held(NamedTuple):
    """Due runs that may not run yet: the `approval_tasks` ask first, and the `awaited` runs need an event first."""

    approval_tasks: Sequence[str]
    awaited: Sequence[str]


def without(connection: Connection, found: Sequence[Row[Any]], now: datetime) -> tuple[Sequence[Row[Any]], Held]:
    """Return the rows of runs that may run, and those that are held.

    Missed ones are skipped, and the occurrence that stands for them follows. An open run of their series may hold
    others up. Runs that are asked for first wait now. Runs that need an event first are left as they are. So are those
    whose wait has not ended yet: the transaction that ends it decides whether the event came in time.
    """
    if suspended := [row.id for row in found if row.state is State.SUSPENDED and now - row.wake_at < MAX_TIME_TO_END]:
        still_open = run_waits.still_open(connection, suspended)
        found = [row for row in found if row.id not in still_open]
    missed = [row for row in found if _is_missed(row, now)]
    replaced = {row.id for row in missed if row.repeat is not None and _left_out(connection, row, now)}
    if steps := [row.task_id for row in missed if row.repeat is None]:
        replaced |= generation_catch_up.left_out(connection, steps, _decided, MISSED_REASON, now)
    left = [row for row in found if row.id not in replaced]
    if changed := {row.task_id for row in left if _may_be_held_up(row)}:
        left = moved_turns.without_held(connection, left, changed, now)
    needing = [row.id for row in left if _needs_event(row)]
    awaited = own_waits.yet_to_wait(connection, needing) if needing else []
    ready, asked = occurrences.without_unasked(connection, [row for row in left if row.id not in awaited], now)
    return ready, Held(asked, awaited)


def _may_be_held_up(row: Row[Any]) -> bool:
    """Whether a run is of a changed series that keeps its runs apart: only in such a one an occurrence was moved."""
    apart = row.repeat_policy is None or row.repeat_policy.overlap is not Overlap.ALLOW_ALL
    return row.repeat is not None and row.revision > 1 and row.attempt == 0 and apart


def _needs_event(row: Row[Any]) -> bool:
    """Whether a run waits before its first start; a series runs next to its current run for nothing but a call."""
    event = row.asks.get(EVENT_MEMBER) if row.asks is not None and row.attempt == 0 else None
    return event is not None and (row.current or bool(event.get(IN_CHAIN)))


def _is_missed(row: Row[Any], now: datetime) -> bool:
    late = row.state is State.SCHEDULED and row.attempt == 0 and now - row.wake_at > ON_TIME
    return late and catches_up(row.repeat_policy)


def _left_out(connection: Connection, row: Row[Any], now: datetime) -> bool:
    record = read.locked_record(connection, row.tenant, row.task_id)
    change = _decided(record, now) if record.run.id == row.id else None
    if change is None:
        return False
    changing.apply(connection, record, change, ChangeOrigin(DUETIME_ACTOR, EventKind.SKIPPED, MISSED_REASON), now)
    return True


def _decided(record: TaskRecord, now: datetime) -> Change | None:
    """Return what takes the place of a missed run; nothing where the zone or the rule cannot be read: then it runs."""
    try:
        return catch_up(record, now)
    except Exception:
        log.exception("%s was missed; no replacement occurrence could be computed, so it runs", record.run.id)
        return None
