"""Time of `schedule_task` for a client, against a tool on the same server that does nothing.

Run: python benchmarks/bench_tools.py [--calls 500] [--transport stdio] [--json]

Real clients of mcp 2.3 call in turn, one call at a time, over stdio, HTTP and in memory, in both protocol eras. Calls
of both tools alternate, so that a noisy moment hits both. FULL is SQLite as it is delivered (WAL, synchronous=FULL: a
power cut loses nothing), OFF the same without waiting for the disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import anyio
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.transport.http import HttpSite, listening, run_http
from duetime.server.transport.stdio import run_stdio
from duetime.server.transport.stdio_wire import Wire
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

WARM_UP_COUNT = 30
ERAS = {"2026-07-28": "2026-07-28", "2025-11-25": "legacy"}


def make(url: str, synchronous: str) -> tuple[MCPServer[None], Store]:
    store = open_store(url, synchronous=synchronous)
    changes = Subscriptions(lambda: store.history)
    scheduler = Scheduler(
        store, Planner(Handlers.load(), "America/Edmonton"), notices=ChangeNotices(on_change=changes.touched)
    )
    server = make_server(lambda: scheduler, changes)

    async def noop(title: str, when: str) -> str:
        return f"{title} {when}"

    server.add_tool(noop)
    return server, store


def serve(transport: str, url: str, synchronous: str) -> int:
    wire = Wire.claim() if transport == "stdio" else None
    configure_logs("warning", "json")
    server, store = make(url, synchronous)
    if wire is not None:
        return run_stdio(server, wire, ends=ProcessEnd(close=store.close))
    with listening("127.0.0.1", 0) as bound:
        return run_http(HttpSite(server, always), bound, ends=ProcessEnd(close=store.close))


def always(*, verbose: bool) -> str:
    return f"ok{' ' * verbose}"


@contextmanager
def http_process(command: list[str]) -> Iterator[str]:
    with Popen(command, stdout=DEVNULL, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        yield next(line for line in process.stderr if "serves MCP at" in line).split()[-1]
        process.terminate()


@asynccontextmanager
async def target(transport: str, url: str, synchronous: str) -> AsyncIterator[Any]:
    command = [__file__, "--serve", transport, url, synchronous]
    if transport == "memory":
        server, store = make(url, synchronous)
        yield server
        store.close()
    elif transport == "stdio":
        yield StdioServerParameters(command=sys.executable, args=command)
    else:
        with http_process([sys.executable, *command]) as found:
            yield found


async def timed(client: Client, tool: str, number: int) -> float:
    arguments = {"title": f"Call John {number}", "when": "in 2 hours"}
    began = time.perf_counter()
    answer = await client.call_tool(tool, arguments)
    took = time.perf_counter() - began
    assert not answer.is_error, answer
    return took * 1_000


async def measure(transport: str, era: str, synchronous: str, calls: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        async with (
            target(transport, f"sqlite:///{folder}/duetime.db", synchronous) as found,
            Client(found, mode=ERAS[era]) as client,
        ):
            times: dict[str, list[float]] = {"noop": [], "schedule_task": []}
            for number in range(calls + WARM_UP_COUNT):
                for tool, taken in times.items():
                    taken.append(await timed(client, tool, number))
    figures = {tool: figure(taken[WARM_UP_COUNT:]) for tool, taken in times.items()}
    ratio = figures["schedule_task"]["p50"] / figures["noop"]["p50"]
    return {"transport": transport, "era": era, "synchronous": synchronous, **figures, "ratio_p50": round(ratio, 2)}


def figure(taken: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": round(cuts[49], 3), "p95": round(cuts[94], 3)}


def line(row: dict[str, Any]) -> str:
    noop, schedule = row["noop"], row["schedule_task"]
    return (
        f"{row['transport']:7} {row['era']} synchronous={row['synchronous']:4}  "
        f"noop p50 {noop['p50']:6.2f} p95 {noop['p95']:6.2f} ms   "
        f"schedule_task p50 {schedule['p50']:6.2f} p95 {schedule['p95']:6.2f} ms   ratio {row['ratio_p50']:.2f}"
    )


async def main(calls: int, transports: list[str], as_json: bool) -> None:
    configure_logs("warning", "text")
    rows = []
    for synchronous in ("OFF", "FULL"):
        for transport in transports:
            for era in ERAS:
                rows.append(await measure(transport, era, synchronous, calls))
                if not as_json:
                    print(line(rows[-1]), flush=True)
    if as_json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(*sys.argv[2:5]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--transport", action="append", choices=["stdio", "http", "memory"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    anyio.run(main, options.calls, options.transport or ["stdio", "http", "memory"], options.json)
