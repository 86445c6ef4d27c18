"""Decides the actions of buttons on cards, among them the undo: which event each has, and how it changes the task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler import remedies
from duetime.scheduler.chain.link_change import RelinkedChange
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.pause import moved_from, past_pause, seen_at, skip_next
from duetime.scheduler.intake.instants import snooze_by
from duetime.scheduler.records import Change, LastChange
from duetime.scheduler.request import ACTIONS_OF_AGENTS, Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.first_side_run import first_side_run
from duetime.scheduler.rules.series.occurrence_approval import final_no_text
from duetime.scheduler.rules.series.reruns import side_run
from duetime.scheduler.rules.states import TERMINAL, cancelled
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import ApprovalAnswer, Run, State, Task
from duetime.scheduler.views import UNDO_WINDOW, TaskRecord, after_pause, due_at

MARK_DONE = "done"
"""Marks the outcome as read; the task does not change."""

UNDOES_DONE = "u_done"
"""The token that undoes `done`."""

UNDO = "undo"
RUN_NOW = "run_now"
SKIP_NEXT = "skip_next"
_TAKES: Final = {"snooze": ("minutes", "until"), UNDO: ("undo",)}
"""Arguments that only one action takes, by action."""

_CHANGE_TOKEN = re.compile(r"u_[0-9]{1,9}")
UNDOES_SCHEDULING = "u_1"
"""The token that undoes the scheduling of a task or a chain: it cancels, as long as nothing has run."""

_OF_SERIES = ("repeat", "anchor", "timezone", "until", "max_runs")
"""Fields of a task that decide whether a run follows, and when."""

_OF_ORDER = ("priority", "estimate", "needs")
"""Fields of a task that decide the place of a ready run in the queue, apart from the deadline, which the run has."""

_OF_NEXT_RUN = (*_OF_SERIES, "deadline", "deadline_after", "deadline_type")
"""Fields of a task that decide whether a run follows, and how it is dated."""

_OF_ITS_TIME = ("scheduled_for", "slot", "number", "missed", "deadline", "drop_at", "first_ready_at", "occurrence")


def is_change_token(text: str) -> bool:
    """Whether a token undoes a change at a revision; any other one undoes a cancel."""
    return _CHANGE_TOKEN.fullmatch(text) is not None


def refuse_other_arguments(action: str, minutes: int | None, until: Moment | None, undo: str | None) -> None:
    """Refuse arguments that the action does not take, instead of ignoring them."""
    given = {"minutes": minutes, "until": until, "undo": undo}
    others = [name for name, value in given.items() if value is not None and name not in _TAKES.get(action, ())]
    if not others or action not in {*ACTIONS_OF_AGENTS, *ApprovalAnswer}:
        return
    taken = " or ".join(_TAKES.get(action, ()))
    accepted = f"action={action!r} with {taken}" if taken else f"action={action!r} without minutes, until and undo"
    lacks = action == "snooze" and minutes is None and until is None
    example = ", ".join(["minutes=10"] * lacks + [f"{name}=null" for name in others])
    raise InvalidArgument(others[0], f"{action} takes no {' or '.join(others)}", accepted=accepted, example=example)


def decide_action(
    action: str,
    now: datetime,
    *,
    minutes: int | None = None,
    until: Moment | None = None,
    undo: str | None = None,
    holidays: str = "",
) -> tuple[EventKind, Callable[[TaskRecord], Change]]:
    """Return the event and the decision of an action; raises InvalidArgument for an unknown action."""
    decisions: dict[str, tuple[EventKind, Callable[[TaskRecord], Change]]] = {
        "snooze": (
            EventKind.SNOOZED,
            lambda record: _snooze(record, minutes, until, now, holidays),
        ),
        RUN_NOW: (EventKind.RUN_NOW, lambda record: changes.run_now(record, now)),
        SKIP_NEXT: (EventKind.SKIPPED, lambda record: skip_next(record, now)),
        UNDO: (EventKind.CANCEL_UNDONE, lambda record: changes.undo_cancel(record, now, undo)),
    }
    if action not in decisions:
        accepted = ", ".join(ACTIONS_OF_AGENTS)
        raise InvalidArgument("action", f"no action {action[:40]!r}", accepted=accepted, example="action='run_now'")
    return decisions[action]


def _snooze(record: TaskRecord, minutes: int | None, until: Moment | None, now: datetime, holidays: str) -> Change:
    """Snooze an outcome or the next occurrence; of a series that a pause holds until a time, the one after that."""
    next_one = past_pause(record)
    change = changes.snooze(next_one, _snooze_by(next_one, minutes, until, now, holidays), now, seen_at(next_one))
    return replace(change, run=record.run) if change.run is next_one.run else change


def _snooze_by(
    record: TaskRecord, minutes: int | None, until: Moment | None, now: datetime, holidays: str
) -> timedelta | datetime:
    due, keeps = seen_at(record), moved_from(record)
    if apart := first_side_run(record, now, due):
        due = keeps = after_pause(record.task, due_at(apart))
    frame = Frame(keeps, holidays=holidays, seen=due)
    return snooze_by(record.task.timezone, minutes, until, now, frame)


TAKEN_BACK: Final = "has that change no more: it was taken back"
"""Follows the id of a task."""


def change_token(task: Task) -> str:
    """Return the token that undoes the change that made a task's present revision."""
    return f"u_{task.revision}"


