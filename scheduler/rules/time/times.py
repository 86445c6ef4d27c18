"""Time phrases to instants, and instants to words.

`resolve` is pure: the moment and the zone are arguments. A result says what was assumed, an error the accepted forms.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import ceil, inf
from zoneinfo import ZoneInfo

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import durations, parser, zones
from duetime.scheduler.rules.time.ambiguity import Vague
from duetime.scheduler.rules.time.days.calendar_day import add_months, day_text
from duetime.scheduler.rules.time.time_of_day import NO_TIME_PREFIX
from duetime.scheduler.rules.time.tokens import MAX_PHRASE_CHARS, WEEKDAYS, Misread, Unknown
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame, NoZone, Reading, Viewpoint
from duetime.scheduler.rules.time.windows import WITH_DEADLINE, TimesOfDay
from duetime.scheduler.translatable import NoteKind, Translatable

_ACCEPTED = (
    "`in 2 hours`, `tomorrow 9am`, `friday at noon`, `next tuesday 14:00`, `nov 24 9:00`, `2026-11-24T09:00`, "
    "RFC 3339 with offset, `PT2H`, `end of month`, `in 3 business days`"
)
DURATIONS = "`20 min`, `2 hours and 30 minutes`, `1h30m`, `PT2H`, `3 days`"
MAX_YEARS_AHEAD = 5

_MAX_CHARS_SHOWN = 40
_LONG_AGO, _SHORT, _SURELY_NEAR = timedelta(days=31), timedelta(minutes=10), timedelta(days=365 * MAX_YEARS_AHEAD)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A phrase as understood: the instant (UTC), the wall time there, its IANA zone, and what was assumed."""

    instant: datetime
    wall: datetime
    zone: str
    assumptions: tuple[str, ...]

    @property
    def is_day(self) -> bool:
        """Whether the phrase named a day and no time of day."""
        return any(note.startswith(NO_TIME_PREFIX) for note in self.assumptions)

    @property
    def skipped(self) -> time | None:
        """Return the time of day that was asked for, where the clocks skip it on that day."""
        notes = (note for note in self.assumptions if isinstance(note, Translatable))
        missing = (note.values["time"] for note in notes if note.kind is NoteKind.TIME_MISSING)
        return next(map(time.fromisoformat, missing), None)

    def whole_day(self) -> Resolved:
        """Return the beginning of that day."""
        wall = datetime.combine(self.wall, time())
        timed = tuple(note for note in self.assumptions if not note.startswith(NO_TIME_PREFIX))
        return Resolved(zones.place(wall, zones.load(self.zone)).instant, wall, self.zone, timed)


class NotUnderstood(InvalidArgument):
    """The text is in none of the accepted forms."""


def resolve(text: str, *, now: datetime, zone: str | None, argument: str = "when", frame: Frame = NEW_TASK) -> Resolved:
    """Return the instant that `text` means at `now` (aware) in the IANA `zone`.

    Durations and times with an offset need no zone; without one their wall time is given in UTC. Raises
    `InvalidArgument` for what is ambiguous, past, or more than 5 years ahead, and `NotUnderstood` for other text. An
    offset or a zone in the text must be that of `zone` if `frame` says that somebody named it; else the text's stands.
    """
    home = zones.find(zone) if zone else None
    _check_length(text, argument)
    try:
        return _resolve(text, now.astimezone(UTC), home, frame)
    except Unknown:
        problem = f"{_shown(text)} is not understood"
        example = _with_zone_apart(text, now.astimezone(UTC), argument) or _example(now)
        raise NotUnderstood(argument, problem, accepted=_ACCEPTED, example=example) from None
    except Misread as error:
        accepted = _ACCEPTED if isinstance(error, Vague) or not error.examples else ""
        example = _corrected(error, argument, now.astimezone(UTC), home, frame)
        raise InvalidArgument(argument, error.problem, accepted=accepted, example=example) from None
    except NoZone:
        raise InvalidArgument(
            argument,
            f"{_shown(text)} is a wall-clock time, and no time zone is known",
            accepted="a `timezone` (IANA name) as well, a time with its offset, or a duration such as `in 2 hours`",
            example=f"{_example(now)}+00:00",
        ) from None


def parse_duration(text: str, *, argument: str = "duration") -> timedelta:
    """Return the length of a duration in words, short or ISO 8601 form; a day counts as 24 hours."""
    _check_length(text, argument)
    try:
        return durations.parse_exact(text)
    except Misread as error:
        problem = f"{_shown(text)} is not a duration" if isinstance(error, Unknown) else error.problem
        raise InvalidArgument(argument, problem, accepted=DURATIONS, example=error.example or "20 min") from None


