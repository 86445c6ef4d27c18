"""A yes that is taken back: possible until the run starts, exact, and asked about again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskView

from tests.builders import LEASE, Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import MORNING, Desk

ASKS: Mapping[str, Any] = {"approval": {"question": "Pay?", "by": "2 hours"}}
HOUR = timedelta(hours=1)


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", channels=Channels(), upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def of_run(view: TaskView) -> tuple[Any, ...]:
    run: Run = view.record.run
    times = (run.scheduled_for, run.wake_at, run.deadline, run.drop_at, run.first_ready_at, run.generation, run.number)
    return (run.id, run.state, *times, view.waiting_for)


def asked(target: Desk) -> list[str]:
    return [message.text for message in target.scheduler.inbox.unread() if message.state is State.WAITING]


def refused(target: Desk, task_id: str, token: str | None) -> str:
    with pytest.raises(Refused) as refusal:
        target.scheduler.act(task_id, "undo", undo=token)
    return str(refusal.value)


@on_each_database
@pytest.mark.parametrize(
    "arguments",
    [{"when": "in 1 hour"}, {"when": "in 10 minutes", "deadline": "30 min"}, {"repeat": "every hour at :00"}],
    ids=["early", "late, with a deadline", "of a series"],
)
def test_a_yes_is_taken_back_as_if_it_had_not_been_until_the_run_starts(target: Desk, arguments: Any) -> None:
    task_id = target.schedule(**arguments, **ASKS)
    target.clock.at += HOUR if "when" not in arguments else HOUR / 2
    target.start()
    before = of_run(target.get(task_id))
    assert (before[1], asked(target)) == (State.WAITING, ["Pay?"])
    yes = target.scheduler.approve(task_id)
    target.store.claims.make_ready(limit=9)

    back = target.scheduler.act(task_id, "undo", undo=yes.undo)
    assert of_run(back) == before == of_run(target.get(task_id))
    assert (asked(target), back.undo) == (["Pay?"], None)
    assert target.start() == []
    newest = target.scheduler.past.events(EventFilter(task_id=task_id)).events[0]
    assert (newest.kind, newest.reason, newest.to_state) == (
        EventKind.UNDONE,
        "its approval was taken back",
        State.WAITING,
    )
    target.scheduler.approve(task_id)
    assert target.run(target.clock.at + HOUR) == 1


def test_hours_later_it_can_be_taken_back_and_asks_for_as_long_as_before(target: Desk) -> None:
    task_id = target.schedule(when="tomorrow 9am", **ASKS)
    yes = target.scheduler.approve(task_id)
    target.clock.at += 3 * HOUR
    back = target.scheduler.act(task_id, "undo", undo=yes.undo)
    assert "until Mon 23 Nov 2026 13:00" in back.waiting_for[0]


def test_a_task_moved_since_the_yes_keeps_its_new_time(target: Desk) -> None:
    task_id = target.schedule(when="in 1 hour", **ASKS)
    yes = target.scheduler.approve(task_id)
    moved = target.scheduler.reschedule(task_id, when="in 3 hours").record.run
    back = target.scheduler.act(task_id, "undo", undo=yes.undo).record.run
    assert (back.state, back.scheduled_for) == (State.WAITING, moved.scheduled_for)


@on_each_database
def test_a_repeated_undo_is_one_and_the_token_of_an_earlier_yes_takes_back_no_later_one(target: Desk) -> None:
    task_id = target.schedule(when="in 1 hour", **ASKS)
    first = target.scheduler.approve(task_id)
    assert target.scheduler.approve(task_id).undo is None, "the same click twice: it did nothing"
    for _ in "ab":
        raw = {"task_id": task_id, "action": "undo", "undo": first.undo}
        back = target.scheduler.act(task_id, "undo", undo=first.undo, raw=raw)
        assert (back.record.run.state, asked(target)) == (State.WAITING, ["Pay?"])
    target.clock.at += timedelta(minutes=2)
    second = target.scheduler.approve(task_id)
    assert second.undo != first.undo
    assert "has no such answer any more" in refused(target, task_id, first.undo)
    assert target.get(task_id).record.run.state is State.SCHEDULED


def test_a_task_that_has_started_or_was_cancelled_since_says_so(target: Desk) -> None:
    started, cancelled = (target.schedule(when="in 1 hour", **ASKS) for _ in range(2))
    tokens = {each: target.scheduler.approve(each).undo for each in (started, cancelled)}
    target.scheduler.cancel(cancelled)
    target.clock.at += HOUR
    [claim] = target.start()
    assert "has started since, so its approval stays" in refused(target, started, tokens[started])
    assert "is cancelled, so its approval stays" in refused(target, cancelled, tokens[cancelled])
    target.end([claim], Done("paid"))
    assert "has started since" in refused(target, started, tokens[started])


def test_a_yes_to_a_whole_chain_is_taken_back_as_a_whole_or_not_at_all(target: Desk) -> None:
    steps: Any = [{"name": "one"}, {"name": "two"}, {"name": "mail", "after": ["one", "two"]}]

    def chain() -> tuple[str, str | None]:
        chain_id = target.schedule(when="in 1 hour", steps=steps, **ASKS)
        return chain_id, target.scheduler.approve(chain_id).undo

    def states(chain_id: str) -> list[State]:
        found = target.get(chain_id).chain
        assert found
        return [step.state for step in found.steps]

    whole, token = chain()
    target.scheduler.act(whole, "undo", undo=token)
    assert (states(whole), asked(target)) == ([State.WAITING] * 3, ["Pay?"] * 2)
    assert "has no such answer any more" in refused(target, whole, token)

    begun, token = chain()
    target.clock.at += HOUR
    ready = target.store.claims.make_ready(limit=9)
    target.store.claims.start([Start(ready[0].run_id)], worker="w", epoch=None, lease=LEASE)
    assert "has started since" in refused(target, begun, token)
    assert sorted(states(begun)) == sorted([State.RUNNING, State.READY, State.WAITING]), "the other one was not touched"
