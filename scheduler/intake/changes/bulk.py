"""Decides what a call does to each of many tasks: the same as the call for one task, with one time for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import BULK_UNDO_WINDOW, BulkDecision, BulkVerb
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.history.dead_letters import MAX_REPLAYS
from duetime.scheduler.intake.changes.actions import change_token, is_change_token, undo_change
from duetime.scheduler.intake.changes.pause import Pause, expected_after_pause, expires_in_pause, pause_end, pause_step
from duetime.scheduler.intake.changes.reschedule import decide_reschedule
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.reruns import failed_before, replayed_run, run_under_way
from duetime.scheduler.rules.states import FAILURES, OPEN
from duetime.scheduler.task import Run, State
from duetime.scheduler.translatable import is_of_clocks
from duetime.scheduler.views import TaskRecord

_KINDS = {
    BulkVerb.CANCEL: EventKind.CANCELLED,
    BulkVerb.PAUSE: EventKind.PAUSED,
    BulkVerb.RESUME: EventKind.RESUMED,
    BulkVerb.MOVE: EventKind.RESCHEDULED,
    BulkVerb.REPLAY: EventKind.RUN_NOW,
    BulkVerb.UNDO: EventKind.UNDONE,
}


def decision_of(
    verb: BulkVerb,
    planner: Planner,
    now: datetime,
    to: Moment | None,
    *,
    spent: Collection[str] | None = None,
    zone: str | None = None,
) -> BulkDecision:
    """Return how a verb decides each task; a replay by filter leaves `spent` runs alone. `to` is read in `zone`.

    Raises InvalidArgument for a move without a time.
    """
    zone = zone or planner.zone or "UTC"
    _check_time(verb, to)
    if verb is BulkVerb.MOVE and isinstance(to, str):  # what no task can read is wrong in the call
        frame = planner.times.frame(None, moved_from=now + timedelta(days=366))
        resolve_moment(to, now=now, zone=zone, argument="to", frame=frame)
    end = pause_end(to, "to", planner, zone, now) if verb is BulkVerb.PAUSE and to is not None else None
    pause = Pause(verb is BulkVerb.PAUSE, end.instant if end else None)

    def decide(record: TaskRecord, _last: LastChange | None) -> Change:
        if verb is BulkVerb.CANCEL:
            return _cancelled(record, now)
        if verb is BulkVerb.REPLAY:
            return _replayed(record, now, spent)
        if verb is BulkVerb.MOVE:
            change, notes = decide_reschedule(record, Reschedule(when=to), planner, now)
            was = expected_after_pause(record)
            return replace(change, note=next(filter(is_of_clocks, notes), None), was=was)
        change = pause_step(record, pause, now) or Change(record.task, record.run)
        return replace(change, note=next(iter(expires_in_pause(change.task, change.coming, pause.until)), None))

    return BulkDecision(verb, _KINDS[verb], decide, lambda found: undo_of(verb, found, now), pause.until)


def _check_time(verb: BulkVerb, to: Moment | None) -> None:
    if verb is BulkVerb.PAUSE or (verb is BulkVerb.MOVE) == (to is not None):
        return
    raise InvalidArgument(
        "to",
        "a move needs the time to move to" if to is None else f"{verb} is neither a move nor a pause",
        accepted="a time, a day (each keeps its time of day), or how much later",
        example="to='1 day later'" if to is None else f"change='move', to={str(to)!r} or change='{verb}', to=null",
    )


def _replayed(record: TaskRecord, now: datetime, spent: Collection[str] | None) -> Change:
    """Run again what failed: a task that is over, or of a series or a chain that continues its newest open letter."""
    task_id, recurs = record.task.id, record.task.repeat is not None or failed_before(record)
    goes_on = recurs and record.run.state in OPEN
    failed = (record.failed_run or record.last_run) if goes_on else record.run
    if not goes_on and record.failed_run and record.run.state is State.SUCCEEDED:
        text = f"{task_id} has ended, and its last run succeeded."
        raise Refused(text, argument="change", remedy=remedies.Inspect(task_id))
    if failed is None or failed.state not in FAILURES:
        raise Refused(f"{task_id} has not failed.", argument="change", remedy=remedies.Inspect(task_id))
    if spent is not None and failed.id in spent:
        raise Refused(
            f"{task_id} failed again after {MAX_REPLAYS} replays; name its id to replay it anyway.",
            argument="change",
            remedy=remedies.Inspect(task_id),
        )
    again = failed.repeats or failed.id
    if any(run.repeats == again for run in record.side_runs):
        return Change(record.task, record.run)
    current = run_under_way(record) if spent is not None else None
    if current is not None:
        raise Refused(
            f"{task_id} has a run that is {current.state} ({current.id}); name its id to replay it anyway.",
            argument="change",
            remedy=remedies.Inspect(task_id),
        )
    return changes.replay(replace(record, last_run=failed) if goes_on else record, now)


def replaying(decision: BulkDecision, steps: Mapping[str, Run | None], now: datetime) -> BulkDecision:
    """Return a replay by which steps of chains run again: runs that failed, and steps with an invalid result."""

    def decide(record: TaskRecord, last: LastChange | None) -> Change:
        if record.task.id in steps and steps[record.task.id] is None:
            return _run_last_again(record, now)
        return decision.decide(record, last)

    return replace(decision, decide=decide, failed_runs={each: run for each, run in steps.items() if run is not None})


def _run_last_again(record: TaskRecord, now: datetime) -> Change:
    """Run once more what ran last: next to the run to come, where there is one."""
    if record.last_run is None or record.run.state not in OPEN or record.task.paused:
        return changes.run_now(record, now)
    extra = replayed_run(record.task, record.last_run, now)
    return Change(record.task, record.run, extra_run=extra, kind=EventKind.RUN_NOW)


def _cancelled(record: TaskRecord, now: datetime) -> Change:
    if record.is_cancelled:
        return Change(record.task, record.run)
    return changes.cancel(record, now)


def undo_of(verb: BulkVerb, found: TaskRecord, now: datetime) -> str | None:
    """Return the undo token of the change that was just made to a task.

    None for a cancel that did not end its current run: that was asked to stop, or had ended before its side runs.
    """
    return changes.undo_token(found.run, now) if verb is BulkVerb.CANCEL else change_token(found.task)


def undo_decision(tokens: Mapping[str, str], now: datetime, window: timedelta) -> BulkDecision:
    """Return the decision that undoes the changes with these tokens, by task; tasks without a token do not change."""

    def decide(record: TaskRecord, last: LastChange | None) -> Change:
        token = tokens.get(record.task.id)
        if token is None:
            return Change(record.task, record.run)
        if is_change_token(token):
            change = undo_change(record, last, now, token, window)
            return replace(change, was=expected_after_pause(record) if change.task.paused_until else None)
        if not token.startswith("u_"):
            return _without_replay(record, last, now, token.split(","))
        return changes.undo_cancel(record, now, token, window)

    return BulkDecision(BulkVerb.UNDO, EventKind.UNDONE, decide, lambda _found: None)


def _without_replay(record: TaskRecord, last: LastChange | None, now: datetime, run_ids: Collection[str]) -> Change:
    """Take the replay of dead letters back, by the runs that it made; those in addition to a series are cancelled."""
    task_id, run = record.task.id, record.run
    if run.id in run_ids and last is not None and last.replaced_run is not None and last.current == run.id:
        return undo_change(record, last, now, f"u_{last.revision}", BULK_UNDO_WINDOW)
    waiting = tuple(each for each in record.side_runs if each.id in run_ids and not changes.has_started(each))
    if len(waiting) < len(run_ids):
        happened = "was changed again" if run.id in run_ids and not changes.has_started(run) else "has run"
        text = f"{task_id} {happened} since, so that change stays."
        raise Refused(text, argument="undo", remedy=remedies.Inspect(task_id))
    return Change(record.task, run, cancelled_side_runs=waiting, kind=EventKind.UNDONE)
