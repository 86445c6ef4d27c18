"""Cost of the queue in Redis: alone against plain Dramatiq, and as it grows.

    python benchmarks/bench_queue.py [--only drain size blocked keys tenants lanes record] [--messages 6000]
        [--rounds 5] [--most 1000000]
    python benchmarks/bench_queue.py --profile

`drain`: no-op actors, 8 threads in one process. Dramatiq with its RedisBroker, as it comes (`plain`) and without its
middleware (`bare`), and our broker over our queue run in turn. All use the same Valkey, in a fresh process each time.
Nothing is claimed in a database; ends are told to the queue in groups, as the worker does. `size`: a take of one with
1,000 to 1,000,000 runs ready, in 100 classes. `blocked`: 0 and 100,000 runs that wait for a pool ahead of one that may
start.
`keys`: 500 and 100,000 concurrency keys. `lanes`: 20 to 2,000 actions that a worker does not know. `record`: takes
that are recorded against others, in Redis and in memory. Times are the server's own medians, of `INFO latencystats`,
and what is compared is measured in turn. It takes about three minutes.
Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import pstats
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import dramatiq  # noqa: E402 - the folder of the tests has to be found first
import redis  # noqa: E402 - likewise
from dramatiq.brokers.redis import RedisBroker  # noqa: E402 - likewise
from dramatiq.middleware import Middleware  # noqa: E402 - likewise
from duetime.scheduler.queue import DispatchQueue, Entry, Finish, Grant, Kind, Limits  # noqa: E402 - likewise
from duetime.scheduler.queue.constants import MAX_CLASSES_PER_TAKE  # noqa: E402 - likewise
from duetime.scheduler.queue.memory.queue import MemoryQueue  # noqa: E402 - likewise
from duetime.scheduler.queue.redis.queue import RedisQueue  # noqa: E402 - likewise
from duetime.scheduler.worker.broker import RUN_ACTOR, RUN_QUEUE, DispatchBroker  # noqa: E402 - likewise
from duetime.scheduler.worker.threads.takes import TakeOptions  # noqa: E402 - likewise

from tests.services import valkey_server  # noqa: E402 - likewise

THREAD_COUNT = 8
LEASE_MS = 600_000.0
CALLS_PER_TURN = 30
TURN_COUNT = 9
WORKER_COUNT = 20


def now_ms() -> float:
    return time.time() * 1000


# --- drain: one process, no-op actors ---------------------------------------------------------------------------------


class Countdown:
    """Sets an event when as many messages were run as there are."""

    def __init__(self, messages: int) -> None:
        self._left = itertools.count(messages - 1, -1)
        self.done = Event()

    def one(self) -> None:
        if next(self._left) == 0:
            self.done.set()


class Ends(Middleware):
    """Reports ends to the queue in groups: whatever came together while the last group was reported."""

    def __init__(self, queue: RedisQueue) -> None:
        self._queue = queue
        self._tokens: dict[str, str] = {}
        self._ended: deque[Finish] = deque()
        self._changed = Condition()
        self.lost_threads = 0
        Thread(target=self._tell, daemon=True).start()

    def claim(self, grants: Sequence[Grant], _taken_at: float) -> list[str]:
        self._tokens.update((grant.run_id, grant.token) for grant in grants)
        return [grant.run_id for grant in grants]

    def line_up(self, run_ids: Sequence[str]) -> Sequence[str]:
        return run_ids

    def let_go(self) -> None:
        """Do nothing: no run was claimed ahead."""

    def after_process_message(self, broker: Any, message: Any, **_: Any) -> None:  # noqa: ARG002 - Dramatiq's signature
        self._ended.append(Finish(message.message_id, self._tokens.pop(message.message_id)))
        with self._changed:
            self._changed.notify()

    def _tell(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended)
            group = [self._ended.popleft() for _ in range(len(self._ended))]
            self._queue.finish("bench", group)


Figures = dict[str, float]
"""Seconds it took, of our process's and of the server's time, and calls of scripts."""


def figures(url: str) -> Figures:
    client = redis.Redis.from_url(url)
    cpu: Any = client.info("cpu")
    calls: Any = client.info("commandstats")
    return {
        "took": time.perf_counter(),
        "cpu": time.process_time(),
        "server": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        "scripts": calls.get("cmdstat_evalsha", {"calls": 0})["calls"],
    }


def run_worker(url: str, broker: dramatiq.Broker, countdown: Countdown) -> Figures:
    worker = dramatiq.Worker(broker, worker_threads=THREAD_COUNT)
    before = figures(url)
    worker.start()
    countdown.done.wait(120)
    after = figures(url)
    worker.stop()
    return {name: after[name] - before[name] for name in after}


def drain_plain(url: str, messages: int, *, bare: bool) -> Figures:
    broker = RedisBroker(url=url, **({"middleware": []} if bare else {}))  # type: ignore[no-untyped-call]  # Dramatiq's
    countdown = Countdown(messages)

    @dramatiq.actor(broker=broker)
    def nothing(_: str) -> None:
        countdown.one()

    for number in range(messages):
        nothing.send(f"run{number:07}")
    return run_worker(url, broker, countdown)


def drain_ours(url: str, messages: int) -> Figures:
    queue = fresh_queue(url)
    ends = Ends(queue)
    broker = DispatchBroker(queue, ends, TakeOptions("bench", THREAD_COUNT, LEASE_MS), middleware=[ends], clock=now_ms)
    countdown = Countdown(messages)

    @dramatiq.actor(broker=broker, actor_name=RUN_ACTOR, queue_name=RUN_QUEUE)
    def nothing(_: str) -> None:
        countdown.one()

    queue.put([Entry(f"run{number:07}", now_ms() + number, created=now_ms()) for number in range(messages)])
    return run_worker(url, broker, countdown)


DRAINS: dict[str, Callable[[str, int], Figures]] = {
    "plain": lambda url, messages: drain_plain(url, messages, bare=False),
    "bare": lambda url, messages: drain_plain(url, messages, bare=True),
    "ours": drain_ours,
}


def drained(kind: str, url: str, messages: int) -> Figures:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, "--drain", kind, "--url", url, "--messages", str(messages)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    found: Figures = json.loads(done.stdout)
    return found


def drain(url: str, messages: int, rounds: int) -> None:
    print(f"drain: {messages} no-op messages, {THREAD_COUNT} threads, one process")
    found: dict[str, list[Figures]] = {kind: [] for kind in DRAINS}
    for number in range(rounds):
        for kind, measured in found.items():
            redis.Redis.from_url(url).flushall()
            measured.append(drained(kind, url, messages))
        rates = {kind: messages / measured[-1]["took"] for kind, measured in found.items()}
        print(f"  round {number + 1}: " + ", ".join(f"{kind} {rate:,.0f}/s" for kind, rate in rates.items()))
    for kind, measured in found.items():
        each = {name: statistics.median(one[name] for one in measured) / messages for name in measured[0]}
        print(
            f"  {kind}: a message takes {each['cpu'] * 1e6:.0f} us of the process, "
            f"{each['server'] * 1e6:.0f} us of the server, {each['scripts']:.2f} scripts"
        )
    for kind in ("plain", "bare"):
        ratios = [other["took"] / ours["took"] for ours, other in zip(found["ours"], found[kind], strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"  ours / {kind}: median {statistics.median(ratios):.2f} ({spread})")


# --- growth: the server's own time ----------------------------------------


def fresh_queue(url: str, namespace: str = "bench") -> RedisQueue:
    queue = RedisQueue(url, namespace=namespace)
    queue.begin_rebuild("bench")
    queue.end_rebuild("bench")
    return queue


def microseconds(url: str, call: Callable[[], object]) -> float:
    """Return what one call costs the server: the median of its own count, as other work interrupts it."""
    client = redis.Redis.from_url(url)
    client.config_resetstat()
    for _ in range(CALLS_PER_TURN):
        call()
    stats: Any = client.info("latencystats")
    return float(stats["latency_percentiles_usec_evalsha"]["p50"])


def compared(url: str, calls: Sequence[Callable[[], object]]) -> list[float]:
    """Measure calls in turn, so that whatever else the machine does meets all of them; medians over the turns."""
    found = [[microseconds(url, call) for call in calls] for _ in range(TURN_COUNT)]
    return [statistics.median(each) for each in zip(*found, strict=True)]


def fill(queue: RedisQueue, entries: Iterator[Entry]) -> None:
    while batch := list(itertools.islice(entries, 500)):
        queue.put(batch)


def taking(queue: RedisQueue) -> Callable[[], None]:
    workers = itertools.cycle(f"w{number}" for number in range(WORKER_COUNT))

    def take() -> None:
        assert queue.take(next(workers), 1, LEASE_MS, nonce="n" + str(time.perf_counter_ns())).grants

    return take


def putting(queue: RedisQueue, now: float) -> Callable[[], None]:
    return lambda: assert_new(queue.put([Entry(f"p{time.perf_counter_ns()}", now + 10**6, 3, {"pool1": 1}, now)]))


def assert_new(added: int) -> None:
    assert added == 1


def ready_run(n: int, now: float) -> Entry:
    return Entry(f"run{n:07}", now + n * 7919 % 10**7, n % 5 + 1, {f"pool{n % 20}": 1}, now)


def by_size(url: str, most: int) -> None:
    print("size: server microseconds of a take and a put of one, by runs ready (20 sets of needs x 5 tiers)")
    redis.Redis.from_url(url).flushall()
    small, large = fresh_queue(url, "small"), fresh_queue(url, "large")
    for queue, pool in itertools.product((small, large), range(20)):
        queue.set_pool(f"pool{pool}", Limits(Kind.SLOTS, 1e9))
    now = now_ms()
    fill(small, (ready_run(n, now) for n in range(1000 + 6 * TURN_COUNT * CALLS_PER_TURN)))
    filled = 0
    for size in [step for step in (10_000, 100_000, 300_000, 1_000_000) if step <= most]:
        fill(large, (ready_run(n, now) for n in range(filled, size)))
        filled = size
        calls = [taking(small), taking(large), putting(small, now), putting(large, now)]
        one, other, put_one, put_other = compared(url, calls)
        print(f"  {size:>9,}: take {one:.0f} -> {other:.0f} ({other / one:.2f} x), "
              f"put {put_one:.0f} -> {put_other:.0f} ({put_other / put_one:.2f} x)")  # fmt: skip


def by_blocked(url: str) -> None:
    print("blocked: server microseconds of a take of one that may start, behind runs that wait for a pool")
    redis.Redis.from_url(url).flushall()
    takes = []
    for blocked in (0, 100_000):
        queue, now = fresh_queue(url, f"blocked-{blocked}"), now_ms()
        queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
        queue.put([Entry("has-it", now - 1, needs={"gpu": 1}, created=now)])
        queue.take("w", 1, LEASE_MS)
        fill(queue, (Entry(f"b{n:07}", now + n / 1000, needs={"gpu": 1}, created=now) for n in range(blocked)))
        fill(queue, (Entry(f"f{n:07}", now + 10**6 + n, created=now) for n in range(2 * TURN_COUNT * CALLS_PER_TURN)))
        takes.append(taking(queue))
    none, many = compared(url, takes)
    print(f"  none {none:.0f} -> 100,000 {many:.0f} ({many / none:.2f} x)")


def ending(queue: RedisQueue) -> Callable[[], None]:
    """Finish runs, each of which lets the next of its key start."""
    grants: list[Grant] = []
    while len(grants) < TURN_COUNT * CALLS_PER_TURN:
        grants += queue.take("ends", 100, LEASE_MS).grants
    left = iter(grants)

    def finish() -> None:
        grant = next(left)
        queue.finish("ends", [Finish(grant.run_id, grant.token)])

    return finish


def by_keys(url: str) -> None:
    print("keys: server microseconds of a take of one and of a finish that wakes the next of its key")
    redis.Redis.from_url(url).flushall()
    queues = []
    for keys in (1000, 100_000):
        queue, now = fresh_queue(url, f"keys-{keys}"), now_ms()
        fill(queue, (Entry(f"r{n:07}", now + n, needs={f"key:{n % keys}": 1}, created=now) for n in range(2 * keys)))
        queues.append(queue)
    few, many = compared(url, [taking(queue) for queue in queues])
    print(f"  take: 1,000 keys {few:.0f} -> 100,000 keys {many:.0f} ({many / few:.2f} x)")
    few, many = compared(url, [ending(queue) for queue in queues])
    print(f"  finish: 1,000 keys {few:.0f} -> 100,000 keys {many:.0f} ({many / few:.2f} x)")


def by_tenants(url: str, runs: int) -> None:
    print(
        f"tenants: server microseconds of a take of one, and of a finish that wakes the next, {runs:,} runs of a tier"
    )
    redis.Redis.from_url(url).flushall()
    ready, blocked = [], []
    for tenants in (0, 1, 1000):
        queue, now = fresh_queue(url, f"ready-{tenants}"), now_ms()
        fill(queue, (tenant_run(n, tenants, now) for n in range(runs)))
        ready.append(queue)
        queue = fresh_queue(url, f"blocked-{tenants}")
        queue.set_pool("gpu", Limits(Kind.SLOTS, TURN_COUNT * CALLS_PER_TURN))
        fill(queue, (tenant_run(n, tenants, now, {"gpu": 1}) for n in range(runs)))
        blocked.append(queue)
    for name, calls in (("take", [taking(queue) for queue in ready]), ("finish", [ending(queue) for queue in blocked])):
        none, one, many = compared(url, calls)
        print(f"  {name}: without {none:.0f}, of one {one:.0f} ({one / none:.2f} x), "
              f"of 1,000 {many:.0f} ({many / none:.2f} x)")  # fmt: skip


def tenant_run(n: int, tenants: int, now: float, needs: dict[str, int] | None = None) -> Entry:
    return Entry(f"run{n:07}", now + n, 3, needs or {}, now, tenant=f"t{n % tenants}" if tenants else "")


def by_lanes(url: str) -> None:
    print("lanes: milliseconds of the server, a take of one and a put, by actions that a worker does not know")
    for actions in (20, 200, 2000):
        redis.Redis.from_url(url).flushall()
        with_lanes(url, fresh_queue(url), [f"action{n:04}" for n in range(actions)])


def with_lanes(url: str, queue: RedisQueue, unknown: Sequence[str]) -> None:
    now = now_ms()
    fill(queue, (Entry(f"x{n:05}", now + n, 3, created=now, action=each) for n, each in enumerate(unknown)))
    fill(queue, (Entry(f"m{n:05}", now + 10**6 + n, 3, created=now, action="mail") for n in range(999)))

    def take(*others: str) -> Callable[[], object]:
        return lambda: queue.take("w", 1, LEASE_MS, actions=frozenset({"mail", *others}))

    making = each_ms(url, -(-len(unknown) // MAX_CLASSES_PER_TAKE), take())
    calls = (take(), putting(queue, now), take(*unknown[:20]), take(*unknown))
    old, put, some, every = (statistics.median(each_ms(url, CALLS_PER_TURN, call)) for call in calls)
    print(f"  {len(unknown):>5,}: a take that makes lanes {statistics.median(making):.2f} ({max(making):.2f} at most), "
          f"the next ones {old:.3f}, put {put:.3f}; of a worker that knows 20 of the actions {some:.3f}, "
          f"all of them {every:.3f}")  # fmt: skip


def each_ms(url: str, calls: int, call: Callable[[], object]) -> list[float]:
    """Return what each of some calls of scripts costs the server."""
    client = redis.Redis.from_url(url)
    found = []
    for _ in range(calls):
        client.config_resetstat()
        call()
        stats: Any = client.info("commandstats")
        found.append(stats["cmdstat_evalsha"]["usec"] / 1000)
    return found


def by_record(url: str) -> None:
    print("record: microseconds of a take of eight, of 20 sets of needs x 5 tiers, unrecorded and recorded in turn")
    redis.Redis.from_url(url).flushall()
    for name, queue in (("Redis (its own time)", fresh_queue(url, "record")), ("memory", MemoryQueue())):
        now, calls = now_ms(), 2 * TURN_COUNT * CALLS_PER_TURN
        for pool in range(20):
            queue.set_pool(f"pool{pool}", Limits(Kind.SLOTS, 1e9))
        queue.put([ready_run(n, now) for n in range(9 * calls)])
        both = [recording(queue, record=record) for record in (False, True)]
        plain, recorded = compared(url, both) if isinstance(queue, RedisQueue) else timed(both)
        print(f"  {name}: {plain:.0f} -> {recorded:.0f} ({recorded / plain:.2f} x)")


def recording(queue: DispatchQueue, *, record: bool) -> Callable[[], None]:
    def take() -> None:
        taken = queue.take("w", 8, LEASE_MS, nonce="n" + str(time.perf_counter_ns()), record=record)
        assert len(taken.grants) == 8
        assert len(taken.looks) == 8 * record

    return take


def timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Measure calls in turn by the clock of this process: medians in microseconds."""
    found: list[list[float]] = [[] for _ in calls]
    for _, (call, times) in itertools.product(range(TURN_COUNT * CALLS_PER_TURN), zip(calls, found, strict=True)):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e6)
    return [statistics.median(each) for each in found]


