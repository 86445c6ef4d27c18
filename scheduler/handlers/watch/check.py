"""Checks of plug-ins: a function that reads the value which a watch looks at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.errors import HandlerError
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import check_name, summary_of
from duetime.scheduler.task import Json

CheckFunction = Callable[[Context, dict[str, Any]], Json]


@dataclass(frozen=True, slots=True)
class WatchCheck:
    """A named function of (context, arguments) that returns the value of one look, as JSON.

    The watch itself decides whether the value meets the condition. An exception is a look without a value, and so is
    a check that is interrupted at the time limit.
    """

    name: str
    fn: CheckFunction

    def __post_init__(self) -> None:
        check_name(self.name)
        if not _takes_two(self.fn):
            raise HandlerError(f"watch check {self.name}: put @watch_check on a plain def of (ctx, arguments)")

    @property
    def description(self) -> str:
        """The first line of the docstring of the function."""
        return summary_of(self.fn)

    def __call__(self, ctx: Context, arguments: Mapping[str, Any]) -> Json:
        """Call the function directly, for tests."""
        return self.fn(ctx, dict(arguments))


def watch_check(name: str) -> Callable[[CheckFunction], WatchCheck]:
    """Declare a function as the check `name` of the action `watch`; raises `HandlerError` when it cannot be one."""
    check_name(name)
    return lambda fn: WatchCheck(name, fn)


def _takes_two(fn: object) -> bool:
    if not callable(fn) or inspect.iscoroutinefunction(fn):
        return False
    try:
        inspect.signature(fn).bind(None, None)
    except TypeError:
        return False
    return True
