"""Handlers as a plug-in module has them. Each notes its steps in the file that `LEDGER` names, and some misbehave.

A line is on the disk before anything else happens. It has the step, the idempotency key, the attempt, the process, and
the time (seconds) by the clock of the machine that nobody can set.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from duetime import Context, Done, Spawn, Wait, handler, watch_check
from pydantic import BaseModel

TIME_LIMIT_S = 1.0
MEMORY_STEP_BYTES = 64 << 20
MISBEHAVING = ("poison", "segfault", "exit", "hang", "deaf", "greedy")


class Work(BaseModel):
    """Seconds until the effect: of the first attempt and, where it says so, of the later ones; or until it must end."""

    seconds: float = 0.05
    later_seconds: float | None = None
    until_asked: bool = False


class Bad(BaseModel):
    """In how many of its first attempts the handler misbehaves; afterwards it has its effect."""

    times: int = 99
    seconds: float = 3.0


@handler("effect", payload=Work, time_limit=3600)
def effect(ctx: Context, payload: Work) -> Done:
    """Take a while, then have an effect."""
    note("start", ctx)
    while payload.until_asked and not ctx.should_yield():
        _work(0.005)
    _work(payload.seconds if ctx.attempt == 1 or payload.later_seconds is None else payload.later_seconds)
    note("effect", ctx)
    return Done("done")


@handler("waits_for_event", time_limit=3600)
def waits_for_event(ctx: Context) -> Done | Wait:
    """Wait for an event in the middle."""
    if ctx.checkpoint_state is None:
        return Wait(event="paid", match={"order": 7}, timeout=timedelta(days=1), checkpoint={"asked": True})
    assert ctx.event is not None
    note("effect", ctx)
    return Done("paid")


@handler("spawns", time_limit=3600)
def spawns(ctx: Context) -> Spawn:
    """Have an effect, and go on in two tasks, one after the other."""
    note("start", ctx)
    note("effect", ctx)
    return Spawn([{"name": "one", "action": "effect"}, {"name": "two", "action": "effect", "after": ["one"]}])


@handler("stubborn", payload=Bad, time_limit=3600)
def stubborn(ctx: Context, payload: Bad) -> Done:
    """Catch whatever shall stop it for a while, and then have its effect."""
    note("start", ctx)
    _hear_nothing(payload.seconds)
    return _done(ctx)


@handler("poison", payload=Bad)
def poison(ctx: Context, payload: Bad) -> Done:
    """Be killed, as by a machine that is out of memory."""
    if not _misbehaves(ctx, payload):
        return _done(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    return Done()


@handler("segfault", payload=Bad)
def segfault(ctx: Context, payload: Bad) -> Done:
    """Read what is not there, as a broken library does."""
    return Done(str(ctypes.string_at(0))) if _misbehaves(ctx, payload) else _done(ctx)


@handler("exit", payload=Bad)
def exit_(ctx: Context, payload: Bad) -> Done:
    """End the process without a word."""
    if _misbehaves(ctx, payload):
        os._exit(3)
    return _done(ctx)


@handler("hang", payload=Bad, time_limit=TIME_LIMIT_S)
def hang(ctx: Context, payload: Bad) -> Done:
    """Never come back, a moment of Python at a time."""
    if _misbehaves(ctx, payload):
        _work(3600)
    return _done(ctx)


@handler("deaf", payload=Bad, time_limit=TIME_LIMIT_S)
def deaf(ctx: Context, payload: Bad) -> Done:
    """Catch whatever shall stop it, and go on for `seconds`."""
    _hear_nothing(payload.seconds * _misbehaves(ctx, payload))
    return _done(ctx)


@handler("greedy", payload=Bad)
def greedy(ctx: Context, payload: Bad) -> Done:
    """Take memory until there is none."""
    taken: list[bytearray] = []
    while _misbehaves(ctx, payload, noted=bool(taken)):
        taken.append(bytearray(MEMORY_STEP_BYTES))
    return _done(ctx)


@watch_check("lamp")
def lamp(ctx: Context, arguments: Mapping[str, Any]) -> bool:
    """See whether a file is there; a watch that does has had its effect."""
    note("start", ctx)
    lit = Path(arguments["file"]).exists()
    if lit:
        note("effect", ctx)
    return lit


def note(step: str, ctx: Context) -> None:
    """Write one line and see it on the disk before anything else happens."""
    file = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = f"{step} {ctx.idempotency_key} {ctx.attempt} {os.getpid()} {time.monotonic():.6f}\n"
    os.write(file, line.encode())
    os.fsync(file)
    os.close(file)


def _misbehaves(ctx: Context, payload: Bad, *, noted: bool = False) -> bool:
    """Note the start, and tell whether this is one of the attempts that go wrong."""
    if not noted:
        note("start", ctx)
    return ctx.attempt <= payload.times


def _done(ctx: Context) -> Done:
    note("effect", ctx)
    return Done("done")


def _hear_nothing(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            _work(end - time.monotonic())
        except BaseException:  # noqa: BLE001 - that is the fault
            continue


def _work(seconds: float) -> None:
    """Wait in small steps, between which the thread can be interrupted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)
