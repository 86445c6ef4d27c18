"""The overlap policy between an occurrence that was moved past others and those others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.maintenance import MAINTENANCE_INTERVAL_S, Maintenance, NoNeighbours
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Retry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.settlement import StoppedByRequest
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind

from tests.builders import Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

STOPPED = StoppedByRequest()


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def moved(desk: Desk, overlap: str, hour: int, minute: int, *, max_runs: int | None = None) -> str:
    """Schedule an hourly series and move its first occurrence, of 9 o'clock, past others."""
    task_id = desk.hourly(overlap=overlap, max_runs=max_runs)
    desk.scheduler.reschedule(task_id, when=at(hour, minute))
    return task_id


def starting(desk: Desk, hour: int, minute: int = 0) -> list[tuple[int, int]]:
    return [(claim.run.scheduled_for.hour, claim.run.scheduled_for.minute) for claim in desk.start(hour, minute)]


def ended(desk: Desk, claims: list[Claim], hour: int, minute: int) -> None:
    desk.clock.at = at(hour, minute)
    desk.end_anew(claims, Done("imported"))


def states(desk: Desk, task_id: str) -> dict[str, State]:
    return {f"{run.scheduled_for:%H:%M}": run.state for run in runs_of(desk.store, task_id)}


def why(desk: Desk, task_id: str, kind: EventKind) -> list[str | None]:
    return [event.reason for event in desk.scheduler.past.events(EventFilter(task_id=task_id, kind=kind)).events]


class Working(NoNeighbours):
    """A worker that is still at these runs."""

    def __init__(self, run_ids: list[str]) -> None:
        self._run_ids = run_ids

    def held(self) -> list[str]:
        return self._run_ids


def explained(desk: Desk, task_id: str) -> str:
    return " ".join(desk.scheduler.explain(task_id)[1])


# -- the moved one falls due while a run of its series is open


@on_each_database
def test_a_moved_occurrence_is_skipped_while_a_run_of_its_series_is_open(desk: Desk) -> None:
    task_id = moved(desk, "skip", 10, 30)
    claims = desk.start(10)
    assert starting(desk, 10, 30) == []
    assert states(desk, task_id) == {"10:30": State.SKIPPED, "10:00": State.RUNNING}
    assert why(desk, task_id, EventKind.SKIPPED) == [f"run {claims[0].run.id} was still open"]
    assert not desk.scheduler.get(task_id).record.side_runs
    ended(desk, claims, 10, 40)
    assert starting(desk, 11) == [(11, 0)]


@pytest.mark.parametrize("overlap", ["buffer_one", "buffer_all"])
def test_a_moved_occurrence_waits_for_the_open_run_of_its_series_where_that_is_the_policy(
    desk: Desk, overlap: str
) -> None:
    task_id = moved(desk, overlap, 10, 30)
    claims = desk.start(10)
    assert starting(desk, 10, 30) == starting(desk, 10, 31) == []
    assert why(desk, task_id, EventKind.WAIT_BEGAN) == [f"run {claims[0].run.id} is still open"]
    assert "its run of Mon 23 Nov 2026 10:30 starts when another one has ended" in desk.scheduler.get(task_id).warnings
    assert desk.store.backlog.paused_runs() == {}, "nobody paused it"
    ended(desk, claims, 10, 40)
    assert starting(desk, 10, 40) == [(10, 30)]


@on_each_database
@pytest.mark.parametrize("paused", [False, True])
def test_a_moved_occurrence_that_waits_expires_at_its_deadline_unless_its_task_is_paused(
    desk: Desk, paused: bool
) -> None:
    view = desk.scheduler.schedule(
        "Import",
        repeat="every hour at :00",
        repeat_policy={"overlap": "buffer_one"},
        deadline="20 min",
        deadline_type="hard",
        estimate="1 s",
    )
    task_id = view.record.task.id
    desk.scheduler.reschedule(task_id, when=at(10, 30))
    claims = desk.start(10)
    assert starting(desk, 10, 30) == []
    if paused:
        desk.scheduler.reschedule(task_id, pause=True)
    queue, worker = MemoryQueue(lambda: desk.clock().timestamp() * 1000), Working([claim.run.id for claim in claims])
    passed_s = 0.0
    maintenance = Maintenance(desk.store, queue, worker=worker, clock=lambda: passed_s)
    for minute, after_s, expired in ((40, 0.0, False), (51, 3.0, False), (51, MAINTENANCE_INTERVAL_S, not paused)):
        desk.clock.at, passed_s = at(10, minute), after_s
        maintenance.step()
        assert (states(desk, task_id)["10:30"] is State.EXPIRED) == expired
    assert states(desk, task_id)["10:00"] is State.RUNNING


