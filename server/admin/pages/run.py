"""The page of one run: why it does not run yet, its attempts, what it was given and gave, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from duetime.scheduler.calls.reschedule import CallArguments
from duetime.scheduler.foresight.decision_text import lines
from duetime.scheduler.history.dead_letters import LetterState
from duetime.scheduler.history.run_detail import RunDetail
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.series.natural_key import key_of_run
from duetime.scheduler.rules.series.occurrence_approval import counts_from_its_turn
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import RunLog, WaitKind
from duetime.scheduler.views import TaskView
from duetime.server.admin.answers import Answer, Moved, Page, get, post
from duetime.server.admin.failures import SHOWN_OPEN, RunIsOver, check_still_open, revision_shown, unchanged_task
from duetime.server.admin.formats import until_when, zoned
from duetime.server.admin.page_request import Visit
from duetime.widgets.vocabulary import stands

OTHER_RUNS_SHOWN_ROWS = 10
LOG_LINES_SHOWN_ROWS = 200
DECISIONS_SHOWN_ROWS = 3
DECISIONS_READ_ROWS = 50


def run(visit: Visit) -> Page:
    """Show a run."""
    found = visit.run(visit.parts["run_id"])
    view, reasons = visit.scheduler.explain(found.record.task.id, by=visit.acting_in(found.run.tenant))
    values = {**_values(visit, found, view, reasons), "live": True}
    return Page("pages/run.html", found.record.task.title, values, tenant=found.run.tenant)


def _values(visit: Visit, found: RunDetail, view: TaskView, reasons: Sequence[str]) -> dict[str, Any]:
    task, shown = found.record.task, found.run
    ended = shown.state in TERMINAL
    asks = next((wait for wait in view.waits if wait.kind is WaitKind.APPROVAL and wait.run == shown.id), None)
    letter = found.dead_letter if found.dead_letter and found.dead_letter.state is LetterState.OPEN else None
    return {
        "detail": found,
        "task": task,
        "run": shown,
        "stands": stands(task, shown),
        "repeat_text": view.repeat_text,
        "key": key_of_run(task, shown),
        "upcoming": view.upcoming,
        "reasons": _reasons(found, view, reasons),
        "payload": redacted_json(dict(task.payload)),
        "result": redacted_json(shown.result) if shown.result is not None else None,
        "checkpoint": redacted_json(shown.checkpoint) if shown.checkpoint is not None else None,
        "units": _by_pool(found.units.values()),
        "costs": _by_pool(found.costs.values()),
        "log": _log(visit, found),
        "others": _others(visit, found),
        "decisions": _decisions(visit, found),
        "letter": letter,
        "deadline_after": found.record.task.deadline_after if counts_from_its_turn(found.record.task, shown) else None,
        "may_cancel": found.is_current and not ended,
        "asks": asks,
        "may_run": not (letter or asks) and found.is_current and shown.state not in {State.RUNNING, State.CANCELLED},
        "may_move": found.is_current and not ended and shown.state is not State.RUNNING,
    }


def _reasons(found: RunDetail, view: TaskView, reasons: Sequence[str]) -> Sequence[str]:
    """Return why an open run does not run, or what one that runs waits for: its end after a stop, or a lost worker."""
    if not found.is_current or found.run.state in TERMINAL:
        return ()
    return [wait.sentence for wait in view.waits] if found.run.state is State.RUNNING else reasons


def _log(visit: Visit, found: RunDetail) -> RunLog:
    by = visit.acting_in(found.run.tenant)
    return visit.scheduler.past.run_log(found.run.id, newest=LOG_LINES_SHOWN_ROWS, by=by)


def _decisions(visit: Visit, found: RunDetail) -> list[tuple[Decision, list[str]]]:
    """Return the newest recorded decisions of the queue on the run, in words."""
    by, task_id = visit.acting_in(found.run.tenant), found.record.task.id
    page = visit.scheduler.decisions.page(task_id=task_id, limit=DECISIONS_READ_ROWS, by=by)
    own = [each for each in page.decisions if each.run_id == found.run.id]
    return [(each, [*lines(each)]) for each in own[:DECISIONS_SHOWN_ROWS]]


def _by_pool(of_attempts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for each in of_attempts:
        for pool, amount in each.items():
            total[pool] = total.get(pool, 0) + amount
    return dict(sorted(total.items()))


def _others(visit: Visit, found: RunDetail) -> Any:
    where = RunFilter(task_id=found.record.task.id, states=tuple(State))
    page = visit.scheduler.past.runs(
        where, limit=OTHER_RUNS_SHOWN_ROWS, tenant=found.run.tenant, by=visit.acting_in(found.run.tenant)
    )
    return page if len(page.runs) > 1 else None


def task(visit: Visit) -> Moved:
    """Redirect from the id of a task, or of a chain, to its current run."""
    task_id = visit.parts["task_id"]
    if is_chain_id(task_id):
        return Moved(visit.url(f"/tasks/{_step_of(visit, task_id)}"))
    owner = visit.store.history.tenants([task_id]).get(task_id, visit.principal.tenant)
    view = visit.scheduler.get(task_id, by=visit.acting_in(owner))
    return Moved(visit.url(f"/runs/{view.record.run.id}"))


def _step_of(visit: Visit, chain_id: str) -> str:
    """Return the task of the first step of a chain that has not succeeded, of the last one where all have."""
    view = visit.scheduler.get(chain_id, by=visit.acting_in(visit.tenant or visit.principal.tenant))
    steps = view.chain.steps if view.chain else ()
    return next((step for step in steps if step.state is not State.SUCCEEDED), steps[-1]).task_id


# --- changes


def cancel(visit: Visit) -> Answer:
    """Cancel the task, or ask its running handler to stop."""
    with _unchanged(visit) as (found, call):
        visit.scheduler.cancel(found.record.task.id, reason=visit.form.get("reason") or None, **call)
    notice = "Stop requested." if found.run.state is State.RUNNING else "Cancelled."
    return _back(visit, found.record.task.id, notice)


@contextmanager
def _unchanged(visit: Visit) -> Iterator[tuple[RunDetail, CallArguments]]:
    """Return the run of a form and the arguments of its change. Raises RunIsOver and StalePage."""
    found = visit.run(visit.parts["run_id"])
    if not found.is_current:
        raise RunIsOver(found.record.task.title)
    with unchanged_task():
        yield found, {"by": visit.acting_in(found.run.tenant), "revision": revision_shown(visit)}


def approve(visit: Visit) -> Answer:
    """Approve the run, which waits for an answer."""
    found, by = _asked(visit)
    visit.scheduler.approve(found.run.id, reason=visit.form.get("reason") or None, by=by)
    return _back(visit, found.record.task.id, "Approved.")


def reject(visit: Visit) -> Answer:
    """Reject the run, which waits for an answer; its series continues."""
    found, by = _asked(visit)
    view = visit.scheduler.reject(found.run.id, reason=visit.form.get("reason") or None, by=by)
    goes_on = view.record.run.id != found.run.id
    return _back(visit, found.record.task.id, "Rejected: this is its next run." if goes_on else "Rejected.")


def _asked(visit: Visit) -> tuple[RunDetail, Principal]:
    """Return the run of the page and the caller."""
    found = visit.run(visit.parts["run_id"])
    return found, visit.acting_in(found.run.tenant)


def run_now(visit: Visit) -> Answer:
    """Run at once; what has ended runs again, as its next generation."""
    with _unchanged(visit) as (found, call):
        check_still_open(found, shown_open=SHOWN_OPEN in visit.form)
        visit.scheduler.act(found.record.task.id, "run_now", **call)
    return _back(visit, found.record.task.id, "It runs now.")


def reschedule(visit: Visit) -> Answer:
    """Move the run to another time, in the words of an agent and the zone of the task."""
    with _unchanged(visit) as (found, call):
        view = visit.scheduler.reschedule(found.record.task.id, when=visit.form.get("when", ""), **call)
    task, run = view.record.task, view.record.run
    return _back(visit, task.id, f"Moved to {zoned(run.wake_at or run.scheduled_for, task.timezone)}.")


def pause(visit: Visit) -> Answer:
    """Pause the task, or let a paused one continue."""
    paused, until = visit.form.get("pause") == "true", visit.form.get("until") or None
    with _unchanged(visit) as (found, call):
        view = visit.scheduler.reschedule(found.record.task.id, pause=paused, pause_until=until, **call)
    return _back(visit, found.record.task.id, f"Paused{until_when([view.record])}." if paused else "Resumed.")


def _back(visit: Visit, task_id: str, notice: str) -> Moved:
    """Return to the task: its current run may be another one now."""
    owner = visit.store.history.tenants([task_id])[task_id]
    now = visit.store.tasks.get(owner, task_id)
    return Moved(visit.url(f"/runs/{now.run.id}"), notice)


RUN_ROUTES = (
    get("/runs/{run_id}", run),
    get("/tasks/{task_id}", task),
    post("/runs/{run_id}/cancel", cancel),
    post("/runs/{run_id}/approve", approve),
    post("/runs/{run_id}/reject", reject),
    post("/runs/{run_id}/run", run_now),
    post("/runs/{run_id}/reschedule", reschedule),
    post("/runs/{run_id}/pause", pause),
)
