"""The instants of a rule: one plan keeps wall times, the other counts elapsed time.

Rules with fixed hours keep their wall time. A time in a gap moves to the first valid instant, and of a time that
happens twice the first counts. Wall times that meet in one instant fire once. Sub-daily rules go by instants: they fire
in both passes of an hour that happens twice, and not in one that is skipped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from math import gcd, lcm
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.recurrence.calendar_days import Days
from duetime.scheduler.rules.recurrence.rule import HOURLY, SECONDLY, Rule
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.rules.time.parser import shift_note
from duetime.scheduler.view_parts import Occurrence

MAX_CANDIDATES_SEARCHED = 1000
"""The search among elapsed times looks at so many candidates at most."""

MAX_SILENCE = timedelta(days=200 * 366)
"""The longest time between two occurrences that the search among elapsed times bridges."""

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MINUTES_PER_DAY = 1440
_MAX_NEIGHBOURS_SEARCHED = 400


@dataclass(frozen=True, slots=True)
class WallPlan:
    """Times of day on the days of a rule."""

    days: Days
    times: tuple[time, ...]
    zone: ZoneInfo

    def after(self, instant: datetime) -> Occurrence | None:
        """Return the first occurrence after `instant`."""
        return next(self.walk(instant), None)

    def walk(self, instant: datetime) -> Iterator[Occurrence]:
        """Yield the occurrences after `instant`."""
        last = instant
        for wall in self._walls(instant.astimezone(self.zone).replace(tzinfo=None)):
            found = zones.place(wall, self.zone)
            if found.instant > last:
                last = found.instant
                yield Occurrence(last, wall, shift_note(wall, found, self.zone) if found.shift else None)

    def shortest(self) -> timedelta:
        """Return the shortest time between two occurrences, as the clocks show it."""
        points = [datetime.combine(date.min, found) for found in self.times]
        gaps = [later - earlier for earlier, later in pairwise(points)]
        over_night = points[0] + _DAY - points[-1]
        if over_night < min(gaps, default=_DAY) and self._adjacent():
            gaps.append(over_night)
        return min(gaps, default=_DAY)

    def _walls(self, after: datetime) -> Iterator[datetime]:
        day = self.days.next(after.date())
        start = bisect_right(self.times, after.time()) if day == after.date() else 0
        while day is not None:
            for found in self.times[start:]:
                yield datetime.combine(day, found)
            day, start = self.days.next(day + _DAY), 0

    def _adjacent(self) -> bool:
        """Whether the rule ever falls on two days in a row."""
        days = replace(self.days, rule=replace(self.days.rule, holidays=""))  # working years out would take long
        day = days.next(days.anchor)
        for _ in range(_MAX_NEIGHBOURS_SEARCHED):
            following = days.next(day + _DAY) if day else None
            if day is None or following is None:
                return False
            if following - day == _DAY:
                return True
            day = following
        return False


@dataclass(frozen=True, slots=True)
class ElapsedPlan:
    """Instants on a grid of `step` from `base`, those whose wall time matches the rule.

    With `blocks` the grid is of whole hours: every minute in a counted hour is on it.
    """

    rule: Rule
    days: Days | None
    base: datetime
    step: timedelta
    blocks: bool
    zone: ZoneInfo

    @classmethod
    def of(cls, rule: Rule, anchor: datetime, zone: ZoneInfo) -> ElapsedPlan:
        unit = {HOURLY: _HOUR, SECONDLY: _SECOND}.get(rule.freq, _MINUTE)
        blocks = bool(rule.minutes) and rule.freq == HOURLY and rule.interval > 1
        base = anchor.replace(second=0, microsecond=0) if rule.minutes else anchor
        if blocks:
            base -= anchor.astimezone(zone).minute * _MINUTE
        if rule.minutes and not blocks and rule.freq == HOURLY:
            unit = _MINUTE
        filtered = rule.months or rule.monthdays or rule.weekdays or rule.holidays
        days = Days.of(rule, anchor.astimezone(zone).date()) if filtered else None
        return cls(rule, days, base.astimezone(UTC), unit * rule.interval, blocks, zone)

    def after(self, instant: datetime) -> Occurrence | None:
        """Return the first occurrence after `instant`."""
        return next((found for found in islice(self.walk(instant), MAX_CANDIDATES_SEARCHED) if found), None)

    def walk(self, instant: datetime) -> Iterator[Occurrence | None]:
        """Yield the occurrences after `instant`, and None for every step between them that leads to none."""
        at = self._on_grid(instant.astimezone(UTC) + MICROSECOND)
        end = at + MAX_SILENCE
        while at < end:
            candidate = self._next_candidate(at)
            if candidate is None:
                return
            at, falls = candidate
            yield Occurrence(at, self._wall(at)) if falls else None
            if falls:
                at, end = self._on_grid(at + (_MINUTE if self.blocks else self.step)), at + MAX_SILENCE

    def count(self, after: datetime, until: datetime) -> int | None:
        """Return the number of occurrences after one instant and up to another; None where only a walk finds it."""
        if self.days or self.rule.hours or self.rule.minutes:
            return None
        first = self._on_grid(after.astimezone(UTC) + MICROSECOND)
        return max(0, (until - first) // self.step + 1)

    def shortest(self) -> timedelta:
        """Return the shortest time between two occurrences."""
        minutes = sorted(self.rule.minutes)
        if not minutes:
            return self.step
        turn = [later - earlier for earlier, later in zip(minutes, [*minutes[1:], minutes[0] + 60], strict=True)]
        return max(min(turn) * _MINUTE, _MINUTE if self.blocks else self.step)

    def _on_grid(self, at: datetime) -> datetime:
        """Return the first instant of the grid at or after `at`."""
        if not self.blocks:
            return self.base - (self.base - at) // self.step * self.step
        at += (self.base - at) % _MINUTE
        within = (at - self.base) % self.step
        return at if within < _HOUR else at + self.step - within

    def _wall(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None)

    def _next_candidate(self, at: datetime) -> tuple[datetime, bool] | None:
        """Return an instant of the grid before which the rule does not fall, and whether it falls there."""
        wall = self._wall(at)
        day = self.days.next(wall.date()) if self.days else wall.date()
        if day is None:
            return None
        if day != wall.date():
            at = self._on_grid(zones.place(datetime.combine(day, time()), self.zone).instant)
            wall = self._wall(at)
        if wall.date() != day:
            return at, False
        ahead = self._to_time_of_day(at, wall.hour * 60 + wall.minute)
        changed = zones.next_change(self.zone, at, at + ahead) if ahead else None
        if changed is not None:
            return self._on_grid(changed), False
        return at + ahead, self.days is None or (wall + ahead).date() == day

    def _to_time_of_day(self, at: datetime, minute: int) -> timedelta:
        """Return how far the next instant of the grid is that has a time of day of the rule, as the clocks go at `at`.

        A time that the grid never meets is beyond `MAX_SILENCE`.
        """
        rule = self.rule
        if not rule.hours and not rule.minutes:
            return timedelta()
        step, width = self.step // _MINUTE, 60 if self.blocks else 1
        near, ahead = _times_of_day(rule.hours, rule.minutes, step, width)
        passed = (at - self.base) % self.step // _MINUTE
        if near[minute] < width - passed:
            return near[minute] * _MINUTE
        later = ahead[(minute - passed + step) % _MINUTES_PER_DAY]
        return MAX_SILENCE if later is None else (step - passed + later) * _MINUTE


@lru_cache(maxsize=64)
def _times_of_day(
    hours: frozenset[int], minutes: frozenset[int], step: int, width: int
) -> tuple[Sequence[int], Sequence[int | None]]:
    """Return for each minute of a day how far the next one of the rule is: in all, and from period to period.

    A period begins every `step` minutes and has `width` of them. None is where no period ever has one of the rule.
    """
    matching = [
        (not hours or minute // 60 in hours) and (not minutes or minute % 60 in minutes)
        for minute in range(_MINUTES_PER_DAY)
    ]
    near = [_MINUTES_PER_DAY] * (2 * _MINUTES_PER_DAY + 1)
    for minute in reversed(range(2 * _MINUTES_PER_DAY)):
        near[minute] = 0 if matching[minute % _MINUTES_PER_DAY] else near[minute + 1] + 1
    ahead: list[int | None] = [None] * _MINUTES_PER_DAY
    for start in range(gcd(step, _MINUTES_PER_DAY)):
        found: int | None = None
        for turn in reversed(range(0, 2 * lcm(step, _MINUTES_PER_DAY), step)):
            minute = (start + turn) % _MINUTES_PER_DAY
            later = None if found is None else found + step
            found = ahead[minute] = near[minute] if near[minute] < width else later
    return near, ahead


Expansion = WallPlan | ElapsedPlan


def expand(rule: Rule, anchor: datetime, zone: ZoneInfo) -> Expansion:
    """Return the plan of a rule whose periods and missing parts are taken from `anchor`."""
    if rule.elapsed:
        return ElapsedPlan.of(rule, anchor, zone)
    local = anchor.astimezone(zone)
    return WallPlan(Days.of(rule, local.date()), rule.clock_times(local.time().replace(fold=0)), zone)
