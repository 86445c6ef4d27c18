"""Occurrences that do not wait for the run before them: it is cancelled, or goes on next to them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.rules.changes import ALREADY_CANCELLED
from duetime.scheduler.rules.series.overtake import MAX_RUNS_AT_ONCE
from duetime.scheduler.rules.settlement import AttemptResult, StoppedByRequest
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.widgets.payload import task_payload

from tests.builders import Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

STOPPED = StoppedByRequest()


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def overtaken(desk: Desk, hour: int, minute: int = 0) -> list[str]:
    """Let the timer look at a time, as long as there is something to do; return the tasks whose series went on."""
    desk.clock.at = at(hour, minute)
    found: list[str] = []
    while moved := desk.store.series.overtake(limit=9).tasks:
        found += moved
    return found


def stopped(desk: Desk, claims: list[Claim], ending: AttemptResult = STOPPED) -> None:
    """End claims of before the wish to stop them, as a worker does that is told its task was changed."""
    desk.end_anew(claims, ending)


def reasons(desk: Desk, task_id: str, kind: EventKind) -> list[str | None]:
    return [event.reason for event in desk.scheduler.past.events(EventFilter(task_id=task_id, kind=kind)).events]


def running(desk: Desk, task_id: str) -> list[int]:
    return [hour for hour, state in desk.runs(task_id).items() if state is State.RUNNING]


# -- cancel_other


def test_the_run_in_progress_is_asked_to_end_when_the_next_is_due_and_the_next_starts_when_it_has(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    claims = desk.start(9)
    assert overtaken(desk, 9, 59) == []
    assert overtaken(desk, 10) == [task_id]
    assert desk.store.claims.unwanted([claims[0].run.id], worker="w") == {claims[0].run.id}
    assert desk.start(10, 1) == [], "it waits until the older one has ended"
    desk.clock.at = at(10, 2)
    stopped(desk, claims)
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.SCHEDULED}
    assert [claim.run.scheduled_for for claim in desk.start(10, 2)] == [at(10)]
    assert reasons(desk, task_id, EventKind.CANCEL_REQUESTED) == ["the next one is due"]
    assert reasons(desk, task_id, EventKind.CANCELLED) == ["the next one is due"]
    assert desk.scheduler.inbox.unread() == [], "nobody is told of what was to be expected"


def test_a_run_that_waits_for_its_next_attempt_is_cancelled_at_once(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    desk.run(9, (9, 59), Retry("away", after=timedelta(hours=2)))
    assert overtaken(desk, 10) == [task_id]
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.SCHEDULED}
    assert reasons(desk, task_id, EventKind.CANCELLED) == ["the next one is due"]
    assert [claim.run.scheduled_for for claim in desk.start(10)] == [at(10)]


def test_a_handler_that_does_not_stop_is_done_and_only_the_newest_occurrence_follows(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    claims = desk.start(9)
    overtaken(desk, 10)
    desk.clock.at = at(12, 30)
    stopped(desk, claims, Done("late"))
    assert desk.runs(task_id) == {
        9: State.SUCCEEDED, 10: State.SKIPPED, 11: State.SKIPPED, 12: State.SCHEDULED,
    }  # fmt: skip
    assert desk.scheduler.get(task_id).record.run.missed == 2


def test_a_run_that_fails_while_it_is_to_stop_is_cancelled_and_the_series_goes_on(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other", pause_after=1)
    claims = desk.start(9)
    overtaken(desk, 10)
    stopped(desk, claims, Failed("interrupted"))
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.SCHEDULED}
    assert not desk.scheduler.get(task_id).record.task.paused


def test_a_cancel_by_the_user_ends_the_series_also_of_a_run_that_gives_way(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    claims = desk.start(9)
    overtaken(desk, 10)
    desk.scheduler.cancel(task_id)
    stopped(desk, claims)
    assert desk.runs(task_id) == {9: State.CANCELLED}


def test_a_worker_that_dies_leaves_the_series_going_on(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    epoch = desk.store.runners.take_over(pid=1, endpoint="", token="")
    claims = desk.start(9, epoch=epoch)
    assert claims
    overtaken(desk, 10)
    desk.recover(desk.store.runners.take_over(pid=2, endpoint="", token=""))
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.SCHEDULED}


def test_an_occurrence_missed_while_nothing_ran_is_not_overtaken(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    assert overtaken(desk, 11, 30) == []
    claims = desk.start(11, 30)
    assert [claim.run.scheduled_for for claim in claims] == [at(9)]
    assert overtaken(desk, 11, 31) == []
    assert desk.store.claims.next_times().first() == at(12), "the next that is due"
    assert overtaken(desk, 12) == [task_id]


def test_a_side_run_goes_on_when_the_current_one_gives_way(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    desk.scheduler.act(task_id, "run_now")
    beside = desk.start(8, 30)
    claims = desk.start(9)
    overtaken(desk, 10)
    both = [claim.run.id for claim in (*claims, *beside)]
    assert desk.store.claims.unwanted(both, worker="w") == {claims[0].run.id}
    stopped(desk, claims)
    desk.end_anew(beside, Done("now"))
    assert sorted(run.state for run in runs_of(desk.store, task_id)) == [
        State.CANCELLED, State.SCHEDULED, State.SUCCEEDED,
    ]  # fmt: skip


def test_a_paused_task_is_not_overtaken_and_a_new_policy_holds_for_the_run_in_progress(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.start(9)
    desk.scheduler.reschedule(task_id, repeat_policy={"overlap": "cancel_other"})
    desk.scheduler.reschedule(task_id, pause=True)
    assert overtaken(desk, 10) == []
    assert desk.store.claims.next_times().first() is None
    desk.scheduler.reschedule(task_id, pause=False)
    assert overtaken(desk, 10, 30) == [task_id]


def test_a_task_whose_run_gives_way_is_no_cancelled_one_and_stays_in_the_agenda(desk: Desk) -> None:
    task_id = desk.hourly(overlap="cancel_other")
    desk.start(9)
    overtaken(desk, 10)
    view = desk.scheduler.get(task_id)
    assert [wait.sentence for wait in view.waits] == ["its handler to stop, as the next one is due"]
    assert task_payload(view).cancel_requested is None
    page = desk.scheduler.tasks.list(TaskFilter(before=at(13)))
    assert [each.record.run.scheduled_for.hour for each in page.views if each.record.task.id == task_id] == [9, 11, 12]


# -- allow_all


@on_each_database
def test_several_runs_of_one_task_are_in_progress_at_once(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    claims = desk.start(9)
    for hour in (10, 11):
        assert overtaken(desk, hour) == [task_id]
        claims += desk.start(hour)
    assert running(desk, task_id) == [9, 10, 11]
    assert [claim.run.number for claim in claims] == [1, 2, 3]
    desk.clock.at = at(11, 30)
    desk.end_anew(claims, Done("imported"))
    assert desk.runs(task_id) == {
        9: State.SUCCEEDED, 10: State.SUCCEEDED, 11: State.SUCCEEDED, 12: State.SCHEDULED,
    }  # fmt: skip
    assert len(desk.scheduler.inbox.unread()) == 3


def test_the_last_of_a_series_ends_it_while_an_older_run_goes_on(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all", max_runs=2)
    first = desk.start(9)
    overtaken(desk, 10)
    last = desk.start(10)
    assert overtaken(desk, 11) == []
    desk.end_anew(last, Done("second"))
    assert desk.scheduler.get(task_id).record.run.state is State.RUNNING
    desk.end_anew(first, Done("first"))
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SUCCEEDED}


@on_each_database
def test_the_earliest_occurrence_in_progress_becomes_current_whichever_was_tried_again_last(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all", max_runs=3)
    desk.run(9, (9, 1), Retry("away", after=timedelta(minutes=89)))
    overtaken(desk, 10)
    desk.start(10)
    desk.start(10, 30)  # what is for 9:00, again
    overtaken(desk, 11)
    desk.end_anew(desk.start(11), Done("third"))
    view = desk.scheduler.get(task_id)
    assert (view.record.run.scheduled_for, view.record.run.state) == (at(9), State.RUNNING)
    assert [run.scheduled_for for run in view.record.side_runs] == [at(10)]


def test_a_cancel_stops_all_that_is_in_progress(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    claims = desk.start(9)
    overtaken(desk, 10)
    claims += desk.start(10)
    desk.scheduler.cancel(task_id)
    ids = {claim.run.id for claim in claims}
    assert desk.store.claims.unwanted(sorted(ids), worker="w") == ids
    desk.end_anew(claims, StoppedByRequest())
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.CANCELLED}


def test_a_second_cancel_changes_nothing_while_the_runs_that_were_asked_to_stop_go_on(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    desk.start(9)
    overtaken(desk, 10)
    first = desk.scheduler.bulk.change("cancel", [task_id])
    assert [each.became for each in first.outcomes] == [Became.CHANGED]
    desk.clock.at = at(10, 5)
    for dry_run in (True, False):
        second = desk.scheduler.bulk.change("cancel", [task_id], dry_run=dry_run)
        assert [each.became for each in second.outcomes] == [Became.UNCHANGED]
    assert ALREADY_CANCELLED in desk.scheduler.cancel(task_id).warnings
    assert reasons(desk, task_id, EventKind.CANCELLED) == [None]


def test_an_older_run_is_tried_again_next_to_the_newer_ones(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    claims = desk.start(9)
    overtaken(desk, 10)
    desk.end_anew(claims, Retry("away", after=timedelta(minutes=1)))
    again = desk.start(10, 5)
    assert sorted((claim.run.scheduled_for.hour, claim.run.attempt) for claim in again) == [(9, 2), (10, 1)]
    desk.end_anew(again, Done("imported"))
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SUCCEEDED, 11: State.SCHEDULED}


def test_no_more_than_so_many_runs_are_open_at_once(desk: Desk) -> None:
    view = desk.scheduler.schedule("Poll", repeat="every minute", repeat_policy={"overlap": "allow_all"})
    desk.start(8, 1)
    for minute in range(2, 40):
        overtaken(desk, 8, minute)
        desk.start(8, minute)
    assert len(running_runs(desk, view.record.task.id)) == MAX_RUNS_AT_ONCE
    assert desk.store.claims.next_times().first() == at(8, 40)


def running_runs(desk: Desk, task_id: str) -> list[str]:
    return [run.id for run in runs_of(desk.store, task_id) if run.state is State.RUNNING]


@pytest.mark.parametrize(
    "policy",
    [
        {"overlap": "allow_all", "pause_after": 2},
        {"overlap": "allow_all", "coalesce": "all"},
        {"overlap": "cancel_other", "coalesce": "all"},
    ],
)
def test_a_contradiction_of_policies_is_refused(desk: Desk, policy: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="repeat_policy"):
        desk.hourly(**policy)


def over(desk: Desk, **end: Any) -> str:
    """Return a task that is over: its last run gave way to an occurrence that it has no more."""
    task_id = desk.hourly(overlap="cancel_other")
    claims = desk.start(9)
    overtaken(desk, 10)
    desk.scheduler.reschedule(task_id, **end)
    stopped(desk, claims)
    assert desk.runs(task_id) == {9: State.CANCELLED}
    return task_id


@on_each_database
@pytest.mark.parametrize(
    ("end", "change"),
    [
        ({"max_runs": 1}, {"max_runs": 3}),
        ({"repeat": "never"}, {"repeat": "every 2 hours"}),
        ({"repeat": "never"}, {"when": at(13)}),
    ],
)
def test_a_task_whose_last_run_gave_way_was_not_cancelled_and_goes_on(
    desk: Desk, end: dict[str, Any], change: dict[str, Any]
) -> None:
    view = desk.scheduler.reschedule(over(desk, **end), **change)
    assert (view.record.run.state, view.record.task.repeat is None) == (State.SCHEDULED, "when" in change)


def test_a_task_whose_last_run_gave_way_starts_by_its_fire_address(desk: Desk) -> None:
    address = desk.scheduler.addresses.make(over(desk, max_runs=1)).address
    assert not desk.scheduler.addresses.fire(address).repeated
    assert [claim.run.scheduled_for for claim in desk.start(10)] == [at(10)]


@on_each_database
def test_a_series_that_was_cancelled_in_its_run_leaves_no_policy_to_a_later_one(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    claims = desk.start(9)
    desk.scheduler.cancel(task_id)
    stopped(desk, claims, Done("late"))
    once = desk.scheduler.reschedule(task_id, when=at(13)).record.task
    assert (once.repeat, once.repeat_policy) == (None, None)
    assert desk.scheduler.reschedule(task_id, repeat="every 2 hours").record.task.repeat_policy is None
