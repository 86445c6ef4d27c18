"""Runs that have not ended when their worker stops: interrupted, then handed back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.interrupt import WorkerStopping
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.executor import STOPPED

TOO_LONG = (
    "They start again elsewhere, from their last checkpoint. To avoid this, raise grace_seconds above their duration, "
    "or have their handlers check ctx.should_yield()"
)

log = logging.getLogger(__name__)


def interrupt(left: Sequence[ActiveRun]) -> None:
    """Interrupt the runs that did not end within the grace period."""
    if left:
        actions = ", ".join(sorted({held.action for held in left}))
        log.warning("%d runs (%s) did not end within the grace period. %s", len(left), actions, TOO_LONG)
    for held in left:
        held.interrupt(WorkerStopping)


def hand_back(left: Sequence[ActiveRun], hand_in: Callable[[ActiveRun, AttemptResult], None]) -> None:
    """Hand in the runs that have not begun, and those that do not stop, so that another worker starts them."""
    for held in left:
        if held.kill is not None:
            held.kill()
        elif not held.begin():
            log.warning(
                "run %s did not stop; handed it back, so it may start elsewhere while this attempt is still running",
                held.run_id,
            )
        hand_in(held, STOPPED)
