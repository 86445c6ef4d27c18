"""A handler that code of any version loads: it notes each start and each effect in the file that `LEDGER` names."""

from __future__ import annotations

import os
import time

from duetime import Context, Done, handler
from pydantic import BaseModel


class Work(BaseModel):
    seconds: float = 0.05


@handler("effect", payload=Work, time_limit=60)
def effect(ctx: Context, payload: Work) -> Done:
    note("start", ctx)
    time.sleep(payload.seconds)
    note("effect", ctx)
    return Done("done")


def note(step: str, ctx: Context) -> None:
    """Append one line, as the ledger of the fault tests has it."""
    file = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{step} {ctx.idempotency_key} {ctx.attempt} {os.getpid()} {time.monotonic():.6f}\n".encode())
    os.close(file)
