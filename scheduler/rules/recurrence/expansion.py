"""The instants of a rule: one plan keeps wall times, the other counts elapsed time.

Rules with fixed hours keep their wall time: what falls into a gap moves to the first valid instant, what happens twice
takes the first, and wall times that meet in one instant fire once. Sub-daily rules go by instants: they fire in both
passes of an hour that happens twice, and not in one that is skipped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.recurrence.calendar_days import Days
from duetime.scheduler.rules.recurrence.rule import HOURLY, Rule
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.parser import shift_note
from duetime.scheduler.task import Occurrence

MAX_CANDIDATES_SEARCHED = 5000
"""How many candidates the search among elapsed times looks at."""

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_TICK = timedelta(microseconds=1)
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
        """Tell whether the rule ever falls on two days in a row."""
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
        unit = _HOUR if rule.freq == HOURLY else _MINUTE
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
        at = self._on_grid(instant.astimezone(UTC) + _TICK)
        while True:
            wall = at.astimezone(self.zone).replace(tzinfo=None)
            worth = self._next_worth(at, wall)
            if worth is None:
                return
            yield Occurrence(at, wall) if worth == at else None
            at = self._on_grid(max(worth, at + _MINUTE))

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

    def _next_worth(self, at: datetime, wall: datetime) -> datetime | None:
        """Return `at` if its wall time matches, else the next instant worth a look, None if there is none."""
        day = self.days.next(wall.date()) if self.days else wall.date()
        if day is None:
            return None
        if day != wall.date():
            return zones.place(datetime.combine(day, time()), self.zone).instant
        if self.rule.hours and wall.hour not in self.rule.hours:
            return self._leap(at, 60 - wall.minute)
        if self.rule.minutes and wall.minute not in self.rule.minutes:
            ahead = min((minute for minute in self.rule.minutes if minute > wall.minute), default=60)
            return self._leap(at, ahead - wall.minute)
        return at

    def _leap(self, at: datetime, minutes: int) -> datetime:
        """Go ahead by minutes of the clock, one at a time where the clocks change."""
        there = at + minutes * _MINUTE
        changed = zones.offset(self.zone, at) != zones.offset(self.zone, there)
        return at + _MINUTE if changed else there


Expansion = WallPlan | ElapsedPlan


def expand(rule: Rule, anchor: datetime, zone: ZoneInfo) -> Expansion:
    """Return the plan of a rule whose periods and missing parts are taken from `anchor`."""
    if rule.elapsed:
        return ElapsedPlan.of(rule, anchor, zone)
    local = anchor.astimezone(zone)
    return WallPlan(Days.of(rule, local.date()), rule.clock_times(local.time().replace(fold=0)), zone)
