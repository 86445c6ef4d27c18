"""Says why a run goes before others that are like it: tasks wait for it."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.chain.inheritance import Inherited
from duetime.scheduler.rules.time.times import describe, relative
from duetime.scheduler.views import TaskRecord


def order_note(heir: Inherited, record: TaskRecord, now: datetime) -> tuple[str, ...]:
    """Return the sentence, none where no task waits for the run."""
    if not heir.unblocks:
        return ()
    waiting = f"{heir.count} task{'s wait' if heir.count > 1 else ' waits'} for it"
    if heir.due is None:
        highest = min(heir.unblocks, key=lambda tier: tier.rank)
        return (f"it goes early: {waiting}, the most urgent of priority {highest}",)
    zone = record.task.timezone
    return (f"it goes early: {waiting}, the most urgent due {describe(heir.due, zone)} ({relative(heir.due, now)})",)
