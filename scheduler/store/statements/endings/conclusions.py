"""The consequences of ends that no worker decides: crashes, expiries, and waits that nothing ended in time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from duetime.scheduler.chain.judgement import LinkVerdict
from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_wait import skip_unmet
from duetime.scheduler.rules.settlement import with_consequences, with_notice, without_series
from duetime.scheduler.rules.states import FAILURES, NOT_RUN_PREFIX
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.store.statements import read
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, not_started
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import Connection

log = logging.getLogger(__name__)

Conclude = Callable[[Claim, Settlement], Settlement]
"""Adds the parts of an end that the store cannot compute: the message, the deliveries and the next occurrence."""


class Judged(NamedTuple):
    """A run that waits, and what becomes of it: at once, where it need not wait for its time.

    The user who decided it (`by_user`) is not notified.
    """

    task: Task
    run: Run
    followed: bool
    verdict: LinkVerdict
    at_once: bool = False
    by_user: bool = False


_KINDS = {
    State.FAILED: EventKind.FAILED,
    State.CANCELLED: EventKind.CANCELLED,
    State.SKIPPED: EventKind.SKIPPED,
    State.EXPIRED: EventKind.EXPIRED,
}


def unclaimed(connection: Connection, pairs: Sequence[tuple[Task, Run]]) -> list[Claim]:
    """Return the claims of runs that no worker has, with the run before for tasks that report changes."""
    last = read.compared_with(connection, [task for task, _ in pairs])
    return [Claim(run, task, "", previous=last.get(task.id)) for task, run in pairs]


def concluding(conclude: Conclude | None, claim: Claim, settlement: Settlement) -> Settlement:
    """Add the consequences of an end. Consequences that cannot be computed are left out, so that others can end."""
    if conclude is None:
        return settlement
    for known in (claim, without_series(claim)):
        try:
            return conclude(known, settlement)
        except Exception:
            log.exception("run %s: cannot work out what follows from its end", claim.run.id)
    return settlement


def ended_without_run(claim: Claim, judged: Judged, now: datetime) -> AttemptEnd:
    """Return the end of a run that waited: it does not run. A series whose runs each wait continues."""
    task, run, verdict = claim.task, claim.run, judged.verdict
    to = verdict.to or State.CANCELLED
    reason = f"{NOT_RUN_PREFIX}{verdict.reason}"
    end = Settlement(
        run.id,
        run.attempt,
        task.revision,
        to=to,
        kind=_KINDS[to],
        outcome=to.value,
        reason=reason,
        failures=run.failures,
        summary=None if to in FAILURES else reason,
        error=reason if to in FAILURES else None,
    )
    of_its_own = verdict.link is None  # what follows from the end of an upstream follows from that one
    if before_run(task).awaits_in_series and to is State.SKIPPED:
        ended = concluding(lambda known, end: skip_unmet(known.task, run, end, now), claim, end)
    else:
        ended = concluding(partial(with_consequences, now=now, follows=of_its_own), claim, end)
    if of_its_own and to is State.SKIPPED and not judged.by_user:
        ended = concluding(partial(with_notice, now=now), claim, ended)
    return AttemptEnd(not_started(task, run, followed=judged.followed), ended)
