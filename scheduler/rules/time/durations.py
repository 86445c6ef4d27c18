"""Durations in words, short forms and ISO 8601: `2 hours and 30 minutes`, `1h30m`, `PT2H`.

Seconds, minutes and hours are elapsed time; days, weeks, months and years are steps of the calendar, as in RFC 5545.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.tokens import NUMBERS, Misread, Tokens, Unknown, normal, tokens

MICROSECOND = timedelta(microseconds=1)
"""The smallest step of an instant."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Instants that are numbers are counted from here."""

_EXACT_S: dict[str, Fraction | int] = {"millisecond": Fraction(1, 1000), "second": 1, "minute": 60, "hour": 3600}
_CALENDAR = {"day": (0, 1), "week": (0, 7), "fortnight": (0, 14), "month": (1, 0), "year": (12, 0)}
_SHORT = {
    "s": "second", "sec": "second", "secs": "second", "m": "minute", "min": "minute", "mins": "minute",
    "h": "hour", "hr": "hour", "hrs": "hour", "d": "day", "w": "week", "wk": "week", "wks": "week", "yr": "year",
    "yrs": "year",
}  # fmt: skip
UNITS = _SHORT | {
    f"{unit}{end}": unit for unit in (*_EXACT_S, *_CALENDAR) if unit != "millisecond" for end in ("", "s")
}
"""Every way of writing a unit of which something can come once in each, to its name in full."""

LENGTH_UNITS = UNITS | dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), "millisecond")
"""Every way of writing a unit of lengths."""

_ISO = re.compile(
    r"p(?:([0-9]+)y)?(?:([0-9]+)m)?(?:([0-9]+)w)?(?:([0-9]+)d)?"
    r"(?:t(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+(?:\.[0-9]+)?)s)?)?"
)
_SPARE_MINUTES = re.compile(r"^([0-9]{1,3} ?h ?[0-5][0-9])$")
_THOUSANDS = re.compile(r"[0-9]{1,3}\.[0-9]{3}")
_MAX_AMOUNT_VALUE = 10**9
_TWO = ("a couple of", "couple of", "a couple")


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: whole months and days of the calendar, and elapsed time."""

    months: int = 0
    days: int = 0
    elapsed: timedelta = field(default_factory=timedelta)

    @property
    def is_instant(self) -> bool:
        """Whether it is shorter than a second, which is no time to wait for."""
        return not self.months and not self.days and self.elapsed < timedelta(seconds=1)

    def __add__(self, other: Span) -> Span:
        """Add part by part."""
        return Span(self.months + other.months, self.days + other.days, self.elapsed + other.elapsed)

    def __neg__(self) -> Span:
        """Return the same length backwards."""
        return Span(-self.months, -self.days, -self.elapsed)


def parse_span(text: str) -> Span:
    """Read a whole text as a duration; raise `Misread` with what is wrong, `Unknown` if it is none."""
    iso = _ISO.fullmatch(normal(text))
    if iso is not None and any(iso.groups()):
        return _iso_span(iso)
    row = tokens(text)
    span = read_span(row)
    if span is None or not row.done:
        raise Unknown("not a duration")
    return span


def parse_exact(text: str) -> timedelta:
    """Read a whole text as a duration of a fixed length, in any language of the tables.

    A day counts as 24 hours, months and years are refused.
    """
    try:
        span = parse_span(_SPARE_MINUTES.sub(r"\1m", normal(text)))
    except Unknown:
        span = parse_span(translation.length_twin(text) or text)
    if span.months:
        raise Misread("months and years have no fixed length", "30 days")
    return span.elapsed + timedelta(days=span.days)


def read_span(row: Tokens) -> Span | None:
    """Read a duration if one comes next: numbers with units, joined by nothing, `,` or `and`."""
    part = row.attempt(_part)
    total: Span | None = None
    units: set[str] = set()
    while part is not None:
        unit, span = part
        if unit in units:
            raise Misread(f"names {unit}s twice")
        units.add(unit)
        total = span if total is None else total + span
        part = row.attempt(_next_part)
    return total


def _next_part(row: Tokens) -> tuple[str, Span] | None:
    row.accept(",")
    row.accept("and")
    return row.attempt(_part)


def _part(row: Tokens) -> tuple[str, Span] | None:
    if row.phrase("half an hour"):
        return "hour", Span(elapsed=timedelta(minutes=30))
    if row.phrase("half a day"):
        return "hour", Span(elapsed=timedelta(hours=12))
    if row.phrase("three quarters of an hour"):
        return "hour", Span(elapsed=timedelta(minutes=45))
    if any(row.phrase(f"{quarter} of an hour") for quarter in ("a quarter", "quarter")):
        return "hour", Span(elapsed=timedelta(minutes=15))
    amount = _amount(row)
    half = row.phrase("and a half")
    unit = LENGTH_UNITS.get(row.take())
    if amount is None or unit is None:
        return None
    if half or row.phrase("and a half"):
        amount += Fraction(1, 2)
    return unit, span_of(amount, unit)


def _amount(row: Tokens) -> Fraction | None:
    if any(row.phrase(words) for words in _TWO):
        return Fraction(2)
    token = row.take()
    if _THOUSANDS.fullmatch(token):
        raise Misread(f"{token[:20]} can be a fraction or thousands", "in 1.5 hours")
    if token[:1].isdigit() and token.replace(".", "").isdigit():
        return Fraction(token)
    named = NUMBERS.get(token)
    return None if named is None else Fraction(named)


def span_of(amount: Fraction | int, unit: str) -> Span:
    """Return so many of a unit, which is given by its name in full."""
    amount = Fraction(amount)
    if amount > _MAX_AMOUNT_VALUE:
        raise Misread("that is too long")
    if unit in _EXACT_S:
        return Span(elapsed=_elapsed(amount * _EXACT_S[unit]))
    months, days = _CALENDAR[unit]
    if amount.denominator == 1:
        return Span(months * int(amount), days * int(amount))
    if months:
        raise Misread(f"a fraction of a {unit} has no fixed length", "45 days")
    return Span(elapsed=_elapsed(amount * days * 86400))


def _elapsed(seconds: Fraction) -> timedelta:
    return timedelta(microseconds=round(seconds * 1_000_000))


def _iso_span(found: re.Match[str]) -> Span:
    units = ("year", "month", "week", "day", "hour", "minute", "second")
    total = Span()
    for amount, unit in zip(found.groups(), units, strict=True):
        if amount:
            total += span_of(Fraction(amount), unit)
    return total
