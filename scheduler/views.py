"""Views: everything there is to show of a task at one moment, from what is stored."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.changes import undo_token
from duetime.scheduler.occurrences import recurrence_of, upcoming
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.times import describe
from duetime.scheduler.task import State, TaskRecord, TaskView

UPCOMING = 5


def view_of(
    record: TaskRecord, now: datetime, *, created: bool | None = None, warnings: tuple[str, ...] = ()
) -> TaskView:
    """Return what a card, the CLI or a tool shows of one task: next occurrences, what holds it, how to undo."""
    rule = recurrence_of(record.task)
    live = record.run.state not in TERMINAL
    return TaskView(
        record=record,
        now=now,
        upcoming=upcoming(record.task, record.run, UPCOMING) if live else (),
        repeat_text=rule.text if rule else None,
        repeat_notes=rule.notes(now, UPCOMING) if rule and live else (),
        waiting_for=_waiting_for(record),
        created=created,
        warnings=(*warnings, *_also(record)),
        undo=undo_token(record.run, now),
    )


def row_of(record: TaskRecord, now: datetime) -> TaskView:
    """Return the view of one line of a list: without the next occurrences, which nothing there shows."""
    rule = recurrence_of(record.task)
    return TaskView(record, now, repeat_text=rule.text if rule else None, waiting_for=_waiting_for(record))


def _also(record: TaskRecord) -> tuple[str, ...]:
    """Say when runs beside the current one come: what was snoozed, or is to run now."""
    zone = record.task.timezone
    return tuple(f"it also runs {describe(run.wake_at or run.scheduled_for, zone)}" for run in record.beside)


def _waiting_for(record: TaskRecord) -> tuple[str, ...]:
    run, found = record.run, []
    if record.task.paused and run.state not in TERMINAL:
        found.append("paused: resume it with reschedule_task(pause=false)")
    if run.state is State.RETRYING and run.error:
        found.append(f"attempt {run.attempt + 1} after: {run.error}")
    if run.state is State.SUSPENDED:
        found.append(run.summary or "its handler asked to go on later")
    if run.state is State.RUNNING and run.cancel_requested:
        found.append("its handler to stop")
    return tuple(found)
