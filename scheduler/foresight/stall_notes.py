"""Notes below a list of tasks: due tasks that no process runs, and running ones whose process is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from duetime.scheduler.foresight.explain import RunFacts, is_due, wait_sentences
from duetime.scheduler.foresight.reasons.processes import START_A_PROCESS, LeftRunning
from duetime.scheduler.queue.remote import NoAnswer
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

LeftOf = Callable[[Sequence[TaskRecord]], Mapping[str, LeftRunning]]
"""Returns by run which running tasks their processes have left."""


def stall_note(
    records: Sequence[TaskRecord], now: datetime, facts_of: Callable[[TaskRecord], RunFacts], left_of: LeftOf
) -> str:
    """Say of due tasks that no process runs them, and of running ones that theirs is gone; empty where all move.

    The facts of one due task stand for all.
    """
    return ". ".join([*_overdue(records, now, facts_of), *_left(records, left_of)])


def _overdue(records: Sequence[TaskRecord], now: datetime, facts_of: Callable[[TaskRecord], RunFacts]) -> Sequence[str]:
    due = [record for record in records if is_due(record, now)]
    facts = facts_of(due[0]) if due else RunFacts()
    if facts.working and facts.silence in {None, NoAnswer.STARTING}:
        return ()
    reasons = wait_sentences(due[0], now, facts)  # one that is to be tried again says that first
    return (f"{len(due)} overdue, waiting for {reasons[0 if due[0].run.state is State.READY else -1]}",)


def _left(records: Sequence[TaskRecord], left_of: LeftOf) -> Sequence[str]:
    running = [record for record in records if record.run.state is State.RUNNING]
    left = left_of(running) if running else {}
    if not left:
        return ()
    one = len(left) == 1
    begin = f"{len(left)} {'is' if one else 'are'} not running any more"
    if any(each.holder is None for each in left.values()):
        return (f"{begin}: {'its' if one else 'their'} process is gone, so {START_A_PROCESS}",)
    whose = "its worker is" if one else "their workers are"
    return (f"{begin}: {whose} silent, and {'its attempt ends' if one else 'their attempts end'} when the lease does",)
