"""A task that was asked to stop: each answer says so, and none that it runs again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.cli.formats import task_facts, task_list
from duetime.server.cli.past import run_table
from duetime.tools.admin import find_runs
from duetime.tools.admin.run_rows import run_row
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.text.task_text import task_text
from duetime.widgets.vocabulary import stands

from tests.builders import Clock, restarted, settlement


@handler("build")
def build(_ctx: Context) -> Done:
    """Build."""
    return Done()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers([build]), "UTC"))


def test_a_stopping_series_is_stopping_everywhere_and_names_no_next_run(
    scheduler: Scheduler, store: Store, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = scheduler.schedule("Build", action="build", repeat="every hour").record.task.id
    clock.forward(hours=1)
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
    assert "Next" in task_text(task_payload(scheduler.get(task_id)))

    payload = task_payload(scheduler.cancel(task_id))

    assert payload.cancel_requested
    assert payload.repeat is not None
    assert payload.repeat.next == ()
    assert "Next" not in task_text(payload)
    found = scheduler.get(task_id).record
    assert stands(found.task, found.run) == "stopping"
    rows = as_json(whole_list_payload(scheduler.tasks.list(TaskFilter())))["tasks"]
    task_list._show_tasks(rows, lambda chain_id: task_payload(scheduler.get(chain_id)))
    task_facts.task_facts(payload)
    said = capsys.readouterr().out
    assert said.count(" stopping") == 2
    assert "running" not in said.splitlines()[1]
    assert "\nnext " not in said
    _the_run_is_stopping_in_lists_of_runs(scheduler, capsys)


def test_a_paused_task_that_is_cancelled_while_it_runs_is_stopping_and_then_cancelled_alone(
    scheduler: Scheduler, store: Store, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = scheduler.schedule("Build", action="build").record.task.id
    claim = restarted(store, scheduler.get(task_id).record)
    scheduler.reschedule(task_id, pause=True)
    text = task_text(task_payload(scheduler.get(task_id)))
    assert text.startswith("The task is paused, and its current run goes on to its end.")
    assert "Paused: " not in text

    text = task_text(task_payload(scheduler.cancel(task_id)))
    assert text.startswith("The task is stopping: it was asked to stop.")
    assert "Waiting for its handler to stop." in text
    assert "resume" not in text.lower()

    store.claims.settle([settlement(claim, State.CANCELLED, reason="cancelled while it ran")])
    payload = task_payload(scheduler.get(task_id))
    assert (payload.state, payload.paused, payload.paused_until) == (State.CANCELLED, None, None)
    [row] = as_json(whole_list_payload(scheduler.tasks.list(TaskFilter())))["tasks"]
    assert "paused" not in row
    task_facts.task_facts(payload)
    assert "paused" not in capsys.readouterr().out


def _the_run_is_stopping_in_lists_of_runs(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    page = scheduler.past.runs()
    [run] = page.runs
    assert (run_row(run)["state"], run_row(run)["cancel_requested"]) == ("running", True)
    run_table._table([run_row(run)], "UTC")
    assert capsys.readouterr().out.splitlines()[1].split()[2] == "stopping"
    assert " stopping «Build»" in find_runs._line(run)
