"""Rules as people say them: `every weekday at 09:00`. `plain_words` reads these sentences back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from itertools import pairwise

from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY, Rule
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES

_UNITS = {
    SECONDLY: "second", MINUTELY: "minute", HOURLY: "hour", DAILY: "day", WEEKLY: "week", MONTHLY: "month",
    YEARLY: "year",
}  # fmt: skip
_NTH = {0: "", 1: "first ", 2: "second ", 3: "third ", 4: "fourth ", 5: "fifth ", -1: "last "}
_WORKDAYS = frozenset((0, day) for day in range(5))
_EVERY_DAY = frozenset((0, day) for day in range(7))
_EVERY_MONTH = frozenset(range(1, 13))
_MAX_MONTHS_LISTED = 6
_MAX_TIMES_LISTED = 6
_MINUTES_PER_DAY = 24 * 60
_MIN_MONTH_DAYS = 28


def sentence(rule: Rule, anchor: datetime, *, most_times: int = _MAX_TIMES_LISTED) -> str:
    """Write a rule in words; `anchor` is the local time it starts, for what the rule takes from there.

    More than `most_times` times of day without a common step are only counted.
    """
    says = _elapsed(rule) if rule.elapsed else f"{_days(rule, anchor.date())}{_at(rule, anchor, most_times)}"
    holidays = f" except public holidays in {rule.holidays}" if rule.holidays else ""
    return says + holidays + _end(rule)


def full_sentence(rule: Rule, anchor: datetime) -> str:
    """Write a rule in words that leave nothing out, so that they read back as the same rule."""
    return sentence(rule, anchor, most_times=_MINUTES_PER_DAY)


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
    return f"{says}{_filter(rule)}{_hours(sorted(rule.hours))}"


def _hours(hours: Sequence[int]) -> str:
    """Write the hours in which elapsed times count. No phrase says this, so it is in brackets."""
    if not hours:
        return ""
    if hours[-1] - hours[0] == len(hours) - 1:
        return f" (those from {hours[0]:02}:00 to {hours[-1]:02}:59)"
    return f" (those in the hours {_listed(f'{hour:02}' for hour in hours)})"


def _even(values: Sequence[int], full: int) -> int:
    """Return the step of values spread evenly round `full`, 0 if they are not."""
    step = full // len(values)
    even = full % len(values) == 0 and all(later - earlier == step for earlier, later in pairwise(values))
    return step if even and len(values) > 1 else 0


def _filter(rule: Rule) -> str:
    parts = [f"on {part}" for part in _day_parts(rule)]
    if rule.months:
        parts.append(_months(rule))
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
    every = {frozenset(): "day", _WORKDAYS: "weekday"}.get(weekdays) or _day_left_out(weekdays) or _weekdays(weekdays)
    return f"every {every}{_in(rule)}"


def _day_left_out(weekdays: frozenset[tuple[int, int]]) -> str:
    """Write six days of the week by the one that is missing."""
    missing = _EVERY_DAY - weekdays
    return f"day except {_weekdays(missing)}" if len(missing) == 1 and weekdays < _EVERY_DAY else ""


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
    return f" {_months(rule)}" if rule.months else ""


def _months(rule: Rule) -> str:
    """Write the months of a rule, or those that it leaves out where they are fewer."""
    out = _EVERY_MONTH - rule.months
    if out and len(rule.months) > _MAX_MONTHS_LISTED:
        return f"except in {_listed(MONTH_NAMES[month - 1] for month in sorted(out))}"
    return f"in {_listed(MONTH_NAMES[month - 1] for month in sorted(rule.months))}"


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


def _at(rule: Rule, anchor: datetime, most_times: int) -> str:
    times = rule.clock_times(anchor.time())
    if len(times) <= _MAX_TIMES_LISTED:
        return f" at {_listed(map(time_text, times))}"
    first, last, step = _run(times)
    if not step and len(times) <= most_times:
        return f" at {_listed(map(time_text, times))}"
    how = _step_text(step) if step else f"{len(times)} times"
    return f", {how} from {time_text(first)} to {time_text(last)}"


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
