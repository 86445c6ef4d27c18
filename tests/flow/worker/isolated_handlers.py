"""Handlers that run in a process of their own, where tests of isolation can have them imported."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

from duetime import Context, Done, Failed, Spawn, Wait, handler
from pydantic import BaseModel


class Words(BaseModel):
    """The payload of `everything`."""

    words: list[str]


@handler("everything", payload=Words, needs={"gpu": 1}, isolation="process")
def everything(ctx: Context, payload: Words) -> Done:
    """Use all that a context has."""
    print("what a handler prints")  # noqa: T201 - it must not get between the worker and its process
    ctx.use("gpu", 0.5)
    facts = [ctx.title, ctx.attempt, ctx.checkpoint_state, ctx.cancelled, ctx.should_yield(), ctx.now().isoformat()]
    saved = ctx.checkpoint({"at": 3})
    shown = ctx.progress(1.0, "all")
    return Done(" ".join(payload.words), {"facts": facts, "saved": saved, "shown": shown, "pid": os.getpid()})


@handler("throttled", needs={"gpu": 1}, isolation="process")
def throttled(ctx: Context) -> Wait:
    """Find the provider busy."""
    return ctx.throttled("gpu", timedelta(seconds=5), checkpoint={"at": 4})


@handler("fails", isolation="process")
async def fails(_ctx: Context) -> Failed:
    """Fail, as an async handler."""
    await asyncio.sleep(0)
    return Failed("no such customer", {"id": 7})


@handler("raises", isolation="process")
def raises(_ctx: Context) -> Done:
    """Raise something."""
    raise LookupError("no such file")


@handler("dies", isolation="process")
def dies(_ctx: Context) -> Done:
    """Take the process along, as a broken library does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return Done()


@handler("is_killed", isolation="process")
def is_killed(ctx: Context) -> Done:
    """Be killed alone, as for want of memory, while a process that was forked has the pipes as well."""
    other = os.fork()
    if not other:
        threading.Event().wait()
        os._exit(0)
    ctx.checkpoint(other)
    os.kill(os.getpid(), signal.SIGKILL)
    return Done()


@handler("blocks", isolation="process", time_limit=2)
def blocks(ctx: Context) -> Done:
    """Block for ever, with a process of its own making, deaf to interrupts."""
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    ctx.checkpoint([os.getpid(), other.pid])
    while True:
        try:
            threading.Event().wait()
        except BaseException:  # noqa: BLE001 - a handler that cannot be stopped is what is tested
            continue


@handler("asks", isolation="process")
def asks(ctx: Context) -> Done:
    """Read what the tasks before it returned."""
    return Done(str(len(ctx.inputs)))


@handler("spins", isolation="process", time_limit=2)
def spins(ctx: Context) -> Done:
    """Go on for ever, in steps that an interrupt can come between."""
    ctx.checkpoint("begun")
    while True:
        threading.Event().wait(0.001)


def fail() -> None:
    """Raise something."""
    raise LookupError("caught")


@handler("talks", isolation="process")
def talks(_ctx: Context) -> Done:
    """Log and print, in its own thread and in another."""
    log = logging.getLogger("shop")
    log.info("by %s", "logging", extra={"customer": 7})
    log.debug("too low a level")
    try:
        fail()
    except LookupError:
        log.exception("with its traceback")
    asyncio.run(asyncio.to_thread(log.info, "in another thread"))
    print("printed 100%", "s", sep="")  # noqa: T201 - that is what is tested
    print("not ended", end="", flush=True)  # noqa: T201 - the same
    return Done()


@handler("signs-in", isolation="process")
def signs_in(ctx: Context) -> Done:
    """Raise the value of a secret."""
    value = ctx.secret("crm")
    raise LookupError(f"{value} of {len(value)}")


@handler("order", isolation="process")
def order(ctx: Context) -> Done | Wait:
    """Order something, wait for the payment, and send it; or give up."""
    event = ctx.event
    if ctx.checkpoint_state is None:
        return Wait(event="order.paid", match={"order": 7}, timeout=timedelta(hours=1), checkpoint={"ordered": True})
    return Done("paid", dict(event.data)) if event else Done(f"too late: {ctx.event_timed_out}")


@handler("asks-user", isolation="process")
def asks_user(ctx: Context) -> Done | Wait:
    """Ask the user, and say what the answer was."""
    answer = ctx.approval
    return Done(f"{answer.approved}: {answer.reason}") if answer else Wait(approval="May it go on?")


@handler("leaves", isolation="process")
async def leaves(_ctx: Context) -> Done:
    """End the program, as a library's parser of arguments does."""
    sys.exit(3)


@handler("spawns-text", isolation="process")
def spawns_text(_ctx: Context) -> Done:
    """Spawn what is no object."""
    return Spawn(["fetch"])  # type: ignore[list-item]  # the mistake under test
