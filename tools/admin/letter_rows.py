"""Dead letters as rows, for the command line, REST and the admin page: no secret is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duetime.scheduler.history.dead_letters import ClosedLetter, DeadLetter, LettersClosed
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present
from duetime.widgets.history import attempt_payload

LETTER_COLUMNS = (
    *("run_id", "task_id", "tenant", "title", "action", "at", "reason", "state", "closed_at", "replayed_as"),
    *("replays", "attempts"),
)
CLOSED_COLUMNS = ("run_id", "task_id", "replayed_as", "next", "why")
MAX_LETTER_ATTEMPTS = 100


def letter_row(letter: DeadLetter) -> dict[str, Json]:
    """Return a letter as one row: of its attempts, the number."""
    return {
        "run_id": letter.run_id,
        "task_id": letter.task_id,
        "tenant": letter.tenant,
        "title": letter.title,
        "action": letter.action,
        "at": utc(letter.at),
        "reason": letter.reason,
        "state": letter.state.value,
        "closed_at": utc(letter.closed_at) if letter.closed_at else None,
        "replayed_as": letter.replayed_as,
        "replays": letter.replays,
        "attempts": len(letter.attempts),
    }


def letter_json(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter with its payload and its attempts, the newest first."""
    tried = [attempt_payload(each) for each in reversed(letter.attempts[-MAX_LETTER_ATTEMPTS:])]
    attempts = [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tried]
    return present({**letter_row(letter), "payload": redacted_json(letter.payload) or None, "attempts": attempts})


def page_json(letters: Sequence[DeadLetter], cursor: str | None) -> dict[str, Any]:
    """Return a page of letters."""
    following = {"cursor": cursor} if cursor else {}
    return {"schema": "duetime.dead_letters/1", "dead_letters": [*map(letter_json, letters)], **following}


def closed_json(done: LettersClosed) -> dict[str, Any]:
    """Return what a replay or a discard did."""
    return {
        "schema": "duetime.dead_letters_closed/1",
        "dry_run": done.dry_run,
        "matched": done.matched,
        "held_back": done.held_back,
        "left": done.left,
        **({"at_least": True} if done.at_least else {}),
        "closed": [_closed(each) for each in done.closed],
        "skipped": [{"run_id": each.run_id, "why": each.why} for each in done.skipped],
        **({"undo": done.undo, "undo_until": utc(done.undo_until)} if done.undo and done.undo_until else {}),
    }


def _closed(letter: ClosedLetter) -> dict[str, Json]:
    following = utc(letter.next_at) if letter.next_at else None
    names = {"run_id": letter.run_id, "task_id": letter.task_id, "replayed_as": letter.replayed_as}
    return present({**names, "next": following})
