"""Windows of one day: `tomorrow between 9 and 11`. A time is one, so they are refused, with their begin and end."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import Final

from duetime.scheduler.rules.time.days.dates import read_last_day
from duetime.scheduler.rules.time.days.numeric_dates import iso_date
from duetime.scheduler.rules.time.tokens import MONTHS, Misread, Unknown, tokens

_HALF_DAY_MINUTES, _DAY_MINUTES = 12 * 60, 24 * 60
_NAMED: Final = {"noon": _HALF_DAY_MINUTES, "midday": _HALF_DAY_MINUTES, "midnight": _DAY_MINUTES}
_EXACT: Final = r"(?:[01]?[0-9]|2[0-3])(?:[:.][0-5][0-9] ?(?:[ap]m)?| ?[ap]m)"
_CLOCK: Final = rf"{_EXACT}|(?:[01]?[0-9]|2[0-4])|noon|midday|midnight"
_NOT_COUNTED: Final = (
    r"(?![\w:.,/-])(?! ?(?:of|st|nd|rd|th|(?:second|minute|min|hour|day|week|month|year)s?"
    rf"|{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b)"
)
_WINDOW: Final = re.compile(
    rf"(?<![\w:.,/+-])(?:(?:between|from) (?P<first>{_CLOCK}) ?(?:and|to|till?|until|through|[-\u2013]) ?"
    rf"(?P<last>{_CLOCK})"
    rf"|(?P<exact>{_EXACT}) (?:to|till?|until|through) (?P<exact_last>{_EXACT})"
    rf"|(?P<dashed>{_CLOCK}) ?[-\u2013] ?(?P<dashed_last>{_CLOCK})){_NOT_COUNTED}"
)
_DATE_WORDS: Final = frozenset({"on", "by", "before", "until", "till", "am", "le", "el", "il", "em", "op", "den"})
"""Words before a date, which `9-11` is behind them."""

_BARE: Final = re.compile("[0-9]+")


WITH_DEADLINE: Final = frozenset({"when", "deadline"})
"""Arguments of the calls that have both."""


class TimesOfDay(Misread):
    """A text names the hours between two times of day."""

    def __init__(self, start: str, end: str, minutes: int) -> None:
        super().__init__("these are the hours between two times: `when` is the first, and a deadline the second", start)
        self.end = end
        hours, rest = divmod(minutes, 60)
        self.length = f"{minutes} minutes" if rest else f"{hours} hour{'s' * (hours != 1)}"

    def example_of(self, argument: str, start: str, *, ends: bool) -> str:
        """Return what says the same: a time and a deadline, else the begin, or of something that ends the end."""
        if argument in WITH_DEADLINE:
            return f"when={start!r}, deadline={self.length!r}"
        return self.end if ends else start


def refuse_window(clean: str, today: date, holidays: str) -> None:
    """Raise `TimesOfDay` for `tomorrow between 9 and 11`, and `Unknown` where the day is in no word of English."""
    found = _window_in(clean)
    if found is None:
        return
    window, rest = found
    if not rest or _is_day(rest, today, holidays):
        raise window
    if rest not in _DATE_WORDS:
        raise Unknown("is not understood")


def _is_day(text: str, today: date, holidays: str) -> bool:
    with suppress(Misread):
        row = tokens(iso_date(text))
        return read_last_day(row, today, holidays) is not None and row.done
    return False


def _window_in(clean: str) -> tuple[TimesOfDay, str] | None:
    """Return the window that a text names, with the rest of the text; None for a text without one."""
    found = _WINDOW.search(clean)
    if found is None:
        return None
    first, last = (found[name] or "" for name in _names(found))
    begin, end = _placed(first, last)
    date_alone = found[0] == clean and _BARE.fullmatch(found["dashed"] or "") and _BARE.fullmatch(last)
    if begin == end or date_alone or _ends_in_month(clean[: found.start()]):
        return None
    start, stop = (clean.replace(found[0], f"at {_text(minutes)}") for minutes in (begin, end))
    rest = f"{clean[: found.start()]} {clean[found.end() :]}"
    return TimesOfDay(start, stop, (end - begin) % _DAY_MINUTES), rest.strip()


def _ends_in_month(text: str) -> bool:
    """Whether days of a month follow, as in `december 5-6`: `24 december 9-11` has its day before."""
    return text.rstrip(". ").rpartition(" ")[2] in MONTHS and not any(map(str.isdigit, text))


def _names(found: re.Match[str]) -> tuple[str, str]:
    return next((name, other) for name, other in _PAIRS if found[name])


_PAIRS: Final = (("first", "last"), ("exact", "exact_last"), ("dashed", "dashed_last"))


def _placed(first: str, last: str) -> tuple[int, int]:
    """Return the minutes of the day of both ends; one without its half of the day is of that which the other fits."""
    begin, end = _minutes(first), _minutes(last)
    later = begin + _HALF_DAY_MINUTES
    if _BARE.fullmatch(first) and last.endswith("m") and begin < end and later < end:
        begin = later  # `between 2 and 4 pm`
    elif _BARE.fullmatch(last) and end < begin < end + _HALF_DAY_MINUTES and not _is_late(first):
        end += _HALF_DAY_MINUTES  # `between 9 and 5`
    return begin % _DAY_MINUTES, end % _DAY_MINUTES


def _is_late(clock: str) -> bool:
    """Whether a clock of 24 hours shows it: `17`, not `5 pm`."""
    return not clock.endswith("m") and _minutes(clock) >= _HALF_DAY_MINUTES + 60


def _minutes(clock: str) -> int:
    if clock in _NAMED:
        return _NAMED[clock]
    hour, _, minute = clock.rstrip(" apm").replace(".", ":").partition(":")
    half = clock[-2:] if clock[-2:] in {"am", "pm"} else ""
    hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
    return hours * 60 + int(minute or 0)


def _text(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"
