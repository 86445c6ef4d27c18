"""The history of a task in the payload: attempts, events, and the fields that each change changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import OF_CHAIN, Event, EventKind
from duetime.scheduler.rules.limits.pool import needs_in_words
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Attempt, Json
from duetime.scheduler.views import TaskView
from duetime.widgets.outcome import MAX_SAID_CHARS
from duetime.widgets.quote import cut
from duetime.widgets.repeat_policy import policy_in_words, question_in_words, wait_in_words
from duetime.widgets.schema.history_parts import AttemptPart, EventPart, HistoryPart

MAX_CHANGED_VALUE_CHARS = 60
MAX_HISTORY_CHARS = 2_400
"""Characters of attempts and events, as JSON, that an answer to a model has room for."""

MAX_SHOWN_TRACEBACK_CHARS = 600
"""Characters of the newest traceback, in addition; the others are left out of an answer to a model."""

_MAX_ATTEMPTS_CHARS = MAX_HISTORY_CHARS // 3
_MOVES = frozenset({EventKind.SNOOZED, EventKind.RESCHEDULED, EventKind.RUN_NOW})
_SAID_BY_KIND = {
    EventKind.CREATED: frozenset({"title", "action", "repeat"}),
    EventKind.PAUSED: frozenset({"paused"}),
    EventKind.RESUMED: frozenset({"paused", "paused_until"}),
}
"""Parts of a change that its kind says, or that the task itself shows."""

_ASKS = "asks"
"""The field of a task that has the event of each run, or its question."""

_EACH_RUN: Mapping[str, Callable[[Any], str]] = {"wait_for": wait_in_words, "approval": question_in_words}
"""The words for the parts of that field, each by the name of its argument."""

HistoryEntry = TypeVar("HistoryEntry", AttemptPart, EventPart)
FieldChanges = dict[str, tuple[str, ...]]
NO_CHANGES: FieldChanges = {}
StepNames = Mapping[str, str]
NO_STEPS: StepNames = {}


def steps_of(view: TaskView) -> StepNames:
    """Return the names of the steps of a chain by task; nothing for a single task, also where it is a step."""
    return {step.task_id: step.name for step in view.chain.steps} if view.chain and not view.chain.step else NO_STEPS


def step_of(event: Event, steps: StepNames) -> str | None:
    """Return which of the steps of a chain an event is of; None for one of the whole chain."""
    return None if OF_CHAIN in (event.after or {}) else steps.get(event.task_id)


def history_payload(
    attempts: Sequence[Attempt],
    events: Sequence[Event],
    zone: str,
    *,
    limited: bool = False,
    older: bool = False,
    steps: StepNames = NO_STEPS,
) -> HistoryPart:
    """Say what happened to a task of `zone`: `attempts` are given oldest first, `events` newest first.

    With `limited` only the newest are kept, as many as an answer to a model has room for, and the end of the newest
    traceback. Reasons are cut. `older` says that there are events before those given. Of a chain, `steps` are the names
    of its steps by task.
    """
    attempts = sorted(attempts, key=lambda each: each.started_at) if steps else attempts
    of_run = {event.run_id: steps.get(event.task_id) for event in events}
    max_chars = MAX_SAID_CHARS if limited else None
    runs = {run_id: number for number, run_id in enumerate(dict.fromkeys(each.run_id for each in attempts), start=1)}
    tries = [
        attempt_payload(attempt, None if steps else runs[attempt.run_id], max_chars, of_run.get(attempt.run_id))
        for attempt in reversed(attempts)
    ]
    happened = [_event(event, zone, max_chars, step_of(event, steps)) for event in events]
    if limited:
        brief = [part.model_copy(update={"traceback": None}) for part in tries]
        kept = _newest(brief, _MAX_ATTEMPTS_CHARS), _newest(happened, MAX_HISTORY_CHARS - _MAX_ATTEMPTS_CHARS)
        older = older or (len(kept[0]), len(kept[1])) < (len(tries), len(happened))
        tries, happened = _with_newest_traceback(kept[0], tries), kept[1]
    return HistoryPart(attempts=tuple(tries), events=tuple(happened), older=older or None)


def _newest(parts: Sequence[HistoryEntry], room: int) -> list[HistoryEntry]:
    kept: list[HistoryEntry] = []
    for part in parts:
        room -= len(part.model_dump_json(by_alias=True, exclude_none=True)) + 1
        if room < 0 and kept:
            break
        kept.append(part)
    return kept


def _with_newest_traceback(kept: Sequence[AttemptPart], tries: Sequence[AttemptPart]) -> list[AttemptPart]:
    """Give the newest of the attempts that has a traceback the end of it, if it was kept."""
    place = next((n for n, part in enumerate(tries) if part.traceback), None)
    if place is None or place >= len(kept):
        return list(kept)
    end = _end(tries[place].traceback or "")
    return [part.model_copy(update={"traceback": end}) if n == place else part for n, part in enumerate(kept)]


def _end(traceback: str) -> str:
    """Return the last lines that there is room for; the last one is the exception."""
    end = traceback[-MAX_SHOWN_TRACEBACK_CHARS:]
    if end == traceback:
        return end
    _, _, whole = end.partition("\n")
    return f"…\n{whole or end}"


def attempt_payload(
    attempt: Attempt, run: int | None = None, max_chars: int | None = None, step: str | None = None
) -> AttemptPart:
    """Return one attempt, of the task's `run`th run, with `max_chars` of its reason or all."""
    return AttemptPart(
        step=step,
        run=run,
        number=attempt.number,
        started=utc(attempt.started_at),
        ended=utc(attempt.ended_at) if attempt.ended_at else None,
        outcome=attempt.outcome,
        reason=_said(attempt.reason, max_chars),
        traceback=attempt.traceback,
    )


