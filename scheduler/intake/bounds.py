"""Resolves the bounds of filters, which may lie in the past: words or a datetime to an instant.

`validation.py` is another thing: it checks the length, number and range of single arguments, and no time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.ambiguity import Vague
from duetime.scheduler.rules.time.bounds import read_bound
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.rules.time.windows import TimesOfDay

Bound = str | date
"""Words, a date, or a datetime."""

_ACCEPTED = (
    "a date, a day or a time (the last such, unless it says otherwise), `yesterday`, `last night`, `this morning`, "
    "`12 hours ago`, `tomorrow`, `in 3 days`"
)
FORWARD_BOUNDS = frozenset({"before"})
"""Bounds that may lie ahead: tasks due before friday are those that come before the next one."""
_PAIRS = {name: pair for pair in (("after", "before"), ("since", "until")) for name in pair}
"""The two bounds of a list, by the name of each."""

LAST_BOUND = datetime.max.replace(tzinfo=UTC)
_CURSOR = re.compile(r"([0-9]{16,17})\.(.+)")
"""A cursor of a list whose bounds were words, led by the moment at which these were read."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one page. Words mean the same on each page: a cursor holds the moment at which they were read."""

    instants: Mapping[str, Any]
    cursor: str | None
    _read_at: datetime | None = None

    @classmethod
    def of(
        cls,
        cursor: str | None,
        now: datetime,
        zone: str | None,
        holidays: str = "",
        *,
        to_come: bool = False,
        **given: Bound | None,
    ) -> Bounds:
        """Resolve the bounds that were given; raises InvalidArgument naming one. `to_come`: nothing of it is past."""
        words = any(not isinstance(bound, datetime | None) for bound in given.values())
        led = _CURSOR.fullmatch(cursor) if cursor and words else None
        if led is not None:
            cursor, now = led[2], min(now, EPOCH + timedelta(microseconds=int(led[1])))
        instants: dict[str, datetime] = {}
        for name in sorted(given, key=lambda name: name not in FORWARD_BOUNDS):  # the end first: others are read by it
            bound, end = given[name], instants.get("before", LAST_BOUND if to_come else None)
            if bound is not None:
                whole = bound == given.get("after") == given.get("before")  # `today` and `today` are all of it
                instants[name] = resolve_bound(
                    bound, now=now, zone=zone, argument=name, end=end, holidays=holidays, whole=whole
                )
        _refuse_reversed(instants, zone)
        return cls(instants, cursor, now if words else None)

    def following(self, cursor: str | None) -> str | None:
        """Return the cursor of the next page."""
        if cursor is None or self._read_at is None:
            return cursor
        return f"{(self._read_at - EPOCH) // timedelta(microseconds=1)}.{cursor}"


def _refuse_reversed(instants: Mapping[str, datetime], zone: str | None) -> None:
    """Refuse the bounds of a list of tasks whose end is not after their start."""
    after, before = instants.get("after"), instants.get("before")
    if after is None or before is None or after <= before:
        return
    home = zones.find(zone or "UTC")
    first, last = (f"{each.astimezone(home):%Y-%m-%d %H:%M}" for each in (before, after))
    raise InvalidArgument(
        "after",
        "it is later than `before`",
        accepted="a time up to `before`",
        example=f"after={first!r}, before={last!r}",
    )


def resolve_bound(
    given: Bound,
    *,
    now: datetime,
    zone: str | None,
    argument: str,
    end: datetime | None = None,
    holidays: str = "",
    whole: bool = False,
) -> datetime:
    """Return the instant that `given` means, read as a bound named `argument` of a filter with this `end`.

    A day is its start. With `whole` both bounds are of one day, whose end `before` is.

    Wall times are those of `zone` (UTC when none is known). Raises InvalidArgument naming `argument`.
    """
    home = zones.find(zone or "UTC", argument=argument)
    words = given if isinstance(given, str) else given.isoformat()
    ahead = argument in FORWARD_BOUNDS
    read = partial(read_bound, now=now, zone=home, ahead=ahead, end=end, holidays=holidays, whole=whole)
    try:
        if isinstance(given, datetime):
            return (given if given.tzinfo else zones.place(given, home).instant).astimezone(UTC)
        try:
            return read(words)
        except Unknown:
            return read(_twin(words, argument) or words)
    except Unknown:
        return _translated(words, now, home.key, argument)
    except (Misread, OverflowError) as error:
        if isinstance(error, TimesOfDay) and argument in _PAIRS:
            raise _wrong_window(argument, error) from None
        if not isinstance(error, Misread):
            raise _wrong(argument, "it is beyond the calendar") from None
        examples = () if isinstance(error, Vague) or error.zone else _read_by(read, error.examples)
        raise _wrong(argument, error.problem, examples) from None


def _read_by(read: Callable[[str], datetime], examples: Sequence[str]) -> list[str]:
    """Return the corrected texts that are read as a bound."""
    found = []
    for example in examples:
        with suppress(Misread, OverflowError):
            read(example)
            found.append(example)
    return found


def _wrong_window(argument: str, window: TimesOfDay) -> InvalidArgument:
    first, last = _PAIRS[argument]
    example = f"{first}={window.example!r}, {last}={window.end!r}"
    return InvalidArgument(argument, "these are two bounds", accepted=_ACCEPTED, example=example)


def _twin(text: str, argument: str) -> str | None:
    """Return a phrase in another language in English, None for any other."""
    try:
        return translation.twin(text)
    except Misread as ambiguous:
        raise _wrong(argument, f"{text.strip()!r} {ambiguous.problem}", ambiguous.examples) from None


def _translated(text: str, now: datetime, zone: str, argument: str) -> datetime:
    try:
        return translate(text, now=now, zone=zone, argument=argument).instant
    except InvalidArgument as wrong:
        raise _wrong(argument, wrong.problem) from None


def _wrong(argument: str, problem: str, examples: Sequence[str] = ()) -> InvalidArgument:
    shown = examples or ("tomorrow" if argument in FORWARD_BOUNDS else "yesterday",)
    example = " or ".join(f"{argument}={each!r}" for each in shown)
    return InvalidArgument(argument, problem, accepted=_ACCEPTED, example=example)