def seconds_of(timeout: timedelta | float | str | None) -> float:
    """Return a time to wait in seconds; without one it has no end."""
    if timeout is None:
        return inf
    span = parse_duration(timeout, argument="timeout") if isinstance(timeout, str) else timeout
    return span.total_seconds() if isinstance(span, timedelta) else span


def utc(instant: datetime) -> str:
    """Write an instant for a program, by RFC 3339 in UTC, to the second: `2026-11-24T16:00:00Z`."""
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def utc_or_none(instant: datetime | None) -> str | None:
    """Write an instant as `utc` does, if there is one."""
    return None if instant is None else utc(instant)


def describe(instant: datetime, zone: str) -> str:
    """Write an instant as its wall time in `zone`: `Tue 24 Nov 2026 09:00`."""
    wall = instant.astimezone(zones.load(zone))
    return f"{day_text(wall)} {wall.hour:02}:{wall.minute:02}"


def describe_apart(instant: datetime, zone: str) -> str:
    """Write an instant as `describe` does; of a wall time that happens twice, with which of the two it is."""
    home = zones.load(zone)
    wall = instant.astimezone(home)
    text = describe(instant, zone)
    if zones.place(wall.replace(tzinfo=None), home).shift != zones.FOLD:
        return text
    return f"{text}, the {'second' if wall.fold else 'first'} {wall:%H:%M} of that day (clocks go back)"


def describe_deadline(deadline: datetime, due: datetime, zone: str) -> str:
    """Write a deadline as `describe` does, with its seconds where it is so soon after `due` that minutes mislead."""
    text = describe(deadline, zone)
    seconds = deadline.second if deadline - due < _SHORT else 0
    return f"{text}:{seconds:02}" if seconds else text


def relative(instant: datetime, now: datetime) -> str:
    """Write how far `instant` is from `now`, in its two largest units: `in 2 d 17 h`, `3 min ago`, `now`."""
    seconds = round((instant - now).total_seconds())
    parts = _largest(abs(seconds))
    if not parts:
        return "now"
    return f"in {parts}" if seconds > 0 else f"{parts} ago"


