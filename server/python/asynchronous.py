"""The scheduler of an asynchronous program: the methods of `Scheduler`, awaited while a thread carries them out."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers import Plugin
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.service.scheduler import Scheduler as Service
from duetime.scheduler.views import TaskView
from duetime.server.python.call_threads import CallThreads
from duetime.server.python.calls import Front, Signature, check_opening
from duetime.server.python.open_block import AsyncOpenBlock
from duetime.server.python.scheduler import ProgramScheduler
from duetime.server.settings.model import Settings
from duetime.tools.threads import wait_for_end

P = ParamSpec("P")
T = TypeVar("T")
_WAIT = Signature.of(Service.wait)

USUAL_THREAD_COUNT = 4
"""Calls at a time: a database rarely answers more of one process sooner."""


def in_thread(
    method: Callable[Concatenate[Front, P], T],
) -> Callable[Concatenate[AsyncScheduler, P], Coroutine[Any, Any, T]]:
    """Return `method` as one that is awaited."""

    async def called(front: AsyncScheduler, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await front.threads.run(partial(method, front.scheduler, *args, **kwargs))

    update_wrapper(called, method)
    return called


class AsyncScheduler:
    """`Scheduler` for asyncio: the same methods with the same arguments and errors, each of them awaited.

    Calls are made on threads, so the event loop continues. A call that is cancelled while it waits for a thread is not
    made. A call that has begun is carried out, and its cancellation is raised when it has ended.
    """

    def __init__(self, scheduler: ProgramScheduler, threads: CallThreads) -> None:
        self.scheduler = scheduler
        self.threads = threads

    @classmethod
    def open(
        cls,
        settings: Settings | None = None,
        *,
        handlers: Sequence[Plugin] = (),
        run: bool = True,
        entry_points: bool = True,
        threads: int = USUAL_THREAD_COUNT,
    ) -> AsyncOpenBlock[Self]:
        """Open the scheduler as `Scheduler.open` does, with at most `threads` calls at a time."""
        opened = cls._opened(settings, handlers, run=run, entry_points=entry_points, threads=threads)
        return AsyncOpenBlock(cls.__name__, opened)

    @classmethod
    @asynccontextmanager
    async def _opened(
        cls, settings: Settings | None, handlers: Sequence[Plugin], *, run: bool, entry_points: bool, threads: int
    ) -> AsyncIterator[Self]:
        given = {"settings": settings, "handlers": handlers, "run": run, "entry_points": entry_points}
        check_opening(cls.__name__, **given, threads=threads)
        calls = CallThreads(threads)
        opened = ExitStack()
        opening = ProgramScheduler.open(settings, handlers=handlers, run=run, entry_points=entry_points)
        try:
            scheduler = await calls.run(lambda: opened.enter_context(opening))
            scheduler.owner = cls.__name__
            yield cls(scheduler, calls)
        finally:
            await calls.close(opened.close)

    @property
    def pools(self) -> Coroutine[Any, Any, tuple[str, ...]]:
        """The names of the pools that a task may need; awaited as well, since the database may be asked."""
        return self.threads.run(lambda: self.scheduler.pools)

    @property
    def policies(self) -> PolicyRegistry:
        """The policy, as `Scheduler.policies`: its methods read and write the database, so call them in a thread."""
        return self.scheduler.policies

    @property
    def zone(self) -> str | None:
        """The IANA zone of wall times when a caller names none, None when every caller has to name one."""
        return self.scheduler.zone

    async def wait(
        self,
        task_id: str,
        timeout: timedelta | float | str | None = None,  # noqa: ASYNC109 - as its synchronous twin has it
        *,
        by: Principal = LOCAL,
    ) -> TaskView:
        try:
            read = _WAIT.read((task_id,), {"timeout": timeout, "by": by}) or {}
            seconds = read["timeout"].total_seconds() if "timeout" in read else math.inf
            service = self.scheduler.service
            await wait_for_end(service.ends, task_id, seconds, by, self.threads.run)
            return await self.threads.run(service.get, task_id, by=by)
        except DuetimeError as error:
            error.args = (error.text_in(_WAIT.words(self.scheduler.owner)),)
            raise

    schedule = in_thread(ProgramScheduler.schedule)
    submit = in_thread(ProgramScheduler.submit)
    schedule_many = in_thread(ProgramScheduler.schedule_many)
    reschedule = in_thread(ProgramScheduler.reschedule)
    cancel = in_thread(ProgramScheduler.cancel)
    approve = in_thread(ProgramScheduler.approve)
    reject = in_thread(ProgramScheduler.reject)
    change_many = in_thread(ProgramScheduler.change_many)
    send_event = in_thread(ProgramScheduler.send_event)
    make_fire_address = in_thread(ProgramScheduler.make_fire_address)
    revoke_fire_address = in_thread(ProgramScheduler.revoke_fire_address)
    act = in_thread(ProgramScheduler.act)
    mark_read = in_thread(ProgramScheduler.mark_read)
    get = in_thread(ProgramScheduler.get)
    find = in_thread(ProgramScheduler.find)
    titles = in_thread(ProgramScheduler.titles)
    explain = in_thread(ProgramScheduler.explain)
    list = in_thread(ProgramScheduler.list)
    history = in_thread(ProgramScheduler.history)
    event_counts = in_thread(ProgramScheduler.event_counts)
    event_buckets = in_thread(ProgramScheduler.event_buckets)
    runs = in_thread(ProgramScheduler.runs)
    run_counts = in_thread(ProgramScheduler.run_counts)
    run_buckets = in_thread(ProgramScheduler.run_buckets)
    costs = in_thread(ProgramScheduler.costs)
    report = in_thread(ProgramScheduler.report)
    decisions = in_thread(ProgramScheduler.decisions)
    decision = in_thread(ProgramScheduler.decision)
    attempts = in_thread(ProgramScheduler.attempts)
    audit = in_thread(ProgramScheduler.audit)
    run_log = in_thread(ProgramScheduler.run_log)
    dead_letters = in_thread(ProgramScheduler.dead_letters)
    dead_letter = in_thread(ProgramScheduler.dead_letter)
    replay = in_thread(ProgramScheduler.replay)
    discard = in_thread(ProgramScheduler.discard)
    inbox = in_thread(ProgramScheduler.inbox)
    unread_count = in_thread(ProgramScheduler.unread_count)
    quiet_count = in_thread(ProgramScheduler.quiet_count)
    held = in_thread(ProgramScheduler.held)
    quiet_hours = in_thread(ProgramScheduler.quiet_hours)
    set_quiet_hours = in_thread(ProgramScheduler.set_quiet_hours)
    clear_quiet_hours = in_thread(ProgramScheduler.clear_quiet_hours)
    now = in_thread(ProgramScheduler.now)

    wait.__doc__ = Service.wait.__doc__  # no thread waits, but that is all the difference
