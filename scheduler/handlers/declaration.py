"""Handlers: the code of an action, with all that it declares. A mistake is reported at once, with a remedy."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Generic, Literal, get_args

from duetime.scheduler.access.secret import SecretUse
from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.payload import as_json, check_bounds, payload_problems, read, stored_form
from duetime.scheduler.rules.retry import is_sound
from duetime.scheduler.task import Json, RetryPolicy
from duetime.scheduler.views import CHAIN_ACTION
from pydantic import BaseModel, ValidationError
from typing_extensions import ParamSpec, TypeVar

DEFAULT_TIME_LIMIT: Final = timedelta(minutes=10)
MAX_TIME_LIMIT: Final = timedelta(days=1)

log = logging.getLogger(__name__)

Isolation = Literal["thread", "process"]
HandlerFunction = Callable[..., Any]
Preflight = Callable[..., str | None]
P = ParamSpec("P", default=...)
ReturnT = TypeVar("ReturnT", default=Any)

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[P, ReturnT]):
    """The code of one action; it is called as its function is.

    `fn` is a function of (context) or (context, payload); the payload is an instance of `payload_model`, or without one
    the JSON object itself. `time_limit` bounds one attempt. `retry` applies to tasks without a policy of their own,
    `estimate` (the duration of a run) to tasks without one while none was learned. `needs` are units of each pool that
    a run holds; a task's own needs replace them.

    `isolation` says where an attempt runs: in a thread of the worker, or in a process of its own, which can be killed.
    `verify` refuses payloads by rules beyond the model (options, for example). `secrets` yields the secrets that a
    payload names, so that a task that names a wrong one is refused. Neither does I/O. `preflight` is called before each
    attempt with the context, or with the context and the payload, and returns what is missing. It is called when a task
    is scheduled too, unless `verify` has found the same then, which `checked_early=False` says. `interval` returns the
    member of a payload that says how long a run pauses between two attempts, and that time.

    With a `lease` its runs are executed elsewhere, by workers that claim them, and `fn` is never called. A claim lives
    for a lease without a heartbeat. `payload_schema` is the JSON Schema of such a payload.
    """

    name: str
    fn: Callable[P, ReturnT]
    payload_model: type[BaseModel] | None = None
    time_limit: timedelta = DEFAULT_TIME_LIMIT
    retry: RetryPolicy | None = None
    needs: Mapping[str, int] = field(default_factory=dict, hash=False)
    estimate: timedelta | None = None
    description: str = ""
    isolation: Isolation = "thread"
    verify: Callable[[Any], Iterable[InvalidArgument]] | None = None
    secrets: Callable[[Any], Iterable[SecretUse]] | None = None
    preflight: Preflight | None = None
    checked_early: bool = True
    interval: Callable[[Any], tuple[str, timedelta]] | None = None
    lease: timedelta | None = None
    payload_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    takes_payload: bool = field(init=False, repr=False, compare=False)
    """Whether the function has a parameter for the payload; computed once, because every attempt needs it."""
    is_async: bool = field(init=False, repr=False, compare=False)
    """Whether a call returns a coroutine; computed once, as above."""

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_function(self.name, self.fn)
        object.__setattr__(self, "takes_payload", _accepts(self.fn, 2))
        object.__setattr__(self, "is_async", _is_async(self.fn))
        _check_model(self.name, self.payload_model)
        _check_arity(self)
        _check_annotation(self)
        if not timedelta(0) < self.time_limit <= MAX_TIME_LIMIT:
            raise HandlerError(f"handler {self.name}: time_limit must be above 0 and at most a day, in seconds, say 30")
        if self.retry is not None and not is_sound(self.retry):
            raise HandlerError(
                f"handler {self.name}: retry must be a RetryPolicy with max_attempts 1 to 100 and timedeltas "
                "0 < backoff <= max_backoff, say RetryPolicy(max_attempts=3, backoff=timedelta(seconds=5))"
            )
        _check_needs(self.name, self.needs)
        _check_preflight(self)
        if self.isolation not in get_args(Isolation):
            raise HandlerError(f'handler {self.name}: isolation must be "thread" or "process"')

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ReturnT:
        """Call the function directly, for tests: `resize(Context.for_test(), Resize(path="a.png"))`."""
        return self.fn(*args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[P, ReturnT]:
        """The function, where `inspect` looks for it: the signature of a handler is that of its function."""
        return self.fn

    @property
    def has_early_check(self) -> bool:
        """Whether its preflight is called when a task is scheduled."""
        return self.preflight is not None and self.checked_early

    def schema(self) -> Mapping[str, Any] | None:
        """Return the JSON Schema of its payloads, None where it has none."""
        return self.payload_model.model_json_schema() if self.payload_model else self.payload_schema

    def preflight_arguments(self, ctx: Context, payload: Mapping[str, Json]) -> tuple[Any, ...]:
        """Return the arguments of its preflight. Raises `InvalidArguments` for a payload that is none."""
        takes_payload = self.preflight is not None and _accepts(self.preflight, 2)
        return (ctx, self.parse(payload, verified=False)) if takes_payload else (ctx,)

    def check(self, payload: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return the payload to store: checked, and with defaults filled in where its model reads them as the same.

        A model or a date of Python becomes JSON. Raises `InvalidArguments`, each with its path as `payload.x`.
        """
        with _contained(self.name):
            given = as_json(payload)
            value = self.parse(given)
            return stored_form(value, given) if isinstance(value, BaseModel) else dict(given)

    def parse(self, payload: Mapping[str, Json], *, verified: bool = True) -> Any:
        """Convert a payload to the function's argument; raises `InvalidArguments` as `check` does.

        Without `verified` only its types count: settings may refuse by now what they accepted once.
        """
        check_bounds(payload)
        if payload and not self.takes_payload:
            raise InvalidArguments([InvalidArgument("payload", f"{self.name} takes none", accepted="no payload")])
        with _contained(self.name):
            value = self._read(payload)
            problems = tuple(self.verify(value)) if self.verify and verified else ()
        if problems:
            raise InvalidArguments(problems)
        return value

    def _read(self, payload: Mapping[str, Json]) -> Any:
        if self.payload_model is None:
            return payload
        try:
            return read(self.payload_model, payload)
        except ValidationError as error:
            raise InvalidArguments(payload_problems(error, self.payload_model, payload)) from None


