"""Moves of a series, or of one of its occurrences: where they begin, what they say, and calls that move none."""

from __future__ import annotations

from datetime import datetime, time

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import names_no_day
from duetime.scheduler.records import Change
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.moved_past import moved_onto
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.translatable import NoteKind, Translatable

ONCE_MORE = Translatable.of(
    NoteKind.ONCE_MORE, "its recurrence was cancelled: it runs once at that time and does not recur"
)
ONE_OCCURRENCE = Translatable.of(
    NoteKind.ONE_OCCURRENCE, "only the next occurrence was moved; to move them all, give all_following=true as well"
)

PAST_OTHERS = Translatable.of(
    NoteKind.ONE_OCCURRENCE, "only the next occurrence was moved; those before its new time stay"
)


def moves_no_series(request: Reschedule, *, recurs: bool) -> InvalidArgument:
    """Return what is wrong with `all_following` of a task that does not recur, without `when`, or with a new rule."""
    example = "when='17:30', all_following=true"
    if not recurs or request.repeat is not None:
        when = "" if request.when is None and request.repeat is not None else f"when={str(request.when or '17:30')!r}, "
        example = f"{when}all_following=false"
    return InvalidArgument(
        "all_following",
        "it moves the series of a recurring task to the time of `when`",
        accepted="`when`, without `repeat`, of a task that recurs",
        example=example,
    )


def begin_of_moved(
    rule: Recurrence, given: Moment, to: datetime, had: datetime, *, zone: str, frame: Frame
) -> datetime:
    """Return when a series begins that moves to the time `to`: on the day of that, if the rule has one then.

    Else a time of day alone means the day of the next occurrence, `had`. So a series does not begin before its day,
    and a rule of each second week keeps its weeks.
    """
    home = zones.load(rule.zone)
    wall = to.astimezone(home)
    of_day = rule.first(zones.place(datetime.combine(wall.date(), time()), home).instant)
    if of_day is not None and of_day.wall.date() == wall.date():
        return to
    same_day = datetime.combine(had.astimezone(home).date(), wall.time())
    begin = zones.place(same_day, home).instant
    return begin if begin >= to and names_no_day(given, begin, zone=zone, frame=frame) else to


def series_notes(change: Change) -> tuple[str, ...]:
    """Say what the move of one occurrence does to its series."""
    if change.task.repeat is None:
        return (ONCE_MORE,)
    if onto := moved_onto(change):
        return (onto,)
    return (PAST_OTHERS if change.extra_run else ONE_OCCURRENCE,)
