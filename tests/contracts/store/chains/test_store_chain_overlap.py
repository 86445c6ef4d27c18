"""Generations of a chain that fall due while another one is open, or while nothing runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import StoppedByRequest
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from sqlalchemy import text

from tests.builders import Clock, runs_of, settlement
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

STEPS: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
DONE, SKIPPED, SCHEDULED, WAITING = State.SUCCEEDED, State.SKIPPED, State.SCHEDULED, State.WAITING
CANCELLED = State.CANCELLED


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


class Hourly:
    """A chain that recurs on the hour, from 9:00 on, with the ids of its steps."""

    def __init__(
        self,
        desk: Desk,
        steps: list[StepArguments] = STEPS,
        *,
        rule: str = "every hour at :00",
        max_runs: int | None = None,
        **policy: Any,
    ) -> None:
        given: dict[str, Any] = {"repeat": rule, "repeat_policy": policy or None, "max_runs": max_runs}
        view = desk.scheduler.schedule("Report", steps=steps, **given)
        assert view.chain
        self.id, self.desk = view.chain.id, desk
        self.steps = {step.name: step.task_id for step in view.chain.steps}

    def run(self, start: int, end: tuple[int, int]) -> None:
        """Run the first step at an hour; the second one ends later."""
        for hour, minute in ((start, 0), end):
            self.end(hour, minute, start=(start, 0))

    def end(self, hour: int, minute: int = 0, *, start: tuple[int, int] | None = None) -> list[int]:
        """Start the steps that are due, and end them at a time; return the hours of their generations."""
        claims = self.desk.start(*(start or (hour, minute)))
        self.desk.clock.at = at(hour, minute)
        self.desk.end(claims)
        return [claim.run.scheduled_for.hour for claim in claims]

    def runs(self, name: str = "fetch") -> dict[int, State]:
        return self.desk.runs(self.steps[name])

    def reasons(self, name: str, kind: EventKind = EventKind.SKIPPED) -> list[str | None]:
        found = EventFilter(task_id=self.steps[name], kind=kind)
        return [event.reason for event in self.desk.scheduler.past.events(found).events]


def test_a_generation_that_falls_due_while_one_is_open_is_skipped_and_each_first_step_has_a_run_that_says_so(
    desk: Desk,
) -> None:
    chain = Hourly(desk)
    chain.run(9, (11, 30))
    assert chain.runs("fetch") == {9: DONE, 10: SKIPPED, 11: SKIPPED, 12: SCHEDULED}
    assert chain.reasons("fetch") == ["generation 1 was still open"] * 2
    assert chain.runs("load")[12] is WAITING
    record = desk.scheduler.get(chain.id).record
    assert (record.run.number, record.last_run and record.last_run.state) == (2, DONE)
    assert desk.scheduler.get(chain.steps["fetch"]).record.run.missed == 2


@on_each_database
def test_a_generation_that_passed_while_nothing_ran_is_counted_and_not_skipped(desk: Desk) -> None:
    chain = Hourly(desk)
    chain.end(11, 30)
    chain.end(11, 31)
    assert chain.runs() == {9: DONE, 12: SCHEDULED}
    assert desk.scheduler.get(chain.steps["fetch"]).record.run.missed == 2


def test_buffer_one_runs_the_first_generation_that_fell_due_when_the_open_one_has_ended(desk: Desk) -> None:
    chain = Hourly(desk, overlap="buffer_one")
    chain.run(9, (12, 30))
    assert chain.runs() == {9: DONE, 10: SCHEDULED, 11: SKIPPED, 12: SKIPPED}
    assert chain.end(12, 31) == [10]
    assert chain.end(12, 32) == [12], "a step after others is due when they have ended"
    assert (chain.runs()[13], desk.scheduler.get(chain.id).record.run.number) == (SCHEDULED, 3)


@pytest.mark.parametrize("undone", [False, True])
def test_buffer_all_runs_each_generation_that_fell_due_one_after_the_other_also_after_an_undone_cancel(
    desk: Desk, undone: bool
) -> None:
    chain = Hourly(desk, overlap="buffer_all")
    chain.run(9, (12, 30))
    if undone:
        desk.scheduler.act(chain.id, "undo", undo=desk.scheduler.cancel(chain.id).undo)
    ran = []
    for minute in range(31, 37, 2):
        ran += chain.end(12, minute)
        chain.end(12, minute + 1)
    assert (ran, chain.runs()[13]) == ([10, 11, 12], SCHEDULED)
    assert desk.scheduler.get(chain.id).record.run.number == 5


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "buffer_all"])
def test_generations_that_were_skipped_use_up_no_number(desk: Desk, overlap: str) -> None:
    chain = Hourly(desk, [{"name": "fetch"}], max_runs=2, overlap=overlap)
    chain.end(11, 30, start=(9, 0))
    desk.end(desk.start(12, 1))
    assert list(chain.runs().values()).count(DONE) == 2
    assert desk.start(13, 1) == []


@on_each_database
def test_a_long_generation_writes_ten_skipped_runs_of_a_first_step_at_most_and_counts_all(desk: Desk) -> None:
    chain = Hourly(desk, rule="every minute")
    claims = desk.start(9)
    desk.clock.at = at(9, 30)
    desk.end(claims, Failed("away"))
    assert [run.state for run in runs_of(desk.store, chain.steps["fetch"])].count(SKIPPED) == 10
    assert desk.scheduler.get(chain.steps["fetch"]).record.run.missed >= 30


# -- generations that passed while nothing ran


@on_each_database
def test_of_missed_generations_the_latest_runs_where_the_policy_says_so_and_each_step_says_what_was_left_out(
    desk: Desk,
) -> None:
    chain = Hourly(desk, coalesce="latest", max_runs=2)
    assert desk.start(12, 30) == []
    assert chain.runs("load") == {9: SKIPPED, 12: WAITING}
    assert chain.reasons("load") == ["missed: nothing ran at its time"]
    assert [chain.end(12, 31), chain.end(12, 32)] == [[12], [12]]
    record = desk.scheduler.get(chain.id).record
    assert (chain.runs(), record.run.number) == ({9: SKIPPED, 12: DONE, 13: SCHEDULED}, 2)


def test_every_missed_generation_runs_one_after_the_other_where_the_policy_says_so(desk: Desk) -> None:
    chain = Hourly(desk, coalesce="all")
    ran = []
    for minute in range(30, 40, 2):
        ran += chain.end(12, minute)
        chain.end(12, minute + 1)
        if chain.runs().get(13):
            break
    assert ran == [9, 10, 11, 12]


@pytest.mark.parametrize("policy", [{}, {"coalesce": "all"}, {"overlap": "buffer_all"}, {"overlap": "buffer_one"}])
def test_generations_that_the_move_of_one_has_passed_do_not_come(desk: Desk, policy: dict[str, Any]) -> None:
    chain = Hourly(desk, **policy)
    desk.scheduler.reschedule(chain.id, when="12:20")
    assert [desk.start(10), desk.start(12, 19)] == [[], []]
    assert len(chain.end(12, 20)) == len(chain.end(12, 21)) == 1
    assert chain.runs() == {12: DONE, 13: SCHEDULED}


def test_a_generation_that_was_missed_longer_ago_than_the_window_does_not_run(desk: Desk) -> None:
    chain = Hourly(desk, catchup_window="2 hours")
    desk.start(13, 30)
    assert chain.runs() == {9: SKIPPED, 12: SCHEDULED}
    assert chain.end(13, 31) == [12]


def test_with_nothing_in_its_window_a_chain_goes_on_with_the_generation_to_come(desk: Desk) -> None:
    chain = Hourly(desk, catchup_window="5 minutes")
    assert [desk.start(12, 30), desk.start(12, 31)] == [[], []]
    assert chain.runs("load") == {9: SKIPPED, 13: WAITING}
    assert chain.end(13, 0) == [13]


def test_a_generation_in_progress_is_not_missed_however_late_its_later_steps_are(desk: Desk) -> None:
    chain = Hourly(desk, coalesce="latest")
    chain.end(9)
    assert chain.end(12, 30) == [9]
    assert chain.runs("load")[9] is DONE


def test_a_generation_of_which_one_first_step_runs_is_not_missed_though_another_was_paused(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "left"}, {"name": "right"}], coalesce="latest")
    desk.scheduler.reschedule(chain.steps["right"], pause=True)
    [left] = desk.start(9)
    desk.clock.at = at(12, 20)
    desk.scheduler.reschedule(chain.steps["right"], pause=False)
    assert [claim.run.scheduled_for.hour for claim in desk.start(12, 21)] == [9]
    assert (left.run.scheduled_for.hour, chain.runs("left")) == (9, {9: State.RUNNING})


def test_a_missed_generation_without_such_a_policy_runs_late(desk: Desk) -> None:
    chain = Hourly(desk)
    assert [chain.end(12, 30), chain.end(12, 31)] == [[9], [12]]


def test_a_replay_that_waits_is_no_missed_generation(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}], coalesce="latest")
    desk.end(desk.start(9), Failed("away"))
    desk.scheduler.act(chain.id, "run_now")
    assert [claim.run.number for claim in desk.start(9, 50)] == [1]
    assert chain.runs()[10] is SCHEDULED


@pytest.mark.parametrize(
    ("policy", "ran"), [({}, 9), ({"coalesce": "latest"}, 12), ({"catchup_window": "5 minutes"}, 13)]
)
def test_a_chain_that_is_resumed_catches_up_with_what_passed_during_the_pause(
    desk: Desk, policy: dict[str, Any], ran: int
) -> None:
    chain = Hourly(desk, **policy)
    desk.scheduler.reschedule(chain.id, pause=True)
    desk.nothing_due(12, 20)
    desk.scheduler.reschedule(chain.id, pause=False)
    found = [claim for _ in range(2) for claim in desk.start(12, 20)] or desk.start(13)
    assert [claim.run.scheduled_for.hour for claim in found] == [ran]


# -- cancel_other

GIVES_WAY = "the next one is due"
WAITING_SESSIONS = text(
    "SELECT count(*) FROM pg_locks WHERE NOT granted"
    " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
)
STOPPED = StoppedByRequest()


def overtaken(desk: Desk, hour: int, minute: int = 0) -> None:
    """Let the timer look at a time, as long as there is something to do."""
    desk.clock.at = at(hour, minute)
    while desk.store.series.overtake(limit=9).tasks:
        pass


def test_an_open_generation_gives_way_whole_and_the_next_one_starts_when_its_last_step_has_stopped(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    claims = desk.start(9)
    overtaken(desk, 9, 59)
    assert desk.store.claims.unwanted([claims[0].run.id], worker="w") == set()
    overtaken(desk, 10)
    assert desk.store.claims.unwanted([claims[0].run.id], worker="w") == {claims[0].run.id}
    assert chain.runs("load") == {9: CANCELLED}, "it had not begun"
    assert not desk.scheduler.get(chain.id).record.run.cancel_requested, "the chain itself goes on"
    assert desk.start(10, 1) == []
    desk.clock.at = at(10, 2)
    desk.end_anew(claims, STOPPED)
    assert (chain.runs(), chain.runs("load")) == ({9: CANCELLED, 10: SCHEDULED}, {9: CANCELLED, 10: WAITING})
    assert [chain.end(10, 3), chain.end(10, 4)] == [[10], [10]]
    asked, left = chain.reasons("fetch", EventKind.CANCEL_REQUESTED), chain.reasons("load", EventKind.CANCELLED)
    assert (asked, left) == ([GIVES_WAY], [GIVES_WAY])
    told = {each.title: f"{each.created_at:%H:%M}" for each in desk.scheduler.inbox.unread()}
    assert told == {"Report: fetch": "10:03", "Report: load": "10:04"}, "nobody is told of what was to be expected"


@on_each_database
def test_a_generation_between_two_attempts_ends_at_once_and_the_next_one_comes(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    desk.end(desk.start(9), Retry("away", after=timedelta(hours=2)))
    overtaken(desk, 10)
    assert (chain.runs(), chain.runs("load")) == ({9: CANCELLED, 10: SCHEDULED}, {9: CANCELLED, 10: WAITING})


def test_a_step_that_does_not_stop_is_done_and_the_newest_generation_follows(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    chain.end(9)
    claims = desk.start(9, 1)
    overtaken(desk, 10)
    desk.clock.at = at(12, 30)
    desk.end_anew(claims, Done("late"))
    assert chain.runs("load") == {9: DONE, 12: WAITING}
    assert chain.runs("fetch") == {9: DONE, 10: SKIPPED, 11: SKIPPED, 12: SCHEDULED}


def test_a_generation_that_gave_way_is_no_failure_and_no_success_for_the_pause(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other", pause_after=2)
    desk.end(desk.start(9), Failed("away"))
    claims = desk.start(10)
    overtaken(desk, 11)
    desk.end_anew(claims, Failed("interrupted"))
    assert not desk.scheduler.get(chain.id).record.task.paused
    desk.end(desk.start(11, 1), Failed("away"))
    assert desk.scheduler.get(chain.id).record.task.paused


def test_a_cancel_by_the_user_ends_the_series_also_of_a_generation_that_gives_way(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    claims = desk.start(9)
    overtaken(desk, 10)
    desk.scheduler.cancel(chain.id)
    desk.end_anew(claims, STOPPED)
    assert (chain.runs(), chain.runs("load")) == ({9: CANCELLED}, {9: CANCELLED})


def test_tasks_that_a_step_has_spawned_give_way_with_its_generation(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    [claim] = desk.start(9)
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=desk.store.dependencies.known)
    spawned = FanOut(desk.store, planner, TenantQuotas()).plan(claim.task, [{"name": "one"}])
    desk.store.claims.settle([settlement(claim, spawned=tuple(spawned))])
    [one] = desk.start(9, 1)
    overtaken(desk, 10)
    desk.end_anew([one], STOPPED)
    assert (chain.runs(), chain.runs("load")) == ({9: DONE, 10: SCHEDULED}, {9: CANCELLED, 10: WAITING})
    view = desk.scheduler.get(chain.id)
    assert view.chain
    assert [step.name for step in view.chain.steps] == ["fetch", "load"]


def test_a_generation_that_starts_late_gives_way_to_the_next_time_and_not_to_a_missed_one(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    [claim] = desk.start(11, 30)
    overtaken(desk, 11, 40)
    assert desk.store.claims.unwanted([claim.run.id], worker="w") == set()
    assert desk.store.claims.next_times().series_at == at(12)
    overtaken(desk, 12)
    desk.end_anew([claim], STOPPED)
    assert chain.runs() == {9: CANCELLED, 12: SCHEDULED}


def test_the_last_generation_gives_way_to_none_until_there_may_be_more(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other", max_runs=1)
    [claim] = desk.start(9)
    overtaken(desk, 10, 30)
    assert desk.store.claims.unwanted([claim.run.id], worker="w") == set()
    assert desk.store.claims.next_times().series_at is None
    desk.scheduler.reschedule(chain.id, max_runs=2)
    overtaken(desk, 11)
    assert desk.store.claims.unwanted([claim.run.id], worker="w") == {claim.run.id}


@on_each_database
def test_an_open_generation_gives_way_at_the_first_time_of_a_new_rule(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    [claim] = desk.start(9)
    overtaken(desk, 9, 1)
    desk.scheduler.reschedule(chain.id, repeat="every 10 minutes")
    overtaken(desk, 9, 20)
    assert desk.store.claims.unwanted([claim.run.id], worker="w") == {claim.run.id}


@on_each_database
def test_a_generation_gives_way_at_the_delayed_start_of_the_next_one_also_after_an_earlier_look(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other", jitter="25 min")
    run = desk.scheduler.get(chain.steps["fetch"]).record.run
    assert run.wake_at
    delay = run.wake_at - run.scheduled_for
    desk.clock.at = run.wake_at
    desk.store.claims.make_ready(limit=9)
    desk.clock.at = at(10)
    desk.scheduler.reschedule(chain.id, title="Figures")
    overtaken(desk, 10)
    assert desk.store.claims.next_times().series_at == at(10) + delay
    desk.clock.at = at(10) + delay
    assert desk.store.series.overtake(limit=9).tasks
    assert chain.runs() == {9: CANCELLED, 10: SCHEDULED}


def test_a_generation_gives_way_that_only_waits_for_a_task_outside_the_chain(desk: Desk) -> None:
    outside = desk.scheduler.schedule("Import", when="at 20:00").record.task.id
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "load", "after": ["fetch", outside]}], overlap="cancel_other")
    overtaken(desk, 9)
    chain.end(9)
    assert desk.store.claims.next_times().series_at == at(10)
    overtaken(desk, 10)
    assert (chain.runs(), chain.runs("load")) == ({9: DONE, 10: SCHEDULED}, {9: CANCELLED, 10: WAITING})
    assert chain.end(10, 1) == [10]


def test_a_generation_of_which_all_open_steps_are_paused_gives_way_when_it_is_resumed(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    chain.end(9)
    desk.scheduler.reschedule(chain.steps["load"], pause=True)
    overtaken(desk, 10, 30)
    assert (chain.runs("load"), desk.store.claims.next_times().series_at) == ({9: SCHEDULED}, None)
    desk.scheduler.reschedule(chain.steps["load"], pause=False)
    overtaken(desk, 10, 31)
    assert chain.runs("load") == {9: CANCELLED, 10: WAITING}


def test_a_generation_that_has_not_begun_gives_way_to_none(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    overtaken(desk, 11, 30)
    assert desk.store.claims.next_times().series_at == at(12)
    assert chain.runs() == {9: SCHEDULED}


def test_a_chain_that_recurs_no_more_gives_way_to_nothing(desk: Desk) -> None:
    chain = Hourly(desk, overlap="cancel_other")
    [claim] = desk.start(9)
    desk.scheduler.reschedule(chain.id, repeat="never")
    overtaken(desk, 11)
    assert desk.store.claims.next_times().series_at is None
    desk.end_anew([claim], Done("fetched"))
    assert chain.runs("load") == {11: SCHEDULED}


def test_a_chain_that_is_cancelled_with_the_task_that_it_comes_after_does_not_go_on(desk: Desk) -> None:
    first = desk.scheduler.schedule("Import", when="at 20:00").record.task.id
    given: dict[str, Any] = {"after": [first], "repeat_policy": {"overlap": "cancel_other"}}
    chain = desk.scheduler.schedule("Report", repeat="every hour at :00", steps=STEPS, **given).chain
    assert chain
    desk.scheduler.cancel(first)
    view = desk.scheduler.get(chain.id)
    assert view.chain
    assert [step.state for step in view.chain.steps] == [CANCELLED, CANCELLED]


def test_a_step_that_runs_again_within_its_generation_gives_way_as_well(desk: Desk) -> None:
    left, right = {"name": "left"}, {"name": "right"}
    both: list[Any] = [left, right, {"name": "load", "after": ["left"]}]
    chain = Hourly(desk, both, overlap="cancel_other")
    first, second = sorted(desk.start(9), key=lambda claim: claim.task.title)
    desk.end([first], Failed("away"))
    desk.scheduler.act(chain.steps["left"], "run_now")
    desk.end_anew([second], Done("right"))
    claims = desk.start(9, 30)
    overtaken(desk, 10)
    desk.end_anew(claims, STOPPED)
    assert chain.runs("load")[10] is WAITING


@pytest.mark.postgres
@pytest.mark.parametrize("of_chain", [True, False])
def test_a_run_that_gives_way_is_not_locked_before_its_task_and_keeps_the_look_of_another_process(
    empty_postgres: str, clock: Clock, *, of_chain: bool
) -> None:
    clock.at = MORNING
    store = open_store(empty_postgres, clock=clock)
    desk = Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)
    task_id = Hourly(desk, overlap="cancel_other").steps["fetch"] if of_chain else desk.hourly(overlap="cancel_other")
    desk.start(9)
    clock.at = at(10)
    engine = store._database.engine
    with ThreadPoolExecutor(1) as dispatcher, engine.connect() as other, engine.connect() as watch:
        other.execute(text("SELECT id FROM tasks WHERE id = :id FOR UPDATE"), {"id": task_id})
        looked = dispatcher.submit(store.series.overtake, limit=9)
        while not watch.execute(WAITING_SESSIONS).scalar() and not looked.done():
            watch.rollback()
        other.execute(text("SELECT id FROM runs WHERE task_id = :id FOR UPDATE NOWAIT"), {"id": task_id})
        other.execute(text("UPDATE runs SET cancel_requested = true WHERE task_id = :id"), {"id": task_id})
        other.commit()
        looked.result(timeout=60)
    assert desk.scheduler.get(task_id).record.run.gives_way, "the other process looked first"
    store.close()