def summary_of(fn: object) -> str:
    """Return the first line of the docstring of a function, "" without one."""
    return (inspect.getdoc(fn) or "").partition("\n")[0]


def check_name(name: object) -> None:
    """Raise HandlerError unless `name` can be the name of an action."""
    if callable(name):
        raise HandlerError('write @handler("name"), not a bare @handler: tasks use the name as their `action`')
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HandlerError(
            f"handler name {str(name)[:80]!r}: use a lower-case letter, then at most 63 letters, digits, - or _, "
            'as in @handler("resize-image")'
        )
    if name == CHAIN_ACTION:
        raise HandlerError(f'handler name {name!r} stands for chains: use another, as in @handler("run-chain")')


def _check_function(name: str, fn: object) -> None:
    generates = inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
    if not callable(fn) or isinstance(fn, Handler | type) or generates:
        raise HandlerError(f"handler {name}: put @handler on a plain def or async def that returns an outcome")


def _check_model(name: str, model: object) -> None:
    if model is None:
        return
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        shown = getattr(model, "__name__", type(model).__name__)
        raise HandlerError(f"handler {name}: payload={shown} is not a pydantic model; subclass pydantic.BaseModel")
    if _has_secret_field(model):
        raise HandlerError(
            f"handler {name}: {model.__name__} has a secret field, and payloads are stored and shown as they are; "
            "name the secret, and read it by `ctx.secret` in the handler"
        )


