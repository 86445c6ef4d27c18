"""Changes of a task by an actor, as pure decisions: (record, now, arguments) -> Change, or Refused with a remedy.

`Tasks.change` calls them inside its transaction, so that a decision is always made on the newest state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import (
    delay_of,
    kept_window,
    next_run,
    planned_window,
    recurrence_of,
    skip_run,
    window_of,
    with_deadline_like,
)
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.catch_up import catch_up, catches_up, resumed_at
from duetime.scheduler.rules.series.first_side_run import first_side_run, side_run_put_off
from duetime.scheduler.rules.series.moved_occurrence import move_past_next, open_snoozes, same_time_note
from duetime.scheduler.rules.series.occurrence_approval import final_no_text, has_waited
from duetime.scheduler.rules.series.overtake import ends_series, was_cancelled
from duetime.scheduler.rules.series.reruns import extra_run, failed_before, has_ended, next_generation, side_run
from duetime.scheduler.rules.states import TERMINAL, cancelled, was_left_out
from duetime.scheduler.rules.time.times import describe, length
from duetime.scheduler.task import DeadlineType, Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import UNDO_WINDOW, TaskRecord, after_pause, due_at, undo_of_cancel

ALREADY_CANCELLED = Translatable.of(NoteKind.ALREADY_CANCELLED, "it was already cancelled; nothing was changed")
UNDO_GRACE = timedelta(seconds=5)
"""Seconds that a click at the end of the undo window may arrive late."""

_TOKEN = re.compile(r"u_[0-9a-z]{1,40}")
_OF_MANY = re.compile(r"u_b[0-9a-z]{8,24}")
"""The token of a change of many tasks."""


def cancel(record: TaskRecord, now: datetime) -> Change:
    """Cancel everything that has not started; a running run gets a cancel request, and ends with its handler."""
    task, run = record.task, record.run
    if run.state in TERMINAL:
        if not record.side_runs:
            raise Refused(
                f"{task.id} has already ended ({run.state} {when_words(run, task)}); there is nothing to cancel.",
                argument="task_id",
            )
        return Change(task, run, cancelled_side_runs=record.side_runs, kind=EventKind.CANCELLED)
    if run.state is State.RUNNING:
        return Change(task, replace(run, cancel_requested=True, overtaken_at=None), kind=EventKind.CANCEL_REQUESTED)
    return Change(task, replace(cancelled(run, now), overtaken_at=None), kind=EventKind.CANCELLED)


def undo_token(run: Run, now: datetime, window: timedelta = UNDO_WINDOW) -> str | None:
    """Return the token that undoes a cancel, while that is possible; None otherwise."""
    fresh = run.state is State.CANCELLED and run.ended_at is not None and now - run.ended_at <= window
    return undo_of_cancel(run) if fresh and run.started_at is None and not was_left_out(run) else None


def is_bulk_token(token: str) -> bool:
    """Whether a token takes back a change of many tasks, such as that of a chain."""
    return _OF_MANY.fullmatch(token) is not None


def undo_cancel(record: TaskRecord, now: datetime, token: str | None, window: timedelta = UNDO_WINDOW) -> Change:
    """Restore a cancelled task as the next generation of its run, at its old time, or at once; it keeps its age."""
    task, run = record.task, record.run
    if token is not None and is_bulk_token(token):
        text = f"{token} takes back a change of many tasks, not that of {task.id} alone."
        raise Refused(text, argument="undo", remedy=remedies.UndoMany(token))
    if run.state is not State.CANCELLED:
        missing = f"{task.id} is not cancelled; other changes are undone with their token.{final_no_text(task)}"
        raise Refused(missing, argument="undo", remedy=remedies.Inspect(task.id))
    if undo_token(run, now - UNDO_GRACE, window) is None:
        late = f"itself: {run.summary}" if was_left_out(run) else f"in the last {length(window)}"
        raise Refused(f"{task.id} was not cancelled {late}.", argument="undo", remedy=remedies.ScheduleAnother())
    if token is not None and token != undo_token(run, now - UNDO_GRACE, window):
        known = "belongs to an earlier cancel" if _TOKEN.fullmatch(token) else "is not an undo token"
        raise Refused(f"{token[:40]!r} {known}.", argument="undo", remedy=remedies.Inspect(task.id))
    once_more = next_generation(task, run, run.scheduled_for, wake_at=max(run.scheduled_for, now))
    again = replace(once_more, missed=run.missed, first_ready_at=None if task.asks else run.first_ready_at)
    return Change(task, run, next_run=again, kind=EventKind.CANCEL_UNDONE)


def back_to_timer(run: Run) -> Run:
    """Return a ready run to its timer, so that the dispatcher gives it a new place; it keeps its age."""
    return replace(run, state=State.SCHEDULED, wake_at=run.scheduled_for) if run.state is State.READY else run


def has_started(run: Run) -> bool:
    """Whether an open run has been attempted: it runs, or waits for its next attempt, in any state."""
    return run.state not in TERMINAL and run.started_at is not None


def move(
    record: TaskRecord, to: datetime, now: datetime, kind: EventKind = EventKind.RESCHEDULED, *, by_rule: bool = False
) -> Change:
    """Move the current occurrence to another time; one that has fired runs again then, as its next generation.

    It still fills its slot in the recurrence, unless the rule itself puts it there, `by_rule`. Occurrences that it
    passes stay. After an ended run of a series it counts as the next one: skipping it leaves no number free.
    """
    run, task = record.run, record.task
    if run.state is State.RUNNING:
        raise Refused(f"{task.id} is running now. Cancel it, or schedule another task.")
    if run.state is State.CANCELLED and not run.gives_way:
        raise Refused(f"{task.id} was cancelled.", remedy=remedies.ScheduleAnother())
    if not by_rule and (past := move_past_next(record, to, now, kind)):
        return past
    slot = (run.slot or run.scheduled_for) if task.repeat and not by_rule else None
    belongs_to = planned_window(task, to) if by_rule else kept_window(task, window_of(run))
    wake = max(to + delay_of(task) if by_rule else to, now)
    if run.state in TERMINAL:
        once_more = replace(next_generation(task, run, to, wake_at=wake), slot=slot, occurrence=belongs_to)
        once_more = replace(once_more, number=run.number + 1) if task.repeat else once_more
        return Change(_at_its_end(task, run), run, next_run=once_more, kind=kind)
    if has_started(run):  # only its next attempt can move
        waits = State.SCHEDULED if run.state is State.READY else run.state
        return Change(task, replace(run, state=waits, wake_at=wake), kind=kind)
    waits_on = run.state is State.WAITING and kind is not EventKind.RUN_NOW and not before_run(task).holds_alone(run)
    state = State.WAITING if waits_on else State.SCHEDULED
    wakes = None if waits_on else wake
    open_from = to if has_waited(task, run) else None  # its yes and its event stay, also over a pause
    moved = replace(run, state=state, scheduled_for=to, wake_at=wakes, first_ready_at=open_from, slot=slot)
    return Change(task, with_deadline_like(task, replace(moved, occurrence=belongs_to), run), kind=kind)


def _at_its_end(task: Task, run: Run) -> Task:
    """Return the task that an ended run leaves: after a requested cancel it no longer recurs."""
    return replace(task, repeat=None, until=None, max_runs=None, repeat_policy=None) if ends_series(run) else task


def snooze(record: TaskRecord, by: timedelta | datetime, now: datetime, due: datetime | None = None) -> Change:
    """Snooze the outcome that just fired, or the occurrence that is about to fire; never to an earlier time.

    Where it recurs, also in its chain, these differ: the nearer one in time is snoozed. A run next to the series that
    comes before it is the occurrence to fire. A length of time counts from when that is `due` for its user, if that is
    still to come. A new snooze of a fired outcome replaces an earlier one.
    """
    fired, run, due = record.last_run, record.run, due or due_at(record.run)
    apart = first_side_run(record, now, due)
    due = after_pause(record.task, due_at(apart)) if apart else due
    alone = not (record.task.repeat or record.renewed) or run.state in TERMINAL or has_started(run)
    if fired is None or fired.ended_at is None or alone or now - fired.ended_at > due - now:
        to = _later(record, () if run.state in TERMINAL else (due,), by, now)
        return side_run_put_off(record, apart, to) if apart else _put_off(record, to, now)
    earlier = open_snoozes(record.side_runs)
    again = [after_pause(record.task, run.wake_at or run.scheduled_for) for run in earlier]
    extra = side_run(record.task, fired, _later(record, again, by, now))
    return Change(record.task, record.run, extra_run=extra, cancelled_side_runs=earlier, kind=EventKind.SNOOZED)


def _later(record: TaskRecord, times: Iterable[datetime], by: timedelta | datetime, now: datetime) -> datetime:
    """Return the time of a snooze of what is due at these `times`; raise Refused for one before the last of them."""
    due = max(times, default=now)
    if isinstance(by, timedelta):
        return max(due, now) + by
    if by < due:
        zone = record.task.timezone
        raise Refused(
            f"{record.task.id} is due {describe(due, zone)} {zone}, after that time, and a snooze only postpones.",
            argument="until",
            remedy=remedies.MoveEarlier(record.task.id),
        )
    return by


def _put_off(record: TaskRecord, to: datetime, now: datetime) -> Change:
    """Move the current occurrence, but not to a time at which it cannot meet its hard deadline."""
    change, task = move(record, to, now, EventKind.SNOOZED), record.task
    run = change.extra_run or change.next_run or change.run
    binds = task.deadline_type is DeadlineType.HARD and not same_time_note(change)
    if binds and run.deadline and run.drop_at and run.drop_at <= to:
        by = f"{describe(run.deadline, task.timezone)} {task.timezone}"
        raise Refused(
            f"{task.id} must be finished by {by}, so it cannot be postponed until then.",
            argument="action",
            remedy=remedies.MoveDeadline(task.id),
        )
    return change


def run_now(record: TaskRecord, now: datetime, *, completing: bool = True) -> Change:
    """Run once at once; a recurring task keeps its next occurrence. Raises Refused for what is paused: it is held.

    `completing` it does again what failed last, as does a step of a chain that recurs; else it is one of its own.
    """
    if record.run.state is State.RUNNING:
        raise Refused(f"{record.task.id} is running already.", argument="action")
    if record.task.paused:
        raise Refused(f"{record.task.id} is paused.", argument="action", remedy=remedies.Resume(record.task.id))
    if (completing and failed_before(record)) or (record.task.repeat and record.run.state not in TERMINAL):
        extra = extra_run(record, now, completing=completing)
        return Change(record.task, record.run, extra_run=extra, kind=EventKind.RUN_NOW)
    return move(record, now, now, EventKind.RUN_NOW)


def replay(record: TaskRecord, now: datetime) -> Change:
    """Run a dead letter's task once more, as `run_now` does; a task that is to run anyway is left alone."""
    if record.task.repeat is None and record.run.state not in TERMINAL and not failed_before(record):
        raise Refused(
            f"{record.task.id} is {record.run.state} already.",
            argument="run_id",
            remedy=remedies.Inspect(record.task.id),
        )
    return run_now(record, now)


