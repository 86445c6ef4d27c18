"""The behaviour of a recurring task, as payloads have it and as words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from duetime.scheduler.rules.series.before_run import ANSWER_MEMBER, EVENT_MEMBER
from duetime.scheduler.rules.series.occurrence_wait import names_awaited
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import RepeatPolicy
from duetime.scheduler.waits.approval import USUAL_QUESTION


def policy_part(policy: RepeatPolicy | None) -> dict[str, Any] | None:
    """Return where a policy differs from the defaults, by the names of the argument."""
    return {name: _plain(part) for name, part in policy.parts().items()} if policy else None


def approval_part(each_run: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what is asked before each run, by the names of the argument; `by` is counted from when a run is due."""
    if each_run is None or ANSWER_MEMBER not in each_run:
        return None
    by = _span(each_run["seconds"]) if "seconds" in each_run else None
    return _given({"question": each_run.get("question"), "by": by, "default": each_run.get("default")})


def wait_part(each_run: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the event that each run waits for, by the names of the argument; `timeout` begins when a run is due."""
    if each_run is None or not names_awaited(each_run):
        return None
    wait = each_run[EVENT_MEMBER]
    first, *others = [
        {"event": each["name"], "match": each["match"] or None, "lookback": _span(each["lookback"])}
        for each in wait["any"]
    ]
    of_all = {"timeout": _span(wait["timeout"]), "on_timeout": wait["on_timeout"]}
    events = {"any": [_given(each) for each in (first, *others)]} if others else _given(first)
    return {**events, **of_all}


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _span(seconds: float) -> str | None:
    return times.length(timedelta(seconds=seconds)) if seconds else None


def approval_in_words(part: Mapping[str, Any], quoted: Callable[[str], str] = str) -> str:
    """Say what is asked before each run: `Pay? (for 2 h, else it is skipped)`."""
    question = quoted(part.get("question", USUAL_QUESTION))
    if "by" not in part:
        return question
    return f"{question} (for {part['by']}, else it {'goes' if part['default'] == 'approve' else 'is skipped'})"


def question_in_words(each_run: Mapping[str, Any] | None) -> str:
    """Say what is asked before each run, in the words of the history: `Pay? for 2 hours, then reject`."""
    part = approval_part(each_run)
    if part is None:
        return ""
    until = f" for {part['by']}, then {part['default']}" if "by" in part else ""
    return f"{part.get('question') or USUAL_QUESTION}{until}"


def wait_in_words(each_run: Mapping[str, Any] | None) -> str:
    """Say for what each run waits, in the words of the history: `paid with {"id": 7} for 2 hours, then expire`."""
    if each_run is None or not names_awaited(each_run):
        return ""
    events = ", ".join(dict.fromkeys(map(_event_in_words, each_run[EVENT_MEMBER]["any"])))
    return f"{events} for {_span(each_run[EVENT_MEMBER]['timeout'])}, then {each_run[EVENT_MEMBER]['on_timeout']}"


def _event_in_words(event: Mapping[str, Any]) -> str:
    wanted = f" with {json.dumps(event['match'], ensure_ascii=False)}" if event["match"] else ""
    return f"{event['name']}{wanted}" + (f", {_span(event['lookback'])} back" if event["lookback"] else "")


def _plain(part: Any) -> Any:
    if isinstance(part, timedelta):
        return times.length(part)
    return [day.isoformat() for day in part] if isinstance(part, tuple) else part


def policy_in_words(part: Mapping[str, Any] | None) -> str:
    """Say a policy on one line: `overlap buffer_one, pause_after 3`."""
    return ", ".join(f"{name} {_word(value)}" for name, value in (part or {}).items())


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
