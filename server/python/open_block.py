"""The block of an opened scheduler: there is none before it, and none after it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from duetime.scheduler.errors import DuetimeError

T = TypeVar("T")


class SchedulerClosed(DuetimeError):
    """A scheduler is used after the end of its block."""

    code = "scheduler_closed"

    def __init__(self, owner: str) -> None:
        with_it = "async with" if owner.startswith("Async") else "with"
        super().__init__(
            f"this {owner} is closed, for its block has ended. Make the call within `{with_it} {owner}.open() as "
            "scheduler:`, or open another one."
        )


class _Unopened:
    """A scheduler before its block begins: each attribute is answered with the way to begin it."""

    owner: str
    keyword = "with"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"{self.owner}.open() has no {name!r} before its block begins. Write "
                f"`{self.keyword} {self.owner}.open() as scheduler:`, and use scheduler.{name} within it."
            )


class OpenBlock(_Unopened, AbstractContextManager[T], Generic[T]):
    """A `with` block around `inner`."""

    def __init__(self, owner: str, inner: AbstractContextManager[T]) -> None:
        self.owner = owner
        self._inner = inner

    def __enter__(self) -> T:
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._inner.__exit__(kind, error, trace)


class AsyncOpenBlock(_Unopened, AbstractAsyncContextManager[T], Generic[T]):
    """An `async with` block around `inner`."""

    keyword = "async with"

    def __init__(self, owner: str, inner: AbstractAsyncContextManager[T]) -> None:
        self.owner = owner
        self._inner = inner

    async def __aenter__(self) -> T:
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)
