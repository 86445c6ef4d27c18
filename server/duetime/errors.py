"""The errors that a program may get, as `duetime.errors`; docs/tools.md has the code of each."""

from __future__ import annotations

from duetime.scheduler.calls.partial_change import ChangeCutOff
from duetime.scheduler.errors import (
    DuetimeError,
    HandlerError,
    IdempotencyConflict,
    InvalidArgument,
    InvalidArguments,
    InvalidSetting,
    Refused,
    SchemaTooNew,
    SchemaTooOld,
    StaleRevision,
    StoreUnavailable,
    TaskNotFound,
    UnreadableTask,
)
from duetime.server.python.open_block import SchedulerClosed

__all__ = [
    "ChangeCutOff",
    "DuetimeError",
    "HandlerError",
    "IdempotencyConflict",
    "InvalidArgument",
    "InvalidArguments",
    "InvalidSetting",
    "Refused",
    "SchedulerClosed",
    "SchemaTooNew",
    "SchemaTooOld",
    "StaleRevision",
    "StoreUnavailable",
    "TaskNotFound",
    "UnreadableTask",
]
