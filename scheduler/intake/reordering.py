"""The part of a reschedule that changes how urgent a task is and what it needs, before its run has started."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.demand import Demand, Demands, Situation
from duetime.scheduler.records import Change
from duetime.scheduler.request import Reschedule
from duetime.scheduler.rules.deadlines import dated
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.wording import when_words
from duetime.scheduler.task import Run, State, TaskRecord

HAS_STARTED = (State.RUNNING, State.RETRYING, State.SUSPENDED)
DEMANDS = ("priority", "deadline", "deadline_type", "estimate", "needs")
FROM_THE_NEXT_RUN = "the run that has started goes on as it was; the next one has what was changed"


def demand_step(
    record: TaskRecord, change: Change, asked: Reschedule, demands: Demands, now: datetime
) -> tuple[Change, tuple[str, ...]]:
    """Return `change` with what is asked of tier, deadline, estimate and needs, and what should be known about it.

    A new time alone is judged against the deadline too. A run that waits for its turn already goes back to its time and
    is ordered anew; one that has started is not touched.
    """
    given = [name for name in DEMANDS if getattr(asked, name) is not None]
    run = change.next_run or change.run
    moved = run != record.run or change.task.repeat != record.task.repeat
    if not given and not (moved and run.deadline):
        return change, ()
    if given:
        _refuse_what_is_over(record, change, given[0])
    found = demands.read(asked, _situation(change, run, now), Demand.of(change.task, run))
    task = replace(change.task, **found.parts())
    if run.state in HAS_STARTED:
        return replace(change, task=task), (*found.warnings, *((FROM_THE_NEXT_RUN,) if given else ()))
    ordered = _to_be_ordered(dated(task, run, at=found.instant, p50=found.p50))
    if change.next_run is not None:
        return replace(change, task=task, next_run=ordered), found.warnings
    return replace(change, task=task, run=ordered), found.warnings


def _refuse_what_is_over(record: TaskRecord, change: Change, argument: str) -> None:
    run = change.next_run or change.run
    if run.state in TERMINAL:
        ended = f"{run.state} {when_words(run, record.task)}"
        raise Refused(
            f"{argument}: {record.task.id} has already ended ({ended}). Give when in the same call to run it again, or "
            "schedule another task with schedule_task."
        )
    if run.state in HAS_STARTED and change.task.repeat is None:
        raise Refused(f"{argument}: {record.task.id} has started already. Cancel it, or let it come to its end.")


def _situation(change: Change, run: Run, now: datetime) -> Situation:
    task = change.task
    return Situation(
        task.tenant, task.action, run.scheduled_for, now=now, zone=task.timezone, recurring=task.repeat is not None
    )


def _to_be_ordered(run: Run) -> Run:
    """Let the dispatcher see a run again that stands in the queue with its old place; it keeps its age."""
    return replace(run, state=State.SCHEDULED, wake_at=run.scheduled_for) if run.state is State.READY else run
