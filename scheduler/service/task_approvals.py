"""Answers for a user whether the run of a task may go, and takes such an answer back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duetime.scheduler.calls.reschedule import CallArguments, Repeatable
from duetime.scheduler.foresight.readers.run_facts import RunFactReader, last_skipped
from duetime.scheduler.foresight.task_view import view_of
from duetime.scheduler.intake.changes.actions import change_token
from duetime.scheduler.intake.idempotency import REPEATED_CALL, key_of
from duetime.scheduler.intake.validation import check_key_text, check_reason
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, Run, State
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskView
from duetime.scheduler.waits.approval import taken_back_by

OCCURRENCE_SKIPPED = Translatable.of(NoteKind.ONE_SKIPPED, "this occurrence was skipped; the series goes on")
GENERATION_SKIPPED = Translatable.of(
    NoteKind.ONE_SKIPPED, "this generation was skipped, which cannot be undone; the chain goes on"
)
STEP_SKIPPED = Translatable.of(
    NoteKind.STEP_SKIPPED, "it was skipped in this generation of its chain, which cannot be undone"
)


class ApprovalService:
    """Answers what is asked before a run, or by it. The first answer holds; the same one once more changes nothing.

    The id of a run answers what that asks. That of a task which asks several questions answers the oldest one, at the
    `revision` that was read.
    """

    def __init__(
        self,
        store: Store,
        facts: RunFactReader,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._facts = facts
        self._recall, self._on_change, self._via = notices.recall, notices.on_change, notices.via

    def answer(self, task_id: str, answer: ApprovalAnswer, reason: str | None, call: CallArguments) -> TaskView:
        """Store an answer, and return the task. Raises Refused after the other answer."""
        check_reason(reason)
        by = call.get("by", LOCAL)
        given = self._store.approvals.answer(
            by.tenant, task_id, answer, reason=reason, revision=call.get("revision"), **by.acting(self._via)
        )
        record = given.record
        self._on_change([record.task.id])
        view = view_of(record, self._store.now(), facts=self._facts.of(record))
        view = replace(view, not_run=last_skipped(self._store, record))
        if given.run_id is None:
            return replace(view, undo=None, warnings=(*view.warnings, REPEATED_CALL))
        return self._with_undo(view, answer, by, given.run_id)

    def _with_undo(self, view: TaskView, answer: ApprovalAnswer, by: Principal, run_id: str) -> TaskView:
        """Return the view of a task whose run was just answered for, with what takes that back.

        Nothing does for a run next to the current one.
        """
        record = view.record
        if answer is ApprovalAnswer.APPROVE:
            answered = [record.run] if record.run.id == run_id else []
            return replace(view, undo=undo_of_yes(self._store, answered, by))
        before = before_run(record.task)
        if before.asks_in_chain:
            return replace(view, undo=None, warnings=(*view.warnings, STEP_SKIPPED))
        if record.run.state in TERMINAL or not before.asks_in_series or record.run.state is State.SUSPENDED:
            return view
        return replace(view, undo=change_token(record.task), warnings=(*view.warnings, OCCURRENCE_SKIPPED))

    def ask_again(self, task_ids: Sequence[str], token: str, repeatable: Repeatable, call: CallArguments) -> None:
        """Take the yes with this token back, to the first of these tasks and to the others, while none has begun."""
        by = call.get("by", LOCAL)
        check_key_text(repeatable.idempotency_key)
        key = key_of(repeatable, by, self._store.now())
        queued = self._store.approvals.take_back(
            by.tenant, task_ids, token, key, revision=call.get("revision"), **by.acting(self._via)
        )
        self._recall(queued)
        self._on_change(task_ids)


def undo_of_yes(store: Store, runs: Sequence[Run], by: Principal) -> str | None:
    """Return the token that takes a yes to these runs back; None where one of them has begun."""
    if any(run.started_at is not None or run.state in TERMINAL for run in runs):
        return None
    answered = store.approvals.approved(by.tenant, [run.id for run in runs])
    return next((taken_back_by(answered[run.id]) for run in runs if run.id in answered), None)
