"""Preflight when scheduled, or with another payload: what a task misses is said in the answer, and it is blocked.

A check has little time, on a thread of its own: one that hangs keeps no caller, and only so many hang at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers.contract.preflight import is_blocked
from duetime.scheduler.handlers.contract.timed_check import TimedChecks
from duetime.scheduler.intake.chain_plan import ChainPlan
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.records import Change
from duetime.scheduler.rules.sanitize import quoted
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

MAX_CHECK_S: Final = 2.0
"""Time that all checks of one call have together; a run is checked again before it starts."""

MAX_STEPS_NAMED: Final = 3
MAX_MISSING_CHARS: Final = 120
"""Of one reason in the note: a note is a sentence."""

_NOT_BEGUN: Final = (State.SCHEDULED, State.WAITING, State.READY)

Decide = Callable[[TaskRecord], Change]

CHECKED_LATER: Final = Translatable.of(
    NoteKind.CHECKED_LATER, "its requirements could not be checked now; they are checked before it runs"
)


def blocked_note(reason: str, steps: Sequence[str] = ()) -> Translatable:
    """Return what is said of a task that misses what it needs, or of the steps of a chain that miss the same."""
    quoted_line = quoted(reason.removeprefix(BLOCKED_PREFIX), MAX_MISSING_CHARS)
    more = ", ..." if len(steps) > MAX_STEPS_NAMED else ""
    missing_now = f"{', '.join(steps[:MAX_STEPS_NAMED])}{more}: {quoted_line}" if steps else quoted_line
    text = f"a requirement is missing ({missing_now}); it is checked again before the run"
    return Translatable.of(NoteKind.BLOCKED_NOW, text, missing=missing_now)


class EarlyChecks:
    """Checks what tasks need, where their handlers have a preflight; the others cost nothing."""

    def __init__(self, store: Store, planner: Planner, *, limit_s: float = MAX_CHECK_S) -> None:
        self._store = store
        self._handlers = planner.handlers
        self._limit_s = limit_s
        self._checks = TimedChecks(store.now, store.secrets.value)

    def checked(self, plans: Sequence[Plan], now: datetime) -> list[Plan]:
        """Return the plans, with a run that says what it misses and a warning where a check found something."""
        ends_at = monotonic() + self._limit_s
        return [self._checked(plan, now, ends_at) for plan in plans]

    def checked_chain(self, chain: ChainPlan, now: datetime) -> ChainPlan:
        """Return the chain with its steps checked; the warnings say each thing that is missing once, with its steps."""
        plans = self.checked([plan for _, plan in chain.steps], now)
        lacking: dict[str, list[str]] = {}
        for (step, _), plan in zip(chain.steps, plans, strict=True):
            if is_blocked(plan.run.summary):
                lacking.setdefault(plan.run.summary or "", []).append(step.name)
        named: dict[str, str] = {blocked_note(reason): blocked_note(reason, steps) for reason, steps in lacking.items()}
        renamed = [replace(each, warnings=tuple(named.get(text, text) for text in each.warnings)) for each in plans]
        return chain.with_plans(renamed)

    def with_payload(
        self, payload: object, decide: Decide, find: Callable[[], TaskRecord], now: datetime
    ) -> tuple[Decide, tuple[str, ...]]:
        """Check another payload of a task; return the decision with what the run misses by it, and the notes on that.

        The check is made here, before the transaction of the change.
        """
        if payload is None:
            return decide, ()
        try:
            record = find()
            tried = decide(record)
        except DuetimeError:  # the change itself says what is wrong
            return decide, ()
        if tried.task.payload == record.task.payload or tried.coming.state not in _NOT_BEGUN:
            return decide, ()
        missing, notes = self._missing(tried.task, tried.coming, now, monotonic() + self._limit_s)

        def decided(found: TaskRecord) -> Change:
            change = decide(found)
            if not missing or change.coming.state not in _NOT_BEGUN:
                return change
            coming = replace(change.coming, summary=missing)
            return replace(change, next_run=coming) if change.next_run else replace(change, run=coming)

        return decided, notes

    def _checked(self, plan: Plan, now: datetime, ends_at: float) -> Plan:
        missing, notes = self._missing(plan.task, plan.run, now, ends_at)
        run = replace(plan.run, summary=missing) if missing else plan.run
        return replace(plan, run=run, warnings=(*plan.warnings, *notes)) if notes else plan

    def _missing(self, task: Task, run: Run, now: datetime, ends_at: float) -> tuple[str | None, tuple[str, ...]]:
        """Return what a run misses, None where it has all or that is unknown, and the notes of the answer."""
        handler = self._handlers.get(task.action)
        if handler is None or not handler.has_early_check:
            return None, ()
        answer = self._checks.look(handler, task, run, now=now, ends_at=ends_at)
        if answer is not None and answer.wait is None:
            return None, ()
        if answer is None or answer.wait is None or not is_blocked(answer.wait.reason):
            return None, (CHECKED_LATER,)
        return answer.wait.reason, (blocked_note(answer.wait.reason),)
