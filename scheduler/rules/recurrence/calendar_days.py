"""The days that a rule falls on: a search that goes month by month and never further than a hundred years."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MINUTELY, MONTHLY, NONE, WEEKLY, YEARLY, Rule
from duetime.scheduler.rules.time.public_holidays import month_bits

MAX_MONTHS_SEARCHED = 1200
"""How many months the search for a next day goes ahead: what does not happen in a hundred years never does."""

MAX_HOLIDAY_MONTHS_SEARCHED = 240
"""The same where public holidays are left out: each further year of a calendar has to be worked out."""

_Weekdays = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Days:
    """The days of a rule. Periods of `interval` days, weeks (from Monday), months or years count from `anchor`."""

    rule: Rule
    anchor: date

    @classmethod
    def of(cls, rule: Rule, anchor: date) -> Days:
        """Return the days of a rule, with the anchor's weekday or day where RFC 5545 takes it from there."""
        if rule.freq in {MINUTELY, HOURLY}:
            return cls(replace(rule, freq=DAILY, interval=1), anchor)
        if rule.weekdays or rule.monthdays or rule.freq == DAILY:
            return cls(rule, anchor)
        if rule.freq == WEEKLY:
            return cls(replace(rule, weekdays=frozenset({(0, anchor.weekday())})), anchor)
        months = rule.months or (frozenset({anchor.month}) if rule.freq == YEARLY else NONE)
        return cls(replace(rule, months=months, monthdays=frozenset({anchor.day})), anchor)

    def next(self, day: date) -> date | None:
        """Return the first day at or after `day`, None if there is none within reach."""
        year, month, skip = day.year, day.month, day.day - 1
        for _ in range(MAX_HOLIDAY_MONTHS_SEARCHED if self.rule.holidays else MAX_MONTHS_SEARCHED):
            if year > date.max.year:
                return None
            found = self._month(year, month) >> skip
            if found:
                return date(year, month, skip + (found & -found).bit_length())
            year, month, skip = year + month // 12, month % 12 + 1, 0
        return None

    def _month(self, year: int, month: int) -> int:
        """Return the days of a month as bits, bit 0 for the first."""
        rule = self.rule
        if (rule.months and month not in rule.months) or not self._month_counts(year, month):
            return 0
        first, length = monthrange(year, month)
        if rule.freq == YEARLY and not rule.months and any(nth for nth, _ in rule.weekdays):
            bits = _ordinals_of_year(rule.weekdays, year, month)
            bits &= _bits(rule.monthdays, frozenset(), first, length, either=False)
        else:
            bits = _bits(rule.monthdays, rule.weekdays, first, length, either=rule.either)
        bits = bits & self._period(year, month, length) if bits and rule.interval > 1 else bits
        return bits & ~month_bits(rule.holidays, year, month) if bits and rule.holidays else bits

    def _month_counts(self, year: int, month: int) -> bool:
        if self.rule.freq == MONTHLY:
            return (year * 12 + month - self.anchor.year * 12 - self.anchor.month) % self.rule.interval == 0
        return self.rule.freq != YEARLY or (year - self.anchor.year) % self.rule.interval == 0

    def _period(self, year: int, month: int, length: int) -> int:
        """Return the days of a month that lie in a counted day or week, as bits."""
        start = date(year, month, 1).toordinal()
        if self.rule.freq == DAILY:
            behind = (self.anchor.toordinal() - start) % self.rule.interval
            return sum(1 << index for index in range(behind, length, self.rule.interval))
        if self.rule.freq != WEEKLY:
            return (1 << length) - 1
        monday = self.anchor.toordinal() - self.anchor.weekday()
        return sum(1 << index for index in range(length) if (start + index - monday) // 7 % self.rule.interval == 0)


@lru_cache(maxsize=4096)
def _bits(monthdays: frozenset[int], weekdays: _Weekdays, first: int, length: int, *, either: bool) -> int:
    """Return the matching days of a month that starts on weekday `first`."""
    every = (1 << length) - 1
    by_day = sum(1 << index for index in {_index(day, length) for day in monthdays} if 0 <= index < length)
    by_weekday = 0
    for nth, weekday in weekdays:
        by_weekday |= _weekday_bits(nth, (weekday - first) % 7, length)
    if either and monthdays and weekdays:
        return by_day | by_weekday
    return (by_day if monthdays else every) & (by_weekday if weekdays else every)


def _index(monthday: int, length: int) -> int:
    return monthday - 1 if monthday > 0 else length + monthday


def _weekday_bits(nth: int, offset: int, length: int) -> int:
    days = range(offset, length, 7)
    if nth == 0:
        return sum(1 << index for index in days)
    index = nth - 1 if nth > 0 else len(days) + nth
    return 1 << days[index] if 0 <= index < len(days) else 0


@lru_cache(maxsize=1024)
def _ordinals_of_year(weekdays: _Weekdays, year: int, month: int) -> int:
    """Return the days of a month that are the nth weekday of their year."""
    start = date(year, 1, 1)
    length = date(year, 12, 31).timetuple().tm_yday
    bits = 0
    for nth, weekday in weekdays:
        bits |= _weekday_bits(nth, (weekday - start.weekday()) % 7, length)
    skip = date(year, month, 1).timetuple().tm_yday - 1
    return (bits >> skip) & ((1 << monthrange(year, month)[1]) - 1)
