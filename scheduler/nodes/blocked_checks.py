"""Checks blocked runs again before they are due, and unblocks those that have what they need by now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from duetime.scheduler.errors import DuetimeError, RunnerReplaced, StoreUnavailable, TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.contract.preflight import is_blocked, next_check
from duetime.scheduler.handlers.contract.timed_check import TimedChecks
from duetime.scheduler.runtime.failure_log import RepeatFilter
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store
from duetime.scheduler.store.dispatch.blocked_runs import BlockedRun

BLOCKED_CHECK_INTERVAL_S: Final = 5.0
MAX_LOOK_S: Final = 2.0
"""Time for all checks of one step together; runs that are left over are checked at their next time."""

MAX_RUNS_PER_LOOK: Final = 20
"""Runs that one look checks, the most overdue first: a thousand that are blocked together come one after the other."""

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


class BlockedChecks:
    """Checks blocked runs whose actions this process has; `changed` is called with the tasks that it changed."""

    def __init__(self, store: Store, handlers: Handlers, changed: Callable[[Sequence[str]], None]) -> None:
        self._store = store
        self._handlers = {name: each for name, each in handlers.items() if each.has_early_check}
        self._changed = changed
        self._checks = TimedChecks(store.now, store.secrets.value)
        self.loop = Loop("blocked", self.step)

    @property
    def is_needed(self) -> bool:
        """Whether any handler has a check."""
        return bool(self._handlers)

    def step(self) -> float:
        """Check the runs whose time it is, and return the seconds until the next look."""
        taken = self._store.blocked.take(self._handlers, limit=MAX_RUNS_PER_LOOK, following=next_check)
        ends_at = monotonic() + MAX_LOOK_S
        changed = []
        for run in taken:
            changed += [run.task_id] if self._survived(run, ends_at) else []
        if changed:
            self._changed(changed)
        return BLOCKED_CHECK_INTERVAL_S

    def _survived(self, run: BlockedRun, ends_at: float) -> bool:
        """Check a run; one that cannot be checked is logged, stays blocked, and holds up none of the others."""
        try:
            return self._check(run, ends_at)
        except (StoreUnavailable, RunnerReplaced):  # all runs fail alike
            raise
        except Exception as error:  # the others are checked whatever it is
            cause = None if isinstance(error, DuetimeError) else error
            log.warning("cannot check the blocked run %s of %s: %s", run.run_id, run.task_id, error, exc_info=cause)
            return False

    def _check(self, run: BlockedRun, ends_at: float) -> bool:
        try:
            record = self._store.tasks.get(run.tenant, run.task_id)
        except TaskNotFound:
            return False
        handler = self._handlers[record.task.action]
        answer = self._checks.look(handler, record.task, record.run, now=self._store.now(), ends_at=ends_at)
        if answer is None:
            return False
        missing = answer.wait.reason if answer.wait else None
        if missing == run.missing or (missing is not None and not is_blocked(missing)):  # a fault that may pass
            return False
        return self._store.blocked.checked(run, missing)
