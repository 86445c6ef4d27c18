"""The days that a rule falls on: a search that goes year by year and never further than a hundred years.

A year is a number with a bit for each day, bit 0 for 1 January. So a filter or a period of a whole year is one
operation, however rare the day is that the rule names.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

from duetime.scheduler.rules.recurrence.rule import DAILY, MONTHLY, NO_VALUES, SUB_DAILY, WEEKLY, YEARLY, Rule
from duetime.scheduler.rules.time.days.public_holidays import year_bits

MAX_YEARS_SEARCHED = 100
"""The search for a next day ends after so many years: what does not happen in a hundred years never does."""

MAX_HOLIDAY_YEARS_SEARCHED = 20
"""The same where public holidays are left out: each further year of a calendar has to be worked out."""

_Weekdays = frozenset[tuple[int, int]]
_WEEK_DAYS = 7
_YEAR_DAYS = 366
_WHOLE_WEEK_BITS = (1 << _WEEK_DAYS) - 1
_WHOLE_YEAR_BITS = (1 << _YEAR_DAYS) - 1


@dataclass(frozen=True, slots=True)
class Days:
    """The days of a rule. Periods of `interval` days, weeks (from Monday), months or years count from `anchor`."""

    rule: Rule
    anchor: date

    @classmethod
    def of(cls, rule: Rule, anchor: date) -> Days:
        """Return the days of a rule, with the anchor's weekday or day where RFC 5545 takes it from there."""
        if rule.freq in SUB_DAILY:
            return cls(replace(rule, freq=DAILY, interval=1), anchor)
        if rule.weekdays or rule.monthdays or rule.freq == DAILY:
            return cls(rule, anchor)
        if rule.freq == WEEKLY:
            return cls(replace(rule, weekdays=frozenset({(0, anchor.weekday())})), anchor)
        months = rule.months or (frozenset({anchor.month}) if rule.freq == YEARLY else NO_VALUES)
        return cls(replace(rule, months=months, monthdays=frozenset({anchor.day})), anchor)

    def next(self, day: date) -> date | None:
        """Return the first day at or after `day`, None if there is none within reach."""
        skip = day.timetuple().tm_yday - 1
        reach = MAX_HOLIDAY_YEARS_SEARCHED if self.rule.holidays else MAX_YEARS_SEARCHED
        for year in range(day.year, min(day.year + reach, date.max.year) + 1):
            found = self._year(year) >> skip
            if found:
                return date(year, 1, 1) + timedelta(skip + (found & -found).bit_length() - 1)
            skip = 0
        return None

    def _year(self, year: int) -> int:
        """Return the days of a year as bits."""
        rule = self.rule
        if rule.freq == YEARLY and (year - self.anchor.year) % rule.interval:
            return 0
        by_year = rule.freq == YEARLY and not rule.months and any(nth for nth, _ in rule.weekdays)
        first = date(year, 1, 1)
        days = _DaysOfYear(rule.months, rule.monthdays, rule.weekdays, rule.either, by_year)
        bits = _year_bits(days, first.weekday(), isleap(year))
        bits = bits & self._periods(first) if bits and rule.interval > 1 else bits
        bits = bits & ~year_bits(rule.holidays, year) if bits and rule.holidays else bits
        return _chosen(bits, rule.positions, isleap(year)) if bits and rule.positions else bits

    def _periods(self, first: date) -> int:
        """Return the days of the year from `first` that lie in a counted day, week or month, as bits."""
        rule = self.rule
        if rule.freq == DAILY:
            return _repeated(1, rule.interval) << (self.anchor - first).days % rule.interval
        if rule.freq == WEEKLY:
            return _weeks(rule.interval * _WEEK_DAYS, (first - self.anchor).days + self.anchor.weekday())
        if rule.freq != MONTHLY:
            return _WHOLE_YEAR_BITS
        behind = (self.anchor.year - first.year) * 12 + self.anchor.month - 1
        return _months(rule.interval, behind % rule.interval, isleap(first.year))


