"""The part of the service that answers for a user whether a run may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from duetime.scheduler.approvals.approval import taken_back_by
from duetime.scheduler.foresight.task_view import view_of
from duetime.scheduler.intake.changes.actions import change_token
from duetime.scheduler.intake.validation import check_reason
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.reschedule.reschedule import CallArguments
from duetime.scheduler.rules.series.answered import asks_each_generation, asks_each_run
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.service.dead_letters import DeadLetterService
from duetime.scheduler.task import ApprovalAnswer, Run, State
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskView

SKIPPED = Translatable.of(NoteKind.ONE_SKIPPED, "this occurrence was skipped; the series goes on")
GENERATION_SKIPPED = Translatable.of(
    NoteKind.ONE_SKIPPED, "this generation was skipped, which cannot be undone; the chain goes on"
)
STEP_SKIPPED = "it was skipped in this generation of its chain, which cannot be undone"


class ApprovalService(DeadLetterService):
    """Answers what is asked before a run, or by it. The first answer holds; the same one once more changes nothing.

    The id of a run answers what that asks. That of a task which asks several questions answers the oldest one, at the
    `revision` that was read.
    """

    def approve(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Let the run of a task go that waits for approval; it goes when it is due. `undo` asks again until it starts.

        Raises Refused after a no.
        """
        return self._answer(task_id, ApprovalAnswer.APPROVE, reason, call)

    def reject(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel the run of a task that waits for approval, or skip it where the task repeats; `undo` asks again.

        Raises Refused after a yes.
        """
        return self._answer(task_id, ApprovalAnswer.REJECT, reason, call)

    def _answer(self, task_id: str, answer: ApprovalAnswer, reason: str | None, call: CallArguments) -> TaskView:
        check_reason(reason)
        by = call.get("by", LOCAL)
        record = self._store.approvals.answer(
            by.tenant, task_id, answer, reason=reason, revision=call.get("revision"), **by.acting(self._via)
        )
        self._on_change([record.task.id])
        view = view_of(record, self._store.now(), facts=self._facts(record))
        if answer is ApprovalAnswer.APPROVE:
            return replace(view, undo=self._undo_of_yes([record.run], by))
        if asks_each_generation(record.task):
            return replace(view, undo=None, warnings=(*view.warnings, STEP_SKIPPED))
        if record.run.state in TERMINAL or not asks_each_run(record.task) or record.run.state is State.SUSPENDED:
            return view
        return replace(view, undo=change_token(record.task), warnings=(*view.warnings, SKIPPED))

    def _undo_of_yes(self, runs: Sequence[Run], by: Principal) -> str | None:
        """Return the token that takes a yes to these runs back; None where one of them has begun."""
        if any(run.started_at is not None or run.state in TERMINAL for run in runs):
            return None
        answered = self._store.approvals.approved(by.tenant, [run.id for run in runs])
        return next((taken_back_by(answered[run.id]) for run in runs if run.id in answered), None)
