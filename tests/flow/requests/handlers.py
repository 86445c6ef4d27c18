"""The actions of the installation that `docs/requests.md` talks to: they do what the page says, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duetime.scheduler.handlers import Context, Handlers, handler, watch_check
from duetime.scheduler.outcomes import Done, Failed, Outcome
from pydantic import BaseModel

FREE_FROM_HOUR = 18
PACKED_UNTIL_DAY = 24


class Import(BaseModel):
    """The file whose orders are imported."""

    file: str


@handler("import_orders", payload=Import, estimate=60)
def import_orders(ctx: Context, payload: Import) -> Outcome:
    """Import the orders of a file; `locked.csv` can only be read in the afternoon (UTC)."""
    ctx.progress(1, f"read {payload.file}")
    if payload.file == "locked.csv" and ctx.now().hour < FREE_FROM_HOUR:
        return Failed("locked.csv is locked until noon")
    return Done(f"imported 412 orders of {payload.file}", result={"orders": 412, "file": payload.file})


@handler("fetch_sales", estimate=120)
def fetch_sales(_ctx: Context) -> Outcome:
    """Fetch the sales of the day."""
    return Done("fetched 3 regions", result={"regions": ["north", "south", "west"]})


@handler("summarise", estimate=300)
def summarise(ctx: Context) -> Outcome:
    """Summarise what the tasks before it found."""
    found = [each for each in ctx.inputs.values() if isinstance(each, dict)]
    regions = [name for each in found for name in each.get("regions", [])]
    return Done(f"summarised {len(regions)} regions", result={"text": f"Sales are up in {', '.join(regions)}."})


@handler("send_mail", estimate=timedelta(seconds=5).total_seconds())
def send_mail(_ctx: Context) -> Outcome:
    """Send a mail."""
    return Done("sent")


@watch_check("parcel")
def parcel(ctx: Context, _arguments: Mapping[str, Any]) -> dict[str, str]:
    """Look up where a parcel is: it is shipped on Wednesday."""
    return {"status": "shipped" if ctx.now().day > PACKED_UNTIL_DAY else "packed"}


def handlers() -> Handlers:
    """Return the built-in actions and these."""
    return Handlers.load(entry_points=False, added=[import_orders, fetch_sales, summarise, send_mail, parcel])