def _event(event: Event, zone: str, max_chars: int | None, step: str | None) -> EventPart:
    return EventPart(
        at=utc(event.at),
        step=step,
        kind=event.kind,
        actor=event.actor,
        via=event.via,
        reason=_said(event.reason, max_chars),
        from_state=event.from_state,
        to_state=event.to_state,
        changes=changes_of(event, zone) or None,
    )


def _said(reason: str | None, room: int | None) -> str | None:
    return cut(reason, room) if reason and room else reason or None


def changes_of(event: Event, zone: str) -> FieldChanges:
    """Return what the event changed, each part as [before, after] in words; times are wall times of `zone`."""
    if not (event.before or event.after):  # as of most events
        return {}
    sides = [dict(side or {}) for side in (event.before, event.after)]
    words = [_words(_shown_fields(side, event, sides[1]), _Side.of(side, event, zone)) for side in sides]
    return {name: (words[0].get(name, ""), after) for name, after in words[1].items()}


def _shown_fields(side: Mapping[str, Any], event: Event, after: Mapping[str, Any]) -> dict[str, Json]:
    """Leave out what says nothing to the reader; a run that has started is moved by the time of its next attempt."""
    unsaid = {_ASKS, *_SAID_BY_KIND.get(event.kind, ())}
    kept = {name: value for name, value in side.items() if name not in unsaid}
    sides = [each.get(_ASKS) for each in (event.before or {}, after)]
    for shown, words in _EACH_RUN.items():
        if words(sides[0]) != words(sides[1]):
            kept[shown] = words(side.get(_ASKS))
    if event.kind is EventKind.DEADLINE_MISSED:
        return {name: value for name, value in kept.items() if value}
    if event.kind in _MOVES and "scheduled_for" not in after and _is_moved(event, after.get("wake_at")):
        kept["scheduled_for"] = side.get("wake_at")
    return kept


