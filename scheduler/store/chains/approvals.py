"""Approvals: the questions of runs, the answers of users, and default answers at deadlines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.principal import Acting
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.store.chains import approval_answers, approval_undo
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame
from duetime.scheduler.store.sql.locks import lock_tasks
from duetime.scheduler.store.statements import event_log, idempotency, read
from duetime.scheduler.store.statements.approvals import open_questions, questions
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval, taken_back_by
from sqlalchemy import Connection

_NOT_ANSWERED: Final = Blame("run", "cannot give its question the default answer")


class AnsweredTask(NamedTuple):
    """A task as it is after an answer to the question of a run, none where the same answer was given before."""

    record: TaskRecord
    run_id: str | None


class Approvals:
    """Approvals of runs. An answer, its event and its consequences are one transaction."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._commits = commits
        self._now = now

    def open_of(self, tenant: str, run_ids: Sequence[str]) -> Mapping[str, Approval]:
        """Return the open questions of those runs that the tenant has."""
        if not run_ids:
            return {}
        return self._database.look(lambda connection: questions.open_of(connection, tenant, run_ids))

    def open_counts(self, tenant: str | None) -> Mapping[str, int]:
        """Return how many questions wait for an answer, by the state of their runs; of all tenants for None."""
        return self._database.look(lambda connection: questions.open_counts(connection, tenant))

    def answered(self, tenant: str, run_id: str) -> Approval | None:
        """Return the last answered question of a run's handler."""
        return self._database.look(lambda connection: questions.answered(connection, tenant, run_id))

    def answer(
        self,
        tenant: str,
        task_id: str,
        answer: ApprovalAnswer,
        *,
        actor: str,
        via: str | None = None,
        reason: str | None = None,
        revision: int | None = None,
    ) -> AnsweredTask:
        """Answer the open question of a task, or that of the run that is named, and return the task.

        Of several questions the oldest one is answered, at the `revision` that the caller read. Without that the run
        has to be named. The same answer once more changes nothing. Raises `Refused` where nothing is asked
        or the answer was another one, `StaleRevision`, and `TaskNotFound`.
        """

        def work(connection: Connection) -> AnsweredTask:
            found, run_id = open_questions.task_of(connection, tenant, task_id)
            record, now = read.locked_record(connection, tenant, found), self._now()
            question = approval_answers.find(
                connection, record, answer, now, run_id=run_id, oldest=revision is not None
            )
            if question is not None:
                event_log.check_revision(connection, record.task, revision)
                approval_answers.store(connection, question, approval_answers.Answered(answer, actor, reason, via), now)
            return AnsweredTask(read.record(connection, tenant, found), question and question.record.run.id)

        return self._commits.write(work)

    def answer_all(
        self,
        tenant: str,
        task_ids: Sequence[str],
        answer: ApprovalAnswer,
        *,
        actor: str,
        via: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Give one answer to several tasks, all or none; return False where all had it, so that nothing was changed.

        A question that an earlier one withdraws needs none.

        Raises `Refused` where nothing is asked or the answer was another one, and `TaskNotFound`.
        """
        by = approval_answers.Answered(answer, actor, reason, via)

        def work(connection: Connection) -> bool:
            lock_tasks(connection, task_ids)
            found, now = [read.record(connection, tenant, task_id) for task_id in task_ids], self._now()
            unanswered = [each for each in found if approval_answers.find(connection, each, answer, now, oldest=True)]
            for each in unanswered:
                record = read.record(connection, tenant, each.task.id)
                for question in open_questions.open_questions(connection, record)[:1]:
                    approval_answers.store(connection, question, by, now)
            return bool(unanswered)

        return self._commits.write(work)

    def take_back(
        self,
        tenant: str,
        task_ids: Sequence[str],
        token: str,
        key: IdempotencyKey | None,
        *,
        actor: str,
        via: str | None = None,
        revision: int | None = None,
    ) -> Sequence[str]:
        """Ask again for what was approved by the answer with this token, all or none; return what leaves the queue.

        The first of the tasks has the token, the others were answered with it; a known `key` means that it was done.
        Raises `Refused` where a run has started since or the answer is another one, `StaleRevision`, `TaskNotFound`.
        """

        def work(connection: Connection) -> list[str]:
            lock_tasks(connection, task_ids)
            found, now = [read.record(connection, tenant, each) for each in task_ids], self._now()
            if key and idempotency.is_repeat(connection, found[0].task, key, actor, now):
                return []
            event_log.check_revision(connection, found[0].task, revision)
            tokens = [token, *(self._token(connection, each.run.id) for each in found[1:])]
            acting: Acting = {"actor": actor, "via": via}
            queued = [
                record.run.id
                for record, its_token in zip(found, tokens, strict=True)
                if approval_undo.take_back(connection, record, its_token, acting, now)
            ]
            if key:
                idempotency.store_change(connection, found[0].task, key)
            return queued

        return self._commits.write(work)

    @staticmethod
    def _token(connection: Connection, run_id: str) -> str:
        approval = questions.newest(connection, run_id)
        return taken_back_by(approval) if approval else ""

    def approved(self, tenant: str, run_ids: Sequence[str]) -> Mapping[str, Approval]:
        """Return those of the runs that were approved before they started, each with its answer."""
        return self._database.look(lambda connection: questions.approved(connection, tenant, run_ids))

    def rejected(self, tenant: str, run_ids: Sequence[str]) -> set[str]:
        """Return those of the runs that were rejected before they started."""
        return self._database.look(lambda connection: questions.rejected(connection, tenant, run_ids))

    def expire(self, *, limit: int) -> list[str]:
        """Give the default answer to at most `limit` questions whose deadline has passed; return their tasks.

        Any number of processes may call this; one of them answers a question.
        """
        now, last = self._now(), None
        while True:
            due = self._due(now, limit, last)
            answered = [each.task_id for each in due if self._expired(each)]
            if answered or len(due) < limit:
                return answered
            last = due[-1]  # a whole page of questions that cannot be answered holds up none behind it

    def _due(self, now: datetime, limit: int, last: approval_answers.Due | None) -> list[approval_answers.Due]:
        return self._database.look(lambda connection: approval_answers.due(connection, now, limit, last))

    def _expired(self, due: approval_answers.Due) -> bool:
        def work(connection: Connection) -> bool:
            record = read.locked_record(connection, due.tenant, due.task_id)
            return approval_answers.store_default(connection, record, due.run_id, self._now())

        return any(row_by_row.alone(self._database, due.run_id, lambda: self._commits.write(work), _NOT_ANSWERED))
