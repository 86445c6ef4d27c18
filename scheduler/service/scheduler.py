"""The scheduling service: the one way in for tools, command line, REST and Python users.

Each collaborator does one thing. `Scheduler` puts them together, and decides whether a call means a task or a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from duetime.scheduler.calls.reschedule import CallArguments, RescheduleCall
from duetime.scheduler.delivery.quiet_hours import NEVER_QUIET, QuietPlan
from duetime.scheduler.dispatch.fast_path import FastPath
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.readers.chain_reader import ChainReader
from duetime.scheduler.foresight.readers.decision_reader import DecisionReader
from duetime.scheduler.foresight.readers.inbox import InboxReader
from duetime.scheduler.foresight.readers.past_reader import PastReader
from duetime.scheduler.foresight.readers.report_reader import ReportReader
from duetime.scheduler.foresight.readers.run_ends import RunEnds
from duetime.scheduler.foresight.readers.run_facts import RunFactReader
from duetime.scheduler.foresight.readers.task_reader import TaskReader
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.intake.chain_plan import problems_of
from duetime.scheduler.intake.changes.actions import refuse_other_arguments
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.quotas import NO_QUOTAS, TenantQuotas
from duetime.scheduler.request import ActionOnTask, Moment, Request, ScheduleArguments
from duetime.scheduler.rules.time.times import seconds_of
from duetime.scheduler.runtime.traces import NO_TRACING, Tracing
from duetime.scheduler.service.bulk.bulk_changes import BulkService
from duetime.scheduler.service.bulk.bulk_targets import BulkTargets
from duetime.scheduler.service.bulk.bulk_undo import BulkUndo
from duetime.scheduler.service.bulk.bulk_writer import BulkWriter
from duetime.scheduler.service.bulk.chain_moves import ChainMoves
from duetime.scheduler.service.chain_creator import ChainCreator
from duetime.scheduler.service.chains.chain_approvals import ChainApprovalService
from duetime.scheduler.service.chains.chain_changes import ChainService
from duetime.scheduler.service.chains.chain_undo import ChainUndo
from duetime.scheduler.service.chains.chain_writer import ChainWriter
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.early_check import EarlyChecks
from duetime.scheduler.service.fire_addresses import FireAddressService
from duetime.scheduler.service.inbox import InboxService
from duetime.scheduler.service.letters.dead_letters import DeadLetterService
from duetime.scheduler.service.quiet_hours import QuietHoursService
from duetime.scheduler.service.signals import SignalService
from duetime.scheduler.service.task_approvals import ApprovalService
from duetime.scheduler.service.task_changes import ChangeService
from duetime.scheduler.service.task_creator import TaskCreator
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.views import TaskView

if TYPE_CHECKING:
    from duetime.scheduler.worker.external.external_runs import ExternalRuns


class Scheduler:
    """Schedule, read and change tasks. Thread-safe; every method is synchronous and returns what is stored.

    The methods here take the id of a task or of a chain, and decide which collaborator answers. Calls that mean one
    kind alone are those of the collaborators: `tasks.list`, `past.runs`, `bulk.change`, `letters.replay`.

    Methods raise the errors of `duetime.scheduler.errors`. InvalidArgument(s) is for what cannot be understood,
    TaskNotFound for an unknown id, and StaleRevision for an old revision. Refused means that the task's state does not
    allow it, StoreUnavailable that nothing could be stored.
    """

    def __init__(
        self,
        store: Store,
        planner: Planner,
        *,
        explainer: Explainer | None = None,
        notices: ChangeNotices = ChangeNotices(),  # noqa: B008 - a frozen value
        fast_path: FastPath | None = None,
        quotas: TenantQuotas = NO_QUOTAS,
        quiet: QuietPlan = NEVER_QUIET,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._store, self._planner = store, planner
        self.external_runs: ExternalRuns | None = None
        """Claims of workers elsewhere, where actions are external."""
        if quotas.open_tasks or quotas.payload_bytes:
            store.limit_changes(quotas.check_change)
        plan, on_change, via = replace(quiet, stored=store.quiet_hours.texts), notices.on_change, notices.via
        facts = RunFactReader(store, explainer, plan)
        self._add_readers(facts, explainer)
        self.quiet_hours = QuietHoursService(store, plan, self.zone, on_change=on_change, via=via)
        self.inbox_changes = InboxService(store)
        self.signals = SignalService(store)
        self.addresses = FireAddressService(store, recall=notices.recall, on_change=on_change)
        self._early = early = EarlyChecks(store, planner)
        self.task_creator = TaskCreator(
            store,
            planner,
            facts,
            early=early,
            fast_path=fast_path,
            quotas=quotas,
            tracing=tracing,
            notices=notices,
        )
        self.chain_creator = ChainCreator(
            store, planner, self.chains, early=early, quotas=quotas, tracing=tracing, notices=notices
        )
        self._add_changes(facts, notices)

    def _add_readers(self, facts: RunFactReader, explainer: Explainer | None) -> None:
        store, zone, holidays = self._store, self.zone, self._planner.holidays
        self.past = PastReader(store, zone)
        self.reports = ReportReader(store, zone)
        self.decisions = DecisionReader(store)
        self.inbox = InboxReader(store)
        self.tasks = TaskReader(store, facts, self.inbox, zone=zone, holidays=holidays, explainer=explainer)
        self.chains = ChainReader(store, facts)
        self.ends = RunEnds(store)

    def _add_changes(self, facts: RunFactReader, notices: ChangeNotices) -> None:
        store, planner, on_change, via = self._store, self._planner, notices.on_change, notices.via
        self.letters = DeadLetterService(store, self.zone, planner.payload, on_change=on_change, via=via)
        moves = ChainMoves(planner, facts)
        targets = BulkTargets(store, planner, moves)
        bulk, bulk_undo = BulkWriter(store, targets, notices), BulkUndo(store, notices)
        self.bulk = BulkService(
            store, planner, targets=targets, writer=bulk, undo=bulk_undo, letters=self.letters, via=via
        )
        self.task_approvals = ApprovalService(store, facts, notices)
        self.task_changes = ChangeService(
            store, planner, facts, self.tasks, self.task_approvals, early=self._early, notices=notices
        )
        self.chain_approvals = ChainApprovalService(
            store, facts, self.chains, self.task_approvals, on_change=on_change, via=via
        )
        writer = ChainWriter(store, self.chains, bulk, on_change=on_change, via=via)
        undo = ChainUndo(
            store,
            planner,
            chains=self.chains,
            approvals=self.chain_approvals,
            writer=writer,
            bulk=bulk,
            bulk_undo=bulk_undo,
            on_change=on_change,
        )
        self.chain_changes = ChainService(store, planner, moves=moves, writer=writer, undo=undo)

    def now(self) -> datetime:
        """Return the time by the clock that decides what is due, in UTC."""
        return self._store.now()

    @property
    def zone(self) -> str | None:
        """The IANA zone of wall times when a caller names none, None when every caller has to name one."""
        return self._planner.zone

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that a task may need; templates are left out."""
        return tuple(name for name in self._planner.pools() if not name.endswith("*"))

    def schedule(self, title: str, *, by: Principal = LOCAL, **arguments: Unpack[ScheduleArguments]) -> TaskView:
        """Store a task and its first run, and return it; the arguments are those of `Request`.

        `created` of the view is False when an earlier call with the same key and content made the task, None for a
        dry run. Raises IdempotencyConflict when the key was used for other content.
        """
        return self.submit(Request.of(title, arguments), by=by)

    def submit(self, request: Request, *, by: Principal = LOCAL) -> TaskView:
        """Store what `request` asks for, like `schedule`; of a chain, the view is that of the whole."""
        return (self.chain_creator if request.steps else self.task_creator).create(request, by=by)

    def problems(self, request: Request, *, by: Principal = LOCAL) -> Sequence[InvalidArgument]:
        """Return all that is wrong with the arguments of `request`; nothing is stored, and no preflight is made."""
        return problems_of(self._planner, request, by, self.now())

    def get(self, task_id: str, *, by: Principal = LOCAL) -> TaskView:
        """Return one task and what it waits for, or a chain with its steps.

        Raises TaskNotFound, which names the closest ids of the tenant.
        """
        return self._reader_of(task_id).get(task_id, by=by)

    def explain(self, task_id: str, *, by: Principal = LOCAL) -> tuple[TaskView, Sequence[str]]:
        """Return a task, and why its run stands where it stands: always with an answer. Raises TaskNotFound."""
        return self._reader_of(task_id).explain(task_id, by=by)

    def wait(self, task_id: str, timeout: timedelta | float | str | None = None, *, by: Principal = LOCAL) -> TaskView:
        """Return a task once its current run has ended, or as it is after `timeout`; at once if it has ended already.

        A timeout is a number of seconds, words (`5 minutes`) or a timedelta; without one the wait has no end. Ends in
        this process are noticed at once, ends elsewhere within a second. Raises TaskNotFound.
        """
        self.ends.wait(task_id, seconds_of(timeout), by=by)
        return self.get(task_id, by=by)

    def cancel(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel a task; `undo` of the view takes it back for 30 s. Cancelling twice changes nothing.

        Of a chain, all open steps are cancelled in one transaction, and `undo` takes that back for 10 minutes. Raises
        TaskNotFound, StaleRevision, and Refused for a task that has ended in another way.
        """
        return self._changes_of(task_id).cancel(task_id, reason=reason, **call)

    def reschedule(self, task_id: str, **arguments: Unpack[RescheduleCall]) -> TaskView:
        """Change what is given (see `Reschedule`) and return the task; everything else stays.

        Like `cancel` and `act` it takes `CallArguments` as well: a repeat changes nothing and says so. A chain is
        moved, paused, resumed and changed as a whole. `when` is the time of its next step, and the others keep their
        distance from it. Of one that has ended, `now` runs again what failed. Raises InvalidArgument(s), TaskNotFound,
        StaleRevision, Refused where the state does not allow it, and IdempotencyConflict as `schedule` does.
        """
        return self._changes_of(task_id).reschedule(task_id, **arguments)

    def act(
        self,
        task_id: str,
        action: ActionOnTask,
        *,
        minutes: int | None = None,
        until: Moment | None = None,
        undo: str | None = None,
        reason: str | None = None,
        **call: Unpack[CallArguments],
    ) -> TaskView:
        """Do what a card's button asks for: snooze, run_now, skip_next, undo, done, approve or reject.

        Of a whole chain what failed is run now again, a change can be undone, and its question answered. The rest is
        done to a step. A snooze is by `minutes`, or `until` a time: words are read in the task's zone. `undo` is the
        token of the change to take back; without one that is the last change. Raises InvalidArgument, TaskNotFound,
        StaleRevision, and Refused where the state does not allow it.
        """
        refuse_other_arguments(action, minutes, until, undo)
        if action in set(ApprovalAnswer):
            return self._approvals_of(task_id).answer(task_id, ApprovalAnswer(action), reason, call)
        if is_chain_id(task_id):
            return self.chain_changes.act(task_id, action, undo=undo, **call)
        return self.task_changes.act(task_id, action, minutes=minutes, until=until, undo=undo, **call)

    def approve(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Let the run of a task go that waits for approval; it goes when it is due. `undo` asks again until it starts.

        Raises TaskNotFound, and Refused after a no or where nothing is asked.
        """
        return self._approvals_of(task_id).answer(task_id, ApprovalAnswer.APPROVE, reason, call)

    def reject(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel the run of a task that waits for approval, or skip it where the task repeats; `undo` asks again.

        Raises TaskNotFound, and Refused after a yes or where nothing is asked.
        """
        return self._approvals_of(task_id).answer(task_id, ApprovalAnswer.REJECT, reason, call)

    def _reader_of(self, task_id: str) -> TaskReader | ChainReader:
        return self.chains if is_chain_id(task_id) else self.tasks

    def _changes_of(self, task_id: str) -> ChangeService | ChainService:
        return self.chain_changes if is_chain_id(task_id) else self.task_changes

    def _approvals_of(self, task_id: str) -> ApprovalService | ChainApprovalService:
        return self.chain_approvals if is_chain_id(task_id) else self.task_approvals
