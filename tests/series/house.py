"""The product as the walk drives it: service, store, dispatcher, queue and settlement, on one clock and one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.queue import DispatchQueue, Finish
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.run_records import Claim, ReadyRun, Start, Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy
from duetime.scheduler.views import TaskFilter, TaskRecord
from duetime.scheduler.worker.completer import renewed

from tests.builders import Clock
from tests.series.model import ATTEMPTS, PAUSE_BETWEEN_ATTEMPTS

FOR_EVER_MS = 1e13
MOST_GRANTS = 1000
MOST_EVENTS = 10_000
RETRY = RetryPolicy(max_attempts=ATTEMPTS, backoff=timedelta(seconds=1))
OUTCOMES: Mapping[str, Outcome] = {
    "done": Done("done"),
    "failed": Failed("it cannot succeed"),
    "retry": Retry("no answer", after=PAUSE_BETWEEN_ATTEMPTS),
}


class House:
    """One runner of many tasks; whatever it starts ends as it is told to."""

    def __init__(self, store: Store, clock: Clock, queue: DispatchQueue | None = None) -> None:
        self.store, self.clock = store, clock
        self.queue = queue or MemoryQueue(lambda: clock().timestamp() * 1000)
        self.dispatcher = Dispatcher(store, self.queue)
        self.planner = Planner(
            Handlers.load(entry_points=False),
            "UTC",
            channels=Channels(),
            minimum_interval=timedelta(seconds=1),
            upstreams=store.dependencies.known,
        )
        self.scheduler = Scheduler(store, self.planner, recall=self._recall)
        store.dependencies.listen_for_urgency(self.dispatcher.rescore)

    def _recall(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self.queue.cancel(run_id)

    def dispatch(self) -> None:
        """Make ready what is due."""
        while self.dispatcher.step() == 0.0:
            pass

    def start(self) -> list[Claim]:
        """Start all that is ready, by a worker with as many threads as it takes."""
        claims: list[Claim] = []
        while grants := self.queue.take("w", MOST_GRANTS, FOR_EVER_MS).grants:
            starts = [Start(grant.run_id, grant.token, grant.needs) for grant in grants]
            found = self.store.claims.start(starts, worker="w", epoch=None, lease=timedelta(days=9999))
            started = {claim.run.id for claim in found}
            self.queue.finish(
                "w", [Finish(grant.run_id, grant.token) for grant in grants if grant.run_id not in started]
            )
            claims += found
        return claims

    def end(self, ended: Sequence[tuple[Claim, str]]) -> None:
        """End attempts, those of one task one after the other."""
        rounds: dict[int, list[tuple[Claim, str]]] = {}
        counts: Counter[str] = Counter()
        for each in ended:
            counts[each[0].task.id] += 1
            rounds.setdefault(counts[each[0].task.id], []).append(each)
        for together in rounds.values():
            self._end(together)

    def _end(self, ended: Sequence[tuple[Claim, str]]) -> None:
        """End attempts; where a task was changed since the claim its end is decided anew, as a worker does."""
        found = [settle(claim, OUTCOMES[how], now=self.clock(), jitter=0.0) for claim, how in ended]
        verdicts = self.store.claims.settle(found) if found else []
        assert Verdict.FENCED not in verdicts
        stale = [each for each, verdict in zip(ended, verdicts, strict=True) if verdict is Verdict.STALE]
        if stale:
            self._end([(self._reloaded(claim), how) for claim, how in stale])
        self.queue.finish("w", [Finish(claim.run.id, claim.token) for claim, _ in ended])

    def _reloaded(self, claim: Claim) -> Claim:
        return renewed(claim, self.store.tasks.get(claim.run.tenant, claim.run.task_id))

    def release(self, claim: Claim) -> None:
        """Give back what an attempt held that was ended otherwise."""
        self.queue.finish("w", [Finish(claim.run.id, claim.token)])

    def place(self, run_id: str) -> float:
        """Return the place of a ready run in the queue."""
        assert isinstance(self.queue, MemoryQueue)
        entry = self.queue._state._here(run_id)
        assert entry is not None, "it is ready, and not in the queue"
        return entry.key

    def place_of(self, ready: ReadyRun) -> float:
        """Return the place that a ready run should have by now."""
        return self.dispatcher._placement.key(ready)

    def next_wake(self) -> datetime | None:
        return self.store.claims.next_times().first()

    def listed(self) -> dict[str, TaskRecord]:
        """Return every task that a user sees as open, by its id."""
        page = self.scheduler.list(TaskFilter(states=tuple(OPEN)), limit=100)
        assert page.cursor is None
        return {view.record.task.id: view.record for view in page.views}

    def events(self, task_id: str) -> Sequence[Event]:
        return self.store.history.events("local", EventFilter(task_id=task_id), limit=MOST_EVENTS).events