def profile(url: str, messages: int) -> None:
    """Show where our process spends its time, all threads together: cProfile sees one, so each call is made in one."""
    queue, now = fresh_queue(url), now_ms()
    queue.put([Entry(f"run{n:07}", now + n, created=now) for n in range(messages)])
    profiler = cProfile.Profile()
    profiler.enable()
    while grants := queue.take("w", THREAD_COUNT, LEASE_MS, nonce=str(time.perf_counter_ns())).grants:
        queue.finish("w", [Finish(grant.run_id, grant.token) for grant in grants])
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["drain", "size", "blocked", "keys", "tenants", "lanes", "record"])
    parser.add_argument("--messages", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--drain", choices=list(DRAINS), help="measure this one alone, on --url")
    parser.add_argument("--url")
    given = parser.parse_args()
    if given.drain:
        print(json.dumps(DRAINS[given.drain](given.url, given.messages)))
        return
    with valkey_server() as url:
        if given.profile:
            profile(url, given.messages)
            return
        parts = {
            "drain": lambda: drain(url, given.messages, given.rounds),
            "size": lambda: by_size(url, given.most),
            "blocked": lambda: by_blocked(url),
            "keys": lambda: by_keys(url),
            "tenants": lambda: by_tenants(url, min(given.most, 100_000)),
            "lanes": lambda: by_lanes(url),
            "record": lambda: by_record(url),
        }
        for name in given.only:
            parts[name]()


if __name__ == "__main__":
    main()
