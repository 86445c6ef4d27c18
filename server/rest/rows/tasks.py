"""Tasks as answers to what is done with one: shown with its history, or changed."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.events import EventFilter
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.views import TaskView
from duetime.widgets.formats.speech import with_speech
from duetime.widgets.history import attempt_payload, history_payload, steps_of
from duetime.widgets.outcome import with_details
from duetime.widgets.payload import task_payload
from duetime.widgets.schema.history_parts import AttemptPart, HistoryPart
from duetime.widgets.schema.task import TaskPayload

MAX_TASK_EVENTS_SHOWN: Final = 100


class ShownTaskPayload(TaskPayload):
    """One task, or a whole chain, with nothing cut.

    It is `duetime.task/1`, as the tools answer it, with the `failed_attempt` of a task whose last attempt failed: the
    one that has the traceback.
    """

    failed_attempt: AttemptPart | None = None


def shown_task(view: TaskView, history: HistoryPart | None = None) -> ShownTaskPayload:
    """Return a task that was asked for."""
    task = with_speech(with_details(task_payload(view, history), view, whole=True))
    failed = attempt_payload(view.failed_attempt) if view.failed_attempt else None
    return ShownTaskPayload(**dict(task), failed_attempt=failed)


def changed_task(view: TaskView) -> TaskPayload:
    """Return a task that was changed; one that was only tried has nothing more to show."""
    payload = task_payload(view)
    return payload if payload.id == DRY_RUN_ID else with_details(payload, view, whole=True)


def history_of(scheduler: Scheduler, view: TaskView, *, by: Principal = LOCAL) -> HistoryPart:
    """Return the newest attempts and events of a task, in its zone."""
    task = view.record.task
    page = scheduler.past.events(EventFilter(task_id=task.id), limit=MAX_TASK_EVENTS_SHOWN, by=by)
    attempts = scheduler.past.attempts(task.id, by=by)[-MAX_TASK_EVENTS_SHOWN:]
    return history_payload(attempts, page.events, task.timezone, older=page.cursor is not None, steps=steps_of(view))