def _weeks(period: int, behind: int) -> int:
    """Return the first week of each `period` of days, `behind` days after one began, as the bits of a year."""
    passed = behind % period
    begun = _WHOLE_WEEK_BITS >> passed if passed < _WEEK_DAYS else 0
    return begun | _repeated(_WHOLE_WEEK_BITS, period) << (period - passed)


@lru_cache(maxsize=4096)
def _repeated(bits: int, period: int) -> int:
    """Return `bits` every `period` days, for a year."""
    return sum(bits << start for start in range(0, _YEAR_DAYS, period))


class _DaysOfYear(NamedTuple):
    """The parts of a rule that choose days of a year; `by_year` counts weekdays in the year, not in the month."""

    months: frozenset[int]
    monthdays: frozenset[int]
    weekdays: _Weekdays
    either: bool
    by_year: bool


@lru_cache(maxsize=4096)
def _year_bits(days: _DaysOfYear, first: int, leap: bool) -> int:
    """Return the matching days of a year that starts on weekday `first`."""
    year = 2000 if leap else 2001
    bits, start = 0, 0
    of_month, of_year = days.weekdays, _WHOLE_YEAR_BITS
    if days.by_year:
        of_month, of_year = frozenset(), _weekdays_of_year(days.weekdays, first, _YEAR_DAYS if leap else _YEAR_DAYS - 1)
    for month in range(1, 13):
        length = monthrange(year, month)[1]
        if not days.months or month in days.months:
            bits |= _bits(days.monthdays, of_month, (first + start) % _WEEK_DAYS, length, either=days.either) << start
        start += length
    return bits & of_year


@lru_cache(maxsize=4096)
def _months(interval: int, behind: int, leap: bool) -> int:
    """Return the days of each `interval` of months, the first of them `behind` months into the year."""
    year = 2000 if leap else 2001
    bits = 0
    for month in range(behind + 1, 13, interval):
        start = date(year, month, 1).timetuple().tm_yday - 1
        bits |= ((1 << monthrange(year, month)[1]) - 1) << start
    return bits


def _chosen(bits: int, positions: frozenset[int], leap: bool) -> int:
    """Return the days of a year that have one of the positions among those of their month: -1 is the last."""
    year, start, chosen = 2000 if leap else 2001, 0, 0
    for month in range(1, 13):
        length = monthrange(year, month)[1]
        days = [day for day in range(start, start + length) if bits >> day & 1]
        places = (position - 1 if position > 0 else len(days) + position for position in positions)
        chosen |= sum(1 << days[place] for place in set(places) if 0 <= place < len(days))
        start += length
    return chosen


def _bits(monthdays: frozenset[int], weekdays: _Weekdays, first: int, length: int, *, either: bool) -> int:
    """Return the matching days of a month that starts on weekday `first`, as bits from its first day."""
    every = (1 << length) - 1
    by_day = sum(1 << index for index in {_index(day, length) for day in monthdays} if 0 <= index < length)
    by_weekday = 0
    for nth, weekday in weekdays:
        by_weekday |= _weekday_bits(nth, (weekday - first) % _WEEK_DAYS, length)
    if either and monthdays and weekdays:
        return by_day | by_weekday
    return (by_day if monthdays else every) & (by_weekday if weekdays else every)


def _index(monthday: int, length: int) -> int:
    return monthday - 1 if monthday > 0 else length + monthday


def _weekday_bits(nth: int, offset: int, length: int) -> int:
    days = range(offset, length, _WEEK_DAYS)
    if nth == 0:
        return sum(1 << index for index in days)
    index = nth - 1 if nth > 0 else len(days) + nth
    return 1 << days[index] if 0 <= index < len(days) else 0


def _weekdays_of_year(weekdays: _Weekdays, first: int, length: int) -> int:
    """Return the days that are the nth weekday of a year that starts on weekday `first`."""
    bits = 0
    for nth, weekday in weekdays:
        bits |= _weekday_bits(nth, (weekday - first) % _WEEK_DAYS, length)
    return bits