def length(span: timedelta) -> str:
    """Write a length of time to the second, as `parse_duration` reads it: `2 h 30 min`, `45 s`, `0.25 s`."""
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{max(seconds, 0.001):.2g} s" if seconds > 0 else "0 s"
    minutes, rest = divmod(round(seconds), 60)
    hours, days = minutes // 60, minutes // 1440
    parts = ((days, "d"), (hours % 24, "h"), (minutes % 60, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def rough_length(span: timedelta) -> str:
    """Write a length of time that is only a guess as `length` does, in whole seconds, rounded up."""
    return length(timedelta(seconds=ceil(span.total_seconds())))


def _largest(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        parts = ((days, "d"), (hours % 24, "h"))
    elif hours:
        parts = ((hours, "h"), (minutes % 60, "min"))
    else:
        parts = ((minutes, "min"), (0 if minutes else seconds, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _check_length(text: str, argument: str) -> None:
    if len(text) > MAX_PHRASE_CHARS:
        raise InvalidArgument(argument, f"it is longer than {MAX_PHRASE_CHARS} characters", accepted=_ACCEPTED)


def _corrected(error: Misread, argument: str, now: datetime, home: ZoneInfo | None, frame: Frame) -> str:
    """Return the corrected texts that are still to come; where none is, what they are corrected to in turn."""
    good, better, window = list[str](), list[str](), error
    for example in error.examples:
        try:
            with suppress(NoZone):
                _resolve(example, now, zones.load(error.zone) if error.zone else home, frame)
            good.append(example)
        except Misread as again:
            better, window = [*better, *again.examples], again if error.zone else error
    chosen = tuple(dict.fromkeys(good or better)) or (_example(now),)
    name = argument.rpartition(".")[2]
    zone = f", timezone={error.zone!r}" if error.zone else ""
    if (good or (zone and name in WITH_DEADLINE)) and isinstance(window, TimesOfDay):
        return window.example_of(name, chosen[0], ends=frame.end) + zone
    return f"{name}={chosen[0]!r}{zone}" if zone else " or ".join(chosen)


def _with_zone_apart(text: str, now: datetime, argument: str) -> str:
    """Return a phrase with a zone in its midst as the phrase and its `timezone`, empty where it is none."""
    phrase, zone = zones.zone_within(text) or ("", "")
    try:
        _resolve(phrase, now, zones.load(zone) if zone else None, NEW_TASK)
    except (Misread, NoZone):
        return ""
    return f"{argument.rpartition('.')[2]}={phrase!r}, timezone={zone!r}"


def _resolve(text: str, now: datetime, home: ZoneInfo | None, frame: Frame) -> Resolved:
    try:
        return _resolved(text, now, home, frame)
    except OverflowError:
        raise Misread(f"that is more than {MAX_YEARS_AHEAD} years ahead", _example(now)) from None


def _resolved(text: str, now: datetime, home: ZoneInfo | None, frame: Frame) -> Resolved:
    binding = home if frame.zone_named else None
    phrase, named, notes = zones.split_zone(text.strip(), binding)
    reading = _read(phrase, Viewpoint(now, named or home, frame), named)
    place = binding or named or home
    instant, assumed = _coming(text, reading, now, place)
    _check_offset(reading, binding or named)
    if far := too_far(instant, now):
        raise Misread(far, _example(now))
    shown = place or zones.load("UTC")
    wall = instant.astimezone(shown).replace(tzinfo=None)
    return Resolved(instant.astimezone(UTC), wall, shown.key, (*assumed, *notes))


def _read(phrase: str, view: Viewpoint, named: ZoneInfo | None) -> Reading:
    try:
        return parser.read(phrase, view)
    except Misread as error:
        if named:
            error.examples = tuple(f"{example} {named.key}" for example in error.examples)
        raise


def _check_offset(reading: Reading, home: ZoneInfo | None) -> None:
    if reading.offset is None or home is None:
        return
    instant = reading.candidates[0][0]
    real = zones.offset(home, instant)
    if real != reading.offset:
        wall = (instant + reading.offset).replace(tzinfo=None)
        there = zones.offset(home, zones.place(wall, home).instant)
        raise Misread(
            f"offset {zones.offset_text(reading.offset)} contradicts {home.key}, "
            f"which is at {zones.offset_text(there)} on {day_text(wall.date())}; "
            f"at that instant it is {describe(instant, home.key)} there",
            f"{wall.isoformat()}",
            instant.astimezone(home).isoformat(),
        )


def _coming(text: str, reading: Reading, now: datetime, zone: ZoneInfo | None) -> tuple[datetime, tuple[str, ...]]:
    """Return the nearest candidate that is not past; raise `Misread` with the nearest future reading."""
    for instant, notes in reading.candidates:
        if instant >= now:
            return instant, notes
    past = reading.candidates[0][0]
    there, said = zone or zones.load("UTC"), (*text.lower().split(), "", "")
    wall = past.astimezone(there).replace(tzinfo=None)
    named = now - past < timedelta(days=1) and said[0] == "this" and said[1] in WEEKDAYS
    coming = wall + timedelta(weeks=1) if named else _future(wall, now.astimezone(there).replace(tzinfo=None))
    written = f"{coming:%Y-%m-%dT%H:%M}" + ("" if zone else zones.offset_text(zones.offset(there, past)))
    was = f"{describe(past, there.key)} {there.key} was"
    raise Misread(f"{_shown(text)} is in the past: {was} {relative(past, now)}", written)


def _future(wall: datetime, now: datetime) -> datetime:
    """Return the next time of this clock; of a date more than a month ago, the next time of that date."""
    if now - wall > _LONG_AGO:
        years = (add_months(wall.date(), 12 * ahead) for ahead in range(now.year - wall.year, now.year - wall.year + 2))
        return next(found for day in years if (found := datetime.combine(day, wall.time())) >= now)
    today = datetime.combine(now.date(), wall.time())
    return today if today >= now else today + timedelta(days=1)


def too_far(instant: datetime, now: datetime) -> str:
    """Say that an instant is too many years ahead; empty where it is not."""
    far = instant - now >= _SURELY_NEAR and instant > datetime.combine(
        add_months(now.date(), 12 * MAX_YEARS_AHEAD), now.time(), UTC
    )
    return f"{instant:%Y-%m-%d} is more than {MAX_YEARS_AHEAD} years ahead" if far else ""


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_CHARS_SHOWN else f"{text[:_MAX_CHARS_SHOWN]}...")


def _example(now: datetime) -> str:
    return f"{now + timedelta(days=1):%Y-%m-%d}T09:00"
