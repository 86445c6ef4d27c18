"""A runner on a clock that is turned by hand: the real service, store, queue, dispatcher and handlers on one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Context, Handlers, Link, run_handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.queue import Finish, Limits
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.remote import RemoteQueue, answer
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Start, Verdict
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock

WORKER: Final = "w"
LEASE: Final = timedelta(days=9)
LOOK: Final = timedelta(minutes=15)
FOREVER_MS: Final = 1e13
LATEST_ATTEMPT_JITTER_RATIO: Final = 1.0


class VirtualRunner:
    """The parts of one runner, moved by whoever holds it: `dispatch`, `take`, `attempt`, `end`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        handlers: Handlers,
        zone: str,
        pools: Mapping[str, tuple[Pool, Limits]],
        **planning: Any,
    ) -> None:
        self.store, self.clock, self.handlers = store, clock, handlers
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.hint: float | None = None  # seconds after which time alone may let another run start
        for name, (_, limits) in pools.items():
            self.queue.set_pool(name, limits)
        declared = {name: pool for name, (pool, _) in pools.items()}
        self.dispatcher = Dispatcher(store, self.queue)
        self.maintenance = Maintenance(store, self.queue, clock=lambda: clock().timestamp())
        planner = Planner(handlers, zone, pools=lambda: declared, upstreams=store.dependencies.known, **planning)
        explainer = Explainer(store, RemoteQueue(lambda question: answer(self.queue, question)), lambda: declared)
        self.scheduler = Scheduler(store, planner, explainer=explainer, notices=ChangeNotices(recall=self._recall))

    def _recall(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self.queue.cancel(run_id)

    def dispatch(self) -> None:
        """Put what is due into the queue, and give the answers that nobody gave in time."""
        self.maintenance.step()
        while self.dispatcher.step() == 0.0:
            pass

    def take(self, threads: int) -> Sequence[Claim]:
        """Start as many runs as there are threads, if so many may start."""
        taken = self.queue.take(WORKER, threads, FOREVER_MS)
        grants, self.hint = taken.grants, taken.hint
        starts = [Start(grant.run_id, grant.token, grant.needs) for grant in grants]
        claims = self.store.claims.start(starts, worker=WORKER, epoch=None, lease=LEASE)
        started = {claim.run.id for claim in claims}
        self.queue.finish(
            WORKER, [Finish(grant.run_id, grant.token) for grant in grants if grant.run_id not in started]
        )
        return claims

    def attempt(self, claim: Claim) -> Outcome:
        """Run the handler, now."""
        task, run, claims = claim.task, claim.run, self.store.claims
        link = Link(
            report=lambda value: claims.progress(run.id, run.attempt, value),
            save=lambda value: claims.checkpoint(run.id, run.attempt, value),
            now=self.store.now,
            inputs=lambda: self.store.dependencies.results(task.tenant, task.id, run),
        )
        context = Context.of(task, run, worker=WORKER, needs=claim.reserved, link=link, traceparent=None)
        return run_handler(self.handlers[task.action], context, task.payload)

    def end(self, claim: Claim, outcome: Outcome, reports: Sequence[Report] = ()) -> None:
        """Store the outcome, and release what the run held."""
        now = self.clock()
        [verdict] = self.store.claims.settle([settle(claim, outcome, now=now, jitter=LATEST_ATTEMPT_JITTER_RATIO)])
        assert verdict is Verdict.SETTLED, verdict
        self.queue.finish(WORKER, [Finish(claim.run.id, claim.token, reports=tuple(reports))])

    def next_due(self) -> datetime:
        """Return when to look next: when something falls due, but in a quarter of an hour at the latest."""
        return min(self.store.claims.next_times().first() or datetime.max.replace(tzinfo=UTC), self.clock() + LOOK)