def undo_change(
    record: TaskRecord,
    last: LastChange | None,
    now: datetime,
    token: str,
    window: timedelta = UNDO_WINDOW,
) -> Change:
    """Take the latest change back, unless it is older than the undo window or the run has gone on since."""
    task, run = record.task, record.run
    if token == UNDOES_SCHEDULING:
        return unschedule(record, now)
    last = _latest(record, last, now, token, window)
    was, kind = replace(task, **last.task), EventKind.UNDONE
    if (last.began or last.cancelled) and not last.run:
        begun = _begun(record, last)
        again = tuple(replace(side_run(was, each, each.scheduled_for), slot=each.slot) for each in last.cancelled)
        return Change(was, run, cancelled_side_runs=begun, revived=again, kind=kind)
    rests = not (_has_run_since(run, last) or run.state in TERMINAL)
    if last.links is not None:
        return _links_back(record, was, last, now)
    if last.replaced_run is None and not last.run and not (rests and was.paused != task.paused):
        return _of_task_alone(record, was, last)
    return _of_run_too(record, was, last, now)


def _begun(record: TaskRecord, last: LastChange) -> tuple[Run, ...]:
    """Return the side runs that a change made. Raises Refused once one of them has run."""
    begun = tuple(each for each in record.side_runs if each.id in last.began and not changes.has_started(each))
    if len(begun) < len(last.began):
        raise _not_undone(record.task, f"{record.task.id} has run since, so that change stays.")
    return begun


def _has_run_since(run: Run, last: LastChange) -> bool:
    """Whether a run has been attempted since the change was made."""
    return run.state is State.RUNNING or (run.id == last.current and run.attempt > last.attempts)


def _of_run_too(record: TaskRecord, was: Task, last: LastChange, now: datetime) -> Change:
    """Undo a change of the current run. Raises Refused if the run has been attempted since, or has ended."""
    task, run, kind = record.task, record.run, EventKind.UNDONE
    if run.id != last.current or _has_run_since(run, last) or run.state in TERMINAL:
        since = "is at another run" if before_run(task).asks_in_chain else "has run"
        raise _not_undone(task, f"{task.id} {since} since, so that change stays.{final_no_text(task)}")
    if last.replaced_run is not None and not last.skipped:
        gone = cancelled(run, now)
        return Change(was, gone, restored=last.replaced_run, kind=kind)
    before, begun = _as_before(task, run, last, was.created_at if was.paused else now), _begun(record, last)
    for moved in begun:  # what this one was before the next one took its place
        before = replace(before, repeats=moved.repeats)
    return Change(was, before, cancelled_side_runs=begun, kind=kind)


def _latest(record: TaskRecord, last: LastChange | None, now: datetime, token: str, window: timedelta) -> LastChange:
    """Return the change that a token names: the last one that stands. Raises Refused for another one, or too late."""
    task = record.task
    if int(token.removeprefix("u_")) > task.revision:
        raise _not_undone(task, f"{task.id} has no change {token}: the last one is {change_token(task)}.")
    named, standing = int(token.removeprefix("u_")), last.revision if last else task.revision
    if named != standing:
        if named > standing:
            raise _not_undone(task, f"{task.id} {TAKEN_BACK}.")
        later = " until the later one is taken back" if last else ""
        text = f"{task.id} was changed again since, so that change stays{later}."
        if last is None or record.run.state in TERMINAL or now - last.at > UNDO_WINDOW:
            raise _not_undone(task, text)
        raise Refused(text, argument="undo", remedy=remedies.UndoLater(task.id, f"u_{standing}"))
    if last is None or now - last.at > window + changes.UNDO_GRACE:
        raise _not_undone(task, f"{task.id} was not changed in the last {length(window)}.")
    return last


