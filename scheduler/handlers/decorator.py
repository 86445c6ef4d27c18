"""The decorator that makes a function the handler of an action, and keeps its types."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from duetime.scheduler.errors import HandlerError
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import (
    DEFAULT_TIME_LIMIT,
    MAX_TIME_LIMIT,
    Handler,
    HandlerFunction,
    Isolation,
    Preflight,
    check_name,
    summary_of,
)
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.task import RetryPolicy
from pydantic import BaseModel

P = ParamSpec("P")
ModelT = TypeVar("ModelT", bound=BaseModel)
OutcomeT = TypeVar("OutcomeT", bound=Outcome | Coroutine[Any, Any, Outcome])


class HandlerOptions(TypedDict, total=False):
    """The keyword arguments of `handler` besides `payload`."""

    time_limit: float
    retry: RetryPolicy | None
    needs: Mapping[str, int] | None
    estimate: float | None
    description: str
    isolation: Isolation
    preflight: Preflight | None


class ModelDecorator(Protocol[ModelT]):
    """Decorates a function whose second parameter takes the payload's model; further ones need defaults."""

    def __call__(
        self, fn: Callable[Concatenate[Context, ModelT, P], OutcomeT], /
    ) -> Handler[Concatenate[Context, ModelT, P], OutcomeT]: ...


class PlainDecorator(Protocol):
    """Decorates a function of the context alone, or of the context and the payload as a JSON object."""

    @overload
    def __call__(self, fn: Callable[[Context], OutcomeT], /) -> Handler[[Context], OutcomeT]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Context, dict[str, Any], P], OutcomeT], /
    ) -> Handler[Concatenate[Context, dict[str, Any], P], OutcomeT]: ...


@overload
def handler(name: str, *, payload: type[ModelT], **options: Unpack[HandlerOptions]) -> ModelDecorator[ModelT]: ...
@overload
def handler(name: str, *, payload: None = None, **options: Unpack[HandlerOptions]) -> PlainDecorator: ...
def handler(
    name: str,
    *,
    payload: type[BaseModel] | None = None,
    time_limit: float = DEFAULT_TIME_LIMIT.total_seconds(),
    retry: RetryPolicy | None = None,
    needs: Mapping[str, int] | None = None,
    estimate: float | None = None,
    description: str = "",
    isolation: Isolation = "thread",
    preflight: Preflight | None = None,
) -> Callable[[HandlerFunction], Handler]:
    """Declare a function, sync or async, as the handler of the action `name`.

    `time_limit` is in seconds, for one attempt; so is `estimate`, the usual duration. `needs` are whole units by pool
    that a run holds from start to end. With `isolation="process"` each attempt runs in a process of its own, which is
    killed when it does not stop. `preflight` returns what a run misses. `description` defaults to the first line of the
    docstring. Raises `HandlerError` at once when the declaration is wrong.
    """
    check_name(name)

    def declare(fn: HandlerFunction) -> Handler:
        return Handler(
            name=name,
            fn=fn,
            payload_model=payload,
            time_limit=_seconds(name, "time_limit", time_limit),
            retry=retry,
            needs=needs or {},
            estimate=None if estimate is None else _seconds(name, "estimate", estimate),
            description=description or summary_of(fn),
            isolation=isolation,
            preflight=preflight,
        )

    return declare


def _seconds(name: str, argument: str, value: object) -> timedelta:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= MAX_TIME_LIMIT.total_seconds():
        raise HandlerError(f"handler {name}: {argument} is {value!r}; give seconds above 0 and at most a day, say 30")
    return timedelta(seconds=number)
