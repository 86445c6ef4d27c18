"""The RRULE subset of RFC 5545.

`FREQ` (SECONDLY to YEARLY), `INTERVAL`, `BYMONTH`, `BYMONTHDAY`, `BYDAY`, `BYHOUR`, `BYMINUTE`, `UNTIL`, `COUNT`, and
`BYSETPOS` among the weekdays of a month.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.recurrence.rule import (
    DAILY,
    DAY_CODES,
    EXCEPT_HOLIDAYS,
    FREQUENCIES,
    MAX_COUNT,
    MAX_INTERVALS,
    MAX_WORKDAYS,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    SUB_DAILY,
    WEEKLY,
    WORKDAYS,
    YEARLY,
    Rule,
    largest_unit,
)
from duetime.scheduler.rules.time.days.named_days import known_calendar
from duetime.scheduler.rules.time.tokens import Misread

_EXAMPLE = "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0"
_LAST_WORKDAY = "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=9"
_DAY = re.compile(r"([+-]?[1-9][0-9]?)?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?")
_START = re.compile(
    r"\bDTSTART(?:;TZID=([A-Za-z_/+-]{1,60}))?[:=]([0-9]{4})-?([0-9]{2})-?([0-9]{2})"
    r"(?:T([0-9]{2}):?([0-9]{2})(?::?[0-9]{2})?(Z?))?;?",
    re.IGNORECASE,
)
_RULE = re.compile(r"(?:RRULE:)?[A-Z]+=[A-Z0-9,;=+-]+", re.IGNORECASE)
_MAX_YEAR = 9000


def looks_like(text: str) -> bool:
    """Whether a text means to be an RRULE."""
    return "=" in text or text.strip().upper().startswith("RRULE")


def parse(text: str) -> Rule:
    """Read an RRULE; raise `Misread` naming the part that is wrong."""
    _refuse_start(text)
    parts = _parts(text)
    freq = parts.pop("FREQ", "")
    if freq not in FREQUENCIES:
        raise Misread(f"FREQ has to be one of {', '.join(FREQUENCIES)}", _EXAMPLE)
    given: dict[str, Any] = {}
    for name, value in parts.items():
        field, read = _part_reader(name)
        given[field] = read(name, value)
    given.pop("", None)
    _check(freq, given)
    if freq == SECONDLY:
        freq, given["interval"] = largest_unit(freq, given.get("interval", 1))
        _check_seconds(freq, parts)
    return Rule(freq, **given)


def _refuse_start(text: str) -> None:
    """Raise `Misread` for a rule with its start, as calendars write it; the example has it as `when`."""
    found = _START.search(text)
    if found is None:
        return
    rule = _START.sub("", text).strip(" ;\n")
    when = f"{found[2]}-{found[3]}-{found[4]}" + (
        f"T{found[5]}:{found[6]}{(found[7] or '').upper()}" if found[5] else ""
    )
    zone = f", timezone={found[1]!r}" if found[1] and not found[7] else ""
    example = f"repeat={rule!r}, when={when!r}{zone}" if _RULE.fullmatch(rule) else _EXAMPLE
    raise Misread("the start of a recurrence is `when`, not DTSTART", example)


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for piece in text.strip().upper().removeprefix("RRULE:").strip(";").split(";"):
        name, equals, value = (side.strip() for side in piece.partition("="))
        if not equals or not value:
            raise Misread(f"{piece[:30]!r} is not NAME=VALUE", _EXAMPLE)
        if name in parts:
            raise Misread(f"{name[:20]} is given twice", _EXAMPLE)
        parts[name] = value
    return parts


def _part_reader(name: str) -> tuple[str, Callable[[str, str], object]]:
    if name in _READERS:
        return _READERS[name]
    if name.startswith("DTSTART"):
        raise Misread("the start of a recurrence is `when`, not DTSTART", _EXAMPLE)
    near = nearest_name(name, _PUBLIC)
    hint = f"; did you mean {near}" if near else ""
    raise Misread(f"{name[:20]} is not among the supported parts (FREQ, {', '.join(_PUBLIC)}){hint}", _EXAMPLE)


def _whole(name: str, value: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", value) or not low <= int(value) <= high:
        raise Misread(f"{name} has to be a number from {low} to {high}, not {value[:20]!r}", _EXAMPLE)
    return int(value)


def _numbers(low: int, high: int) -> Callable[[str, str], frozenset[int]]:
    return lambda name, value: frozenset(_whole(name, item, low, high) for item in value.split(","))


def _monthdays(name: str, value: str) -> frozenset[int]:
    found = _numbers(-31, 31)(name, value)
    if 0 in found:
        raise Misread("BYMONTHDAY has no day 0", "FREQ=MONTHLY;BYMONTHDAY=1")
    return found


def _positions(name: str, value: str) -> frozenset[int]:
    found = _numbers(-MAX_WORKDAYS, MAX_WORKDAYS)(name, value)
    if 0 in found:
        raise Misread("BYSETPOS has no position 0", _LAST_WORKDAY)
    return found


def _weekdays(_name: str, value: str) -> frozenset[tuple[int, int]]:
    return frozenset(_weekday(item) for item in value.split(","))


def _weekday(item: str) -> tuple[int, int]:
    match = _DAY.fullmatch(item)
    if match is None:
        raise Misread(f"BYDAY cannot be {item[:20]!r}", "FREQ=MONTHLY;BYDAY=1MO")
    return int(match[1] or 0), DAY_CODES.index(match[2])


def _until(_name: str, value: str) -> datetime | date:
    match = _UNTIL.fullmatch(value)
    if match is None:
        raise _bad_until(value)
    try:
        day = date(min(int(match[1]), _MAX_YEAR), int(match[2]), int(match[3]))
        if match[4] is None:
            return day
        zone = UTC if match[7] else None
        return datetime(day.year, day.month, day.day, int(match[4]), int(match[5]), int(match[6]), tzinfo=zone)
    except ValueError:
        raise _bad_until(value) from None


def _bad_until(value: str) -> Misread:
    return Misread(f"UNTIL cannot be {value[:20]!r}", "FREQ=DAILY;UNTIL=20271231T235959Z")


def _only(accepted: str) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        if value != accepted:
            raise Misread(f"{name}={value[:20]} is not supported, only {name}={accepted}", _EXAMPLE)

    return check


_READERS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "INTERVAL": ("interval", lambda name, value: _whole(name, value, 1, max(MAX_INTERVALS.values()))),
    "BYMONTH": ("months", _numbers(1, 12)),
    "BYMONTHDAY": ("monthdays", _monthdays),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _numbers(0, 23)),
    "BYMINUTE": ("minutes", _numbers(0, 59)),
    "UNTIL": ("until", _until),
    "BYSETPOS": ("positions", _positions),
    "COUNT": ("count", lambda name, value: _whole(name, value, 1, MAX_COUNT)),
    "BYSECOND": ("", _only("0")),
    "WKST": ("", _only("MO")),
    EXCEPT_HOLIDAYS: ("holidays", lambda _name, value: known_calendar(value)),
}
_PUBLIC = tuple(_READERS)[:9]


def _check(freq: str, given: dict[str, Any]) -> None:
    """Refuse what RFC 5545 does not allow together."""
    if given.get("interval", 1) > MAX_INTERVALS[freq]:
        raise Misread(f"INTERVAL of {freq} is at most {MAX_INTERVALS[freq]}", _EXAMPLE)
    if "until" in given and "count" in given:
        raise Misread("UNTIL and COUNT exclude each other", "FREQ=DAILY;COUNT=10")
    if freq == WEEKLY and "monthdays" in given:
        raise Misread("BYMONTHDAY does not go with FREQ=WEEKLY", "FREQ=MONTHLY;BYMONTHDAY=1")
    _check_ordinals(freq, given)
    if "positions" in given:
        _check_positions(freq, given)


def _check_positions(freq: str, given: Mapping[str, Any]) -> None:
    """Refuse positions among other days than the weekdays of a month: ordinals and days of the month say those."""
    if freq != MONTHLY or given.get("weekdays") != WORKDAYS or "monthdays" in given:
        raise Misread("BYSETPOS goes with FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR alone", _LAST_WORKDAY)
    if len(given.get("hours", "1")) > 1 or len(given.get("minutes", "1")) > 1:
        raise Misread("BYSETPOS goes with one time of day", _LAST_WORKDAY)


def _check_seconds(freq: str, parts: Mapping[str, str]) -> None:
    """Refuse a time of day where seconds are counted: they are no whole minutes."""
    if freq != SECONDLY:
        return
    found = next((name for name in ("BYHOUR", "BYMINUTE", "BYSECOND") if name in parts), None)
    if found is not None:
        raise Misread(f"{found} does not go with FREQ=SECONDLY", f"FREQ={MINUTELY};BYHOUR=9,10")


def _check_ordinals(freq: str, given: dict[str, Any]) -> None:
    ordinals = [nth for nth, _ in given.get("weekdays", ()) if nth]
    if not ordinals:
        return
    if freq in {*SUB_DAILY, DAILY, WEEKLY}:
        raise Misread(f"BYDAY has no ordinals with FREQ={freq}", "FREQ=MONTHLY;BYDAY=1MO")
    most = 53 if freq == YEARLY and not given.get("months") else 5
    if max(map(abs, ordinals)) > most:
        raise Misread(f"BYDAY's ordinals go to {most} with FREQ={freq}", f"FREQ={MONTHLY};BYDAY=-1FR")
