"""Preflight when scheduled: what a new task misses is said in the answer, and the task is stored as blocked.

A check has little time, on a thread of its own: one that hangs keeps no caller, and only so many hang at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Final

from duetime.scheduler.handlers.contract.preflight import is_blocked
from duetime.scheduler.handlers.contract.timed_check import TimedChecks
from duetime.scheduler.intake.chain_plan import ChainPlan
from duetime.scheduler.intake.planner import Plan, Planner
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.store import Store
from duetime.scheduler.translatable import NoteKind, Translatable

MAX_CHECK_S: Final = 2.0
"""Time that all checks of one call have together; a run is checked again before it starts."""

MAX_STEPS_NAMED: Final = 3
MAX_MISSING_CHARS: Final = 120
"""Of one reason in the note: a note is a sentence."""

_QUOTES: Final = str.maketrans("«»", "\u2039\u203a")
CHECKED_LATER: Final = Translatable.of(
    NoteKind.CHECKED_LATER, "its requirements could not be checked now; they are checked before it runs"
)


def blocked_note(reason: str, steps: Sequence[str] = ()) -> Translatable:
    """Return what is said of a task that misses what it needs, or of the steps of a chain that miss the same."""
    line = " ".join(reason.removeprefix(BLOCKED_PREFIX).translate(_QUOTES).split())
    quoted_line = f"«{clean_text(line, MAX_MISSING_CHARS, lines=False)}»"
    more = ", ..." if len(steps) > MAX_STEPS_NAMED else ""
    missing_now = f"{', '.join(steps[:MAX_STEPS_NAMED])}{more}: {quoted_line}" if steps else quoted_line
    text = f"a requirement is missing ({missing_now}); it is checked again before the run"
    return Translatable.of(NoteKind.BLOCKED_NOW, text, missing=missing_now)


class EarlyChecks:
    """Checks what new tasks need, where their handlers have a preflight; the others cost nothing."""

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

    def _checked(self, plan: Plan, now: datetime, ends_at: float) -> Plan:
        handler = self._handlers.get(plan.task.action)
        if handler is None or not handler.has_early_check:
            return plan
        answer = self._checks.look(handler, plan.task, plan.run, now=now, ends_at=ends_at)
        if answer is not None and answer.wait is None:
            return plan
        if answer is None or answer.wait is None or not is_blocked(answer.wait.reason):
            return replace(plan, warnings=(*plan.warnings, CHECKED_LATER))
        run = replace(plan.run, summary=answer.wait.reason)
        return replace(plan, run=run, warnings=(*plan.warnings, blocked_note(answer.wait.reason)))
