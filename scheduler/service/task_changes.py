"""Changes one task: reschedules it, cancels it, does what its buttons ask for, and takes that back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Unpack

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import CallArguments, Repeatable, Reschedule, RescheduleCall, split_arguments
from duetime.scheduler.chain.chain import ChainRecord
from duetime.scheduler.chain.dependency import RunWaits
from duetime.scheduler.chain.link_change import Changed, LinkLocks, RelinkedChange
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import UNDOABLE_KINDS, EventKind
from duetime.scheduler.foresight.explain import RunFacts
from duetime.scheduler.foresight.readers.run_facts import RunFactReader, last_skipped
from duetime.scheduler.foresight.readers.task_reader import TaskReader
from duetime.scheduler.foresight.task_view import facts_after, view_of, without_ids
from duetime.scheduler.intake.changes.actions import (
    MARK_DONE,
    UNDO,
    UNDOES_DONE,
    change_token,
    decide_action,
    is_change_token,
    undo_change,
)
from duetime.scheduler.intake.changes.chain_rule import (
    changes_rule,
    no_skip_of_step,
    recurs_after_others,
    refuse_rule_of_step,
    refuse_series_after,
)
from duetime.scheduler.intake.changes.links import asks_for_links, locks_of, names_steps, upstreams_read, with_step_ids
from duetime.scheduler.intake.changes.reschedule import decide_reschedule
from duetime.scheduler.intake.idempotency import REPEATED_CALL, key_of, repeated_change
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.validation import check_key_text, check_reason
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import Change, ChangeOrigin, IdempotencyKey, LastChange
from duetime.scheduler.request import ActionOnTask, Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.change_notes import notes_of
from duetime.scheduler.rules.series.occurrence_approval import withdrawn_question_note
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.dependents import ended_note, waiting_for, with_begun
from duetime.scheduler.service.early_check import EarlyChecks
from duetime.scheduler.service.task_approvals import ApprovalService
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import UNDO_WINDOW, TaskRecord, TaskView
from duetime.scheduler.waits.approval import is_of_answer


class ChangeService:
    """Changes tasks. A change and its event are stored in one transaction; a repeated call changes nothing."""

    def __init__(
        self,
        store: Store,
        planner: Planner,
        facts: RunFactReader,
        tasks: TaskReader,
        approvals: ApprovalService,
        *,
        early: EarlyChecks,
        notices: ChangeNotices,
    ) -> None:
        self._store = store
        self._planner = planner
        self._facts = facts
        self._tasks = tasks
        self._approvals = approvals
        self._early = early
        self._recall, self._on_change, self._via = notices.recall, notices.on_change, notices.via

    def reschedule(self, task_id: str, **arguments: Unpack[RescheduleCall]) -> TaskView:
        """Change what is given (see `Reschedule`) and return the task; a repeat changes nothing and says so."""
        dry_run = arguments.pop("dry_run", False)
        call, wanted = split_arguments(arguments)
        asked = Reschedule.of(wanted)
        now, planner = self._store.now(), self._planner.asked_by(call.get("raw"))
        notes: list[str] = []
        tenant = call.get("by", LOCAL).tenant
        chain = self._chain_of(tenant, task_id, asked)
        asked = with_step_ids(asked, chain) if chain and names_steps(asked) else asked
        planner, recurs = upstreams_read(planner, tenant, asked), bool(chain and chain.chain.repeat)
        if chain:
            refuse_rule_of_step(chain, asked)
        before = self._store.dependencies.upstreams(tenant, task_id) if recurs_after_others(asked) else ()

        def decide(record: TaskRecord) -> Change:
            refuse_series_after(before, record, asked)
            change, notes[:] = decide_reschedule(record, asked, planner, now, recurs=recurs)
            return change

        find = partial(self._store.tasks.get, tenant, task_id)
        checked, early = self._early.with_payload(asked.payload, decide, find, now)
        repeatable = Repeatable.of("reschedule", task_id, wanted, call)
        locks = locks_of(task_id, asked, planner, now) if asks_for_links(asked) else None
        if dry_run:
            view = without_ids(self._rehearsed(repeatable, call, checked, locks, planner))
        else:
            view = self._change(repeatable, call, kind=EventKind.RESCHEDULED, decide=checked, locks=locks)
        return replace(view, warnings=tuple(dict.fromkeys((*notes, *early, *view.warnings))))

    def _rehearsed(
        self,
        repeatable: Repeatable,
        call: CallArguments,
        decide: Callable[[TaskRecord], Change],
        locks: LinkLocks | None,
        planner: Planner,
    ) -> TaskView:
        """Return a task as a reschedule would leave it, at its present revision; a repeat would leave it as it is."""
        by, tried = call.get("by", LOCAL), list[tuple[TaskRecord, Change]]()
        check_key_text(repeatable.idempotency_key)
        key = key_of(repeatable.without("dry_run"), by, self._store.now()) if repeatable.idempotency_key else None

        def decided(found: TaskRecord) -> Change:
            tried[:] = [(found, decide(found))]
            return tried[0][1]

        origin, revision = ChangeOrigin(kind=EventKind.RESCHEDULED, **by.acting(self._via)), call.get("revision")
        found = self._store.tasks.change_once(
            by.tenant, repeatable.task_id, key, origin, decided, revision=revision, locks=locks, dry_run=True
        )
        if found.repeated:
            return self._view_without_undo(found.record, (REPEATED_CALL,))
        record = found.record
        [(before, change)] = tried
        was = before.task
        record = replace(record, task=replace(record.task, revision=was.revision, updated_at=was.updated_at))
        if isinstance(change, RelinkedChange) and change.links:
            now_waiting = self._facts.of(before) if before.run.state is State.WAITING else RunFacts()
            facts = facts_after(now_waiting, change.links, planner.upstreams(was.tenant, ()))
            view = view_of(record, self._store.now(), facts=facts)
        else:
            view = self._view_without_undo(record)
        return replace(
            view, warnings=(*filter(None, [withdrawn_question_note(before, change)]), *view.warnings), undo=None
        )

    def _chain_of(self, tenant: str, task_id: str, request: Reschedule) -> ChainRecord | None:
        """Return the chain of a step, where the change depends on it."""
        parts = (request.wait_for, request.approval, request.skip_next, request.deadline)
        depends = any(parts) or names_steps(request) or changes_rule(request)
        of = self._store.chains.names(tenant, [task_id]).get(task_id) if depends else None
        return self._store.chains.get(tenant, of.id) if of else None

    def _refuse_skip_of_step(self, tenant: str, task_id: str) -> None:
        chain = self._chain_of(tenant, task_id, Reschedule(skip_next=True))
        if chain and chain.chain.repeat:
            raise no_skip_of_step(chain)

    def _view_without_undo(
        self, record: TaskRecord, warnings: tuple[str, ...] = (), waits: RunWaits | None = None
    ) -> TaskView:
        """Return a task with what it waits for now, without an undo."""
        facts = self._facts.after_change(record, waits)
        view = view_of(record, self._store.now(), facts=facts, warnings=warnings)
        left_out = last_skipped(self._store, record)
        return replace(view, undo=None, not_run=left_out, held_until=self._facts.held_until(record))

    def cancel(self, task_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel a task; `undo` of the view takes it back for 30 s. Cancelling twice changes nothing."""
        check_reason(reason)
        now, tenant = self._store.now(), call.get("by", LOCAL).tenant
        record = self._store.tasks.get(tenant, task_id)
        if record.is_cancelled:
            return self._view_without_undo(record, (changes.ALREADY_CANCELLED,))
        waiting = waiting_for(self._store, tenant, task_id)
        view = self._change(
            Repeatable.of("cancel", task_id, {"reason": reason}, call),
            call,
            kind=EventKind.CANCELLED,
            reason=reason,
            decide=lambda record: changes.cancel(record, now),
        )
        return replace(view, warnings=(*view.warnings, *ended_note(self._store, tenant, waiting)))

    def act(
        self,
        task_id: str,
        action: ActionOnTask,
        *,
        minutes: int | None = None,
        until: Moment | None = None,
        undo: str | None = None,
        **call: Unpack[CallArguments],
    ) -> TaskView:
        """Do what a card's button asks for: snooze (by minutes or until a time), run_now, skip_next, undo or done."""
        if action == MARK_DONE:
            return self._mark_done(task_id, call)
        if action == UNDO and undo == UNDOES_DONE:
            return self._mark_not_done(task_id, call)
        if action == "skip_next":
            self._refuse_skip_of_step(call.get("by", LOCAL).tenant, task_id)
        kind, decide = decide_action(
            action, self._store.now(), minutes=minutes, until=until, undo=undo, holidays=self._planner.holidays
        )
        given = {"action": action, "minutes": minutes, "until": until, "undo": undo}
        repeatable = Repeatable.of("act", task_id, given, call)
        if action == UNDO and undo is not None and is_change_token(undo):
            return self._undo(repeatable, call, undo)
        if action == UNDO and undo is not None and is_of_answer(undo):
            self._approvals.ask_again([task_id], undo, repeatable, call)
            return self._view_without_undo(self._store.tasks.get(call.get("by", LOCAL).tenant, task_id))
        view = self._change(repeatable, call, kind=kind, decide=decide)
        return with_begun(self._store, view) if action == UNDO else view

    def _undo(self, repeatable: Repeatable, call: CallArguments, token: str) -> TaskView:
        now = self._store.now()

        def write(key: IdempotencyKey | None, waited: list[str]) -> Changed:
            def decided(found: TaskRecord, last: LastChange | None) -> Change:
                change = undo_change(found, last, now, token)
                waited[:] = changes.runs_to_dequeue(found, change)
                return change

            by, task_id, revision = call.get("by", LOCAL), repeatable.task_id, call.get("revision")
            acting = by.acting(self._via)
            return self._store.tasks.undo_once(by.tenant, task_id, key, decide=decided, revision=revision, **acting)

        return self._store_once(repeatable, call, write)

    def _mark_done(self, task_id: str, call: CallArguments) -> TaskView:
        by = call.get("by", LOCAL)
        record = self._store.tasks.get(by.tenant, task_id, revision=call.get("revision"))
        if record.last_run is None:
            raise Refused(
                f"{task_id} has no outcome to mark as done yet.", argument="action", remedy=remedies.Cancel(task_id)
            )
        read = self._store.inbox.mark_read(by.tenant, by.user, task_id=task_id)
        self._on_change([task_id])
        return replace(self._view_without_undo(record), undo=UNDOES_DONE if read else None)

    def _mark_not_done(self, task_id: str, call: CallArguments) -> TaskView:
        by = call.get("by", LOCAL)
        self._store.tasks.get(by.tenant, task_id, revision=call.get("revision"))
        since = self._store.now() - UNDO_WINDOW - changes.UNDO_GRACE
        if not self._store.inbox.mark_unread(by.tenant, by.user, task_id, since=since):
            problem = f"no outcome of {task_id} was marked as read in the last 30 s."
            raise Refused(problem, argument="undo", remedy=remedies.Inspect(task_id))
        self._on_change([task_id])
        return self._tasks.get(task_id, by=by)

    def _change(
        self,
        repeatable: Repeatable,
        call: CallArguments,
        *,
        kind: EventKind,
        decide: Callable[[TaskRecord], Change],
        reason: str | None = None,
        locks: LinkLocks | None = None,
    ) -> TaskView:
        by, task_id, before, notes = call.get("by", LOCAL), repeatable.task_id, list[int](), list[str]()

        def write(key: IdempotencyKey | None, waited: list[str]) -> Changed:
            def decided(found: TaskRecord) -> Change:
                change = decide(found)
                waited[:], before[:] = changes.runs_to_dequeue(found, change), [found.task.revision]
                notes[:] = notes_of(found, change)
                return change

            origin, revision = ChangeOrigin(kind=kind, reason=reason, **by.acting(self._via)), call.get("revision")
            return self._store.tasks.change_once(
                by.tenant, task_id, key, origin, decided, revision=revision, locks=locks
            )

        view = self._store_once(repeatable, call, write)
        token = self._token(view.record, kind) if before not in ([], [view.record.task.revision]) else None
        return replace(view, warnings=(*notes, *view.warnings), undo=token)

    def _token(self, record: TaskRecord, kind: EventKind) -> str | None:
        """Return the token that takes a change of this kind back that was just made; None where nothing does."""
        if kind is EventKind.CANCELLED and record.run.state is State.CANCELLED:
            return changes.undo_token(record.run, self._store.now())
        return change_token(record.task) if kind in UNDOABLE_KINDS and not record.run.cancel_requested else None

    def _store_once(
        self,
        repeatable: Repeatable,
        call: CallArguments,
        write: Callable[[IdempotencyKey | None, list[str]], Changed],
    ) -> TaskView:
        """Store a change once; `write` collects the runs that leave the queue by it."""
        waited, by = list[str](), call.get("by", LOCAL)
        check_key_text(repeatable.idempotency_key)
        changed = write(key_of(repeatable, by, self._store.now()), waited)
        if not changed.repeated:
            self._recall(waited)
            self._on_change([repeatable.task_id])
        notes = (repeated_change(repeatable),) if changed.repeated else ()
        view = self._view_without_undo(changed.record, notes, changed.waits)
        return replace(view, unread=self._tasks.unread(view.record, by))
