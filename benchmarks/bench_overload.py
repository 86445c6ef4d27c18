"""Cost of overload: the value of work finished in time under four orders, on the same traces, in virtual time.

    python benchmarks/bench_overload.py [--seeds 5] [--hours 2]

Eight threads and three classes of runs with hard deadlines, Poisson arrivals, log-normal lengths:

| class       | tier       | length | deadline after | value (the tier's default) |
|-------------|------------|--------|----------------|----------------------------|
| interactive | high       |    1 s | 10 to 20 s     | 8                          |
| normal      | normal     |    3 s | 84 to 156 s    | 4                          |
| batch       | background |   10 s | 21 to 39 min   | 1                          |

`bursts`: ten minutes at 1.2 times the capacity, ten at 0.6, and so on; the deadlines leave room, and EDF meets all.
`overload`: 1.6 times the capacity throughout. `crossed`: both with deadlines of 21 to 39 minutes for normal runs and
of 84 to 156 s for background ones. The last line of a trace bounds every order: a clairvoyant knapsack.

Ours is the real queue in memory with its shares and a pool of eight slots. It has keys of `rules.order`, estimates
learned on the way by `rules.estimates`, and hard runs dropped at `drop_at`. The others are plain sorts without any
drop; `+ drop` gives them ours, to show which part of the gain is the order's. Arrivals continue for an hour after what
is counted, so that no backlog is worked off for free. Nothing sleeps: a virtual clock jumps from event to event. Read
README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.port import Entry, Finish
from duetime.scheduler.rules.estimates import Estimate, Histogram, estimate
from duetime.scheduler.rules.limits.admission import Kind as PoolKind
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.order import VALUE_WEIGHT, KeyFacts, drop_at, order_key
from duetime.scheduler.rules.shares import Shares
from duetime.scheduler.task import Tier

THREAD_COUNT = 8
MINUTE_S = 60.0
SPREAD_RATIO = 0.4  # of the logarithm of a length
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TAIL_S = 3600.0
FOREVER_MS = 1e12  # milliseconds: no lease runs out


@dataclass(frozen=True)
class Kind:
    """A class of runs: mean length, mean time from arrival to deadline (give or take 30 %), in seconds."""

    name: str
    tier: Tier
    length: float
    allowed: float

    @property
    def value(self) -> float:
        return VALUE_WEIGHT[self.tier]


@dataclass(frozen=True)
class Job:
    id: str
    kind: Kind
    arrives: float
    length: float
    deadline: float
    counted: bool


KINDS = (
    Kind("interactive", Tier.HIGH, 1, 15),
    Kind("normal", Tier.NORMAL, 3, 120),
    Kind("batch", Tier.BACKGROUND, 10, 1800),
)


CROSSED = (
    Kind("interactive", Tier.HIGH, 1, 15),
    Kind("normal", Tier.NORMAL, 3, 1800),
    Kind("batch", Tier.BACKGROUND, 10, 120),
)


@dataclass(frozen=True)
class Trace:
    """The load of each class as a part of the capacity, and by what it is multiplied at a time."""

    name: str
    loads: tuple[float, float, float]
    rate: Callable[[float], float]
    kinds: tuple[Kind, ...] = KINDS

    def jobs(self, seconds: float, seed: int, tail: float = TAIL_S) -> list[Job]:
        """Draw the arrivals of `seconds`, which count, and of `tail` seconds more, which do not."""
        draw = random.Random(seed)
        found = [
            job
            for kind, load in zip(self.kinds, self.loads, strict=True)
            for job in self._of(kind, load, draw, seconds, tail)
        ]
        return sorted(found, key=lambda job: job.arrives)

    def _of(self, kind: Kind, load: float, draw: random.Random, seconds: float, tail: float) -> Iterator[Job]:
        """Poisson arrivals at the highest rate, thinned to the rate of the moment (Lewis & Shedler 1979)."""
        at = 0.0
        while (at := at + draw.expovariate(load * THREAD_COUNT / kind.length)) < seconds + tail:
            length = kind.length * draw.lognormvariate(-(SPREAD_RATIO**2) / 2, SPREAD_RATIO)
            deadline = at + kind.allowed * draw.uniform(0.7, 1.3)
            if draw.random() < self.rate(at):
                yield Job(f"r_{kind.name}_{at:012.3f}", kind, at, length, deadline, at < seconds)


def bursts(at: float) -> float:
    return 1.0 if at % 1200 < 600 else 0.5


def always(_at: float) -> float:
    return 1.0


TRACES = (
    Trace("bursts at 1.2", (0.3, 0.4, 0.5), bursts),
    Trace("overload of 1.6", (0.3, 0.8, 0.5), always),
    Trace("crossed, bursts at 1.2", (0.3, 0.4, 0.5), bursts, CROSSED),
    Trace("crossed, overload of 1.6", (0.3, 0.8, 0.5), always, CROSSED),
)


class Policy(Protocol):
    """Decides what starts next. Times are in virtual seconds."""

    def arrived(self, job: Job) -> None: ...
    def start(self, threads: int, now: float) -> Sequence[Job]: ...
    def ended(self, job: Job, now: float) -> None: ...


@dataclass
class Sorted:
    """A plain sort: by `key`, then by arrival; with `drops`, what would probably be late is not started."""

    key: Callable[[Job], float]
    drops: bool = False
    waiting: list[tuple[float, float, str, Job]] = field(default_factory=list)

    def arrived(self, job: Job) -> None:
        heapq.heappush(self.waiting, (self.key(job), job.arrives, job.id, job))

    def start(self, threads: int, now: float) -> Sequence[Job]:
        chosen: list[Job] = []
        while self.waiting and len(chosen) < threads:
            job = heapq.heappop(self.waiting)[-1]
            if not self.drops or now + job.kind.length <= job.deadline:
                chosen.append(job)
        return chosen

    def ended(self, job: Job, now: float) -> None:
        """Learn nothing."""


class Ours:
    """The queue in memory as a worker uses it, on a virtual clock."""

    def __init__(self, shares: Shares | None = None) -> None:
        self.now = 0.0
        self.queue = MemoryQueue(lambda: EPOCH.timestamp() * 1000 + self.now * 1000)
        self.queue.set_shares(shares or Shares(), 1)
        self.queue.set_pool("slots", Limits(PoolKind.SLOTS, THREAD_COUNT))
        self.jobs: dict[str, Job] = {}
        self.tokens: dict[str, str] = {}
        self.drops: list[tuple[float, str]] = []
        self.learned: defaultdict[str, Histogram] = defaultdict(Histogram.empty)

    def arrived(self, job: Job) -> None:
        self.now = job.arrives
        ready, deadline = EPOCH + timedelta(seconds=job.arrives), EPOCH + timedelta(seconds=job.deadline)
        takes = self.estimate(job.kind)
        facts = KeyFacts(ready, deadline, takes.p90, cost=1 / THREAD_COUNT)
        key = order_key(facts, job.kind.tier, value=job.kind.value)
        self.jobs[job.id] = job
        heapq.heappush(self.drops, ((drop_at(deadline, takes.p50) - EPOCH).total_seconds(), job.id))
        self.queue.put([Entry(job.id, key, job.kind.tier.rank, {"slots": 1}, created=ready.timestamp() * 1000)])

    def start(self, threads: int, now: float) -> Sequence[Job]:
        self.now = now
        while self.drops and self.drops[0][0] <= now:
            self.queue.cancel(heapq.heappop(self.drops)[1])
        grants = self.queue.take("bench", threads, FOREVER_MS).grants if threads else ()
        self.tokens.update((grant.run_id, grant.token) for grant in grants)
        return [self.jobs[grant.run_id] for grant in grants]

    def ended(self, job: Job, now: float) -> None:
        self.now = now
        self.learned[job.kind.name] = self.learned[job.kind.name].merged([job.length])
        assert self.queue.finish("bench", [Finish(job.id, self.tokens.pop(job.id))]) == set()

    def estimate(self, kind: Kind) -> Estimate:
        return estimate(None, self.learned[kind.name], timedelta(seconds=kind.length))


POLICIES: dict[str, Callable[[], Policy]] = {
    "FIFO": lambda: Sorted(lambda job: job.arrives),
    "EDF": lambda: Sorted(lambda job: job.deadline),
    "fixed priority": lambda: Sorted(lambda job: job.kind.tier.rank),
    "EDF + drop": lambda: Sorted(lambda job: job.deadline, drops=True),
    "fixed priority + drop": lambda: Sorted(lambda job: job.kind.tier.rank, drops=True),
    "ours": Ours,
}


def in_time(jobs: Sequence[Job], policy: Policy) -> set[str]:
    """Run the trace to its end, and return what was finished by its deadline."""
    coming, idle = iter(jobs), THREAD_COUNT
    job = next(coming, None)
    running: list[tuple[float, str, Job]] = []
    met: set[str] = set()
    while job or running:
        now = min([until for until, _, _ in running[:1]] + ([job.arrives] if job else []))
        while running and running[0][0] <= now:
            _, _, done = heapq.heappop(running)
            policy.ended(done, now)
            idle += 1
            if now <= done.deadline:
                met.add(done.id)
        while job and job.arrives <= now:
            policy.arrived(job)
            job = next(coming, None)
        for each in policy.start(idle, now):
            heapq.heappush(running, (now + each.length, each.id, each))
            idle -= 1
    return met


def value(jobs: Sequence[Job], met: set[str], kind: Kind | None = None) -> float:
    """Return the part of the value (of one class, or of all) that was finished in time."""
    counted = [job for job in jobs if job.counted and kind in (None, job.kind)]
    return sum(job.kind.value for job in counted if job.id in met) / sum(job.kind.value for job in counted)


def bound(jobs: Sequence[Job]) -> float:
    """Return the part of the value that no order can exceed: runs cut in pieces, put into a knapsack by value a second.

    Whoever fills it knows all that will come, pays nothing for what does not count, and may start anything before it
    arrives. Only what is due by each minute has to fit into the time until then.
    """
    counted = [job for job in jobs if job.counted]
    minutes = math.ceil(max(job.deadline for job in counted) / MINUTE_S)
    room = [THREAD_COUNT * MINUTE_S * (minute + 1) for minute in range(minutes)]
    kept = 0.0
    for job in sorted(counted, key=lambda job: job.length / job.kind.value):
        due = math.ceil(job.deadline / MINUTE_S) - 1
        fits = min(job.length, *room[due:], math.inf)
        kept += job.kind.value * fits / job.length
        room[due:] = [left - fits for left in room[due:]]
    return kept / sum(job.kind.value for job in counted)


def row(name: str, trace: Trace, traces: Sequence[Sequence[Job]]) -> str:
    mets = [in_time(jobs, POLICIES[name]()) for jobs in traces]
    totals = [value(jobs, met) for jobs, met in zip(traces, mets, strict=True)]
    parts = (statistics.mean(value(*each, kind) for each in zip(traces, mets, strict=True)) for kind in trace.kinds)
    spread = f"{min(totals):.3f} to {max(totals):.3f}"
    return f"| {name} | {statistics.mean(totals):.3f} | {spread} | {' | '.join(f'{part:.3f}' for part in parts)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hours", type=float, default=2)
    options = parser.parse_args()
    for trace in TRACES:
        traces = [trace.jobs(options.hours * 3600, seed) for seed in range(options.seeds)]
        print(f"\n{trace.name}: {options.seeds} seeds, {statistics.mean(map(len, traces)):.0f} runs each\n")
        print(f"| order | value in time | least to most | {' | '.join(kind.name for kind in trace.kinds)} |")
        print("|---|---|---|---|---|---|")
        for name in POLICIES:
            print(row(name, trace, traces), flush=True)
        bounds = [bound(jobs) for jobs in traces]
        print(f"| no order exceeds | {statistics.mean(bounds):.3f} | {min(bounds):.3f} to {max(bounds):.3f} | | | |")


if __name__ == "__main__":
    main()
