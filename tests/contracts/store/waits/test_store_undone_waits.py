"""A task that waits goes on waiting after an undo as if the change had not been."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.waits.signal import KeptWait

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

TENANT = "local"
SCHEDULED, WAITING, READY = State.SCHEDULED, State.WAITING, State.READY
SPAN = timedelta(minutes=20)
FETCH: StepArguments = {"name": "fetch"}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def chain(desk: Desk, *steps: StepArguments, **more: Any) -> list[str]:
    """Schedule a chain, which is due at 9 and each hour from then on unless `more` has `when`; return its steps."""
    rule: dict[str, Any] = {} if "when" in more else {"repeat": "every hour at :00"}
    chain_id = desk.scheduler.schedule("Report", steps=list(steps), **rule, **more).record.task.id
    return list(desk.scheduler.ends.tasks_of(chain_id))


def awaiting(**more: Any) -> Any:
    return {"event": "go", "timeout": "2 hours", **more}


def run_of(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def own_wait(desk: Desk, task_id: str) -> KeptWait | None:
    return desk.store.signals.wait_of_run(TENANT, task_id, run_of(desk, task_id).id)


def undone(desk: Desk, task_id: str, action: str, *, ready: bool) -> None:
    """Make a change and take it back, where it is `ready` once the run is in the queue."""
    changed: Any = desk.scheduler.act(task_id, action)  # type: ignore[arg-type]  # the name of an action
    if ready:
        assert desk.store.claims.make_ready(limit=9)
        assert run_of(desk, task_id).state is READY
    desk.scheduler.act(task_id, "undo", undo=changed.undo)


@on_each_database
@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize("minute", [0, 1])
def test_a_step_that_waited_for_its_event_waits_on_after_an_undone_run_now(
    desk: Desk, ready: bool, minute: int
) -> None:
    fetch, _ = chain(desk, {**FETCH, "wait_for": awaiting()}, {"name": "load", "after": ["fetch"]})
    assert desk.start(9, minute) == []
    before = own_wait(desk, fetch)
    assert before
    assert before.is_open

    undone(desk, fetch, "run_now", ready=ready)

    assert desk.start(9, 2) == []
    assert (run_of(desk, fetch).state, own_wait(desk, fetch)) == (WAITING, before)
    assert desk.scheduler.signals.send("go").freed == 1
    assert [claim.task.id for claim in desk.start(9, 3)] == [fetch]


@on_each_database
@pytest.mark.parametrize("lot", ["skip", "expire", "run"])
@pytest.mark.parametrize("ready", [False, True])
def test_a_step_before_its_turn_has_its_wait_to_come_after_an_undone_run_now(desk: Desk, ready: bool, lot: str) -> None:
    _, load = chain(desk, FETCH, {"name": "load", "after": ["fetch"], "wait_for": awaiting(on_timeout=lot)})
    before = run_of(desk, load)

    undone(desk, load, "run_now", ready=ready)

    assert (run_of(desk, load), own_wait(desk, load)) == (before, None)
    desk.end(desk.start(9))
    assert desk.start(9, 1) == []
    found = own_wait(desk, load)
    assert found
    assert (found.is_open, found.wait.until, run_of(desk, load).state) == (True, at(11, 1), WAITING)
    assert desk.scheduler.signals.send("go").freed == 1
    assert [claim.task.id for claim in desk.start(9, 2)] == [load]


def test_a_step_whose_event_has_come_keeps_it_when_it_is_to_run_now_and_after_the_undo_of_that(desk: Desk) -> None:
    (fetch,) = chain(desk, {**FETCH, "wait_for": awaiting()})
    assert desk.start(9, 1) == []
    desk.scheduler.signals.send("go", {"rows": 3})
    before = own_wait(desk, fetch)
    assert before
    assert before.signal

    desk.clock.forward(seconds=1)
    changed = desk.scheduler.act(fetch, "run_now")
    assert own_wait(desk, fetch) == before
    desk.scheduler.act(fetch, "undo", undo=changed.undo)
    assert own_wait(desk, fetch) == before
    [claim] = desk.start(9, 2)
    assert claim.task.id == fetch


def waits_as_told(desk: Desk, task_id: str) -> tuple[str, ...]:
    """Rename a task and take that back; return what the answers say that it waits for, which is what `get` says."""
    shown = desk.scheduler.get(task_id).waiting_for
    renamed = desk.scheduler.reschedule(task_id, title="Other")
    undone = desk.scheduler.act(task_id, "undo", undo=renamed.undo)
    assert renamed.waiting_for == undone.waiting_for == shown
    return shown


def test_the_answers_of_a_change_and_its_undo_name_what_a_task_waits_for(desk: Desk) -> None:
    asks = desk.scheduler.schedule("Pay", when="in 5 minutes", approval=True).record.task.id
    assert waits_as_told(desk, asks) == ("approval by the user",)
    follows = desk.scheduler.schedule("Load", when="in 5 minutes", after=[asks]).record.task.id
    assert waits_as_told(desk, follows) == (f"{asks} «Pay», which is waiting",)
    awaits = desk.scheduler.schedule("Ship", wait_for=awaiting()).record.task.id
    assert waits_as_told(desk, awaits) == ("the event 'go', until Mon 23 Nov 2026 10:00 (in 2 h), then it expires",)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            Wait(event="go", timeout=timedelta(minutes=20)),
            "the event 'go', until Mon 23 Nov 2026 09:20 (in 20 min), then it goes on",
        ),
        (
            Wait(approval="Pay?", by=timedelta(minutes=20)),
            "approval of «Pay?» by the user until Mon 23 Nov 2026 09:20 (in 20 min)",
        ),
    ],
)
def test_the_answers_of_a_change_and_its_undo_name_what_a_handler_waits_for(desk: Desk, step: Wait, said: str) -> None:
    task_id = desk.scheduler.schedule("Ship", when="at 9:00").record.task.id
    desk.end(desk.start(9), step)
    [found] = waits_as_told(desk, task_id)
    assert found.startswith(said)


def test_an_undone_cancel_and_a_revival_keep_how_many_occurrences_were_missed(desk: Desk) -> None:
    fetch, load = chain(desk, FETCH, {"name": "load", "after": ["fetch"]})
    desk.end(desk.start(9))
    desk.end(desk.start(12, 30))
    assert [run_of(desk, each).missed for each in (fetch, load)] == [3, 3]
    undo = desk.scheduler.cancel(load).undo
    desk.scheduler.act(load, "undo", undo=undo)
    assert run_of(desk, load).missed == 3
    undo = desk.scheduler.cancel(fetch).undo
    assert run_of(desk, load).state is State.CANCELLED
    desk.scheduler.act(fetch, "undo", undo=undo)
    assert [run_of(desk, each).missed for each in (fetch, load)] == [3, 3]


ASKS: Any = {"approval": {"question": "Load?", "by": "20 min", "default": "reject"}}
WAITS: Any = {"wait_for": {"event": "rows", "timeout": "10 min", "on_timeout": "skip"}}
LOAD: Any = {"name": "load", "after": ["fetch"], "after_failure": "run_anyway"}


def held_until(desk: Desk, task_id: str) -> dict[str, datetime | None]:
    """Return until when a task asks and waits for an event: only what it does."""
    run, waiters = run_of(desk, task_id), [task_id, run_of(desk, task_id).id]
    asked = [("asks", each.ends_at) for each in desk.store.approvals.open_of(TENANT, [run.id]).values()]
    waits = [("waits", each.wait.until) for each in desk.store.signals.open_of(TENANT, waiters).values()]
    questions = [each for each in desk.scheduler.inbox.unread() if each.task_id == task_id and each.state is WAITING]
    assert len(questions) == len(asked), "the inbox has the question as long as it is open"
    return dict([*asked, *waits])


def from_then(held: Any, hour: int, minute: int) -> dict[str, datetime | None]:
    found: dict[str, datetime | None] = {}
    found |= {"asks": at(hour, minute + 20)} if "approval" in held else {}
    return found | ({"waits": at(hour, minute + 10)} if "wait_for" in held else {})


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "at once"])
@pytest.mark.parametrize("held", [ASKS, WAITS, ASKS | WAITS], ids=["asks", "waits", "asks and waits"])
def test_a_step_whose_turn_came_by_a_cancel_waits_for_its_turn_again_after_the_undo(
    desk: Desk, held: Any, *, begun: bool
) -> None:
    fetch, load = chain(desk, {**FETCH, "wait_for": awaiting()}, LOAD | held)
    assert desk.start(9) == []
    before, told = run_of(desk, load), desk.scheduler.get(load).waiting_for
    undo = desk.scheduler.cancel(fetch).undo
    if begun:
        assert desk.start(9) == []
        assert held_until(desk, load) == from_then(held, 9, 0)

    desk.scheduler.act(fetch, "undo", undo=undo)
    assert desk.start(9) == [], "the other one waits for its event again"

    assert (run_of(desk, load), held_until(desk, load)) == (before, {})
    assert desk.scheduler.get(load).waiting_for == told
    desk.clock.at = at(9, 30)
    assert (desk.store.approvals.expire(limit=9), desk.store.signals.end_late(limit=9)) == ([], [])
    desk.scheduler.signals.send("go")
    desk.end(desk.start(9, 30))
    assert desk.start(9, 31) == []
    assert held_until(desk, load) == from_then(held, 9, 31), "its question and its wait begin with its turn"
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0


@on_each_database
@pytest.mark.parametrize("kept", ["yes", "event"])
def test_a_step_keeps_a_yes_and_an_event_when_its_turn_is_taken_back(desk: Desk, kept: str) -> None:
    fetch, load = chain(desk, {**FETCH, "wait_for": awaiting()}, LOAD | ASKS | WAITS)
    desk.start(9)
    undo = desk.scheduler.cancel(fetch).undo
    assert desk.start(9) == []
    if kept == "yes":
        desk.scheduler.approve(load)
    else:
        desk.scheduler.signals.send("rows")
    desk.scheduler.act(fetch, "undo", undo=undo)
    assert (desk.start(9), held_until(desk, load)) == ([], {})
    desk.scheduler.signals.send("go")
    desk.end(desk.start(9, 5))
    assert desk.start(9, 6) == []
    assert held_until(desk, load) == from_then(WAITS if kept == "yes" else ASKS, 9, 6)


@pytest.mark.parametrize("in_chain", [True, False], ids=["chain", "tasks"])
def test_a_one_time_task_asks_and_waits_on_after_an_undone_cancel_of_its_upstream(
    desk: Desk, *, in_chain: bool
) -> None:
    if in_chain:
        fetch, load = chain(desk, FETCH, LOAD | ASKS | WAITS, when="at 9:00")
    else:
        fetch = desk.scheduler.schedule("Fetch", when="at 9:00").record.task.id
        after: Any = {"after": [fetch], "after_failure": "run_anyway", **ASKS, **WAITS}
        load = desk.scheduler.schedule("Load", **after).record.task.id
    before = run_of(desk, load), held_until(desk, load)
    assert before[1] == from_then(ASKS | WAITS, 8, 0)
    undo = desk.scheduler.cancel(fetch).undo
    desk.scheduler.act(fetch, "undo", undo=undo)
    assert (run_of(desk, load), held_until(desk, load)) == before
    desk.scheduler.approve(load)
    desk.scheduler.signals.send("rows")
    assert run_of(desk, load).state is WAITING, "it waits for the other one"
    desk.end(desk.start(9))
    assert [claim.task.id for claim in desk.start(9, 1)] == [load]


def test_a_step_that_was_moved_while_it_asked_asks_no_more_when_a_step_before_it_runs_again(desk: Desk) -> None:
    fetch, load = chain(desk, FETCH, LOAD | ASKS)
    desk.end(desk.start(9))
    assert (desk.start(9, 1), held_until(desk, load)) == ([], from_then(ASKS, 9, 1))
    desk.scheduler.reschedule(load, when="at 9:05")
    desk.scheduler.act(fetch, "run_now")
    assert held_until(desk, load) == {}
    desk.end(desk.start(9, 10))
    assert (desk.start(9, 11), held_until(desk, load)) == ([], from_then(ASKS, 9, 11))
