"""Reasons of runs that may not start yet: other tasks have to end, an event has to come, or the user is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.remedies import PAUSED_UNTIL_PREFIX, paused_reason
from duetime.scheduler.rules.series.before_run import ANSWER_MEMBER, before_run
from duetime.scheduler.rules.series.occurrence_wait import names_awaited, wait_of_each
from duetime.scheduler.rules.series.overlap import pause_after_failures
from duetime.scheduler.rules.states import BLOCKED_PREFIX, blocked_by
from duetime.scheduler.rules.time.times import describe, length, relative
from duetime.scheduler.task import ApprovalAnswer, Run, State, Task
from duetime.scheduler.view_parts import AT_THE_LATEST, WaitKind, WaitReason
from duetime.scheduler.views import CHAIN_ACTION, TaskRecord
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import OnTimeout, SignalWait

MAX_UPSTREAMS_NAMED = 5
_MAX_TITLE_CHARS = 40
_MAX_QUESTION_CHARS = 80
_QUOTES = str.maketrans("«»", "\u2039\u203a")
_MAX_MATCH_CHARS = 60
_THEN: Final = {
    OnTimeout.EXPIRE: "it expires",
    OnTimeout.RUN: "it runs without it",
    OnTimeout.SKIP: "it is skipped",
}
_ELSE: Final = {ApprovalAnswer.APPROVE: "else it goes", ApprovalAnswer.REJECT: "else it is cancelled"}
_SKIPPED: Final = "else this run is skipped"


def quoted(title: str, most: int = _MAX_TITLE_CHARS) -> str:
    """Quote a user's text so that it cannot close the quotation, because a model reads these sentences."""
    shown = title if len(title) <= most else f"{title[: most - 1].rstrip()}…"
    return f"«{shown.translate(_QUOTES)}»"


def upstream_reasons(record: TaskRecord, upstreams: Sequence[Upstream]) -> Iterator[WaitReason]:
    """Return the tasks that a run comes after; without any, that it comes after some. Then its question and its event.

    The question has no reason of its own: front ends would offer to answer it.
    """
    *first, last = _upstreams(upstreams)
    yield from first
    yield replace(last, sentence=f"{last.sentence}{_asked_then(record.task)}")
    if awaited := event_of_each_run(record.task, since="from its turn on "):
        events = ", ".join(names_awaited(record.task.asks))
        yield WaitReason(WaitKind.EVENT, awaited, event=events)


def series_reason(other: Run, task: Task) -> WaitReason:
    """Return that a run waits for an open one of its series to end."""
    at = describe(other.scheduled_for, task.timezone)
    return WaitReason(WaitKind.TURN, f"the end of its run {other.id} of {at}: one runs at a time", run=other.id)


def _upstreams(upstreams: Sequence[Upstream]) -> Iterator[WaitReason]:
    for each in upstreams[:MAX_UPSTREAMS_NAMED]:
        text = f"{each.task_id} {quoted(each.title)}, which is {each.state}"
        yield WaitReason(WaitKind.TASK, text, task=each.task_id, title=each.title, state=each.state)
    more = len(upstreams) - MAX_UPSTREAMS_NAMED
    if more > 0 or not upstreams:
        others = f"{more} more task{'' if more == 1 else 's'}"
        yield WaitReason(WaitKind.TASK, others if upstreams else "the tasks that it comes after", count=max(more, 1))


def _asked_then(task: Task) -> str:
    """Say what a step that recurs asks when its turn has come, for how long, and what follows without an answer."""
    if not before_run(task).asks_in_chain:
        return ""
    asks = task.asks or {}
    question, seconds = asks.get("question"), asks.get("seconds")
    of = f" of {quoted(str(question), _MAX_QUESTION_CHARS)}" if question else ""
    then = "else it goes" if asks.get(ANSWER_MEMBER) == ApprovalAnswer.APPROVE else _SKIPPED
    until = f", for {length(timedelta(seconds=seconds))} at most, {then}" if isinstance(seconds, int | float) else ""
    return f"; then approval{of} by the user{until}"


def blocked_reason(run: Run) -> Iterator[WaitReason]:
    """Return the reason of a blocked run: what it needs and cannot get by waiting."""
    if missing := blocked_by(run):
        yield WaitReason(WaitKind.BLOCKED, f"{BLOCKED_PREFIX}{missing}", until=run.wake_at, after=missing)


def approval_reasons(
    record: TaskRecord, own: Approval | None, side_approvals: Sequence[Approval], now: datetime
) -> Iterator[WaitReason]:
    """Return what the current run asks (`own`), and what runs next to it ask: the oldest question first."""
    of_run = {run.id: run for run in record.side_runs}
    for each in sorted([*side_approvals, *((own,) if own else ())], key=lambda found: (found.asked_at, found.run_id)):
        goes_on = before_run(record.task).asks_when_due
        yield approval_reason(each, record.task.timezone, now, goes_on=goes_on, side_run=of_run.get(each.run_id))


