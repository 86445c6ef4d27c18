"""Decides the part of a reschedule that changes the end of a series: `until` and `max_runs`."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.intake.changes.draft import ChangeDraft
from duetime.scheduler.intake.instants import LAST_OF_DAY
from duetime.scheduler.intake.series_end import is_endless, refuse_second_count, series_end
from duetime.scheduler.intake.validation import refuse_ends_without_repeat
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.occurrences import next_run, recurrence_of
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.overtake import ends_series
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Run, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import Occurrence
from duetime.scheduler.views import TaskRecord

MAX_TIMES_OF_LAST_DAY: Final = 100
"""Times of a day that are compared; a rule with more has lost next to nothing."""


def max_runs_step(draft: ChangeDraft) -> ChangeDraft:
    """Change the number of runs of the task; a one-shot has one, whatever a client fills in."""
    task, request = draft.task, draft.request
    if "max_runs" in request.remove:
        return draft.with_task(max_runs=None)
    if request.max_runs is None:
        return draft
    if task.repeat is None and request.repeat is None:
        refuse_ends_without_repeat(replace(request, until=None))
        return draft
    if request.repeat is None:
        refuse_second_count(recurrence_of(task), request.max_runs)
    return draft.with_task(max_runs=request.max_runs)


def end_step(draft: ChangeDraft) -> ChangeDraft:
    """Change the end of a series; an ended series continues, if the new end leaves it an occurrence.

    The task has its new number of runs already.
    """
    change, request = draft.change, draft.request
    counted = draft.task.repeat is not None and draft.task.max_runs != draft.record.task.max_runs
    if request.until is None and not counted:
        return draft
    rule = recurrence_of(draft.task)
    if rule is None:
        if not is_endless(request):
            refuse_ends_without_repeat(replace(request, max_runs=None))
        return draft
    refuse_cancelled(draft.record, "max_runs" if request.until is None else "until")
    following = _continued(draft) if change.coming.state in TERMINAL else None
    if following is None and counted:
        _check_number(draft.task, change.coming)
    draft = draft.with_task(until=_until(draft, rule, (following or change.coming).scheduled_for))
    if following is None:
        return draft
    return draft.with_change(replace(draft.change, next_run=following)).assuming(_goes_on_note(draft.task, following))


def _until(draft: ChangeDraft, rule: Recurrence, first: datetime) -> datetime | None:
    """Return the end of the series, which is not before its next occurrence, `first`."""
    given, task = draft.request.until, draft.task
    if given is None or is_endless(draft.request):
        return task.until if given is None else None
    return series_end(given, rule, now=draft.now, zone=task.timezone, first=first, frame=draft.frame())


def _check_number(task: Task, coming: Run) -> None:
    """Refuse a number of runs that the coming or running one exceeds."""
    if task.max_runs is not None and task.max_runs < coming.number:
        raise InvalidArgument(
            "max_runs",
            f"its next run, {describe(coming.scheduled_for, task.timezone)}, is number {coming.number}",
            accepted=f"{coming.number} or more; cancel it to end it now",
            example=f"max_runs={coming.number}",
        )


def _continued(draft: ChangeDraft) -> Run:
    """Return the successor of the last run of an ended series; raises Refused when there is none."""
    task, last, ends = draft.task, draft.change.coming, draft.request.until is not None
    argument = "until" if ends else "max_runs"
    check_runs_left(task, last, argument)
    following = next_run(replace(task, until=None) if ends else task, last, draft.now)
    if following is not None:
        return replace(following, missed=0)
    if task.until is not None and not ends:
        raise InvalidArgument(
            "max_runs",
            f"the series ended {describe(task.until, task.timezone)}",
            accepted="a later until in the same call, or 'never'",
            example="until='never'",
        )
    raise Refused(
        f"the rule of {task.id} has no further occurrence.", argument=argument, remedy=remedies.GiveRule(task.id)
    )


def _goes_on_note(task: Task, following: Run) -> str:
    when = f"{describe(following.scheduled_for, task.timezone)} {task.timezone}"
    text = f"the series goes on: it next runs {when}"
    return Translatable.of(NoteKind.SERIES_GOES_ON, text, at=following.scheduled_for.isoformat())


def end_in_zone(task: Task, zone: str) -> datetime | None:
    """Return the end of a series in another zone: one that was a day stays that day, any other one its instant."""
    wall = task.until and task.until.astimezone(zones.load(task.timezone)).replace(tzinfo=None)
    return task.until if not wall or wall.time() != LAST_OF_DAY else zones.place(wall, zones.load(zone)).instant


def refuse_cancelled(record: TaskRecord, argument: str) -> None:
    """Refuse to continue a series that was cancelled before or during its run."""
    if ends_series(record.run):
        raise Refused(f"{record.task.id} was cancelled.", argument=argument, remedy=remedies.ScheduleAnother())


def check_runs_left(task: Task, run: Run, argument: str) -> None:
    """Refuse to continue a series that has reached `max_runs`."""
    used = run.number - (run.state not in TERMINAL and not changes.has_started(run))
    if task.max_runs is None or used < task.max_runs:
        return
    words = f"has used up its {used} runs" if used == task.max_runs else f"has had {used} runs already"
    raise Refused(f"{task.id} {words}.", argument=argument, remedy=remedies.RaiseMaxRuns(task.id, used + 1))


def check_end(task: Task, first: Occurrence) -> None:
    """Refuse a rule that has no occurrence before the task's end."""
    if task.until is not None and first.instant > task.until:
        raise InvalidArgument(
            "repeat",
            f"its first occurrence, {describe(first.instant, task.timezone)}, is after the task's end",
            accepted="a later until in the same call, or 'never'",
            example="until='never'",
        )


def lost_run_note(had: Task, task: Task) -> tuple[str, ...]:
    """Say which run a series loses on its last day, where its times have moved behind its end, which stays."""
    old, new = recurrence_of(had), recurrence_of(task)
    if old is None or new is None or had.until is None or task.until is None:
        return ()
    day = had.until.astimezone(zones.load(old.zone)).date()
    before, after = _of_day(old, day), _of_day(new, day)
    lost = [each.instant for each in after if each.instant > task.until]
    if not lost or len(after) - len(lost) >= sum(each.instant <= had.until for each in before):
        return ()
    zone = new.zone
    at, end = describe(lost[0], zone), describe(task.until, zone)
    example = f"{lost[0].astimezone(zones.load(zone)):%Y-%m-%d %H:%M:%S}"
    return (f"it does not run {at}, since its end stays {end}; until='{example}' keeps that run",)


def _of_day(rule: Recurrence, day: date) -> tuple[Occurrence, ...]:
    start = zones.place(datetime.combine(day, time()), zones.load(rule.zone)).instant
    found = rule.upcoming(start - MICROSECOND, MAX_TIMES_OF_LAST_DAY)
    return tuple(each for each in found if each.wall.date() == day)
