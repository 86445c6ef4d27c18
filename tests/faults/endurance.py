"""Two servers, three workers, 10,000 tasks; a worker is killed every 5 s, and Redis loses everything in the middle.

    python -m tests.faults.endurance [--tasks 10000] [--seed 7] [--lease 30] [--kill-every 5]

Everything is scheduled over MCP, through both servers, with tiers, deadlines and pools drawn from the seed. Ends with 1
when any invariant does not hold, and prints what was shown.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from duetime.scheduler.principal import LOCAL
from mcp import Client
from valkey import Valkey

from tests.faults.invariants import classes, most_held, problems, recovered_in
from tests.faults.matrix import Servers, shared_ground
from tests.faults.record import Record
from tests.faults.world import Node, World
from tests.flow.waiting import eventually

POOLS = {"gpu": {"kind": "slots", "capacity": 3}, "api": {"kind": "slots", "capacity": 5}}
TIERS = ("critical", "high", "normal", "low", "background")
TIMEOUT_S = 1800.0
"""Seconds for all of it: so late may the last of 10,000 start, and a killed one of a low tier start again."""

MAX_CALLS_AT_ONCE = 4
WORKER_COUNT = 3
CONNECT = re.compile(r"http://127\.0\.0\.1:\d+/mcp")


def arguments(number: int, dice: random.Random) -> dict[str, Any]:
    """Return the arguments of one schedule call: what it is depends on the seed alone."""
    deadline, kind = dice.choice([("", ""), ("", ""), ("10 minutes", "soft-linear"), ("20 minutes", "hard")])
    needs = dice.choice([{}, {"gpu": 1}, {"api": 1}, {"gpu": 1, "api": 2}])
    return {
        "title": f"Task {number}",
        "when": "now",
        "action": "effect",
        "payload": {"seconds": round(dice.uniform(0.0, 0.03), 3)},
        "priority": dice.choice(TIERS),
        "idempotency_key": f"endurance-{number}",
        **({"deadline": deadline, "deadline_type": kind} if deadline else {}),
        **({"needs": needs} if needs else {}),
    }


async def schedule_all(world: World, urls: list[str], calls: list[dict[str, Any]]) -> None:
    """Schedule everything through all servers, several calls at once."""
    waiting = iter(calls)

    async def caller(client: Client) -> None:
        for call in waiting:
            answer = await client.call_tool("schedule_task", call)
            assert not answer.is_error, answer.content
            assert answer.structured_content is not None
            world.acknowledged[answer.structured_content["id"]] = LOCAL

    async def through(url: str) -> None:
        async with Client(url) as client:
            await asyncio.gather(*(caller(client) for _ in range(MAX_CALLS_AT_ONCE)))

    await asyncio.gather(*map(through, urls))


@contextmanager
def killing(world: World, every: float, dice: random.Random) -> Iterator[None]:
    """Kill one worker in the middle of its work every so many seconds, and start another in its place."""
    ended = threading.Event()
    workers = [world.start() for _ in range(WORKER_COUNT)]

    def run() -> None:
        while not ended.wait(every):
            busy = [node for node in workers if world.in_the_middle(node.pid)]
            if busy:
                victim = dice.choice(busy)
                world.kill(victim)
                workers[workers.index(victim)] = world.start()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def flush_in_the_middle(world: World, tasks: int) -> threading.Thread:
    """Empty Redis once, when half of the tasks have had their effect."""

    def run() -> None:
        eventually(lambda: world.effects().total() >= tasks / 2, "half of the work", TIMEOUT_S)
        assert world.ground.redis is not None
        with Valkey.from_url(world.ground.redis) as client:
            keys, busy = client.dbsize(), len(world.running())
            client.flushall()
        evidence = f"FLUSHALL: {keys} keys gone, {busy} runs under way, {world.effects().total()} effects until then"
        world.broke("FLUSHALL", evidence if keys and busy else "")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def url_of(server: Node) -> str:
    eventually(lambda: CONNECT.search(server.log.read_text()), "a server to listen", 60)
    found = CONNECT.search(server.log.read_text())
    assert found is not None
    return found.group()


def endure(world: World, given: argparse.Namespace) -> tuple[Record, float]:
    dice = random.Random(given.seed)
    calls = [arguments(number, dice) for number in range(given.tasks)]
    urls = [url_of(world.start(serve=True)) for _ in range(2)]
    began = time.monotonic()
    with killing(world, given.kill_every, dice):
        flush = flush_in_the_middle(world, given.tasks)
        asyncio.run(schedule_all(world, urls, calls))
        say(f"{len(world.acknowledged)} tasks scheduled over MCP in {time.monotonic() - began:.0f} s")
        eventually(lambda: world.effects().total() >= 0.97 * given.tasks, "nearly all of the work", TIMEOUT_S)
        flush.join()
    world.rest(180)
    return world.record(), time.monotonic() - began


def summary(record: Record, took: float, given: argparse.Namespace) -> None:
    states = Counter(run.state for run in record.runs)
    effects = Counter(line.run_id for line in record.ledger if line.step == "effect")
    crashed = sum(attempt.outcome == "crashed" for attempt in record.attempts)
    kills = [fault for fault in record.faults if fault.deaths]
    say(f"seed {given.seed}, lease {given.lease:g} s, a kill every {given.kill_every:g} s; took {took:.0f} s")
    say(f"tasks acknowledged: {len(record.acknowledged)}; runs: {dict(states)}; {dict(classes(record))}")
    say(f"workers killed in the middle of work: {len(kills)}; attempts that crashed: {crashed}")
    say(f"effects: {effects.total()}, of which repeated after a kill: {effects.total() - len(effects)}")
    say(f"what was killed could start again after {recovered_in(record) or 0:.1f} s at most")
    for pool, capacity in record.capacities.items():
        used = [sample.used for sample in record.samples if sample.pool == pool]
        say(
            f"pool {pool}, {capacity:g} units: at most {max(used, default=0):g} reserved in {len(used)} samples of the "
            f"queue, at most {most_held(record, pool)[0]:g} held by handlers at once"
        )
    for fault in record.faults:
        say(f"  {fault.name}: {fault.evidence}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.endurance", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--lease", type=float, default=30.0, help="seconds")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds")
    given = parser.parse_args()
    with ExitStack() as stack:
        servers = Servers()
        stack.callback(servers.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duetime-endurance-")))
        ground = stack.enter_context(shared_ground(servers, proxied=False))
        world = World(folder, ground, lease=given.lease, pools=POOLS, backlog=TIMEOUT_S, turn=TIMEOUT_S)
        stack.callback(world.close)
        record, took = endure(world, given)
    summary(record, took, given)
    found = problems(record)
    for problem in found[:50]:
        say(str(problem))
    say(f"{len(found)} problems" if found else "every invariant holds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
