"""The answers of calls by which workers elsewhere claim runs and report on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from duetime.scheduler.handlers import Context
from duetime.scheduler.run_records import Claim
from duetime.scheduler.task import Json, State
from duetime.scheduler.worker.external.claim_id import ClaimId


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that a worker has claimed, with what its handler would get; it reports on it by its `name`.

    `inputs` are the results of the tasks that its task comes after, `event` is what it waited for.
    """

    claim: Claim
    context: Context
    inputs: Mapping[str, Json]
    event: Mapping[str, Json] | None
    time_limit: timedelta
    ends_by: datetime
    lease_until: datetime

    @property
    def name(self) -> ClaimId:
        return ClaimId(self.claim.run.id, self.claim.run.attempt)


class Directive(StrEnum):
    """The next step of a worker that holds a run."""

    CONTINUE = "continue"
    YIELD = "yield"  # save a checkpoint, and finish it as yielded
    CANCEL = "cancel"  # stop, and finish it with any outcome


@dataclass(frozen=True, slots=True)
class RenewedClaim:
    """A claim whose lease was renewed: what its worker is to do, and why."""

    name: ClaimId
    directive: Directive
    reason: str
    lease_until: datetime
    ends_by: datetime


@dataclass(frozen=True, slots=True)
class FinishedClaim:
    """The recorded end of an attempt: its outcome and reason, and the state in which it left the run."""

    name: ClaimId
    outcome: str
    reason: str | None
    state: State | None
    ended_at: datetime | None
