"""Reads and decides the pause, or the resume, of a call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.calls.bulk_change import BulkDecision
from duetime.scheduler.chain.chain import ChainRecord, repeated_steps
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import skip_run
from duetime.scheduler.rules.series.catch_up import catches_up
from duetime.scheduler.rules.series.occurrence_approval import has_waited
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.task import DeadlineType, Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord, after_pause, due_at

_UNTIL: Final = re.compile(r"^\s*(?:until|till)\s+", re.IGNORECASE)
_FOR: Final = re.compile(r"^\s*for\s+", re.IGNORECASE)


class Pause(NamedTuple):
    """A pause, until a time if it names one, or a resume; `paused` is None where the call requests neither."""

    paused: bool | None
    until: datetime | None = None
    warnings: tuple[str, ...] = ()

    def is_of(self, task: Task) -> bool:
        """Whether a task is already as the call wants it."""
        return task.paused == self.paused and task.paused_until == self.until


def read_pause(draft: ChangeDraft) -> Pause:
    """Read the pause or resume of a call. Raises InvalidArgument for an end in the past, or of a resume."""
    request = draft.request
    if request.pause_until is None:
        return Pause(request.pause)
    if request.pause is False:
        example = f"pause=true, pause_until={str(request.pause_until)!r}"
        raise InvalidArgument("pause_until", "pause=false resumes the task", accepted="one of the two", example=example)
    end = pause_end(request.pause_until, "pause_until", draft.planner, draft.task.timezone, draft.now)
    return Pause(True, end.instant, end.assumptions)


def pause_end(given: Moment, argument: str, planner: Planner, zone: str, now: datetime) -> Resolved:
    """Return when a pause ends: `Monday 9am`, `until Monday 9am` or `for 2 hours`."""
    words = _FOR.sub("in ", _UNTIL.sub("", given)) if isinstance(given, str) else given
    frame = planner.times.frame(None, own=zone)
    end = resolve_moment(words, now=now, zone=zone, argument=argument, frame=frame)
    if end.instant <= now:
        raise InvalidArgument(
            argument, "the pause would end now", accepted="a future time", example=f"{argument}='tomorrow 9am'"
        )
    return end


def past_pause(record: TaskRecord) -> TaskRecord:
    """Return a series that a pause holds until a time with the occurrence that follows it, as the user sees it.

    The occurrences before that are left out at the end of the pause, whatever becomes of them.
    """
    task, run = record.task, record.run
    if task.repeat is None or task.paused_until is None or run.state not in {State.SCHEDULED, State.READY}:
        return record
    try:
        coming = changes.end_pause(record, task.paused_until).coming
    except Refused:  # none is left
        return record
    if coming.id == run.id:
        return record
    return replace(record, run=replace(coming, id=run.id, generation=run.generation))


def seen_at(record: TaskRecord) -> datetime:
    """Return when a reader expects the current run of a task, past its pause: what that holds starts with its end.

    The last occurrence of a series that the end of its pause leaves out keeps its own time.
    """
    task, run = record.task, record.run
    may_run = task.repeat is None or changes.has_started(run) or catches_up(task.repeat_policy) or has_waited(task, run)
    held = may_run and run.state is not State.RUNNING and run.state not in TERMINAL
    return after_pause(task, due_at(run)) if held else due_at(run)


def moved_from(record: TaskRecord) -> datetime:
    """Return the time that a day without a time of day keeps: that of the run, or the end of a pause that holds it."""
    seen = seen_at(record)
    return seen if seen > due_at(record.run) else record.run.scheduled_for


def left_out_note(record: TaskRecord, moved: Change) -> tuple[str, ...]:
    """Say that an occurrence was moved to a time at which its series is paused, so that it is left out."""
    task, run = record.task, moved.coming
    if task.paused_until is None or moved.extra_run or run.scheduled_for >= task.paused_until:
        return ()
    with suppress(Refused):  # none is left
        if changes.end_pause(moved.applied_to(record), task.paused_until).coming.id == run.id:
            return ()
    at, end = describe(run.scheduled_for, task.timezone), describe(task.paused_until, task.timezone)
    text = f"{at} is in its pause until {end}, so this occurrence is left out"
    return (Translatable.of(NoteKind.IN_THE_PAUSE, text, at=run.scheduled_for.isoformat()),)


def expected_after_pause(record: TaskRecord) -> datetime | None:
    """Return when a reader expects the run of a task that a pause holds until a time; None without such a pause."""
    if not record.task.paused or record.task.paused_until is None or record.run.state is State.RUNNING:
        return None
    return after_pause(record.task, due_at(past_pause(record).run))


def skip_next(record: TaskRecord, now: datetime) -> Change:
    """Skip the next occurrence of a series; of one that a pause holds until a time, the one after that."""
    return replace(changes.skip_next(past_pause(record), now), run=skip_run(record.run, now))


def pause_step(record: TaskRecord, pause: Pause, now: datetime) -> Change | None:
    """Return the change that a call requests; None where nothing is to change. Raises Refused for what has ended."""
    if pause.paused is None or (pause.is_of(record.task) and record.run.state not in TERMINAL):
        return None
    return changes.pause(record, pause.until) if pause.paused else changes.resume(record, now)


def with_later_generations(pause: BulkDecision, chains: Iterable[ChainRecord]) -> BulkDecision:
    """Return the pause of whole chains: their steps that have ended are held from the next generation on.

    A step may end between the read of its chain and the decision, so the decision looks whether it has.
    """
    held = {step.record.task.id for found in chains for step in repeated_steps(found)}

    def decide(record: TaskRecord, last: LastChange | None) -> Change:
        if record.task.id not in held or record.run.state not in TERMINAL:
            return pause.decide(record, last)
        task = replace(record.task, paused=True, paused_until=pause.paused_until)
        return Change(task, record.run, kind=EventKind.PAUSED)

    return replace(pause, decide=decide)


def deadline_warning(draft: ChangeDraft) -> tuple[str, ...]:
    """Return a warning where the hard deadline of a task that runs once passes while it is paused."""
    return expires_in_pause(draft.task, draft.change.coming, draft.task.paused_until)


def expires_in_pause(task: Task, run: Run, until: datetime | None) -> tuple[str, ...]:
    """Return a warning where the hard deadline of a run of such a task passes in a pause until then."""
    if until is None or task.repeat or task.deadline_type is not DeadlineType.HARD or run.ended_at:
        return ()
    if run.deadline is None or (run.drop_at or run.deadline) > until:
        return ()
    text = f"its hard deadline {describe(run.deadline, task.timezone)} passes first: it expires when the pause ends"
    return (Translatable.of(NoteKind.DEADLINE_IN_PAUSE, text, deadline=run.deadline.isoformat()),)


def ended_warning(draft: ChangeDraft) -> tuple[str, ...]:
    """Return a warning where the resumed task has ended, as a resume does not start it again."""
    resumed, run = draft.record.task.paused and not draft.task.paused, draft.change.coming
    text = f"it has ended ({run.state}): it starts once it is given a time"
    return (Translatable.of(NoteKind.HAS_ENDED, text),) if resumed and run.ended_at else ()
