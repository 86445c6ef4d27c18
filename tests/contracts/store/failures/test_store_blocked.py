"""Blocked runs that are not due: one process takes each at its time, and stores what it found if nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import Change, IdempotencyKey
from duetime.scheduler.rules.changes import pause
from duetime.scheduler.rules.states import BLOCKED_ALERT_KEY, blocked_by
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.dispatch.blocked_runs import BlockedRun
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import TENANT, Clock, a_task, added, message, restarted, settlement, with_deadline

HOUR = timedelta(hours=1)
SAID = "blocked: no key"


def blocked(store: Store, at: datetime, **values: object) -> TaskRecord:
    task, run = a_task(at, action="transfer", **values)
    return store.tasks.add(task, replace(run, summary=SAID), actor="alice").record


def taken(store: Store, actions: Sequence[str] = ("transfer",), limit: int = 9) -> list[str]:
    def in_a_minute(_run_id: str, _since: datetime, now: datetime) -> datetime:
        return now + timedelta(minutes=1)

    return [run.task_id for run in store.blocked.take(actions, limit=limit, following=in_a_minute)]


def test_a_blocked_run_is_taken_once_at_each_of_its_times(store: Store, clock: Clock) -> None:
    first = blocked(store, clock() + HOUR).task.id
    added(store, clock() + HOUR, action="transfer")
    assert taken(store) == [], "it was checked when it was scheduled"
    clock.forward(seconds=30)
    second = blocked(store, clock() + HOUR, title="Later").task.id
    assert taken(store) == []
    clock.forward(seconds=30)
    assert taken(store, ["other"]) == []
    assert (taken(store), taken(store)) == ([first], [])
    clock.forward(minutes=5)
    assert (taken(store, limit=1), taken(store), taken(store)) == ([second], [first], [])


def test_a_blocked_run_that_expires_says_what_blocked_it(store: Store, clock: Clock) -> None:
    task, run = with_deadline(*a_task(action="transfer"), after=HOUR)
    record = store.tasks.add(task, replace(run, summary=SAID), actor="alice").record
    clock.forward(hours=2)
    assert store.claims.expire(limit=9)
    ended = store.tasks.get(TENANT, record.task.id).run
    assert (ended.state, ended.error) == (
        State.EXPIRED,
        "its deadline of Tue 24 Nov 2026 07:00 could no longer be met: it was blocked, no key",
    )


def test_a_paused_due_or_ended_run_is_not_taken(store: Store, clock: Clock) -> None:
    held, due = blocked(store, clock() + HOUR), blocked(store, clock(), title="Now")
    taken(store)
    clock.forward(minutes=2)
    store.tasks.change(TENANT, held.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    store.claims.make_ready(limit=9)
    assert store.tasks.get(TENANT, due.task.id).run.state is State.READY
    assert taken(store) == []


@pytest.mark.parametrize("missing", [None, "blocked: no account"])
def test_the_result_of_a_check_is_stored_unless_the_run_has_changed(
    store: Store, clock: Clock, missing: str | None
) -> None:
    record = blocked(store, clock() + HOUR)
    run = BlockedRun(record.run.id, TENANT, record.task.id, SAID)
    assert store.blocked.checked(run, missing)
    found = store.tasks.get(TENANT, record.task.id)
    assert blocked_by(found.run) == (missing and "no account")
    assert (found.run.state, found.task.revision) == (State.SCHEDULED, 1)
    told = [
        (event.kind, event.actor, event.reason)
        for event in store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=9).events
    ]
    mended = [(EventKind.UNBLOCKED, "duetime", "prerequisite available: no key")]
    assert told[:-1] == ([] if missing else mended)
    assert not store.blocked.checked(run, None), "it does not miss that any more"

    def end(found: TaskRecord) -> Change:
        return Change(found.task, replace(found.run, state=State.CANCELLED, wake_at=None, ended_at=clock()))

    other = blocked(store, clock() + HOUR, title="Gone")
    store.tasks.change(TENANT, other.task.id, actor="alice", kind=EventKind.CANCELLED, decide=end)
    assert not store.blocked.checked(BlockedRun(other.run.id, TENANT, other.task.id, SAID), None)


def reported(store: Store, record: TaskRecord) -> None:
    """Put the message that a run is blocked into the inbox of its user."""
    task, run = a_task(title=f"Blocked: {record.task.title}", tenant=record.task.tenant)
    key = IdempotencyKey(BLOCKED_ALERT_KEY.format(record.run.id), {"blocked": record.run.id})
    claim = restarted(store, store.tasks.add(task, run, actor="alice", key=key).record)
    store.claims.settle([settlement(claim, inbox=message(claim))])


@pytest.mark.parametrize("early", [True, False], ids=["before its time", "at its time"])
def test_the_message_about_a_blocked_run_is_read_once_nothing_is_missing(
    store: Store, clock: Clock, early: bool
) -> None:
    first, second = blocked(store, clock() + HOUR, title="First"), blocked(store, clock() + HOUR, title="Second")
    for record in (first, second):
        reported(store, record)

    def unread() -> list[str]:
        return sorted(each.title for each in store.inbox.unread(TENANT, "alice", limit=9))

    assert store.blocked.checked(BlockedRun(second.run.id, TENANT, second.task.id, SAID), "blocked: no account")
    store.blocked.read_alert("globex", first.run.id)
    assert unread() == ["Blocked: First", "Blocked: Second"]
    if early:
        store.blocked.checked(BlockedRun(first.run.id, TENANT, first.task.id, SAID), None)
    else:
        store.blocked.read_alert(TENANT, first.run.id)
    assert unread() == ["Blocked: Second"]


@pytest.mark.parametrize("many", [False, True])
def test_a_blocked_task_that_is_cancelled_says_no_more_what_it_misses(store: Store, clock: Clock, many: bool) -> None:
    task_id = blocked(store, clock() + HOUR).task.id
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    by = Principal(TENANT, "alice")
    if many:
        scheduler.bulk.change("cancel", [task_id], by=by)
    else:
        scheduler.cancel(task_id, by=by)
    assert store.tasks.get(TENANT, task_id).run.summary is None
    assert "no key" not in task_text(task_payload(scheduler.get(task_id, by=by)))
