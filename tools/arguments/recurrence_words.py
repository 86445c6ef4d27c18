"""Recurrences as other schedulers write them, in parts: the sentence that `repeat` takes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.series_end import never_recurs
from duetime.scheduler.rules.recurrence.recurrence import parse
from duetime.scheduler.rules.time.tokens import ordinal_text
from duetime.scheduler.task import Json
from duetime.tools.arguments.types import Text, only_text

_ANCHOR: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A start that shows whether a sentence is one; the task has its own."""

_PARTS: Final = {
    **dict.fromkeys(("cron", "cronexpression", "crontab", "expression", "rrule", "rule"), "rule"),
    **dict.fromkeys(("frequency", "freq", "unit", "intervalunit", "type", "kind", "period", "pattern"), "unit"),
    **dict.fromkeys(("interval", "every", "intervalvalue"), "interval"),
    **dict.fromkeys(("days", "day", "byday", "dayofweek", "daysofweek", "weekday", "weekdays", "on"), "days"),
    **dict.fromkeys(("dayofmonth", "bymonthday", "monthday"), "month_day"),
    **dict.fromkeys(("time", "at", "timeofday", "starttime"), "time"),
    **dict.fromkeys(("hour", "byhour"), "hour"),
    **dict.fromkeys(("minute", "byminute"), "minute"),
    **dict.fromkeys(("until", "end", "enddate", "endat"), "until"),
    **dict.fromkeys(("count", "occurrences", "maxoccurrences", "times", "maxruns"), "max_runs"),
    **dict.fromkeys(("timezone", "tz"), "timezone"),
}
"""Names of parts without hyphens, and the part that each one is."""

_UNITS: Final = {
    **{unit: unit for unit in ("minute", "hour", "day", "week", "month", "year")},
    "minutely": "minute",
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
    "annually": "year",
}
_NO_UNITS: Final = frozenset({"interval", "cron", "recurring", "rrule", "custom"})
"""Types of a recurrence that its other parts say."""

_OWN_ARGUMENTS: Final = ("until", "max_runs", "timezone")
"""Parts that are arguments of their own, not of the sentence."""

_DAY_CODES: Final = {"mo": "mon", "tu": "tue", "we": "wed", "th": "thu", "fr": "fri", "sa": "sat", "su": "sun"}
_ALL_DAYS: Final = {"mon-fri": "weekday", "mo-fr": "weekday", "weekdays": "weekday", "weekends": "weekend"}


@dataclass(frozen=True, slots=True)
class RecurrenceText(Text):
    """A recurrence in words, as cron or as an RRULE."""

    limit: int = 400
    accepted: str = "a recurrence"

    def as_arguments(self, name: str, given: Json) -> Mapping[str, Json] | None:
        """Return the arguments that a recurrence in parts stands for."""
        found = recurrence_of(given) if isinstance(given, dict) else None
        if only := only_text(given):
            found = {name: only}
        return None if found is None else {name if each == "repeat" else each: value for each, value in found.items()}


def is_recurrence(text: str) -> bool:
    """Whether a text is a recurrence, wherever it starts."""
    try:
        parse(text, zone="UTC", anchor=_ANCHOR, counted=False)
    except InvalidArgument:
        return False
    return True


def in_words(given: Json) -> str | None:
    """Return as a sentence a recurrence in parts, or one that names its unit alone, `15 minutes`; None for others."""
    if isinstance(given, dict):
        found = recurrence_of(given)
        return str(found["repeat"]) if found is not None and len(found) == 1 else None
    text = given.strip() if isinstance(given, str) else ""
    return next((each for each in (text, f"every {text}") if text and is_recurrence(each)), None)


def on_days(given: Json, repeat: Json) -> str | None:
    """Return the recurrence `repeat`, which may be missing, on the days of the week alone."""
    days = _days(given)
    rest = re.sub(r"^(daily|weekly|every (day|week|weekday))\b", "", repeat.strip()) if isinstance(repeat, str) else ""
    sentence = f"every {days}{rest}"
    return sentence if days and is_recurrence(sentence) else None


