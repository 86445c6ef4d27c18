"""Tasks that fall due during a pause with an end: every answer says when they will really run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskFilter
from duetime.widgets.bulk.payload import bulk_payload
from duetime.widgets.bulk.text import bulk_text
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, restarted

STEPS = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
PAUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a chain that recurs": ({"repeat": "every day at 9:00", "steps": STEPS}, "2026-11-23T12:30:00Z"),
    "a chain that runs once": ({"when": "9:00", "steps": STEPS}, "2026-11-23T12:30:00Z"),
    "a task that runs once": ({"when": "9:00"}, "2026-11-23T12:30:00Z"),
    "a task that recurs": ({"repeat": "every day at 9:00"}, "2026-11-24T09:00:00Z"),
    "a task that catches up": (
        {"repeat": "every day at 9:00", "repeat_policy": {"coalesce": "latest"}},
        "2026-11-23T12:30:00Z",
    ),
    "a task that is due later": ({"when": "15:00"}, "2026-11-23T15:00:00Z"),
}


@pytest.fixture
def scheduler(store: Store, clock: Clock) -> Scheduler:
    clock.at = datetime(2026, 11, 23, 8, tzinfo=UTC)
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Scheduler(store, planner)


@pytest.mark.parametrize("hour", [8, 10], ids=["before it is due", "after that"])
@pytest.mark.parametrize("what", PAUSED)
def test_every_answer_says_when_a_paused_task_runs(scheduler: Scheduler, clock: Clock, what: str, hour: int) -> None:
    given, runs = PAUSED[what]
    made = scheduler.schedule("Report", **given)
    task_id = made.chain.id if made.chain else made.record.task.id
    paused = scheduler.reschedule(task_id, pause_until="12:30")
    shown = f"{datetime.fromisoformat(runs):%a %d %b}"
    assert task_payload(paused).when.utc == runs
    clock.at = clock.at.replace(hour=hour)
    view = scheduler.get(task_id)
    payload = task_payload(view)
    assert payload.when.utc == runs
    assert f"{shown} 2026 {runs[11:16]} UTC" in task_text(payload).splitlines()[0]
    assert {step.when for step in ((payload.chain and payload.chain.steps) or ())} <= {runs}
    page = scheduler.tasks.list(TaskFilter())
    assert {row.when for row in whole_list_payload(page).tasks} == {runs}
    assert f" {shown} {runs[11:16]} paused until Mon 23 Nov 12:30," in list_text(page)


@pytest.mark.parametrize("what", [what for what in PAUSED if "steps" not in PAUSED[what][0]])
def test_a_change_of_many_says_when_a_paused_task_runs(scheduler: Scheduler, clock: Clock, what: str) -> None:
    given, runs = PAUSED[what]
    task_id = scheduler.schedule("Report", **given).record.task.id
    shown = f"«Report» {datetime.fromisoformat(runs):%a %d %b} 2026 {runs[11:16]}"
    paused = scheduler.bulk.change("pause", task_ids=[task_id], to="12:30")
    clock.at = clock.at.replace(hour=10)
    preview = scheduler.bulk.change("cancel", task_ids=[task_id], dry_run=True)
    for result in (paused, preview):
        assert shown in bulk_text(result)
        assert [row.when for row in bulk_payload(result).tasks] == [runs]
    for dry_run in (True, False):
        moved = scheduler.bulk.change("move", task_ids=[task_id], to="2 days later", dry_run=dry_run)
        assert [row.was for row in bulk_payload(moved).tasks] == [runs]
        assert f"{shown} -> " in bulk_text(moved)


@pytest.mark.parametrize(
    ("repeat", "note"),
    [
        ("every day at 8:30", ("it now runs Tue 24 Nov 2026 08:30, before Tue 24 Nov 2026 09:00 when it was due",)),
        ("every monday at 8:30", ()),
        ("every day at 13:00", ("it now runs Mon 23 Nov 2026 13:00, before Tue 24 Nov 2026 09:00 when it was due",)),
    ],
)
def test_a_new_rule_is_said_to_run_earlier_where_it_does_after_the_pause(
    scheduler: Scheduler, clock: Clock, repeat: str, note: tuple[str, ...]
) -> None:
    task_id = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    scheduler.reschedule(task_id, pause_until="12:30")
    clock.forward(minutes=1)
    assert scheduler.reschedule(task_id, repeat=repeat).warnings == note


def test_an_undo_of_many_names_no_time_at_which_a_pause_held_a_task(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Report", when="9:00").record.task.id
    scheduler.reschedule(task_id, pause_until="12:30")
    moved = scheduler.bulk.change("move", task_ids=[task_id], to="10:00")
    undone = scheduler.bulk.change("undo", undo=moved.undo)
    for result in (moved, undone):
        assert [(row.was, row.when) for row in bulk_payload(result).tasks] == [(None, "2026-11-23T12:30:00Z")]


MOVES: dict[str, Callable[[Scheduler, str], object]] = {
    "it is moved": lambda scheduler, task_id: scheduler.reschedule(task_id, when="2 hours later"),
    "it is moved with others": lambda scheduler, task_id: scheduler.bulk.change(
        "move", task_ids=[task_id], to="2 hours later"
    ),
    "it is snoozed": lambda scheduler, task_id: scheduler.act(task_id, "snooze", minutes=120),
    "it is snoozed in words": lambda scheduler, task_id: scheduler.act(task_id, "snooze", until="2 hours later"),
}


@pytest.mark.parametrize(
    ("what", "how"),
    [(what, how) for what in PAUSED for how in MOVES if "snoozed" not in how or "steps" not in PAUSED[what][0]],
)
def test_a_paused_task_is_moved_from_the_time_that_was_shown(
    scheduler: Scheduler, clock: Clock, what: str, how: str
) -> None:
    given, shown = PAUSED[what]
    made = scheduler.schedule("Report", **given)
    task_id = made.chain.id if made.chain else made.record.task.id
    scheduler.reschedule(task_id, pause_until="12:30")
    clock.at = clock.at.replace(hour=10)
    MOVES[how](scheduler, task_id)
    later = datetime.fromisoformat(shown) + timedelta(hours=2)
    assert datetime.fromisoformat(task_payload(scheduler.get(task_id)).when.utc) == later


def test_a_move_of_many_says_when_a_pause_held_a_chain_before(scheduler: Scheduler) -> None:
    made = scheduler.schedule("Report", **PAUSED["a chain that runs once"][0])
    assert made.chain
    scheduler.reschedule(made.chain.id, pause_until="12:30")
    moved = scheduler.bulk.change("move", task_ids=[made.chain.id], to="2 hours later")
    assert {(row.was, row.when) for row in bulk_payload(moved).tasks} == {
        ("2026-11-23T12:30:00Z", "2026-11-23T14:30:00Z")
    }


def test_an_occurrence_that_is_moved_into_its_pause_is_said_to_be_left_out(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    scheduler.reschedule(task_id, pause_until="12:30")
    moved = scheduler.reschedule(task_id, when="11:00")
    said = "Mon 23 Nov 2026 11:00 is in its pause until Mon 23 Nov 2026 12:30, so this occurrence is left out"
    assert said in moved.warnings


def test_an_occurrence_that_runs_at_the_end_of_its_pause_is_not_said_to_be_left_out(scheduler: Scheduler) -> None:
    given, _ = PAUSED["a task that catches up"]
    task_id = scheduler.schedule("Report", **given).record.task.id
    scheduler.reschedule(task_id, pause_until="12:30")
    assert not any("left out" in each for each in scheduler.reschedule(task_id, when="11:00").warnings)


def test_the_end_of_the_pause_runs_the_tasks_whose_time_was_shown_as_that(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    for given, _ in PAUSED.values():
        made = scheduler.schedule("Report", **given)
        scheduler.reschedule(made.chain.id if made.chain else made.record.task.id, pause_until="12:30")
    shown = {row.id: row.when for row in whole_list_payload(scheduler.tasks.list(TaskFilter())).tasks}
    clock.at = clock.at.replace(hour=12, minute=30)
    store.series.end_pauses(limit=99)
    store.claims.make_ready(limit=99)
    ready = {run.task_id for run in store.claims.ready(limit=99)}
    first = {task_id for task_id, at in shown.items() if at == "2026-11-23T12:30:00Z"}
    waiting = {
        each.record.task.id for each in scheduler.tasks.list(TaskFilter()).views if each.record.run.state == "waiting"
    }
    assert ready == first - waiting


CHANGES_OF_THE_NEXT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "it is skipped": ({"skip_next": True}, ["2026-11-25T09:00:00Z", "2026-11-26T09:00:00Z"]),
    "it is moved": ({"when": "tuesday 10:00"}, ["2026-11-24T10:00:00Z", "2026-11-25T09:00:00Z"]),
    "it is moved earlier": ({"when": "tuesday 8:45"}, ["2026-11-24T08:45:00Z", "2026-11-25T09:00:00Z"]),
    "it is moved onto the next one": ({"when": "wednesday 9:00"}, ["2026-11-25T09:00:00Z", "2026-11-26T09:00:00Z"]),
}


@pytest.mark.parametrize("change", CHANGES_OF_THE_NEXT)
def test_a_change_of_the_next_occurrence_of_a_paused_series_is_of_the_one_after_the_pause(
    scheduler: Scheduler, store: Store, clock: Clock, change: str
) -> None:
    given, runs = CHANGES_OF_THE_NEXT[change]
    clock.at = datetime(2026, 11, 20, 8, tzinfo=UTC)
    task_id = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    scheduler.reschedule(task_id, pause_until="tuesday 8:30")
    before = scheduler.get(task_id).coming
    tried = scheduler.reschedule(task_id, **given, dry_run=True)
    changed = scheduler.reschedule(task_id, **given)
    assert [task_payload(view).when.utc for view in (tried, changed)] == [runs[0]] * 2
    scheduler.act(task_id, "undo", undo=changed.undo)
    assert scheduler.get(task_id).coming == before
    scheduler.reschedule(task_id, **given)
    clock.at = datetime(2026, 11, 24, 8, 30, tzinfo=UTC)
    assert store.series.end_pauses(limit=9) == [task_id]
    view = scheduler.get(task_id)
    assert ([each.instant for each in view.coming[:2]], view.record.side_runs) == (
        [datetime.fromisoformat(each) for each in runs],
        (),
    )


@pytest.mark.parametrize("by", [{"minutes": 30}, {"until": "tuesday 9:30"}])
def test_a_snooze_of_a_paused_series_is_of_the_occurrence_after_the_pause(
    scheduler: Scheduler, store: Store, clock: Clock, by: dict[str, Any]
) -> None:
    clock.at = datetime(2026, 11, 20, 8, tzinfo=UTC)
    task_id = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    scheduler.reschedule(task_id, pause_until="tuesday 8:30")
    before = scheduler.get(task_id).coming
    snoozed = scheduler.act(task_id, "snooze", **by)
    assert task_payload(snoozed).when.utc == "2026-11-24T09:30:00Z"
    scheduler.act(task_id, "undo", undo=snoozed.undo)
    assert scheduler.get(task_id).coming == before
    scheduler.act(task_id, "snooze", **by)
    clock.at = datetime(2026, 11, 24, 8, 30, tzinfo=UTC)
    assert store.series.end_pauses(limit=9) == [task_id]
    runs = [datetime(2026, 11, 24, 9, 30, tzinfo=UTC), datetime(2026, 11, 25, 9, tzinfo=UTC)]
    assert [each.instant for each in scheduler.get(task_id).coming[:2]] == runs


def test_a_snooze_of_an_outcome_leaves_the_next_run_of_a_paused_series_as_it_is(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    clock.at = datetime(2026, 11, 20, 8, tzinfo=UTC)
    task_id = scheduler.schedule("Report", repeat="every day at 9:00").record.task.id
    clock.at = datetime(2026, 11, 20, 9, tzinfo=UTC)
    claim = restarted(store, store.tasks.get("local", task_id))
    store.claims.settle([settle(claim, Done(), now=store.now(), jitter=0.5)])
    scheduler.reschedule(task_id, pause_until="tuesday 8:30")
    before = store.tasks.get("local", task_id).run
    found = scheduler.act(task_id, "snooze", minutes=30).record
    assert (found.run, len(found.side_runs)) == (before, 1)
