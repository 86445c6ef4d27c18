"""Threads that carry out the calls of an asynchronous program: as many as were asked for, and each call to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from duetime.server.python.open_block import SchedulerClosed

P = ParamSpec("P")
T = TypeVar("T")


class CallThreads:
    """At most `threads` calls at a time; the others wait their turn without a thread.

    A call that is cancelled while it waits is not made. A call that has begun is carried out to its end, and a
    cancelled caller waits for it. Nothing changes any more when the caller continues.
    """

    def __init__(self, threads: int, owner: str = "AsyncScheduler") -> None:
        self._owner = owner
        self._closed = False
        self._turns = asyncio.Semaphore(threads)
        # One thread more, so that closing never waits for a turn.
        self._pool = ThreadPoolExecutor(threads + 1, thread_name_prefix="duetime-call")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Carry out `work` on a thread, and return what it returns. Raises SchedulerClosed after `close`."""
        async with self._turns:
            if self._closed:
                raise SchedulerClosed(self._owner)
            return await self._to_its_end(partial(work, *args, **kwargs))

    async def close(self, last: Callable[[], None]) -> None:
        """Carry out `last` without waiting for a turn, and let the threads go."""
        self._closed = True
        try:
            await self._to_its_end(last)
        finally:
            self._pool.shutdown(wait=False)

    async def _to_its_end(self, call: Callable[[], T]) -> T:
        # A future of concurrent.futures begins at once: a thread is free for each turn.
        made = asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, call)
        cancelled: asyncio.CancelledError | None = None
        while not made.done():
            try:
                await asyncio.wait([made])
            except asyncio.CancelledError as asked:
                cancelled = asked
        if cancelled is not None:
            made.exception()  # read, so that asyncio does not report it as lost
            raise cancelled
        return made.result()
