"""The action `reminder`: deliver a message to the user at its time."""

from __future__ import annotations

from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.decorator import handler
from duetime.scheduler.outcomes import Done
from pydantic import BaseModel, Field


class ReminderPayload(BaseModel):
    """The text of a reminder; by default the title of the task."""

    message: str | None = Field(default=None, max_length=2000, description="text of at most 2,000 characters")


@handler("reminder", payload=ReminderPayload, time_limit=30)
def reminder(ctx: Context, payload: ReminderPayload) -> Done:
    """Deliver a message to the user."""
    return Done(summary=(payload.message or "").strip() or ctx.title)
