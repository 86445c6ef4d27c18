"""Public holidays of a country or a part of it, such as `CA` or `CA-AB`, as data: a calendar and a year give days.

They come from the `holidays` package, like zone data from `tzdata`. It is imported by the first question, because only
those who configure a calendar need it. Some calendars end in the next decades; after that they have no holidays.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache, lru_cache
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.remedies import nearest_name

NAME_EXAMPLES = "a country code (`CA`), or one with its subdivision (`CA-AB`)"

_CODE = re.compile(r"([A-Z]{2})(?:-([A-Z0-9]{1,6}))?")
_NO_WORD = re.compile(r"[^a-z0-9 ]+")
_CHECKED_YEAR, _LAST_YEAR = 2026, 2100
_NONE: Mapping[date, str] = {}
_LOCK = threading.Lock()


def find(calendar: str, *, argument: str = "holidays") -> str:
    """Return the code of a calendar as it is stored; raise `InvalidArgument` with the nearest ones."""
    code = calendar.strip().upper()
    parts = _CODE.fullmatch(code)
    known = _calendars()
    if parts and parts[1] in known and (not parts[2] or parts[2] in known[parts[1]]):
        days(code, _CHECKED_YEAR)  # loads the module of the country, so that no phrase has to
        return code
    names = [f"{parts[1]}-{part}" for part in known[parts[1]]] if parts and parts[1] in known else sorted(known)
    near = nearest_name(code, names) or (parts[1] if parts and parts[1] in known else "CA-AB")
    raise InvalidArgument(
        argument, f"there is no calendar of public holidays {calendar[:20]!r}", accepted=NAME_EXAMPLES, example=near
    )


def code_of(words: Sequence[str]) -> str | None:
    """Return the code of a country by the words of its English name, in small letters."""
    return _codes().get("_".join(words))


@lru_cache(maxsize=4096)
def days(calendar: str, year: int) -> Mapping[date, str]:
    """Return the public holidays of a year by date, each with its name in English where there is one."""
    if year > _LAST_YEAR:
        return _NONE
    country, _, part = calendar.partition("-")
    with _LOCK, warnings.catch_warnings():  # the package warns of years that a calendar does not reach
        warnings.simplefilter("ignore")
        found = _package().country_holidays(
            country, subdiv=part or None, years=year, expand=False, language=_language(country)
        )
    return {day: str(name) for day, name in found.items()} or _NONE


@lru_cache(maxsize=4096)
def year_bits(calendar: str, year: int) -> int:
    """Return the public holidays of a year as bits, bit 0 for 1 January."""
    return sum(1 << day.timetuple().tm_yday - 1 for day in days(calendar, year) if day.year == year)


def plain_name(name: str) -> str:
    """Return the name of a holiday as it is compared: lower case, without signs and `(observed)`."""
    text = name.lower().partition("(")[0].replace("labor", "labour")
    return " ".join(_NO_WORD.sub("", text).split())


@cache
def _calendars() -> Mapping[str, list[str]]:
    return {code: parts for code, parts in _package().list_supported_countries().items() if len(code) == 2}  # noqa: PLR2004 - ISO 3166-1


@cache
def _codes() -> Mapping[str, str]:
    known: Mapping[str, tuple[str, ...]] = importlib.import_module("holidays.registry").COUNTRIES
    return {name: codes[1] for name, codes in known.items() if codes[1] in _calendars()}


@cache
def _language(country: str) -> str | None:
    """Return English where the names of a calendar have been translated."""
    spoken = _package().list_localized_countries().get(country, [])
    return next((language for language in ("en_US", "en_GB", "en") if language in spoken), None)


@cache
def _package() -> Any:
    return importlib.import_module("holidays")
