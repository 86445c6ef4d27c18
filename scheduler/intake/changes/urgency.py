"""Decides the part of a reschedule that changes how urgent a task is: tier, deadline, estimate and needs."""

from __future__ import annotations

from dataclasses import replace

from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.demand import Demand, RunContext
from duetime.scheduler.intake.instants import times_of_day
from duetime.scheduler.rules.changes import back_to_timer
from duetime.scheduler.rules.occurrences import recurrence_of, with_deadline
from duetime.scheduler.rules.series.reruns import has_ended
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.task import State
from duetime.scheduler.translatable import NoteKind, Translatable

HAS_STARTED = (State.RUNNING, State.RETRYING, State.SUSPENDED)
DEMAND_ARGUMENTS = ("priority", "deadline", "deadline_type", "estimate", "needs")
FROM_THE_NEXT_RUN = Translatable.of(
    NoteKind.FROM_THE_NEXT_RUN, "the running attempt is unchanged; the change applies to the next run"
)


def demand_step(draft: ChangeDraft) -> ChangeDraft:
    """Change tier, deadline, estimate and needs of the task, and warn of what cannot be.

    A new time alone is checked against the deadline too. A ready run returns to its timer and gets a new key; a started
    run stays as it is.
    """
    record, change, request = draft.record, draft.change, draft.request
    given = [name for name in DEMAND_ARGUMENTS if getattr(request, name) is not None]
    run = change.coming
    moved = run != record.run or draft.task.repeat != record.task.repeat
    if not given and not (moved and run.deadline):
        return draft
    if given:
        _refuse_what_is_over(draft, given[0])
    found = draft.planner.demands.read(request, _context(draft), Demand.of(draft.task, run))
    draft = draft.with_task(**found.parts()).warning(*found.warnings)
    if run.state in HAS_STARTED:
        return draft.warning(FROM_THE_NEXT_RUN) if given else draft
    change, task = draft.change, draft.task
    if change.extra_run is not None:
        change = replace(change, extra_run=with_deadline(task, change.extra_run, at=found.instant, p50=found.p50))
    ordered = back_to_timer(with_deadline(task, run, at=found.instant, p50=found.p50))
    if change.next_run is not None:
        return draft.with_change(replace(change, next_run=ordered))
    return draft.with_change(replace(change, run=ordered))


def _refuse_what_is_over(draft: ChangeDraft, argument: str) -> None:
    task, run = draft.record.task, draft.change.coming
    if run.state in TERMINAL:
        raise has_ended(task, run, argument)
    if run.state in HAS_STARTED and draft.task.repeat is None:
        raise Refused(f"{task.id} has already started. Cancel it, or let it finish.", argument=argument)


def _context(draft: ChangeDraft) -> RunContext:
    task, due = draft.task, draft.change.coming.scheduled_for
    of_series = draft.request.deadline is not None and task.repeat is not None
    return RunContext(
        task.tenant,
        task.action,
        due,
        now=draft.now,
        zone=task.timezone,
        recurring=draft.in_recurring_chain or task.repeat is not None,
        frame=draft.frame(),
        times_of_day=times_of_day(recurrence_of(task), due, task.timezone) if of_series else (),
    )
