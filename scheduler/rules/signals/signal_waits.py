"""Reads `wait_for`: the event that a new task, or a run that has begun, waits for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.request import Request
from duetime.scheduler.rules.sanitize import check_json, kind_of
from duetime.scheduler.rules.signals.meant_waits import (
    EVENT_NAME,
    EVENT_WAIT_EXAMPLE,
    MEMBERS,
    OF_EACH,
    meant_end,
    meant_match,
    meant_name,
    renamed_members,
    unknown_member,
)
from duetime.scheduler.rules.time.times import describe, parse_duration
from duetime.scheduler.task import Json
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.waits.signal import MAX_EVENTS_AWAITED, SIGNAL_KEPT, OnTimeout, SignalWait

USUAL_TIMEOUT: Final = timedelta(days=30)
MAX_TIMEOUT: Final = timedelta(days=366)
MAX_MATCH_COUNT = 20
"""Members that a wait may want of the data of an event."""

MAX_MATCH_BYTES = 4_096
_OPERATORS: Final = frozenset(
    ("gt", "gte", "lt", "lte", "ge", "le", "eq", "ne", "in", "nin", "not_in", "not", "regex", "contains", "exists")
) | {">", ">=", "<", "<=", "=", "==", "!="}
"""Operators of query languages, which `match` has none of; those of some begin with $."""

EVENT_ID_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_.:/@=+~-]{0,199}"
EVENT_IDS: Final = "1 to 200 letters, digits and _ . : / @ = + ~ -, beginning with a letter or a digit"
NAME_RULE: Final = "1 to 100 letters, digits and . _ : / -, beginning with a letter or a digit"


def signal_wait_of(
    request: Request, when: datetime | None, now: datetime, *, recurs: bool = False
) -> SignalWait | None:
    """Return what a new task waits for, which is due at `when`; None for one that waits for no event.

    A task that repeats, or a step that `recurs` with its chain, waits as long before each of its runs.
    """
    if not request.wait_for:
        return None
    if recurs or request.repeat is not None:
        return read_each_wait(request.wait_for, now)
    return read_wait(request.wait_for, now, when=when if request.when is not None else None)


def early_end_note(wait: SignalWait | None, due: datetime, zone: str) -> tuple[str, ...]:
    """Return a note where a wait ends before its task is due: its timeout counts from the call."""
    if wait is None or wait.at_once or wait.until >= due or wait.on_timeout is OnTimeout.RUN:
        return ()
    ends = "expires" if wait.on_timeout is OnTimeout.EXPIRE else "is skipped"
    until = describe(wait.until, zone)
    text = f"the timeout counts from now: without the event it {ends} {until}, before it is due"
    return (Translatable.of(NoteKind.EARLY_END, text, at=wait.until.isoformat()),)


def equality_note(given: object) -> tuple[str, ...]:
    """Return a note where a wait, as it was given, wants a member that looks like a comparison: it would be in vain."""
    if not isinstance(given, Mapping):
        return ()
    events = given.get("any")
    of_each = [each.get("match") for each in events if isinstance(each, Mapping)] if isinstance(events, list) else []
    found = next((name for match in (given.get("match"), *of_each) for name in _compared("", match)), None)
    if found is None:
        return ()
    problem = f"match compares values for equality, so {found[:40]!r} has to be exactly this"
    return (f"{problem}; use any with an event for each value, a watch, or a filter in the handler",)


def _compared(name: str, value: object) -> Iterator[str]:
    """Yield the members that are lists, or whose own members are all operators of query languages."""
    if isinstance(value, list):
        yield name
    elif isinstance(value, Mapping):
        if name and value and all(str(each).startswith("$") or str(each) in _OPERATORS for each in value):
            yield name
        for each, inner in value.items():
            yield from _compared(f"{name}.{each}".lstrip("."), inner)


def read_each_wait(given: Mapping[str, Any], now: datetime) -> SignalWait:
    """Return the wait of a run that is due `now`, of a task that repeats. Raises InvalidArgument."""
    if isinstance(given, dict) and given.get("or_when"):
        problem = "a task that repeats starts each run at its time, and waits for the event from then on"
        raise InvalidArgument("wait_for.or_when", problem, accepted="a wait without or_when", example="or_when=null")
    return read_wait(given, now)


def read_wait(given: Mapping[str, Any], now: datetime, *, when: datetime | None = None) -> SignalWait:
    """Return the wait that these members describe; `when` is the time of the task, if it has one.

    Raises InvalidArgument(s) with every problem.
    """
    if not isinstance(given, Mapping):
        raise InvalidArgument("wait_for", f"expected an object, got {kind_of(given)}", example=EVENT_WAIT_EXAMPLE)
    unknown = [partial(_refuse_unknown, str(name)[:40], given) for name in given if name not in MEMBERS]
    known = {name: value for name, value in given.items() if name in MEMBERS}
    known |= {name: value for name, value in renamed_members(given).items() if unknown and name in ("event", "any")}
    read = _any if known.get("any") is not None else _one
    wait: SignalWait = _read_all(*unknown, partial(read, known, now, when))[-1]
    return wait


def _read_all(*readers: Callable[[], Any]) -> list[Any]:
    """Return what all of these read. Raises InvalidArgument(s) with every problem, each once."""
    read, problems = list[Any](), dict[str, InvalidArgument]()
    for reader in readers:
        try:
            read.append(reader())
        except (InvalidArgument, InvalidArguments) as error:
            several = error.problems if isinstance(error, InvalidArguments) else (error,)
            problems |= {str(each): each for each in several}
    if problems:
        raise InvalidArguments(list(problems.values())) if len(problems) > 1 else next(iter(problems.values()))
    return read


def _refuse_unknown(name: str, given: Mapping[str, Any]) -> None:
    raise unknown_member(name, given)


def _one(given: Mapping[str, Any], now: datetime, when: datetime | None) -> SignalWait:
    """Return the wait for one event."""
    name, match, lookback = _read_all(
        lambda: check_name("wait_for.event", given.get("event")),
        lambda: check_match("wait_for.match", given.get("match")),
        lambda: _span(given, "lookback", timedelta(0), SIGNAL_KEPT),
        *([] if given.get("or_when") else [lambda: _timeout(given), lambda: _on_timeout(given.get("on_timeout"))]),
    )[:3]
    since: datetime = now - lookback
    if given.get("or_when"):
        return _first_of_both(given, SignalWait(name, match, since, now), when)
    return SignalWait(name, match, since, now + _timeout(given), _on_timeout(given.get("on_timeout")))


def _timeout(given: Mapping[str, Any]) -> timedelta:
    timeout = _span(given, "timeout", USUAL_TIMEOUT, MAX_TIMEOUT)
    if timeout <= timedelta(0):
        raise _wrong(
            "timeout", f"{given.get('timeout')!r} is not a time to wait", "a duration of at most 366 days", "'2 days'"
        )
    return timeout


def _any(given: Mapping[str, Any], now: datetime, when: datetime | None) -> SignalWait:
    events = given["any"]
    if not isinstance(events, list | tuple) or not 1 <= len(events) <= MAX_EVENTS_AWAITED:
        accepted = f"a list of 1 to {MAX_EVENTS_AWAITED} objects with event, match and lookback"
        raise _wrong(
            "any",
            f"{kind_of(events)} of {len(events)} items is out of bounds"
            if isinstance(events, list | tuple)
            else f"{kind_of(events)} is not a list",
            accepted,
            "[{'event': 'paid'}, {'event': 'waived'}]",
        )
    if any(isinstance(each, str) for each in events):
        objects = [{"event": each} if isinstance(each, str) else each for each in events]
        place = next(number for number, each in enumerate(events) if isinstance(each, str))
        problem, accepted = "expected an object, got text", "objects with event, match and lookback"
        raise _wrong(f"any[{place}]", problem, accepted, f"any={objects!r}")
    if misplaced := [name for name in OF_EACH if given.get(name) is not None]:
        problem = "it cannot be combined with any, which has all events"
        raise _wrong(misplaced[0], problem, "in each object of any", _all_in_any(given, events))
    whole = {name: value for name, value in given.items() if name != "any"}
    read = (partial(_one_of, place, each, whole, now, when) for place, each in enumerate(events))
    waits: list[SignalWait] = _read_all(*read)
    return replace(waits[0], others=tuple(waits[1:]))


def _all_in_any(given: Mapping[str, Any], events: Sequence[Any]) -> str:
    """Return the members with what is next to `any` in it."""
    own = {name: given[name] for name in OF_EACH if given.get(name) is not None}
    moved = ", ".join(f"{name}=null" for name in own)
    return f"any={[*([own] if 'event' in own else []), *events]!r}, {moved}"


def _one_of(place: int, given: Any, whole: Mapping[str, Any], now: datetime, when: datetime | None) -> SignalWait:
    """Return the wait for one of several events, with the members of the whole; its problems name its place."""
    if isinstance(given, Mapping) and (odd := [name for name in given if name not in OF_EACH]):
        problem = f"it has no member {str(odd[0])[:40]!r}"
        example = repr({name: value for name, value in renamed_members(given).items() if name in OF_EACH})
        raise InvalidArgument(f"wait_for.any[{place}]", problem, accepted=", ".join(OF_EACH), example=example)
    try:
        return read_wait({**given, **whole} if isinstance(given, Mapping) else given, now, when=when)
    except InvalidArgument as wrong:
        raise _at_place(place, wrong, whole) from None
    except InvalidArguments as several:
        raise InvalidArguments([_at_place(place, each, whole) for each in several.problems]) from None


def _at_place(place: int, wrong: InvalidArgument, whole: Mapping[str, Any]) -> InvalidArgument:
    member = wrong.argument.removeprefix("wait_for")
    name = f"wait_for.any[{place}]{member}" if member.removeprefix(".") not in whole else wrong.argument
    return InvalidArgument(name, wrong.problem, accepted=wrong.accepted, example=wrong.example)


def check_name(argument: str, name: object) -> str:
    """Return the name of an event; raises InvalidArgument for one that cannot be sent."""
    if not isinstance(name, str) or not EVENT_NAME.fullmatch(name):
        problem = "it is missing" if name is None else f"{str(name)[:40]!r} is not a name of an event"
        example = f"{argument.rpartition('.')[2]}={meant_name(name) or 'order.paid'!r}"
        raise InvalidArgument(argument, problem, accepted=NAME_RULE, example=example)
    return name


def check_event_id(argument: str, event_id: object) -> str:
    """Return the id of an event; raises InvalidArgument for one that could be read as a sentence: histories name it."""
    if not isinstance(event_id, str) or not re.fullmatch(EVENT_ID_PATTERN, event_id):
        raise InvalidArgument(
            argument,
            f"{str(event_id)[:40]!r} is not a valid event id",
            accepted=EVENT_IDS,
            example=f"{argument}='pay-7'",
        )
    return event_id


def check_match(argument: str, given: object) -> Mapping[str, Json]:
    """Return the members that a wait wants of the data of an event, none for None; raises InvalidArgument."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > MAX_MATCH_COUNT:
        accepted = f"an object of at most {MAX_MATCH_COUNT} members that the data must have"
        counted = f" of {len(given)} members" if isinstance(given, Mapping) else ""
        problem = f"{kind_of(given)}{counted} is not such an object"
        raise InvalidArgument(argument, problem, accepted=accepted, example=repr(meant_match(given)))
    check_json(argument, given, max_bytes=MAX_MATCH_BYTES)
    return dict(given)


