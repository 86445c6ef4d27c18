"""Resolves a time argument (words, a datetime or a timedelta) to a future instant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.time_of_day import NO_TIME
from duetime.scheduler.rules.time.times import NotUnderstood, Resolved, describe, length, relative, too_far
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame
from duetime.scheduler.task import RepeatPolicy
from duetime.scheduler.view_parts import Occurrence

WHOLE_DAY = "no time given: the end of that day"

NOW_TOLERANCE_S = 5
"""An instant that passed so few seconds ago means now: a program that says `datetime.now()` arrives a little later."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")

_RECURRENCE = re.compile(
    r"(?:every|each|twice|(?:[0-9]+|three|four|five|six) times|daily|hourly|weekly|monthly|yearly|annually)\b"
    r"|24/7$|24x7$|a?round the clock$|day and night$"
    r"|FREQ=|RRULE:",
    re.IGNORECASE,
)

_CALL_EXAMPLE = re.compile(r"[a-z_]+=")
_LATER = timedelta(days=30)
LAST_OF_DAY = time(23, 59, 59)
_MAX_TIMES_OF_DAY = 4

_understood = lru_cache(maxsize=128)(translate)
"""Caches phrases, as the many tasks of one call are often for the same time."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a task: its first instant, its recurrence if any, and the assumptions made."""

    first: datetime
    zone: str
    recurrence: Recurrence | None = None
    until: datetime | None = None
    max_runs: int | None = None
    assumptions: tuple[str, ...] = ()
    policy: RepeatPolicy | None = None

    @property
    def times_of_day(self) -> tuple[time, ...]:
        """The first wall times at which it recurs."""
        return times_of_day(self.recurrence, self.first, self.zone)


def times_of_day(rule: Recurrence | None, after: datetime, zone: str) -> tuple[time, ...]:
    """Return the first wall times of a rule after an instant, each once: a rule with several of them soon has another.

    None without a rule.
    """
    home = zones.find(zone)
    coming = rule.upcoming(after, _MAX_TIMES_OF_DAY) if rule else ()
    return tuple(dict.fromkeys(each.instant.astimezone(home).time() for each in coming))


class Recurring(NamedTuple):
    """A parsed recurrence, its first occurrence, and the assumptions made."""

    rule: Recurrence
    first: Occurrence
    notes: tuple[str, ...]


def resolve_moment(
    given: Moment, *, now: datetime, zone: str | None, argument: str, frame: Frame = NEW_TASK
) -> Resolved:
    """Resolve `given` against `now`.

    Words go through the grammar. A naive datetime is a wall time in `zone`, under the same rules as a written one; of
    two such times `fold=1` is the second. An aware one is an instant. An instant of the last 5 seconds means now.
    Raises InvalidArgument for `argument` when the time is in the past, unknown, or beyond the calendar.
    """
    try:
        return _resolve(given, now=now, zone=zone, argument=argument, frame=frame)
    except OverflowError:
        raise InvalidArgument(argument, "it is beyond the calendar", example="in 2 hours") from None


def _resolve(given: Moment, *, now: datetime, zone: str | None, argument: str, frame: Frame) -> Resolved:
    if isinstance(given, timedelta):
        if given < timedelta(0):
            text = f"a timedelta of -{length(-given)} is in the past"
            raise InvalidArgument(argument, text, accepted="a timedelta from 0", example="in 2 hours")
        return _instant(now + given, now=now, zone=zone, argument=argument)
    if isinstance(given, datetime) and given.tzinfo is None and given.fold and zone is not None:
        home = zones.load(zone)
        given = given.replace(tzinfo=home) if zones.place(given, home).shift == zones.FOLD else given
    if isinstance(given, datetime) and given.tzinfo is not None:
        return _instant(given.astimezone(UTC), now=now, zone=zone, argument=argument)
    words = given if isinstance(given, str) else date_text(given)
    try:
        return _understood(words, now=now, zone=zone, argument=argument, frame=frame)
    except InvalidArgument as wrong:
        passed = _just_passed(words, now=now, zone=zone, frame=frame)
        if passed is None:
            meant = () if isinstance(wrong, NotUnderstood) else wrong.example.split(" or ")
            _refuse_recurrence(words, meant, now=now, zone=zone, argument=argument, frame=frame)
            raise
        return _instant(passed.instant, now=now, zone=passed.zone, argument=argument)


def words_of(given: Moment) -> str:
    """Return a time as it is kept with its task: words as they are, a length of time in words."""
    if isinstance(given, timedelta):
        return f"in {length(given)}" if given else "now"
    return str(given)


def date_text(given: date) -> str:
    """Return a date, or a date and time in whole seconds, as it is written."""
    return given.isoformat(timespec="seconds") if isinstance(given, datetime) else given.isoformat()


def _refuse_recurrence(
    words: str, meant: Sequence[str], *, now: datetime, zone: str | None, argument: str, frame: Frame
) -> None:
    """Raise InvalidArgument for words that say how a task repeats: they belong in another argument.

    `meant` are the times that the words may stand for as well.
    """
    if argument != "when" or not any(map(_RECURRENCE.match, (words, *translation.twins(words)))):
        return
    try:
        recurrence.parse(words, zone=zone or "UTC", anchor=now, holidays=frame.holidays)
        example = words
    except InvalidArgument as unread:
        example = unread.example
    raise InvalidArgument(
        argument,
        f"{words[:60]!r} is a recurrence",
        accepted="one time; a recurrence goes in `repeat`",
        example=" or ".join(
            [
                *(one if one.startswith(("when=", "repeat=")) else f"repeat={one!r}" for one in example.split(" or ")),
                *(f"when={one!r}" for one in meant if not (_CALL_EXAMPLE.match(one) or _INSTANT.match(one))),
            ]
        ),
    )


