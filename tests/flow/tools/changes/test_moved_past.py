"""An occurrence that is moved past later ones of its series: none of these is lost, and the answer says what comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskView

from tests import blank
from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of, settled

HOME = "America/New_York"
THURSDAY = datetime(2026, 10, 29, 14, 20, tzinfo=UTC)  # 10:20 at home; its clocks go back on Sunday
SECOND = timedelta(seconds=1)
STRETCH: dict[str, Any] = {"title": "Stretch", "repeat": "every weekday at 10:30"}
STAY = "only the next occurrence was moved; those before its new time stay"
AS_ONE = "moved onto that of Mon 2 Nov 2026 10:30: they run as one"


@pytest.fixture
def clock() -> Clock:
    return Clock(THURSDAY)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield store
    store.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), HOME, upstreams=store.dependencies.known))


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


@pytest.fixture
def stretch(scheduler: Scheduler) -> str:
    return scheduler.schedule(**STRETCH).record.task.id


def side_times(view: TaskView) -> list[datetime]:
    return [run.scheduled_for for run in view.record.side_runs]


def test_occurrences_before_the_new_time_of_a_moved_one_run(
    scheduler: Scheduler, store: Store, clock: Clock, stretch: str
) -> None:
    scheduler.reschedule(stretch, when="monday 11:00")
    ran = list[tuple[int, int, int]]()
    while clock() < THURSDAY + timedelta(days=6):
        clock.forward(minutes=10)
        before = store.tasks.get("local", stretch).last_run
        settled(store, clock(), Done("done"))
        ended = store.tasks.get("local", stretch).last_run
        if ended is not None and (before is None or ended.id != before.id):
            ran.append((ended.scheduled_for.day, ended.scheduled_for.hour, ended.scheduled_for.minute))
    assert ran == [(30, 14, 30), (2, 15, 30), (2, 16, 0), (3, 15, 30)]


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_answer_says_that_they_stay_and_names_the_next_ones(ask: Ask, stretch: str, dry_run: bool) -> None:
    text, found = ask("reschedule_task", task_id=stretch, when="monday 11:00", dry_run=dry_run)
    assert "Next: Fri 30 Oct 10:30, Mon 2 Nov 10:30" in text
    assert STAY in found["warnings"]
    assert found["when"]["text"] == "Fri 30 Oct 2026 10:30"
    if not dry_run:
        assert "it also runs Mon 2 Nov 2026 11:00" in text


def test_the_list_says_that_the_moved_one_comes_next_once_the_others_before_it_are_skipped(
    ask: Ask, stretch: str
) -> None:
    ask("reschedule_task", task_id=stretch, when="monday 11:00")
    for key in ("friday", "monday"):
        ask("reschedule_task", task_id=stretch, skip_next=True, idempotency_key=key)
    text, _found = ask("list_tasks")
    assert "The next is due Mon 2 Nov 2026 11:00" in text
    assert "Mon 2 Nov 11:00 «Stretch» (repeats; its own next time Tue 3 Nov 10:30)" in text


def test_a_run_that_was_moved_and_is_still_to_come_counts_as_no_run_that_it_has_had(
    scheduler: Scheduler, stretch: str
) -> None:
    scheduler.reschedule(stretch, when="monday 11:00")
    with pytest.raises(InvalidArgument) as refused:
        scheduler.reschedule(stretch, max_runs=1)
    assert "max_runs: its next run, Fri 30 Oct 2026 10:30, is number 2." in str(refused.value)
    assert "it has had" not in str(refused.value)


def test_the_undo_of_a_move_past_others_restores_the_series(scheduler: Scheduler, stretch: str) -> None:
    before = scheduler.get(stretch)
    moved = scheduler.reschedule(stretch, when="monday 11:00")
    back = scheduler.act(stretch, "undo", undo=moved.undo)
    assert (back.record.run, back.record.side_runs, back.upcoming) == (before.record.run, (), before.upcoming)


def test_a_moved_occurrence_that_has_run_is_not_moved_back(store: Store, clock: Clock) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), HOME, minimum_interval=SECOND))
    task_id = scheduler.schedule("Look", repeat="every 10 seconds").record.task.id
    moved = scheduler.reschedule(task_id, when=clock() + 25 * SECOND)
    clock.forward(seconds=26)
    settled(store, clock(), Done("done"))
    with pytest.raises(Refused, match="has run since"):
        scheduler.act(task_id, "undo", undo=moved.undo)


@pytest.mark.parametrize("how", ["reschedule", "snooze"])
def test_an_occurrence_that_is_moved_onto_another_one_runs_as_one_with_it(
    scheduler: Scheduler, how: str, stretch: str
) -> None:
    first = scheduler.get(stretch).record.run
    if how == "snooze":
        view = scheduler.act(stretch, "snooze", until="monday 10:30")
    else:
        view = scheduler.reschedule(stretch, when="monday 10:30")
    assert AS_ONE in view.warnings
    assert [each.wall.day for each in view.upcoming[:3]] == [30, 2, 3]
    assert (view.record.run.number, view.record.side_runs) == (first.number, ())
    left = next(
        event for event in scheduler.past.events(EventFilter(task_id=stretch)).events if event.run_id == first.id
    )
    assert (left.to_state, left.reason) == (State.SKIPPED, AS_ONE)
    assert scheduler.act(stretch, "undo", undo=view.undo).record.run.scheduled_for == first.scheduled_for


def test_an_occurrence_that_was_moved_onto_another_one_is_no_last_run_once_that_was_undone(ask: Ask) -> None:
    wait = {"event": "paid", "timeout": "1 hour"}
    task_id = ask("schedule_task", title="Ship", repeat="every weekday at 10:30", wait_for=wait)[1]["id"]
    moved = ask("reschedule_task", task_id=task_id, when="monday 10:30")[1]
    assert ask("get_task", task_id=task_id)[1]["last_run"]["summary"] == AS_ONE
    for change in ({"action": "undo", "undo": moved["undo"]}, {"action": "snooze", "minutes": 30}):
        ask("act_on_task", task_id=task_id, **change)
        assert "last_run" not in ask("get_task", task_id=task_id)[1]


def test_a_snooze_past_the_next_occurrence_leaves_that_one_in_its_place(scheduler: Scheduler, stretch: str) -> None:
    view = scheduler.act(stretch, "snooze", until="monday 16:00")
    assert [each.wall.day for each in view.upcoming[:2]] == [30, 2]
    assert side_times(view) == [datetime(2026, 11, 2, 21, tzinfo=UTC)]


def test_a_snooze_of_what_fired_keeps_an_occurrence_that_was_moved_past_others(
    scheduler: Scheduler, store: Store, clock: Clock, stretch: str
) -> None:
    moved = scheduler.reschedule(stretch, when="monday 11:00")
    clock.at = moved.record.run.scheduled_for
    settled(store, clock(), Done("done"))
    view = scheduler.act(stretch, "snooze", minutes=10)
    assert sorted(side_times(view)) == [clock() + timedelta(minutes=10), datetime(2026, 11, 2, 16, tzinfo=UTC)]


def test_a_snooze_is_of_the_moved_occurrence_where_that_comes_first(scheduler: Scheduler, stretch: str) -> None:
    scheduler.reschedule(stretch, when="monday 11:00")
    for key in ("friday", "monday"):
        scheduler.reschedule(stretch, skip_next=True, idempotency_key=key)
    before = scheduler.get(stretch).record
    [moved] = before.side_runs
    snoozed = scheduler.act(stretch, "snooze", minutes=10)
    [later] = snoozed.record.side_runs
    assert (later.scheduled_for, later.number) == (
        datetime(2026, 11, 2, 16, 10, tzinfo=UTC),
        before.side_runs[0].number,
    )
    assert snoozed.record.run == before.run
    back = scheduler.act(stretch, "undo", undo=snoozed.undo)
    assert [(run.scheduled_for, run.slot) for run in back.record.side_runs] == [(moved.scheduled_for, moved.slot)]


def test_a_moved_occurrence_keeps_its_number_and_its_deadline(scheduler: Scheduler) -> None:
    view = scheduler.schedule(**STRETCH, max_runs=2, deadline="2 hours")
    moved = scheduler.reschedule(view.record.task.id, when="monday 11:00", deadline="3 hours")
    [side] = moved.record.side_runs
    assert (side.number, moved.record.run.number) == (1, 2)
    assert (_length(side), _length(moved.record.run)) == (timedelta(hours=3), timedelta(hours=3))
    assert len(moved.upcoming) == 1


def _length(run: Run) -> timedelta:
    assert run.deadline is not None
    return run.deadline - run.scheduled_for


def test_the_last_occurrence_of_a_series_moves_alone(scheduler: Scheduler) -> None:
    view = scheduler.schedule(**STRETCH, max_runs=1)
    moved = scheduler.reschedule(view.record.task.id, when="monday 11:00")
    assert (moved.record.run.id, moved.record.side_runs) == (view.record.run.id, ())
    assert moved.record.run.scheduled_for == datetime(2026, 11, 2, 16, tzinfo=UTC)


def test_a_move_and_a_pause_in_one_call_keep_the_moved_occurrence(scheduler: Scheduler, stretch: str) -> None:
    view = scheduler.reschedule(stretch, when="monday 11:00", pause=True)
    assert (view.record.task.paused, side_times(view)) == (True, [datetime(2026, 11, 2, 16, tzinfo=UTC)])


PER_DAY, PER_MINUTE = ("every day at 15:00", "Fri 30 Oct 2026 15:00"), ("every minute", "Thu 29 Oct 2026 10:22")


@pytest.mark.parametrize("how", ["reschedule", "snooze"])
@pytest.mark.parametrize(("repeat", "bound"), [PER_DAY, PER_MINUTE])
def test_a_series_that_asks_before_each_run_refuses_a_move_past_the_next_one_and_says_how_far_it_goes(
    scheduler: Scheduler, how: str, repeat: str, bound: str
) -> None:
    task_id = scheduler.schedule("Pay", repeat=repeat, approval="Really?").record.task.id

    def move(to: str) -> TaskView:
        return (
            scheduler.reschedule(task_id, when=to)
            if how == "reschedule"
            else scheduler.act(task_id, "snooze", until=to)
        )

    with pytest.raises(InvalidArgument, match="asks before each of its runs") as refused:
        move("monday 11:00:20")
    assert f"the next one comes {bound} America/New_York. Accepted: a time before {bound}" in str(refused.value)
    example = str(refused.value).rpartition("=")[2].strip("'")
    following = scheduler.get(task_id).upcoming[1].instant
    assert move(example).record.run.scheduled_for < following


@pytest.mark.parametrize(("offset", "which"), [("-04:00", "first"), ("-05:00", "second")])
def test_a_move_to_a_time_that_happens_twice_says_to_which_of_the_two(
    scheduler: Scheduler, offset: str, which: str, stretch: str
) -> None:
    view = scheduler.reschedule(stretch, when=f"2027-11-07T01:30{offset}")
    assert f"it also runs Sun 7 Nov 2027 01:30, the {which} 01:30 of that day (clocks go back)" in view.warnings


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_move_of_many_says_where_an_occurrence_falls_on_another_one(ask: Ask, stretch: str, dry_run: bool) -> None:
    john = ask("schedule_task", title="Call John", repeat="every day at 15:00")[1]["id"]
    text, found = ask("change_tasks", change="move", task_ids=[john, stretch], to="monday 10:30", dry_run=dry_run)
    rows = {row["id"]: row for row in found["tasks"]}
    assert rows[stretch]["why"] == AS_ONE
    assert AS_ONE in text
    assert (rows[john]["was"], rows[john]["side_run_at"]) == ("2026-10-29T19:00:00Z", "2026-11-02T15:30:00Z")
    assert "Thu 29 Oct 2026 15:00 -> Mon 2 Nov 2026 10:30, and next Fri 30 Oct 2026 15:00" in text


def test_the_undo_of_a_move_of_many_restores_the_series(ask: Ask, scheduler: Scheduler, stretch: str) -> None:
    before = scheduler.get(stretch)
    moved = ask("change_tasks", change="move", task_ids=[stretch], to="monday 11:00")[1]
    ask("change_tasks", change="undo", undo=moved["bulk"]["undo"])
    back = scheduler.get(stretch)
    assert (back.record.run, back.record.side_runs) == (before.record.run, ())


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_move_of_a_chain_names_the_generations_that_it_passes(ask: Ask, dry_run: bool) -> None:
    chain = ask("schedule_task", title="Nightly", repeat="every day at 2:00", steps=[{"name": "fetch"}])[1]["id"]
    text, found = ask("reschedule_task", task_id=chain, when="in 3 days", dry_run=dry_run)
    said = "left out, since it was moved past them: Sat 31 Oct 2026 02:00, Sun 1 Nov 2026 02:00"
    assert said in found["warnings"]
    assert said in text
    assert "Next: Sun 1 Nov 10:20, Mon 2 Nov 02:00" in text


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("meant_by", ["the chain", "its steps", "a filter"])
def test_a_move_of_many_names_the_generations_that_a_chain_passes(ask: Ask, meant_by: str, dry_run: bool) -> None:
    steps = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    made = ask("schedule_task", title="Nightly", repeat="every day at 2:00", steps=steps)[1]
    meant: dict[str, dict[str, Any]] = {
        "the chain": {"task_ids": [made["id"]]},
        "its steps": {"task_ids": [step["id"] for step in made["chain"]["steps"]]},
        "a filter": {"query": "Nightly", "expect": 2},
    }
    text, found = ask("change_tasks", change="move", **meant[meant_by], to="3 days later", dry_run=dry_run)
    said = (
        "left out, since it was moved past them: Sat 31 Oct 2026 02:00, Sun 1 Nov 2026 02:00; "
        "moved onto that of Mon 2 Nov 2026 02:00: they run as one"
    )
    assert [row["why"] for row in found["tasks"] if "why" in row] == [said]
    assert said in text


def test_a_generation_of_which_one_first_step_stays_passes_no_other_one(ask: Ask) -> None:
    steps = [{"name": "fetch"}, {"name": "check"}]
    made = ask("schedule_task", title="Nightly", repeat="every day at 2:00", steps=steps)[1]
    first = made["chain"]["steps"][0]["id"]
    _, found = ask("change_tasks", change="move", task_ids=[first], to="3 days later")
    assert [row["why"] for row in found["tasks"] if "why" in row] == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_generation_that_is_moved_onto_another_one_is_said_to_run_with_it(ask: Ask, dry_run: bool) -> None:
    chain = ask("schedule_task", title="Nightly", repeat="every day at 2:00", steps=[{"name": "fetch"}])[1]["id"]
    found = ask("reschedule_task", task_id=chain, when="2026-10-31 02:00", dry_run=dry_run)[1]
    assert "moved onto that of Sat 31 Oct 2026 02:00: they run as one" in found["warnings"]


def test_the_history_says_that_a_moved_occurrence_runs_next_to_its_series(scheduler: Scheduler, stretch: str) -> None:
    scheduler.reschedule(stretch, when="monday 11:00")
    events = scheduler.past.events(EventFilter(task_id=stretch, kind=EventKind.RESCHEDULED)).events
    assert {(event.after or {}).get("scheduled_for") for event in events} == {
        "2026-10-30T14:30:00+00:00", "2026-11-02T16:00:00+00:00",
    }  # fmt: skip
