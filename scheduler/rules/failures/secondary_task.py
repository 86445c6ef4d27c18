"""A task that Duetime itself makes because of another one: an alert, or what is to follow from a failure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from duetime.scheduler.ids import new_task_id
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.task import Json, RetryPolicy, Task

MAX_SECONDARY_TITLE_CHARS: Final = 200


def secondary_task(of: Task, now: datetime, *, title: str, action: str, payload: Mapping[str, Json]) -> Task:
    """Return a task that is due now, for the user, in the channels and conversation and with the priority of `of`."""
    return Task(
        id=new_task_id(),
        tenant=of.tenant,
        owner=of.owner,
        title=clean_text(title, MAX_SECONDARY_TITLE_CHARS, lines=False),
        action=action,
        payload=payload,
        timezone=of.timezone,
        when="now",
        repeat=None,
        anchor=now,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=of.deliver_to,
        labels=(),
        revision=1,
        created_at=now,
        updated_at=now,
        priority=of.priority,
        origin=of.origin,
    )
