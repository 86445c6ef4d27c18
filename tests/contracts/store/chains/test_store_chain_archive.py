"""A chain goes by retention as a whole, and an import of the archive brings all of it back."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.dispatch.retention_run import count_due, delete_due
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.retention.retention import Deletion
from duetime.scheduler.task import ApprovalAnswer, State

from tests.builders import TENANT, Clock, restarted, settlement
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.retention.test_store_archive import contents, files, swept

pytestmark = on_each_database

ALICE = Principal(TENANT, "alice")
OLD = RetentionRule(RetentionKind.TASKS, timedelta(days=90), unread=True)
STEPS: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"], "valid_output": {"type": "object", "required": ["rows"]}},
    {"name": "mail", "after": ["load"], "after_failure": "run_anyway"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    upstreams = store.dependencies.known
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels=Channels(), upstreams=upstreams))


def ids(scheduler: Scheduler, chain_id: str) -> dict[str, str]:
    chain = scheduler.get(chain_id, by=ALICE).chain
    assert chain
    return {step.name: step.task_id for step in chain.steps}


def end(store: Store, task_id: str, to: State = State.SUCCEEDED) -> None:
    store.claims.settle([settlement(restarted(store, store.tasks.get(TENANT, task_id)), to, result={"rows": 3})])


def a_chain(scheduler: Scheduler) -> str:
    return scheduler.schedule("Report", when="now", steps=STEPS, by=ALICE).record.task.id


def test_a_dry_run_counts_a_chain_whose_tasks_go_page_by_page(
    store: Store, scheduler: Scheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.store.retention.selection.MAX_TASKS_SELECTED", 1)
    for task_id in ids(scheduler, a_chain(scheduler)).values():
        end(store, task_id)
    clock.forward(days=91)
    policy = RetentionPolicy((OLD,))
    counted = count_due(store, policy, [RetentionKind.TASKS]).by_kind[RetentionKind.TASKS]
    deleted = delete_due(store, policy, [RetentionKind.TASKS]).by_kind[RetentionKind.TASKS]
    assert (counted, counted["chains"], counted["tasks"]) == (deleted, 1, 3)


def test_an_import_brings_a_whole_chain_back(store: Store, scheduler: Scheduler, clock: Clock, folder: Path) -> None:
    chain_id = a_chain(scheduler)
    named = ids(scheduler, chain_id)
    for name, to in (("fetch", State.SUCCEEDED), ("load", State.FAILED), ("mail", State.SUCCEEDED)):
        end(store, named[name], to)
    asked = scheduler.schedule("Pay", when="now", approval={"question": "Pay?"}, by=ALICE).record.task.id
    waits = scheduler.schedule("Ship", wait_for={"event": "paid", "timeout": "1 hour"}, by=ALICE).record.task.id
    store.approvals.answer(TENANT, asked, ApprovalAnswer.REJECT, actor="alice")
    scheduler.cancel(waits, by=ALICE)
    clock.forward(days=200)
    store.tasks.forget_keys(limit=99)
    view, before, inputs = scheduler.get(chain_id, by=ALICE), contents(store), store.dependencies.results
    found = inputs(TENANT, named["load"])
    assert swept(store, folder, OLD)["chain_steps"] == 3
    assert (contents(store)["chains"], contents(store)["dependencies"]) == (set(), set())
    for path in files(folder) * 2:
        store.retention.import_file(path)
    assert contents(store) == before
    assert scheduler.get(chain_id, by=ALICE).chain == view.chain
    assert inputs(TENANT, named["load"]) == found == {"fetch": {"rows": 3}}


def test_a_chain_is_not_torn_apart_while_a_step_of_it_is_open(
    store: Store, scheduler: Scheduler, clock: Clock, folder: Path
) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "later", "when": clock() + timedelta(days=300)}]
    chain_id = scheduler.schedule("Report", when="now", steps=steps, by=ALICE).record.task.id
    named = ids(scheduler, chain_id)
    end(store, named["fetch"])
    clock.forward(days=200)
    store.tasks.forget_keys(limit=99)
    assert not swept(store, folder, OLD)
    clock.forward(days=100)
    end(store, named["later"])
    clock.forward(days=60)
    assert not swept(store, folder, OLD), "a step of it ended 60 days ago"
    clock.forward(days=40)
    assert swept(store, folder, OLD)["chain_steps"] == 2


@pytest.mark.parametrize("archived", [True, False])
def test_a_step_with_an_event_since_it_was_selected_stays_until_that_is_in_the_archive(
    store: Store, scheduler: Scheduler, clock: Clock, folder: Path, monkeypatch: pytest.MonkeyPatch, *, archived: bool
) -> None:
    titled: list[StepArguments] = [{**step, "title": step["name"].title()} for step in STEPS]
    chain_id = scheduler.schedule("Report", when="now", steps=titled, by=ALICE).record.task.id
    for task_id in ids(scheduler, chain_id).values():
        end(store, task_id)
    clock.forward(days=200)
    store.tasks.forget_keys(limit=99)
    first, delete, names = ids(scheduler, chain_id)["fetch"], store.retention.delete, ["Renamed"]

    def renaming(*given: Any) -> Deletion:
        if names:
            scheduler.reschedule(chain_id, title=names.pop(), by=ALICE)
        return delete(*given)

    monkeypatch.setattr(store.retention, "delete", renaming)
    list(Sweep(store, RetentionPolicy((OLD,), folder if archived else None)).run())
    assert store.tasks.get(TENANT, first).task.title == "Fetch"
    monkeypatch.undo()
    clock.forward(days=100)
    store.tasks.forget_keys(limit=99)
    swept(store, folder, OLD)
    lines = [gzip.decompress(path.read_bytes()).decode() for path in files(folder)]
    assert any("Renamed" in text for text in lines)
    with pytest.raises(TaskNotFound):
        store.tasks.get(TENANT, first)
