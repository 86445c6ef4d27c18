"""The part of the service that answers for a user whether a run may go."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from duetime.scheduler.foresight.task_view import view_of
from duetime.scheduler.intake.changes.actions import change_token
from duetime.scheduler.intake.validation import check_reason
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.reschedule.reschedule import CallArguments
from duetime.scheduler.rules.series.answered import asks_each_generation
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.service.dead_letters import DeadLetterService
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskView

SKIPPED = Translatable.of(NoteKind.ONE_SKIPPED, "this occurrence was skipped; the series goes on")


class ApprovalService(DeadLetterService):
    """Answers what is asked before a run. The first answer holds; the same one once more changes nothing."""

    def approve(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Let the run of a task go that waits for approval; it goes when it is due. Raises Refused after a no."""
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
        self._on_change([task_id])
        view = view_of(record, self._store.now(), facts=self._facts(record))
        if answer is not ApprovalAnswer.REJECT or record.run.state in TERMINAL:
            return view
        undo = None if asks_each_generation(record.task) else change_token(record.task)
        return replace(view, undo=undo, warnings=(*view.warnings, SKIPPED))
