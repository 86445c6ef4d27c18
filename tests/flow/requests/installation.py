"""One user's installation on a clock that is turned by hand; what is due runs by its real handlers, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Context, Link, run_handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.queue import Finish
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.remote import RemoteQueue, answer
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.flow.requests.handlers import handlers

ZONE: Final = "America/Denver"
POOLS: Final = {"gpu": Pool("gpu", capacity=1), "llm": Pool("llm", capacity=2)}
LEASE: Final = timedelta(days=9)
FOREVER_MS: Final = 1e13


class Installation:
    """A scheduler with a queue and a worker; nothing runs but in `turn` and `run_due`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock, self.handlers = store, clock, handlers()
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        for name, pool in POOLS.items():
            self.queue.set_pool(name, Limits(Kind.SLOTS, pool.capacity))
        self.dispatcher = Dispatcher(store, self.queue)
        planner = Planner(self.handlers, ZONE, pools=lambda: POOLS, upstreams=store.dependencies.known)
        explainer = Explainer(store, RemoteQueue(lambda question: answer(self.queue, question)), lambda: POOLS)
        self.scheduler = Scheduler(store, planner, explainer=explainer, recall=self._recall)

    def _recall(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self.queue.cancel(run_id)

    def turn(self, to: datetime) -> None:
        """Turn the clock, and run what falls due on the way at its time."""
        while (wake := self.store.claims.next_times().first()) is not None and wake <= to:
            self.clock.at = max(self.clock.at, wake)
            self.run_due()
        self.clock.at = max(self.clock.at, to)
        self.run_due()

    def run_due(self) -> None:
        """Run what is due, and what that lets go."""
        while self._dispatched() and (claims := self._taken()):
            for claim in claims:
                self._end(claim)

    def _dispatched(self) -> bool:
        while self.dispatcher.step() == 0.0:
            pass
        return True

    def _taken(self) -> Sequence[Claim]:
        grants = self.queue.take("w", 1, FOREVER_MS).grants
        starts = [Start(grant.run_id, grant.token) for grant in grants]
        return self.store.claims.start(starts, worker="w", epoch=None, lease=LEASE)

    def _end(self, claim: Claim) -> None:
        task, run, claims = claim.task, claim.run, self.store.claims
        link = Link(
            report=lambda value: claims.progress(run.id, run.attempt, value),
            save=lambda value: claims.checkpoint(run.id, run.attempt, value),
            now=self.store.now,
            inputs=lambda: self.store.dependencies.results(task.tenant, task.id),
        )
        context = Context.of(task, run, worker="w", needs=claim.reserved, link=link, traceparent=None)
        outcome = run_handler(self.handlers[task.action], context, task.payload)
        self.clock.at += timedelta(seconds=1)
        claims.settle([settle(claim, outcome, now=self.clock(), jitter=1.0)])
        self.queue.finish("w", [Finish(run.id, claim.token)])
