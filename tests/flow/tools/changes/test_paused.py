"""A paused task whose run is to be tried again: each list of tasks and of runs says both, and none calls it late."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.cli.formats import task_facts, task_list
from duetime.server.cli.past import run_table
from duetime.tools.admin.run_rows import run_row
from duetime.tools.arguments.filters import parts_of
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text
from duetime.widgets.vocabulary import stands

from tests.builders import LEASE, Clock, restarted


@handler("build")
def build(_ctx: Context) -> Done:
    """Build."""
    return Done()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers([build]), "UTC"))


def paused(scheduler: Scheduler, store: Store, clock: Clock, *, crashed: bool) -> str:
    """Return a task that was paused after its first attempt failed, or after its worker crashed."""
    task_id = scheduler.schedule("Build", action="build", retry={"max_attempts": 5}).record.task.id
    claim = restarted(store, scheduler.get(task_id).record)
    if crashed:
        clock.forward(seconds=LEASE.total_seconds() + 60)
        store.claims.recover_lapsed(epoch=None, held=(), before=clock())
    else:
        store.claims.settle([settle(claim, Retry("HTTP 503"), now=store.now(), jitter=0.5)])
    scheduler.reschedule(task_id, pause=True)
    return task_id


@pytest.mark.parametrize("crashed", [False, True])
def test_a_paused_run_that_is_to_be_tried_again_is_paused_in_every_list(
    scheduler: Scheduler, store: Store, clock: Clock, capsys: pytest.CaptureFixture[str], crashed: bool
) -> None:
    task_id = paused(scheduler, store, clock, crashed=crashed)
    found = scheduler.get(task_id).record
    assert (found.run.state, bool(found.run.failures)) == (State.RETRYING, not crashed)
    payload = task_payload(scheduler.get(task_id))
    assert (payload.attempt, payload.max_attempts) == (1, 5 + crashed)
    assert stands(found.task, found.run) == "paused"

    rows = as_json(whole_list_payload(scheduler.tasks.list(TaskFilter())))["tasks"]
    task_list._show_tasks(rows, lambda chain_id: task_payload(scheduler.get(chain_id)))
    task_facts.task_facts(payload)
    said = capsys.readouterr().out
    assert said.count(f"retrying, paused, attempt 2 of {5 + crashed}") == 2

    [run] = scheduler.past.runs().runs
    assert (run.stands, run_row(run)["paused"]) == ("paused", True)
    run_table._table([run_row(run)], "UTC")
    assert "retrying, paused" in capsys.readouterr().out


def test_a_list_answers_what_is_paused_tasks_and_steps_of_paused_chains(scheduler: Scheduler) -> None:
    where = TaskFilter(**parts_of("paused"))
    scheduler.schedule("Build", action="build", when="in 1 hour")
    assert list_text(scheduler.tasks.list(where)).startswith("No task matches this filter.")
    held = scheduler.schedule("Call", action="build", when="in 2 hours").record.task.id
    steps: list[StepArguments] = [{"name": "fetch", "action": "build"}, {"name": "ship", "action": "build"}]
    chain_id = scheduler.schedule("Release", steps=steps, when="in 3 hours").record.task.id
    for task_id in (held, chain_id):
        scheduler.reschedule(task_id, pause=True)

    page = scheduler.tasks.list(where)

    assert list_text(page).startswith("Paused: 3 scheduled.")
    assert {view.record.task.id for view in page.views} == {held, *chain_steps(scheduler, chain_id)}
    scheduler.reschedule(chain_id, pause=False)
    assert list_text(scheduler.tasks.list(where)).startswith("Paused: 1 scheduled.")


def chain_steps(scheduler: Scheduler, chain_id: str) -> list[str]:
    chain = scheduler.get(chain_id).chain
    return [step.task_id for step in chain.steps] if chain else []


def test_a_paused_run_is_not_late(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = paused(scheduler, store, clock, crashed=False)
    clock.forward(hours=1)
    where = RunFilter(states=(State.RETRYING,), unpaused=True)
    assert scheduler.past.runs(where).runs == ()
    scheduler.reschedule(task_id, pause=False)
    assert [run.task_id for run in scheduler.past.runs(where).runs] == [task_id]
    store.claims.settle([settle(restarted(store, scheduler.get(task_id).record), Done(), now=store.now(), jitter=0.5)])
    ended = RunFilter(states=(State.SUCCEEDED,), unpaused=True, since=clock() - timedelta(hours=2))
    assert [run.task_id for run in scheduler.past.runs(ended).runs] == [task_id]


def test_a_run_next_to_a_series_is_not_said_to_come_while_a_pause_holds_it(scheduler: Scheduler, clock: Clock) -> None:
    task_id = scheduler.schedule("Build", action="build", repeat="every day at 9:00").record.task.id
    at = f"{clock():%a} {clock().day} {clock():%b %Y}"
    assert scheduler.act(task_id, "run_now").warnings == (f"it also runs {at} 12:00",)
    assert scheduler.reschedule(task_id, pause=True).warnings == (f"its run of {at} 12:00 is held by the pause",)
    assert scheduler.reschedule(task_id, pause_until="15:00").warnings[-1] == f"it also runs {at} 15:00"
    clock.forward(hours=4)
    assert scheduler.reschedule(task_id, pause=False).warnings == (f"it also runs {at} 16:00",)


def test_a_task_that_failed_too_often_says_why_it_is_paused(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    view = scheduler.schedule("Build", action="build", repeat="hourly", repeat_policy={"pause_after": 2})
    task_id = view.record.task.id
    for _ in range(2):
        clock.at = scheduler.get(task_id).record.run.scheduled_for
        claim = restarted(store, scheduler.get(task_id).record)
        store.claims.settle([settle(claim, Failed("HTTP 503"), now=store.now(), jitter=0.5)])
    why = "paused, as 2 runs in a row failed: it waits until it is resumed"
    view, reasons = scheduler.explain(task_id)
    assert (reasons, view.waiting_for) == ((why,), (why,))
    payload = task_payload(scheduler.get(task_id))
    assert payload.waiting_for == (why,)
    assert payload.waits
    assert payload.waits[0].after == "2 runs in a row failed"
    held = "Paused, as 2 runs in a row failed: resume it with reschedule_task(pause=false)."
    assert held in task_text(payload)

    scheduler.reschedule(task_id, pause=False)
    scheduler.reschedule(task_id, pause=True)
    assert scheduler.explain(task_id)[1] == ("paused: it waits until it is resumed",)
