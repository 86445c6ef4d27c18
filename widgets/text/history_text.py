"""A task's history in text: a line an attempt, a line an event, with what each change changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from duetime.scheduler.errors import DuetimeError, StaleRevision
from duetime.scheduler.events import Event
from duetime.scheduler.rules.time import zones
from duetime.widgets.history import changes_of
from duetime.widgets.quote import as_text, cut, quoted, quoted_lines
from duetime.widgets.schema.history_parts import AttemptPart, EventPart, HistoryPart
from duetime.widgets.schema.run_parts import LetterPart, LogLinePart

MAX_QUOTE_CHARS = 60
MAX_TRACEBACK_LINE_CHARS = 160
MAX_LOG_TEXT_CHARS = 120
MAX_LETTER_TEXT_CHARS = 1_200
_THEIRS = frozenset({"title", "payload", "labels", "needs"})
"""Parts whose values users wrote."""


def history_text(history: HistoryPart, zone: str, task_id: str) -> str:
    """Write attempts and events, newest first, at their wall times in `zone`."""
    older = [f"Older entries are left out: `duetime history {task_id}` shows them."] if history.older else []
    return "\n".join(
        [
            f"History, newest first, times in {zone}:",
            *(line for attempt in history.attempts for line in _attempt_lines(attempt, zone)),
            *(_event_line(event, zone) for event in history.events),
            *older,
        ]
    )


def letter_text(letter: LetterPart | None, zone: str) -> str:
    """Say what a dead letter holds, and since when."""
    if letter is None:
        return ""
    tries = f"{letter.attempts} attempt{'' if letter.attempts == 1 else 's'}"
    given = quoted(as_text(letter.payload), MAX_LETTER_TEXT_CHARS)
    held = f"since {clock_time(letter.since, zone)}, {tries}, {quoted(letter.reason, MAX_LOG_TEXT_CHARS)}"
    return f"Dead letter {letter.run} ({letter.state}) {held}. Its payload: {given}."


def retold(error: DuetimeError) -> DuetimeError:
    """Return the error as it is shown: what happened since an old revision is told in the words of the history."""
    if not isinstance(error, StaleRevision):
        return error
    changes = [_since(event, error.zone) for event in error.events if isinstance(event, Event)]
    return StaleRevision(error.task_id, error.given, error.current, changes, events=error.events, zone=error.zone)


def _since(event: Event, zone: str) -> str:
    changed = changes_in_words(changes_of(event, zone))
    return f"{event.kind} by {cut(event.actor, MAX_QUOTE_CHARS)}" + (f" ({changed})" if changed else "")


def clock_time(utc: str, zone: str) -> str:
    """Write a payload's UTC time to the second as the clocks in `zone` show it: `2026-11-24 09:00:00`."""
    return f"{datetime.fromisoformat(utc).astimezone(zones.load(zone)):%Y-%m-%d %H:%M:%S}"


def changes_in_words(changes: Mapping[str, tuple[str, ...]] | None, *, fence: bool = True) -> str:
    """Say what was changed: `when Tue 24 Nov 2026 09:00 -> Tue 24 Nov 2026 11:00, title «John» -> «Jane»`."""
    return ", ".join(_change(name, values, fence=fence) for name, values in (changes or {}).items())


def _change(name: str, values: tuple[str, ...], *, fence: bool) -> str:
    shown = [
        quoted(value, MAX_QUOTE_CHARS) if fence and value and name in _THEIRS else value or "none" for value in values
    ]
    return f"{name} {shown[1]}" if not values[0] else f"{name} {' -> '.join(shown)}"


def _attempt_lines(attempt: AttemptPart, zone: str) -> list[str]:
    traceback = quoted_lines(attempt.traceback, MAX_TRACEBACK_LINE_CHARS) if attempt.traceback else []
    return [_attempt_line(attempt, zone), *traceback]


def _attempt_line(attempt: AttemptPart, zone: str) -> str:
    run = f"run {attempt.run} " if attempt.run else f"{attempt.step} " if attempt.step else ""
    reason = f" {quoted(attempt.reason, MAX_QUOTE_CHARS)}" if attempt.reason else ""
    return f"{clock_time(attempt.started, zone)} {run}attempt {attempt.number}: {attempt.outcome or 'running'}{reason}"


def log_line_in_words(line: LogLinePart, zone: str) -> str:
    """Write a line of a log: `2026-11-24 09:00:00 warning «no answer»`."""
    attempt = f"attempt {line.attempt} " if line.attempt else ""
    level = f"{line.level} " if line.level else ""
    return f"{clock_time(line.at, zone)} {attempt}{level}{quoted(line.text, MAX_LOG_TEXT_CHARS)}"


def _event_line(event: EventPart, zone: str) -> str:
    changed = f": {changes_in_words(event.changes)}" if event.changes else ""
    reason = f" {quoted(event.reason, MAX_QUOTE_CHARS)}" if event.reason else ""
    by = cut(actor_in_words(event), MAX_QUOTE_CHARS)
    step = f"{event.step} " if event.step else ""
    return f"{clock_time(event.at, zone)} {step}{event.kind} by {by}{changed}{reason}"


def actor_in_words(event: EventPart) -> str:
    """Say who made a change, and by which way: `ann (rest 10.0.0.7)`."""
    return f"{event.actor} ({event.via})" if event.via else event.actor
