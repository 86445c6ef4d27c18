"""The store's part of an agenda, on each database: open tasks of a window behind a place, and what recurs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists import agenda
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord

from tests.builders import NOON, TENANT, added, cancelled

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
WINDOW = TaskFilter(after=NOON + HOUR, before=NOON + 4 * HOUR)


def test_open_tasks_of_the_window_and_all_that_recur_before_its_end(store: Store) -> None:
    early = added(store, NOON, repeat="FREQ=HOURLY", title="early")
    once = added(store, NOON + 2 * HOUR, title="once")
    within = added(store, NOON + 3 * HOUR, repeat="FREQ=DAILY", title="within")
    added(store, NOON + 5 * HOUR, repeat="FREQ=DAILY", title="beyond")
    cancelled(store, added(store, NOON + 2 * HOUR, repeat="FREQ=DAILY", title="cancelled"))
    added(store, NOON + 2 * HOUR, repeat="FREQ=HOURLY", tenant="other")

    found = store.tasks.agenda(TENANT, WINDOW, limit=9)
    assert found is not None
    assert [(at, record.task.id) for at, record in found.rows] == [
        (NOON + 2 * HOUR, once.task.id),
        (NOON + 3 * HOUR, within.task.id),
    ]
    assert [series.record.task.id for series in found.recurring] == [early.task.id, within.task.id]
    assert (found.behind, found.complete) == (None, True)

    cursor = store.tasks.cursor_behind(TENANT, WINDOW, (NOON + 2 * HOUR, once.task.id))
    behind = store.tasks.agenda(TENANT, WINDOW, limit=9, cursor=cursor)
    assert behind is not None
    assert [record.task.id for _, record in behind.rows] == [within.task.id]
    assert behind.behind == (NOON + 2 * HOUR, once.task.id)
    assert store.tasks.agenda(TENANT, WINDOW, limit=9, cursor=store.tasks.cursor_behind(TENANT, WINDOW, None)) is None


def changed(store: Store, record: TaskRecord, kind: EventKind, decide: Callable[[TaskRecord], Change]) -> None:
    store.tasks.change(TENANT, record.task.id, actor="ann", kind=kind, decide=decide)


def held_until(store: Store, record: TaskRecord, until: datetime) -> None:
    changed(store, record, EventKind.PAUSED, lambda found: changes.pause(found, until))


def test_tasks_that_a_pause_holds_until_a_time_are_apart_and_count_from_then(store: Store) -> None:
    held = added(store, NOON, title="held")
    held_until(store, held, NOON + 2 * HOUR)
    later = added(store, NOON, title="beyond")
    held_until(store, later, NOON + 9 * HOUR)
    found = store.tasks.agenda(TENANT, WINDOW, limit=9)
    assert found is not None
    assert ([record.task.id for record in found.held], found.rows) == ([held.task.id], [])
    records, _, counts = store.tasks.page_and_counts(TENANT, WINDOW, limit=9, cursor=None, most=9)
    assert [record.task.id for record in records] == [held.task.id]
    assert counts.by_state == {State.SCHEDULED: 1}
    from_then_on = TaskFilter(after=NOON + HOUR)
    records, _, counts = store.tasks.page_and_counts(TENANT, from_then_on, limit=9, cursor=None, most=9)
    assert {record.task.id for record in records} == {held.task.id, later.task.id}
    assert counts.by_state == {State.SCHEDULED: 2}


def test_pages_have_each_single_task_that_a_pause_holds_however_many_these_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda, "MAX_RECURRING_TASKS", 2)
    made = [added(store, NOON + minute * MINUTE, title=f"held {minute}") for minute in (150, 10, 0, 170, 5)]
    for record in made:
        held_until(store, record, NOON + 2 * HOUR)
    found: list[str] = []
    cursor = None
    while page := store.tasks.agenda(TENANT, WINDOW, limit=2, cursor=cursor):
        found += [record.task.id for record in page.held]
        last = page.held[-1] if page.held else None
        place = (max(NOON + 2 * HOUR, last.run.scheduled_for), last.task.id) if last else None
        cursor = store.tasks.cursor_behind(TENANT, WINDOW, place)
        assert page.complete
    due_at_its_end = sorted(made[n].task.id for n in (1, 2, 4))
    assert found == [*due_at_its_end, made[0].task.id, made[3].task.id]


def test_a_run_next_to_the_current_one_brings_its_task_into_the_window(store: Store) -> None:
    weekly = added(store, NOON + timedelta(days=7), repeat="FREQ=WEEKLY")
    now = NOON + 2 * HOUR
    changed(store, weekly, EventKind.RUN_NOW, lambda found: changes.run_now(found, now))
    found = store.tasks.agenda(TENANT, WINDOW, limit=9)
    assert found is not None
    assert (found.rows, [series.record.task.id for series in found.recurring]) == ([], [weekly.task.id])


@pytest.mark.parametrize("bound", ["MAX_RECURRING_TASKS", "MAX_OPEN_RUNS_SEARCHED"])
def test_the_search_for_what_recurs_is_bounded_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(agenda, bound, 2)
    for number in range(3):
        added(store, NOON + HOUR, repeat="FREQ=HOURLY", title=f"task {number}")
    found = store.tasks.agenda(TENANT, WINDOW, limit=9)
    assert found is not None
    assert (len(found.recurring), found.complete) == (2, False)
