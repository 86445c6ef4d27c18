"""Reads the arguments that say when a task runs: when, repeat, until and max_runs, all in the same zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import Recurring, Timing, resolve_begin, resolve_moment
from duetime.scheduler.intake.repeat_policy import left_out, policy_of, spread, spread_note
from duetime.scheduler.intake.series_end import refuse_second_count, series_end
from duetime.scheduler.intake.validation import ProblemCollector, check_max_runs, no_zone, refuse_ends_without_repeat
from duetime.scheduler.request import REMINDER_ACTION, Request
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import MIN_INTERVAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import Resolved, describe
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import RepeatPolicy
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import Occurrence

_YEAR = timedelta(days=366)

USUAL_INTERVAL = timedelta(minutes=1)
"""The shortest interval of a recurrence where nothing else is configured."""


@dataclass(frozen=True, slots=True)
class TimeReader:
    """Reads times; the fields are those of the planner."""

    zone: str | None
    minimum_interval: timedelta
    zone_named: bool
    holidays: str
    spread: timedelta = timedelta(0)

    def timing(self, request: Request, now: datetime, *, actions: Sequence[str] = ()) -> Timing:
        """Resolve when, repeat, until and max_runs together, all in the same zone; a chain has several `actions`."""
        problems = ProblemCollector()
        zone = self.zone_of(request)
        start = problems.of(self._start, request, now, zone)
        if request.timezone:
            problems.of(zones.find, request.timezone)
        if request.repeat is not None:
            reader = self.for_work(*(actions or (request.action,)), of_agent=request.raw is not None)
            return self._recurring(request, start, reader, zone=zone, now=now, known=problems)
        problems.of(refuse_ends_without_repeat, request)
        if request.repeat_policy:
            problems.of(policy_of, request, self.today(request, now))
        if start is None or problems:
            raise problems.error()
        return Timing(start.instant, start.zone, assumptions=start.assumptions)

    def frame(
        self,
        timezone: str | None,
        *,
        moved_from: datetime | None = None,
        seen: datetime | None = None,
        own: str | None = None,
    ) -> Frame:
        """Return how times are read: `timezone` is the caller's, `own` the zone of a task that is moved."""
        named = self.zone_named or timezone is not None or own not in (None, self.zone)
        return Frame(moved_from, zone_named=named, holidays=self.holidays, seen=seen)

    def zone_of(self, request: Request | Reschedule) -> str | None:
        """Return the zone of a request; for an unknown one keep the problem and use the nearest known one."""
        zone = request.timezone or self.zone
        try:
            return zones.find(zone).key if zone else None
        except InvalidArgument as unknown:
            return unknown.example

    def today(self, request: Request | Reschedule, now: datetime, own: str | None = None) -> date:
        """Return the date in the zone of a request, else in its `own` one."""
        zone = self.zone_of(request) if request.timezone or own is None else own
        return (now.astimezone(zones.find(zone)) if zone else now).date()

    def _start(self, request: Request, now: datetime, zone: str | None) -> Resolved | None:
        if request.when is not None:
            frame = self.frame(request.timezone)
            if request.repeat is not None:
                return resolve_begin(request.when, request.repeat, now=now, zone=zone, frame=frame)
            return resolve_moment(request.when, now=now, zone=zone, argument="when", frame=frame)
        if request.repeat is not None:
            return None
        waits = request.after or request.approval or request.wait_for
        if request.action != REMINDER_ACTION or waits:
            return resolve_moment(timedelta(0), now=now, zone=zone, argument="when")
        raise InvalidArgument(
            "when", "a reminder needs a time", accepted="a time or a duration from now", example="when='in 2 hours'"
        )

    def _recurring(
        self,
        request: Request,
        start: Resolved | None,
        reader: TimeReader,
        *,
        zone: str | None,
        now: datetime,
        known: ProblemCollector,
    ) -> Timing:
        policy, repeat = known.of(policy_of, request, self.today(request, now)), request.repeat or ""
        begin, skipped = (start.instant, start.skipped) if start else (None, None)
        read = known.of(reader.recurrence, repeat, zone, begin, now, skipped=skipped, policy=policy)
        rule = read.rule if read else None
        begins = read.first.instant if read else now
        frame = self.frame(request.timezone)
        until = known.of(series_end, request.until, rule, now=now, zone=zone, first=begins, frame=frame)
        known.of(check_max_runs, request)
        known.of(refuse_second_count, rule, request.max_runs)
        if read is None or known:
            raise known.error()
        policy = spread(read.rule, policy, reader.spread)
        note = spread_note(policy, read.first, read.rule.zone)
        assumptions = dict.fromkeys((*(start.assumptions if start else ()), *read.notes, *note))
        return Timing(begins, read.rule.zone, read.rule, until, request.max_runs, tuple(assumptions), policy)

    def for_work(self, *actions: str, of_agent: bool) -> TimeReader:
        """Return the reader of what recurs with these actions. A series that only reminds is not spread.

        Work that a program schedules may recur each second, unless the shortest interval is configured. An agent gets
        an error with a longer interval: it may have meant that.
        """
        if all(action == REMINDER_ACTION for action in actions):
            return replace(self, spread=timedelta(0))
        as_usual = self.minimum_interval != USUAL_INTERVAL or of_agent
        return self if as_usual else replace(self, minimum_interval=MIN_INTERVAL)

    def recurrence(
        self,
        repeat: str,
        zone: str | None,
        start: datetime | None,
        now: datetime,
        *,
        skipped: time | None = None,
        moved_from: datetime | None = None,
        policy: RepeatPolicy | None = None,
    ) -> Recurring:
        """Parse a recurrence from `start`, or by its own start when None; return its first occurrence and notes.

        A rule without a time of day keeps that of `moved_from`, the time that the task had. On the first day alone the
        clocks may have `skipped` the time of day that was asked for.
        """
        if zone is None:
            raise no_zone()
        if start is None:
            rule, assumptions = recurrence.soonest(
                repeat, zone=zone, now=now, minimum=self.minimum_interval, moved_from=moved_from, holidays=self.holidays
            )
        else:
            assumptions = ()
            least = self.minimum_interval
            rule = recurrence.parse(repeat, zone=zone, anchor=start, minimum=least, holidays=self.holidays)
            if skipped and not recurrence.names_times(repeat, now=now, holidays=self.holidays):
                shown = start.astimezone(zones.load(zone)).time()
                named = recurrence.at_time(rule, shown, skipped, named=True) or repeat
                rule = recurrence.parse(named, zone=zone, anchor=start, minimum=least, holidays=self.holidays)
        rule = left_out(rule, policy)
        first = rule.first(max(rule.anchor, now))
        if first is None:
            problem = "it has no future occurrence"
            raise InvalidArgument("repeat", problem, example="every weekday at 9:00")
        return Recurring(rule, first, (*assumptions, *((first.note,) if first.note else ()), *_far(first, zone, now)))


def _far(first: Occurrence, zone: str, now: datetime) -> tuple[str, ...]:
    """Say that a recurrence begins more than a year ahead: its rule may not be what was meant."""
    if first.instant - now <= _YEAR:
        return ()
    text = f"it first runs {describe(first.instant, zone)}, more than a year ahead"
    return (Translatable.of(NoteKind.FAR_AHEAD, text, at=first.instant.isoformat()),)
