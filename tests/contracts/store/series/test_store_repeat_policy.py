"""The policy of a recurring task: overlaps, failures in a row, and the dates that it leaves out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Context, Handlers
from duetime.scheduler.handlers.context import Link
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RepeatPolicy, RetryPolicy, State
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING + timedelta(minutes=1)
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


# -- overlap


@on_each_database
def test_an_occurrence_that_falls_due_during_a_run_is_skipped_and_has_a_run_that_says_so(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.run(9, (11, 30))
    assert desk.runs(task_id) == {
        9: State.SUCCEEDED, 10: State.SKIPPED, 11: State.SKIPPED, 12: State.SCHEDULED,
    }  # fmt: skip
    told = [event for event in desk.scheduler.past.events(EventFilter(task_id=task_id)).events if event.to_state]
    skipped = [event for event in told if event.kind is EventKind.SKIPPED]
    first = next(run for run in runs_of(desk.store, task_id) if run.scheduled_for == at(9))
    assert [event.reason for event in skipped] == [f"run {first.id} was still open"] * 2
    record = desk.scheduler.get(task_id).record
    assert (record.run.number, record.run.missed) == (2, 2)
    assert record.last_run is not None
    assert record.last_run.id == first.id


def test_a_long_run_writes_ten_skipped_runs_at_most_and_counts_all(desk: Desk) -> None:
    view = desk.scheduler.schedule("Poll", repeat="every minute")
    desk.clock.at = at(9)
    claims = desk.start(9)
    desk.clock.at = at(9, 30)
    desk.end(claims)
    assert [run.state for run in runs_of(desk.store, view.record.task.id)].count(State.SKIPPED) == 10
    assert desk.scheduler.get(view.record.task.id).record.run.missed >= 30


def test_an_occurrence_that_passed_while_nothing_ran_is_counted_and_not_skipped(desk: Desk) -> None:
    task_id = desk.hourly()
    claims = desk.start(11, 30)  # the installation was down from 9:00
    desk.end(claims)
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 12: State.SCHEDULED}
    assert desk.scheduler.get(task_id).record.run.missed == 2


def test_buffer_one_runs_the_first_that_fell_due_when_the_run_has_ended(desk: Desk) -> None:
    task_id = desk.hourly(overlap="buffer_one")
    desk.run(9, (12, 30))
    assert desk.runs(task_id) == {
        9: State.SUCCEEDED, 10: State.SCHEDULED, 11: State.SKIPPED, 12: State.SKIPPED,
    }  # fmt: skip
    claims = desk.start(12, 30)
    assert [claim.run.scheduled_for.hour for claim in claims] == [10]
    desk.end(claims)
    assert desk.runs(task_id)[13] is State.SCHEDULED


@pytest.mark.parametrize("way", ["", "alone", "with others"])
def test_buffer_all_runs_each_that_fell_due_one_after_the_other_also_after_an_undone_cancel(
    desk: Desk, way: str
) -> None:
    task_id = desk.hourly(overlap="buffer_all")
    desk.run(9, (12, 30))
    if way == "alone":
        desk.scheduler.act(task_id, "undo", undo=desk.scheduler.cancel(task_id).undo)
    elif way:
        desk.scheduler.bulk.change("undo", undo=desk.scheduler.bulk.change("cancel", [task_id]).undo)
    ran = []
    while claims := desk.start(12, 31):
        ran += [claim.run.scheduled_for.hour for claim in claims]
        desk.end(claims)
    assert ran == [10, 11, 12]
    assert desk.runs(task_id)[13] is State.SCHEDULED
    assert desk.scheduler.get(task_id).record.run.number == 5


# -- a pause after failures


@on_each_database
def test_a_task_pauses_after_failures_in_a_row_and_its_user_is_told_once(desk: Desk) -> None:
    task_id = desk.hourly(pause_after=2)
    desk.run(9, (9, 1), Failed("away"))
    desk.run(10, (10, 1), Done("there"))
    desk.run(11, (11, 1), Failed("away"))
    assert not desk.scheduler.get(task_id).record.task.paused
    desk.run(12, (12, 1), Failed("away"))
    paused = desk.scheduler.get(task_id).record
    assert (paused.task.paused, paused.run.scheduled_for) == (True, at(13))
    assert [text for text in told(desk) if "paused" in text] == [
        "away (paused: 2 runs in a row failed; resume it to go on)"
    ]  # fmt: skip
    assert desk.start(13) == []
    event = desk.scheduler.past.events(EventFilter(task_id=task_id, kind=EventKind.PAUSED)).events[0]
    assert (event.actor, event.reason) == ("duetime", "2 runs in a row failed")


@on_each_database
def test_a_resumed_task_counts_its_failures_from_zero(desk: Desk) -> None:
    task_id = desk.hourly(pause_after=2)
    desk.run(9, (9, 1), Failed("away"))
    desk.run(10, (10, 1), Failed("away"))
    desk.scheduler.reschedule(task_id, pause=False)
    desk.run(11, (11, 1), Failed("away"))
    assert not desk.scheduler.get(task_id).record.task.paused
    desk.run(12, (12, 1), Failed("away"))
    assert desk.scheduler.get(task_id).record.task.paused


def test_a_cancel_that_is_taken_back_keeps_the_failures_in_a_row(desk: Desk) -> None:
    task_id = desk.hourly(pause_after=2)
    desk.run(9, (9, 1), Failed("away"))
    desk.scheduler.act(task_id, "undo", undo=desk.scheduler.cancel(task_id).undo)
    desk.run(10, (10, 1), Failed("away"))
    assert desk.scheduler.get(task_id).record.task.paused


def test_a_task_that_notifies_of_nothing_notifies_of_its_pause(desk: Desk) -> None:
    view = desk.scheduler.schedule(
        "Import", repeat="every hour at :00", repeat_policy={"pause_after": 1}, notify="never"
    )
    desk.run(9, (9, 1), Failed("away"))
    assert told(desk) == ["away (paused: a run failed; resume it to go on)"]
    assert desk.scheduler.get(view.record.task.id).record.task.paused


def told(desk: Desk) -> list[str]:
    return [message.text for message in reversed(desk.scheduler.inbox.unread())]


# -- dates


@pytest.mark.parametrize(
    ("words", "dates"),
    [
        ("christmas", ["2026-12-25"]),
        ("24 december", ["2026-12-24"]),
        ("24 dec 2027", ["2027-12-24"]),
        ("31 dec to 2 jan", ["2026-12-31", "2027-01-01", "2027-01-02"]),
        ("2026-12-24..2026-12-26", ["2026-12-24", "2026-12-25", "2026-12-26"]),
    ],
)
def test_dates_that_a_series_leaves_out_may_be_words_and_ranges(desk: Desk, words: str, dates: list[str]) -> None:
    view = desk.scheduler.schedule("Stand-up", repeat="every day at 9:00", repeat_policy={"except": [words]})
    policy = view.record.task.repeat_policy
    assert policy is not None
    assert [day.isoformat() for day in policy.leave_out] == dates


def test_dates_are_left_out_of_a_recurrence(desk: Desk) -> None:
    view = desk.scheduler.schedule(
        "Stand-up", repeat="every day at 9:00", repeat_policy={"except": ["2026-11-24", "2026-11-25"]}
    )
    days = [coming.wall.day for coming in view.upcoming]
    assert days[:3] == [23, 26, 27]
    desk.run(9, (9, 5))
    assert desk.scheduler.get(view.record.task.id).record.run.scheduled_for.day == 26
    changed = desk.scheduler.reschedule(view.record.task.id, repeat_policy={"except": ["2026-11-26"]})
    assert changed.record.run.scheduled_for.day == 24


def test_a_first_day_that_is_left_out_moves_the_start(desk: Desk) -> None:
    view = desk.scheduler.schedule("Stand-up", repeat="every day at 9:00", repeat_policy={"except": "2026-11-23"})
    assert view.record.run.scheduled_for.day == 24


# -- the argument


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"overlap": "often"}, "skip, buffer_one"),
        ({"pause_after": "soon"}, "1 to 100"),
        ({"except": ["my birthday"]}, "'my birthday' is not a date"),
        ({"except": "1 december to 1 may"}, "is not a date"),
        ({"except": [None]}, "'None' is not a date"),
        ({"overlaps": "skip"}, "there is no 'overlaps'"),
    ],
)
def test_a_policy_that_means_nothing_is_refused_with_what_is_accepted(
    desk: Desk, policy: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        desk.hourly(**policy)


def test_a_policy_is_of_recurring_tasks_alone(desk: Desk) -> None:
    with pytest.raises(InvalidArgument, match="only a recurring task"):
        desk.scheduler.schedule("Import", when="in 2 hours", repeat_policy={"pause_after": 3})
    task_id = desk.hourly(pause_after=3)
    assert desk.scheduler.reschedule(task_id, repeat="never").record.task.repeat_policy is None


def test_a_policy_is_shown_replaced_and_removed(desk: Desk) -> None:
    task_id = desk.hourly(overlap="buffer_one", pause_after=3)
    shown = task_payload(desk.scheduler.get(task_id))
    assert shown.repeat is not None
    assert shown.repeat.policy == {"overlap": "buffer_one", "pause_after": 3}
    assert "Policy: overlap buffer_one, pause_after 3." in task_text(shown)
    desk.scheduler.reschedule(task_id, repeat_policy={"overlap": "buffer_all"})
    kept = desk.scheduler.reschedule(task_id, title="Import mails").record.task.repeat_policy
    assert kept is not None
    assert kept.parts() == {"overlap": "buffer_all"}
    assert desk.scheduler.reschedule(task_id, remove=["repeat_policy"]).record.task.repeat_policy is None


# -- what was missed while nothing ran, or during a pause


def caught_up(desk: Desk, hour: int, minute: int = 30) -> list[int]:
    """Run all that is due after an outage; return the hours of the runs, in their order."""
    ran = []
    for _ in range(9):  # a look may put another occurrence in the place of the one that is due
        if claims := desk.start(hour, minute):
            ran += [claim.run.scheduled_for.hour for claim in claims]
            desk.end(claims)
    return ran


@pytest.mark.parametrize(
    ("policy", "ran"),
    [
        ({}, [9]),
        ({"coalesce": "earliest"}, [9]),
        ({"coalesce": "latest"}, [12]),
        ({"coalesce": "all"}, [9, 10, 11, 12]),
        ({"catchup_window": "2 hours"}, [11]),
        ({"catchup_window": "2 hours", "coalesce": "latest"}, [12]),
        ({"catchup_window": "2 hours", "coalesce": "all"}, [11, 12]),
        ({"catchup_window": "10 min"}, []),
    ],
)
def test_after_an_outage_runs_what_the_policy_says(desk: Desk, policy: dict[str, Any], ran: list[int]) -> None:
    task_id = desk.hourly(**policy)
    assert caught_up(desk, 12) == ran
    assert desk.runs(task_id)[13] is State.SCHEDULED
    if 9 not in ran:
        assert desk.runs(task_id)[9] is State.SKIPPED
        [event] = desk.scheduler.past.events(EventFilter(task_id=task_id, kind=EventKind.SKIPPED)).events
        assert (event.actor, event.reason) == ("duetime", "missed: nothing ran at its time")


@pytest.mark.parametrize(
    ("policy", "ran"),
    [({}, []), ({"coalesce": "latest"}, [12]), ({"coalesce": "earliest"}, [9]), ({"catchup_window": "1 hour"}, [12])],
)
def test_after_a_pause_runs_what_the_policy_says(desk: Desk, policy: dict[str, Any], ran: list[int]) -> None:
    task_id = desk.hourly(**policy)
    desk.scheduler.reschedule(task_id, pause=True)
    desk.clock.at = at(12, 30)
    desk.scheduler.reschedule(task_id, pause=False)
    assert caught_up(desk, 12) == ran
    assert desk.runs(task_id)[13] is State.SCHEDULED


def test_a_late_look_of_a_second_is_no_outage(desk: Desk) -> None:
    desk.hourly(catchup_window="1 s")
    assert [claim.run.scheduled_for.hour for claim in desk.start(9)] == [9]


# -- jitter


def test_jitter_spreads_starts_within_its_window_and_each_task_keeps_its_part(desk: Desk) -> None:
    tasks = [desk.hourly(jitter="10 min") for _ in range(12)]
    delays = {task: delay(desk, task) for task in tasks}
    assert all(timedelta(0) <= each < timedelta(minutes=10) for each in delays.values())
    assert len(set(delays.values())) > 6
    desk.run(10, (10, 0))
    assert {task: delay(desk, task) for task in tasks} == delays


def delay(desk: Desk, task_id: str) -> timedelta:
    run = desk.scheduler.get(task_id).record.run
    assert run.wake_at is not None
    return run.wake_at - run.scheduled_for


def test_work_on_the_hour_is_spread_where_many_share_a_server_and_the_answer_says_so(desk: Desk) -> None:
    planner = Planner(Handlers.load(entry_points=False), "UTC", spread=timedelta(minutes=2))
    shared = Scheduler(desk.store, planner)
    work: Any = {"action": "webhook", "payload": {"url": "https://example.com/hook"}}
    spread = shared.schedule("Import", repeat="every day at 9:00", **work)
    assert spread.record.task.repeat_policy == RepeatPolicy(jitter=timedelta(minutes=2))
    (note,) = (each for each in spread.warnings if each.startswith("each run starts between"))
    assert note == "each run starts between 09:00 and 09:02 UTC; jitter '0 s' is exact"
    assert isinstance(note, Translatable)
    assert (note.kind, note.values) == (NoteKind.JITTER, {"time": "09:00", "last": "09:02"})
    exact = shared.schedule("Import", repeat="every day at 9:00", repeat_policy={"jitter": "0 s"}, **work)
    assert exact.record.run.wake_at == exact.record.run.scheduled_for
    for rule, action in (("every day at 9:10", work), ("every 15 minutes", work), ("every day at 9:00", {})):
        assert shared.schedule("Import", repeat=rule, **action).record.task.repeat_policy is None


def test_a_jitter_longer_than_half_the_time_between_two_runs_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidArgument, match="only 1 h apart"):
        desk.hourly(jitter="40 min")


# -- the key of what is done again


def test_a_failed_run_keeps_its_key_when_it_is_run_again_and_a_success_has_a_new_one(desk: Desk) -> None:
    task_id = desk.hourly()
    [failed] = desk.start(9)
    desk.end([failed], Failed("away"))
    desk.scheduler.letters.replay([failed.run.id])
    [again] = desk.start(9, 10)
    assert (again.run.repeats, key(again)) == (failed.run.id, key(failed))
    desk.end([again], Failed("still away"))
    desk.scheduler.letters.replay([again.run.id])
    [third] = desk.start(9, 20)
    assert key(third) == key(failed)
    desk.end([third])
    desk.scheduler.act(task_id, "run_now")
    [asked] = desk.start(9, 30)
    assert (asked.run.repeats, key(asked)) == (None, asked.run.id)


def test_a_task_that_failed_keeps_its_key_at_another_time(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Pay", when="in 1 hour").record.task.id
    [failed] = desk.start(9, 1)
    desk.end([failed], Failed("away"))
    desk.scheduler.reschedule(task_id, when="in 1 hour")
    [again] = desk.start(10, 1)
    assert key(again) == key(failed)
    desk.end([again])
    desk.scheduler.reschedule(task_id, when="in 1 hour")
    [paid_again] = desk.start(11, 1)
    assert key(paid_again) == paid_again.run.id


def key(claim: Claim) -> str:
    return Context.of(claim.task, claim.run, worker="w", link=Link()).idempotency_key


def test_work_of_programs_may_recur_each_second_and_agents_keep_the_minute(desk: Desk) -> None:
    work: Any = {"action": "webhook", "payload": {"url": "https://example.com/hook"}, "repeat": "every 10 seconds"}
    task_id = desk.scheduler.schedule("Poll", timezone="Europe/Berlin", **work).record.task.id
    assert desk.scheduler.reschedule(task_id, timezone="America/New_York").record.task.timezone == "America/New_York"
    with pytest.raises(InvalidArgument, match="more often than every 1 min"):
        desk.scheduler.schedule("Poll", raw={"title": "Poll"}, **work)
    with pytest.raises(InvalidArgument, match="more often than every 1 min"):
        desk.scheduler.schedule("Stretch", repeat="every 10 seconds")


@on_each_database
@pytest.mark.parametrize("ending", [Retry("no answer"), Failed("no such account")], ids=["retry", "failed"])
def test_an_attempt_of_a_series_ends_on_the_terms_on_which_it_began(desk: Desk, ending: AttemptResult) -> None:
    task_id = desk.hourly()
    desk.scheduler.reschedule(task_id, retry=RetryPolicy(max_attempts=1))
    claims = desk.start(9)
    changed: Any = {"retry": RetryPolicy(max_attempts=3), "on_failure": {"run": {"action": "reminder"}}}
    desk.scheduler.reschedule(task_id, **changed)
    desk.end_anew(claims, ending)
    assert desk.runs(task_id)[9] is State.FAILED, "it had one attempt when it began"
    assert len(desk.scheduler.tasks.list().views) == 1, "nothing followed from its failure when it began"
