"""Changes a whole chain: all its open steps in one transaction, with one undo."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Unpack

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import BulkDecision, BulkVerb
from duetime.scheduler.calls.reschedule import CallArguments, RescheduleCall, split_arguments
from duetime.scheduler.chain.chain import ChainRecord, front_steps, root_failures
from duetime.scheduler.chain.rerun import none_to_rerun, steps_to_rerun
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.actions import RUN_NOW, SKIP_NEXT, UNDO
from duetime.scheduler.intake.changes.bulk import decision_of, replaying
from duetime.scheduler.intake.changes.chain import PAUSE_ARGUMENTS, chain_arguments, chain_decision
from duetime.scheduler.intake.changes.chain_notes import (
    expires_in_pause_note,
    read_as_note,
    skipped_generations_note,
    spread_of_generations_note,
)
from duetime.scheduler.intake.changes.chain_rule import as_late_as_others, changes_policy, own_change, with_rule
from duetime.scheduler.intake.changes.pause import with_later_generations
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import ActionOnTask
from duetime.scheduler.service.bulk.chain_moves import ChainMoves
from duetime.scheduler.service.bulk.stored_calls import earlier_of
from duetime.scheduler.service.chains.chain_approvals import chain_to_change
from duetime.scheduler.service.chains.chain_undo import ChainUndo
from duetime.scheduler.service.chains.chain_writer import ChainWriter, bulk_call_of, of_open
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskRecord, TaskView

_NOW: Final = "now"


class ChainService:
    """Cancels, moves, pauses and resumes chains, runs again what failed in them, and takes that back."""

    def __init__(
        self, store: Store, planner: Planner, *, moves: ChainMoves, writer: ChainWriter, undo: ChainUndo
    ) -> None:
        self._store = store
        self._planner = planner
        self._moves = moves
        self._writer = writer
        self._undo = undo

    def cancel(self, chain_id: str, *, reason: str | None = None, **call: Unpack[CallArguments]) -> TaskView:
        """Cancel all open steps in one transaction; `undo` of the view takes that back for 10 minutes."""
        found = chain_to_change(self._store, chain_id, call)
        decision = decision_of(BulkVerb.CANCEL, self._planner, self._store.now(), None)
        return self._writer.change(found, decision, {"reason": reason}, call)

    def reschedule(self, chain_id: str, **arguments: Unpack[RescheduleCall]) -> TaskView:
        """Move, pause, resume or change a chain as a whole; `when` is the time of its next step.

        The other steps keep their distance from it. Of a chain that has ended, `now` runs again what failed.
        """
        dry_run = bool(arguments.pop("dry_run", False))
        call, wanted = split_arguments(arguments)
        found = chain_to_change(self._store, chain_id, call)
        given = chain_arguments(found, wanted)
        if _is_now(given) and self._is_replay(found, given, call):
            return self._run_again(found, given, call, dry_run=dry_run)
        decision = self._decision(found, given, self._planner.asked_by(call.get("raw")), self._store.now())
        _check(found, decision)
        if dry_run:
            view = self._writer.tried(found, decision, given, call)
        else:
            view = self._writer.change(found, decision, given, call, decision.decide)
        passed = tuple[str, ...]()
        if (skips := SKIP_NEXT in given) or "when" in given:
            task, to = view.record.task, view.record.run.scheduled_for
            passed = skipped_generations_note(task, found.chain.due_at, to, self._store.now(), skips=skips)
        expires = expires_in_pause_note(found, decision.paused_until)
        spread = spread_of_generations_note(view, self._store.now()) if changes_policy(given) else ()
        return replace(
            view, warnings=tuple(dict.fromkeys((*decision.read_as, *passed, *expires, *spread, *view.warnings)))
        )

    def act(
        self, chain_id: str, action: ActionOnTask, *, undo: str | None = None, **call: Unpack[CallArguments]
    ) -> TaskView:
        """Run what failed again now, skip a generation, or undo a change. Raises Refused for what is done to a step."""
        if action == RUN_NOW:
            return self._run_again(chain_to_change(self._store, chain_id, call), {"action": RUN_NOW}, call)
        if action == SKIP_NEXT:
            return self.reschedule(chain_id, skip_next=True, **call)
        if action != UNDO:
            raise Refused(
                f"{action!r} is for one task, and {chain_id} is a chain: name the step.",
                argument="task_id",
                remedy=remedies.Inspect(chain_id),
            )
        return self._undo.undo(chain_id, undo, call)

    def _decision(self, found: ChainRecord, given: Mapping[str, Any], planner: Planner, now: datetime) -> BulkDecision:
        """Return what a reschedule does to each step."""
        zone = given.get("timezone") or found.chain.timezone
        if given.keys() & set(PAUSE_ARGUMENTS):
            paused, end = given.get("pause", True), given.get("pause_until")
            pause = decision_of(BulkVerb.PAUSE if paused else BulkVerb.RESUME, planner, now, end, zone=zone)
            of_steps = replace(pause, decide=partial(of_open, pause))
            return with_later_generations(of_steps, [found]) if paused else of_steps
        own, due = own_change(found, given, planner, now), self._moves.due(found, now)
        to = given.get("when") or (own.after.get("due_at") if own else None)
        move = self._moves.to_time(found, to, zone, now) if to else None
        kind = EventKind.SKIPPED if SKIP_NEXT in given else EventKind.RESCHEDULED
        read_as = read_as_note(found, given, move.start if move else due or now, planner, now)
        read_as = (*(move.read_as if move else ()), *read_as)
        decision = chain_decision(found, given, move, planner, now, due=due)
        decision = replace(decision, chain=own, kind=kind, read_as=read_as)
        if kind is EventKind.SKIPPED:
            return replace(decision, decide=as_late_as_others(found, decision.decide))
        if not changes_policy(given) and (own is None or own.after.get("repeat") is None):
            return decision
        return replace(decision, decide=with_rule(found, own, given, planner, now=now, decide=decision.decide))

    def _is_replay(self, found: ChainRecord, given: Mapping[str, Any], call: CallArguments) -> bool:
        """Whether a chain has ended and failed, or this repeats the call that let it continue."""
        if not front_steps(found):
            return bool(root_failures(found))
        return bool(earlier_of(self._store, bulk_call_of(found, BulkVerb.REPLAY, given, call), self._store.now()))

    def _run_again(
        self, found: ChainRecord, given: Mapping[str, Any], call: CallArguments, *, dry_run: bool = False
    ) -> TaskView:
        """Run again the steps that failed by themselves: what had ended with them waits for them once more."""
        wanted, now = steps_to_rerun(found), self._store.now()
        replay = replaying(decision_of(BulkVerb.REPLAY, self._planner, now, None), wanted, now)

        def decide(record: TaskRecord, last: LastChange | None) -> Change:
            if not wanted:
                raise none_to_rerun(found)
            return replay.decide(record, last) if record.task.id in wanted else Change(record.task, record.run)

        if dry_run:
            return self._writer.tried(found, replace(replay, decide=decide), given, call)
        return self._writer.change(found, replay, given, call, decide)


def _check(found: ChainRecord, decision: BulkDecision) -> None:
    """Raise InvalidArgument(s) for a change that no step of its kind could take."""
    for step in found.steps:
        with suppress(Refused):
            decision.decide(step.record, None)


def _is_now(given: Mapping[str, Any]) -> bool:
    when = given.get("when")
    return given.keys() == {"when"} and isinstance(when, str) and when.strip().lower() == _NOW