def pause(record: TaskRecord, until: datetime | None = None) -> Change:
    """Hold everything that has not started, until it is resumed or `until` then; a running run continues to its end."""
    task, run = record.task, record.run
    if run.state in TERMINAL and (ends_series(run) or not record.side_runs):
        raise has_ended(task, run, "pause")
    if task.paused and task.paused_until == until:
        raise Refused(f"{task.id} is paused already.", argument="pause", remedy=remedies.Resume(task.id))
    if run.state is State.READY:
        run = replace(run, state=State.SCHEDULED, wake_at=run.scheduled_for)
    return Change(replace(task, paused=True, paused_until=until), run, kind=EventKind.PAUSED)


def resume(record: TaskRecord, now: datetime) -> Change:
    """Resume a paused task: a one-shot that fell due during the pause runs at once; a recurring task skips it.

    A run that was attempted before continues with its next attempt. A task that was cancelled has none to resume.
    """
    task, run = record.task, record.run
    over = was_cancelled(run) and not record.side_runs
    if run.state in TERMINAL and (over or not task.paused):
        raise has_ended(task, run, "pause")
    if not task.paused:
        raise Refused(f"{task.id} is not paused.", argument="pause")
    live = without_pause(task)
    if run.state in TERMINAL:
        return Change(live, run, kind=EventKind.RESUMED)
    run = replace(run, failed_before=0)
    due, waits = run.wake_at or run.scheduled_for, before_run(task).holds_in_series and run.state is State.WAITING
    if run.state is State.RUNNING or waits:
        return Change(live, run, kind=EventKind.RESUMED)
    if task.repeat is None or due >= now or has_started(run) or has_waited(task, run):
        return Change(live, replace(run, wake_at=resumed_at(task, run, now)), kind=EventKind.RESUMED)
    missed = catch_up(replace(record, task=live, run=run), now) if catches_up(task.repeat_policy) else None
    if catches_up(task.repeat_policy) and missed is None:
        return Change(live, replace(run, wake_at=now), kind=EventKind.RESUMED)
    following = missed.next_run if missed else next_run(live, run, now, number=run.number)
    if following is None:
        raise Refused(
            f"every occurrence of {task.id} passed while it was paused.",
            argument="pause",
            remedy=remedies.Cancel(task.id),
        )
    return Change(live, skip_run(run, now), next_run=replace(following, missed=0), kind=EventKind.RESUMED)


