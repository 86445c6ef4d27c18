"""Runs that have not ended when their worker stops or drains: announced, interrupted, then handed back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.interrupt import WorkerStopping
from duetime.scheduler.runtime.notices import GraceExceeded, HandedBackRunning
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.executor import GIVEN_BACK_STOPPED

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


def interrupt(active_runs: ActiveRuns) -> None:
    """Interrupt the runs that did not end within the grace period."""
    for held in warned(active_runs):
        held.interrupt(WorkerStopping)


def warned(active_runs: ActiveRuns) -> Sequence[ActiveRun]:
    """Return the runs that did not end within the grace period, and report their actions."""
    runs = active_runs.all()
    unended = [held for held in runs if held.unchecked is None]
    if unended:
        actions = ", ".join(sorted({held.action for held in unended}))
        active_runs.notifier.noticed(GraceExceeded(len(unended), actions))
    return runs


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
            held.notifier.noticed(HandedBackRunning(held.run_id))
        hand_in(held, GIVEN_BACK_STOPPED)
