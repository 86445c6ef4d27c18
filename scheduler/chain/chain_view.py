"""The view of a chain: it is shown as a task is, with the states of its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.chain.chain import (
    LOST,
    ChainRecord,
    StepRecord,
    chain_state,
    failures_in_words,
    front_steps,
    is_spawned,
    last_generation,
    last_steps,
)
from duetime.scheduler.chain.judgement import why_left_out
from duetime.scheduler.task import Run, Task
from duetime.scheduler.views import CHAIN_ACTION, ChainStep, ChainView, TaskRecord, TaskView, after_pause, due_at

_URGENCY: Final = ("deadline", "deadline_after", "deadline_type", "penalty")


def chain_of(found: ChainRecord, step: str | None = None) -> ChainView:
    """Return the chain with the states of its steps, to be shown with one of them or alone."""
    return ChainView(found.chain.id, found.chain.title, tuple(map(_shown, found.steps)), step)


def _shown(step: StepRecord) -> ChainStep:
    task, run = step.record.task, step.record.run
    paused = task.paused and run.ended_at is None
    return ChainStep(
        step.name,
        task.id,
        task.title,
        task.action,
        run.state,
        after_pause(task, run.wake_at or run.scheduled_for) if paused else run.wake_at or run.scheduled_for,
        step.after,
        run.error if run.state in LOST else None,
        run.unverified,
        paused,
        task.paused_until if paused else None,
    )


def view_of_chain(
    found: ChainRecord, now: datetime, *, created: bool | None = None, warnings: Sequence[str] = ()
) -> TaskView:
    """Return a chain as a task is shown: due with its next step, ended with its last one."""
    runs = [step.record.run for step in found.steps]
    state = chain_state([run.state for run in runs])
    open_runs = [run for run in runs if run.ended_at is None]
    next_runs = [step.record.run for step in front_steps(found)]
    due = min(due_at(run) for run in next_runs or runs)
    ended = None if open_runs else max(run.ended_at for run in runs if run.ended_at)
    started = min((run.started_at for run in runs if run.started_at), default=None)
    run = Run(found.chain.id, found.chain.id, found.chain.tenant, due, state, started_at=started, ended_at=ended)
    stopping = bool(open_runs) and all(each.cancel_requested and not each.gives_way for each in open_runs)
    run = replace(
        run,
        number=found.chain.number,
        generation=found.chain.generation,
        occurrence=found.chain.due_at,
        cancel_requested=stopping,
    )
    run = replace(run, failed_before=_failed_before(found), error=why_left_out(runs, state), **_deadline_of_all(found))
    record = TaskRecord(_task(found), run, _outcome(last_generation(found)))
    return TaskView(record, now, created=created, warnings=tuple(warnings), chain=chain_of(found))


def _failed_before(found: ChainRecord) -> int:
    """Return how many generations failed in a row before this one: a resume restarts that in its open steps alone."""
    return min(step.record.run.failed_before for step in found.steps if not is_spawned(step.name))


def _outcome(last: ChainRecord) -> Run | None:
    """Return how the last generation ended, as the run of a task is shown."""
    runs = [step.record.run for step in last.steps]
    if not runs:
        return None
    chain, due = last.chain, min(run.scheduled_for for run in runs)
    ended = max(run.ended_at for run in runs if run.ended_at)
    found = Run(chain.id, chain.id, chain.tenant, due, chain_state([run.state for run in runs]), ended_at=ended)
    return replace(found, number=runs[0].number, current=False, error=failures_in_words(last) or None)


def _asked_before_all(found: ChainRecord) -> Mapping[str, Any] | None:
    """Return the approval that all first steps share; None where they differ or ask nothing."""
    approvals = [step.record.task.asks for step in found.steps if not step.after and not is_spawned(step.name)]
    return approvals[0] if approvals and all(each == approvals[0] for each in approvals) else None


def _task(found: ChainRecord) -> Task:
    """Return the chain as a task, with the fields that it shares with its first step."""
    chain, first = found.chain, found.steps[0].record.task
    next_ones = [step.record.task for step in front_steps(found)]
    paused = bool(next_ones) and all(task.paused for task in next_ones)
    return replace(
        first,
        id=chain.id,
        owner=chain.owner,
        title=chain.title,
        action=CHAIN_ACTION,
        payload={},
        timezone=chain.timezone,
        estimate=None,
        needs={},
        **_urgency_of_all(found),
        revision=1,
        created_at=chain.created_at,
        asks=_asked_before_all(found),
        repeat=chain.repeat,
        anchor=chain.anchor or first.anchor,
        until=chain.until,
        max_runs=chain.max_runs,
        paused=paused,
        paused_until=min((task.paused_until for task in next_ones if paused and task.paused_until), default=None),
        expect=_expected_of_all(found),
    )


def _expected_of_all(found: ChainRecord) -> Mapping[str, Any]:
    """Return what is expected of a chain: the contract of its last steps, where it is the same for all."""
    last = [step.record.task.expect for step in last_steps(found)]
    return last[0] if last and all(each == last[0] for each in last) else {}


def _urgency_of_all(found: ChainRecord) -> dict[str, Any]:
    """Return the deadline of a chain as its task has it: that of its last steps, where it is the same for all."""
    last = [{name: getattr(step.record.task, name) for name in _URGENCY} for step in last_steps(found)]
    return last[0] if last and all(each == last[0] for each in last) else {"deadline": None, "deadline_after": None}


def _deadline_of_all(found: ChainRecord) -> dict[str, Any]:
    """Return when the last of its last steps must have ended, once all of them have a deadline."""
    last = [step.record.run for step in last_steps(found)]
    if not _urgency_of_all(found)["deadline"] or any(run.deadline is None for run in last):
        return {}
    run = max(last, key=lambda each: each.deadline or found.chain.created_at)
    return {"deadline": run.deadline, "drop_at": run.drop_at}
