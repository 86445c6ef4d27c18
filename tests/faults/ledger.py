"""A handler as a plug-in module has it: it notes each start and each effect in the file that `LEDGER` names."""

from __future__ import annotations

import os
import time

from duetime import Context, Done, handler
from pydantic import BaseModel


class Work(BaseModel):
    """How long the effect takes, in seconds."""

    seconds: float = 0.05


@handler("effect", payload=Work)
def effect(ctx: Context, payload: Work) -> Done:
    """Take a while, then have an effect."""
    _note("start", ctx)
    time.sleep(payload.seconds)
    _note("effect", ctx)
    return Done("done")


def _note(step: str, ctx: Context) -> None:
    """Write one line and see it on the disk before anything else happens."""
    file = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{step} {ctx.idempotency_key} {ctx.attempt} {os.getpid()}\n".encode())
    os.fsync(file)
    os.close(file)
