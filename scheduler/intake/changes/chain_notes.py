"""Notes on the answer to a change of a chain: which steps are asked to stop, stay as they are, or were not changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb
from duetime.scheduler.chain.chain import ChainRecord, front_steps
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.changes.pause import expires_in_pause
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.changes.series import MAX_TIMES_NAMED
from duetime.scheduler.intake.deadlines import NO_DEADLINE, deadline_of
from duetime.scheduler.intake.demand import read_deadline_note
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.repeat_policy import spread_note
from duetime.scheduler.rules.changes import ALREADY_CANCELLED
from duetime.scheduler.rules.occurrences import recurrence_of
from duetime.scheduler.rules.series.moved_occurrence import as_one_note
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import State, Task
from duetime.scheduler.translatable import NoteKind, Translatable, as_assumed, of_step
from duetime.scheduler.views import TaskRecord, TaskView

HAD_BEGUN: Final = "a step had begun"
"""Why a step stays cancelled: what has been attempted is not brought back, and neither is what comes after it."""


def read_as_note(
    found: ChainRecord, given: Mapping[str, Any], due: datetime, planner: Planner, now: datetime
) -> tuple[str, ...]:
    """Say how the words of the deadline of a chain, which is `due` then, were read."""
    deadline, zone = given.get("deadline"), given.get("timezone")
    if deadline is None or str(deadline).strip().lower() in NO_DEADLINE:
        return ()
    own = found.chain.timezone
    frame = planner.times.frame(zone, own=own)
    with suppress(InvalidArgument):  # a step refuses it
        read = deadline_of(deadline, due=due, now=now, zone=zone or own, recurring=False, frame=frame)
        return read_deadline_note(read)
    return ()


def skipped_generations_note(
    task: Task, due: datetime | None, to: datetime, now: datetime, *, skips: bool = False
) -> tuple[str, ...]:
    """Name the generations that the move of a chain passes, or that it `skips`: these do not come.

    `task` has the rule of the chain, which was `due` then and moves `to` that time.
    """
    times, onto = list[datetime](), False
    rule = recurrence_of(task)
    at = max((due or now) - (MICROSECOND if skips else timedelta(0)), now)
    while rule and len(times) <= MAX_TIMES_NAMED and (coming := rule.after(at)):
        at = coming.instant
        if at >= to:
            onto = at == to and not skips
            break
        times.append(at)
    shown = ", ".join(describe(each, task.timezone) for each in times[:MAX_TIMES_NAMED])
    more = " and more" if len(times) > MAX_TIMES_NAMED else ""
    why = "" if skips else ", since it was moved past them"
    named = [each.isoformat() for each in times[:MAX_TIMES_NAMED]]
    passed = (Translatable.of(NoteKind.LEFT_OUT, f"left out{why}: {shown}{more}", times=named),) if times else ()
    return (*passed, as_one_note(task, to)) if onto else passed


def with_generation_notes(result: BulkResult, chains: Sequence[ChainRecord], now: datetime) -> BulkResult:
    """Return a move of many tasks whose first steps say which generations of their chains it passes.

    A generation of which a step stays at its time passes none.
    """
    outcomes = {each.record.task.id: each for each in result.outcomes}
    for found in chains:
        ids = [step.record.task.id for step in front_steps(found)]
        moved = [outcomes[each] for each in ids if each in outcomes and outcomes[each].became is Became.CHANGED]
        if found.chain.due_at is None or not moved:
            continue
        records = [step.record for step in found.steps]
        after = [outcomes[each.task.id].record if each.task.id in outcomes else each for each in records]
        first = min(moved, key=lambda each: each.record.run.scheduled_for)
        task, _ = found.chain.as_series(first.record.task)
        to = min(each.run.scheduled_for for each in after)
        said = skipped_generations_note(task, found.chain.due_at, to, now)
        why = "; ".join(filter(None, (first.why, *said))) or None
        outcomes[first.record.task.id] = replace(first, why=why)
    return replace(result, outcomes=tuple(outcomes[each.record.task.id] for each in result.outcomes))


def spread_of_generations_note(view: TaskView, now: datetime) -> tuple[str, ...]:
    """Say between which times each generation starts by the policy of a chain."""
    task = view.record.task
    rule = recurrence_of(task)
    coming = rule.after(now) if rule else None
    return as_assumed(spread_note(task.repeat_policy, coming, task.timezone)) if coming else ()


def expires_in_pause_note(found: ChainRecord, until: datetime | None) -> tuple[str, ...]:
    """Say of which steps a hard deadline passes while their chain is paused until then."""
    steps = [(step.name, step.record.task, step.record.run) for step in found.steps]
    return tuple(of_step(name, text) for name, task, run in steps for text in expires_in_pause(task, run, until))


def stop_requests_note(found: ChainRecord) -> tuple[str, ...]:
    """Name the steps that run and were asked to stop: no undo takes that back."""
    runs = [(step.name, step.record.run) for step in found.steps]
    names = ", ".join(name for name, run in runs if run.cancel_requested and run.state in OPEN)
    sentence = (
        f"asked to stop: {names}; an undo does not take that back, and what comes after ends with it unless it succeeds"
    )
    return (Translatable.of(NoteKind.STEPS_STOP, sentence, steps=names),) if names else ()


def undo_failures_note(found: ChainRecord, result: BulkResult, changed: Collection[str]) -> tuple[str, ...]:
    """Name the steps that an undo left as they were, and why: it was refused, or the step had begun."""
    refused = {each.record.task.id: each.why for each in result.outcomes if each.became is Became.REFUSED}
    left = {step.record.task.id: step.name for step in found.steps if _stays(step.record, refused, changed)}
    names, why = ", ".join(left.values()), next(filter(None, refused.values()), HAD_BEGUN)
    text = f"not taken back: {names} ({why})"
    return (Translatable.of(NoteKind.NOT_TAKEN_BACK, text, steps=names, why=why),) if names else ()


def _stays(record: TaskRecord, refused: Collection[str], changed: Collection[str]) -> bool:
    cancelled = record.run.state is State.CANCELLED and record.task.id in changed
    return record.task.id in refused or cancelled


def still_cancelled_note(found: ChainRecord, result: BulkResult) -> tuple[str, ...]:
    """Name the steps that stay cancelled when the rest of the cancel is taken back."""
    ended = [each.record for each in result.outcomes if each.became is Became.CHANGED and not each.undo]
    ids = {record.task.id for record in ended if record.run.state is State.CANCELLED}
    names = ", ".join(step.name for step in found.steps if step.record.task.id in ids)
    return (f"an undo does not bring back: {names} ({HAD_BEGUN})",) if names and result.undo else ()


def notes(found: ChainRecord, result: BulkResult) -> tuple[str, ...]:
    """Say that nothing was changed, which open steps were not, and why, and what a change does besides."""
    if result.repeated:
        return (REPEATED_CALL,)
    if not result.counts[Became.CHANGED] and not result.undo:
        return (ALREADY_CANCELLED if result.verb is BulkVerb.CANCEL else NOTHING_CHANGED,)
    open_steps = {step.record.task.id: step.name for step in found.steps if step.record.run.state in OPEN}
    left = [each for each in result.outcomes if each.became is Became.REFUSED and each.record.task.id in open_steps]
    names = ", ".join(open_steps[each.record.task.id] for each in left)
    why = next(filter(None, (each.why for each in left)), "")
    text = f"not changed: {names} ({why})"
    unchanged = (Translatable.of(NoteKind.NOT_CHANGED, text, steps=names, why=why),) if left else ()
    also = ((open_steps.get(each.record.task.id), each.why) for each in result.outcomes if each not in left)
    return (*unchanged, *(of_step(name, said) for name, said in also if name and said))
