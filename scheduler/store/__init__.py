"""The store: the truth about every task, run and event, on SQLite or PostgreSQL."""

from duetime.scheduler.store.clock import utc_now
from duetime.scheduler.store.opening import Store, migrate_store, open_store
from duetime.scheduler.store.values import (
    Added,
    Change,
    Changed,
    Claim,
    Expired,
    IdempotencyKey,
    Known,
    NewTask,
    NextTimes,
    ReadyRun,
    Runner,
    RunningRun,
    Settlement,
    Start,
    StoredPool,
    Verdict,
    WorkerProcess,
)

__all__ = [
    "Added",
    "Change",
    "Changed",
    "Claim",
    "Expired",
    "IdempotencyKey",
    "Known",
    "NewTask",
    "NextTimes",
    "ReadyRun",
    "Runner",
    "RunningRun",
    "Settlement",
    "Start",
    "Store",
    "StoredPool",
    "Verdict",
    "WorkerProcess",
    "migrate_store",
    "open_store",
    "utc_now",
]
