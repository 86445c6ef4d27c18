"""Rules as people say them: `every weekday at 09:00`. What these sentences say, `wording` reads back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from itertools import pairwise

from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MINUTELY, MONTHLY, WEEKLY, YEARLY, Rule
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES

_UNITS = {MINUTELY: "minute", HOURLY: "hour", DAILY: "day", WEEKLY: "week", MONTHLY: "month", YEARLY: "year"}
_NTH = {0: "", 1: "first ", 2: "second ", 3: "third ", 4: "fourth ", 5: "fifth ", -1: "last "}
_WORKDAYS = frozenset((0, day) for day in range(5))
_MAX_TIMES_LISTED = 6
_MIN_MONTH_DAYS = 28


def sentence(rule: Rule, anchor: datetime) -> str:
    """Write a rule in words; `anchor` is the local time it starts, for what the rule takes from there."""
    says = _elapsed(rule) if rule.elapsed else f"{_days(rule, anchor.date())}{_at(rule, anchor)}"
    return says + _end(rule)


def _every(rule: Rule) -> str:
    unit = _UNITS[rule.freq]
    return f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s"


def _elapsed(rule: Rule) -> str:
    minutes = sorted(rule.minutes)
    if minutes and rule.interval > 1:
        says = f"{_every(rule)} at {_listed(f':{minute:02}' for minute in minutes)}"
    elif not minutes:
        says = _every(rule)
    elif len(minutes) == 60:  # noqa: PLR2004 - all of them
        says = "every minute"
    elif (step := _even(minutes, 60)) and minutes[0] == 0:
        says = f"every {step} minutes, from :00"
    else:
        says = f"every hour at {_listed(f':{minute:02}' for minute in minutes)}"
    hours = f" between {min(rule.hours):02}:00 and {max(rule.hours):02}:59" if rule.hours else ""
    return f"{says}{hours}{_filter(rule)}"


def _even(values: Sequence[int], full: int) -> int:
    """Return the step of values spread evenly round `full`, 0 if they are not."""
    step = full // len(values)
    even = full % len(values) == 0 and all(later - earlier == step for earlier, later in pairwise(values))
    return step if even and len(values) > 1 else 0


def _filter(rule: Rule) -> str:
    parts = [f"on {part}" for part in _day_parts(rule)]
    if rule.months:
        parts.append(f"in {_months(rule)}")
    return f" {_joined(rule, parts)}" if parts else ""


def _joined(rule: Rule, parts: list[str]) -> str:
    if rule.either and rule.monthdays and rule.weekdays:
        return " ".join([" or ".join(parts[:2]), *parts[2:]])
    return " ".join(parts)


def _day_parts(rule: Rule) -> list[str]:
    return [part for part in (_monthdays(rule.monthdays), _weekdays(rule.weekdays)) if part]


def _days(rule: Rule, anchor: date) -> str:
    if rule.freq == YEARLY:
        return _yearly(rule, anchor)
    if rule.freq == MONTHLY and not rule.weekdays and not rule.monthdays:
        rare = " (in months that have it)" if anchor.day > _MIN_MONTH_DAYS else ""
        return f"{_every(rule)} on the {ordinal_text(anchor.day)}{rare}{_in(rule)}"
    if rule.freq in {WEEKLY, DAILY} and not rule.monthdays:
        return _weekly(rule, anchor)
    base = "every month" if rule.freq != MONTHLY else _every(rule)
    return base + _filter(rule)


def _weekly(rule: Rule, anchor: date) -> str:
    weekdays = rule.weekdays or (frozenset({(0, anchor.weekday())}) if rule.freq == WEEKLY else frozenset())
    if rule.interval > 1:
        return f"{_every(rule)} on {_weekdays(weekdays)}{_in(rule)}" if weekdays else f"{_every(rule)}{_in(rule)}"
    every = {frozenset(): "day", _WORKDAYS: "weekday"}.get(weekdays) or _weekdays(weekdays)
    return f"every {every}{_in(rule)}"


def _yearly(rule: Rule, anchor: date) -> str:
    if rule.weekdays:
        inside = _in(rule) or " of the year"
        return f"{_every(rule)} {_joined(rule, [f'on {part}' for part in _day_parts(rule)])}{inside}"
    if rule.monthdays and not rule.months:
        return f"{_every(rule)} on {_monthdays(rule.monthdays)} of every month"
    days, months = rule.monthdays or {anchor.day}, rule.months or {anchor.month}
    if len(months) == len(days) == 1 and min(days) > 0:
        return f"{_every(rule)} on {min(days)} {MONTH_NAMES[min(months) - 1]}"
    return f"{_every(rule)} on {_monthdays(frozenset(days))} in {_listed(MONTH_NAMES[m - 1] for m in sorted(months))}"


def _in(rule: Rule) -> str:
    return f" in {_months(rule)}" if rule.months else ""


def _months(rule: Rule) -> str:
    return _listed(MONTH_NAMES[month - 1] for month in sorted(rule.months))


def _monthdays(days: frozenset[int]) -> str:
    names = [ordinal_text(day) for day in sorted(days) if day > 0]
    names += ["last day" if day == -1 else f"{ordinal_text(-day)} last day" for day in sorted(days) if day < 0]
    return f"the {_listed(names)}" if names else ""


def _weekdays(days: frozenset[tuple[int, int]]) -> str:
    if days == _WORKDAYS:
        return "weekdays"
    ordered = sorted(days, key=lambda found: (found[0] < 0, found))
    return _listed(f"{_nth(nth)}{WEEKDAY_NAMES[day]}" for nth, day in ordered)


def _nth(nth: int) -> str:
    if nth in _NTH:
        return f"the {_NTH[nth]}" if nth else ""
    return f"the {ordinal_text(abs(nth))} {'last ' if nth < 0 else ''}"


def _at(rule: Rule, anchor: datetime) -> str:
    times = rule.clock_times(anchor.time())
    if len(times) <= _MAX_TIMES_LISTED:
        return f" at {_listed(map(time_text, times))}"
    minutes = [found.hour * 60 + found.minute for found in times]
    steps = {later - earlier for earlier, later in pairwise(minutes)}
    how = _step_text(steps.pop()) if len(steps) == 1 else f"{len(times)} times"
    return f", {how} from {time_text(times[0])} to {time_text(times[-1])}"


def _step_text(minutes: int) -> str:
    if minutes % 60:
        return f"every {minutes} minutes"
    return "every hour" if minutes == 60 else f"every {minutes // 60} hours"  # noqa: PLR2004 - an hour


def _end(rule: Rule) -> str:
    if rule.count:
        return ", once" if rule.count == 1 else f", {rule.count} times"
    if rule.until is None:
        return ""
    zone = " UTC" if isinstance(rule.until, datetime) and rule.until.tzinfo else ""
    clock = f" {rule.until:%H:%M}{zone}" if isinstance(rule.until, datetime) else ""
    return f" until {rule.until.day} {MONTH_NAMES[rule.until.month - 1]} {rule.until.year}{clock}"


def time_text(found: time) -> str:
    """Write a time of day: `09:00`, with seconds only where there are some."""
    return f"{found:%H:%M:%S}" if found.second else f"{found:%H:%M}"


def ordinal_text(number: int) -> str:
    """Write `1st`, `2nd`, `3rd`, `4th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number // 10 % 10 == 1 else ending}"


def _listed(items: Iterable[str]) -> str:
    *most, last = list(items) or [""]
    return f"{', '.join(most)} and {last}" if most else last
