"""Undo restores what was before a change; it is refused when the task has gone on since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import refresh
from duetime.scheduler.run_records import Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy, State, Tier
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import MORNING, Desk, day

DAILY = {"repeat": "every day at 9:00"}
Act = Callable[[Scheduler, str], TaskView]


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", channels=Channels())
    return Desk(Scheduler(store, planner), store, clock)


def shown(view: TaskView) -> dict[str, Any]:
    """Return what a user sees of a task, and what decides when it runs."""
    task, run = view.record.task, view.record.run
    beside = sorted(each.wake_at for each in view.record.side_runs if each.wake_at)
    of_task = (task.title, dict(task.payload), task.paused, task.repeat, task.until, task.timezone, task.when)
    of_urgency = (task.priority, task.deadline, task.deadline_after, task.deadline_type, task.estimate, run.deadline)
    of_run = (run.state, run.scheduled_for, run.slot, run.number, run.wake_at)
    return {
        "task": of_task,
        "urgency": (*of_urgency, run.drop_at, task.labels, task.max_runs, task.retry, task.deliver_to),
        "run": of_run,
        "beside": beside,
    }


CHANGES: dict[str, tuple[dict[str, Any], Act]] = {
    "pause": (DAILY, lambda s, i: s.reschedule(i, pause=True)),
    "skip": (DAILY, lambda s, i: s.act(i, "skip_next")),
    "skip by a change": (DAILY, lambda s, i: s.reschedule(i, skip_next=True)),
    "run now in addition": (DAILY, lambda s, i: s.act(i, "run_now")),
    "run now": ({"when": "tomorrow 9am"}, lambda s, i: s.act(i, "run_now")),
    "snooze": ({"when": "in 10 minutes"}, lambda s, i: s.act(i, "snooze", minutes=30)),
    "move": ({"when": "tomorrow 9am"}, lambda s, i: s.reschedule(i, when="tomorrow 11am")),
    "move one of a series": (DAILY, lambda s, i: s.reschedule(i, when="tomorrow 11am")),
    "move all": (DAILY, lambda s, i: s.reschedule(i, when="tomorrow 11am", all_following=True)),
    "title and text": (DAILY, lambda s, i: s.reschedule(i, title="Other", payload={"message": "m"})),
    "recurrence": (DAILY, lambda s, i: s.reschedule(i, repeat="every monday at 8:00", until="2027-01-31")),
    "urgency": (
        {"when": "tomorrow 9am", "deadline": "tomorrow 17:00", "estimate": "5 min"},
        lambda s, i: s.reschedule(
            i, priority="high", deadline="tomorrow 12:00", deadline_type="hard", estimate="1 min"
        ),
    ),
    "deadline": (DAILY, lambda s, i: s.reschedule(i, deadline="2 hours")),
    "a deadline as the history writes it": (
        {"when": "tomorrow 9am"},
        lambda s, i: s.reschedule(i, deadline="2026-11-25T12:00:00+00:00"),
    ),
    "no deadline": ({**DAILY, "deadline": "2 hours"}, lambda s, i: s.reschedule(i, deadline="none")),
    "delivery and retries": (
        {**DAILY, "labels": ["a", "b"], "max_runs": 5},
        lambda s, i: s.reschedule(i, labels=["c"], max_runs=9, retry=RetryPolicy(3), remove=["deliver_to"]),
    ),
    "zone": (DAILY, lambda s, i: s.reschedule(i, timezone="Europe/Berlin")),
}


@on_each_database
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_taken_back_as_if_it_had_not_been(target: Desk, name: str) -> None:
    arguments, change = CHANGES[name]
    task_id = target.schedule(**arguments)
    before = shown(target.scheduler.get(task_id))

    changed = change(target.scheduler, task_id)
    assert shown(changed) != before
    back = target.scheduler.act(task_id, "undo", undo=changed.undo)

    assert shown(back) == before == shown(target.scheduler.get(task_id))
    assert back.undo is None
    newest = target.scheduler.past.events(EventFilter(task_id=task_id)).events
    assert {EventKind.UNDONE, EventKind.CANCELLED} & {event.kind for event in newest}


def test_a_resume_is_taken_back_with_the_occurrence_that_it_passed_over(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.scheduler.reschedule(task_id, pause=True)
    target.clock.at = day(1, 10)
    before = target.scheduler.get(task_id).record
    resumed = target.scheduler.reschedule(task_id, pause=False)
    assert resumed.record.run.scheduled_for == day(2)

    back = target.scheduler.act(task_id, "undo", undo=resumed.undo).record
    assert (back.task.paused, back.run.scheduled_for, back.run.number) == (True, day(1), before.run.number)
    assert target.scheduler.reschedule(task_id, pause=False).record.run.scheduled_for == day(2)


def test_a_pause_of_what_was_due_is_taken_back_and_it_runs(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.clock.at = day(1, 9)
    target.store.claims.make_ready(limit=9)
    paused = target.scheduler.reschedule(task_id, pause=True)
    target.scheduler.act(task_id, "undo", undo=paused.undo)

    assert target.run(day(1, 9)) == 1


@pytest.mark.parametrize("arguments", [{"action": "run_now"}, {"action": "snooze", "minutes": 30}])
def test_a_task_that_ran_and_was_to_run_again_is_as_it_had_ended(target: Desk, arguments: dict[str, Any]) -> None:
    task_id = target.schedule(when="in 10 minutes")
    target.run(MORNING + timedelta(minutes=10))
    ended = target.scheduler.get(task_id).record.run
    again = target.scheduler.act(task_id, **arguments)
    assert again.record.run.state is State.SCHEDULED

    back = target.scheduler.act(task_id, "undo", undo=again.undo).record
    assert (back.run.id, back.run.state) == (ended.id, State.SUCCEEDED)
    assert target.scheduler.get(task_id).record.run.id == ended.id
    assert target.run(day(1)) == 0


def test_the_snooze_of_an_outcome_gives_way_to_the_one_that_it_replaced(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.run(day(1))
    first = target.scheduler.act(task_id, "snooze", minutes=10)
    second = target.scheduler.act(task_id, "snooze", minutes=30)
    back = target.scheduler.act(task_id, "undo", undo=second.undo)

    assert shown(back)["beside"] == shown(first)["beside"] == [day(1, 9, 10)]
    assert target.run(day(1, 9, 10)) == 1


# -- refused


def refused(target: Desk, task_id: str, token: str | None) -> str:
    with pytest.raises(Refused) as refusal:
        target.scheduler.act(task_id, "undo", undo=token)
    return str(refusal.value)


def test_an_undo_after_another_change_is_refused(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    first = target.scheduler.reschedule(task_id, title="First")
    target.scheduler.reschedule(task_id, title="Second")

    assert "was changed again since, so that change stays" in refused(target, task_id, first.undo)
    assert target.scheduler.get(task_id).record.task.title == "Second"


def test_an_undo_that_comes_too_late_is_refused(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    changed = target.scheduler.reschedule(task_id, title="First")
    target.clock.at += timedelta(seconds=36)

    assert "was not changed in the last 30 s" in refused(target, task_id, changed.undo)


@pytest.mark.parametrize("arguments", [{"when": "tomorrow 9am"}, DAILY], ids=["once", "next to a series"])
def test_a_task_that_has_run_since_stays(target: Desk, arguments: dict[str, Any]) -> None:
    task_id = target.schedule(**arguments)
    changed = target.scheduler.act(task_id, "run_now")
    assert target.run(target.clock.at) == 1

    assert "has run since, so that change stays" in refused(target, task_id, changed.undo)


HELD: dict[str, Outcome] = {
    "it waits": Wait(timeout=timedelta(seconds=2)),
    "it is tried again": Retry("no answer", after=timedelta(seconds=30)),
}
BEGUN: dict[str, Act] = {
    "run now": lambda s, i: s.act(i, "run_now"),
    "move": lambda s, i: s.reschedule(i, when="now"),
}


@pytest.mark.parametrize("outcome", HELD)
@pytest.mark.parametrize("change", BEGUN)
@pytest.mark.parametrize("begun_before", [False, True])
def test_a_task_that_has_begun_since_and_has_not_ended_stays(
    target: Desk, outcome: str, change: str, *, begun_before: bool
) -> None:
    task_id = target.schedule(when="in 10 seconds")
    if begun_before:
        assert target.run(MORNING + timedelta(seconds=10), Retry("no answer", after=timedelta(days=1))) == 1
    changed = BEGUN[change](target.scheduler, task_id)
    assert target.run(target.clock.at, HELD[outcome]) == 1
    before = shown(target.scheduler.get(task_id))

    assert "has run since, so that change stays" in refused(target, task_id, changed.undo)
    assert shown(target.scheduler.get(task_id)) == before


def test_the_move_of_the_next_attempt_is_taken_back_before_that_begins(target: Desk) -> None:
    task_id = target.schedule(when="in 10 seconds")
    assert target.run(MORNING + timedelta(seconds=10), Retry("no answer", after=timedelta(days=1))) == 1
    before = shown(target.scheduler.get(task_id))
    changed = target.scheduler.reschedule(task_id, when="in 1 hour")
    assert shown(changed) != before
    assert shown(target.scheduler.act(task_id, "undo", undo=changed.undo)) == before


@pytest.mark.parametrize("outcome", HELD)
@pytest.mark.parametrize("of_chain", [False, True])
def test_the_undo_of_many_leaves_alone_what_has_begun_since(target: Desk, outcome: str, *, of_chain: bool) -> None:
    if of_chain:
        steps: list[StepArguments] = [{"name": "load"}, {"name": "mail", "after": ["load"]}]
        made = target.scheduler.schedule("Report", when="tomorrow 9am", steps=steps)
        chain = made.chain
        assert chain
        task_id = chain.steps[0].task_id
        token = target.scheduler.reschedule(made.record.task.id, when="now").undo
    else:
        task_id = target.schedule(when="tomorrow 9am")
        token = target.scheduler.bulk.change("move", [task_id], to="now").undo
    assert target.run(target.clock.at, HELD[outcome]) == 1
    before = shown(target.scheduler.get(task_id))
    assert token
    try:
        told = [each.why for each in target.scheduler.bulk.change("undo", undo=token).outcomes if each.why]
    except Refused as nothing:
        told = [str(nothing)]
    assert f"{task_id} has run since, so that change stays" in told[0]
    assert shown(target.scheduler.get(task_id)) == before


def test_a_title_is_taken_back_also_when_the_task_has_run_since(target: Desk) -> None:
    task_id = target.schedule(when="in 10 seconds")
    changed = target.scheduler.reschedule(task_id, title="First")
    assert target.run(MORNING + timedelta(seconds=10)) == 1

    assert target.scheduler.act(task_id, "undo", undo=changed.undo).record.task.title != "First"


def test_a_wish_to_stop_what_runs_has_no_undo(target: Desk) -> None:
    task_id = target.schedule(when="in 10 minutes")
    target.clock.at += timedelta(minutes=10)
    target.start()
    asked = target.scheduler.cancel(task_id)

    assert (asked.record.run.cancel_requested, asked.undo) == (True, None)


def test_a_change_that_changed_nothing_has_no_undo(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    assert target.scheduler.reschedule(task_id, title="Take the pill").undo is None


def test_a_cancel_of_what_was_tried_offers_no_undo(target: Desk) -> None:
    task_id = target.schedule(when="in 10 minutes")
    target.run(MORNING + timedelta(minutes=10), Retry("busy"))
    cancelled = target.scheduler.cancel(task_id)

    assert (cancelled.record.run.state, cancelled.undo) == (State.CANCELLED, None)


@pytest.mark.parametrize("words", ["2026-11-25", "2026-11-25T23:59:59"])
def test_the_undo_of_a_deadline_in_other_words_keeps_its_instant(target: Desk, words: str) -> None:
    task_id = target.schedule(when="in 2 hours", deadline=words)
    before = shown(target.scheduler.get(task_id))
    changed = target.scheduler.reschedule(task_id, deadline="2026-11-25T23:59:59Z")
    assert changed.record.run.deadline == day(3, 23, 59) + timedelta(seconds=59)

    assert shown(target.scheduler.act(task_id, "undo", undo=changed.undo)) == before


def test_the_undo_of_a_title_brings_no_cancelled_task_back(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.scheduler.cancel(task_id)
    changed = target.scheduler.reschedule(task_id, title="Other")
    back = target.scheduler.act(task_id, "undo", undo=changed.undo).record

    assert (back.task.title, back.run.state) == ("Take the pill", State.CANCELLED)


def test_a_guessed_undo_of_such_a_cancel_brings_no_part_back(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.run(day(1))
    target.scheduler.act(task_id, "run_now")
    target.scheduler.cancel(task_id)
    revision = target.scheduler.get(task_id).record.task.revision

    assert "has run since" in refused(target, task_id, f"u_{revision}")
    assert target.scheduler.get(task_id).record.side_runs == ()


SERIES = {"when": "in 10 seconds", "repeat": "every 5 minutes"}
OTHER_SERIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it ends": (SERIES, {"repeat": "never"}),
    "it has more runs": ({**SERIES, "max_runs": 1}, {"max_runs": 9}),
    "it ends later": ({**SERIES, "until": "in 3 minutes"}, {"until": "never"}),
}


@on_each_database
@pytest.mark.parametrize("name", OTHER_SERIES)
def test_a_series_that_has_gone_on_or_ended_by_a_change_keeps_it(target: Desk, name: str) -> None:
    arguments, change = OTHER_SERIES[name]
    task_id = target.schedule(**arguments)
    changed = target.scheduler.reschedule(task_id, **change)
    assert target.run(MORNING + timedelta(seconds=10)) == 1
    before = shown(target.scheduler.get(task_id))

    assert "has run since, so that change stays" in refused(target, task_id, changed.undo)
    assert shown(target.scheduler.get(task_id)) == before


def test_a_ready_run_gets_a_new_place_when_its_urgency_is_taken_back(target: Desk) -> None:
    task_id = target.schedule(when="in 10 seconds")
    changed = target.scheduler.reschedule(task_id, priority="critical")
    target.clock.at += timedelta(seconds=10)
    target.store.claims.make_ready(limit=9)
    back = target.scheduler.act(task_id, "undo", undo=changed.undo).record

    assert (back.task.priority, back.run.state) == (Tier.NORMAL, State.SCHEDULED)
    assert target.run(target.clock.at) == 1


# -- done


def test_done_is_taken_back_for_a_while(target: Desk) -> None:
    task_id = target.schedule(when="in 10 minutes")
    target.run(MORNING + timedelta(minutes=10))
    done = target.scheduler.act(task_id, "done")
    assert target.scheduler.get(task_id).unread == ()

    back = target.scheduler.act(task_id, "undo", undo=done.undo)
    assert len(back.unread) == 1
    target.scheduler.act(task_id, "done")
    target.clock.at += timedelta(seconds=36)
    assert "was marked as read in the last 30 s" in refused(target, task_id, done.undo)


def test_the_skip_of_an_occurrence_that_was_due_is_undone_to_run_at_once(target: Desk, store: Store) -> None:
    task_id = target.scheduler.schedule("Stand-up", repeat=DAILY["repeat"]).record.task.id
    due = store.tasks.get("local", task_id).run.scheduled_for
    target.clock.at = due + timedelta(hours=1)
    store.claims.make_ready(limit=9)
    skipped = target.scheduler.act(task_id, "skip_next")
    back = target.scheduler.act(task_id, "undo", undo=skipped.undo).record.run
    assert (back.scheduled_for, back.state) == (due, State.SCHEDULED)
    assert back.wake_at == target.clock.at


@pytest.mark.parametrize(("was", "words"), [(None, "3 hours"), ("2 hours", "3 hours"), ("2 hours", "none")])
def test_the_undo_of_a_deadline_is_possible_while_the_task_runs(target: Desk, was: str | None, words: str) -> None:
    task_id = target.schedule(**DAILY, deadline=was)
    target.clock.at = day(1)
    [claim] = target.start()
    before = shown(target.scheduler.get(task_id))
    changed = target.scheduler.reschedule(task_id, deadline=words)
    assert shown(changed) != before
    assert shown(target.scheduler.act(task_id, "undo", undo=changed.undo)) == before
    found = target.store.tasks.get("local", task_id)
    assert target.settle(refresh(claim, found), Done("taken")) is Verdict.SETTLED


@on_each_database
@pytest.mark.parametrize(
    ("more", "words"), [(DAILY, "3 hours"), ({"when": "2026-11-23 9:00"}, "2026-11-23T18:00:00+00:00")]
)
def test_the_undo_of_a_deadline_is_refused_once_the_run_that_has_it_has_begun(
    target: Desk, more: dict[str, str], words: str
) -> None:
    task_id = target.schedule(**more)
    target.clock.at = day(1)
    changed = target.scheduler.reschedule(task_id, deadline=words)
    target.start()

    assert changed.undo is not None
    assert "has run since" in refused(target, task_id, changed.undo)


@pytest.mark.parametrize("was", [None, "2 hours"])
def test_the_undo_of_a_deadline_is_refused_once_the_next_run_has_it(target: Desk, was: str | None) -> None:
    task_id = target.schedule(**DAILY, deadline=was)
    target.clock.at = day(1)
    [claim] = target.start()
    changed = target.scheduler.reschedule(task_id, deadline="3 hours")
    target.settle(refresh(claim, target.store.tasks.get("local", task_id)), Done("taken"))

    assert changed.undo is not None
    assert "has run since" in refused(target, task_id, changed.undo)


@on_each_database
def test_the_undo_of_a_run_now_lets_the_change_before_it_be_undone(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    before = shown(target.scheduler.get(task_id))
    titled = target.scheduler.reschedule(task_id, title="First")
    started = target.scheduler.act(task_id, "run_now")
    back = target.scheduler.act(task_id, "undo", undo=started.undo)

    assert "has no change" in refused(target, task_id, "u_9")
    assert "was taken back" in refused(target, task_id, f"u_{back.record.task.revision}")
    assert shown(target.scheduler.act(task_id, "undo", undo=titled.undo)) == before


@on_each_database
def test_the_undo_of_a_cancel_lets_the_change_before_it_be_undone(target: Desk) -> None:
    task_id = target.schedule(when="tomorrow 9am")
    before = shown(target.scheduler.get(task_id))
    moved = target.scheduler.reschedule(task_id, when="tomorrow 10am")
    cancelled = target.scheduler.cancel(task_id)
    target.scheduler.act(task_id, "undo", undo=cancelled.undo)

    assert shown(target.scheduler.act(task_id, "undo", undo=moved.undo)) == before


@on_each_database
def test_the_undo_of_a_replay_next_to_a_series_lets_the_change_before_it_be_undone(target: Desk) -> None:
    task_id = target.schedule(**DAILY)
    target.clock.at = day(1)
    [claim] = target.start()
    target.settle(claim, Failed("away"))
    was = target.scheduler.get(task_id).record.task.title
    titled = target.scheduler.reschedule(task_id, title="First")
    replay = target.scheduler.letters.replay([claim.run.id])
    assert len(target.scheduler.get(task_id).record.side_runs) == 1
    target.scheduler.bulk.change("undo", undo=replay.undo)

    back = target.scheduler.act(task_id, "undo", undo=titled.undo).record
    assert (back.task.title, back.side_runs) == (was, ())
