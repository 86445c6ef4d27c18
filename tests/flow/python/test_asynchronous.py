"""`AsyncScheduler`: the methods of `Scheduler`, awaited; a call is made to its end or not at all."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from duetime import (
    AsyncScheduler,
    DuetimeError,
    InvalidArgument,
    InvalidArguments,
    Scheduler,
    Settings,
    State,
    TaskNotFound,
)
from duetime.server.python.call_threads import CallThreads

METHODS = [
    name
    for name in vars(Scheduler)
    if not name.startswith("_") and name not in {"open", "policies", "pools", "service", "zone"}
]
PATIENCE_S = 60


class Gate:
    """A call that begins, and ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended = False

    def __call__(self) -> str:
        self.begun.set()
        assert self.released.wait(PATIENCE_S)
        self.ended = True
        return "made"


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[AsyncScheduler]:
    settings = Settings(
        database_url=f"sqlite:///{folder / 'duetime.db'}",
        sqlite_synchronous="OFF",
        desktop_notifications="off",
        timezone="UTC",
    )
    async with AsyncScheduler.open(settings, run=False, **options) as scheduler:
        yield scheduler


async def begun(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.begun.wait, PATIENCE_S)


# --- the same methods ---


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_arguments_and_the_page_of_its_synchronous_twin(name: str) -> None:
    awaited, plain = getattr(AsyncScheduler, name), getattr(Scheduler, name)

    assert inspect.iscoroutinefunction(awaited)
    assert inspect.signature(awaited) == inspect.signature(plain)
    assert awaited.__doc__ == plain.__doc__


def test_there_are_the_same_names_and_no_others() -> None:
    assert {name for name in vars(AsyncScheduler) if not name.startswith("_")} == {
        name for name in vars(Scheduler) if not name.startswith("_") and name != "service"
    }
    given, known = (set(inspect.signature(kind.open).parameters) for kind in (AsyncScheduler, Scheduler))
    assert given == known | {"threads"}


def test_tasks_are_scheduled_listed_and_cancelled(tmp_path: Path) -> None:
    async def program() -> None:
        async with opened(tmp_path) as scheduler:
            view, other = await asyncio.gather(
                scheduler.schedule("Stretch", when="in 2 hours", labels=["health"]),
                scheduler.schedule("Call John", when="in 3 hours"),
            )
            page = await scheduler.list()
            cancelled = await scheduler.cancel(view.record.task.id, reason="it rains")
            assert [each.record.task.title for each in page.views] == ["Stretch", "Call John"]
            assert cancelled.record.run.state is State.CANCELLED
            assert (await scheduler.get(other.record.task.id)).record.run.state is State.SCHEDULED
            assert (scheduler.zone, await scheduler.pools) == ("UTC", ())
            assert (await scheduler.now()).utcoffset() is not None

    asyncio.run(program())


def test_errors_name_the_methods_that_are_awaited(tmp_path: Path) -> None:
    async def program() -> None:
        async with opened(tmp_path) as scheduler:
            with pytest.raises(
                InvalidArgument, match=r"Example: AsyncScheduler\.schedule\(\.\.\., labels=\['project'\]\)"
            ):
                await scheduler.schedule("Stretch", when="in 2 hours", labels=5)  # type: ignore[arg-type] # wrong on purpose
            with pytest.raises(TaskNotFound, match=r"AsyncScheduler\.list\(\) returns your tasks"):
                await scheduler.get("t_nothing")

    asyncio.run(program())


@pytest.mark.parametrize("threads", [0, -1, "many", None, 10**9])
def test_a_wrong_number_of_threads_is_refused(tmp_path: Path, threads: Any) -> None:
    async def program() -> None:
        async with opened(tmp_path, threads=threads):
            pass

    with pytest.raises(InvalidArgument, match=r"^threads: .*Example: AsyncScheduler\.open\(threads=4\)"):
        asyncio.run(program())


OF_SETTINGS = """\
settings: an object is not Settings. Accepted: Settings. Example: Scheduler.open(settings=Settings(threads=4))"""


def test_the_arguments_of_a_scheduler_are_checked() -> None:
    wrong: Any = {"settings": {"threads": 4}, "handlers": [len], "run": "later"}

    with pytest.raises(InvalidArguments) as refused, Scheduler.open(**wrong):
        pass

    assert str(refused.value).splitlines() == [
        OF_SETTINGS,
        "handlers: len has no @handler. Accepted: functions with @handler. Example: Scheduler.open(handlers=[resize])",
        "run: text is neither true nor false. Accepted: True or False. Example: Scheduler.open(run=False)",
    ]


