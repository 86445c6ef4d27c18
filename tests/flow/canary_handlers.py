"""Handlers that let a secret out in every way there is; a server imports them for the canary test."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from duetime import Context, Done, Failed, handler

log = logging.getLogger("shop")


@handler("raises")
def raises(ctx: Context) -> Done:
    """Raise the value."""
    raise LookupError(f"no customer with {ctx.secret('canary')}")


@handler("returns")
async def returns(ctx: Context) -> Done:
    """Return the value."""
    value = ctx.secret("canary")
    ctx.progress(1.0, value)
    return Done(value, {"headers": {value: [value]}})


@handler("talks")
def talks(ctx: Context) -> Failed:
    """Log and print the value, on threads of its own too."""
    value = ctx.secret("canary")
    threads = [threading.Thread(target=log.warning, args=("signed in by %s", value))]
    for thread in threads:
        thread.start()
    log.error("by %s", value, extra={"token": value}, exc_info=LookupError(value))
    print(f"printed {value}")  # noqa: T201 - what is tested
    for thread in threads:
        thread.join()
    return Failed(value, [value])


@handler("crashes", isolation="process")
def crashes(ctx: Context) -> Done:
    """Take its process along while it holds the value."""
    value = ctx.secret("canary")
    log.warning("by %s", value)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return Done(value)


@handler("hangs", time_limit=1)
def hangs(ctx: Context) -> Done:
    """Hold the value until its time is over."""
    value = ctx.secret("canary")
    while value:
        threading.Event().wait(0.005)
    return Done()
