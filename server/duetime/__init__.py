"""Duetime: stores what LLM agents schedule, and runs it when it is due.

The names below are the public ones. They are imported when first used. A command that needs none of them, or a handler
module that needs only `handler` and `Done`, does not wait for a database layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from duetime.version import __version__ as __version__

if TYPE_CHECKING:
    from duetime import errors, testing
    from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind, AuditPage
    from duetime.scheduler.errors import (
        DuetimeError,
        HandlerError,
        IdempotencyConflict,
        InvalidArgument,
        InvalidArguments,
        InvalidSetting,
        Refused,
        StaleRevision,
        StoreUnavailable,
        TaskNotFound,
        UnreadableTask,
    )
    from duetime.scheduler.events import Event, EventFilter, EventKind, EventPage
    from duetime.scheduler.handlers import Context, Handler, WatchCheck, handler, watch_check
    from duetime.scheduler.history.costs import CostGroup, CostLine, Costs
    from duetime.scheduler.history.dead_letters import DeadLetter, DeadLetterFilter, LettersClosed, LetterState
    from duetime.scheduler.history.events import EventBuckets, EventCounts, EventGroup
    from duetime.scheduler.history.runs import (
        BucketWidth,
        RunCounts,
        RunFilter,
        RunGroup,
        RunPage,
        RunSummary,
        TimeBuckets,
    )
    from duetime.scheduler.history.work_report import ActionWork, WorkDone, WorkReport
    from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Spawn, Wait, Yielded
    from duetime.scheduler.principal import Principal
    from duetime.scheduler.request import Request
    from duetime.scheduler.rules.policies.decision_record import Decision, DecisionPage
    from duetime.scheduler.runtime.attempt_context import AttemptFilter
    from duetime.scheduler.task import Attempt, InboxMessage, RetryPolicy, State, Tier
    from duetime.scheduler.view_parts import LogLine, RunLog
    from duetime.scheduler.views import Standing, TaskFilter, TaskPage, TaskView
    from duetime.server.python.asynchronous import AsyncScheduler
    from duetime.server.python.scheduler import ProgramScheduler as Scheduler
    from duetime.server.settings.model import Settings

__all__ = [
    "ActionWork",
    "AsyncScheduler",
    "Attempt",
    "AttemptFilter",
    "AuditEntry",
    "AuditFilter",
    "AuditKind",
    "AuditPage",
    "BucketWidth",
    "Context",
    "CostGroup",
    "CostLine",
    "Costs",
    "DeadLetter",
    "DeadLetterFilter",
    "Decision",
    "DecisionPage",
    "Done",
    "DuetimeError",
    "Event",
    "EventBuckets",
    "EventCounts",
    "EventFilter",
    "EventGroup",
    "EventKind",
    "EventPage",
    "Failed",
    "Handler",
    "HandlerError",
    "IdempotencyConflict",
    "InboxMessage",
    "InvalidArgument",
    "InvalidArguments",
    "InvalidSetting",
    "LetterState",
    "LettersClosed",
    "LogLine",
    "Outcome",
    "Principal",
    "Refused",
    "Request",
    "Retry",
    "RetryPolicy",
    "RunCounts",
    "RunFilter",
    "RunGroup",
    "RunLog",
    "RunPage",
    "RunSummary",
    "Scheduler",
    "Settings",
    "Spawn",
    "StaleRevision",
    "Standing",
    "State",
    "StoreUnavailable",
    "TaskFilter",
    "TaskNotFound",
    "TaskPage",
    "TaskView",
    "Tier",
    "TimeBuckets",
    "UnreadableTask",
    "Wait",
    "WatchCheck",
    "WorkDone",
    "WorkReport",
    "Yielded",
    "errors",
    "handler",
    "testing",
    "watch_check",
]

_HOMES = {
    "duetime.scheduler.audit.entry": {"AuditEntry", "AuditFilter", "AuditKind", "AuditPage"},
    "duetime.scheduler.errors": {
        "DuetimeError",
        "HandlerError",
        "IdempotencyConflict",
        "InvalidArgument",
        "InvalidArguments",
        "InvalidSetting",
        "Refused",
        "StaleRevision",
        "StoreUnavailable",
        "TaskNotFound",
        "UnreadableTask",
    },
    "duetime.scheduler.events": {"Event", "EventFilter", "EventKind", "EventPage"},
    "duetime.scheduler.handlers": {"Context", "Handler", "WatchCheck", "handler", "watch_check"},
    "duetime.scheduler.history.costs": {"CostGroup", "CostLine", "Costs"},
    "duetime.scheduler.history.dead_letters": {"DeadLetter", "DeadLetterFilter", "LettersClosed", "LetterState"},
    "duetime.scheduler.history.events": {"EventBuckets", "EventCounts", "EventGroup"},
    "duetime.scheduler.history.runs": {
        "BucketWidth",
        "RunCounts",
        "RunFilter",
        "RunGroup",
        "RunPage",
        "RunSummary",
        "TimeBuckets",
    },
    "duetime.scheduler.history.work_report": {"ActionWork", "WorkDone", "WorkReport"},
    "duetime.scheduler.outcomes": {"Done", "Failed", "Outcome", "Retry", "Spawn", "Wait", "Yielded"},
    "duetime.scheduler.principal": {"Principal"},
    "duetime.scheduler.request": {"Request"},
    "duetime.scheduler.rules.policies.decision_record": {"Decision", "DecisionPage"},
    "duetime.scheduler.runtime.attempt_context": {"AttemptFilter"},
    "duetime.scheduler.task": {
        "Attempt",
        "InboxMessage",
        "RetryPolicy",
        "State",
        "Tier",
    },
    "duetime.scheduler.views": {"Standing", "TaskFilter", "TaskPage", "TaskView"},
    "duetime.scheduler.view_parts": {"LogLine", "RunLog"},
    "duetime.server.python.asynchronous": {"AsyncScheduler"},
    "duetime.server.settings.model": {"Settings"},
}
_MODULES = {"errors", "testing"}
_RENAMED = {"Scheduler": ("duetime.server.python.scheduler", "ProgramScheduler")}

if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"duetime.{name}")
        home = next((module for module, names in _HOMES.items() if name in names), None)
        module, real = _RENAMED.get(name, (home, name))
        if module is None:
            raise AttributeError(f"module 'duetime' has no attribute {name!r}; it exports {', '.join(__all__)}")
        found = globals()[name] = getattr(import_module(module), real)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
