"""The next generation of a chain that recurs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import Chain
from duetime.scheduler.rules.occurrences import next_run
from duetime.scheduler.task import Run, State, Task


def following(chain: Chain, step: Task, now: datetime, *, counts: bool = True) -> Run | None:
    """Return the next occurrence of a chain, None at its end; the run is that of no step yet.

    A generation that was left out `counts` as none of `max_runs`: all its steps were skipped, or it was as a whole.
    """
    assert chain.due_at is not None
    rule = {"repeat": chain.repeat, "anchor": chain.anchor, "until": chain.until, "max_runs": chain.max_runs}
    series = replace(step, **rule, timezone=chain.timezone, deadline_after=None)  # type: ignore[arg-type]  # of a chain
    last = Run(
        chain.id,
        chain.id,
        chain.tenant,
        chain.due_at,
        State.SUCCEEDED,
        number=chain.number if counts else chain.number - 1,
    )
    return next_run(series, last, now)
