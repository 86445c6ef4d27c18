"""The product as the walk drives it: service, store, dispatcher, queue and settlement, on one clock and one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.queue import DispatchQueue, Finish
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.settlement import Unverified, refresh, settle
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.run_records import Claim, ReadyRun, Start, Verdict
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.rows import RUN_FIELDS
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import InboxMessage, RetryPolicy, Run
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import select

from tests.builders import Clock
from tests.series.model import MAX_ATTEMPTS, PAUSE_BETWEEN_ATTEMPTS

FOR_EVER_MS = 1e13
MAX_GRANTS = 1000
MAX_EVENTS = 10_000
RETRY = RetryPolicy(max_attempts=MAX_ATTEMPTS, backoff=timedelta(seconds=1))
OUTCOMES: Mapping[str, Outcome] = {
    "done": Done("done", {"order": 7}),
    "odd": Done("done", {}),
    "failed": Failed("it cannot succeed"),
    "retry": Retry("no answer", after=PAUSE_BETWEEN_ATTEMPTS),
}


@contextmanager
def traced(told: Sequence[str]) -> Iterator[None]:
    """Add to what goes wrong all that a walk did."""
    try:
        yield
    except Exception as error:
        steps = "\n  ".join(told)
        raise AssertionError(f"{error!r} after\n  {steps}") from error


class Mail:
    """A channel whose messages nobody sends: the walk has no deliverer."""

    name = "mail"

    def send(self, message: InboxMessage, *, key: str) -> None:
        raise AssertionError((message, key))

    def close(self) -> None:
        pass


class House:
    """One runner of many tasks; whatever it starts ends as it is told to."""

    def __init__(self, store: Store, clock: Clock, queue: DispatchQueue | None = None) -> None:
        self.store, self.clock = store, clock
        self.queue = queue or MemoryQueue(lambda: clock().timestamp() * 1000)
        self.dispatcher = Dispatcher(store, self.queue)
        self.planner = Planner(
            Handlers.load(["tests.faults.ledger"], entry_points=False),
            "UTC",
            channels=Channels([Mail()]),
            minimum_interval=timedelta(seconds=1),
            upstreams=store.dependencies.known,
        )
        self.scheduler = Scheduler(store, self.planner, notices=ChangeNotices(recall=self._recall))
        store.commits.listen(rescored=self.dispatcher.rescore)

    def _recall(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            self.queue.cancel(run_id)

    def dispatch(self) -> None:
        """Make ready what is due, and decide what nobody has answered in time."""
        while self.dispatcher.step() == 0.0 or self.store.approvals.expire(limit=MAX_GRANTS):
            pass

    def start(self) -> list[Claim]:
        """Start all that is ready, by a worker with as many threads as it takes."""
        claims: list[Claim] = []
        while grants := self.queue.take("w", MAX_GRANTS, FOR_EVER_MS).grants:
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
        """End attempts; where a task was changed since the claim its end is decided again, as a worker does."""
        found = [settle(claim, _result(claim, how), now=self.clock(), jitter=0.0) for claim, how in ended]
        verdicts = self.store.claims.settle(found) if found else []
        assert Verdict.FENCED not in verdicts
        stale = [each for each, verdict in zip(ended, verdicts, strict=True) if verdict is Verdict.STALE]
        if stale:
            self._end([(self._reloaded(claim), how) for claim, how in stale])
        self.queue.finish("w", [Finish(claim.run.id, claim.token) for claim, _ in ended])

    def _reloaded(self, claim: Claim) -> Claim:
        return refresh(claim, self.store.tasks.get(claim.run.tenant, claim.run.task_id))

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
        return {record.task.id: record for record in self.found(TaskFilter(states=tuple(OPEN)))}

    def follow_ups(self) -> Counter[str]:
        """Count the tasks that failures of each task have made."""
        made = [record.task.id for record in self.found(TaskFilter(label="on_failure"))]
        causes = [self.store.dependencies.failure("local", task_id) for task_id in made]
        return Counter(cause.task_id for cause in causes if cause)

    def found(self, where: TaskFilter) -> Iterator[TaskRecord]:
        cursor: str | None = ""
        while cursor is not None:
            page, cursor = self.store.tasks.page("local", where, limit=100, cursor=cursor or None)
            yield from page

    def open_questions(self) -> set[str]:
        """Return the tasks whose users are asked something."""
        asking = select(runs.c.task_id).join_from(approvals, runs, runs.c.id == approvals.c.run_id)
        asking = asking.where(approvals.c.closed_at.is_(None))
        return set(self.store._database.read(lambda connection: connection.execute(asking).scalars().all()))

    def times(self, task_ids: Sequence[str]) -> dict[str, datetime]:
        """Return the times of the current runs of tasks, whenever their timers fire."""
        found = select(runs.c.task_id, runs.c.scheduled_for).where(runs.c.task_id.in_(task_ids), runs.c.current)
        rows = self.store._database.read(lambda connection: connection.execute(found).all())
        return {task_id: at for task_id, at in rows}  # noqa: C416 - rows are no pairs for mypy

    def runs_of_each(self, task_ids: Sequence[str]) -> dict[str, list[Run]]:
        """Return all runs of these tasks, by task."""
        found: dict[str, list[Run]] = {task_id: [] for task_id in task_ids}
        wanted = select(*RUN_FIELDS).where(runs.c.task_id.in_(task_ids))
        for row in self.store._database.read(lambda connection: connection.execute(wanted).all()):
            found[row.task_id].append(Run(*row))
        return found

    def open_letters(self) -> set[str]:
        """Return the runs whose dead letters are open."""
        open_ones = select(dead_letters.c.run_id).where(dead_letters.c.closed_at.is_(None))
        return set(self.store._database.read(lambda connection: connection.execute(open_ones).scalars().all()))

    def events(self, task_id: str) -> Sequence[Event]:
        return self.store.history.events("local", EventFilter(task_id=task_id), limit=MAX_EVENTS).events


def _result(claim: Claim, how: str) -> Outcome:
    """Return what an attempt gives, as a worker hands it in, which checks what was expected when the attempt began."""
    odd = how == "odd" and claim.task.expect
    return Unverified("done", {}, miss="it has no order") if odd else OUTCOMES[how]
