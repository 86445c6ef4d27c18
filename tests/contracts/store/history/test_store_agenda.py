"""The store's part of an agenda, on each database: open tasks of a window behind a place, and what recurs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists import agenda
from duetime.scheduler.views import TaskFilter

from tests.builders import NOON, TENANT, added, cancelled

HOUR = timedelta(hours=1)
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
