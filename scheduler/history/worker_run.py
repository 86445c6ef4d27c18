"""A run that a worker holds, as operators see it: without a word that its tenant wrote."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from duetime.scheduler.task import Tier


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A run that runs now: on which worker, since when, and for whom."""

    run_id: str
    task_id: str
    tenant: str
    action: str
    tier: Tier
    attempt: int
    worker: str
    started_at: datetime
