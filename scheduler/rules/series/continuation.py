"""Adds the next run of a series to the settlement of a run, unless it is a side run or its task was cancelled."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.rules.series.overlap import Continuation, continuation_after, pause_after_failures
from duetime.scheduler.rules.series.overtake import ends_series, with_overtake_time
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.task import Run, State


def continue_series(settlement: Settlement, claim: Claim, now: datetime) -> Settlement:
    """Add the next run of the series. The task pauses after as many failures in a row as its policy allows."""
    task, run = claim.task, claim.run
    ends = not run.current or ends_series(run)
    coming = Continuation() if ends else continuation_after(task, run, now)
    failed = _failed_in_a_row(run, settlement)
    following = with_overtake_time(task, replace(coming.next_run, failed_before=failed)) if coming.next_run else None
    pauses = pause_after_failures(task, failed) if following else ""
    return replace(settlement, next_run=following, skipped=coming.skipped, pauses=pauses)


def _failed_in_a_row(run: Run, settlement: Settlement) -> int:
    if settlement.to in FAILURES:
        return run.failed_before + 1
    return run.failed_before if settlement.to is State.CANCELLED else 0
