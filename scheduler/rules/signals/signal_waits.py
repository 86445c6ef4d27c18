"""Reads `wait_for`: the event that a new task, or a run that has begun, waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import Request
from duetime.scheduler.rules.sanitize import check_json, kind_of
from duetime.scheduler.rules.time.times import describe, parse_duration
from duetime.scheduler.task import Json
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.waits.signal import MAX_EVENTS_AWAITED, SIGNAL_KEPT, OnTimeout, SignalWait

USUAL_TIMEOUT: Final = timedelta(days=30)
MAX_TIMEOUT: Final = timedelta(days=366)
MAX_MATCH_COUNT = 20
"""Members that a wait may want of the data of an event."""

MAX_MATCH_BYTES = 4_096
_MEMBERS: Final = ("event", "any", "match", "timeout", "lookback", "on_timeout", "or_when")
_OF_EACH: Final = ("event", "match", "lookback")
"""Members that each event of `any` has; the others hold for all."""

_MEANT_MEMBERS: Final = {
    **dict.fromkeys(("name", "signal", "topic", "event_name"), "event"),
    **dict.fromkeys(("where", "filter", "data", "payload", "condition"), "match"),
    **dict.fromkeys(("within", "for", "until", "by", "deadline", "expires", "max_wait"), "timeout"),
    **dict.fromkeys(("since", "after"), "lookback"),
    **dict.fromkeys(("otherwise", "else", "default", "on_expiry"), "on_timeout"),
    **dict.fromkeys(("events", "any_of", "one_of"), "any"),
}
"""Names that other schedulers have for a member."""

_MEANT_ENDS: Final = {
    **dict.fromkeys(("fail", "failure", "failed", "error", "abort", "cancel", "expired", "end"), OnTimeout.EXPIRE),
    **dict.fromkeys(("continue", "proceed", "start", "go", "run_anyway"), OnTimeout.RUN),
    **dict.fromkeys(("ignore", "drop", "skipped", "next"), OnTimeout.SKIP),
}
"""Words of other schedulers for the end of a wait."""

_OPERATORS: Final = frozenset(
    ("gt", "gte", "lt", "lte", "ge", "le", "eq", "ne", "in", "nin", "not_in", "not", "regex", "contains", "exists")
) | {">", ">=", "<", "<=", "=", "==", "!="}
"""Operators of query languages, which `match` has none of; those of some begin with $."""

_EXAMPLE: Final = "wait_for={'event': 'paid', 'match': {'order.id': 7}, 'timeout': '2 days'}"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")
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
    """Return the wait that these members describe. `when` is the time of the task, if it has one. Raises."""
    _check_members(given)
    if given.get("any") is not None:
        return _any(given, now, when)
    name = check_name("wait_for.event", given.get("event"))
    since = now - _span(given, "lookback", timedelta(0), SIGNAL_KEPT)
    match = check_match("wait_for.match", given.get("match"))
    if given.get("or_when"):
        return _first_of_both(given, SignalWait(name, match, since, now), when)
    timeout = _span(given, "timeout", USUAL_TIMEOUT, MAX_TIMEOUT)
    if timeout <= timedelta(0):
        raise _wrong("timeout", "is not a time to wait", "a duration of at most 366 days", "'2 days'")
    return SignalWait(name, match, since, now + timeout, _on_timeout(given.get("on_timeout")))


def _any(given: Mapping[str, Any], now: datetime, when: datetime | None) -> SignalWait:
    events = given["any"]
    if not isinstance(events, list | tuple) or not 1 <= len(events) <= MAX_EVENTS_AWAITED:
        accepted = f"a list of 1 to {MAX_EVENTS_AWAITED} objects with event, match and lookback"
        raise _wrong("any", "is not such a list", accepted, "[{'event': 'paid'}, {'event': 'waived'}]")
    if any(isinstance(each, str) for each in events):
        objects = [{"event": each} if isinstance(each, str) else each for each in events]
        place = next(number for number, each in enumerate(events) if isinstance(each, str))
        problem, accepted = "expected an object, got text", "objects with event, match and lookback"
        raise _wrong(f"any[{place}]", problem, accepted, f"any={objects!r}")
    if misplaced := [name for name in _OF_EACH if given.get(name) is not None]:
        problem = "cannot be combined with any, which has all events"
        raise _wrong(misplaced[0], problem, "in each object of any", _all_in_any(given, events))
    whole = {name: value for name, value in given.items() if name != "any"}
    first, *others = (_one_of(place, each, whole, now, when) for place, each in enumerate(events))
    return replace(first, others=tuple(others))


def _all_in_any(given: Mapping[str, Any], events: Sequence[Any]) -> str:
    """Return the members with what is next to `any` in it."""
    own = {name: given[name] for name in _OF_EACH if given.get(name) is not None}
    moved = ", ".join(f"{name}=null" for name in own)
    return f"any={[*([own] if 'event' in own else []), *events]!r}, {moved}"


def _one_of(place: int, given: Any, whole: Mapping[str, Any], now: datetime, when: datetime | None) -> SignalWait:
    """Return the wait for one of several events, with the members of the whole; its problems name its place."""
    if isinstance(given, Mapping) and (odd := [name for name in given if name not in _OF_EACH]):
        problem = f"it has no member {str(odd[0])[:40]!r}"
        example = repr({name: value for name, value in given.items() if name in _OF_EACH})
        raise InvalidArgument(f"wait_for.any[{place}]", problem, accepted=", ".join(_OF_EACH), example=example)
    try:
        return read_wait({**given, **whole} if isinstance(given, Mapping) else given, now, when=when)
    except InvalidArgument as wrong:
        member = wrong.argument.removeprefix("wait_for")
        name = f"wait_for.any[{place}]{member}" if member.removeprefix(".") not in whole else wrong.argument
        raise InvalidArgument(name, wrong.problem, accepted=wrong.accepted, example=wrong.example) from None


def check_name(argument: str, name: object) -> str:
    """Return the name of an event; raises InvalidArgument for one that cannot be sent."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problem = "is missing" if name is None else "is not a name of an event"
        example = f"{argument.rpartition('.')[2]}={meant_name(name) or 'order.paid'!r}"
        raise InvalidArgument(argument, problem, accepted=NAME_RULE, example=example)
    return name


