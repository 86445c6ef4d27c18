"""A new rule of a series with occurrences that were skipped ahead: where it begins, and what of them comes again."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from duetime.scheduler.intake.instants import names_no_day
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.skipped_days import skipped_days
from duetime.scheduler.rules.states import TERMINAL
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
