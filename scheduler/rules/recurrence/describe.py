"""Rules as people say them: `every weekday at 09:00`. `plain_words` reads these sentences back.

A rule is said in clauses, each of which has its kind and values. The sentence is the clauses in English, one behind
the other; a card says the same clauses in the language of its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from math import ceil

from duetime.scheduler.rules.recurrence.day_names import (
    date_text,
    listed,
    monthdays_text,
    months_text,
    time_text,
    weekday_codes,
    weekdays_text,
    workdays_text,
)
from duetime.scheduler.rules.recurrence.rule import (
    DAILY,
    HOURLY,
    MINUTELY,
    MONTHLY,
    RARE_NOTE,
    SECONDLY,
    WEEKLY,
    WORKDAYS,
    YEARLY,
    Rule,
    largest_unit,
)
from duetime.scheduler.rules.time.tokens import ordinal_text
from duetime.scheduler.translatable import ClauseKind, Translatable

Clauses = tuple[Translatable, ...]

_UNITS = {
    SECONDLY: "second", MINUTELY: "minute", HOURLY: "hour", DAILY: "day", WEEKLY: "week", MONTHLY: "month",
    YEARLY: "year",
}  # fmt: skip
_EVERY_DAY = frozenset((0, day) for day in range(7))
_EVERY_MONTH = frozenset(range(1, 13))
_MAX_MONTHS_LISTED = 6
_MAX_TIMES_LISTED = 6
_MINUTES_PER_HOUR = 60
_MINUTES_PER_DAY = 24 * _MINUTES_PER_HOUR
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month, as February mostly has


def sentence(rule: Rule, anchor: datetime) -> str:
    """Write a rule in words; `anchor` is the local time it starts, for what the rule takes from there."""
    return "".join(clauses(rule, anchor))


def full_sentence(rule: Rule, anchor: datetime) -> str:
    """Write a rule in words that leave nothing out, so that they read back as the same rule."""
    every = clauses(rule, anchor, most_times=_MINUTES_PER_DAY)
    return "".join(clause for clause in every if clause.kind != ClauseKind.RARE)


def clauses(rule: Rule, anchor: datetime, *, most_times: int = _MAX_TIMES_LISTED) -> Clauses:
    """Say a rule in clauses. More than `most_times` times of day without a common step are only counted."""
    parts = _elapsed(rule) if rule.elapsed else (*_days(rule, anchor.date()), _at(rule, anchor, most_times))
    return (*parts, *_holidays(rule), *_end(rule))


def _every(unit: str, count: int) -> Translatable:
    text = f"every {unit}" if count == 1 else f"every {count} {unit}s"
    return Translatable.of(ClauseKind.EVERY, text, unit=unit, count=count)


def _period(rule: Rule) -> Translatable:
    return _every(_UNITS[rule.freq], rule.interval)


def _elapsed(rule: Rule) -> Clauses:
    return (*_minutes(rule), *_filter(rule), *_hours(sorted(rule.hours)))


def _minutes(rule: Rule) -> Clauses:
    minutes = sorted(rule.minutes)
    if not minutes:
        return (_period(rule),)
    if rule.interval == 1 and len(minutes) == _MINUTES_PER_HOUR:
        return (_every("minute", 1),)
    if rule.interval == 1 and (step := _even(minutes, _MINUTES_PER_HOUR)) and minutes[0] == 0:
        return (_every("minute", step), Translatable.of(ClauseKind.FROM_THE_HOUR, ", from :00"))
    at = f" at {listed(f':{minute:02}' for minute in minutes)}"
    whole = _every("hour", 1) if rule.interval == 1 else _period(rule)
    return (whole, Translatable.of(ClauseKind.PAST_THE_HOUR, at, minutes=minutes))


def _hours(hours: Sequence[int]) -> Clauses:
    """Say the hours in which elapsed times count. No phrase says this, so it is in brackets."""
    if not hours:
        return ()
    first, last = time_text(time(hours[0])), time_text(time(hours[-1], 59))
    if hours[-1] - hours[0] == len(hours) - 1:
        return (Translatable.of(ClauseKind.HOURS, f" (those from {first} to {last})", first=first, last=last),)
    named = f" (those in the hours {listed(f'{hour:02}' for hour in hours)})"
    return (Translatable.of(ClauseKind.HOURS_LISTED, named, hours=hours),)


def _even(values: Sequence[int], full: int) -> int:
    """Return the step of values spread evenly round `full`, 0 if they are not."""
    step = full // len(values)
    even = full % len(values) == 0 and all(later - earlier == step for earlier, later in pairwise(values))
    return step if even and len(values) > 1 else 0


def _filter(rule: Rule) -> Clauses:
    return (*_on(rule), *_in(rule))


def _on(rule: Rule) -> Clauses:
    """Say the days of a rule; `either` of them is enough where a rule of cron has both kinds."""
    parts = [f"on {part}" for part in (monthdays_text(rule.monthdays), weekdays_text(rule.weekdays)) if part]
    if not parts:
        return ()
    either = (rule.either and len(parts) > 1) or None
    text = f" {' or '.join(parts) if either else ' '.join(parts)}"
    monthdays, weekdays = sorted(rule.monthdays) or None, weekday_codes(rule.weekdays) or None
    return (Translatable.of(ClauseKind.ON, text, monthdays=monthdays, weekdays=weekdays, either=either),)


def _on_workdays(rule: Rule) -> Clauses:
    positions = sorted(rule.positions)
    on = Translatable.of(ClauseKind.ON_WORKDAY, f" on {workdays_text(rule.positions)}", positions=positions)
    if not rule.holidays:
        return (on,)
    text = f" that is no public holiday in {rule.holidays}"
    return (on, Translatable.of(ClauseKind.NO_HOLIDAY, text, calendar=rule.holidays))


def _days(rule: Rule, anchor: date) -> Clauses:
    if rule.positions:
        return (_period(rule), *_on_workdays(rule), *_in(rule))
    if rule.freq == YEARLY:
        return (_period(rule), *_yearly(rule, anchor))
    if rule.freq == MONTHLY and not rule.weekdays and not rule.monthdays:
        return (_period(rule), _on_day(anchor.day), *_in(rule), *_rare(frozenset({anchor.day}), rule.months))
    if rule.freq in {WEEKLY, DAILY} and not rule.monthdays:
        return _weekly(rule, anchor)
    rare = () if rule.weekdays else _rare(rule.monthdays, rule.months)
    return (_period(rule) if rule.freq == MONTHLY else _every("month", 1), *_filter(rule), *rare)


def _rare(days: frozenset[int], months: frozenset[int]) -> Clauses:
    """Say that a month without the day is left out, where some of the months lack it."""
    shortest = min(_MONTH_DAYS[month - 1] for month in months or _EVERY_MONTH)
    if max(map(abs, days)) <= shortest:
        return ()
    return (Translatable.of(ClauseKind.RARE, RARE_NOTE),)


def _on_day(day: int) -> Translatable:
    return Translatable.of(ClauseKind.ON, f" on the {ordinal_text(day)}", monthdays=[day])


def _weekly(rule: Rule, anchor: date) -> Clauses:
    weekdays = rule.weekdays or (frozenset({(0, anchor.weekday())}) if rule.freq == WEEKLY else frozenset())
    if rule.interval > 1:
        text = f" on {weekdays_text(weekdays)}"
        on = (Translatable.of(ClauseKind.ON, text, weekdays=weekday_codes(weekdays)),) if weekdays else ()
        return (_period(rule), *on, *_in(rule))
    return (_each_week(weekdays), *_in(rule))


def _each_week(weekdays: frozenset[tuple[int, int]]) -> Translatable:
    if not weekdays:
        return _every("day", 1)
    if weekdays == WORKDAYS:
        return Translatable.of(ClauseKind.WORKDAYS, "every weekday")
    missing = _EVERY_DAY - weekdays
    if len(missing) == 1 and weekdays < _EVERY_DAY:  # six days of the week are said by the one that is missing
        but = f"every day except {weekdays_text(missing)}"
        return Translatable.of(ClauseKind.ALL_BUT, but, weekdays=weekday_codes(missing))
    return Translatable.of(ClauseKind.WEEKDAYS, f"every {weekdays_text(weekdays)}", weekdays=weekday_codes(weekdays))


def _yearly(rule: Rule, anchor: date) -> Clauses:
    if rule.weekdays:
        return (*_on(rule), *(_in(rule) or (Translatable.of(ClauseKind.OF_YEAR, " of the year"),)))
    if rule.monthdays and not rule.months:
        return (*_on(rule), Translatable.of(ClauseKind.OF_EVERY_MONTH, " of every month"))
    days, months = rule.monthdays or {anchor.day}, rule.months or {anchor.month}
    if len(months) == len(days) == 1 and min(days) > 0:
        day, month = min(days), min(months)
        return (Translatable.of(ClauseKind.DATE, f" on {date_text(day, month)}", day=day, month=month),)
    named = f" on {monthdays_text(frozenset(days))}"
    return (Translatable.of(ClauseKind.ON, named, monthdays=sorted(days)), _in_months(sorted(months)))


def _in(rule: Rule) -> Clauses:
    """Say the months of a rule, or those that it leaves out where they are fewer."""
    if not rule.months:
        return ()
    out = sorted(_EVERY_MONTH - rule.months)
    if out and len(rule.months) > _MAX_MONTHS_LISTED:
        return (Translatable.of(ClauseKind.NOT_IN, f" except in {months_text(out)}", months=out),)
    return (_in_months(sorted(rule.months)),)


def _in_months(months: Sequence[int]) -> Translatable:
    return Translatable.of(ClauseKind.IN, f" in {months_text(months)}", months=months)


def _at(rule: Rule, anchor: datetime, most_times: int) -> Translatable:
    times = rule.clock_times(anchor.time())
    first, last, step = _run(times)
    if len(times) <= _MAX_TIMES_LISTED or (not step and len(times) <= most_times):
        named = [time_text(found) for found in times]
        return Translatable.of(ClauseKind.AT, f" at {listed(named)}", times=named)
    ends = {"first": time_text(first), "last": time_text(last)}
    between = "from {first} to {last}".format(**ends)
    if not step:
        return Translatable.of(ClauseKind.TIMES_OF_DAY, f", {len(times)} times {between}", count=len(times), **ends)
    hours, minutes = divmod(step, _MINUTES_PER_HOUR)
    every = _every("minute", step) if minutes else _every("hour", hours)
    return Translatable.of(ClauseKind.STEPS, f", {every} {between}", **every.values, **ends)


def _run(times: Sequence[time]) -> tuple[time, time, int]:
    """Return the first and last of times of day with one step between them, and the step; 0 where there is none.

    They may go past midnight.
    """
    minutes = [found.hour * 60 + found.minute for found in times]
    gaps = [(later - earlier) % _MINUTES_PER_DAY for earlier, later in pairwise([*minutes, minutes[0]])]
    widest = max(range(len(gaps)), key=lambda index: (gaps[index], index))
    steps = {*gaps[:widest], *gaps[widest + 1 :]}
    if len(steps) != 1 or any(found.second for found in times):
        return times[0], times[-1], 0
    return times[(widest + 1) % len(times)], times[widest], steps.pop()


def _holidays(rule: Rule) -> Clauses:
    if not rule.holidays or rule.positions:  # days that are chosen by position say it themselves
        return ()
    text = f" except public holidays in {rule.holidays}"
    return (Translatable.of(ClauseKind.HOLIDAYS, text, calendar=rule.holidays),)


def _end(rule: Rule) -> Clauses:
    until = rule.until
    if rule.count:
        text = ", once" if rule.count == 1 else f", {rule.count} times"
        return (Translatable.of(ClauseKind.COUNT, text, count=rule.count),)
    if until is None:
        return ()
    zone = " UTC" if isinstance(until, datetime) and until.tzinfo else ""
    clock = f" {until:%H:%M}{zone}" if isinstance(until, datetime) else ""
    text = f" until {date_text(until.day, until.month)} {until.year}{clock}"
    return (Translatable.of(ClauseKind.UNTIL, text, until=until.isoformat()),)


def shortest_sentence(least: timedelta) -> str:
    """Return the shortest recurrence in words that is at least so long."""
    freq, count = largest_unit(SECONDLY, max(1, ceil(least.total_seconds())))
    return sentence(Rule(freq, count), datetime.min.replace(tzinfo=UTC))
