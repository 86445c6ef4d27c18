"""The times of a watch in words, as `until` and `repeat` are read: its end as an instant, its pace as a length."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.watch.payload import MAX_UNTIL
from duetime.scheduler.intake.instants import resolve_end
from duetime.scheduler.intake.time_reader import TimeReader
from duetime.scheduler.outbound.target import WATCH
from duetime.scheduler.request import Request
from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MINUTELY, SECONDLY, WEEKLY, Rule
from duetime.scheduler.rules.recurrence.words import plain_words
from duetime.scheduler.rules.time.times import parse_duration
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Json

_UNITS: Final = {SECONDLY: "seconds", MINUTELY: "minutes", HOURLY: "hours", DAILY: "days", WEEKLY: "weeks"}


def with_watch_times(request: Request, times: TimeReader, now: datetime) -> Request:
    """Return a request for a watch with its times as a payload has them; words that are not understood stay."""
    payload = request.payload
    if request.action != WATCH or not isinstance(payload, Mapping):
        return request
    return replace(request, payload=watch_times(payload, times, now, zone=times.zone_of(request)))


def watch_times(payload: Mapping[str, Json], times: TimeReader, now: datetime, *, zone: str | None) -> dict[str, Json]:
    """Return the payload of a watch with its end as an instant or a length of time, and its pace as a length."""
    until, every = payload.get("until"), payload.get("every")
    read: dict[str, Json] = dict(payload)
    if isinstance(until, str) and not _is_length(until) and not _is_instant(until):
        with suppress(InvalidArgument):
            end = resolve_end(until, now=now, zone=zone, frame=times.frame(zone)).instant
            read["until"] = end.replace(microsecond=0).isoformat() if end - now <= MAX_UNTIL else until
    if isinstance(every, int | float) and not isinstance(every, bool):
        read["every"] = f"{every:g} s"
    if isinstance(every, str) and not _is_length(every):
        with suppress(Misread, Unknown):
            read["every"] = _pace(plain_words.parse(every, now)) or every
    return read


def _pace(rule: Rule) -> str | None:
    """Return the length of time between the runs of a rule that has no other part, None for any other."""
    plain = replace(Rule(rule.freq), interval=rule.interval) == rule
    return f"{rule.interval} {_UNITS[rule.freq]}" if plain and rule.freq in _UNITS else None


def _is_length(text: str) -> bool:
    try:
        parse_duration(text, argument="payload")
    except InvalidArgument:
        return False
    return True


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).utcoffset() is not None
    except ValueError:
        return False
