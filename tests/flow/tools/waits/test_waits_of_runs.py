"""Runs that ask and wait for an event, as agents, users and voices meet them: called, shown, answered, run."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.principal import Principal
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.widgets.formats.speech import speech
from duetime.widgets.payload import task_payload

from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of
from tests.virtual import VirtualRunner

ANN = Principal("local", "local")
BOTH: dict[str, Any] = {
    "approval": {"question": "Pay?", "by": "2 hours"},
    "wait_for": {"event": "ready", "timeout": "3 hours"},
}
ASKS = "approval of «Pay?» by the user until"
WAITS = "the event 'ready', until"


@pytest.fixture
def runner(store: Store, clock: Clock) -> VirtualRunner:
    return VirtualRunner(store, clock, Handlers.load(), "UTC", {})


@pytest.fixture
def ask(runner: VirtualRunner) -> Ask:
    return asked_of(runner.scheduler)


def ran(runner: VirtualRunner) -> list[str]:
    """Run what may run now; return the titles."""
    runner.dispatch()
    claims = runner.take(9)
    for claim in claims:
        runner.end(claim, runner.attempt(claim))
    return [claim.task.title for claim in claims]


def says(ask: Ask, task_id: str) -> tuple[bool, bool]:
    """Return whether the answer of the tool says that it asks, and that it waits for its event."""
    text, found = ask("get_task", task_id=task_id)
    said = "; ".join(found.get("waiting_for") or ())
    assert (ASKS in text, WAITS in text) == (ASKS in said, WAITS in said)
    return ASKS in said, WAITS in said


def test_an_agent_schedules_a_task_that_repeats_and_reads_at_each_point_what_is_still_waited_for(
    ask: Ask, runner: VirtualRunner, clock: Clock
) -> None:
    text, found = ask("schedule_task", title="Payroll", repeat="every day at 14:00", action="reminder", **BOTH)
    task_id = found["id"]
    assert "Asks the user before each run: «Pay?» (for 2 h, else it is skipped)." in text
    assert "Each run waits for the event 'ready', for 3 h at most, then it expires." in text
    assert (found["repeat"]["approval"]["question"], found["repeat"]["wait_for"]["event"]) == ("Pay?", "ready")
    for number in (1, 2):
        clock.forward(hours=2 if number == 1 else 24)
        assert ran(runner) == []
        assert says(ask, task_id) == (True, True)
        card = task_payload(runner.scheduler.get(task_id))
        assert [each.kind for each in card.waits or ()] == ["approval", "event"]
        sent = ask("send_event", name="ready")[1]
        assert (sent["freed"], sent["still_waiting"]) == (0, 1), "it waits for the answer still"
        assert says(ask, task_id) == (True, False)
        runner.scheduler.act(task_id, "approve", by=ANN)
        assert ran(runner) == ["Payroll"]
        assert runner.scheduler.get(task_id).record.run.number == number + 1
    history = ask("get_task", task_id=task_id, history=True)[1]["history"]["events"]
    assert {"wait_began", "asked", "approved", "unblocked"} <= {each["kind"] for each in history}


def test_an_agent_schedules_a_chain_that_repeats_whose_step_asks_and_waits(
    ask: Ask, runner: VirtualRunner, clock: Clock
) -> None:
    steps = [{"name": "fetch"}, {"name": "pay", "after": ["fetch"], **BOTH}]
    chain_id = ask("schedule_task", title="Wages", repeat="every day at 14:00", steps=steps)[1]["id"]
    pay = runner.scheduler.ends.tasks_of(chain_id)[1]
    for days in (0, 1):
        clock.forward(hours=24 if days else 2)
        assert ran(runner) == ["Wages: fetch"]
        assert ran(runner) == []
        assert says(ask, chain_id) == says(ask, pay) == (True, True)
        runner.scheduler.act(chain_id, "approve", by=ANN)
        assert says(ask, chain_id) == (False, True)
        assert ask("send_event", name="ready", data={"day": days})[1]["freed"] == 1
        assert ran(runner) == ["Wages: pay"]
    assert runner.scheduler.get(pay).record.run.state is State.WAITING


def test_a_question_that_is_added_by_the_tool_is_told_by_the_history_and_so_is_its_undo(
    ask: Ask, runner: VirtualRunner, clock: Clock
) -> None:
    steps = [{"name": "fetch"}, {"name": "pay", "after": ["fetch"], "wait_for": BOTH["wait_for"]}]
    chain_id = ask("schedule_task", title="Wages", repeat="every day at 14:00", steps=steps)[1]["id"]
    pay = runner.scheduler.ends.tasks_of(chain_id)[1]
    undo = ask("reschedule_task", task_id=pay, approval=BOTH["approval"])[1]["undo"]
    assert "approval Pay? for 2 h, then reject" in ask("get_task", task_id=pay, history=True)[0]
    ask("act_on_task", task_id=pay, action="undo", undo=undo)
    text = ask("get_task", task_id=pay, history=True)[0]
    assert "approval Pay? for 2 h, then reject -> none" in text
    assert "wait_for" not in text.partition("approval Pay?")[2], "what has stayed is not told"
    clock.forward(hours=2)
    assert (ran(runner), ran(runner)) == (["Wages: fetch"], [])
    assert says(ask, pay) == (False, True)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "1 task had waited for it and still waits for something else."),
        (2, "2 tasks had waited for it and still wait for something else."),
    ],
)
def test_the_answer_to_an_event_says_how_many_runs_wait_for_an_answer_still(
    ask: Ask, runner: VirtualRunner, clock: Clock, count: int, said: str
) -> None:
    for number in range(count):
        ask("schedule_task", title=f"Payroll {number}", repeat="every day at 14:00", **BOTH)
    clock.forward(hours=2)
    assert ran(runner) == []
    assert said in ask("send_event", name="ready")[0]


def test_a_voice_says_that_each_run_asks_and_waits_and_what_is_waited_for(
    ask: Ask, runner: VirtualRunner, clock: Clock
) -> None:
    task_id = ask("schedule_task", title="Payroll", repeat="every day at 14:00", **BOTH)[1]["id"]
    said = speech(task_payload(runner.scheduler.get(task_id)))
    assert "It repeats, and before each run asks for approval and waits for an event" in said
    clock.forward(hours=2)
    assert ran(runner) == []
    said = speech(task_payload(runner.scheduler.get(task_id)))
    assert said.startswith("Payroll is waiting for approval and for the event ready. The question is, Pay")