def _just_passed(words: str, *, now: datetime, zone: str | None, frame: Frame) -> Resolved | None:
    """Return the instant of a written date and time if it was within the last seconds, else None."""
    if not _INSTANT.match(words.strip()):
        return None
    try:
        return translate(words, now=now - timedelta(seconds=NOW_TOLERANCE_S), zone=zone, frame=frame)
    except InvalidArgument:
        return None


def resolve_end(
    given: Moment, *, now: datetime, zone: str | None, argument: str = "until", frame: Frame = NEW_TASK
) -> Resolved:
    """Resolve an end like `resolve_moment`, but a date without a time means the end of that day, today included.

    A month ends it as it begins: `june` is the end of 31 May.
    """
    frame = replace(frame, end=True)
    with suppress(InvalidArgument):
        day = resolve_moment(given, now=_midnight(now, zone), zone=zone, argument=argument, frame=frame)
        end = zones.place(datetime.combine(day.wall, LAST_OF_DAY), zones.load(day.zone)).instant
        if NO_TIME in day.assumptions and end >= now:
            was, whole = describe(day.instant, day.zone), describe(end, day.zone)
            assumptions = tuple(WHOLE_DAY if note == NO_TIME else note.replace(was, whole) for note in day.assumptions)
            return replace(day, instant=end, wall=datetime.combine(day.wall, LAST_OF_DAY), assumptions=assumptions)
    return resolve_moment(given, now=now, zone=zone, argument=argument, frame=frame)


def later(
    given: Moment, than: datetime, *, now: datetime, zone: str | None, argument: str, frame: Frame, ends: bool = False
) -> Resolved:
    """Resolve a time, or with `ends` the end of something; of a wrong one, the example is later `than` this."""
    resolve = resolve_end if ends else resolve_moment
    try:
        return resolve(given, now=now, zone=zone, argument=argument, frame=frame)
    except InvalidArgument as wrong:
        coming = now
        with suppress(InvalidArgument):
            example = wrong.example.partition(" or ")[0]
            coming = resolve(example, now=now, zone=zone, argument=argument, frame=frame).instant
        if coming > than or _CALL_EXAMPLE.match(wrong.example):
            raise
        example = _later_example(than.astimezone(zones.find(zone or "UTC")), now, ends=ends)
        raise InvalidArgument(argument, wrong.problem, accepted=wrong.accepted, example=example) from None


def _later_example(than: datetime, now: datetime, *, ends: bool) -> str:
    """Return an end well after this time, or else the next morning."""
    if ends:
        return f"{than + _LATER:%Y-%m-%d}"
    is_today = than.date() == now.astimezone(than.tzinfo).date()
    return "tomorrow 9am" if is_today else f"{than + timedelta(days=1):%Y-%m-%d} 9am"


def resolve_begin(given: Moment, repeat: str, *, now: datetime, zone: str | None, frame: Frame = NEW_TASK) -> Resolved:
    """Resolve the begin of a recurrence like `resolve_moment`.

    If the rule names its times of day, a day without a time, today included, is that day from its beginning.
    """
    if not recurrence.names_times(repeat, now=now, holidays=frame.holidays):
        return resolve_moment(given, now=now, zone=zone, argument="when", frame=frame)
    try:
        found = resolve_moment(given, now=now, zone=zone, argument="when", frame=frame)
    except InvalidArgument:
        midnight = _midnight(now, zone)
        with suppress(InvalidArgument):
            found = resolve_moment(given, now=midnight, zone=zone, argument="when", frame=frame)
            if found.is_day and found.wall.date() == midnight.date():
                return found.whole_day()
        raise
    return found.whole_day() if found.is_day else found


def names_no_day(given: Moment, at: datetime, *, zone: str, frame: Frame) -> bool:
    """Whether `given` is a time of day alone, so that it would mean `at` on the day of that instant."""
    with suppress(InvalidArgument):
        found = resolve_moment(given, now=_midnight(at, zone), zone=zone, argument="when", frame=frame)
        return found.instant == at
    return False


def _midnight(now: datetime, zone: str | None) -> datetime:
    home = zones.find(zone or "UTC")
    return datetime.combine(now.astimezone(home), time(), home)


def _instant(instant: datetime, *, now: datetime, zone: str | None, argument: str) -> Resolved:
    home = zones.find(zone or "UTC")
    if instant < now - timedelta(seconds=NOW_TOLERANCE_S):
        raise InvalidArgument(
            argument,
            f"{describe(instant, home.key)} {home.key} is in the past: it was {relative(instant, now)}",
            example=(now + timedelta(hours=1)).isoformat(timespec="seconds"),
        )
    if far := too_far(instant, now):
        raise InvalidArgument(argument, far, example="in 2 hours")
    instant = max(instant, now)
    return Resolved(instant, instant.astimezone(home).replace(tzinfo=None), home.key, ())


def snooze_by(
    zone: str, minutes: int | None, until: Moment | None, now: datetime, frame: Frame
) -> timedelta | datetime:
    """Return how long a snooze is, or until when (UTC), from exactly one of the arguments; raises InvalidArgument."""
    if (minutes is None) == (until is None):
        both = f"minutes={minutes}, until=null or until={str(until)!r}, minutes=null"
        example = "minutes=10" if until is None else both
        raise InvalidArgument("minutes", "give minutes or until", accepted="one of the two", example=example)
    if until is not None:
        return later(
            until, max(now, frame.moved_from or now), now=now, zone=zone, argument="until", frame=frame
        ).instant
    assert minutes is not None
    if not 1 <= minutes <= 60 * 24 * 366:
        raise InvalidArgument("minutes", "out of range", accepted="1 to 527040", example="minutes=10")
    return timedelta(minutes=minutes)
