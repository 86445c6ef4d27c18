"""One installation on this machine: its real processes, what was scheduled on it, and what was done to it."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.nodes.member import Member
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.request import Request
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from sqlalchemy import func, make_url, select

from tests import forked
from tests.faults.conftest import ROOT
from tests.faults.invariants import RECOVERY_S, problems
from tests.faults.proxy import Proxy
from tests.faults.record import Fault, Line, ProcessorWait, Record, Sample
from tests.faults.recording import Ledger, record_of
from tests.flow.waiting import eventually, processor_waits_s
from tests.services import OwnPostgres, OwnValkey

LEASE_S = 4.0
"""Seconds: short, so that a matrix of faults takes minutes. Everything that does not depend on it is as in
production."""

THREAD_COUNT = 4
POOLS = {"gpu": {"kind": "slots", "capacity": 3}}
TIERS = ("critical", "high", "normal", "low")
MAX_TASKS_AT_ONCE = 12
"""Tasks of the traffic that may wait for their effect."""

LOWEST_TIER_WAIT_S = 120.0
"""Seconds that a run of the lowest tier may wait for its turn while a busy machine runs the traffic, one at a time."""

SAMPLE_INTERVAL_S = 0.05
PATIENCE_S = 180.0
"""Seconds that the tests wait for what has to come, on a machine that may be busy with other things."""

CALL_S = 2.5
"""Seconds that a schedule call may take while the queue is away, but for those in which processors were wanted."""


@dataclass(frozen=True)
class Ground:
    """Where an installation stands: its database, its Redis if it is a shared one, and how its processes reach both."""

    database: str
    redis: str | None = None
    postgres: OwnPostgres | None = None
    valkey: OwnValkey | None = None
    postgres_proxy: Proxy | None = None
    redis_proxy: Proxy | None = None

    def for_nodes(self) -> tuple[str, str]:
        """Return the URLs of the database and of Redis as its processes get them: through the proxies, if there are."""
        return _through(self.postgres_proxy, self.database), _through(self.redis_proxy, self.redis or "")


def _through(proxy: Proxy | None, url: str) -> str:
    return make_url(url).set(port=proxy.port).render_as_string(hide_password=False) if proxy else url


@dataclass
class Node:
    """A process of the installation."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def is_up(self) -> bool:
        return self.said("serves MCP at") or self.said("now runs tasks")


