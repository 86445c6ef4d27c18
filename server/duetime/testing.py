"""For the tests of a program: run a handler as a worker does, and open a scheduler that nothing else shares."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from duetime.scheduler.chain.steps import SPAWNED_TASKS, steps_in_order
from duetime.scheduler.errors import DuetimeError, HandlerError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Context, Handler, Plugin, WatchCheck, run_handler
from duetime.scheduler.handlers.invocation import refused_payload
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.task import Json
from duetime.server.python.checked_link import CheckedLink as Link
from duetime.server.python.checked_link import link_example
from duetime.server.python.scheduler import ProgramScheduler
from duetime.server.settings.layers import Layers
from duetime.server.settings.model import Settings

__all__ = ["Link", "arun", "context", "open_scheduler", "run"]

_READ_FROM_LINK: Final = ("inputs", "approval", "event")

AnyHandler: TypeAlias = Handler[..., Any]


def context(**facts: Any) -> Context:
    """Return a context without a worker; `facts` replaces any field, such as `attempt=2`.

    Raises InvalidArgument for a fact that a context does not have.
    """
    for name in facts:
        _check_fact(name)
    return Context.for_test(**facts)


def _check_fact(name: str) -> None:
    known = [item.name for item in fields(Context) if not item.name.startswith("_")]
    if name in known:
        return
    problem, example = "a context has no such fact", "attempt=2"
    if name in _READ_FROM_LINK:
        problem, example = "a context reads it from its link", link_example(name)
    raise InvalidArgument(name, problem, accepted=", ".join(known), example=example)


def run(tested: AnyHandler, payload: Mapping[str, Json] | None = None, *, ctx: Context | None = None) -> Outcome:
    """Run one attempt as a worker does, and return its outcome.

    An exception becomes `Retry`; a payload that the handler's model refuses, a result that is no outcome, and tasks
    that cannot be spawned, `Failed`. A context without needs has those of the handler. Time limit, preflight, isolation
    and the actions of spawned tasks are for `open_scheduler(run=True)`. Raises HandlerError for a plain function, and
    for an async handler within a running event loop.
    """
    plain: object = tested
    if not isinstance(plain, Handler):
        raise HandlerError(f"testing.run: {_remedy(plain)}")
    if tested.is_async and _in_loop():
        raise HandlerError(
            f"testing.run: {tested.name} is async, and an event loop is running; "
            f"write `await testing.arun({tested.name}, ...)`"
        )
    given = ctx or Context.for_test()
    try:
        stored = tested.check(payload or {})  # as it would be stored: the run reads that
    except InvalidArguments as error:
        return refused_payload(tested, error)
    outcome = run_handler(tested, given if given.needs else replace(given, needs=tested.needs), stored)
    if not isinstance(outcome, Done) or not outcome.spawn:
        return outcome
    try:
        steps_in_order(outcome.spawn, SPAWNED_TASKS)
    except DuetimeError as refused:
        return Failed(f"it cannot spawn its tasks: {refused}", outcome.result)
    return outcome


def _remedy(plain: object) -> str:
    if isinstance(plain, WatchCheck):
        return f"{plain.name} is a check of a watch; call it, as in check(testing.context(), {{'city': 'Bern'}})"
    name = getattr(plain, "__name__", type(plain).__name__)
    known = name if name.isidentifier() else "name"
    return f'{name} has no @handler; write @handler("{known}") above its def'


async def arun(tested: AnyHandler, payload: Mapping[str, Json] | None = None, *, ctx: Context | None = None) -> Outcome:
    """Run one attempt as `run` does, from an async test: on a thread, as a worker would."""
    return await asyncio.to_thread(run, tested, payload, ctx=ctx)


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def open_scheduler(
    *, handlers: Sequence[Plugin] = (), run: bool = False, **settings: Any
) -> Iterator[ProgramScheduler]:
    """Open a scheduler on a new database, which is gone after the block; it reads neither environment nor files.

    It has `handlers`, and none of other installed packages. `settings` are those of `Settings`; times are in UTC
    unless they say otherwise. With `run`, what is due runs here, on all threads whatever the load of the machine.
    Raises InvalidSetting.
    """
    with tempfile.TemporaryDirectory(prefix="duetime-") as folder:
        usual = {
            "database_url": f"sqlite:///{Path(folder) / 'duetime.db'}",
            "sqlite_synchronous": "OFF",
            "desktop_notifications": "off",
            "timezone": "UTC",
            "yield_to_load": False,
        }
        given = Layers(Settings.model_fields, usual | settings, dict.fromkeys(settings, "testing.open_scheduler"))
        with given.explained():
            read = Settings.model_validate(given.values)
        with ProgramScheduler.open(read, handlers=handlers, run=run, entry_points=False) as opened:
            yield opened