def refuse_no_runs(repeat: str | None, sent: Mapping[str, Json]) -> None:
    """Refuse a series of 0 runs, which would have no end. With an empty end too the client fills in every argument."""
    if repeat is None or never_recurs(repeat) or "until" in sent or sent.get("max_runs") != 0:
        return
    raise InvalidArgument(
        "max_runs",
        "a series of 0 runs never runs",
        accepted="1 or more, or no max_runs for a series without an end",
        example="max_runs=10",
    )


def recurrence_of(given: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return the sentence of a recurrence in parts as `repeat`, with its end and zone; None for a part without use."""
    parts: dict[str, Json] = {}
    for name, value in given.items():
        plain = re.sub(r"[\s_-]", "", name.lower())
        if plain.rstrip("s") in _UNITS and isinstance(value, int) and plain not in _PARTS:
            named: dict[str, Json] = {"unit": plain, "interval": value}
        elif plain in _PARTS:
            named = {} if str(value).lower() in _NO_UNITS else {_PARTS[plain]: value}
        else:
            return None
        if any(parts.setdefault(part, each) != each for part, each in named.items()):
            return None
    sentence = _sentence(parts)
    if sentence is None or not is_recurrence(sentence):
        return None
    rest = {name: parts[name] for name in _OWN_ARGUMENTS if parts.get(name) is not None}
    return {"repeat": sentence, **rest}


def _sentence(parts: Mapping[str, Json]) -> str | None:
    if "rule" in parts:
        return str(parts["rule"]) if set(parts) <= {"rule", *_OWN_ARGUMENTS} else None
    interval, named = parts.get("interval") or 1, parts.get("unit")
    if isinstance(interval, str) and not interval.isdecimal():
        if _unit(interval) is None:
            return in_words(interval) if set(parts) <= {"interval", *_OWN_ARGUMENTS} else None
        if _unit(named or interval) != _unit(interval):
            return None
        interval, named = 1, interval
    unit = _unit(named or ("week" if "days" in parts else "month" if "month_day" in parts else "day"))
    on, at = _on(parts, unit), _at(parts)
    if unit is None or on is None or at is None or (at and unit in {"minute", "hour"}):
        return None
    every = f"every {interval} {unit}s" if str(interval) != "1" else f"every {unit}"
    if str(interval) == "1" and "days" in parts:
        every, on = "every", on.removeprefix(" on")
    return f"{every}{on}{at}"


def _unit(given: Json) -> str | None:
    word = str(given).strip().lower()
    return _UNITS.get(word) or _UNITS.get(word.rstrip("s"))


def _on(parts: Mapping[str, Json], unit: str | None) -> str | None:
    """Return the days of a recurrence, with a blank before; nothing where it names none, None where one is not used."""
    if "month_day" in parts:
        day = parts["month_day"]
        is_day = unit == "month" and "days" not in parts and str(day).isdecimal()
        return f" on the {ordinal_text(int(str(day)))}" if is_day else None
    if "days" not in parts:
        return ""
    days = _days(parts["days"])
    return f" on {days}" if days and unit in {"day", "week"} else None


def _days(given: Json) -> str:
    """Return days of the week as a sentence names them; nothing for what are none."""
    names = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else []
    plain = [str(name).strip().lower() for name in names]
    return " and ".join(_ALL_DAYS.get(name) or _DAY_CODES.get(name, name) for name in plain)


def _at(parts: Mapping[str, Json]) -> str | None:
    """Return the times of a day, with a blank before; nothing where it names none, None where one is not used."""
    clock = {"hour", "minute"} & set(parts)
    if "time" in parts:
        times = parts["time"] if isinstance(parts["time"], list) else [parts["time"]]
        return f" at {' and '.join(map(str, times))}" if all(times) and times and not clock else None
    if not clock:
        return ""
    hour, minute = _number(parts.get("hour")), _number(parts.get("minute", 0))
    return None if hour is None or minute is None else f" at {hour:02}:{minute:02}"


def _number(given: Json) -> int | None:
    is_number = type(given) is int or (isinstance(given, str) and given.isdecimal())
    return int(str(given)) if is_number else None
