"""Four chat clients, each with a `duetime` of its own on the same file; the runner is killed three times."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from duetime.scheduler.records import RunnerRecord
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from mcp import Client, MCPError, StdioServerParameters

from tests import forked
from tests.faults.conftest import PATIENCE_S, ROOT, assert_taken_over_at_once
from tests.faults.host import MODERN

pytestmark = pytest.mark.faults

TENANT = "local"
TASKS_PER_CLIENT = 40
KILL_COUNT = 3
THREAD_COUNT = 4
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": MODERN}}


class Table:
    """The database file that all share, and what is known of who works on it."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "ledger"
        self.store: Store = open_store(f"sqlite:///{folder / 'duetime.db'}")
        self.environment = {
            **os.environ,
            "DUETIME_DATABASE_URL": f"sqlite:///{folder / 'duetime.db'}",
            "DUETIME_HANDLERS": "tests.faults.ledger",
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_LOG_LEVEL": "error",
            "DUETIME_THREADS": str(THREAD_COUNT),
            "LEDGER": str(self.ledger),
        }

    def command(self) -> StdioServerParameters:
        return StdioServerParameters(
            command=sys.executable, args=["-m", "duetime"], env=self.environment, cwd=str(ROOT)
        )

    def idle_client(self) -> subprocess.Popen[bytes]:
        """Start the server of a chat that is open: it read the tools, and wants nothing."""
        server = forked.popen(
            [sys.executable, "-m", "duetime"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=self.environment,
            cwd=ROOT,
        )
        assert server.stdin is not None
        server.stdin.write(json.dumps(LIST_TOOLS).encode() + b"\n")
        server.stdin.flush()
        return server

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def runner(self) -> RunnerRecord | None:
        return self.store.runners.current()

    async def runner_after(self, epoch: int) -> RunnerRecord:
        """Return the next runner, once it has done what the last one left and is at work."""
        give_up = time.monotonic() + 60
        runner = await self.successor(epoch)
        while not self._works(runner.pid):
            assert time.monotonic() < give_up, "the runner does not work"
            await asyncio.sleep(0.01)
        return runner

    async def successor(self, epoch: int) -> RunnerRecord:
        give_up = time.monotonic() + 60
        while (runner := self.runner()) is None or runner.epoch <= epoch:
            assert time.monotonic() < give_up, "nobody took over"
            await asyncio.sleep(0.01)
        return runner

    def _works(self, pid: int) -> bool:
        """Whether a process has had more effects than it has threads, and has begun something more."""
        steps = Counter(line[0] for line in self.lines() if line[3] == str(pid))
        return THREAD_COUNT < steps["effect"] < steps["start"]


async def schedule(client: Client, name: str, acknowledged: list[str]) -> None:
    """Schedule until all is said or the server behind this client is killed; keep what was acknowledged."""
    for number in range(TASKS_PER_CLIENT):
        arguments = {"title": f"{name} {number}", "when": f"in {1 + number % 6} seconds", "action": "effect"}
        try:
            async with asyncio.timeout(60):
                answer = await client.call_tool("schedule_task", arguments)
        except (MCPError, OSError, TimeoutError):
            return
        assert not answer.is_error, answer.content
        acknowledged.append(answer.structured_content["id"])
        await asyncio.sleep(0.05)


async def kill_runners(table: Table) -> list[float]:
    """Kill the runner three times while it works; return how many seconds each take-over took."""
    taken, epoch = [], 0
    for _ in range(KILL_COUNT):
        runner = await table.runner_after(epoch)
        os.kill(runner.pid, signal.SIGKILL)
        killed_at = time.time()
        epoch = runner.epoch
        following = await table.successor(epoch)
        taken.append(following.started_at.timestamp() - killed_at)
    return taken


async def four_clients(table: Table) -> tuple[list[str], list[float]]:
    acknowledged: list[str] = []
    idle = table.idle_client()
    try:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(Client(table.command())) for _ in range(3)]
            work = [schedule(client, f"client {number}", acknowledged) for number, client in enumerate(clients)]
            killing = asyncio.create_task(kill_runners(table))
            await asyncio.gather(*work)
            taken = await killing
            await all_ended(table, acknowledged)
    finally:
        idle.kill()
        idle.wait(PATIENCE_S)
        assert idle.stdin is not None
        idle.stdin.close()
    return acknowledged, taken


async def all_ended(table: Table, task_ids: list[str]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while any(table.store.tasks.get(TENANT, task_id).run.state not in TERMINAL for task_id in task_ids):
        assert time.monotonic() < give_up, "some task did not end"
        await asyncio.sleep(0.05)


def test_every_task_confirmed_to_three_clients_runs_once_though_the_runner_dies_three_times(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path)
    acknowledged, taken = asyncio.run(four_clients(table))
    assert len(acknowledged) >= TASKS_PER_CLIENT, "the surviving clients said all they had to say"
    assert_taken_over_at_once(taken)
    effects = Counter(line[1] for line in table.lines() if line[0] == "effect")
    crashed = 0
    for task_id in acknowledged:
        run = table.store.tasks.get(TENANT, task_id).run
        outcomes = [attempt.outcome for attempt in table.store.history.attempts(TENANT, task_id)]
        assert run.state is State.SUCCEEDED
        assert outcomes == ["crashed"] * (len(outcomes) - 1) + ["done"]
        assert 1 <= effects[run.id] <= len(outcomes)
        crashed += len(outcomes) - 1
    assert crashed, "no kill hit running work, so this proves nothing"
    told = Counter(message.task_id for message in table.store.inbox.unread(TENANT, "local", limit=10_000))
    assert all(told[task_id] == 1 for task_id in acknowledged)
    table.store.close()
