"""Links that the tools change: the answer says what a task waits for now, and one call takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store

from tests import blank
from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    blank.make(tmp_path / "duetime.db")
    store: Store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}", clock=Clock())
    yield asked_of(Scheduler(store, Planner(Handlers.load(), "UTC", upstreams=store.dependencies.known)))
    store.close()


def test_an_edge_is_added_by_the_tool_and_taken_back(ask: Ask) -> None:
    fetch = ask("schedule_task", title="Fetch", when="in 1 hour")[1]["id"]
    load = ask("schedule_task", title="Load", when="in 1 hour")[1]["id"]
    text, found = ask("reschedule_task", task_id=load, after=[fetch], after_failure="run_anyway", remove=[])
    assert found["state"] == "waiting"
    assert f"{fetch} «Fetch», which is scheduled" in text
    assert ask("act_on_task", task_id=load, action="undo", undo=found["undo"])[1]["state"] == "scheduled"


def test_a_strict_client_that_fills_in_every_argument_changes_no_edge(ask: Ask) -> None:
    fetch = ask("schedule_task", title="Fetch", when="in 1 hour")[1]["id"]
    load = ask("schedule_task", title="Load", when="in 1 hour", after=[fetch])[1]["id"]
    blank: dict[str, Any] = {"after": [], "wait_for": {}, "approval": {}, "valid_output": {}}
    assert ask("reschedule_task", task_id=load, title="Load it", **blank)[1]["state"] == "waiting"


def test_an_approval_can_be_added_by_the_tool(ask: Ask) -> None:
    mail = ask("schedule_task", title="Mail", when="in 1 hour")[1]["id"]
    text, found = ask("reschedule_task", task_id=mail, approval={"question": "Mail it?"})
    assert (found["state"], "«Mail it?»" in text) == ("waiting", True)


def test_a_whole_chain_is_cancelled_among_many_tasks(ask: Ask) -> None:
    steps = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain = ask("schedule_task", title="Report", when="in 1 hour", steps=steps)[1]["id"]
    done = ask("change_tasks", change="cancel", task_ids=[chain])[1]
    assert len(done["tasks"]) == len(steps)


def test_the_history_says_in_words_what_a_task_waited_for_and_what_it_waits_for(ask: Ask) -> None:
    fetch, clean = (ask("schedule_task", title=title, when="in 1 hour")[1]["id"] for title in ("Fetch", "Clean"))
    load = ask("schedule_task", title="Load", when="in 1 hour", after=[fetch])[1]["id"]
    ask("reschedule_task", task_id=load, after=[clean], wait_for={"event": "paid"})
    ask("reschedule_task", task_id=load, remove=["after", "wait_for"])
    text = ask("get_task", task_id=load, history=True)[0]
    assert f"after {fetch} -> {clean}, wait_for paid" in text
    assert f"after {clean} -> none, wait_for paid -> none" in text
