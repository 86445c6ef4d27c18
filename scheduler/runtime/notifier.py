"""Run notifier: how the parts of a process learn what happened in another part of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duetime.scheduler.records import Settlement

log = logging.getLogger(__name__)


def _ignore(*_news: object) -> None:
    """Notify nobody."""


@dataclass(frozen=True, slots=True)
class RunNotifier:
    """Calls each listener on the thread on which something happened, after its commit; listeners must be quick.

    `on_change` gets the ids of tasks whose run moved, `on_settled` how attempts ended. `on_replaced` is called when
    another process has raised the epoch, `on_exhausted` when a worker has lost as many threads as it has.
    """

    on_change: Callable[[Sequence[str]], None] = _ignore
    on_settled: Callable[[Sequence[Settlement]], None] = _ignore
    on_replaced: Callable[[], None] = _ignore
    on_exhausted: Callable[[], None] = _ignore

    def changed(self, task_ids: Sequence[str]) -> None:
        """Notify of tasks whose run moved. Never raises: what a listener raises is logged."""
        try:
            self.on_change(task_ids)
        except Exception:
            log.exception("a change listener failed")

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Notify of attempts that have ended, and of the tasks that they belong to."""
        self.on_settled(settlements)

    def replaced(self) -> None:
        """Notify that another process runs the tasks now."""
        self.on_replaced()
