"""New keys for ready runs: when the learned estimate of an action has changed, its runs move in the queue."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.records import ReadyRun
from duetime.scheduler.store import Store

MAX_NEW_KEYS = 1_000
"""Runs per look that get a new key; the next look continues after them."""

MIN_ESTIMATE_MOVE = timedelta(seconds=1)
MIN_ESTIMATE_MOVE_DIVISOR = 4
"""An estimate has changed when it differs by more than a fourth, and by a second at least."""

Of = tuple[str, str]
"""A tenant and one of its actions."""


class NewKeys:
    """Compares estimates with those of the current keys: at first, with the estimates without learning.

    Only the key of a run with a deadline depends on its duration, and only without an estimate of the caller.
    """

    def __init__(self, store: Store, queue: DispatchQueue, placement: Placement) -> None:
        self._store = store
        self._queue = queue
        self._placement = placement
        self._keyed_by: dict[Of, timedelta] = {}
        self._now: dict[Of, timedelta] = {}
        self._done_to: dict[Of, str] = {}
        self._unfinished: set[Of] = set()
        self._left = MAX_NEW_KEYS

    def begin(self) -> None:
        """Begin a look at all ready runs, by id."""
        self._now, self._unfinished, self._left = {}, set(), MAX_NEW_KEYS

    def update(self, runs: Iterable[ReadyRun]) -> None:
        """Give a new key to those of the runs whose action takes longer or shorter than its key assumed."""
        drops: dict[str, datetime] = {}
        for run in runs:
            if run.deadline is None or run.estimate is not None or not self._is_due(run):
                continue
            self._queue.rescore(run.run_id, self._placement.key(run))
            if (drop_at := self._placement.drop_at(run)) is not None:
                drops[run.run_id] = drop_at
        if drops:
            self._store.claims.redate(drops)

    def end(self) -> None:
        """Store the estimates that the keys of all runs of an action now use."""
        for of in self._now.keys() - self._unfinished:
            if self._has_moved(of):
                self._keyed_by[of] = self._now[of]
            self._done_to.pop(of, None)

    def _is_due(self, run: ReadyRun) -> bool:
        of = (run.tenant, run.action)
        if of not in self._now:
            self._now[of] = self._placement.learned_p90(*of)
        if not self._has_moved(of) or run.run_id <= self._done_to.get(of, ""):
            return False
        if self._left == 0:
            self._unfinished.add(of)
            return False
        self._left -= 1
        self._done_to[of] = run.run_id
        return True

    def _has_moved(self, of: Of) -> bool:
        before = self._keyed_by.setdefault(of, self._placement.declared_p90(of[1]))
        return abs(self._now[of] - before) > max(before / MIN_ESTIMATE_MOVE_DIVISOR, MIN_ESTIMATE_MOVE)