# --- calls on threads ---


def test_no_more_calls_are_made_at_a_time_than_there_are_threads() -> None:
    async def program() -> list[bool]:
        calls, gates = CallThreads(2), [Gate() for _ in range(3)]
        made = [asyncio.create_task(calls.run(gate)) for gate in gates]
        await begun(gates[0])
        await begun(gates[1])
        third = gates[2].begun.is_set()
        gates[0].released.set()
        await begun(gates[2])
        for gate in gates:
            gate.released.set()
        assert await asyncio.gather(*made) == ["made"] * 3
        await calls.close(lambda: None)
        return [third]

    assert asyncio.run(program()) == [False]


def test_a_call_that_is_cancelled_while_it_waits_is_not_made() -> None:
    async def program() -> None:
        calls, first, second = CallThreads(1), Gate(), Gate()
        running = asyncio.create_task(calls.run(first))
        await begun(first)
        waiting = asyncio.create_task(calls.run(second))
        await asyncio.sleep(0)
        waiting.cancel()
        first.released.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await running == "made"
        await calls.close(lambda: None)
        assert not second.begun.is_set()

    asyncio.run(program())


def test_a_call_that_has_begun_is_carried_out_before_its_cancellation_is_raised() -> None:
    async def program() -> None:
        calls, gate = CallThreads(1), Gate()
        running = asyncio.create_task(calls.run(gate))
        await begun(gate)
        for _ in range(3):  # whoever cancels again does not interrupt it either
            running.cancel()
            await asyncio.sleep(0)
            assert not running.done()
        gate.released.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert gate.ended
        await calls.close(lambda: None)

    asyncio.run(program())


def test_a_block_that_is_cancelled_closes_its_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[None] = []

    async def program() -> None:
        inside = asyncio.Event()

        async def block() -> None:
            async with opened(tmp_path) as scheduler:
                store = scheduler.scheduler.service._store
                close = store.close
                monkeypatch.setattr(type(store), "close", lambda _store: closed.append(close()))
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(block())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
    assert closed == [None]


def test_a_wait_takes_no_thread_of_the_program(tmp_path: Path) -> None:
    async def program() -> None:
        async with opened(tmp_path, threads=1) as scheduler:
            task_id = (await scheduler.schedule("Call John", when="in 2 hours")).record.task.id
            waits = [asyncio.create_task(scheduler.wait(task_id)) for _ in range(3)]
            await scheduler.cancel(task_id)
            assert [view.record.run.state for view in await asyncio.gather(*waits)] == [State.CANCELLED] * 3
            with pytest.raises(TaskNotFound, match="t_000000000000"):
                await scheduler.wait("t_000000000000")
            with pytest.raises(InvalidArgument, match="timeout"):
                await scheduler.wait(task_id, timeout="soon")

    asyncio.run(program())


# --- threads and the end of the block ---


def of_calls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("duetime-call", "duetime-tool"))]


def test_waits_take_turns_on_the_threads_of_the_block(tmp_path: Path) -> None:
    before = len(of_calls())

    async def program() -> None:
        async with opened(tmp_path, threads=2) as scheduler:
            task_id = (await scheduler.schedule("Stretch", when="in 2 hours")).record.task.id
            views = await asyncio.gather(*(scheduler.wait(task_id, timeout=0.1) for _ in range(30)))
            assert {view.record.run.state for view in views} == {State.SCHEDULED}
            assert len(of_calls()) - before <= 3, "two for calls, and the one that closes"

    asyncio.run(program())


def test_a_scheduler_whose_block_has_ended_says_so_in_every_method(tmp_path: Path) -> None:
    async def program() -> AsyncScheduler:
        async with opened(tmp_path) as scheduler:
            pass
        for call in (
            scheduler.now,
            scheduler.list,
            lambda: scheduler.wait("t_1"),
            lambda: scheduler.schedule("Stretch"),
        ):
            with pytest.raises(
                DuetimeError, match=r"^this AsyncScheduler is closed.* `async with AsyncScheduler\.open"
            ):
                await call()
        return scheduler

    scheduler = asyncio.run(program())
    with pytest.raises(DuetimeError, match=r"^this AsyncScheduler is closed"):
        _ = scheduler.policies


def test_a_scheduler_opened_without_a_block_says_how_to_begin_it() -> None:
    with pytest.raises(AttributeError, match=r"Write `async with AsyncScheduler\.open\(\) as scheduler:`"):
        AsyncScheduler.open().schedule("Stretch")  # type: ignore[attr-defined] # the mistake under test
