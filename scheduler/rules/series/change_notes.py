"""Notes on a change of one task: what it does besides what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.scheduler.records import FINAL_CANCEL, Change
from duetime.scheduler.rules.series.moved_occurrence import same_time_note
from duetime.scheduler.rules.series.occurrence_approval import withdrawn_question_note
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord


def note_in_bulk(record: TaskRecord, change: Change) -> str | None:
    """Return the note on the change of one of many tasks, None without one."""
    return same_time_note(change) or withdrawn_question_note(record, change) or change.note


def notes_of(record: TaskRecord, change: Change) -> Iterator[str]:
    """Yield the notes on a change of the record."""
    yield from filter(None, [same_time_note(change), withdrawn_question_note(record, change)])
    ends = change.run.state is State.CANCELLED and record.run.state is not State.CANCELLED
    if record.run.started_at is not None and (ends or change.run.cancel_requested):
        yield FINAL_CANCEL
