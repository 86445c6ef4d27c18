"""Runs of actions without a handler in this worker: given back, without an attempt, to workers that have one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from duetime.scheduler.store import Store

KNOWN_DELAY_MS = 100.0
"""Milliseconds until a run whose action another worker knows may be taken again."""

DELAY_PER_RUN_MS = 10.0
"""Added milliseconds per such run given back lately: a backlog would be passed around a hundred times a second."""

UNKNOWN_DELAY_MS = 2_000.0
"""Milliseconds of delay while no live worker knows the action."""

ALONE_DELAY_MS = 30_000.0
"""Milliseconds of delay where no other process may start runs: a runner with the handler begins with its own queue."""

GIVEN_BACK_WINDOW_S = 5.0
"""Seconds for which given back runs are counted, and for which the actions of workers are cached."""

WORKER_ALIVE_FOR = timedelta(seconds=15)

log = logging.getLogger(__name__)


class UnknownActions:
    """Computes the delay of each run left to others. `alone`: no other process may start runs."""

    def __init__(self, store: Store, actions: Collection[str], *, alone: bool, clock: Callable[[], float]) -> None:
        self._store = store
        self._actions = actions
        self._alone = alone
        self._clock = clock
        self._logged: set[str] = set()
        self._left_at: dict[str, float] = {}
        self._elsewhere: frozenset[str] = frozenset()
        self._read_at = float("-inf")

    def left(self, unknown: Mapping[str, str]) -> dict[str, float]:
        """Return by run the delay in milliseconds; `unknown` maps runs to their actions."""
        if not unknown:
            return {}
        self._log(set(unknown.values()) - self._logged)
        now = self._clock()
        self._left_at = {run_id: at for run_id, at in self._left_at.items() if now - at < GIVEN_BACK_WINDOW_S}
        self._left_at |= dict.fromkeys(unknown, now)
        return {run_id: self._delay_ms(action, now) for run_id, action in unknown.items()}

    def _delay_ms(self, action: str, now: float) -> float:
        if self._alone:
            return ALONE_DELAY_MS
        if action not in self._known_elsewhere(now):
            return UNKNOWN_DELAY_MS
        return max(KNOWN_DELAY_MS, DELAY_PER_RUN_MS * len(self._left_at))

    def _known_elsewhere(self, now: float) -> frozenset[str]:
        if now - self._read_at >= GIVEN_BACK_WINDOW_S:
            at = self._store.now()
            workers = self._store.workers.all()
            alive = [each for each in workers if each.seen_at is not None and at - each.seen_at <= WORKER_ALIVE_FOR]
            self._elsewhere = frozenset(action for each in alive for action in each.actions)
            self._read_at = now
        return self._elsewhere

    def _log(self, actions: Collection[str]) -> None:
        self._logged.update(actions)
        for action in sorted(actions):
            log.warning(
                "this worker has no handler %r (handlers: %s) and leaves its runs to other workers; "
                "see the setting `handlers`",
                action,
                ", ".join(self._actions),
            )
