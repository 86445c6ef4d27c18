"""Waits for events as they were meant: members and words that other schedulers have, under the names that are known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.waits.signal import OnTimeout

MEMBERS: Final = ("event", "any", "match", "timeout", "lookback", "on_timeout", "or_when")
OF_EACH: Final = ("event", "match", "lookback")
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

EVENT_WAIT_EXAMPLE: Final = "wait_for={'event': 'paid', 'match': {'order.id': 7}, 'timeout': '2 days'}"
EVENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,99}")
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.:/-]+")


def meant_name(text: object) -> str | None:
    """Return the name of an event that a text most likely means: `order.paid` of `order paid`; None where none is."""
    plain = _UNNAMED.sub(".", text.strip()).strip("._:/-") if isinstance(text, str) else ""
    return plain if EVENT_NAME.fullmatch(plain) else None


def unknown_member(name: str, given: Mapping[str, Any]) -> InvalidArgument:
    """Return the refusal of a member that is none; the example has all members as they were most likely meant."""
    meant = _meant_member(name)
    problem = f"it has no member {name!r}" + (f"; did you mean {meant}" if meant else "")
    place = f"wait_for.{name}" if name.isidentifier() else "wait_for"
    right = _meant_members(given)
    example = f"wait_for={right!r}" if "event" in right or "any" in right else EVENT_WAIT_EXAMPLE
    return InvalidArgument(place, problem, accepted=", ".join(MEMBERS), example=example)


def _meant_member(name: str) -> str | None:
    plain = name.lower().replace("-", "_")
    return _MEANT_MEMBERS.get(plain) or nearest_name(plain, MEMBERS)


def renamed_members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under the names that were most likely meant, without what no member can be."""
    members = dict[str, Any]()
    for name, value in given.items():
        meant = name if name in MEMBERS else _meant_member(str(name)[:40])
        if meant is not None and (name in MEMBERS or meant not in given):
            members[meant] = value
    return members


def _meant_members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return members as they were most likely meant, names and values."""
    members = renamed_members(given)
    if "event" in members:
        members["event"] = meant_name(members["event"]) or "order.paid"
    if isinstance(members.get("any"), list):
        members["any"] = [{"event": each} if isinstance(each, str) else each for each in members["any"]]
    if members.get("on_timeout") is not None:
        members["on_timeout"] = str(meant_end(members["on_timeout"]))
    if not isinstance(members.get("match", {}), Mapping):
        del members["match"]
    return members


def meant_end(given: Any) -> OnTimeout:
    word = str(given)[:40].lower()
    return _MEANT_ENDS.get(word) or OnTimeout(nearest_name(word, OnTimeout) or OnTimeout.EXPIRE)


_MAX_SHOWN_CHARS: Final = 200
_MEMBER: Final = re.compile(r"\s*([\w.-]{1,60})\s*(?:==?|:)\s*([\w.@/'\"-]{1,60})\s*")


def meant_match(given: object) -> Mapping[str, Any]:
    """Return the members that a text such as `order.id=7` names, or the only object of a list; a sample for others."""
    if (
        isinstance(given, list | tuple)
        and len(given) == 1
        and isinstance(given[0], Mapping)
        and len(str(given)) < _MAX_SHOWN_CHARS
    ):
        return given[0]
    named = _MEMBER.fullmatch(given) if isinstance(given, str) else None
    if named is None:
        return {"order.id": 7}
    return {named[1]: int(named[2]) if re.fullmatch("[0-9]{1,15}", named[2]) else named[2].strip("'\"")}