def approval_reason(
    approval: Approval, zone: str, now: datetime, *, goes_on: bool = False, side_run: Run | None = None
) -> WaitReason:
    """Return that a run waits for the user's approval: of what, until when, and what follows without an answer.

    It `goes_on` in a series, of which it alone is left out. The run is named where it is not the current one.
    """
    of = f" of {quoted(approval.question, _MAX_QUESTION_CHARS)}" if approval.question else ""
    until, goes = "", None
    if approval.ends_at:
        goes = approval.attempt > 0 or approval.default is ApprovalAnswer.APPROVE
        then = _ELSE[approval.default] if approval.attempt == 0 else f"else the answer is {approval.default}"
        then = _SKIPPED if goes_on and approval.default is ApprovalAnswer.REJECT and approval.attempt == 0 else then
        until = f" until {describe(approval.ends_at, zone)} ({relative(approval.ends_at, now)}), {then}"
    whose = f" for its run of {describe(side_run.scheduled_for, zone)} ({side_run.id})" if side_run else ""
    text = f"approval{of} by the user{whose}{until}"
    ends, asked_by = approval.ends_at, approval.run_id
    default = approval.default if ends and approval.attempt > 0 else None
    return WaitReason(
        WaitKind.APPROVAL, text, until=ends, title=approval.question, run=asked_by, goes_on=goes, default_answer=default
    )


def event_of_each_run(task: Task, *, since: str = "") -> str:
    """Return for which event each run of a task waits before it starts, how long, and what follows without one."""
    if not names_awaited(task.asks):
        return ""
    wait = wait_of_each(task, task.anchor, task.anchor)
    back = max(task.anchor - each.since for each in wait.all)
    also = f", also one of the {length(back)} before" if back else ""
    most = length(wait.until - task.anchor)
    return f"the event {_named(wait)}{also}, {since}for {most} at most, then {_THEN[wait.on_timeout]}"


def waits_once_due(record: TaskRecord) -> str:
    """Return in words what the run will wait for once it is due; empty for nothing."""
    if record.run.first_ready_at is not None:
        return ""
    awaited = event_of_each_run(record.task)
    if before_run(record.task).asks_when_due:
        return "; then it asks the user" + (f", and waits for {awaited}" if awaited else "")
    return f"; then for {awaited}" if awaited else ""


def event_reason(run: Run, wait: SignalWait, zone: str, now: datetime) -> WaitReason:
    """Return the event that a run waits for, what its data have to be, until when, and what follows without one."""
    end = f"{describe(wait.until, zone)} ({relative(wait.until, now)})"
    then = "it goes on" if run.state is State.SUSPENDED else _THEN[wait.on_timeout]
    until = f"or {end} {AT_THE_LATEST}" if wait.at_once else f"until {end}, then {then}"
    text = f"the event {_named(wait)}, {until}"
    goes = run.state is State.SUSPENDED or wait.at_once or wait.on_timeout is OnTimeout.RUN
    events = ", ".join(each.name for each in wait.all)
    return WaitReason(WaitKind.EVENT, text, until=wait.until, event=events, match=_matches(wait), goes_on=goes)


def pause_reason(task: Task, run: Run, now: datetime) -> WaitReason:
    """Say until when a task is paused: until a time, or until somebody resumes it; and after how many failures."""
    until = task.paused_until
    if until is None:
        of_chain = task.action == CHAIN_ACTION or task.repeat is None  # only chains recur whose tasks have no rule
        why = pause_after_failures(task, run.failed_before, "generation" if of_chain else "run")
        return WaitReason(WaitKind.RESUME, paused_reason(why), after=why or None)
    text = f"{describe(until, task.timezone)} {task.timezone} ({relative(until, now)})"
    return WaitReason(WaitKind.RESUME, f"{PAUSED_UNTIL_PREFIX}{text}", until=until)


def _named(wait: SignalWait) -> str:
    return " or ".join(dict.fromkeys(f"{each.name!r}{_matching(each)}" for each in wait.all))


def _matching(wait: SignalWait) -> str:
    """Say which data an event has to have, if that matters."""
    members = _members(wait)
    return f" with {quoted(members, _MAX_MATCH_CHARS)}" if members else ""


def _matches(wait: SignalWait) -> str | None:
    """Return which data an event has to have, by the name of the event where there are several."""
    found = [(each.name, members) for each in wait.all if (members := _members(each))]
    texts = [members if len(wait.all) == 1 else f"{name}: {members}" for name, members in found]
    return "; ".join(texts) or None


def _members(wait: SignalWait) -> str:
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in wait.match.items())
