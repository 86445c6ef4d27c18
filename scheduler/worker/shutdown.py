"""Runs that have not ended when their worker stops or drains: announced, interrupted, then handed back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.interrupt import WorkerStopping
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.executor import GIVEN_BACK_STOPPED

TOO_LONG = (
    "They start again elsewhere, from their last checkpoint. To avoid this, raise grace_seconds above their duration, "
    "or have their handlers check ctx.should_yield()"
)

log = logging.getLogger(__name__)


def announce(store: Store, worker: str, active: Sequence[ActiveRun]) -> None:
    """Ask the active runs to yield, and note their coming end in case that this process is killed before it.

    Without the note, a kill during an orderly end would count as a crash of the run.
    """
    for held in active:
        held.yielding = True
    try:
        store.claims.announce_end([held.run_id for held in active], worker=worker)
    except DuetimeError as error:
        log.warning("could not record that %d runs end with this process: %s", len(active), error)


def interrupt(runs: Sequence[ActiveRun]) -> None:
    """Interrupt the runs that did not end within the grace period."""
    warn(runs)
    for held in runs:
        held.interrupt(WorkerStopping)


def warn(runs: Sequence[ActiveRun]) -> None:
    """Log which actions did not end within the grace period."""
    unended = [held for held in runs if held.unchecked is None]
    if unended:
        actions = ", ".join(sorted({held.action for held in unended}))
        log.warning("%d runs (%s) did not end within the grace period. %s", len(unended), actions, TOO_LONG)


def hand_back(runs: Sequence[ActiveRun], hand_in: Callable[[ActiveRun, AttemptResult], None]) -> None:
    """Hand in the runs that have not begun, and those that do not stop, so that another worker starts them.

    A run that has succeeded, and whose result is still being checked, ends unverified instead.
    """
    for held in runs:
        if held.unchecked is not None:
            hand_in(held, held.unchecked)
            continue
        if held.kill is not None:
            held.kill()
        elif not held.begin():
            log.warning(
                "run %s did not stop; handed it back, so it may start elsewhere while this attempt is still running",
                held.run_id,
            )
        hand_in(held, GIVEN_BACK_STOPPED)
