"""The cancel of a chain whose step runs says what it leaves, and its undo what that did not bring back."""

from __future__ import annotations

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, restarted, settlement

STEPS: list[StepArguments] = [
    {"name": "load"},
    {"name": "check", "after": ["load"]},
    {"name": "tell", "after": ["check"]},
]
STOPS = "asked to stop: load; an undo does not take that back, and what comes after ends with it unless it succeeds"


def cancelled(scheduler: Scheduler, store: Store, to: State | None) -> TaskView:
    """Return the answer to the cancel of a chain whose first step runs, which ends then in the state `to`."""
    view = scheduler.schedule("Report", when="now", steps=STEPS)
    assert view.chain
    claim = restarted(store, store.tasks.get("local", view.chain.steps[0].task_id))
    answer = scheduler.cancel(view.chain.id)
    if to:
        store.claims.settle([settlement(claim, to)])
    return answer


def states(view: TaskView) -> list[State]:
    assert view.chain
    return [step.state for step in view.chain.steps]


def test_the_cancel_of_a_chain_that_runs_says_that_it_is_stopping(scheduler: Scheduler, store: Store) -> None:
    view = cancelled(scheduler, store, None)
    payload = task_payload(view)
    assert (payload.state, payload.cancel_requested) == (State.RUNNING, True)
    assert task_text(payload).startswith("The chain is stopping: it was asked to stop.")
    assert view.warnings == (STOPS,)
    assert task_payload(scheduler.get(payload.id)).cancel_requested
    undone = scheduler.act(payload.id, "undo", undo=view.undo)
    assert states(undone) == [State.RUNNING, State.WAITING, State.WAITING]
    assert (undone.warnings, task_payload(undone).cancel_requested) == ((STOPS,), None)


def test_an_undo_after_the_running_step_has_stopped_is_refused_since_nothing_comes_back(
    scheduler: Scheduler, store: Store
) -> None:
    view = cancelled(scheduler, store, State.CANCELLED)
    with pytest.raises(
        Refused, match="nothing was taken back, as each of 2 tasks refuses it; the first: a task before it"
    ):
        scheduler.act(view.record.task.id, "undo", undo=view.undo)
    assert states(scheduler.get(view.record.task.id)) == [State.CANCELLED] * 3


def test_the_undo_of_the_call_for_many_tasks_is_refused_in_the_same_words(scheduler: Scheduler, store: Store) -> None:
    view = cancelled(scheduler, store, State.CANCELLED)
    with pytest.raises(
        Refused, match="nothing was taken back, as each of 2 tasks refuses it; the first: a task before it"
    ):
        scheduler.bulk.change("undo", undo=view.undo)


def test_an_undo_after_the_running_step_has_succeeded_lets_the_others_go_on(scheduler: Scheduler, store: Store) -> None:
    view = cancelled(scheduler, store, State.SUCCEEDED)
    undone = scheduler.act(view.record.task.id, "undo", undo=view.undo)
    assert states(undone) == [State.SUCCEEDED, State.SCHEDULED, State.WAITING]
    assert undone.warnings == ()


def begun(scheduler: Scheduler, store: Store, steps: list[StepArguments]) -> str:
    """Return a chain whose first step failed once, and is tried again later."""
    view = scheduler.schedule("Report", when="now", steps=steps)
    assert view.chain
    claim = restarted(store, store.tasks.get("local", view.chain.steps[0].task_id))
    store.claims.settle([settlement(claim, State.RETRYING)])
    return view.chain.id


def test_the_cancel_of_a_chain_of_which_nothing_comes_back_offers_no_undo(scheduler: Scheduler, store: Store) -> None:
    chain_id = begun(scheduler, store, STEPS)
    cancelled = scheduler.cancel(chain_id)
    assert (states(cancelled), cancelled.undo) == ([State.CANCELLED] * 3, None)
    assert cancelled.warnings == ()


@pytest.mark.parametrize(
    "last",
    [{"name": "clean"}, {"name": "clean", "after": ["tell"], "after_failure": "run_anyway"}],
    ids=["apart", "in spite of a cancel"],
)
def test_the_cancel_of_a_chain_names_what_its_undo_does_not_bring_back(
    scheduler: Scheduler, store: Store, last: StepArguments
) -> None:
    left, chain_id = "load, check, tell", begun(scheduler, store, [*STEPS, last])
    cancelled = scheduler.cancel(chain_id)
    assert cancelled.warnings == (f"an undo does not bring back: {left} (a step had begun)",)
    undone = scheduler.act(chain_id, "undo", undo=cancelled.undo)
    assert undone.chain
    assert {step.name for step in undone.chain.steps if step.state is State.CANCELLED} == set(left.split(", "))
    assert undone.warnings == (f"not taken back: {left} (a step had begun)",)


@pytest.mark.parametrize("repeat", [None, "every day at 9:00"])
def test_the_undo_of_the_cancel_of_a_chain_brings_back_a_step_that_was_to_run_after_the_end_of_the_one_before_it(
    scheduler: Scheduler, clock: Clock, repeat: str | None
) -> None:
    steps: list[StepArguments] = [
        {"name": "load"},
        {"name": "tell", "after": ["load"], "after_failure": "skip"},
        {"name": "clean"},
    ]
    view = scheduler.schedule("Report", when=None if repeat else "tomorrow 9:00", repeat=repeat, steps=steps)
    assert view.chain
    ids = {step.name: step.task_id for step in view.chain.steps}
    scheduler.cancel(ids["load"])
    clock.forward(minutes=1)
    scheduler.reschedule(ids["tell"], when="tomorrow 10:00")
    cancelled = scheduler.cancel(view.chain.id)
    assert cancelled.warnings == ()
    undone = scheduler.act(view.chain.id, "undo", undo=cancelled.undo)
    assert undone.chain
    assert {step.name: step.state for step in undone.chain.steps} == {
        "load": State.CANCELLED, "tell": State.SCHEDULED, "clean": State.SCHEDULED,
    }  # fmt: skip
    assert undone.warnings == ()


def test_a_repeated_cancel_of_a_chain_says_of_its_undo_what_the_first_one_said(
    scheduler: Scheduler, store: Store
) -> None:
    apart: StepArguments = {"name": "clean"}
    later = scheduler.schedule("Later", when="in 2 hours", steps=[*STEPS, apart]).record.task.id
    for chain_id in (later, begun(scheduler, store, [*STEPS, apart])):
        raw = {"task_id": chain_id}
        first, again = (scheduler.cancel(chain_id, raw=raw) for _ in "ab")
        assert (again.undo, again.warnings) == (first.undo, (REPEATED_CALL, *first.warnings))
        assert again.undo
