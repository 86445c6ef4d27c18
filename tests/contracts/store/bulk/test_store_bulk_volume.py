"""Changes of very many tasks: few statements, short transactions, and the same rows as many changes of one task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import MAX_TASKS_AT_ONCE, BulkResult
from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.bulk import plain_changes
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.tables.tasks import tasks as stored_tasks
from duetime.scheduler.task import State
from sqlalchemy import select, update

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import MORNING, Desk
from tests.contracts.store.statement_log import statements_of

pytestmark = on_each_database

FEW_COUNT, MORE_COUNT = 8, 40
CALLS: list[dict[str, str]] = [{"change": "cancel"}, {"change": "pause"}, {"change": "move", "to": "1 day later"}]


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "Europe/Berlin", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def change(target: Desk, ids: Sequence[str], call: dict[str, str], **more: Any) -> BulkResult:
    return target.scheduler.bulk.change(task_ids=ids, **call, **more)  # type: ignore[arg-type]  # the words of a verb


def tasks(target: Desk, number: int) -> list[str]:
    return [target.schedule(when="tomorrow 14:00") for _ in range(number)]


@pytest.mark.parametrize("call", CALLS)
def test_a_change_of_more_tasks_takes_no_more_statements_and_neither_does_its_undo(
    target: Desk, call: dict[str, str]
) -> None:
    made, undone = list[int](), list[int]()
    for number in (FEW_COUNT, MORE_COUNT):
        ids = tasks(target, number)
        with statements_of(target.store) as statements:
            done = change(target, ids, call)
        made.append(len(statements))
        with statements_of(target.store) as statements:
            back = target.scheduler.bulk.change("undo", undo=done.undo)
        undone.append(len(statements))
        assert dict(done.counts) == dict(back.counts) == {"changed": number}
    assert made[0] == made[1] < MORE_COUNT
    assert undone[0] == undone[1] < MORE_COUNT


def all_kinds(target: Desk) -> tuple[list[str], str]:
    """Schedule one task of each kind; return those that a call is to change, and one that comes after one of them."""
    running, asked = target.schedule(when="in 1 minute"), target.schedule(when="tomorrow 9:00", approval="May I?")
    target.clock.at += timedelta(minutes=1)
    target.start()
    ready = target.schedule(when="in 1 minute")
    daily, beside = (target.schedule(repeat=f"every day at {hour}:00") for hour in (9, 10))
    target.scheduler.act(beside, "run_now")
    awaiting = target.schedule(wait_for={"event": "paid"})
    approved = target.schedule(when="tomorrow 9:30", approval="May I?")
    target.scheduler.approve(approved)
    plain = update(stored_tasks).where(stored_tasks.c.id == approved).values(asks=None)  # as older versions stored it
    target.store._database.write(lambda connection: connection.execute(plain))
    upstream = target.schedule(when="tomorrow 11:00")
    downstream, outside = (target.schedule(after=[upstream]) for _ in range(2))
    paused, ended = (target.schedule(when="tomorrow 12:00", labels=["home"], deadline="in 3 days") for _ in range(2))
    target.scheduler.reschedule(paused, pause=True)
    target.scheduler.cancel(ended)
    target.clock.at += timedelta(minutes=1)
    target.store.claims.make_ready(limit=9)
    ids = [running, ready, asked, approved, daily, beside, awaiting, upstream, downstream, paused, ended]
    return [*ids, *tasks(target, 2)], outside


def told(found: Event) -> tuple[Any, ...]:
    moved = (found.from_state, found.to_state, found.attempt, found.before, found.after)
    return (found.seq, found.at, found.kind, found.actor, nameless(found.reason), found.via, nameless(str(moved)))


def nameless(text: str | None) -> str:
    """Return a text without the ids of tasks and runs."""
    return re.sub(r"\b[tr]_\w+", "it", text or "")


def ends(target: Desk, task_id: str) -> list[Any]:
    """Return when the waits of a task and its questions ended."""
    waits = select(signal_waits.c.closed_at).where(signal_waits.c.task_id == task_id)
    asked = select(approvals.c.closed_at).join(runs, runs.c.id == approvals.c.run_id).where(runs.c.task_id == task_id)
    by_end = waits.order_by(signal_waits.c.closed_at), asked.order_by(approvals.c.closed_at)
    read = target.store._database.read
    return [read(lambda connection: connection.execute(each).scalars().all()) for each in by_end]  # noqa: B023 - it is called at once


def rows(target: Desk, task_id: str) -> list[dict[str, Any]]:
    """Return the runs of a task as they are stored, less their names."""
    mine = select(runs).where(runs.c.task_id == task_id).order_by(runs.c.scheduled_for, runs.c.generation)
    stored = target.store._database.read(lambda connection: connection.execute(mine).mappings().all())
    alike = [{**row, "summary": nameless(row["summary"])} for row in stored]
    return [{name: value for name, value in row.items() if name not in {"id", "task_id", "repeats"}} for row in alike]


def history(target: Desk, task_id: str) -> list[tuple[Any, ...]]:
    return [told(each) for each in target.scheduler.past.events(EventFilter(task_id=task_id)).events]


def ids_of(done: BulkResult) -> list[str]:
    return [each.record.task.id for each in done.outcomes]


def stored(target: Desk, task_id: str) -> tuple[Any, ...]:
    return ends(target, task_id), rows(target, task_id), history(target, task_id)


@pytest.mark.parametrize("call", [*CALLS, {"change": "pause", "to": "in 2 days"}, {"change": "resume"}])
def test_tasks_that_are_changed_together_become_what_each_becomes_alone(
    target: Desk, call: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[Any]] = []
    for together in (True, False):
        target.clock.at = MORNING
        ids, outside = all_kinds(target)
        if not together:
            monkeypatch.setattr(plain_changes, "is_plain", lambda *_: False)
        done = change(target, ids, call, reason="the fair is off")
        became = {each.record.task.id: (each.became, each.was, each.side_run_at) for each in done.outcomes}
        every = [*ids, outside]
        after = [(became.get(each), *stored(target, each)) for each in every]
        target.clock.at += timedelta(minutes=1)
        back = target.scheduler.bulk.change("undo", undo=done.undo)
        assert [each.record for each in back.outcomes] == target.store.batches.still("local", ids_of(back))
        undone = {each.record.task.id: (each.became, nameless(each.why)) for each in back.outcomes}
        found.append([after, [(undone.get(each), *stored(target, each)) for each in every]])
    assert found[0] == found[1]


def test_many_tasks_are_changed_in_short_transactions_and_taken_back_by_one_undo(
    target: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tasks(target, 2 * MAX_TASKS_AT_ONCE)
    behind = target.schedule(after=[ids[0]])
    given = [*ids, behind]
    parts, whole = list[list[str]](), target.store.batches.change

    def noted(tenant: str, task_ids: Sequence[str], *args: Any, **kwargs: Any) -> Any:
        parts.append(list(task_ids))
        return whole(tenant, task_ids, *args, **kwargs)

    monkeypatch.setattr(target.store.batches, "change", noted)
    done = change(target, given, {"change": "cancel"})
    assert [len(each) for each in parts] == [MAX_TASKS_AT_ONCE, MAX_TASKS_AT_ONCE, 1]
    assert {ids[0], behind} <= set(parts[0]), "what comes after another task is cancelled with it"
    assert [each.record.task.id for each in done.outcomes] == given
    target.scheduler.bulk.change("undo", undo=done.undo)
    assert [target.scheduler.get(each).record.run.state for each in given] == [
        *[State.SCHEDULED] * len(ids),
        State.WAITING,
    ]