def _first_of_both(given: Mapping[str, Any], wait: SignalWait, when: datetime | None) -> SignalWait:
    odd = [name for name in ("timeout", "on_timeout") if name in given]
    if when is None or odd:
        problem = "it starts the task at `when` or by the event, so it needs `when`, and no timeout"
        example = ", ".join(
            ["or_when=true", *(f"{name}=null" for name in odd), *([] if when else ["when='friday 9:00'"])]
        )
        raise _wrong("or_when", problem, "true, with when and without a timeout", example)
    return SignalWait(wait.name, wait.match, wait.since, when, OnTimeout.RUN, at_once=True)


def _on_timeout(given: Any) -> OnTimeout:
    if given is None:
        return OnTimeout.EXPIRE
    if not isinstance(given, str) or given not in set(OnTimeout):
        raise _wrong("on_timeout", f"it is {str(given)[:40]!r}", ", ".join(OnTimeout), repr(str(meant_end(given))))
    return OnTimeout(given)


def _span(given: Mapping[str, Any], name: str, usual: timedelta, most: timedelta) -> timedelta:
    value = given.get(name)
    if value is None:
        return usual
    accepted = f"a duration of at most {most.days} days: '2 hours', or seconds"
    if name == "timeout":
        accepted += "; without repeat also a time to come: 'friday 18:00'"
    try:
        span = _length(value, name)
    except (OverflowError, TypeError, ValueError):
        raise _wrong(name, f"{str(value)[:40]!r} is not a duration", accepted, "'2 hours'") from None
    if not timedelta(0) <= span <= most:
        raise _wrong(name, f"{str(value)[:40]!r} is out of range", accepted, "'2 hours'")
    return span


def _length(value: Any, name: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value, argument=f"wait_for.{name}")
    if isinstance(value, bool):
        raise TypeError(name)
    return timedelta(seconds=value)


def _wrong(member: str, problem: str, accepted: str, example: str) -> InvalidArgument:
    return InvalidArgument(f"wait_for.{member}", problem, accepted=accepted, example=example)
