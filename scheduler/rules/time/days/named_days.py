"""Days with a name: `christmas`, `new year's eve`, `easter monday`, `the next public holiday`."""

from __future__ import annotations

from datetime import date, timedelta

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time.days import public_holidays
from duetime.scheduler.rules.time.days.calendar_day import Day, add_business_days, make_date
from duetime.scheduler.rules.time.tokens import Misread, Tokens, is_year

PUBLIC_HOLIDAY = tuple(f"{kind} {noun}" for kind in ("public", "bank", "national") for noun in ("holidays", "holiday"))

_FIXED = {
    "christmas": (12, 25), "christmas day": (12, 25), "xmas": (12, 25), "christmas eve": (12, 24),
    "new years eve": (12, 31), "new years day": (1, 1), "new years": (1, 1), "new year": (1, 1),
    "boxing day": (12, 26), "halloween": (10, 31), "valentines day": (2, 14), "epiphany": (1, 6),
}  # fmt: skip
"""Days of the same date wherever they are kept; a calendar that has another date for one goes first."""

_EASTER_DAYS = {"good friday": -2, "easter sunday": 0, "easter": 0, "easter monday": 1, "ascension day": 39,
           "whit monday": 50, "pentecost monday": 50}  # fmt: skip
_ALIASES = {"christmas": "christmas day", "xmas": "christmas day", "new year": "new years day",
            "new years": "new years day", "whit monday": "pentecost monday", "pentecost monday": "whit monday",
            "thanksgiving": "thanksgiving day", "easter": "easter sunday"}  # fmt: skip
_MAX_NAME_WORDS = 8
_DAY = timedelta(days=1)


def read_named_day(row: Tokens, today: date, calendar: str) -> Day | None:
    """Read a day by its name if one comes next; `calendar` is that of the public holidays, empty where none is set."""
    return row.attempt(_next_public_holiday, today, calendar) or row.attempt(_by_name, today, calendar)


def is_public_holiday(day: date, calendar: str) -> bool:
    """Whether a calendar, if there is one, has a public holiday on a day."""
    return bool(calendar) and day in public_holidays.days(calendar, day.year)


def add_working_days(day: date, count: int, calendar: str) -> date:
    """Return the day `count` Mondays to Fridays after `day`, without the public holidays of a calendar."""
    while count:
        day = add_business_days(day, 1)
        count -= not is_public_holiday(day, calendar)
    return day


def known_calendar(code: str) -> str:
    """Return the code of a calendar that there is; raise `Misread` with the nearest ones."""
    try:
        return public_holidays.find(code)
    except InvalidArgument as unknown:
        raise Misread(unknown.problem, f"every weekday except public holidays in {unknown.example}") from None


def no_calendar(example: str) -> Misread:
    """Return the refusal of words that need the calendar of a country."""
    return Misread("public holidays are not known here: the setting `holidays` names no country", example)


def _next_public_holiday(row: Tokens, today: date, calendar: str) -> Day | None:
    start = row.position
    _ = row.accept("the")
    led = row.accept("next", "coming", "first")
    if not any(row.phrase(words) for words in PUBLIC_HOLIDAY if not words.endswith("s")):
        return None
    if not calendar:
        raise no_calendar(row.replaced(start, (today + 7 * _DAY).isoformat()))
    found = next(iter(_coming(today + led * _DAY, calendar)), None)
    if found is None:
        raise Misread(f"{calendar} has no public holiday in the next years")
    return Day((found,), f"the next public holiday in {calendar} is {_name(found, calendar)}, {{day}}")


def _name(day: date, calendar: str) -> str:
    return public_holidays.days(calendar, day.year)[day]


def _coming(start: date, calendar: str) -> list[date]:
    years = range(start.year, start.year + 2)
    return sorted(day for year in years for day in public_holidays.days(calendar, year) if day >= start)


def _by_name(row: Tokens, today: date, calendar: str) -> Day | None:
    start = row.position
    _ = row.accept("the")
    name = row.attempt(_longest_name, today, calendar)
    if name is None:
        return None
    year = int(row.take()) if is_year(row.peek()) else None
    days = _dates(name, make_date(year, 1, 1) if year else today, calendar)
    if days:
        return Day(days[:1] if year else days[:2], f"{name} read as {{day}}", every="" if year else "year")
    if name not in _EASTER_DAYS:
        return None
    problem = f"{name} depends on the country: the setting `holidays` names none that has it"
    raise Misread(problem, row.replaced(start, _western(name, today).isoformat()))


def _western(name: str, today: date) -> date:
    """Return the next such day of the western churches."""
    days = (_easter(year) + _EASTER_DAYS[name] * _DAY for year in (today.year, today.year + 1))
    return next(day for day in days if day >= today)


def _longest_name(row: Tokens, today: date, calendar: str) -> str | None:
    known = {*_FIXED, *_EASTER_DAYS, *_names(today, calendar)}
    words: list[str] = []
    found: tuple[str, int] | None = None
    while not row.done and len(words) < _MAX_NAME_WORDS:
        words.append(row.take())
        name = public_holidays.plain_name(" ".join(words))
        if name in known or _ALIASES.get(name) in known:
            found = name, row.position
    if found is None:
        return None
    row.position = found[1]
    return found[0]


def _names(today: date, calendar: str) -> set[str]:
    if not calendar:
        return set()
    years = (today.year, today.year + 1)
    found = (name for year in years for name in public_holidays.days(calendar, year).values())
    return {public_holidays.plain_name(name) for name in found}


def _dates(name: str, today: date, calendar: str) -> tuple[date, ...]:
    """Return the next dates of a name: by the calendar if it has it, else those that are the same everywhere."""
    wanted = {name, _ALIASES.get(name, name)}
    coming = _coming(today, calendar) if calendar else []
    found = tuple(day for day in coming if public_holidays.plain_name(_name(day, calendar)) in wanted)
    if found or name not in _FIXED:
        return found
    month, number = _FIXED[name]
    both = (date(year, month, number) for year in range(today.year, today.year + 3))
    return tuple(day for day in both if day >= today)


def _easter(year: int) -> date:
    """Return Easter Sunday of the western churches (the algorithm of Meeus, Jones and Butcher)."""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), (h, i) = divmod(b, 4), divmod(c, 4)
    m = (19 * a + b - d - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    s = (32 + 2 * e + 2 * h - m - i) % 7
    month, day = divmod(m + s - 7 * ((a + 11 * m + 22 * s) // 451) + 114, 31)
    return date(year, month, day + 1)
