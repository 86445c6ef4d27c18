"""Measure what a whole `schedule_task` costs the server: CPU of a real process, against a tool that does nothing.

    python benchmarks/bench_tool_call.py [--calls 1500] [--rounds 3] [--transport http] [--database-url URL] [--json]

`duetime serve` (HTTP) and `duetime` (stdio) run as users run them: with their dispatcher, on a new SQLite file, every
answer after its commit (synchronous=FULL). A second process serves one tool of the same SDK that does nothing, over
stdio by the SDK's own transport, over HTTP by ours. One client calls both in turn, in blocks of a hundred; `calls` is
how many each gets. The titles differ, the instants do not: `when` is "tomorrow at 9am" throughout.

Then the parts of such a call, in this process and on one thread, each as microseconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import anyio
import psutil
from duetime.server.transport.http import listening, run_http
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.tool_call_parts import parts, there_and_back_us

BLOCK = 100
WARM_UP_CALLS = 200
WHEN = "tomorrow at 9am"


def serve_noop(transport: str) -> int:
    """Serve one tool that does nothing."""
    logging.disable(logging.INFO)
    server: MCPServer[None] = MCPServer("noop", log_level="WARNING")

    @server.tool()
    async def noop(title: str, when: str) -> str:
        return f"{title} {when}"

    if transport == "stdio":
        server.run("stdio")
        return 0
    with listening("127.0.0.1", 0) as bound:
        return run_http(server, bound, ready=lambda **_: "ok")


@dataclass
class Target:
    """A server process, its client, and what its calls cost so far."""

    tool: str
    client: Client
    process: psutil.Process
    cpu_s: float = 0.0
    calls: int = 0
    made: int = 0

    async def block(self, calls: int) -> None:
        """Make calls one by one, and add up the CPU time of the server."""
        before = cpu_seconds(self.process)
        for _ in range(calls):
            self.made += 1
            answer = await self.client.call_tool(self.tool, {"title": f"Call John {self.made}", "when": WHEN})
            assert not answer.is_error, answer
        self.cpu_s += cpu_seconds(self.process) - before
        self.calls += calls

    def forget(self) -> None:
        self.cpu_s, self.calls = 0.0, 0

    @property
    def ms(self) -> float:
        return self.cpu_s * 1_000 / self.calls


def cpu_seconds(process: psutil.Process) -> float:
    """Return what all threads of a process have used, in user and kernel mode."""
    times = process.cpu_times()
    return times.user + times.system


def command(tool: str, transport: str) -> list[str]:
    if tool == "noop":
        return [sys.executable, __file__, "--serve-noop", transport]
    return [sys.executable, "-m", "duetime", *(["serve", "--port", "0"] if transport == "http" else [])]


def surroundings(folder: str, url: str | None) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    return {
        **clean,
        "DUETIME_DATABASE_URL": url or f"sqlite:///{folder}/duetime.db",
        "DUETIME_TIMEZONE": "America/Edmonton",
        "PYTHONUNBUFFERED": "1",
    }


@asynccontextmanager
async def target(tool: str, transport: str, folder: str, url: str | None) -> AsyncIterator[Target]:
    started, env = command(tool, transport), surroundings(folder, url)
    if transport == "stdio":
        before = set(psutil.Process().children())
        async with Client(StdioServerParameters(command=started[0], args=started[1:], env=env)) as client:
            (process,) = set(psutil.Process().children()) - before
            yield Target(tool, client, process)
        return
    with http_process(started, env) as (pid, address):
        async with Client(address) as client:
            yield Target(tool, client, psutil.Process(pid))


@contextmanager
def http_process(started: list[str], env: dict[str, str]) -> Iterator[tuple[int, str]]:
    with Popen(started, env=env, stdout=DEVNULL, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "serves MCP at" in line)
        try:
            yield process.pid, re.findall(r"http://[\d.:]+/mcp", said)[0]
        finally:
            process.terminate()


async def measure(transport: str, calls: int, url: str | None) -> dict[str, Any]:
    """Return what a call of each tool costs its server, in ms of CPU, and the ratio."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        async with AsyncExitStack() as stack:
            targets = [
                await stack.enter_async_context(target(tool, transport, folder, url))
                for tool in ("noop", "schedule_task")
            ]
            for each in targets:
                await each.block(WARM_UP_CALLS)
                each.forget()
            for _ in range(calls // BLOCK):
                for each in targets:
                    await each.block(BLOCK)
            noop, ours = (each.ms for each in targets)
    return {"transport": transport, "noop_ms": noop, "schedule_task_ms": ours, "ratio": ours / noop}


def line(row: dict[str, Any]) -> str:
    noop, ours, ratio = row["noop_ms"], row["schedule_task_ms"], row["ratio"]
    return f"{row['transport']:5}  no-op {noop:.2f} ms  schedule_task {ours:.2f} ms  ratio {ratio:.2f}"


async def main(options: argparse.Namespace) -> None:
    rows = []
    for transport in options.transport or ["http", "stdio"]:
        for _ in range(options.rounds):
            rows.append(await measure(transport, options.calls, options.database_url))
            print(line(rows[-1]), flush=True)
    spent = {"to a thread and back": await there_and_back_us(options.calls), **parts(options.calls, WHEN)}
    for name, us in spent.items():
        print(f"{us:6.0f} us  {name}")
    if options.json:
        print(json.dumps({"calls": rows, "parts_us": spent}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-noop"]:
        sys.exit(serve_noop(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transport", action="append", choices=["http", "stdio"])
    parser.add_argument("--database-url")
    parser.add_argument("--json", action="store_true")
    anyio.run(main, parser.parse_args())