@lru_cache(maxsize=1_000)
def _has_secret_field(model: type[BaseModel]) -> bool:
    """Whether a field is of a secret type: its JSON form is asterisks, so the value would be lost.

    Kept for each model, as a schema takes milliseconds and the built-in handlers are declared again for each registry.
    """
    return _holds_secret(model.model_json_schema())


def _holds_secret(schema: Json) -> bool:
    if isinstance(schema, dict):
        return schema.get("writeOnly") is True or any(_holds_secret(part) for part in schema.values())
    return isinstance(schema, list) and any(_holds_secret(part) for part in schema)


def _check_needs(name: str, needs: object) -> None:
    if not isinstance(needs, Mapping):
        raise HandlerError(f'handler {name}: needs maps pools to units, as in needs={{"gpu": 1}}')
    for pool, units in needs.items():
        whole = isinstance(units, int) and not isinstance(units, bool) and units >= 1
        if not isinstance(pool, str) or not _POOL.fullmatch(pool) or not whole:
            raise HandlerError(
                f"handler {name}: needs has {str(pool)[:40]!r}: {str(units)[:20]}; give the name of a pool and a whole "
                'number of units from 1, as in needs={"gpu": 1}'
            )


def _check_preflight(declared: Handler) -> None:
    fn = declared.preflight
    if fn is None:
        return
    if _is_async(fn) or not (_accepts(fn, 1) or _accepts(fn, 2)):
        raise HandlerError(
            f"handler {declared.name}: preflight must be a plain def of (ctx) or (ctx, payload) that returns a text or "
            f"None, as in def ready(ctx: {Context.__name__}{_payload_of(declared)}) -> str | None: ..."
        )


def _check_arity(declared: Handler) -> None:
    wanted = "(ctx, payload)" if declared.payload_model else "(ctx) or (ctx, payload)"
    fits = declared.takes_payload or (declared.payload_model is None and _accepts(declared.fn, 1))
    if not fits:
        raise HandlerError(f"handler {declared.name}: its function must take {wanted}, as in def {_example(declared)}")


def _check_annotation(declared: Handler) -> None:
    """Refuse a model that only the annotation names: without `payload=` the function is given the JSON object."""
    if declared.payload_model is not None or not declared.takes_payload:
        return
    model = _payload_annotation(declared.fn)
    if isinstance(model, type) and issubclass(model, BaseModel):
        raise HandlerError(
            f"handler {declared.name}: its payload is annotated as {model.__name__}, but @handler does not name it; "
            f'write @handler("{declared.name}", payload={model.__name__})'
        )


def _payload_annotation(fn: HandlerFunction) -> object:
    try:
        parameters = [*inspect.signature(fn, eval_str=True).parameters.values()]
    except (NameError, AttributeError, TypeError, SyntaxError):  # a name that only type checkers import
        return None
    return parameters[1].annotation if len(parameters) > 1 else None


def _example(declared: Handler) -> str:
    name = declared.name.replace("-", "_")
    return f"{name}(ctx: {Context.__name__}{_payload_of(declared)}) -> Outcome: ..."


def _payload_of(declared: Handler) -> str:
    return f", payload: {declared.payload_model.__name__}" if declared.payload_model else ""


def _accepts(fn: HandlerFunction, count: int) -> bool:
    try:
        inspect.signature(fn).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _is_async(fn: HandlerFunction) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - the method itself is wanted


class _contained:  # noqa: N801 - reads like a function
    """Translate whatever the code of a payload model raises; not even SystemExit ends the server."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, InvalidArguments | MemoryError):
            return
        if not isinstance(error, Exception | SystemExit):
            return
        log.error("handler %s: its payload model raised", self._name, exc_info=error)
        problem = f"cannot be checked: the payload model of {self._name} raised {type(error).__name__}"
        raise InvalidArguments(
            [InvalidArgument("payload", problem, accepted="input that the model can check")]
        ) from None
