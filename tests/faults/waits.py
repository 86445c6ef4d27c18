"""The plays of what waits for the world: events, approvals, pauses, fire addresses, changes of many, overtaken runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.scheduler.calls.bulk_change import BulkVerb
from duetime.scheduler.runtime.failpoints import Step
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.task import State
from sqlalchemy import func, select

from tests import forked
from tests.faults.caller import AFTER, BEFORE, CALLER, UNCUT
from tests.faults.conftest import ROOT
from tests.faults.scenarios import EMBEDDED, SHARED, killed_at_rest, scenario, state_of
from tests.faults.world import PATIENCE_S, World, has_ended
from tests.flow.waiting import eventually

MOMENT = timedelta(seconds=3)
"""Until a pause or an approval ends: longer than a process takes to die."""

SENDER_COUNT = 4
TASK_COUNT = 40
PAID = {"event": "paid", "match": {"order": 7}, "timeout": "1 day"}
ASKED = {"question": "Pay?", "by": "1 day"}
EVENT: dict[str, Any] = {"name": "paid", "data": {"order": 7}, "event_id": "pay-7"}


class Caller:
    """A process that makes one call; see `caller`."""

    def __init__(self, world: World, cut: str, call: str) -> None:
        self._process = forked.popen(
            [sys.executable, "-m", "tests.faults.caller", cut, call],
            cwd=ROOT,
            env=world.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n"

    def begin(self, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        said, _ = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0
        found: dict[str, Any] = json.loads(said)
        return found

    def was_killed(self) -> bool:
        said, _ = self._process.communicate(timeout=PATIENCE_S)
        return (self._process.returncode, said) == (-signal.SIGKILL, "")


def cut_off(world: World, cut: str, call: str, **arguments: Any) -> None:
    """Make a call in a process that is killed in the middle of it."""
    began, caller = time.time(), Caller(world, cut, call)
    caller.begin(**arguments)
    what = "before it was stored" if cut == BEFORE else "before it was answered"
    world.broke("kill -9 of a caller", f"a call died {what}" if caller.was_killed() else "", began=began)


# --- events ---------------------------------------------------------------------------------------------------------


@scenario("kill -9 of what receives an event, before and after it is stored", EMBEDDED, SHARED, quick=(EMBEDDED,))
def event_cut_off(world: World) -> None:
    [task_id] = world.schedule(1, wait_for=PAID)
    seen = []
    for cut in (BEFORE, AFTER):
        cut_off(world, cut, "send_event", **EVENT)
        seen.append(state_of(world, task_id))
    assert seen == [State.WAITING, State.SCHEDULED], "who was not answered has to send it again"
    world.start_again()
    sent = world.app.scheduler.signals.send(**EVENT, by=CALLER)
    assert (sent.freed, sent.repeated) == (1, True), "a repeat is answered as the first"
    world.rest()


@scenario("an event is sent by four processes at once", EMBEDDED, SHARED, quick=(EMBEDDED,))
def event_doubled(world: World) -> None:
    world.start()
    [task_id] = world.schedule(1, wait_for=PAID)
    senders = [Caller(world, UNCUT, "send_event") for _ in range(SENDER_COUNT)]
    for each in senders:
        each.begin(**EVENT)
    answers = [each.answer() for each in senders]
    once = [each["freed"] for each in answers] == [1] * SENDER_COUNT and sum(
        not each["repeated"] for each in answers
    ) == 1
    world.broke(
        "an event doubled",
        f"{SENDER_COUNT} answers, of which {SENDER_COUNT - 1} say that it was a repeat" if once else "",
    )
    world.rest()
    assert world.effects()[world.app.scheduler.get(task_id, by=CALLER).record.run.id] == 1


@scenario("kill -9 while a handler waits for an event that comes while it is down", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_while_a_handler_waits(world: World) -> None:
    node = world.start()
    [task_id] = world.schedule(1, action="waits_for_event")
    eventually(lambda: state_of(world, task_id) is State.SUSPENDED, "the handler to wait", PATIENCE_S)
    killed_at_rest(world, node, "kill -9 while a handler waits", "while a handler waited")
    cut_off(world, AFTER, "send_event", **EVENT)
    world.start_again()
    world.rest()
    assert state_of(world, task_id) is State.SUCCEEDED
    outcomes = [each.outcome for each in world.app.scheduler.past.attempts(task_id, by=CALLER)]
    assert outcomes == ["wait", "done"], outcomes


@scenario("kill -9 as a run of a series begins to wait for its event, and while it waits", EMBEDDED, SHARED)
def killed_while_a_run_of_a_series_waits(world: World) -> None:
    dying = world.start(failpoint=f"{Step.MADE_READY}:kill")
    [task_id] = world.schedule(1, when=None, repeat="every 2 seconds", max_runs=2, wait_for=PAID)
    world.died(dying, "kill -9 as a run begins to wait", signal.SIGKILL, f"fail point {Step.MADE_READY}: kill")
    assert state_of(world, task_id) is State.SCHEDULED, "waits begin once what is ready is queued"
    node = world.start_again()
    eventually(lambda: state_of(world, task_id) is State.WAITING, "the run to wait", PATIENCE_S)
    cut_off(world, AFTER, "send_event", **EVENT)
    eventually(lambda: State.SUCCEEDED in _states(world), "the first run to end", PATIENCE_S)
    eventually(lambda: state_of(world, task_id) is State.WAITING, "the next run to wait", PATIENCE_S)
    killed_at_rest(world, node, "kill -9 while a run waits", "while the next run waited")
    cut_off(world, AFTER, "send_event", **{**EVENT, "event_id": "pay-8"})
    world.start_again()
    world.rest()
    assert _states(world) == [State.SUCCEEDED] * 2
    assert sorted(world.effects().values()) == [1, 1]


def _states(world: World) -> list[str]:
    """Return the states of the runs that were not skipped while another one waited."""
    found = sorted(world.record().runs, key=lambda run: run.due)
    return [run.state for run in found if run.state is not State.SKIPPED]


# --- an event and an approval ---------------------------------------------------------------------------------------


@scenario(
    "kill -9 as a due run begins to wait and to ask, and between its yes and its start",
    EMBEDDED,
    SHARED,
    quick=(EMBEDDED,),
)
def killed_between_an_event_and_an_answer(world: World) -> None:
    [task_id] = world.schedule(1, when=None, repeat="every 2 seconds", max_runs=1, wait_for=PAID, approval=ASKED)
    eventually(lambda: _due(world, task_id) < datetime.now(UTC), "it to be due")
    cut_off(world, AFTER, "make_ready", limit=9)
    cut_off(world, AFTER, "send_event", **EVENT)
    assert (state_of(world, task_id), _asked(world)) == (State.SCHEDULED, 0), "the event came before the wait"
    cut_off(world, BEFORE, "make_ready", limit=9, write=2)
    assert (state_of(world, task_id), _asked(world)) == (State.SCHEDULED, 0), (
        "neither the wait nor the question is kept"
    )
    cut_off(world, AFTER, "make_ready", limit=9, write=2)
    assert (state_of(world, task_id), _asked(world)) == (State.WAITING, 1), "it has its event, and asks"
    cut_off(world, BEFORE, "approve", task_id=task_id)
    assert (state_of(world, task_id), _asked(world)) == (State.WAITING, 1)
    cut_off(world, AFTER, "approve", task_id=task_id)
    assert (state_of(world, task_id), _asked(world)) == (State.SCHEDULED, 0)
    dying = world.start(failpoint=f"{Step.MADE_READY}:kill")
    world.died(dying, "kill -9 after a yes", signal.SIGKILL, f"fail point {Step.MADE_READY}: kill")
    assert state_of(world, task_id) is State.READY
    world.start_again()
    world.rest()
    kinds = [each.kind for each in world.record().events]
    once = [kinds.count(kind) for kind in ("wait_began", "asked", "approved", "ready", "succeeded")]
    assert (once, list(world.effects().values())) == ([1] * 5, [1]), kinds


def _due(world: World, task_id: str) -> datetime:
    return world.app.scheduler.get(task_id, by=CALLER).record.run.scheduled_for


def _asked(world: World) -> int:
    """Return how many questions the user finds."""
    return len([each for each in world.app.scheduler.inbox.unread(by=CALLER) if each.state is State.WAITING])


# --- approvals, pauses ----------------------------------------------------------------------------------------------


@scenario("kill -9 while approvals are open, and at their deadline", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_at_the_deadline_of_an_approval(world: World) -> None:
    node = world.start()
    by = datetime.now(UTC) + MOMENT
    yes, no = (
        world.schedule(1, approval={"question": "Go?", "by": by, "default": default})[0]
        for default in ("approve", "reject")
    )
    killed_at_rest(world, node, "kill -9 while approvals are open", "while two approvals were open")
    assert {state_of(world, each) for each in (yes, no)} == {State.WAITING}
    eventually(lambda: datetime.now(UTC) > by, "the deadline to pass")
    dying = world.start(failpoint=f"{Step.MADE_READY}:kill")
    world.died(dying, "kill -9 at the deadline", signal.SIGKILL, f"fail point {Step.MADE_READY}: kill")
    world.start_again()
    world.rest()
    assert (state_of(world, yes), state_of(world, no)) == (State.SUCCEEDED, State.CANCELLED)
    answered = [each for each in world.record().events if each.kind in {"approved", "rejected"}]
    assert sorted(each.task_id for each in answered) == sorted([yes, no]), answered


@scenario("kill -9 while a task is paused until a time, and at that time", EMBEDDED, SHARED, quick=(EMBEDDED,))
def killed_at_the_end_of_a_pause(world: World) -> None:
    node = world.start()
    end = datetime.now(UTC) + MOMENT
    [task_id] = world.schedule(1, when=datetime.now(UTC) + MOMENT / 3)
    world.app.scheduler.reschedule(task_id, pause=True, pause_until=end, by=CALLER)
    eventually(lambda: datetime.now(UTC) > end - MOMENT / 3, "it to be due while it is paused")
    killed_at_rest(world, node, "kill -9 while a task is paused", "while a task was paused, which was due")
    assert state_of(world, task_id) is State.SCHEDULED
    dying = world.start(failpoint=f"{Step.MADE_READY}:kill")
    world.died(dying, "kill -9 at the end of a pause", signal.SIGKILL, f"fail point {Step.MADE_READY}: kill")
    world.start_again()
    world.rest()
    first = min(line.at for line in world.ledger())
    assert first > end.timestamp(), "it ran while it was paused"
    assert not world.app.scheduler.get(task_id, by=CALLER).record.task.paused


# --- fire addresses, changes of many --------------------------------------------------------------------------------


@scenario("a fire address is called three times, and the first two calls are cut off", EMBEDDED, SHARED)
def fire_cut_off(world: World) -> None:
    world.start()
    [task_id] = world.schedule(1, when="in 30 days")
    token = world.app.scheduler.addresses.make(task_id, by=CALLER).token.text
    call = {"token": token, "data": {"n": 1}, "event_id": "hook-1"}
    for cut, moved in ((BEFORE, False), (AFTER, True)):
        cut_off(world, cut, "fire", **call)
        assert (world.app.scheduler.get(task_id, by=CALLER).record.run.scheduled_for < datetime.now(UTC)) is moved
    repeat = Caller(world, UNCUT, "fire")
    repeat.begin(**call)
    assert repeat.answer()["repeated"], "the second call was stored"
    eventually(lambda: has_ended(world, task_id), "the task to end", PATIENCE_S)
    world.rest()
    assert sum(world.effects().values()) == 1


@scenario("a change of many tasks is cut off, before and after it is stored", EMBEDDED, SHARED)
def bulk_cut_off(world: World) -> None:
    world.start()
    ids = world.schedule(TASK_COUNT, when="in 30 days")
    call: dict[str, Any] = {"task_ids": ids, "idempotency_key": "pause-all"}
    for cut, held in ((BEFORE, 0), (AFTER, TASK_COUNT)):
        cut_off(world, cut, "pause", **call)
        assert _paused(world) == held, "all or nothing"
    again = world.app.scheduler.bulk.change(BulkVerb.PAUSE, **call, by=CALLER)
    assert (again.repeated, len(again.outcomes)) == (True, TASK_COUNT), "a repeated call gets the answer that was lost"
    world.app.scheduler.bulk.change(BulkVerb.UNDO, undo=again.undo, by=CALLER)
    assert _paused(world) == 0, "and can take all of it back"
    world.app.scheduler.bulk.change(BulkVerb.MOVE, ids, to="now", by=CALLER)
    world.rest()
    assert sum(world.effects().values()) == TASK_COUNT


def _paused(world: World) -> int:
    held = select(func.count()).where(tasks.c.paused)
    found: int = world.app.store._database.read(lambda connection: connection.execute(held).scalar_one())
    return found


# --- overtaken runs -------------------------------------------------------------------------------------------------


@scenario("kill -9 of a run that has to give way to the next occurrence", EMBEDDED, SHARED)
def overtaken_run_killed(world: World) -> None:
    node = world.start()
    [task_id] = world.schedule(
        1,
        when=None,
        action="stubborn",
        payload={"seconds": 4.0},
        repeat="every 2 seconds",
        max_runs=2,
        repeat_policy={"overlap": "cancel_other"},
    )
    eventually(lambda: _gives_way(world, task_id), "the run to be asked to give way", PATIENCE_S)
    world.kill(node, "kill -9 of a run that gives way")
    assert _gives_way(world, task_id)
    world.start_again()
    world.rest()
    assert _states(world) == [State.CANCELLED, State.SUCCEEDED]


def _gives_way(world: World, task_id: str) -> bool:
    run = world.app.scheduler.get(task_id, by=CALLER).record.run
    return run.state is State.RUNNING and run.cancel_requested
