"""Occurrences of a series that were skipped ahead of their time: a change of its rule leaves them out as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from duetime.scheduler.rules.occurrences import MAX_OCCURRENCES_COUNTED, recurrence_of
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.task import Run, Task
from duetime.scheduler.view_parts import Occurrence


@dataclass(frozen=True, slots=True)
class SkippedDays:
    """The `days` of skipped occurrences, and the wall time `end` up to which there are any.

    `passed` are these days and today: a new rule that has no other day before the end leaves them all out.
    """

    days: frozenset[date] = frozenset()
    passed: frozenset[date] = frozenset()
    end: datetime = datetime.min  # noqa: DTZ901 - a wall time

    def within(self, rule: Recurrence, first: Occurrence) -> Iterator[Occurrence]:
        """Yield the occurrences of a rule, from `first` on, that come before the end."""
        coming: Occurrence | None = first
        for _ in range(MAX_OCCURRENCES_COUNTED):
            if coming is None or coming.wall >= self.end:
                return
            yield coming
            coming = rule.after(coming.instant)


def skipped_days(task: Task, run: Run, now: datetime) -> SkippedDays:
    """Return the days whose occurrences were skipped between `now` and `run`, the next one to come.

    Where it comes on a later day than the last of them, that whole day was skipped; else the day up to that one.
    """
    rule, home = recurrence_of(task), zones.load(task.timezone)
    slot, found = run.slot or run.scheduled_for, list[datetime]()
    after = now
    while rule and len(found) < MAX_OCCURRENCES_COUNTED and (coming := rule.after(after)) and coming.instant < slot:
        found.append(coming.wall)
        after = coming.instant
    if not found:
        return SkippedDays()
    days, last = frozenset(wall.date() for wall in found), found[-1]
    is_whole = slot.astimezone(home).date() > last.date()
    end = datetime.combine(last.date() + timedelta(days=1), time()) if is_whole else last + MICROSECOND
    return SkippedDays(days, days | {now.astimezone(home).date()}, end)
