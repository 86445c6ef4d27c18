"""A new rule of a series with occurrences that were skipped or moved: where it begins, and what of this it undoes."""

from __future__ import annotations

from datetime import datetime, time
from typing import Final

from duetime.scheduler.intake.instants import names_no_day
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.occurrences import recurrence_of
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.skipped_days import skipped_days
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import Occurrence
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

MAX_TIMES_NAMED: Final = 3
"""Occurrences of a series, or generations of a chain, that a note names."""


def without_skipped(
    record: TaskRecord, rule: Recurrence, first: Occurrence, now: datetime, *, when: Moment | None, frame: Frame
) -> tuple[Occurrence, tuple[str, ...]]:
    """Return where a new rule begins that would begin at `first`, and a note if days come again that were skipped.

    They stay left out unless the rule has another day before, tomorrow or later, or `when` names a day.
    """
    if record.run.state in TERMINAL:
        return first, ()
    skipped = skipped_days(record.task, record.run, now)
    before = list(skipped.within(rule, first))
    again = [each for each in before if each.wall.date() in skipped.days]
    is_same = bool(again) and all(each.wall.date() in skipped.passed for each in before)
    later = rule.after(before[-1].instant) if is_same else None
    if later and (when is None or names_no_day(when, later.instant, zone=rule.zone, frame=frame)):
        return later, ()
    return first, (_comes_again(again, rule.zone),) if again else ()


def _comes_again(again: list[Occurrence], zone: str) -> str:
    shown = ", ".join(describe(each.instant, zone) for each in again[:MAX_TIMES_NAMED])
    more = f" and {len(again) - MAX_TIMES_NAMED} more" if len(again) > MAX_TIMES_NAMED else ""
    text = f"it runs again on days that were skipped: {shown}{more}; skip_next leaves out the next one"
    return Translatable.of(NoteKind.ALSO_RUNS, text, at=again[0].instant.isoformat())


def keeps_its_run(record: TaskRecord, rule: Recurrence, now: datetime) -> bool:
    """Whether `rule` is the one that a series has, so that its open run stays as it is, moved or not.

    Other dates that it leaves out may take the day of that run away, or give it one before.
    """
    had, run = recurrence_of(record.task), record.run
    if had is None or run.state in TERMINAL or (rule.rule, rule.zone) != (had.rule, had.zone):
        return False
    slot, home = run.slot or run.scheduled_for, zones.load(rule.zone)
    days = {at.astimezone(home).date() for at in (slot, run.scheduled_for)}
    if days & (rule.left_out - had.left_out):
        return False
    stays = had.without(rule.left_out)
    begins = [zones.place(datetime.combine(day, time()), home).instant for day in had.left_out - rule.left_out]
    back = [stays.after(max(begin - MICROSECOND, now)) for begin in begins]
    return not any(each and each.instant < slot and each.wall.date() in had.left_out for each in back)


def taken_back(record: TaskRecord, first: Occurrence) -> tuple[str, ...]:
    """Say that a series whose next run moves to `first` loses the move of its next occurrence."""
    run, zone = record.run, record.task.timezone
    if run.state in TERMINAL or run.slot is None or run.scheduled_for in (run.slot, first.instant):
        return ()
    was, to = describe(run.slot, zone), describe(run.scheduled_for, zone)
    day, _, clock = to.rpartition(" ")
    text = f"the move of {was} to {clock if was.startswith(day) else to} is taken back"
    return (Translatable.of(NoteKind.MOVE_UNDONE, text, at=run.slot.isoformat()),)
