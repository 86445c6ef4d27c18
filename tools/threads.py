"""The one place where a call crosses from the server's event loop to the synchronous scheduler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import to_thread

P = ParamSpec("P")
T = TypeVar("T")


async def cross(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` on a thread and return what it returns.

    A caller that goes away neither interrupts the work midway nor waits for it: the thread finishes alone.
    """
    return await to_thread.run_sync(partial(work, *args, **kwargs), abandon_on_cancel=True)
