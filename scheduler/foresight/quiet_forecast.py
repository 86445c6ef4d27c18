"""Until when quiet hours will hold the delivery of an outcome that is still to come."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from duetime.scheduler.delivery.quiet_hours import QuietPlan
from duetime.scheduler.foresight.start_times import starts_at
from duetime.scheduler.rules.settlement import INBOX_CHANNEL
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.task import DeadlineType, Notify, State, Tier
from duetime.scheduler.views import TaskRecord

_URGENT_TIERS: Final = frozenset({Tier.CRITICAL, Tier.HIGH})


def will_be_held_until(record: TaskRecord, quiet: QuietPlan, now: datetime) -> datetime | None:
    """Return until when the first outcome of a task is held, if it comes when its run is due.

    None where quiet hours hold nothing: it has another outcome already, is urgent, or no channel gets it. The stored
    hours of its user are read only for a task with a channel besides the inbox.
    """
    task, run = record.task, record.run
    if not set(task.deliver_to) - {INBOX_CHANNEL} or task.notify is Notify.NEVER or task.priority in _URGENT_TIERS:
        return None
    held = task.paused and task.paused_until is None
    if run.state not in OPEN or run.state is State.WAITING or held or record.last_run or record.deliveries:
        return None
    hours = quiet.with_stored([(task.tenant, task.owner)]).of(task.tenant, task.owner)
    end = hours.until(max(starts_at(record), now)) if hours else None
    binds = run.deadline is not None and task.deadline_type is DeadlineType.HARD
    return None if end and binds and run.deadline and run.deadline <= end else end
