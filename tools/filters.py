"""Filters: states by name or in groups, and times, which may lie in the past."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.translated_phrases import understand
from duetime.scheduler.rules.states import OPEN, TERMINAL
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import parse_duration
from duetime.scheduler.task import State

STATES: dict[str, tuple[State, ...]] = {
    "open": tuple(state for state in State if state in OPEN),
    "ended": tuple(state for state in State if state in TERMINAL),
    **{state.value: (state,) for state in State if state is not State.WAITING},
}
"""Values of the filter `state`: all that is still to come, all that is over, or one state.

Nothing can wait for an event or an approval yet. Whoever asks for what waits means what is held by a pool or by its
turn, and that is ready.
"""

MEANT_STATES = {
    **dict.fromkeys(("waiting", "held", "parked", "queued", "blocked", "delayed", "due"), "ready"),
    **dict.fromkeys(("pending", "upcoming", "active"), "open"),
    **dict.fromkeys(("done", "completed", "finished", "success"), "succeeded"),
    **dict.fromkeys(("error", "dead"), "failed"),
    **dict.fromkeys(("missed", "late"), "expired"),
    "over": "ended",
}
"""The words that people write for a state with another name."""

_AGO = re.compile(r"(?P<length>.+) ago", re.IGNORECASE)
_PAST = frozenset({"since", "until"})
"""Bounds of what has happened already."""

_BOUNDS = (
    "a date, a time, `now`, `yesterday`, `today`, `tomorrow`, or how long ago or ahead (`2 hours ago`, `in 3 days`)"
)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


def states_of(text: str | None, *, argument: str = "state") -> tuple[State, ...]:
    """Return the states that `text` names, all of them as () for None. Raises InvalidArgument naming `argument`."""
    if text is None:
        return ()
    found = STATES.get(text.strip().lower())
    if found is None:
        meant = MEANT_STATES.get(text.strip().lower(), "open")
        raise InvalidArgument(
            argument, "there is no such state", accepted=", ".join(STATES), example=f"{argument}={meant!r}"
        )
    return found


def resolve_bound(text: str, *, now: datetime, zone: str | None, argument: str) -> datetime:
    """Return the instant that `text` means: a date, an ISO time, `now`, `yesterday`, `2 days ago`, or any time to come.

    A day alone means its start, in `zone` (UTC when none is known). Raises InvalidArgument naming `argument`.
    """
    place = zones.find(zone or "UTC", argument=argument)
    words = text.strip().lower()
    if words == "now":
        return now
    if words in _DAYS:
        return _midnight(now.astimezone(place) + timedelta(days=_DAYS[words])).astimezone(UTC)
    if ago := _AGO.fullmatch(words):
        return _earlier(ago["length"], now, argument)
    return _iso(text.strip(), place) or _to_come(text, now, zone or "UTC", argument)


def _to_come(text: str, now: datetime, zone: str, argument: str) -> datetime:
    try:
        return understand(text, now=now, zone=zone, argument=argument).instant
    except InvalidArgument as wrong:
        example = f"{argument}={'yesterday' if argument in _PAST else 'tomorrow'!r}"
        raise InvalidArgument(argument, wrong.problem, accepted=_BOUNDS, example=example) from None


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _earlier(length: str, now: datetime, argument: str) -> datetime:
    try:
        return now - parse_duration(length)
    except (InvalidArgument, ValueError, OverflowError) as error:
        raise InvalidArgument(
            argument,
            "it does not specify how long ago",
            accepted="a number of minutes, hours, days or weeks",
            example=f"{argument}='2 days ago'",
        ) from error


def _iso(text: str, place: tzinfo) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=place)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
