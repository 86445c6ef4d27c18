"""The agenda of a window that reaches ahead: every occurrence in it by time, and where some need the same thing.

Recurrences are expanded outside of any transaction, and only as far as a page and its clashes need.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.start_times import starts_at
from duetime.scheduler.foresight.task_view import row_of
from duetime.scheduler.rules.limits.clashes import BusySpan, clashes
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.occurrences import TooManyOccurrences, following, with_deadline_like
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.lists.agenda import Agenda, AgendaSeries, ListPlace
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import Clash, TaskFilter, TaskRecord, TaskView, after_pause

MAX_OCCURRENCES_AHEAD = 200
"""Occurrences from the start of a page on that are compared for clashes."""

RunLength = Callable[[TaskRecord], timedelta]
"""Says how long a run of a task probably takes."""

AgendaEntry = tuple[ListPlace, TaskView]


@dataclass(frozen=True, slots=True)
class AgendaPage:
    """The part of a page that lies ahead: its occurrences, the place of the last if there are more, and clashes.

    It is not `complete` where some recurring tasks could not be followed so far.
    """

    views: Sequence[TaskView]
    last: ListPlace | None
    complete: bool
    clashes: tuple[Clash, ...]


@dataclass(slots=True)
class Outlook:
    """Looks ahead from `now`, with the pools that there are and the lengths of runs."""

    now: datetime
    pools: Mapping[str, Pool]
    length: RunLength
    _complete: bool = True

    def window(self, agenda: Agenda, where: TaskFilter, limit: int) -> AgendaPage:
        """Return a page of at most `limit` occurrences."""
        current = (((at, record.task.id), row_of(record, self.now)) for at, record in agenda.rows)
        held = self._held(agenda, where)
        start = max(self.now, where.after or self.now, agenda.behind[0] if agenda.behind else self.now)
        later = [self._later(series, start, where, agenda.behind) for series in agenda.recurring]
        merged = heapq.merge(current, held, *later, key=lambda entry: entry[0])
        entries = list(islice(merged, MAX_OCCURRENCES_AHEAD))
        shown, more = entries[:limit], len(entries) > limit
        found = self._clashes(entries, len(shown))
        return AgendaPage(
            [view for _, view in shown], shown[-1][0] if more else None, agenda.complete and self._complete, found
        )

    def _held(self, agenda: Agenda, where: TaskFilter) -> Sequence[AgendaEntry]:
        """Return the tasks that a pause holds until a time, where they come after it within the window."""
        coming = [((starts_at(record), record.task.id), record) for record in agenda.held]
        within = [
            (place, row_of(record, self.now))
            for place, record in coming
            if _is_within(place[0], where)
            and place[0] >= (record.task.paused_until or place[0])  # else none of its times does
            and (agenda.behind is None or place > agenda.behind)
        ]
        return sorted(within, key=lambda entry: entry[0])

    def _later(
        self, series: AgendaSeries, start: datetime, where: TaskFilter, behind: ListPlace | None
    ) -> Iterator[AgendaEntry]:
        """Yield the occurrences of a task after its current run, and its side runs, by time."""
        record = series.record
        for at, run in heapq.merge(
            _side_runs(record, where), self._expected(series, start, where), key=lambda found: found[0]
        ):
            place = (at, record.task.id)
            if behind is None or place > behind:
                expected = not run.id
                view = row_of(replace(record, run=run, last_run=None, side_runs=()), self.now)
                yield place, replace(view, expected=expected)

    def _expected(self, series: AgendaSeries, start: datetime, where: TaskFilter) -> Iterator[tuple[datetime, Run]]:
        task, run, end = series.record.task, series.run, where.before
        assert end is not None
        if task.paused:
            run = replace(run, scheduled_for=max(run.scheduled_for, _followed_from(series.record)))
        try:
            for coming in following(series.ruled, run, self.now, start=start, end=end):
                made = Run("", task.id, task.tenant, coming.instant, State.SCHEDULED, wake_at=coming.instant)
                yield coming.instant, with_deadline_like(task, made, run)
        except (TooManyOccurrences, InvalidArgument, LookupError, ValueError, OSError):  # a damaged one has none
            self._complete = False

    def _clashes(self, entries: Sequence[AgendaEntry], shown: int) -> tuple[Clash, ...]:
        """Return the clashes in which a shown occurrence takes part."""
        lengths = {n: self.length(view.record) for n, (_, view) in enumerate(entries) if view.record.task.needs}
        spans = [self._span(n, entries[n], length) for n, length in lengths.items()]
        return tuple(
            Clash(
                each.name,
                each.pool.text(),
                each.at,
                tuple((entries[key][1], lengths[key]) for key in each.keys),
            )
            for each in clashes(spans, self.pools)
            if min(each.keys) < shown
        )

    def _span(self, key: int, entry: AgendaEntry, length: timedelta) -> BusySpan:
        (at, _), view = entry
        task, run = view.record.task, view.record.run
        start = run.started_at or self.now if run.state is State.RUNNING else max(at, self.now)
        return BusySpan(key, task.priority.rank, task.needs, start, max(start + length, self.now))


def _followed_from(record: TaskRecord) -> datetime:
    """Return the time after which occurrences follow: the start of what is held; of what runs, the end of its pause."""
    end = record.task.paused_until
    return end - MICROSECOND if end and record.run.state is State.RUNNING else starts_at(record)


def _side_runs(record: TaskRecord, where: TaskFilter) -> Iterable[tuple[datetime, Run]]:
    due = [(after_pause(record.task, run.wake_at or run.scheduled_for), run) for run in record.side_runs]
    return sorted((found for found in due if _is_within(found[0], where)), key=lambda found: found[0])


def _is_within(at: datetime, where: TaskFilter) -> bool:
    return (where.after is None or at >= where.after) and (where.before is None or at < where.before)