def _is_moved(event: Event, wake_at: Any) -> bool:
    """Whether its time has changed: one that is due and waits for its turn gets another place in the queue, no more."""
    waited = not (event.before or {}).get("wake_at")
    return bool(wake_at) and not (waited and datetime.fromisoformat(wake_at) <= event.at)


@dataclass(frozen=True, slots=True)
class _Side:
    """Before a change or after it: what rules have to be read with, and the zone in which all times are shown."""

    zone: str
    anchor: datetime
    shown: str

    @classmethod
    def of(cls, side: Mapping[str, Any], event: Event, zone: str) -> _Side:
        start: str | None = side.get("anchor") or side.get("scheduled_for")
        return cls(side.get("timezone") or zone, datetime.fromisoformat(start) if start else event.at, zone)


def _words(values: Mapping[str, Any], side: _Side) -> dict[str, str]:
    changes = {}
    for name, (shown, say) in _PARTS.items():
        if name in values:
            changes[shown] = "" if values[name] is None else say(values[name], side)
    return changes


def _payload(value: Any, side: _Side) -> str:
    alone = isinstance(value, dict) and value.keys() == {"message"}
    return _text(value["message"] if alone else redacted_json(value), side)


def _text(value: Any, _side: _Side) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_CHANGED_VALUE_CHARS)


def _names(value: Any, _side: _Side) -> str:
    return cut(", ".join(map(str, value)), MAX_CHANGED_VALUE_CHARS)


def _wall(value: Any, side: _Side) -> str:
    return times.describe(datetime.fromisoformat(value), side.shown)


def _policy(value: Any, _side: _Side) -> str:
    return cut(policy_in_words(value), MAX_CHANGED_VALUE_CHARS)


def _rule(value: Any, side: _Side) -> str:
    try:
        return recurrence.parse(value, zone=side.zone, anchor=side.anchor).text
    except InvalidArgument:
        return str(value)


def _deadline(value: Any, side: _Side) -> str:
    """Say a deadline as an instant, or as it was given where no run has had one."""
    try:
        return _wall(value, side)
    except ValueError:
        return _text(value, side)


def _length(value: Any, _side: _Side) -> str:
    return times.length(timedelta(seconds=float(value)))


def _penalty(value: Any, side: _Side) -> str:
    return f"{value:.3g}" if isinstance(value, float | int) else _text(value, side)


def _needs(value: Any, _side: _Side) -> str:
    return cut(needs_in_words(value), MAX_CHANGED_VALUE_CHARS)


def _retry(value: Any, side: _Side) -> str:
    if value["max_attempts"] == 1:
        return "1 attempt"
    apart = f"{_length(value['backoff'], side)} to {_length(value['max_backoff'], side)}"
    return f"{value['max_attempts']} attempts, {apart} apart"


_PARTS: Mapping[str, tuple[str, Callable[[Any, _Side], str]]] = {
    "title": ("title", _text),
    "scheduled_for": ("when", _wall),
    "timezone": ("timezone", _text),
    "repeat": ("repeat", _rule),
    "until": ("until", _wall),
    "max_runs": ("max_runs", _text),
    "payload": ("payload", _payload),
    "priority": ("priority", _text),
    "deadline": ("deadline", _deadline),
    "deadline_type": ("deadline_type", _text),
    "late_seconds": ("late", _length),
    "penalty": ("penalty", _penalty),
    "estimate": ("estimate", _length),
    "needs": ("needs", _needs),
    "retry": ("retry", _retry),
    "deliver_to": ("deliver_to", _names),
    "notify": ("notify", _text),
    "expect": ("expect", _payload),
    "on_failure": ("on_failure", _payload),
    "follow_up": ("follow_up", _text),
    "labels": ("labels", _names),
    "repeat_policy": ("repeat_policy", _policy),
    "after": ("after", _names),
    "wait_for": ("wait_for", _text),
    "approval": ("approval", _text),
    "paused": ("paused", _text),
    "paused_until": ("paused_until", _wall),
}
