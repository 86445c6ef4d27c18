"""Handlers of an installation that goes wrong: each brings about the state of one alert."""

from __future__ import annotations

import time
from datetime import timedelta

from duetime import Context, Done, Retry, handler
from pydantic import BaseModel


class Work(BaseModel):
    seconds: float = 0.0


@handler("flaky")
def flaky(ctx: Context) -> Retry:
    """Fail whatever happens, soon again each time."""
    return Retry("the receiver answered 503", after=timedelta(milliseconds=100))


@handler("works", payload=Work)
def works(ctx: Context, payload: Work) -> Done:
    """Take this long."""
    time.sleep(payload.seconds)
    return Done()


@handler("spends")
def spends(ctx: Context) -> Done:
    """Use more of a budget than it has."""
    ctx.use("tokens", 150)
    return Done()
