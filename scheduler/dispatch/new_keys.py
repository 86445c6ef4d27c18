"""New keys for runs that wait: when the learned estimate of an action has moved, its runs take another place."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.records import ReadyRun
from duetime.scheduler.store import Store

MAX_NEW_KEYS = 1_000
"""Runs that one look gives a new key: the next look goes on behind them."""

LEAST_MOVE = timedelta(seconds=1)
LEAST_MOVE_PART = 4
"""An estimate has moved when it changed by more than a fourth, and by a second at least."""

Of = tuple[str, str]
"""A tenant and one of its actions."""


class NewKeys:
    """Compares estimates with those by which runs were keyed: at first, what is said of an action without learning.

    Only runs with a deadline have keys that depend on how long they take, and only where the caller did not say that.
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
        """Begin a look at all runs that are ready, by id."""
        self._now, self._unfinished, self._left = {}, set(), MAX_NEW_KEYS

    def update(self, runs: Iterable[ReadyRun]) -> None:
        """Give those of the runs a new key whose action takes longer or shorter than was thought."""
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
        """Take note of the estimates by which all runs of an action are keyed now."""
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
        return abs(self._now[of] - before) > max(before / LEAST_MOVE_PART, LEAST_MOVE)