def unschedule(record: TaskRecord, now: datetime) -> Change:
    """Cancel a task that was just made and that nobody changed; one that has begun or run since stays."""
    task, run = record.task, record.run
    text = ""
    if task.revision != 1:
        text = f"{task.id} was changed since, so it stays."
    elif record.last_run is not None or run.started_at is not None or run.state in TERMINAL:
        happened = "has run since" if record.last_run is not None else f"is {run.state}"
        text = f"{task.id} {happened}, so it stays."
    elif now - task.created_at > UNDO_WINDOW + changes.UNDO_GRACE:
        text = f"{task.id} was not scheduled in the last {length(UNDO_WINDOW)}."
    if text:
        remedy = remedies.Inspect(task.id) if run.state in TERMINAL else remedies.Cancel(task.id)
        raise Refused(text, argument="undo", remedy=remedy)
    return changes.cancel(record, now)


def _links_back(record: TaskRecord, was: Task, last: LastChange, now: datetime) -> Change:
    """Undo a change of links: the task waits again for what it waited for before, or only for its time."""
    task, run = record.task, record.run
    if run.id != last.current or run.state in TERMINAL or changes.has_started(run):
        raise _not_undone(task, f"{task.id} has run since, so that change stays.")
    found = _as_before(task, run, last, was.created_at if was.paused else now)
    if last.run.get("state", State.WAITING) is State.WAITING:
        found = replace(found, state=State.WAITING, wake_at=None)
    else:
        found = replace(found, state=State.SCHEDULED)
    return RelinkedChange(was, found, kind=EventKind.UNDONE, before=last.links)


def _of_task_alone(record: TaskRecord, was: Task, last: LastChange) -> Change:
    """Undo a change of the task alone. Raises Refused where a later run exists only because of that change."""
    task, run = record.task, record.run
    ended_since = run.ended_at is not None and run.ended_at >= last.at
    follows = run.id != last.current
    if (follows and _differ(was, task, _OF_NEXT_RUN)) or (ended_since and _differ(was, task, _OF_SERIES)):
        raise _not_undone(task, f"{task.id} has run since, so that change stays.")
    return Change(was, changes.back_to_timer(run) if _differ(was, task, _OF_ORDER) else run, kind=EventKind.UNDONE)


def _differ(one: Task, other: Task, names: Iterable[str]) -> bool:
    return any(getattr(one, name) != getattr(other, name) for name in names)


def _as_before(task: Task, run: Run, last: LastChange, earliest: datetime) -> Run:
    """Return the run at its time before the change, or at the time of the occurrence that the change skipped."""
    fields = {name: last.run[name] for name in _OF_ITS_TIME if name in last.run}
    if "scheduled_for" in fields:
        fields.setdefault("first_ready_at", None)  # what it has of that, it got at the time that it leaves
    if last.replaced_run is not None:  # one that a pause held was moved from the time that it would have after that
        fields = {name: getattr(last.replaced_run, name) for name in _OF_ITS_TIME} | fields
    found = replace(run, **fields, summary=last.run.get("summary", run.summary))
    kept = run.wake_at if last.replaced_run is None else None  # of a skipped run, not that of the one after it
    due = last.run.get("wake_at", kept) or found.scheduled_for
    if last.run.get("state") is State.WAITING:
        return replace(found, state=State.WAITING, wake_at=None)
    is_open = run.state is State.WAITING and before_run(task).holds_alone(run)
    begun = is_open and "scheduled_for" in last.run  # at the other time
    waits = State.SCHEDULED if begun or run.state is State.READY else run.state
    return replace(found, state=waits, wake_at=max(due, earliest))


def _not_undone(task: Task, sentence: str) -> Refused:
    return Refused(sentence, argument="undo", remedy=remedies.Inspect(task.id))
