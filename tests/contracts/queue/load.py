"""A `DispatchQueue` under random load, judged by whoever looks at every run each time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from duetime.scheduler.queue import DispatchQueue, Entry, Finish, Grant, Kind, Limits

from tests.contracts.queue.case import Clock, QueueCase, slots
from tests.search import FIRST_SEED, examples

LONG_MS = 1e12
CAPACITY = {"a": 3, "b": 5, "c": 2, "rate": 20}
HEADROOM = {"a": 0.0, "b": 0.4, "c": 0.0, "rate": 0.0}
REFILL_PER_MS = 0.01
ROUNDING_COUNT = 1e-6


@dataclass
class Oracle:
    """Pools and runs in the plainest way: `level` is what the rate has left, `runs` is what waits, from when on."""

    now: float
    level: float = CAPACITY["rate"]
    runs: dict[str, Entry] = field(default_factory=dict)
    later: dict[str, float] = field(default_factory=dict)
    leased: dict[str, tuple[Entry, Grant]] = field(default_factory=dict)

    def pass_time(self, now: float) -> None:
        self.level = min(CAPACITY["rate"], self.level + (now - self.now) * REFILL_PER_MS)
        self.now = now

    def put(self, entry: Entry) -> None:
        self.runs[entry.run_id] = entry
        self.later[entry.run_id] = self.now + entry.delay

    def free(self, pool: str, tier: int) -> float:
        if pool == "rate":
            return self.level
        kept = CAPACITY[pool] * HEADROOM[pool] if tier > 2 else 0
        return CAPACITY[pool] - kept - sum(entry.needs.get(pool, 0) for entry, _ in self.leased.values())

    def fits(self, entry: Entry, slack: float) -> bool:
        """Whether a run may start; `slack` is for the rounding of rates."""
        ready = self.later[entry.run_id] <= self.now
        return ready and all(units <= self.free(pool, entry.tier) + slack for pool, units in entry.needs.items())

    def start(self, grant: Grant) -> None:
        """Start a run that was granted: it has to fit, and to be the first of those that need the same."""
        entry = self.runs.pop(grant.run_id)
        assert self.fits(entry, ROUNDING_COUNT)
        same = [other for other in self.runs.values() if (other.tier, other.needs) == (entry.tier, entry.needs)]
        ready = [(other.key, other.run_id) for other in same if self.later[other.run_id] <= self.now]
        assert all((entry.key, entry.run_id) < other for other in ready)
        self.level -= entry.needs.get("rate", 0)
        self.leased[grant.run_id] = (entry, grant)

    def end(self, run_id: str, unused: float) -> tuple[Entry, Grant]:
        self.level = min(CAPACITY["rate"], self.level + unused)
        return self.leased.pop(run_id)


class LoadContract(QueueCase):
    """Nothing is over a pool, nothing is out of order, and nothing that fits stands still."""

    @pytest.mark.random_walk
    @pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + examples(6).max_examples))
    def test_no_run_that_fits_stands_still_under_random_load(
        self, queue: DispatchQueue, clock: Clock, seed: int
    ) -> None:
        chance = random.Random(seed)
        oracle = Oracle(clock.ms)
        for name in "abc":
            queue.set_pool(name, slots(CAPACITY[name], headroom=HEADROOM[name]))
        queue.set_pool("rate", Limits(Kind.RATE, CAPACITY["rate"], refill=REFILL_PER_MS))
        left = [self.any_run(chance, clock, f"r{i:03}") for i in range(320)]
        for _ in range(4000):
            if not left and not oracle.runs and not oracle.leased:
                break
            self.something_happens(queue, clock, chance, oracle, left)
            self.all_that_fits_starts(queue, clock, oracle, chance.randint(1, 5))
        assert (left, oracle.runs, oracle.leased) == ([], {}, {})
        stats = queue.stats()
        assert (sum(stats.waiting), stats.delayed, stats.parked, stats.leased) == (0, 0, 0, 0)
        assert all(stats.pools[name].used == 0 for name in "abc")

    def any_run(self, chance: random.Random, clock: Clock, run_id: str) -> Entry:
        """Make a run whose key is far ahead, so that none is ever overdue and has a hold."""
        tier = chance.randint(1, 5)
        most = {name: int(CAPACITY[name] * (1 - HEADROOM[name] * (tier > 2))) for name in CAPACITY}
        needs = {name: chance.randint(1, most[name]) for name in chance.sample(list(CAPACITY), chance.randint(0, 3))}
        delay = chance.randint(1, 3000) if chance.random() < 0.2 else 0
        return Entry(run_id, clock.ms + 1e9 + chance.randint(0, 10**6), tier, needs, delay=delay)

    def something_happens(
        self, queue: DispatchQueue, clock: Clock, chance: random.Random, oracle: Oracle, left: list[Entry]
    ) -> None:
        what = chance.random()
        if what < 0.2 and left:
            some = [left.pop() for _ in range(min(len(left), chance.randint(1, 12)))]
            queue.put(some)
            for entry in some:
                oracle.put(entry)
        elif what < 0.7 and oracle.leased:
            self.one_ends(queue, chance, oracle)
        elif what < 0.85 and oracle.runs:
            self.one_changes(queue, chance, oracle)
        else:
            clock.ms += chance.randint(1, 400)
            oracle.pass_time(clock.ms)

    def one_ends(self, queue: DispatchQueue, chance: random.Random, oracle: Oracle) -> None:
        run_id = chance.choice(sorted(oracle.leased))
        tokens = oracle.leased[run_id][0].needs.get("rate", 0)
        if chance.random() < 0.15:
            entry, grant = oracle.end(run_id, tokens)
            assert queue.give_back("w", run_id, grant.token)
            oracle.runs[run_id] = Entry(run_id, entry.key, entry.tier, entry.needs)
        else:
            used = float(chance.randint(0, tokens))
            _, grant = oracle.end(run_id, tokens - used)
            assert queue.finish("w", [Finish(run_id, grant.token, {"rate": used})]) == set()

    def one_changes(self, queue: DispatchQueue, chance: random.Random, oracle: Oracle) -> None:
        run_id = chance.choice(sorted(oracle.runs))
        if chance.random() < 0.1:
            queue.cancel(run_id)
            del oracle.runs[run_id]
        else:
            old = oracle.runs[run_id]
            key = old.key + chance.randint(-1000, 1000)
            assert queue.rescore(run_id, key)
            oracle.runs[run_id] = Entry(run_id, key, old.tier, old.needs)

    def all_that_fits_starts(self, queue: DispatchQueue, clock: Clock, oracle: Oracle, n: int) -> None:
        """Take until nothing comes, at the times that the queue asks for, and look at every run that still waits."""
        while True:
            take = queue.take("w", n, LONG_MS)
            for grant in take.grants:
                oracle.start(grant)
            if not take.grants and take.hint != 0:
                break
        assert [entry.run_id for entry in oracle.runs.values() if oracle.fits(entry, -ROUNDING_COUNT)] == []
        if oracle.runs and not oracle.leased:
            assert take.hint is not None, "only time can help, and the queue does not say when"
            clock.ms += take.hint * 1000
            oracle.pass_time(clock.ms)
