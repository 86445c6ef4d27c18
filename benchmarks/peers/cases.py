"""The five cases. Each measures one system in an installation of its own, in at most about a minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.peers.client import Installation
from benchmarks.peers.provider import CALLS_PER_S, least_seconds
from benchmarks.peers.systems import System

TASKS_PER_BATCH = 200
CASE_LIMIT_S = 55.0
FILL_LIMIT_S = 30.0
DRAIN_THREAD_COUNT = 8
THREAD_COUNT = 16
DAY_S = 86_400
BURST_LEAD_S = 6.0
WARM_UP_COUNT = 5
IDLE_GAP_S = (0.3, 0.9)

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a case."""

    tasks: int = 4000
    scheduled: int = 1000
    idle: int = 40
    pending: int = 100_000
    burst: int = 1000
    calls: int = 400


def schedule(_system: System, there: Installation, sizes: Sizes) -> Figures:
    """Measure how many tasks a second one caller stores, one in a call and 200 in a call, all for another day."""
    due = time.time() + DAY_S
    asked = {"due": due, "step_s": 1, "limit_s": 20}
    there.producer.ask("schedule", name="warm", count=100, batch=1, **asked)
    one = there.producer.ask("schedule", name="one", count=sizes.scheduled, batch=1, **asked)
    many = there.producer.ask("schedule", name="many", count=10 * TASKS_PER_BATCH, batch=TASKS_PER_BATCH, **asked)
    return {"one a call /s": one["scheduled"] / one["seconds"], "200 a call /s": many["scheduled"] / many["seconds"]}


def drain(_system: System, there: Installation, sizes: Sizes) -> Figures:
    """Measure how many no-op tasks a second one process of 8 threads works off, from its start to the last end."""
    there.producer.ask("schedule", name="d", count=sizes.tasks, batch=TASKS_PER_BATCH, limit_s=FILL_LIMIT_S)
    began = there.worker.ask("work", threads=DRAIN_THREAD_COUNT)["began"]
    ended = there.worker.ask("wait", count=sizes.tasks, limit_s=CASE_LIMIT_S)
    return {"tasks /s": len(ended["marks"]) / (ended["ended"] - began)}


def start(_system: System, there: Installation, sizes: Sizes) -> Figures:
    """Measure how long a task for now takes to begin on an idle installation, one at a time."""
    there.worker.ask("work", threads=THREAD_COUNT)
    there.producer.ask("serve")
    time.sleep(2)
    calls = there.producer.ask("trickle", name="s", count=sizes.idle + WARM_UP_COUNT, gap_s=IDLE_GAP_S)["calls"][
        WARM_UP_COUNT:
    ]
    marks = dict(there.worker.ask("wait", count=sizes.idle + WARM_UP_COUNT, limit_s=10)["marks"])
    since_call = [marks.get(name, math.inf) - called for name, called, _ in calls]
    since_return = [marks.get(name, math.inf) - returned for name, _, returned in calls]
    return {
        "call p50 ms": _ms(since_call, 0.5),
        "return p50 ms": _ms(since_return, 0.5),
        "call p99 ms": _ms(since_call, 0.99),
    }


def timers(_system: System, there: Installation, sizes: Sizes) -> Figures:
    """Measure how late 1,000 tasks begin that are due at one second, with 100,000 others pending."""
    later = time.time() + DAY_S
    asked = {
        "name": "p",
        "count": sizes.pending,
        "batch": TASKS_PER_BATCH,
        "due": later,
        "step_s": 1,
        "limit_s": FILL_LIMIT_S,
    }
    pending = there.producer.ask("schedule", **asked)["scheduled"]
    there.worker.ask("work", threads=THREAD_COUNT)
    there.producer.ask("serve")
    time.sleep(1)
    due = math.ceil(time.time() + BURST_LEAD_S)
    stored = there.producer.ask("schedule", name="b", count=sizes.burst, batch=TASKS_PER_BATCH, due=due, limit_s=20)
    marks = there.worker.ask("wait", count=sizes.burst, limit_s=25)["marks"]
    late = [at - due for _, at in marks] + [math.inf] * (sizes.burst - len(marks))
    assert stored["seconds"] < BURST_LEAD_S, "the burst was due before it was stored"
    return {"p50 ms": _ms(late, 0.5), "p99 ms": _ms(late, 0.99), "pending": pending}


def provider(system: System, there: Installation, sizes: Sizes) -> Figures:
    """Measure 400 calls to a provider of 50 a second: the time against the least possible, and how many are refused."""
    if not system.limits:
        return {}
    there.producer.ask("schedule", name="c", count=sizes.calls, batch=TASKS_PER_BATCH, asks=True, limit_s=FILL_LIMIT_S)
    there.worker.ask("work", threads=THREAD_COUNT)
    found = there.worker.ask("wait", count=sizes.calls, limit_s=CASE_LIMIT_S)["provider"]
    bound = least_seconds(sizes.calls)
    return {
        "times the bound": found["seconds"] / bound if found["answered"] == sizes.calls else math.inf,
        f"times {CALLS_PER_S} a second": found["seconds"] * CALLS_PER_S / sizes.calls,
        "refused": found["refused"],
    }


CASES: dict[str, Callable[[System, Installation, Sizes], Figures]] = {
    "schedule": schedule,
    "drain": drain,
    "start": start,
    "timers": timers,
    "provider": provider,
}


def _ms(seconds: Sequence[float], part: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))] * 1000
