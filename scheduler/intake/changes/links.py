"""Decides the part of a reschedule that changes what a task waits for before its first start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.chain.chain import ChainRecord
from duetime.scheduler.chain.dependency import Dependency, Upstreams
from duetime.scheduler.chain.link_change import LinkLocks, NewLinks, RelinkedChange
from duetime.scheduler.chain.steps import is_outside, no_such_step
from duetime.scheduler.chain.upstream_check import FOR_A_SERIES, dependencies_of
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.changes.each_wait import (
    changes_each_wait,
    each_question_step,
    each_wait_step,
    refuse_ended,
    waits_once,
)
from duetime.scheduler.intake.corrected_example import corrects_examples
from duetime.scheduler.intake.instants import Timing
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.terms.approval import asked_before_each, check_length, read_approval, read_by_note
from duetime.scheduler.intake.terms.wait_length import with_length
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.request import Request
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import recurrence_of
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.signals.signal_waits import early_end_note, equality_note, read_wait
from duetime.scheduler.task import State, Task

LINK_ARGUMENTS: Final = ("after", "after_failure", "valid_output", "wait_for", "approval")
"""Arguments of a reschedule that change what a task waits for."""

_ALTERNATIVES: Final = {
    "wait_for": "a new task with wait_for and repeat, which waits before each run",
    "approval": "a new task with approval and repeat, which asks before each run",
}
"""By argument: what to do instead with a task that repeats; else a new chain."""


def asks_for_links(request: Reschedule) -> bool:
    """Whether a reschedule changes what its task waits for."""
    removed = set(LINK_ARGUMENTS) & set(request.remove)
    return bool(removed) or any(getattr(request, name) is not None for name in LINK_ARGUMENTS)


def names_steps(request: Reschedule) -> bool:
    """Whether `after` has names of steps among its ids."""
    return not all(map(is_outside, request.after or ()))


def with_step_ids(request: Reschedule, found: ChainRecord) -> Reschedule:
    """Return `request` with the ids of the steps that it names. Raises InvalidArgument for an unknown step."""
    ids = {step.name: step.record.task.id for step in found.steps}
    after = request.after or ()
    unknown = next((name for name in after if name not in ids and not is_outside(name)), None)
    if unknown is not None:
        raise no_such_step(unknown, list(ids))
    return replace(request, after=[ids.get(name, name) for name in after])


def upstreams_read(planner: Planner, tenant: str, request: Reschedule) -> Planner:
    """Return the planner with the tasks of `after` as they are: no decision reads them in its transaction."""
    found = planner.upstreams(tenant, request.after) if request.after else {}

    def known(_tenant: str, _task_ids: Sequence[str]) -> Upstreams:
        return found

    return replace(planner, upstreams=known)


@corrects_examples
def locks_of(task_id: str, request: Reschedule, planner: Planner, now: datetime) -> LinkLocks:
    """Return the locks that a change of links takes first. Raises InvalidArgument for a malformed wait."""
    found = planner.upstreams("", ())
    given = with_length(request.wait_for, now, planner.times.zone_of(request))
    wait = read_wait(given, now, when=now) if given else None
    return LinkLocks((task_id, *found), tuple(each.name for each in wait.all) if wait else ())


def links_step(draft: ChangeDraft) -> ChangeDraft:
    """Change what the task is to wait for; its run waits then, until it is judged by all of that.

    A step of a chain that recurs waits for an event, and for an answer, in each generation.
    """
    draft = _each_run(draft.warning(*equality_note(draft.request.wait_for)))
    request, change, run = draft.request, draft.change, draft.change.run
    if all(getattr(request, name) is None for name in LINK_ARGUMENTS):
        return draft
    adds = any(getattr(request, name) for name in LINK_ARGUMENTS)
    if draft.task.repeat is not None and not adds and not waits_once(draft.record, change):
        return draft  # it waits for nothing that could be removed
    _refuse_what_is_over(draft)
    links = _read(draft)
    draft = draft.warning(*read_by_note(draft.request.approval, draft.now, draft.task.timezone))
    draft = draft.warning(*early_end_note(links.wait, run.scheduled_for, draft.task.timezone))
    task = replace(draft.task, asks=asked_before_each(links.approval)) if links.approval else draft.task
    waiting = replace(run, state=State.WAITING, wake_at=None, first_ready_at=None)
    change = replace(change, task=task, run=without_early_deadline(task, waiting))
    return draft.with_change(RelinkedChange.of(change, links))


def _each_run(draft: ChangeDraft) -> ChangeDraft:
    """Change what each run of a series waits for; the rest of the links stays in the call."""
    record, now, in_chain = draft.record, draft.now, draft.in_recurring_chain
    wait, approval, each = draft.request.wait_for, draft.request.approval, changes_each_wait(record, draft.change)
    if wait is not None and (each or (in_chain and wait)):
        waits = each_wait_step(record, draft.change, wait, now, in_chain=in_chain)
        draft = draft.with_change(waits).with_request(wait_for=None)
    if approval and (each or in_chain):
        rule, due, zone = recurrence_of(draft.task), draft.change.coming.scheduled_for, draft.task.timezone
        check_length(approval, Timing(due, zone, rule))
        question = read_approval(_question(approval), now, zone)
        asks = each_question_step(record, draft.change, question, in_chain=in_chain)
        draft = draft.with_change(asks).with_request(approval=None)
    return draft


def _refuse_what_is_over(draft: ChangeDraft) -> None:
    task_id, run = draft.record.task.id, draft.change.run
    given = next(name for name in LINK_ARGUMENTS if getattr(draft.request, name) is not None)
    refuse_ended(draft.record, run, given)
    if changes.has_started(run):
        text = f"{task_id} has already started, and what it waited for before that stays."
        raise Refused(text, argument=given, remedy=remedies.ScheduleAnother())


def _read(draft: ChangeDraft) -> NewLinks:
    task, run, request, now = draft.task, draft.change.run, draft.request, draft.now
    name = next((name for name in LINK_ARGUMENTS if getattr(request, name)), None)
    if task.repeat is not None and name is not None:
        accepted = f"no {name}; or {_ALTERNATIVES.get(name, f'a new call with steps: {FOR_A_SERIES}')}"
        problem = "what a task that repeats waits for cannot be changed"
        raise InvalidArgument(name, problem, accepted=accepted, example=f"title={task.title!r}, {name}=null")
    problems = ProblemCollector()
    policy = request.after_failure if request.after else None
    new = Request(task.title, after=request.after or (), after_failure=policy, valid_output=request.valid_output)
    if request.after is None and request.after_failure is not None:
        problems.of(_refuse_alone)
    after = problems.of(_dependencies, new, task.tenant, draft.planner)
    given = with_length(request.wait_for, now, draft.zone)
    wait = problems.of(read_wait, given, now, when=run.scheduled_for) if given else None
    approval = problems.of(read_approval, _question(request.approval), now, task.timezone) if request.approval else None
    if request.after and task.id in request.after:
        problems.of(_refuse_itself, task, request.after)
    if problems:
        raise problems.error()
    kept = None if request.after is None else after
    no_wait = request.wait_for is not None and not request.wait_for
    return NewLinks(kept, wait, no_wait, approval and replace(approval, run_id=run.id))


def _dependencies(new: Request, tenant: str, planner: Planner) -> tuple[Dependency, ...]:
    """Read the upstreams of a task; in an error, an example that would be an empty call gets the task's title."""
    try:
        return dependencies_of(new, tenant, planner.upstreams)
    except InvalidArgument as wrong:
        if not wrong.example.startswith("after=null"):
            raise
        example = f"title={new.title!r}, after=null"
        raise InvalidArgument(wrong.argument, wrong.problem, accepted=wrong.accepted, example=example) from None


def _question(given: Any) -> Mapping[str, Any]:
    return {} if given is True else {"question": given} if isinstance(given, str) else given


def _refuse_alone() -> None:
    accepted, example = "after as well", "after=['t_7k3m9qx2w4hb'], after_failure='skip'"
    raise InvalidArgument("after_failure", "it is for the tasks in after", accepted=accepted, example=example)


def _refuse_itself(task: Task, after: Sequence[str]) -> None:
    problem, others = f"{task.id} would come after itself: {task.id} -> {task.id}", [x for x in after if x != task.id]
    example = f"after={others!r}" if others else f"title={task.title!r}, after=null"
    raise InvalidArgument("after", problem, accepted="other tasks", example=example)