def meant_name(text: object) -> str | None:
    """Return the name of an event that a text most likely means: `order.paid` of `order paid`; None where none is."""
    plain = _UNNAMED.sub(".", text.strip()).strip("._:/-") if isinstance(text, str) else ""
    return plain if _NAME.fullmatch(plain) else None


def check_event_id(argument: str, event_id: object) -> str:
    """Return the id of an event; raises InvalidArgument for one that could be read as a sentence: histories name it."""
    if not isinstance(event_id, str) or not re.fullmatch(EVENT_ID_PATTERN, event_id):
        raise InvalidArgument(argument, "is not a valid event id", accepted=EVENT_IDS, example=f"{argument}='pay-7'")
    return event_id


def check_match(argument: str, given: object) -> Mapping[str, Json]:
    """Return the members that a wait wants of the data of an event, none for None; raises InvalidArgument."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > MAX_MATCH_COUNT:
        accepted = f"an object of at most {MAX_MATCH_COUNT} members that the data must have"
        raise InvalidArgument(argument, "is not such an object", accepted=accepted, example="{'order.id': 7}")
    check_json(argument, given, max_bytes=MAX_MATCH_BYTES)
    return dict(given)


def _first_of_both(given: Mapping[str, Any], wait: SignalWait, when: datetime | None) -> SignalWait:
    odd = [name for name in ("timeout", "on_timeout") if name in given]
    if when is None or odd:
        problem = "starts the task at `when` or by the event, so it needs `when`, and no timeout"
        example = ", ".join(
            ["or_when=true", *(f"{name}=null" for name in odd), *([] if when else ["when='friday 9:00'"])]
        )
        raise _wrong("or_when", problem, "true, with when and without a timeout", example)
    return SignalWait(wait.name, wait.match, wait.since, when, OnTimeout.RUN, at_once=True)


def _check_members(given: Mapping[str, Any]) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgument("wait_for", f"expected an object, got {kind_of(given)}", example=_EXAMPLE)
    for name in given:
        if name not in _MEMBERS:
            raise _unknown(str(name)[:40], given)


def _unknown(name: str, given: Mapping[str, Any]) -> InvalidArgument:
    """Return the refusal of a member that is none; the example has all members as they were most likely meant."""
    meant = _meant_member(name)
    problem = f"it has no member {name!r}" + (f"; did you mean {meant}?" if meant else "")
    place = f"wait_for.{name}" if name.isidentifier() else "wait_for"
    right = _meant_members(given)
    example = f"wait_for={right!r}" if "event" in right or "any" in right else _EXAMPLE
    return InvalidArgument(place, problem, accepted=", ".join(_MEMBERS), example=example)


def _meant_member(name: str) -> str | None:
    plain = name.lower().replace("-", "_")
    return _MEANT_MEMBERS.get(plain) or next(iter(get_close_matches(plain, _MEMBERS, n=1)), None)


def _meant_members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under the names that were most likely meant, without what no member can be."""
    members = dict[str, Any]()
    for name, value in given.items():
        meant = name if name in _MEMBERS else _meant_member(str(name)[:40])
        if meant is not None and (name in _MEMBERS or meant not in given):
            members[meant] = value
    if "event" in members:
        members["event"] = meant_name(members["event"]) or "order.paid"
    if isinstance(members.get("any"), list):
        members["any"] = [{"event": each} if isinstance(each, str) else each for each in members["any"]]
    if members.get("on_timeout") is not None:
        members["on_timeout"] = str(_meant_end(members["on_timeout"]))
    if not isinstance(members.get("match", {}), Mapping):
        del members["match"]
    return members


def _meant_end(given: Any) -> OnTimeout:
    word = str(given)[:40].lower()
    near = next(iter(get_close_matches(word, OnTimeout, n=1)), OnTimeout.EXPIRE)
    return _MEANT_ENDS.get(word) or OnTimeout(near)


def _on_timeout(given: Any) -> OnTimeout:
    if given is None:
        return OnTimeout.EXPIRE
    if not isinstance(given, str) or given not in set(OnTimeout):
        raise _wrong("on_timeout", f"is {str(given)[:40]!r}", ", ".join(OnTimeout), repr(str(_meant_end(given))))
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
        raise _wrong(name, "is not a duration", accepted, "'2 hours'") from None
    if not timedelta(0) <= span <= most:
        raise _wrong(name, "is out of range", accepted, "'2 hours'")
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
