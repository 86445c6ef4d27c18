"""Measure how long 20 clients over HTTP wait for their answers, when all of them call at once.

    python benchmarks/bench_http_clients.py [--clients 20] [--calls 30] [--rounds 3] [--json]

`duetime serve` runs as users run it: on a new SQLite file, every answer after its commit (synchronous=FULL). All
clients are in this process, each with a connection of its own. In each round they call `get_task`, then
`schedule_task`, as fast as they are answered. The promise: the median of `schedule_task` is at most 3 times that of
`get_task`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import anyio
from mcp import Client

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_tool_call import command, http_process, surroundings

PERCENTILE_COUNT = 100


async def calls(client: Client, tool: str, count: int, arguments: dict[str, Any], took: list[float]) -> None:
    for number in range(count):
        titled = {**arguments, "title": f"{arguments['title']} {number}"} if "title" in arguments else arguments
        began = time.perf_counter()
        answer = await client.call_tool(tool, titled)
        took.append((time.perf_counter() - began) * 1000)
        assert not answer.is_error, answer


async def burst(clients: list[Client], tool: str, count: int, arguments: dict[str, Any]) -> list[float]:
    """Let all clients call at once; return how long each call took, in ms."""
    took: list[float] = []
    async with anyio.create_task_group() as group:
        for place, client in enumerate(clients):
            own = {**arguments, "title": f"client {place} {time.time_ns()}"} if "when" in arguments else arguments
            group.start_soon(calls, client, tool, count, own, took)
    return took


async def measure(count: int, each: int, rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"get_task": [], "schedule_task": []}
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        http_process(command("schedule_task", "http"), surroundings(folder, None)) as (_, address),
    ):
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(address)) for _ in range(count)]
            new = {"when": "tomorrow at 9am"}
            made = await clients[0].call_tool("schedule_task", {"title": "Read me", **new})
            assert made.structured_content is not None
            named = {"task_id": made.structured_content["id"]}
            await burst(clients, "schedule_task", 3, {"title": "", **new})
            for _ in range(rounds):
                found["get_task"] += await burst(clients, "get_task", each, named)
                found["schedule_task"] += await burst(clients, "schedule_task", each, {"title": "", **new})
    return found


def figures(took: list[float]) -> dict[str, float]:
    return {"p50_ms": round(median(took), 1), "p99_ms": round(quantiles(took, n=PERCENTILE_COUNT)[-1], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = anyio.run(measure, given.clients, given.calls, given.rounds)
    said = {tool: figures(took) for tool, took in found.items()}
    ratio = round(said["schedule_task"]["p50_ms"] / said["get_task"]["p50_ms"], 2)
    if given.json:
        print(json.dumps({**said, "ratio": ratio}))
        return
    for tool, each in said.items():
        print(f"{tool:<14} p50 {each['p50_ms']:7.1f} ms   p99 {each['p99_ms']:7.1f} ms")
    print(f"the median of schedule_task is {ratio} times that of get_task")


if __name__ == "__main__":
    main()
