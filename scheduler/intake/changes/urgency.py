"""Decides the part of a reschedule that changes how urgent a task is: tier, deadline, estimate and needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.demand import Demand, RunContext
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change
from duetime.scheduler.rules.changes import to_be_ordered
from duetime.scheduler.rules.occurrences import dated
from duetime.scheduler.rules.series.run_again import has_ended
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import Run, State
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

HAS_STARTED = (State.RUNNING, State.RETRYING, State.SUSPENDED)
DEMAND_ARGUMENTS = ("priority", "deadline", "deadline_type", "estimate", "needs")
FROM_THE_NEXT_RUN = Translatable.of(
    NoteKind.FROM_THE_NEXT_RUN, "the running attempt is unchanged; the change applies to the next run"
)


def demand_step(
    record: TaskRecord, change: Change, request: Reschedule, planner: Planner, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Return `change` with the requested tier, deadline, estimate and needs, and the warnings about them.

    A new time alone is checked against the deadline too. A ready run returns to its timer and gets a new key; a started
    run stays as it is.
    """
    given = [name for name in DEMAND_ARGUMENTS if getattr(request, name) is not None]
    run = change.next_run or change.run
    moved = run != record.run or change.task.repeat != record.task.repeat
    if not given and not (moved and run.deadline):
        return change, ()
    if given:
        _refuse_what_is_over(record, change, given[0])
    frame = planner.times.frame(request.timezone, own=change.task.timezone)
    found = planner.demands.read(request, _situation(change, run, now, frame), Demand.of(change.task, run))
    task = replace(change.task, **found.parts())
    if run.state in HAS_STARTED:
        return replace(change, task=task), (*found.warnings, *((FROM_THE_NEXT_RUN,) if given else ()))
    ordered = to_be_ordered(dated(task, run, at=found.instant, p50=found.p50))
    if change.extra_run is not None:
        change = replace(change, extra_run=dated(task, change.extra_run, at=found.instant, p50=found.p50))
    if change.next_run is not None:
        return replace(change, task=task, next_run=ordered), found.warnings
    return replace(change, task=task, run=ordered), found.warnings


def _refuse_what_is_over(record: TaskRecord, change: Change, argument: str) -> None:
    run = change.next_run or change.run
    if run.state in TERMINAL:
        raise has_ended(record.task, run, argument)
    if run.state in HAS_STARTED and change.task.repeat is None:
        raise Refused(f"{record.task.id} has already started. Cancel it, or let it finish.", argument=argument)


def _situation(change: Change, run: Run, now: datetime, frame: Frame) -> RunContext:
    task, recurring = change.task, change.task.repeat is not None
    return RunContext(
        task.tenant, task.action, run.scheduled_for, now=now, zone=task.timezone, recurring=recurring, frame=frame
    )
