"""Both queues are asked the same, at random, on one clock, and must give the same answers.

The normal run takes 2 walks of 3,000 steps. `WALK_SEEDS` (how many), `WALK_FIRST_SEED` and `WALK_STEPS` (how long)
change that:

    WALK_SEEDS=50 WALK_STEPS=100000 pytest tests/contracts/queue/test_random_walk.py

On a difference the seed and the last 20 steps are printed. `mutations.py` shows which defects of the scripts it finds.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from duetime.scheduler.queue import (
    Cancelled,
    Entry,
    Finish,
    Grant,
    Kind,
    Limits,
    QueueLost,
    Report,
    Shares,
    Take,
    ThreadUse,
)
from duetime.scheduler.queue.constants import HOLD_CHECK_INTERVAL_MS
from duetime.scheduler.queue.lanes import KnownActions, knows
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.rules.headroom import NO_HEADROOM, least_urgent
from duetime.scheduler.rules.limits.admission import THROTTLE_CHECK_INTERVAL_MS, capacity
from duetime.scheduler.rules.policies.decision import replay_decision

from tests.contracts.queue.suite import Clock
from tests.search import FIRST_SEED

STEP_COUNT = int(os.environ.get("WALK_STEPS", "3000"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("WALK_SEEDS", "2")))
RUNS = [f"r{number:03}" for number in range(220)]
WORKERS = ["w1", "w2", "w3"]
POOLS = ["gpu", "cpu", "tpm", "usd", "api", "tenant:a", "tenant:b", "key:1", "key:2", "rate:x", "nobody"]
TEMPLATES = ["tenant:*", "key:*", "rate:*"]
LEASES = [500.0, 4000.0, 20_000.0, 60_000.0]
OWNERS = ["me", "you"]
TENANTS = ["", "acme", "acme", "globex", "a|b=1,\n", "initech"]
ACTIONS = ["", "mail", "mail", "crop", "a|b=1,\n"]
KNOWN = [
    *(None, None, frozenset(ACTIONS), frozenset({"mail", "crop"})),
    *(frozenset({"mail"}), frozenset({"a|b=1,\n"}), frozenset[str]()),
]
"""Sets of actions that workers know; a worker is replaced by one with another set now and then."""


@dataclass
class Walk:
    """One walk: `leases` are the runs that a worker has, with their tokens in each queue."""

    seed: int
    clock: Clock
    memory: MemoryQueue
    redis: RedisQueue
    leases: dict[str, tuple[Entry | None, str, str]] = field(default_factory=dict)
    ended: list[tuple[str, str, str]] = field(default_factory=list)
    nonces: dict[str, str] = field(default_factory=dict)
    actions: dict[str, KnownActions] = field(default_factory=dict)
    limits: dict[str, Limits] = field(default_factory=dict)
    building: bool = False
    replayed: int = 0
    put_before: deque[Entry] = field(default_factory=lambda: deque(maxlen=300))
    seen: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.weighted = {
            self.put: 16,
            self.put_again: 4,
            self.take: 24,
            self.replace_worker: 0.5,
            self.assign_preemptors: 3,
            self.runs_to_preempt: 4,
            self.finish: 16,
            self.advance: 14,
            self.advance_long: 1,
            self.set_back: 0.5,
            self.give_back: 3,
            self.renew: 3,
            self.reap: 2,
            self.cancel: 4,
            self.rescore: 5,
            self.set_pool: 4,
            self.set_shares: 1,
            self.explain: 5,
            self.stats: 3,
            self.adopt: 1,
            self.rebuild: 0.08,
        }

    def go(self, steps: int) -> None:
        self.rebuild()
        for step in range(steps):
            move = self.chance.choices(list(self.weighted), list(self.weighted.values()))[0]
            try:
                move()
            except AssertionError as error:
                told = "\n".join(self.seen)
                raise AssertionError(f"seed {self.seed}, step {step}\n{told}\n{error}") from error

    # Asking both

    def both(self, name: str, *args: Any, **named: Any) -> Any:
        """Ask both queues the same; the answer of the one in memory."""
        return self.each(name, (args, named), (args, named))

    def each(self, name: str, to_memory: tuple[Any, Any], to_redis: tuple[Any, Any]) -> Any:
        self.seen.append(f"{self.clock.ms:.17g} {name} {to_memory}")
        one = _answer(getattr(self.memory, name), *to_memory)
        other = _answer(getattr(self.redis, name), *to_redis)
        self.seen.append(f"    -> {one}")
        assert _comparable(one) == _comparable(other), f"in memory: {one}\nin Redis:  {other}"
        if isinstance(one, Take):
            self.granted(one.grants, other.grants)
        return one

    def granted(self, grants: Sequence[Grant], others: Sequence[Grant]) -> None:
        fresh = [grant for grant in grants if grant.run_id not in self.leases]
        for grant, other in zip(grants, others, strict=True):
            had = self.leases.get(grant.run_id)
            assert had is None or had[1] == grant.token, f"{grant.run_id} is with two workers"
            self.leases[grant.run_id] = (Entry(grant.run_id, 0, needs=grant.needs), grant.token, other.token)
        for grant in fresh:
            self.check_capacity(grant.needs)

    def check_capacity(self, needs: Mapping[str, int]) -> None:
        """See that what was granted just now fits into its pools, with all that was granted before."""
        for pool in needs:
            limits = self.limits.get(pool)
            if limits is not None and limits.kind is not Kind.RATE:
                used = sum(entry.needs.get(pool, 0) for entry, _, _ in self.leases.values() if entry)
                assert used <= capacity(limits, self.memory._time.wall), f"{pool} is over its capacity: {used}"

    def forget(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            _, mine, theirs = self.leases.pop(run_id)
            self.ended.append((run_id, mine, theirs))

    # Moves

    def entry(self) -> Entry:
        names = self.chance.sample(POOLS, self.chance.choice([0, 1, 1, 2, 3]))
        return Entry(
            self.chance.choice(RUNS),
            key=self.clock.ms + self.chance.choice([0, 0, 50, -300, self.chance.randint(-20_000, 60_000)]),
            tier=self.chance.randint(1, 5),
            needs={name: self.chance.choice([1, 1, 2, 3, 5]) for name in names},
            created=round(self.clock.ms - self.chance.choice([0, 0, 1000, self.chance.uniform(0, 1000)]), 3),
            delay=self.chance.choice([0, 0, 0, self.chance.randint(1, 8000)]),
            tenant=self.chance.choice(TENANTS),
            by_deadline=self.chance.random() < 0.3,
            action=self.chance.choice(ACTIONS),
        )

    def put(self) -> None:
        entries = [self.entry() for _ in range(self.chance.randint(1, 6))]
        self.both("put", entries)
        self.put_before.extend(entries)

    def put_again(self) -> None:
        """Put runs of before in the same order, some of which need something else, or are of another tier."""
        before = self.chance.sample(self.put_before, min(len(self.put_before), 4))
        fresh = [self.entry() for _ in before]
        self.both(
            "put",
            [
                replace(entry, needs=self.chance.choice([entry, other]).needs, tier=self.chance.choice([entry.tier, 2]))
                for entry, other in zip(before, fresh, strict=True)
            ],
        )

    def take(self) -> None:
        worker = self.chance.choice(WORKERS)
        nonce = self.chance.choice(["", uuid4_of(self.chance), self.nonces.get(worker, "")])
        repeated = nonce and self.nonces.get(worker) == nonce
        self.nonces[worker] = nonce or self.nonces.get(worker, "")
        n, threads = self.chance.choice([0, 1, 1, 2, 4, 8]), self.some_threads()
        lease, actions = self.chance.choice(LEASES), self.actions.get(worker)
        shares, record = self.memory._state.shares, self.chance.random() < 0.5
        taken = self.both("take", worker, n, lease, nonce=nonce, threads=threads, actions=actions, record=record)
        if isinstance(taken, Take):
            self.check_replays(taken, shares)
        if isinstance(taken, Take) and not taken.grants and not repeated and not self.building:
            tier = least_urgent(threads.headroom if threads else NO_HEADROOM, n)
            self.check_nothing_stands_still(taken, tier, actions)

    def check_replays(self, taken: Take, shares: Shares) -> None:
        """See that what each look saw leads to what it chose, and that what started was granted."""
        for look in taken.looks:
            assert replay_decision(look, shares) == (look.tier, look.run), (
                f"{look} is replayed as {replay_decision(look, shares)}"
            )
        started = [look.run.run_id for look in taken.looks if look.lacked is None]
        assert started == list(taken.run_ids)[: len(started)]
        self.replayed += len(taken.looks)

    def replace_worker(self) -> None:
        self.actions[self.chance.choice(WORKERS)] = self.chance.choice(KNOWN)

    def some_threads(self) -> ThreadUse | None:
        headroom = self.chance.choice([NO_HEADROOM, (0, 1, 2, 2, 2), (0, 0, 1, 1, 1), (0, 3, 3, 3, 3)])
        busy, preempted, lost = self.chance.randint(0, 8), self.chance.randint(0, 3), self.chance.randint(0, 2)
        withheld = self.chance.randint(0, 8 - busy)
        return self.chance.choice([None, ThreadUse(8, busy, headroom, preempted, lost, withheld)])

    def runs_to_preempt(self) -> None:
        """Report some of the leased runs as willing to yield, and a run that is not leased."""
        leased = self.chance.sample(sorted(self.leases), min(len(self.leases), self.chance.choice([0, 1, 4, 30, 99])))
        willing = list(dict.fromkeys([*leased, self.chance.choice(RUNS)]))
        self.both("runs_to_preempt", willing, self.chance.choice([0.0, 1500.0, 60_000.0]))

    def assign_preemptors(self) -> None:
        """Ask for whom a worker should make room; those that it may already be asked to are of any tier."""
        first = self.chance.randint(1, 5)
        tiers, threads = (first, self.chance.randint(first - 1, 5)), self.some_threads()
        notice = self.chance.choice([0.0, 1000.0, 60_000.0])
        worker, n = self.chance.choice(WORKERS), self.chance.randint(0, 5)
        self.both("assign_preemptors", worker, n, tiers, notice, threads=threads, actions=self.actions.get(worker))

    def check_nothing_stands_still(self, taken: Take, tier: int, actions: KnownActions) -> None:
        """See that a take with nothing left nothing up to `tier` that fits, but for what is looked at in a moment."""
        floor = self.memory._state
        heads = [floor._waiting.entry(head[2]) for cls in floor._waiting.classes() if (head := cls.head)]
        able = [head for head in heads if head.tier <= tier and knows(actions, head.action)]
        fitting = [head for head in able if floor.shortage(head, self.memory._time.now) is None]
        # A hold ends with the reports of the workers that know its action: that is looked at less often.
        held = {cls.parked_at.name for cls in floor._waiting.classes() if cls.parked_at is not None and cls.action}
        slow = bool(floor._waiting.lanes) or any(held & head.needs.keys() for head in fitting)
        often = HOLD_CHECK_INTERVAL_MS if slow else THROTTLE_CHECK_INTERVAL_MS
        soon = taken.hint is not None and taken.hint <= often / 1000
        assert not fitting or soon, f"{fitting} could start; hint {taken.hint}"

    def some_leased(self) -> list[tuple[str, str, str]]:
        known = [(run_id, mine, theirs) for run_id, (_, mine, theirs) in self.leases.items()]
        picked = self.chance.sample(known, min(len(known), self.chance.randint(1, 4)))
        if self.ended and self.chance.random() < 0.15:
            late = self.chance.choice(self.ended[-50:])
            picked += [late] * (late[0] not in {run_id for run_id, _, _ in picked})
        return picked

    def finish(self) -> None:
        ends = [(Finish(run_id, "", self.used(run_id), self.reports(run_id), self.began_after()), mine, theirs)
                for run_id, mine, theirs in self.some_leased()]  # fmt: skip
        mine = [replace(end, token=token) for end, token, _ in ends]
        theirs = [replace(end, token=token) for end, _, token in ends]
        jitter = {"jitter": self.chance.choice([0.0, 0.5, self.chance.random()])}
        lost = self.each("finish", (("w", mine), jitter), (("w", theirs), jitter)) if ends else None
        if isinstance(lost, set):
            held = {end.run_id for end in mine if self.leases.get(end.run_id, (None, ""))[1] == end.token}
            assert lost == {end.run_id for end in mine} - held
            self.forget(sorted(held))

    def needs(self, run_id: str) -> list[str]:
        entry = self.leases.get(run_id, (None,))[0]
        return sorted(entry.needs) if entry else []

    def used(self, run_id: str) -> dict[str, float]:
        names = [name for name in self.needs(run_id) if self.chance.random() < 0.5]
        return {name: self.chance.choice([0.0, 1.0, 7.0, self.chance.uniform(0, 6)]) for name in names}

    def reports(self, run_id: str) -> tuple[Report, ...]:
        names = [*self.needs(run_id), self.chance.choice(POOLS)]
        return tuple(self.report(name) for name in names if self.chance.random() < 0.35)

    def began_after(self) -> float:
        return self.chance.choice([0.0, 0.0, 3.5, 400.0, self.chance.uniform(0, 3000)])

    def report(self, pool: str) -> Report:
        if self.chance.random() < 0.2:
            return Report(pool, ok=False, throttled=True, retry_after=self.chance.choice([0.0, 900.0, 4000.0]))
        return Report(pool, ok=self.chance.random() < 0.55, latency=self.chance.uniform(0, 400))

    def advance(self) -> None:
        self.clock.ms += self.chance.choice([0.25, 1, 20, 130, 700, self.chance.uniform(0, 2500)])

    def advance_long(self) -> None:
        self.clock.ms += self.chance.choice([5001, 29_000, 31_000, 70_000, self.chance.uniform(10**5, 10**6)])

    def set_back(self) -> None:
        self.clock.ms -= self.chance.choice([0.5, 400, 999.75, 1000.5, 20_000, 3.6e6, self.chance.uniform(0, 10**5)])

    def give_back(self) -> None:
        delay = {"delay": self.chance.choice([0, 0, self.chance.randint(1, 3000)])}
        for run_id, mine, theirs in self.some_leased()[:1]:
            given = self.each("give_back", (("w", run_id, mine), delay), (("w", run_id, theirs), delay))
            if given is True:
                self.forget([run_id])

    def renew(self) -> None:
        picked, lease = self.some_leased(), self.chance.choice(LEASES)
        mine = {run_id: token for run_id, token, _ in picked}
        theirs = {run_id: token for run_id, _, token in picked}
        if picked:
            self.each("renew", (("w", mine, lease), {}), (("w", theirs, lease), {}))

    def reap(self) -> None:
        reaped = self.both("reap")
        if isinstance(reaped, list):
            self.forget(reaped)

    def cancel(self) -> None:
        run_id = self.chance.choice(RUNS)
        found = self.both("cancel", run_id)
        assert (found is Cancelled.LEASED) == (run_id in self.leases) or found is QueueLost

    def rescore(self) -> None:
        key = self.clock.ms + self.chance.choice([0, -5000, self.chance.randint(-30_000, 60_000)])
        self.both("rescore", self.chance.choice(RUNS), key)

    def set_pool(self) -> None:
        name = self.chance.choice([*POOLS[:-1], *POOLS[:5], *TEMPLATES])
        limits = None if self.chance.random() < 0.15 else self.some_limits()
        spent, empty = self.chance.choice([0.0, 0.0, 2.5]), self.chance.random() < 0.2
        if self.both("set_pool", name, limits, spent=spent, empty=empty) is not QueueLost:
            self.limits.pop(name, None)
            if limits is not None and name not in TEMPLATES:
                self.limits[name] = limits

    def set_shares(self) -> None:
        """Set others, of any version: an older one changes nothing."""
        parts = [self.chance.uniform(0.01, 0.2) for _ in range(5)]
        ceilings = [self.chance.uniform(part, 1.0) for part in parts]
        self.both("set_shares", Shares(tuple(parts), tuple(ceilings)), self.chance.randint(1, 40))

    def some_limits(self) -> Limits:
        pick, now = self.chance.choice, self.clock.ms
        steps = pick([(), (), ((now + 3000, pick([0.0, 2.0, 6.0])), (now + 9000, 4.0))])
        return Limits(
            pick([Kind.SLOTS, Kind.SLOTS, Kind.RATE, Kind.BUDGET]),
            capacity=pick([0.0, 1.0, 2.0, 4.0, 6.0, 10.0]),
            refill=pick([0.0, 0.001, 0.003, 0.02]),
            headroom=pick([0.0, 0.0, 0.25, 0.5]),
            steps=steps,
            resets=pick([(), (now + 5000,), (now + 2000, now + 20_000, now + 10**6)]),
            failures=pick([0, 2, 3]),
            error_rate=pick([1.0, 0.5]),
            samples=pick([3, 20]),
            cooldown=pick([500.0, 3000.0]),
            latency=pick([0.0, 150.0]),
            window=pick([0.0, 700.0, 5000.0, 5000.0]),
            window_units=pick([1.0, 3.0, 8.0]),
        )

    def explain(self) -> None:
        for run_id in self.chance.sample(RUNS, 3):
            self.both("explain", run_id)

    def stats(self) -> None:
        found = self.both("stats")
        if found is not QueueLost:
            assert found.leased == len(self.leases)

    def adopt(self) -> None:
        entry, token = self.entry(), uuid4_of(self.chance)
        if self.both("adopt", "w2", entry, token, self.chance.choice(LEASES)) is True:
            self.leases[entry.run_id] = (entry, token, token)

    def rebuild(self) -> None:
        """Empty both, sometimes with a look at what else may be asked then, sometimes without an end."""
        owner = self.chance.choice(OWNERS)
        if self.both("begin_rebuild", owner) is not True:
            return
        self.building = True
        self.leases, self.limits, self.nonces = {}, {}, {}
        for _ in range(self.chance.choice([0, 3, 12])):
            self.chance.choice(
                [self.put, self.set_pool, self.adopt, self.stats, self.take, self.advance, self.finish]
            )()
        if self.chance.random() < 0.1:
            self.clock.ms += 30_000
        self.both("end_rebuild", self.chance.choice([owner, owner, owner, *OWNERS]))
        while self.both("end_rebuild", owner) is not True and self.memory._complete is False:
            self.both("begin_rebuild", owner)
            self.leases, self.limits, self.nonces = {}, {}, {}
        self.building = False


def uuid4_of(chance: random.Random) -> str:
    return f"{chance.getrandbits(48):x}"


def _answer(call: Callable[..., Any], args: Any, named: Any) -> Any:
    try:
        return call(*args, **named)
    except QueueLost:
        return QueueLost


def _comparable(answer: Any) -> Any:
    """Leave out what differs: the epochs of the two queues, and their generations."""
    if isinstance(answer, Take):
        return (answer.hint, [_comparable(grant) for grant in answer.grants], answer.looks)
    if isinstance(answer, Grant):
        return (answer.run_id, answer.token.rpartition(".")[2], dict(answer.needs))
    return answer


@pytest.mark.random_walk
@pytest.mark.parametrize("seed", SEEDS)
def test_both_queues_give_the_same_answers(valkey_url: str, seed: int) -> None:
    clock = Clock()
    redis = RedisQueue(valkey_url, namespace=f"walk-{uuid4().hex}", clock=clock)
    try:
        walk = Walk(seed, clock, MemoryQueue(clock), redis)
        walk.go(STEP_COUNT)
        assert walk.replayed > STEP_COUNT / 20, "the walk replays the decisions of both"
    finally:
        redis.close()
