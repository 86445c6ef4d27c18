"""`pause_after` of generations that run at once (`allow_all`): they count in the order in which they end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from sqlalchemy import event

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk
from tests.contracts.store.hourly_chain import STEPS, Hourly

AWAY = Failed("away")


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def begun(desk: Desk, most: int, generations: int = 3, **given: object) -> tuple[Hourly, list[Claim]]:
    """Return a chain with its open generations; each is at its first step."""
    chain = Hourly(desk, STEPS, policy={"pause_after": most}, **given)
    claims = desk.start(9)
    for hour in range(10, 9 + generations):
        claims += chain.overtaken(hour)
    return chain, claims


def count(desk: Desk, chain: Hourly) -> int:
    return desk.scheduler.get(chain.id).record.run.failed_before


def is_paused(desk: Desk, chain: Hourly) -> bool:
    return desk.scheduler.get(chain.id).record.task.paused


@on_each_database
def test_overtaken_generations_that_fail_one_after_the_other_pause_the_chain_and_the_message_says_so(
    desk: Desk,
) -> None:
    chain, (first, second, _) = begun(desk, 2)
    desk.end([second], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (1, False)
    desk.end([first], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (2, True)
    texts = [message.text for message in desk.scheduler.inbox.unread() if message.state is State.FAILED]
    assert [text for text in texts if "paused" in text] == [
        "away (paused: 2 generations in a row failed; resume it to go on)"
    ]
    assert "2 generations in a row failed" in str(desk.scheduler.explain(chain.id))


@on_each_database
def test_a_generation_that_ends_well_in_between_begins_the_count_again(desk: Desk) -> None:
    chain, (first, second, third) = begun(desk, 2)
    desk.end([first], AWAY)
    desk.end([second])
    desk.end([claim for claim in desk.start(11, 1) if claim.run.number == 2])
    assert (count(desk, chain), is_paused(desk, chain)) == (0, False)
    desk.end_anew([third], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (1, False)


def test_the_newest_generation_counts_with_those_that_it_overtook(desk: Desk) -> None:
    chain, (first, second) = begun(desk, 2, 2)
    desk.end([first], AWAY)
    desk.end([second], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (2, True)


def test_the_count_goes_on_in_a_generation_that_overtakes(desk: Desk) -> None:
    chain, (first, _) = begun(desk, 2, 2)
    desk.end([first], AWAY)
    chain.overtaken(11)
    assert count(desk, chain) == 1


@on_each_database
def test_a_generation_counts_once_its_last_step_has_ended_and_once_alone(desk: Desk) -> None:
    steps = [*STEPS, {"name": "clean", "after": ["fetch"], "after_failure": "run_anyway"}]
    chain = Hourly(desk, steps, policy={"pause_after": 2})  # type: ignore[arg-type]  # a step of its own
    [first] = desk.start(9)
    chain.overtaken(10)
    desk.end([first], AWAY)
    assert count(desk, chain) == 0
    [clean] = desk.start(10, 1)
    desk.end([clean], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (1, False)


@on_each_database
@pytest.mark.parametrize("outcome", [AWAY, Done("late")])
def test_a_replay_counts_neither_way(desk: Desk, outcome: Done | Failed) -> None:
    chain, (first, second) = begun(desk, 2, 2)
    desk.end([first], AWAY)
    desk.end([second])
    [letter] = [each for each in desk.scheduler.letters.page()[0] if each.run_id == first.run.id]
    desk.scheduler.letters.replay([letter.run_id])
    desk.end([claim for claim in desk.start(11, 5) if claim.run.number == 1], outcome)
    if isinstance(outcome, Done):
        desk.end([claim for claim in desk.start(11, 6) if claim.run.number == 1], outcome)
    assert (count(desk, chain), is_paused(desk, chain)) == (1, False)


def test_a_chain_without_a_limit_counts_nothing_for_overtaken_generations(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    chain.overtaken(10)
    desk.end([first], AWAY)
    desk.clock.at += timedelta(minutes=1)
    assert (count(desk, chain), is_paused(desk, chain)) == (0, False)


@on_each_database
def test_an_overtaken_generation_that_fails_last_pauses_no_chain_that_is_over(desk: Desk) -> None:
    chain, (first, last) = begun(desk, 1, 2, max_runs=2)
    desk.end([last])
    desk.end([claim for claim in desk.start(10, 1) if claim.run.number == 2])
    desk.end_anew([first], AWAY)
    assert not is_paused(desk, chain)
    assert [message.text for message in desk.scheduler.inbox.unread() if "paused" in message.text] == []


@on_each_database
def test_an_overtaken_generation_that_fails_after_a_cancel_in_the_current_one_pauses_nothing(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "check"}], policy={"pause_after": 1})
    first = {claim.task.id: claim for claim in desk.start(9)}
    desk.end([first.pop(chain.steps["check"])])
    second = chain.overtaken(10)
    assert len(second) == 2
    desk.scheduler.cancel(chain.steps["check"])
    desk.end_anew(list(first.values()), AWAY)
    assert not is_paused(desk, chain)


@on_each_database
def test_a_generation_that_ends_with_an_overtaken_failure_lets_the_chain_go_on_and_pause(desk: Desk) -> None:
    chain, (first, second) = begun(desk, 1, 2)
    desk.end([second])
    [load] = [claim for claim in desk.start(10, 1) if claim.run.number == 2]
    desk.end([first, load], AWAY)
    assert is_paused(desk, chain)


@on_each_database
def test_a_cancel_that_is_taken_back_keeps_the_count_and_the_generation_that_it_brings_back_counts(
    desk: Desk,
) -> None:
    chain, (first, second, third) = begun(desk, 3)
    desk.end([second], AWAY)
    desk.end([first, third])
    assert count(desk, chain) == 1
    cancelled = desk.scheduler.cancel(chain.id)
    desk.scheduler.act(chain.id, "undo", undo=cancelled.undo)
    assert count(desk, chain) == 1
    [load] = [claim for claim in desk.start(11, 1) if claim.run.number == 1]
    desk.end([load], AWAY)
    assert count(desk, chain) == 2


@on_each_database
def test_a_resume_restarts_the_count_also_where_a_step_runs_or_has_ended(desk: Desk) -> None:
    chain, (first, second, third) = begun(desk, 2)
    desk.end([third])
    [load] = desk.start(11, 1)
    desk.end([first, second], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (2, True)
    desk.scheduler.reschedule(chain.id, pause=False)
    assert count(desk, chain) == 0
    desk.end_anew([load], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (1, False)


def test_a_step_that_runs_again_in_its_generation_keeps_the_count(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "check"}], policy={"pause_after": 2, "overlap": "skip"})
    desk.end(desk.start(9), AWAY)
    [check, fetch] = sorted(desk.start(10), key=lambda claim: claim.task.title)
    desk.end([fetch], AWAY)
    desk.scheduler.act(chain.steps["fetch"], "run_now")
    desk.end([*desk.start(10, 1), check], AWAY)
    assert (count(desk, chain), is_paused(desk, chain)) == (2, True)


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_count_locks_all_steps_before_the_chain_as_the_end_of_any_step_does(desk: Desk) -> None:
    chain, (first, _) = begun(desk, 2, 2)
    desk.end([first])
    [load] = desk.start(10, 1)
    locks = list[tuple[str, object]]()

    def note(_connection: object, _cursor: object, sql: str, values: object, *_: object) -> None:
        if "FOR UPDATE" in sql:
            locks.append((sql, values))

    engine = desk.store._database.engine
    event.listen(engine, "before_cursor_execute", note)
    desk.end([load], AWAY)
    event.remove(engine, "before_cursor_execute", note)
    of_chain = next(place for place, (sql, _) in enumerate(locks) if "FROM chains" in sql)
    of_tasks = [values for sql, values in locks[:of_chain] if "FROM tasks" in sql]
    assert all(step in str(of_tasks) for step in chain.steps.values()), locks
    assert count(desk, chain) == 1