def test_a_moved_occurrence_goes_before_those_that_fell_due_later_for_the_same_run(desk: Desk) -> None:
    moved(desk, "buffer_all", 10, 30)
    first = desk.start(10)
    assert starting(desk, 11) == []
    ended(desk, first, 12, 30)
    order = []
    for minute in (30, 31, 32, 33):
        claims = desk.start(12, minute)
        order += [f"{claim.run.scheduled_for:%H:%M}" for claim in claims]
        if claims:
            ended(desk, claims, 12, minute)
    assert order == ["10:30", "11:00", "12:00"]


def test_an_open_run_gives_way_to_a_moved_occurrence(desk: Desk) -> None:
    task_id = moved(desk, "cancel_other", 10, 30)
    claims = desk.start(10)
    assert starting(desk, 10, 30) == []
    assert desk.store.claims.unwanted([claims[0].run.id], worker="w") == {claims[0].run.id}
    desk.clock.at = at(10, 31)
    desk.end_anew(claims, STOPPED)
    assert starting(desk, 10, 31) == [(10, 30)]
    assert states(desk, task_id)["10:00"] is State.CANCELLED
    assert why(desk, task_id, EventKind.CANCELLED) == ["the next one is due"]
    assert desk.scheduler.get(task_id).record.run.scheduled_for == at(11), "the series goes on"


def test_a_run_that_waits_for_its_next_attempt_gives_way_to_a_moved_occurrence_at_once(desk: Desk) -> None:
    task_id = moved(desk, "cancel_other", 10, 30)
    desk.run(10, (10, 5), Retry("away", after=timedelta(hours=2)))
    assert starting(desk, 10, 30) == [(10, 30)]
    assert states(desk, task_id) == {"10:00": State.CANCELLED, "10:30": State.RUNNING, "11:00": State.SCHEDULED}


@on_each_database
def test_all_run_at_once_where_the_policy_allows_it(desk: Desk) -> None:
    moved(desk, "allow_all", 10, 30)
    assert starting(desk, 10) == [(10, 0)]
    assert starting(desk, 10, 30) == [(10, 30)]


# -- the next of the series falls due while the moved one is open


def test_an_occurrence_is_skipped_while_a_moved_one_is_open(desk: Desk) -> None:
    task_id = moved(desk, "skip", 10, 30, max_runs=3)
    desk.run(10, (10, 5))
    claims = desk.start(10, 30)
    assert starting(desk, 11) == []
    assert states(desk, task_id)["11:00"] is State.SKIPPED
    assert why(desk, task_id, EventKind.SKIPPED) == [f"run {claims[0].run.id} was still open"]
    ended(desk, claims, 11, 5)
    assert starting(desk, 12) == [(12, 0)], "what was skipped has used up no number"


@on_each_database
def test_the_last_occurrence_of_a_series_waits_for_a_moved_one(desk: Desk) -> None:
    task_id = moved(desk, "skip", 10, 30, max_runs=2)
    claims = desk.start(10)
    ended(desk, claims, 10, 5)
    assert desk.runs(task_id) == {10: State.SCHEDULED}
    claims = desk.start(10, 30)
    ended(desk, claims, 10, 31)
    assert desk.scheduler.get(task_id).record.run.state is State.SUCCEEDED


