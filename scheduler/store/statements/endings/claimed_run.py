"""A claimed run as its end finds it in the database, and the settlement that is to be written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.rows import (
    held,
)
from duetime.scheduler.task import Penalty, Run, State, Task


class Claimed(NamedTuple):
    """Columns of a stored run and its task that decide about its end."""

    run_id: str
    task_id: str
    tenant: str
    state: State
    attempt: int
    worker: str
    scheduled_for: datetime
    cancel_requested: bool
    revision: int
    repeat: str | None
    paused: bool
    deadline: datetime | None
    penalty: Penalty
    followed: bool


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """A valid settlement, with the run that it ends."""

    claim: Claimed
    settlement: Settlement
    crashed: bool = False

    def followed_as(self) -> State | None:
        """Return the end that counts for what comes after the task; none for an occurrence that its series leaves out.

        The next run to end counts then.
        """
        to, goes_on = self.settlement.to, self.settlement.next_run is not None
        left_out = to is State.SKIPPED and goes_on
        return to if self.claim.followed and to in TERMINAL and not left_out else None

    def next_run(self) -> Run | None:
        return held(run, run.scheduled_for) if (run := self.settlement.next_run) else None

    def beginning(self) -> tuple[Run, ...]:
        """Return the runs that the end inserts: skipped occurrences, and the next one."""
        following = self.next_run()
        return (*self.settlement.skipped, *((following,) if following else ()))


def not_started(task: Task, run: Run, *, followed: bool) -> Claimed:
    """Return a run that ends before it has started, so that no worker claimed it."""
    return Claimed(
        run_id=run.id,
        task_id=task.id,
        tenant=run.tenant,
        state=run.state,
        attempt=run.attempt,
        worker="",
        scheduled_for=run.scheduled_for,
        cancel_requested=run.cancel_requested,
        revision=task.revision,
        repeat=task.repeat,
        paused=task.paused,
        deadline=run.deadline,
        penalty=task.penalty,
        followed=followed,
    )
