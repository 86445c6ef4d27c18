"""Parses the urgency arguments: priority, deadline, deadline type and estimate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import resolve_end, resolve_moment
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.request import DEADLINE_KINDS, Moment
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import parse_exact, parse_span
from duetime.scheduler.rules.time.languages import translation
from duetime.scheduler.rules.time.time_of_day import read_clock
from duetime.scheduler.rules.time.times import NotUnderstood, Resolved, describe_apart, length, parse_duration
from duetime.scheduler.rules.time.tokens import Misread, Unknown, normal, tokens
from duetime.scheduler.rules.time.viewpoint import NEW_TASK, Frame
from duetime.scheduler.task import DeadlineType, Penalty, Tier

NO_DEADLINE = frozenset({"none", "never", "no"})
"""Values that remove a `deadline`, and that return an `estimate` to the learned one."""

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
MAX_DEADLINE_AFTER = timedelta(days=366)
MAX_ESTIMATE = timedelta(days=7)
_LENGTHS = "a duration such as `90 s`, `5 min`, `PT5M`, or seconds, up to 7 days"
_DEADLINES = "a time (`17:00`, `tomorrow noon`, `2026-11-24T17:00`), or a duration from when a run is due (`2 hours`)"
_WITHIN = re.compile(r"^\s*within\s+", re.IGNORECASE)
_BY = re.compile(
    r"^\s*(?:by|until|before(?= +in )|no(?:t)? later than|at the latest|latest)\s+(?![0-9]{1,2}(?:$| (?![ap]\.?m)))",
    re.IGNORECASE,
)
"""A word before a deadline; before an hour alone it says of which half of the day that may be."""
_AFTER_DUE = re.compile(
    r"\s+(?:after(?:wards)?(?: (?:it|the (?:task|run|reminder)))?(?: (?:is due|starts?|runs?|begins?))?"
    r"|(?:of|from|after) (?:the |its )?(?:start|run|begin(?:ning)?))$",
    re.IGNORECASE,
)
"""Words behind a length of time that counts from when a run is due, as one without them does."""

_END_OF_ITS_DAY = re.compile(r"eod|(?:the )?end of (?:the )?day")
_BEFORE = re.compile(r"^\s*before\s+", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A parsed deadline: either an instant `at` for one run, or a time `after` each run is due."""

    given: str
    at: datetime | None = None
    after: timedelta | None = None
    assumptions: tuple[str, ...] = ()

    def of(self, due: datetime) -> datetime:
        """Return the deadline (UTC) of a run that is due at `due`."""
        return due + self.after if self.after is not None else self.at or due


def tier_of(given: str) -> Tier:
    """Return the tier of a `priority`. Raises InvalidArgument."""
    return Tier(_one_of("priority", given, [tier.value for tier in Tier], usual=Tier.NORMAL))


def kind_of(given: str) -> tuple[DeadlineType, Penalty]:
    """Return the kind of deadline and the penalty of a `deadline_type`. Raises InvalidArgument."""
    return DEADLINE_KINDS[_one_of("deadline_type", given, list(DEADLINE_KINDS), usual="soft")]


def kind_word(kind: DeadlineType, penalty: Penalty) -> str:
    """Return the `deadline_type` of a kind and a penalty, such as `soft-linear`."""
    return next(word for word, meant in DEADLINE_KINDS.items() if meant == (kind, penalty))


def estimate_of(given: str | float | timedelta) -> timedelta:
    """Parse `estimate`; a number, or a text of digits, counts seconds. Raises InvalidArgument."""
    found = _length(given)
    if not timedelta(0) < found <= MAX_ESTIMATE:
        example = "estimate='7 days'" if found > MAX_ESTIMATE else "estimate='5 min'"
        raise InvalidArgument("estimate", "out of range", accepted=_LENGTHS, example=example)
    return found


def deadline_of(
    given: Moment,
    *,
    due: datetime,
    now: datetime,
    zone: str | None,
    recurring: bool,
    frame: Frame = NEW_TASK,
    times_of_day: Sequence[time] = (),
) -> Deadline:
    """Parse `deadline` for a task that is first due at `due`.

    A bare duration counts from when each run is due; any other value is an instant, which only a one-shot task can
    have. A time of day alone is the first such time after the run is due, a date alone the end of that day. One of a
    task that recurs at one time of day is the length of time between the two. Raises InvalidArgument for an unknown
    phrase, and for an instant with a recurrence.
    """
    after = _after(given)
    if after is not None:
        return Deadline(_written(given), after=after)
    try:
        deadline = _instant(given, due=due, now=now, zone=zone, frame=frame)
    except InvalidArgument as wrong:
        meant = () if isinstance(wrong, NotUnderstood) else wrong.example.split(" or ")
        fitting = [
            one for one in meant if one.startswith("when=") or _fits(one, due=due, now=now, zone=zone, frame=frame)
        ]
        example = " or ".join(fitting) or "deadline='2 hours'"
        raise InvalidArgument("deadline", wrong.problem, accepted=_DEADLINES, example=example) from None
    if recurring:
        span = deadline.of(due) - due
        if len(times_of_day) != 1 or not MINUTE <= span < DAY or not isinstance(given, str) or not is_clock(given):
            raise instant_of_many(deadline.of(due), due, zone, times_of_day)
        read = f"{_written(given)} read as {length(span)} after each run is due"
        return Deadline(length(span), after=span, assumptions=(read,))
    return deadline


def instant_of_many(
    deadline: datetime, due: datetime, zone: str | None, times_of_day: Sequence[time] = ()
) -> InvalidArgument:
    """Return the error for an instant as the deadline of a recurring task; it suggests the same time of each day.

    Of runs at several times of day that is the length from the last one before it.
    """
    return InvalidArgument(
        "deadline",
        "a recurring task has a deadline for each of its runs, not one instant for all",
        accepted="a duration, counted from when each run is due",
        example=f"deadline={length_until(deadline, due, zone, times_of_day)!r}",
    )


