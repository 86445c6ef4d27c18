"""Retention: deletes what the rules let go, a batch at a time, so that no writer waits long for it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule, ScopedRule, scoped_rules
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.runtime.notices import RowsSwept
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.store.retention.preview import CountedRows, Foreseen
from duetime.scheduler.store.retention.selection import Selected

MIN_BATCH_ROWS, MAX_BATCH_ROWS = 1, 2_000
FIRST_BATCH_ROWS = 50
MAX_BATCH_GROWTH_RATIO = 1.5
BATCH_PAUSE_RATIO = 4
"""Between two batches others have this many times as long as the last one took."""

MIN_BATCH_PAUSE_S = 0.005
PAGE_PAUSE_RATIO = 3
ARCHIVED_TIME_S = 5.0
"""Seconds that deleting the rows of one file of the archive should take, pauses included: a run can end behind it."""

MAX_PORTION_GROWTH_RATIO = 2
SWEEP_INTERVAL = timedelta(days=1)
FAILED_SWEEP_INTERVAL = timedelta(hours=1)
SWEEP_CHECK_INTERVAL_S = 300.0

_KEEPERS = (RetentionKind.INBOX, RetentionKind.DELIVERIES, RetentionKind.DEAD_LETTERS)
RETENTION_ORDER = (*_KEEPERS, *(kind for kind in RetentionKind if kind not in _KEEPERS))
"""Rows that keep others go first. Tasks go next: what goes with them need not be looked for again."""

log = logging.getLogger(__name__)


class BatchSize:
    """The number of rows that the next batch may have, by the time that the last one took.

    `work_s` are the seconds that it should take.
    """

    def __init__(self, work_s: float) -> None:
        self.rows = FIRST_BATCH_ROWS
        self._work_s = work_s

    def learn(self, weight: int, seconds: float, *, full: bool = False) -> None:
        """Take less at once after a batch that was too slow, and a little more after a full one that was not.

        `seconds` are those before its commit. A batch is `full` that no further row fitted into, even where it weighs
        less than it might.
        """
        if seconds > self._work_s:
            self.rows = max(MIN_BATCH_ROWS, int(min(weight, self.rows) * self._work_s / seconds))
        elif full or weight >= self.rows:
            growth = min(MAX_BATCH_GROWTH_RATIO, self._work_s / max(seconds, 1e-6))
            self.rows = min(MAX_BATCH_ROWS, int(self.rows * growth) + 1)

    def split(self, rows: Sequence[Selected]) -> tuple[Sequence[Selected], Sequence[Selected]]:
        """Return the first rows that make a batch, one at least, and the others."""
        return _split(rows, self.rows)


def _split(rows: Sequence[Selected], max_weight: int) -> tuple[Sequence[Selected], Sequence[Selected]]:
    """Return the first rows that weigh so much together, one at least, and the others."""
    weight, end = 0, 0
    while end < len(rows) and (end == 0 or weight + rows[end].weight <= max_weight):
        weight, end = weight + rows[end].weight, end + 1
    return rows[:end], rows[end:]


class Sweep:
    """Looks through all rows once, and deletes what the rules let go."""

    def __init__(
        self,
        store: Store,
        policy: RetentionPolicy,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self._store = store
        self._policy = policy
        self._notifier = notifier
        self._size = BatchSize(store.retention.batch_work_s)
        self._portion = FIRST_BATCH_ROWS  # that one file of the archive may have
        self.owes = False
        """Whether rows that are in the archive have not been deleted yet."""
        self.deleted: Counter[str] = Counter()
        """Rows by table, up to now."""
        self.longest = 0.0
        """Seconds that the slowest batch took."""
        self.refused = False
        """Whether another process deletes at the moment, so that this one did nothing."""
        self.problems: dict[RetentionKind, str] = {}
        """The problem that stopped each kind of rows that was not looked through to its end."""

    def run(self, kinds: Collection[RetentionKind] = RETENTION_ORDER) -> Iterator[float]:
        """Do it step by step; yields the seconds to pause after each."""
        with self._store.retention.alone() as is_alone:
            self.refused = not is_alone
            for kind in [each for each in RETENTION_ORDER if each in kinds and is_alone]:
                yield from self._kind(kind)

    def due(self, kinds: Collection[RetentionKind]) -> dict[RetentionKind, Counter[str]]:
        """Count the rows by table that a run would delete now, for each kind of rule; deletes nothing."""
        now, counted = self._store.now(), CountedRows()
        applied: list[tuple[ScopedRule, datetime]] = []
        found = {kind: Counter[str]() for kind in RETENTION_ORDER if kind in kinds}
        for kind, counts in found.items():
            for scope in scoped_rules(self._policy.rules, kind):
                before = now - scope.age
                for rows in self._store.retention.pages(scope, before, Foreseen(now, tuple(applied))):
                    counts.update(self._store.retention.count(kind, rows, counted))
                applied.append((scope, before))
        counted.close()
        return found

    def _kind(self, kind: RetentionKind) -> Iterator[float]:
        before, problem = self.deleted.total(), None
        try:
            for scope in scoped_rules(self._policy.rules, kind):
                yield from self._rule(scope)
        except OSError as error:  # the archive cannot be written: nothing may be deleted
            problem = f"{type(error).__name__}: {error}"
            log.warning("retention of %s stops, because its archive cannot be written: %s", kind, error)
        except (StoreUnavailable, RunnerReplaced):
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            log.exception("retention of %s stops, and the other rules go on", kind)
        finally:
            self.owes = False  # of a kind that stops half-way, too: the next one has its own
        if problem is not None:
            self.problems[kind] = problem
        deleted = self.deleted.total() - before
        self._store.retention.swept(kind, deleted, problem)
        if deleted:
            self._notifier.noticed(RowsSwept(kind, deleted, self.longest))

    def _archived(self, kind: RetentionKind, rows: Sequence[Selected]) -> Sequence[Selected]:
        """Return the rows that are in the archive now, where there is one: no other may be deleted."""
        if self._policy.archive is None or not rows:
            return rows
        return self._store.retention.archive(kind, rows, self._policy.archive)

    def _rule(self, scope: ScopedRule) -> Iterator[float]:
        limit = self._store.now() - scope.age
        began = time.monotonic()
        for rows in self._store.retention.pages(scope, limit):
            yield PAGE_PAUSE_RATIO * (time.monotonic() - began)
            left: Sequence[Selected] = rows
            while left:
                portion, left = _split(left, self._portion) if self._policy.archive else (left, ())
                yield from self._delete(scope.rule, limit, self._archived(scope.rule.kind, portion))
            began = time.monotonic()

    def _delete(self, rule: RetentionRule, limit: datetime, left: Sequence[Selected]) -> Iterator[float]:
        while left:
            batch, left = self._size.split(left)
            done = self._store.retention.delete(rule, limit, batch)
            self.deleted.update(done.counts)
            self.longest = max(self.longest, done.seconds)
            weight = done.counts.total() if done.more else sum(row.weight for row in batch)
            self._size.learn(weight, done.work_seconds, full=bool(left))
            left = [*batch, *left] if done.more else left
            pause = max(MIN_BATCH_PAUSE_S, BATCH_PAUSE_RATIO * done.seconds)
            in_time = int(weight * ARCHIVED_TIME_S / (done.seconds + pause))
            self._portion = min(MAX_PORTION_GROWTH_RATIO * self._portion, max(1, in_time))
            self.owes = bool(left) and self._policy.archive is not None
            yield pause


class RetentionLoop:
    """Sweeps once a day while this process lives, and no other one does."""

    def __init__(
        self,
        store: Store,
        policy: RetentionPolicy,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self._store = store
        self._policy = policy
        self._notifier = notifier
        self._work: Iterator[float] | None = None
        self.loop = Loop("retention", self.step, replaced=notifier.on_replaced)

    def step(self) -> float:
        """Do a small part of a sweep that is due, and return the seconds until the next step."""
        if self._work is None:
            due = self._due()
            if not due:
                return SWEEP_CHECK_INTERVAL_S
            self._work = Sweep(self._store, self._policy, self._notifier).run(due)
        try:
            return next(self._work)
        except BaseException as end:
            self._work = None
            if isinstance(end, StopIteration):
                return SWEEP_CHECK_INTERVAL_S
            raise

    def close(self) -> None:
        """Release the lock between processes; the loop has ended."""
        work, self._work = self._work, None
        if work is not None:
            work.close()  # type: ignore[attr-defined] # a generator

    def _due(self) -> list[RetentionKind]:
        last, now = self._store.retention.last_sweeps(), self._store.now()
        ruled = [kind for kind, _ in groupby(sorted(rule.kind for rule in self._policy.rules))]
        found = []
        for kind in ruled:
            sweep = last.get(kind)
            interval = FAILED_SWEEP_INTERVAL if sweep and sweep.problem else SWEEP_INTERVAL
            if sweep is None or not timedelta(0) <= now - sweep.finished_at < interval:
                found.append(kind)
        return found