@dataclass
class World:
    """See above. `faults` is filled by what breaks it; `check` says what does not hold once all has come to rest."""

    folder: Path
    ground: Ground
    lease: float = LEASE_S
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: POOLS)
    backlog: float = 0.0
    turn: float = 0.0
    nodes: list[Node] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    acknowledged: dict[str, Principal] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    waits: list[ProcessorWait] = field(default_factory=list)
    slowest_call: float = 0.0
    repeated_calls: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.ledger_file = self.folder / "ledger"
        self._ledger = Ledger(self.ledger_file)
        settings = Settings(
            database_url=self.ground.database,
            redis_url=self.ground.redis,
            handlers=("tests.faults.ledger",),
            timezone="UTC",
            pools=self.pools,
            lease_seconds=self.lease,
            yield_to_load=False,  # runs have to meet each other on a busy machine too
        )
        self.app: App = build(settings)
        self.app.registry.declare(self.pools)
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    @property
    def shared(self) -> bool:
        return self.ground.redis is not None

    # -- processes

    def start(
        self,
        *,
        failpoint: str = "",
        processes: int = 1,
        threads: int = THREAD_COUNT,
        memory: int = 0,
        clock: float = 0,
        serve: bool = False,
    ) -> Node:
        """Start one more process that runs tasks, and return when it does. `clock` is by how much it is wrong."""
        role = ["worker", "--processes", str(processes)] if self.shared and not serve else ["serve", "--port", "0"]
        program = ["-m", "tests.faults.wrong_clock", str(clock)] if clock else ["-m", "duetime"]
        log = self.folder / f"log-{len(self.nodes)}"
        with log.open("wb") as output:
            process = forked.popen(
                [sys.executable, *program, *role],
                cwd=ROOT,
                env=self.environment(failpoint, threads),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        if memory:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (memory, memory))
        node = Node(process, log)
        self.nodes.append(node)
        eventually(lambda: node.is_up() or process.poll() is not None, "a process to be up", PATIENCE_S)
        return node

    def start_again(self, **how: Any) -> Node:
        """Start a process where there is none left: only when it is up is the last fault over."""
        node = self.start(**how)
        self.faults[-1] = replace(self.faults[-1], ended=time.time())
        return node

    def environment(self, failpoint: str = "", threads: int = THREAD_COUNT) -> dict[str, str]:
        """Return the environment of its processes."""
        database, redis = self.ground.for_nodes()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        given = {
            "DUETIME_DATABASE_URL": database,
            "DUETIME_REDIS_URL": redis,
            "DUETIME_HANDLERS": "tests.faults.ledger",
            "DUETIME_TIMEZONE": "UTC",
            "DUETIME_POOLS": json.dumps(self.pools),
            "DUETIME_LEASE_SECONDS": f"{self.lease:g}",
            "DUETIME_THREADS": str(threads),
            "DUETIME_DESKTOP_NOTIFICATIONS": "off",
            "DUETIME_YIELD_TO_LOAD": "false",
            "DUETIME_LOG_FORMAT": "text",
            "DUETIME_TEST_FAILPOINT": failpoint,
            "LEDGER": str(self.ledger_file),
        }
        return kept | {name: value for name, value in given.items() if value}

    def close(self) -> None:
        self._ended.set()
        for node in self.nodes:
            if node.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(node.pid, signal.SIGCONT)
                node.process.terminate()
        for node in self.nodes:
            try:
                node.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
        self._sampler.join(PATIENCE_S)
        self.app.close()

    # -- what is scheduled

    def schedule(self, count: int = 1, *, action: str = "effect", tenants: int = 1, **values: Any) -> list[str]:
        """Schedule `count` tasks and return the ids that were answered; the key makes each call safe to repeat."""
        return [self._call(action, f"tenant-{n % tenants}", values) for n in range(count)]

    def schedule_batch(self, requests: Sequence[Request], *, tenant: str = "tenant-0") -> list[str]:
        by = Principal(tenant, "alice")
        made = [view.record.task.id for view in self.app.scheduler.task_creator.create_many(requests, by=by)]
        self.acknowledged.update(dict.fromkeys(made, by))
        return made

    def _call(self, action: str, tenant: str, values: Mapping[str, Any]) -> str:
        number = next(self._numbers)
        by = Principal(tenant, "alice")
        arguments: dict[str, Any] = {"when": "now", "action": action, "idempotency_key": f"k{number}", **values}
        while True:
            began, waits_s = time.monotonic(), processor_waits_s()
            try:
                view = self.app.scheduler.schedule(f"Task {number}", by=by, **arguments)
            except StoreUnavailable:
                self.repeated_calls += 1
                time.sleep(0.1)
                continue
            took = time.monotonic() - began - (processor_waits_s() - waits_s)
            self.slowest_call = max(self.slowest_call, took)
            self.acknowledged[view.record.task.id] = by
            return view.record.task.id

    @contextmanager
    def traffic(self, every: float = 0.03, **values: Any) -> Iterator[None]:
        """Schedule a task every so many seconds while the block lasts: three tenants, all tiers, deadlines, a pool.

        Never more than a busy machine can do. While all tiers wait, the lowest may have to let many go first.
        """
        self.backlog = max(self.backlog, LOWEST_TIER_WAIT_S)
        ended = threading.Event()

        def run() -> None:
            number = 0
            while not ended.wait(every):
                if len(self.acknowledged) - len(self.effects()) > MAX_TASKS_AT_ONCE:
                    continue
                self._call("effect", f"tenant-{number % 3}", _mixed(number) | values)
                number += 1

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(run)
            try:
                yield
            finally:
                ended.set()
        done.result(60)

    # -- what breaks

    def broke(
        self, name: str, evidence: str, *, began: float | None = None, ended: float | None = None, **values: Any
    ) -> None:
        """Note a fault that is over by `ended` (now); an empty `evidence` makes the scenario fail."""
        now = time.time()
        times = (now if began is None else began, now if ended is None else ended)
        self.faults.append(Fault(name, *times, evidence, **values))

    def kill(self, node: Node, name: str = "kill -9") -> None:
        """Kill a process in the middle of what it runs."""
        eventually(lambda: self.stopped_in_the_middle(node.pid), "work in the middle of which to kill", PATIENCE_S)
        now = time.time()
        node.process.kill()
        node.process.wait(PATIENCE_S)
        self.broke(name, self._cut_short(node.pid), began=now, ended=now, deaths=(node.pid,))

    def stopped_in_the_middle(self, pid: int) -> bool:
        """Stop a process if it is in the middle of something, and otherwise let it go on."""
        if not self.in_the_middle(pid):
            return False
        os.kill(pid, signal.SIGSTOP)
        caught = bool(self.in_the_middle(pid))
        if not caught:
            os.kill(pid, signal.SIGCONT)
        return caught

    def working(self, node: Node) -> Node:
        """Return the process that runs tasks now: of an embedded installation, the runner, whichever that is."""
        if not self.shared:
            eventually(lambda: self.runner() is not None, "a runner", PATIENCE_S)
            return self.runner() or node
        return node

    def runner(self) -> Node | None:
        current = self.app.store.runners.current()
        alive = [node for node in self.nodes if node.process.poll() is None]
        return next((node for node in alive if current and node.pid == current.pid), None)

    def run_until(self, condition: Callable[[], object], patience: float = PATIENCE_S) -> None:
        """Keep a process running, by starting another whenever it has died, until the condition holds."""
        give_up = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < give_up, "the work did not end"
            if all(node.process.poll() is not None for node in self.nodes):
                self._nobody_left()
            time.sleep(0.05)

    def _nobody_left(self) -> None:
        began = time.time()
        self.start()
        self.broke("no process", f"nobody ran tasks for {time.time() - began:.1f} s", began=began)

    def died(self, node: Node, name: str, number: signal.Signals, words: str) -> None:
        """Wait for a process to end itself by a signal, with these last words."""
        eventually(lambda: node.process.poll() is not None, f"{name} to happen", PATIENCE_S)
        right = node.process.returncode == -number and node.said(words)
        self.broke(name, f"process {node.pid}: {words}" if right else "", deaths=(node.pid,))

    @contextmanager
    def frozen(self, node: Node) -> Iterator[None]:
        """Freeze a process that is in the middle of something for as long as the block takes."""
        eventually(lambda: self.stopped_in_the_middle(node.pid), "work in the middle of which to freeze", PATIENCE_S)
        began = time.time()
        held = len(self.in_the_middle(node.pid))
        try:
            yield
        finally:
            os.kill(node.pid, signal.SIGCONT)
            evidence = (
                f"process {node.pid} stood still for {time.time() - began:.1f} s with {held} runs" if held else ""
            )
            self.broke("SIGSTOP of a worker", evidence, began=began, frozen=(node.pid,))

    def in_the_middle(self, pid: int) -> list[Line]:
        """Return what a process has begun and has not had its effect of."""
        return self._ledger.open(pid)

    def running(self) -> list[str]:
        """Return the ids of the runs that are under way, by the word of the database."""
        ids = select(runs.c.id).where(runs.c.state == State.RUNNING)
        return self.app.store._database.read(lambda connection: list(connection.execute(ids).scalars()))

    def queue(self) -> DispatchQueue:
        """Return the queue that all processes of a shared installation work with."""
        assert isinstance(self.app.runner, Member)
        return self.app.runner.queue.within

    def _cut_short(self, pid: int) -> str:
        found = self.in_the_middle(pid)
        return f"process {pid} died in {len(found)} runs" if found else ""

    # -- what is seen

    def ledger(self) -> tuple[Line, ...]:
        return self._ledger.lines()

    def effects(self) -> Counter[str]:
        return self._ledger.effects()

    def open_runs(self) -> int:
        """Count the runs that have not ended, of tasks that are not left open on purpose."""
        open_ones = select(func.count()).where(runs.c.ended_at.is_(None), runs.c.task_id.not_in(self.pending))
        found: int = self.app.store._database.read(lambda connection: connection.execute(open_ones).scalar_one())
        return found

    def leftovers(self) -> dict[str, int]:
        """Count what should be gone when nothing runs: by the word of the database, and by that of the queue."""
        running = select(func.count()).where(runs.c.state == State.RUNNING)
        stale = select(func.count()).where(runs.c.state != State.RUNNING, runs.c.reserved.is_not(None))
        counted = self.app.store._database.read(
            lambda connection: [connection.execute(each).scalar_one() for each in (running, stale)]
        )
        found = dict(zip(("running runs", "stale reservations"), counted, strict=True))
        stats = self.app.remote_queue.stats()
        if stats is None:
            return found | {"queues that do not answer": 1}
        used = sum(1 for pool in stats.pools.values() if pool.used)
        waiting = sum(stats.waiting) + stats.delayed + stats.parked
        return found | {"leases": stats.leased, "pools in use": used, "runs in the queue": waiting}

    def rest(self, patience: float = PATIENCE_S) -> None:
        """Wait until everything has ended, and for as long as a promise allows until nothing is left over."""
        eventually(lambda: self.open_runs() == 0, "all runs to end", patience)
        with suppress(AssertionError):  # what is left over then is for the checker to name
            eventually(lambda: not any(self.leftovers().values()), "nothing to be left over", RECOVERY_S + 5)

    def record(self) -> Record:
        """Return all that happened, once everything has come to rest."""
        leftovers = self.leftovers()
        repaired = sum(self._recover() for _ in range(2))
        record = record_of(
            self.app.store,
            self._ledger,
            self.acknowledged,
            faults=tuple(self.faults),
            pending=frozenset(self.pending),
            samples=tuple(self.samples),
            waits=tuple(self.waits),
            capacities={name: float(pool["capacity"]) for name, pool in self.pools.items()},
            leftovers=leftovers,
            repaired=repaired,
            backlog=self.backlog,
            turn=self.turn,
        )
        return replace(record, faults=(*record.faults, *_died_of_their_handlers(record)))

    def check(self) -> Record:
        """Raise AssertionError with everything that does not hold."""
        record = self.record()
        found = problems(record)
        assert not found, "\n".join(map(str, found[:20])) + f"\n({len(found)} problems)"
        return record

    def _recover(self) -> int:
        """Let recovery look once more; return how many rows that changed."""
        before = self._digest()
        store = self.app.store
        ended = store.claims.recover_lapsed(epoch=None, held=(), before=store.now())
        return len(ended) + (self._digest() != before)

    def _digest(self) -> tuple[Any, ...]:
        newest = select(func.max(events.c.id), func.count())
        states = (
            select(runs.c.state, func.count(), func.sum(runs.c.attempt)).group_by(runs.c.state).order_by(runs.c.state)
        )
        return self.app.store._database.read(
            lambda connection: (*connection.execute(newest).one(), *map(tuple, connection.execute(states)))
        )

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_INTERVAL_S):
            self.waits.append(ProcessorWait(time.time(), processor_waits_s()))
            try:
                stats = self.app.remote_queue.stats()
            except Exception:  # noqa: BLE001 - a queue that is away has nothing to say
                continue
            now = time.time()
            for name, pool in stats.pools.items() if stats else ():
                if name in self.pools:
                    self.samples.append(Sample(now, name, pool.used, pool.capacity))