@pytest.mark.parametrize("overlap", ["buffer_one", "buffer_all"])
def test_an_occurrence_waits_for_the_moved_one_that_is_open_where_that_is_the_policy(desk: Desk, overlap: str) -> None:
    task_id = moved(desk, overlap, 10, 30)
    desk.run(10, (10, 5))
    claims = desk.start(10, 30)
    assert starting(desk, 11) == starting(desk, 12) == []
    run = claims[0].run.id
    assert f"the end of its run {run} of Mon 23 Nov 2026 10:30: one runs at a time" in explained(desk, task_id)
    view = desk.scheduler.get(task_id)
    assert [wait.kind for wait in view.waits] == [WaitKind.TURN], "the card has words for it"
    ended(desk, claims, 12, 30)
    late = desk.start(12, 30)
    assert [claim.run.scheduled_for for claim in late] == [at(11)]
    ended(desk, late, 12, 35)
    found = states(desk, task_id)
    if overlap == "buffer_one":
        assert found["12:00"] is State.SKIPPED, "one waits, further ones are skipped"
        assert why(desk, task_id, EventKind.SKIPPED) == [f"run {run} was still open"]
        assert starting(desk, 12, 35) == []
    else:
        assert starting(desk, 12, 35) == [(12, 0)]


def test_a_moved_occurrence_gives_way_to_the_next_one(desk: Desk) -> None:
    task_id = moved(desk, "cancel_other", 10, 30)
    desk.run(10, (10, 5))
    claims = desk.start(10, 30)
    assert starting(desk, 11) == []
    assert desk.store.claims.unwanted([claims[0].run.id], worker="w") == {claims[0].run.id}
    desk.clock.at = at(11, 1)
    desk.end_anew(claims, STOPPED)
    assert starting(desk, 11, 1) == [(11, 0)]
    assert states(desk, task_id)["10:30"] is State.CANCELLED
    assert why(desk, task_id, EventKind.CANCEL_REQUESTED) == ["the next one is due"]
    assert why(desk, task_id, EventKind.CANCELLED) == ["the next one is due"]
    assert desk.scheduler.inbox.unread(limit=9)[0].text == "imported", "nobody is told of what was to be expected"


def test_a_moved_occurrence_that_waits_for_its_next_attempt_gives_way_at_once(desk: Desk) -> None:
    task_id = moved(desk, "cancel_other", 10, 30)
    desk.run(10, (10, 5))
    claims = desk.start(10, 30)
    desk.end_anew(claims, Retry("away", after=timedelta(hours=2)))
    assert starting(desk, 11) == [(11, 0)]
    assert states(desk, task_id)["10:30"] is State.CANCELLED


# -- what ends the wait, and what does not


def test_two_occurrences_that_fell_due_while_nothing_ran_run_one_after_the_other(desk: Desk) -> None:
    moved(desk, "skip", 10, 30)
    claims = desk.start(12)
    assert [claim.run.scheduled_for for claim in claims] == [at(10)]
    ended(desk, claims, 12, 5)
    assert starting(desk, 12, 5) == [(10, 30)]


def test_a_new_policy_lets_a_waiting_occurrence_go(desk: Desk) -> None:
    task_id = moved(desk, "buffer_one", 10, 30)
    desk.start(10)
    assert starting(desk, 10, 30) == []
    desk.scheduler.reschedule(task_id, repeat_policy={"overlap": "allow_all"})
    assert starting(desk, 10, 31) == [(10, 30)]


def test_a_pause_keeps_a_waiting_occurrence_until_the_resume(desk: Desk) -> None:
    task_id = moved(desk, "buffer_one", 10, 30)
    claims = desk.start(10)
    assert starting(desk, 10, 30) == []
    desk.scheduler.reschedule(task_id, pause=True)
    ended(desk, claims, 10, 40)
    assert starting(desk, 10, 41) == []
    desk.scheduler.reschedule(task_id, pause=False)
    assert starting(desk, 10, 42) == [(10, 30)]


def test_a_worker_that_dies_lets_the_waiting_occurrence_go(desk: Desk) -> None:
    moved(desk, "cancel_other", 10, 30)
    epoch = desk.store.runners.take_over(pid=1, endpoint="", token="")
    desk.start(10, epoch=epoch)
    assert starting(desk, 10, 30) == []
    desk.recover(desk.store.runners.take_over(pid=2, endpoint="", token=""))
    assert starting(desk, 10, 31) == [(10, 30)]


def test_a_run_that_somebody_asked_for_apart_runs_next_to_the_others(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.scheduler.act(task_id, "run_now")
    assert starting(desk, 8, 30) == [(8, 0)]
    assert starting(desk, 9) == [(9, 0)]