def length_until(end: datetime, due: datetime, zone: str | None, times_of_day: Sequence[time] = ()) -> str:
    """Return the length of time to the time of day of an instant, from the last of these before it, else from `due`."""
    day = end.astimezone(zones.find(zone or "UTC")).replace(tzinfo=None)
    spans = [(day - datetime.combine(day, each)) % DAY for each in times_of_day] or [(end - due) % DAY]
    return length(min(spans)) if min(spans) >= MINUTE else "2 hours"


def _one_of(argument: str, given: str, words: Sequence[str], *, usual: str) -> str:
    """Return the allowed value, else raise with the nearest one, or with the harmless default `usual`."""
    word = re.sub(r"[\s_-]+", "-", str(given).strip().lower())
    if word in words:
        return word
    example = nearest_name(word, words) or str(usual)
    raise InvalidArgument(
        argument, f"there is no {word[:40]!r}", accepted=", ".join(words), example=f"{argument}={example!r}"
    )


def _length(given: str | float | timedelta) -> timedelta:
    if isinstance(given, timedelta):
        return given
    if isinstance(given, str) and not _NUMBER.fullmatch(given.strip()):
        try:
            return parse_duration(given, argument="estimate")
        except OverflowError:
            return timedelta.max
        except InvalidArgument as wrong:
            example = "5 min"
            with suppress(Misread):
                example = wrong.example if parse_exact(wrong.example) <= MAX_ESTIMATE else "7 days"
            raise InvalidArgument("estimate", wrong.problem, accepted=_LENGTHS, example=example) from None
    try:
        return timedelta(seconds=float(given))
    except (OverflowError, ValueError):
        return timedelta.max


def _after(given: Moment) -> timedelta | None:
    """Return the duration of a deadline that is a bare duration, else None."""
    if isinstance(given, str):
        try:
            found = parse_exact(_WITHIN.sub("", _length_text(_AFTER_DUE.sub("", given))))
        except Unknown:
            return None
        except Misread as error:
            example = f"deadline={error.example or '2 hours'!r}"
            raise InvalidArgument("deadline", error.problem, accepted=_DEADLINES, example=example) from None
    elif isinstance(given, timedelta):
        found = given
    else:
        return None
    if not timedelta(0) < found <= MAX_DEADLINE_AFTER:
        example = f"deadline={'366 days' if found > MAX_DEADLINE_AFTER else '2 hours'!r}"
        raise InvalidArgument("deadline", "out of range", accepted="more than 0 s, and up to a year", example=example)
    return found


def _length_text(given: str) -> str:
    """Return a length of time in English where another language says `within` it. Raises Unknown for `2 heures`.

    That is a time of day, or a length.
    """
    with suppress(Unknown):
        parse_span(_WITHIN.sub("", given))
        return given  # `8 h` is English as well
    twins = tuple(translation.twins(given))
    if len(twins) > 1:
        raise Unknown("can mean two things")
    english = _AFTER_DUE.sub("", twins[0]) if twins else ""
    return english if twins and (_WITHIN.match(twins[0]) or english != twins[0]) else given


def _instant(given: Moment, *, due: datetime, now: datetime, zone: str | None, frame: Frame) -> Deadline:
    text = _BY.sub("", given) if isinstance(given, str) else given
    clock = _BEFORE.sub("", text) if isinstance(text, str) else ""
    if _is_time_of_day(clock):
        ends, after = replace(frame, end=True), max(due, now)
        found = resolve_moment(clock, now=after, zone=zone, argument="deadline", frame=ends)
        found = found if _END_OF_ITS_DAY.fullmatch(normal(clock)) else _in_second_pass(found, after)
    else:
        found = resolve_end(text, now=now, zone=zone, argument="deadline", frame=frame)
    return Deadline(_written(given), at=found.instant.astimezone(UTC), assumptions=found.assumptions)


def _in_second_pass(found: Resolved, after: datetime) -> Resolved:
    """Return the second such time of the day on which clocks go back, where that one alone is still to come."""
    home = zones.load(found.zone)
    wall = datetime.combine(after.astimezone(home).date(), found.wall.time())
    second = wall.replace(tzinfo=home, fold=1).astimezone(UTC)
    if zones.place(wall, home).shift != zones.FOLD or not after < second < found.instant:
        return found
    read = f"no date given: the next {wall:%H:%M} is {describe_apart(second, found.zone)}"
    return replace(found, instant=second, wall=wall, assumptions=(read,))


def _fits(example: str, *, due: datetime, now: datetime, zone: str | None, frame: Frame) -> bool:
    """Whether an example of a time is a deadline of a run that is due then."""
    try:
        return _instant(example, due=due, now=now, zone=zone, frame=frame).of(due) > due
    except InvalidArgument:
        return False


def is_clock(given: str) -> bool:
    """Whether a deadline is a time of day and nothing else, with or without a word before it."""
    return _is_time_of_day(_BEFORE.sub("", _BY.sub("", given)))


def _is_time_of_day(text: str) -> bool:
    """Whether a text is a time of the day on which a run is due, and nothing else: `17:00`, `at noon`, `eod`."""
    try:
        said = _BEFORE.sub("", _BY.sub("", translation.twin(text) or text))
        row = tokens(said)
        return bool(_END_OF_ITS_DAY.fullmatch(normal(said))) or (read_clock(row) is not None and row.done)
    except Misread:
        return False


def _written(given: Moment) -> str:
    return given.isoformat() if isinstance(given, date) else str(given).strip()