def _mixed(number: int) -> dict[str, Any]:
    """Return the arguments of one of the mixed tasks: a fifth with a deadline, half with a need."""
    deadline = {"deadline": "1 hour", "deadline_type": "hard" if number % 2 else "soft-linear"}
    return {
        "priority": TIERS[number % len(TIERS)],
        **(deadline if number % 5 == 0 else {}),
        **({"needs": {"gpu": 1}} if number % 2 else {}),
    }


def _died_of_their_handlers(record: Record) -> Iterator[Fault]:
    """Find the processes that a misbehaving handler took down: each such death is a fault with its own evidence."""
    deadly = {run.id: run.action for run in record.runs if run.action in {"poison", "segfault", "exit"}}
    known = {pid for fault in record.faults for pid in fault.deaths}
    crashed = {(attempt.run_id, attempt.number) for attempt in record.attempts if attempt.outcome == "crashed"}
    for line in record.ledger:
        fatal = line.step == "start" and line.run_id in deadly and (line.run_id, line.attempt) in crashed
        if fatal and line.pid not in known:
            known.add(line.pid)
            name = deadly[line.run_id]
            yield Fault(name, line.at, line.at, f"{name} ended process {line.pid}", deaths=(line.pid,))


def has_ended(world: World, task_id: str) -> bool:
    return world.app.scheduler.get(task_id, by=world.acknowledged[task_id]).record.run.state in TERMINAL
