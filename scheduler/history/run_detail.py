"""One run with all that is kept of it, as a page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import Event
from duetime.scheduler.history.dead_letters import DeadLetter
from duetime.scheduler.task import Attempt, Delivery, InboxMessage, Run
from duetime.scheduler.views import TaskRecord


class RunNotFound(DuetimeError):
    """No run of this tenant has the id."""

    code = "not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run {run_id[:40]!r}.", argument="run_id")


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run of the task of `record`; the task's current run may be another one.

    `attempts` and `events` are in the order of time, of many events the newest. `units` are what each attempt used of
    each pool, `costs` what that cost, where a pool has a price. `message` is what its outcome reported to the user.
    """

    record: TaskRecord
    run: Run
    attempts: tuple[Attempt, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    events: tuple[Event, ...] = ()
    units: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    costs: Mapping[int, Mapping[str, Decimal]] = field(default_factory=dict)
    message: InboxMessage | None = None
    dead_letter: DeadLetter | None = None

    @property
    def cost(self) -> Decimal | None:
        """The cost of all attempts; None where no pool with a price was used."""
        found = [cost for of_attempt in self.costs.values() for cost in of_attempt.values()]
        return sum(found, Decimal()) if found else None

    @property
    def is_current(self) -> bool:
        """Whether this is the task's current run, of which the task's actions are."""
        return self.run.id == self.record.run.id
