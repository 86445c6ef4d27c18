"""Reads whole chains: their views, and why their next steps stand where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.chain.chain import (
    MAX_NAMED_STEPS,
    ChainRecord,
    failures_in_words,
    front_steps,
    last_generation,
    open_generations,
    root_failures,
)
from duetime.scheduler.foresight.explain import explain_state, wait_reasons
from duetime.scheduler.foresight.readers.run_facts import RunFactReader, last_skipped
from duetime.scheduler.foresight.reasons.before_start import (
    approval_reasons,
    blocked_reason,
    pause_reason,
    upstream_reasons,
)
from duetime.scheduler.foresight.reasons.open_waits import open_waits
from duetime.scheduler.foresight.task_view import chain_view, undo_of_new
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.states import blocked_by, is_held_by_pause
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, Run, State
from duetime.scheduler.view_parts import WaitReason
from duetime.scheduler.views import TaskRecord, TaskView


class ChainReader:
    """Reads chains as tasks are read: the view is that of the whole."""

    def __init__(self, store: Store, facts: RunFactReader) -> None:
        self._store = store
        self._facts = facts

    def get(self, chain_id: str, *, by: Principal) -> TaskView:
        """Return a chain with its steps. Raises TaskNotFound."""
        found = self._store.chains.get(by.tenant, chain_id)
        return replace(self.view_of(found), unread=self._unread(found, by))

    def _unread(self, found: ChainRecord, by: Principal) -> tuple[InboxMessage, ...]:
        """Return why the steps failed that failed by themselves, as far as their user has not read it."""
        failed = (root_failures(found) or root_failures(last_generation(found)))[:MAX_NAMED_STEPS]
        runs = [step.record.run.id for step in failed]
        return tuple(each for run in runs for each in self._store.inbox.unread(by.tenant, by.user, limit=1, run_id=run))

    def _not_run(self, found: ChainRecord) -> Run | None:
        """Return the step that an answer, or none, left out in the last generation, if no other step ran in that."""
        records = [step.record for step in found.steps]
        left_out = [each for each in (last_skipped(self._store, record) for record in records) if each]
        newest = max(left_out, key=_ended, default=None)
        if newest is None:
            return None
        last = [each.last_run for each in records if each.last_run and each.last_run.id != newest.id]
        ran_before = (run.number != newest.number and _ended(run) < _ended(newest) for run in last)
        return newest if all(ran_before) else None

    def view_of(self, found: ChainRecord, *, created: bool | None = None, warnings: Sequence[str] = ()) -> TaskView:
        """Return the view of a chain, with what its next steps wait for, but for their times, and what was left out."""
        now = self._store.now()
        view = chain_view(found, now, created=created, warnings=warnings)
        next_steps = [step.record for step in front_steps(found)]
        waits = [
            wait
            for each in open_waits(self._store, next_steps).values()
            for wait in each.reasons(found.chain.timezone, now)
        ]
        later = [reason for _, reason in self._asked_early(found, now)]
        held = [*pause_reasons(found, view, now), *waits, *self._held(next_steps, now)]
        each_once = {reason.sentence: reason for reason in reversed((*held, *later))}
        shown = tuple(reversed(each_once.values()))
        return replace(blocked_with(view, next_steps), waits=shown, not_run=self._not_run(found))

    def _held(self, next_steps: Sequence[TaskRecord], now: datetime) -> Iterator[WaitReason]:
        """Return what blocks the first of the next steps, after which tasks they come, and what holds them in line."""
        first = next_steps[:MAX_NAMED_STEPS]
        facts = self._facts.of_rows([each for each in first if each.run.state is State.READY])
        for record in first:
            task, run = record.task, record.run
            yield from blocked_reason(run)
            if run.state is State.WAITING:
                upstreams = self._store.dependencies.upstreams(task.tenant, task.id)
                still_open = [each for each in upstreams if each.is_open]
                yield from upstream_reasons(record, still_open) if still_open else ()
            if run.id in facts and not task.paused:
                yield from wait_reasons(record, now, facts[run.id])

    def view_of_new(self, found: ChainRecord, *, created: bool, warnings: Sequence[str]) -> TaskView:
        """Return the view of a chain to the call that made it: its undo, why no worker can take what is due already."""
        view = self.view_of(found, created=created, warnings=warnings)
        reasons_by_run = self._facts.no_worker_reasons([step.record for step in front_steps(found)])
        each_once = {reason.sentence: reason for reasons in reasons_by_run.values() for reason in reasons}
        undo = undo_of_new(view.record.run, created=created)
        return replace(view, waits=(*view.waits, *each_once.values()), undo=undo)

    def _asked_early(self, found: ChainRecord, now: datetime) -> Sequence[tuple[str, WaitReason]]:
        """Return what later steps ask already, by their names: the limit of an answer may pass before their turn."""
        next_ids = {step.record.run.id for step in front_steps(found)}
        later = {step.record.run.id: step for step in found.steps if step.record.run.id not in next_ids}
        waits = open_waits(self._store, [step.record for step in later.values()])
        return [
            (later[run_id].name, reason)
            for run_id, each in waits.items()
            for reason in approval_reasons(each.record, each.approval, each.side_approvals, now)
        ]

    def explain(self, chain_id: str, *, by: Principal) -> tuple[TaskView, Sequence[str]]:
        """Return a chain, and what each step waits for that comes after no open one. Raises TaskNotFound."""
        found, now = self._store.chains.get(by.tenant, chain_id), self._store.now()
        reasons = [
            f"{step.name}: {reason}"
            for step in front_steps(found)
            for reason in explain_state(step.record, now, self._facts.of(step.record))
        ]
        reasons += [f"{name}: {reason.sentence}" for name, reason in self._asked_early(found, now)]
        also = [*open_generations(found), *_last_failure(found)]
        return self.view_of(found), [*(reasons or [_ended_in_words(found)]), *also]


def _ended_in_words(found: ChainRecord) -> str:
    """Say that a chain has ended, and which of its steps failed by themselves, each with its error."""
    failed = failures_in_words(found)
    return f"it waits for nothing: all its steps have ended{f'; {failed}' if failed else ''}"


def _last_failure(found: ChainRecord) -> Iterator[str]:
    """Say which steps of the last generation failed, while another one is to come."""
    if failed := failures_in_words(last_generation(found)):
        yield f"its last generation failed: {failed}"


def _ended(run: Run) -> datetime:
    return run.ended_at or run.scheduled_for


def blocked_with(view: TaskView, next_steps: Sequence[TaskRecord]) -> TaskView:
    """Return the view of a chain as blocked where each of its next steps is."""
    if not next_steps or not all(blocked_by(each.run) for each in next_steps):
        return view
    run = replace(view.record.run, summary=next_steps[0].run.summary)
    return replace(view, record=replace(view.record, run=run))


def pause_reasons(found: ChainRecord, view: TaskView, now: datetime) -> Iterator[WaitReason]:
    """Say that a chain is paused, or which of its next steps are while others continue."""
    if view.record.task.paused:
        yield pause_reason(view.record.task, view.record.run, now)
        return
    for step in front_steps(found):
        if is_held_by_pause(step.record.run.state, paused=step.record.task.paused):
            reason = pause_reason(step.record.task, step.record.run, now)
            yield replace(reason, sentence=f"{step.name}: {reason.sentence}")


def tasks_of(store: Store, tenant: str, task_id: str) -> Sequence[str]:
    """Return the tasks of a chain, or the one that is named itself. Raises TaskNotFound for an unknown chain."""
    if not is_chain_id(task_id):
        return [task_id]
    return [step.record.task.id for step in store.chains.get(tenant, task_id).steps]
