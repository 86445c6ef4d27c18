"""Moves whole chains: when one continues or begins, and how each of its steps keeps its distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.chain.chain import ChainRecord, front_steps, root_failures
from duetime.scheduler.errors import Refused
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.foresight.readers.run_facts import RunFactReader
from duetime.scheduler.intake.changes.chain import ChainMove, next_due
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import Moment
from duetime.scheduler.rules.changes import has_started
from duetime.scheduler.views import TaskRecord, after_pause, due_at

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class ChainMoves:
    """Decides how chains are moved, by what their next steps wait for."""

    def __init__(self, planner: Planner, facts: RunFactReader) -> None:
        self._planner = planner
        self._facts = facts

    def to_time(self, found: ChainRecord, to: Moment, zone: str, now: datetime) -> ChainMove:
        """Return how a chain is moved. Raises Refused where all of it has ended, and InvalidArgument."""
        first = [step.record for step in front_steps(found)]
        early = any(each.awaited and each.awaited.wait.at_once for each in self._facts.open_waits(first).values())
        only = first if early else None
        due, seen = self.due(found, now, only=only), self.due(found, now, only=only, as_seen=True)
        if due is None:
            raise _ended(found)
        return replace(ChainMove.to(to, due, zone, self._planner, now, seen=seen), early=early)

    def due(
        self, found: ChainRecord, now: datetime, *, only: Sequence[TaskRecord] | None = None, as_seen: bool = False
    ) -> datetime | None:
        """Return when a chain, or `only` some of its steps, continues or begins; None where all of it has ended.

        `as_seen` by a reader it is later where a pause holds it, and earlier where its next attempt is late.
        """
        every = [step.record for step in found.steps] if only is None else only
        ends = {run_id: end for run_id, each in self._facts.open_waits(every).items() if (end := _end_of_wait(each))}
        next_ones = {step.record.run.id for step in front_steps(found)}
        runs = [(_as_seen(record) if as_seen else record).run for record in every]
        behind = [run for run in runs if run.id not in next_ones]
        first = [run for run in runs if run.id in next_ones]
        return next_due(first, now, ends, behind=behind, as_seen=as_seen)


def _as_seen(record: TaskRecord) -> TaskRecord:
    """Return a step at the time at which a reader expects it, no earlier than the end of the pause that holds it."""
    task, run = record.task, record.run
    at = run.scheduled_for if has_started(run) else due_at(run)
    wake_at = run.wake_at and after_pause(task, run.wake_at)
    return replace(record, run=replace(run, scheduled_for=after_pause(task, at), wake_at=wake_at))


def _ended(found: ChainRecord) -> Refused:
    """Return why an ended chain cannot be moved; what failed in it can run again at once."""
    chain_id = found.chain.id
    remedy = remedies.RunFailedSteps(chain_id) if root_failures(found) else remedies.Inspect(chain_id)
    return Refused(f"all steps of {chain_id} have ended.", argument="when", remedy=remedy)


def _end_of_wait(facts: RunFacts) -> datetime | None:
    """Return from when on a change moves a run that waits for an event or an answer; None for no such wait."""
    if facts.approval is not None:
        return _NEVER  # only its user, or the default, lets it go on
    return facts.awaited.wait.until if facts.awaited else None
