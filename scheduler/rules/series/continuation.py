"""Continues a series behind the end of a run, unless it is a side run or its task was cancelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.rules.series.overlap import Continuation, continuation_after, pause_after_failures
from duetime.scheduler.rules.series.overtake import ends_series, with_overtake_time
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.run_records import Claim
from duetime.scheduler.task import Run, State


class Following(NamedTuple):
    """Members of a settlement: the next run, the runs that were skipped before it, and why the task pauses."""

    next_run: Run | None = None
    skipped: tuple[Run, ...] = ()
    pauses: str = ""


def continue_series(claim: Claim, to: State, now: datetime) -> Following:
    """Return the continuation of the series of a run that ends as `to`.

    The task pauses after as many failures in a row as its policy allows.
    """
    task, run = claim.task, claim.run
    ends = not run.current or ends_series(run)
    coming = Continuation() if ends or not task.repeat else continuation_after(task, run, now)
    if coming.next_run is None:
        return Following(skipped=coming.skipped)
    failed = _failed_in_a_row(run, to)
    next_run = with_overtake_time(task, replace(coming.next_run, failed_before=failed))
    return Following(next_run, coming.skipped, pause_after_failures(task, failed))


def _failed_in_a_row(run: Run, to: State) -> int:
    if to in FAILURES:
        return run.failed_before + 1
    return run.failed_before if to is State.CANCELLED else 0
