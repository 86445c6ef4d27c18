"""Duetime: scheduling that LLM agents can trust.

The names below are the public ones. They are imported when first used, so that a command that needs none of them - or a
handler module that needs only `handler` and `Done` - does not wait for a database layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duetime.version import __version__ as __version__

if TYPE_CHECKING:
    from duetime.scheduler.handlers import Context, handler
    from duetime.scheduler.outcomes import Done, Failed, Retry, Wait, Yielded
    from duetime.scheduler.runtime.attempt_context import AttemptFilter
    from duetime.server.python.scheduler import ProgramScheduler as Scheduler

__all__ = ["AttemptFilter", "Context", "Done", "Failed", "Retry", "Scheduler", "Wait", "Yielded", "handler"]

_HOMES = {
    "AttemptFilter": "duetime.scheduler.runtime.attempt_context",
    "Context": "duetime.scheduler.handlers",
    "Done": "duetime.scheduler.outcomes",
    "Failed": "duetime.scheduler.outcomes",
    "Retry": "duetime.scheduler.outcomes",
    "Scheduler": "duetime.server.python.scheduler:ProgramScheduler",
    "Wait": "duetime.scheduler.outcomes",
    "Yielded": "duetime.scheduler.outcomes",
    "handler": "duetime.scheduler.handlers",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'duetime' has no attribute {name!r}; it exports {', '.join(__all__)}")
    module, _, renamed = _HOMES[name].partition(":")
    return getattr(import_module(module), renamed or name)
