"""The log of decisions: a few takes a minute are recorded, and stored in batches by a loop of their own."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.ids import is_id, new_id
from duetime.scheduler.rules.order import KeyFacts
from duetime.scheduler.rules.policies.decision import Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store

FLUSH_INTERVAL_S: Final = 2.0
"""Seconds between two batches of records that are stored."""

MAX_TAKES_SAVED: Final = 10
"""Takes that may be recorded one after the other, after a while without any."""

MAX_TAKES_KEPT: Final = 64
"""Recorded takes that wait to be stored; while the database is away, further ones are not recorded."""

MAX_DECISIONS_KEPT: Final = 20_000
MAX_DECISION_AGE: Final = timedelta(days=7)
TRIM_INTERVAL_S: Final = 300.0
"""Seconds between two looks for stored decisions that are too many or too old."""

log = logging.getLogger(__name__)


class DecisionLog:
    """Records takes of one worker, at most `per_minute` on average, 0 for none. `wanted` and `keep` are quick."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        worker: str,
        per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._placement = placement
        self._worker = worker
        self._per_second = per_minute / 60
        self._clock = clock
        self._saved = float(MAX_TAKES_SAVED)
        self._saved_at = clock()
        self._trim_at = clock()
        self._kept: deque[Sequence[Look]] = deque()
        self.loop = Loop("decisions", self.step)

    def wanted(self) -> bool:
        """Whether the next take is to be recorded."""
        if not self._per_second or len(self._kept) >= MAX_TAKES_KEPT:
            return False
        now = self._clock()
        self._saved = min(MAX_TAKES_SAVED, self._saved + (now - self._saved_at) * self._per_second)
        self._saved_at = now
        return self._saved >= 1

    def keep(self, looks: Sequence[Look]) -> None:
        """Keep what a recorded take saw, until the loop stores it; a take that saw nothing does not count.

        A look with a name that Duetime does not give is left out: somebody else wrote to the queue.
        """
        ours = [look for look in looks if all(map(is_id, _names(look)))]
        if ours:
            self._saved -= 1
            self._kept.append(ours)

    def step(self) -> float | None:
        """Store what was recorded, and return the seconds until the next step; None where nothing is recorded."""
        takes = [self._kept.popleft() for _ in range(len(self._kept))]
        try:
            self._store.decisions.add([decision for looks in takes for decision in self._decisions(looks)])
            if takes and self._clock() >= self._trim_at:
                self._store.decisions.trim(MAX_DECISIONS_KEPT, self._store.now() - MAX_DECISION_AGE)
                self._trim_at = self._clock() + TRIM_INTERVAL_S
        except StoreUnavailable as error:
            log.debug("dropped the records of %d takes: %s", len(takes), error)
        return FLUSH_INTERVAL_S if self._per_second else None

    def _decisions(self, looks: Sequence[Look]) -> Iterator[Decision]:
        """Return the decisions of a take; a run that is gone from the database leaves none."""
        seen = {run.run_id for look in looks for run in (look.run, *look.heads) if run is not None}
        at = datetime.fromtimestamp(looks[0].at / 1000, UTC)
        runs = {run.run_id: run for run in self._store.decisions.ready_runs(seen, at)}
        facts = {run_id: self._placement.facts(run) for run_id, run in runs.items()}
        for decision_id, look in zip(sorted(new_id("d") for _ in looks), looks, strict=True):
            run = runs.get(look.run.run_id)
            if run is not None:
                yield self._decision(decision_id, at, run, look, facts)

    def _decision(
        self, decision_id: str, at: datetime, run: ReadyRun, look: Look, facts: Mapping[str, KeyFacts]
    ) -> Decision:
        seen = [look.run, *(head for head in look.heads if head is not None)]
        known = {each.run_id: facts[each.run_id] for each in seen if each.run_id in facts}
        return Decision(decision_id, at, run.tenant, run.task_id, run.run_id, self._worker, look, known)


def _names(look: Look) -> Iterator[str]:
    yield from (run.run_id for run in (look.run, *look.heads) if run is not None)
    yield from (pool.pool for pool in look.pools)