def end_pause(record: TaskRecord, until: datetime) -> Change:
    """Resume a task at the end of its pause: an occurrence of that instant runs, however late the end is noticed."""
    return resume(record, until - timedelta(microseconds=1))


def skip_next(record: TaskRecord, now: datetime) -> Change:
    """Skip the next occurrence of a recurring task; it does not count towards `max_runs`."""
    task, run = record.task, record.run
    if recurrence_of(task) is None:
        problem = f"{task.id} runs once: there is no other occurrence to go on with."
        raise Refused(problem, argument="skip_next", remedy=remedies.Cancel(task.id))
    if run.state in TERMINAL or has_started(run):
        how = run.state if run.state in TERMINAL else "under way"
        problem = f"the occurrence of {task.id} at {when_words(run, task)} is {how}, not to come."
        raise Refused(problem, argument="skip_next")
    following = next_run(task, run, now, number=run.number)
    if following is None:
        problem = f"this is the last occurrence of {task.id}."
        raise Refused(problem, argument="skip_next", remedy=remedies.Cancel(task.id))
    return Change(task, skip_run(run, now), next_run=replace(following, missed=0), kind=EventKind.SKIPPED)


def without_pause(task: Task) -> Task:
    return replace(task, paused=False, paused_until=None)


def runs_to_dequeue(record: TaskRecord, change: Change) -> list[str]:
    """Return the runs that are or may be in the queue, and must no longer start."""
    stood = record.run.state is State.READY and (change.run.state is not State.READY or change.task.paused)
    return [*([record.run.id] if stood else []), *(run.id for run in change.cancelled_side_runs)]


def when_words(run: Run, task: Task) -> str:
    """Return the time of a run for display, in the task's zone."""
    return f"{describe(run.ended_at or run.scheduled_for, task.timezone)} {task.timezone}"
