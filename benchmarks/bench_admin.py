"""Measure the time that the server takes for each admin page with a million runs.

    python benchmarks/bench_admin.py [--runs 1000000] [--repeat 20] [--database all] [--keep DIR] [--cpu]

The database is that of `bench_history.py`. Pages are asked for over ASGI, without a socket, by an operator who looks at
all tenants: the most that a page ever reads. A figure is milliseconds: the median and the 95th percentile, how long the
page is, and its first answer, which is in neither. With `--cpu` it is the CPU of this process, which is all of the work
on SQLite. Read README.md here before quoting a number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles

import httpx2
from duetime.server.admin.renderer import load_overview
from duetime.server.admin.routes import routes
from duetime.server.app import App, build
from duetime.server.auth.access import GUARDED_SCOPE_KEY
from duetime.server.settings.model import Settings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_history import filled
from benchmarks.bench_million import opened

RUN = "/runs/r_100500000"
PAGES = (
    "",
    "/runs",
    "/runs?state=failed",
    "/runs?state=to_come",
    "/runs?q=zebra",
    "/runs?q=dentist&state=failed",
    "/runs?action=export&worker=w-rare",
    "/runs?priority=high&since=2026-06-01&until=2026-07-01",
    RUN,
    "/timeline",
    "/schedules",
    "/dead",
    "/pools",
    "/workers",
    "/cost",
    "/audit",
)


def unguarded(app: ASGIApp) -> ASGIApp:
    """Return the application as `duetime serve` without `auth` has it."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, GUARDED_SCOPE_KEY: False}, receive, send)

    return serve


async def measure(app: App, repeat: int, clock: Callable[[], float]) -> dict[str, tuple[float, float, int, float]]:
    """Return for each page the median, the 95th percentile, its length and first answer; none of an absent page."""
    served = unguarded(Starlette(routes=routes(lambda: app, app.settings, None)))
    found = {}
    load_overview()  # as a server does ten seconds after its start
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(served), base_url="http://127.0.0.1") as http:
        for page in PAGES:
            began = clock()
            answer = await http.get(f"/admin{page}")  # plans, most templates, and pages into memory
            first = (clock() - began) * 1000
            if answer.status_code != httpx2.codes.OK:
                print(f"{page}: {answer.status_code}")
                continue
            taken = []
            for _ in range(repeat):
                began = clock()
                await http.get(f"/admin{page}")
                taken.append((clock() - began) * 1000)
            parts = quantiles(taken, n=20, method="inclusive")
            found[page or "overview"] = (round(parts[9], 1), round(parts[18], 1), len(answer.content), round(first, 1))
            print(json.dumps({page or "overview": found[page or "overview"]}), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    parser.add_argument("--keep", type=Path, help="folder of a database that stays filled for the next call")
    parser.add_argument("--cpu", action="store_true", help="measure the CPU of this process")
    asked = parser.parse_args()
    clock = time.process_time if asked.cpu else time.perf_counter
    for name in ("postgres", "sqlite") if asked.database == "all" else (asked.database,):
        with opened(name, asked.keep) as store:
            filled(store, name, asked.runs)
            url = store._database.engine.url.render_as_string(hide_password=False)  # noqa: SLF001 - nothing public returns it
            settings = Settings.model_validate({"database_url": url, "desktop_notifications": "off", "timezone": "UTC"})
            with build(settings) as app:
                asyncio.run(measure(app, asked.repeat, clock))


if __name__ == "__main__":
    main()
