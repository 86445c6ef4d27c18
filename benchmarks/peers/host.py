"""One process of a peer: carries out commands, a JSON object a line, and answers each with one.

    python -m benchmarks.peers.host MODULE CLASS --redis URL --postgres URL --folder FOLDER

`bullmq.mjs` is the same for Node.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.peers.protocol import MARKS, PROVIDER, New, Peer, Place

SCHEDULE_CHUNK_ROWS = 1000
POLL_S = 0.005

Command = dict[str, Any]


def schedule(peer: Peer, asked: Command) -> Command:
    """Schedule `count` tasks, each batch due `step_s` after the one before; or as many as `limit_s` allows."""
    news = _news(asked)
    scheduled, began = 0, time.perf_counter()
    while chunk := list(islice(news, SCHEDULE_CHUNK_ROWS)):
        peer.schedule(chunk, asked["batch"])
        scheduled += len(chunk)
        if time.perf_counter() - began > asked["limit_s"]:
            break
    return {"scheduled": scheduled, "seconds": time.perf_counter() - began}


def _news(asked: Command) -> Iterator[New]:
    due, step_s = asked.get("due"), asked.get("step_s", 0)
    for number in range(asked["count"]):
        at = None if due is None else due + number // asked["batch"] * step_s
        yield New(f"{asked['name']}-{number}", at, asked.get("asks", False))


def trickle(peer: Peer, asked: Command) -> Command:
    """Schedule tasks for now, one at a time, with a pause between them: when each was called, and returned."""
    calls = []
    for number in range(asked["count"]):
        name = f"{asked['name']}-{number}"
        called = time.time()
        peer.schedule([New(name)], 1)
        calls.append((name, called, time.time()))
        time.sleep(random.uniform(*asked["gap_s"]))
    return {"calls": calls}


def serve(peer: Peer, _asked: Command) -> Command:
    peer.serve()
    return {}


def work(peer: Peer, asked: Command) -> Command:
    began = time.time()
    peer.work(asked["threads"])
    return {"began": began}


def wait(peer: Peer, asked: Command) -> Command:
    """Wait until so many tasks ended, or `limit_s` passed; returns when that was, and when each handler began."""
    give_up = time.monotonic() + asked["limit_s"]
    while len(MARKS) < asked["count"] and time.monotonic() < give_up:
        time.sleep(POLL_S)
    while not peer.settled(asked["count"]) and time.monotonic() < give_up:
        time.sleep(POLL_S)
    seconds = PROVIDER.last - PROVIDER.first
    called = {"answered": PROVIDER.answered, "refused": PROVIDER.refused, "seconds": seconds}
    return {"ended": time.time(), "marks": MARKS, "provider": {**called, "most": PROVIDER.most_a_second}}


COMMANDS: dict[str, Callable[[Peer, Command], Command]] = {
    "schedule": schedule,
    "trickle": trickle,
    "serve": serve,
    "work": work,
    "wait": wait,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("peer")
    for name in ("--redis", "--postgres"):
        parser.add_argument(name, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    peer: Peer = getattr(importlib.import_module(f"benchmarks.peers.{options.module}"), options.peer)()
    peer.set_up(Place(options.redis, options.postgres, options.folder))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(COMMANDS[asked["do"]](peer, asked)), flush=True)
    peer.close()
    sys.stdout.flush()
    os._exit(0)  # threads of a peer that nobody can stop shall not keep its process


if __name__ == "__main__":
    main()
