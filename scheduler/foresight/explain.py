"""Explains why a run has not started: its time, its turn, a pool and the runs that hold it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.foresight.reasons import processes
from duetime.scheduler.foresight.reasons.before_start import (
    approval_reasons,
    blocked_reason,
    event_reason,
    pause_reason,
    series_reason,
    upstream_reasons,
    waits_once_due,
)
from duetime.scheduler.foresight.reasons.threads import threads_in_use
from duetime.scheduler.queue import MAX_RUNS_COUNTED_AHEAD, Explanation, Shortage, Why
from duetime.scheduler.queue.remote import NoAnswer
from duetime.scheduler.records import RunHolder
from duetime.scheduler.rules.limits.pool import Pool, in_full
from duetime.scheduler.rules.retry import attempt_in_words
from duetime.scheduler.rules.series.moved_overlap import waits_for
from duetime.scheduler.rules.states import TERMINAL, blocked_by, is_held_by_pause
from duetime.scheduler.rules.time.times import describe, relative
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskRecord, due_at
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import KeptWait

_APART = "it runs alone, because its last attempt crashed the worker"
_THREAD = "a free worker thread"
_CLAIMER = "a worker elsewhere to claim it"
UNSTARTED_STATES = frozenset({State.SCHEDULED, State.READY, State.RETRYING, State.SUSPENDED})

Named = Callable[[str], str]
"""Names a run for the caller: its task's id and title, or that it belongs to another tenant."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts about a run: the queue's answer (None when it does not know the run), and the pools.

    `silence` is why the queue did not answer. `working` says whether any worker takes runs, `drained` whether one would
    after a resume, and `known` whether one has a handler for the action. `claimers` are the workers elsewhere of an
    external action. `left_running` says what is known of the process of a run that is stored as running, where that
    does not run any more. `taken_by` is the worker that has taken the run and is silent, `held_by` the worker elsewhere
    that holds it. `upstreams` are what the task comes after, `approval` is what is asked, `awaited` an event.
    `side_approvals` is what runs next to it ask.
    """

    queue: Explanation | None = None
    pools: Mapping[str, Pool] | None = None
    named: Named = str
    silence: NoAnswer | None = None
    working: bool = True
    drained: bool = False
    known: bool = True
    claimers: processes.Claimers | None = None
    left_running: processes.LeftRunning | None = None
    taken_by: RunHolder | None = None
    held_by: RunHolder | None = None
    upstreams: tuple[Upstream, ...] = ()
    approval: Approval | None = None
    awaited: KeptWait | None = None
    side_approvals: tuple[Approval, ...] = ()


def wait_sentences(record: TaskRecord, now: datetime, facts: RunFacts | None = None) -> tuple[str, ...]:
    """Return what the task's current run waits for, one sentence each; empty when it waits only for its time."""
    return tuple(wait.sentence for wait in wait_reasons(record, now, facts))


def wait_reasons(record: TaskRecord, now: datetime, facts: RunFacts | None = None) -> tuple[WaitReason, ...]:
    """Return the reasons why the task's current run waits; none when it waits only for its time.

    Without `facts` the reasons are those that the database holds.
    """
    if record.run.state in TERMINAL:
        return ()
    approval = facts.approval if facts else None
    left = facts.left_running if facts and record.run.state is State.RUNNING else None
    found = list(_held(record, now, facts.held_by if facts else None)) if left is None else []
    found += [processes.lost_process_reason(record, left, now)] if left else []
    side_approvals = facts.side_approvals if facts else ()
    found += approval_reasons(record, approval, side_approvals, now) if approval or side_approvals else ()
    found += _unstarted(record, now, facts) if approval is None or record.run.state is State.WAITING else ()
    if facts and is_due(record, now):
        found += _queued(record, now, facts) if record.run.state is State.READY else [_unqueued(record, now, facts)]
    elif facts:
        found += unserved(record.task.action, facts, now)
    return tuple(found)


def _unstarted(record: TaskRecord, now: datetime, facts: RunFacts | None) -> Iterator[WaitReason]:
    awaited = facts.awaited if facts and facts.awaited and facts.awaited.is_open else None
    yield from (event_reason(record.run, awaited.wait, record.task.timezone, now),) if awaited else _timed(record, now)
    if record.run.state is not State.WAITING:
        return
    upstreams = [each for each in facts.upstreams if each.is_open] if facts else []
    if upstreams or facts is None or (facts.approval is None and awaited is None):
        yield from upstream_reasons(record, upstreams)


def is_due(record: TaskRecord, now: datetime) -> bool:
    """Whether nothing but a process that runs it keeps the current run from its start, or from its place in line."""
    run = record.run
    if record.task.paused or run.state not in UNSTARTED_STATES or waits_for(record, run, now):
        return False
    return run.state is State.READY or (run.wake_at or run.scheduled_for) < now


def explain_state(record: TaskRecord, now: datetime, facts: RunFacts) -> tuple[str, ...]:
    """Return why the run is in its state, in at least one sentence: for a user who requested it."""
    return wait_sentences(record, now, facts) or (_plainly(record, now, facts.held_by),)


def expiry_cause(found: Explanation | None, record: TaskRecord, now: datetime) -> str:
    """Return what an expired run waited for, without names of other tasks; empty when it is unknown."""
    if found is None or found.status not in ("parked", "waiting"):
        return ""
    short, having = found.shortage, ""
    if short is not None and short.holders:
        having = f"; held by {len(short.holders)} run{'s' if len(short.holders) > 1 else ''}"
        found = replace(found, shortage=replace(short, holders=()))
    in_line = short is not None or found.ahead
    facts = RunFacts(found, named=lambda _: "another run")
    first = next(_queued(record, now, facts)).sentence if in_line else _THREAD
    return f"it waited for {first}{having}"


def _plainly(record: TaskRecord, now: datetime, holder: RunHolder | None) -> str:
    run, zone = record.run, record.task.timezone
    if run.state in TERMINAL:
        when = f" {describe(run.ended_at, zone)}" if run.ended_at else ""
        return f"it waits for nothing: it {_ENDED[run.state]}{when}" + (f" ({run.error})" if run.error else "")
    if run.state is State.RUNNING:
        attempt = attempt_in_words(run, record.task.retry)
        return f"it waits for nothing: it is running, {attempt}{processes.held_elsewhere(holder, now)}"
    due = due_at(run)
    return f"its time: {describe(due, zone)} {zone} ({relative(due, now)}){waits_once_due(record)}"


_ENDED = {
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.EXPIRED: "expired",
    State.SKIPPED: "was skipped",
}


def _held(record: TaskRecord, now: datetime, holder: RunHolder | None) -> Iterator[WaitReason]:
    run = record.run
    if is_held_by_pause(run.state, paused=record.task.paused):
        yield pause_reason(record.task, run, now)
    if run.state is State.RUNNING and run.cancel_requested:
        yield processes.stop_reason(run, holder, now)


def _timed(record: TaskRecord, now: datetime) -> Iterator[WaitReason]:
    run = record.run
    until = f" {relative(run.wake_at, now)}," if run.wake_at and run.state is not State.SCHEDULED else ""
    if other := waits_for(record, run, now):
        yield series_reason(other, record.task)
    elif blocked_by(run):
        yield from blocked_reason(run)
    elif run.state is State.RETRYING and run.error:
        text = f"{attempt_in_words(run, record.task.retry)}{until} after: {run.error}"
        yield WaitReason(WaitKind.ATTEMPT, text, until=run.wake_at, after=run.error)
    elif run.state is State.SUSPENDED:
        text = f"its next step{until} after: {run.summary}" if run.summary else f"its next step{until.rstrip(',')}"
        yield WaitReason(WaitKind.STEP, text, until=run.wake_at, after=run.summary or None)


def _queued(record: TaskRecord, now: datetime, facts: RunFacts) -> Iterator[WaitReason]:
    answer = facts.queue
    if answer is not None and answer.status == "leased":
        if facts.taken_by is None:
            yield WaitReason(WaitKind.START, f"worker {answer.worker}, which has taken it and is about to start it")
            return
        yield processes.silent_worker_reason(facts.taken_by, now)
    missing = unserved(record.task.action, facts, now)
    yield from missing
    if missing and facts.working:
        return
    if answer is None:
        yield processes.no_answer_reason(facts.silence)
    elif answer.status == "leased":
        return
    elif answer.status == "delayed" and answer.not_before is not None:
        yield _delayed(answer.not_before, record, now)
    else:
        yield from _in_line(answer, record, now, facts)


def _delayed(not_before_ms: float, record: TaskRecord, now: datetime) -> WaitReason:
    why, at = _APART if record.run.crashes else "a worker may take it then", _moment(not_before_ms, record, now)
    return WaitReason(WaitKind.TIME, f"its start at {at}: {why}", until=_instant(not_before_ms))


def _in_line(answer: Explanation, record: TaskRecord, now: datetime, facts: RunFacts) -> Iterator[WaitReason]:
    if answer.shortage is not None:
        yield _short(answer.shortage, record, now, facts)
    yield from _turn(answer.ahead, "with the same tier and needs")
    if answer.shortage is None and facts.working and not answer.ahead:
        place = "other tenants have their turn first" if answer.others_first else "it is next for its tier and needs"
        whom = _CLAIMER if facts.claimers else _THREAD
        yield WaitReason(WaitKind.ROOM, f"{whom}: {place}{threads_in_use(answer.threads, record.task.priority)}")


def _unqueued(record: TaskRecord, now: datetime, facts: RunFacts) -> WaitReason:
    """Describe what a run lacks that is due and was not queued."""
    if not facts.working or facts.silence is NoAnswer.NO_PROCESS:
        return processes.not_queued_reason(record, now)
    missing = unserved(record.task.action, facts, now)
    return missing[0] if missing else processes.no_answer_reason(facts.silence)


def unserved(action: str, facts: RunFacts, now: datetime) -> list[WaitReason]:
    """Describe that no worker can take a run of the action; empty where one can."""
    if not facts.working:
        return [processes.no_worker(drained=facts.drained)]
    if facts.claimers is not None and facts.claimers.are_silent(now):
        return [processes.no_claimer(action, facts.claimers, now)]
    return [] if facts.known else [processes.no_handler(action)]


def _turn(ahead: int, what: str) -> Iterator[WaitReason]:
    if ahead:
        number = f"{ahead} or more" if ahead >= MAX_RUNS_COUNTED_AHEAD else f"{ahead}"
        yield WaitReason(WaitKind.TURN, f"its turn, behind {number} run{'s' if ahead > 1 else ''} {what}")


def _short(short: Shortage, record: TaskRecord, now: datetime, facts: RunFacts) -> WaitReason:
    until = f", until {_moment(short.helped_at, record, now)}" if short.helped_at is not None else ""
    words = {
        Why.UNKNOWN: lambda: f"there is no pool {short.pool!r}{_present(facts)}; declare it, or change `needs`",
        Why.TOO_SMALL: lambda: _too_small(short, until),
        Why.SHORT: lambda: (
            f"it needs {in_full(short.needed)}, {_units(short.free)} of {in_full(short.capacity)} are free{until}"
        ),
        Why.HELD: lambda: (
            f"reserved for {facts.named(short.held_for or '')}, which is overdue or about to be, and goes first"
        ),
        Why.STOPPED: lambda: f"its provider requested a pause{until}",
        Why.BREAKER: lambda: f"its breaker is open after failures{until or ', and one run is probing it now'}",
    }
    return WaitReason(
        _POOL_KINDS.get(short.why, WaitKind.POOL),
        f"pool {short.pool}: {words[short.why]()}{_holders(short, facts)}{_requested(short)}",
        pool=short.pool,
        until=_instant(short.helped_at) if short.helped_at is not None else None,
    )


def _too_small(short: Shortage, until: str) -> str:
    if not short.capacity and not until:
        return "it is closed: its capacity is 0, and the run waits until there is more"
    less = f"it needs {in_full(short.needed)}, but the capacity is {in_full(short.capacity)}{until}"
    return f"{less}: raise the capacity, or lower `needs`"


_POOL_KINDS = {
    Why.UNKNOWN: WaitKind.POOL_UNKNOWN,
    Why.TOO_SMALL: WaitKind.POOL_TOO_SMALL,
    Why.STOPPED: WaitKind.POOL_STOPPED,
    Why.BREAKER: WaitKind.POOL_BREAKER,
}


def _units(free: float) -> str:
    return in_full(max(0, math.floor(free * 10) / 10))  # rounded down: nearly one unit is not one


def _present(facts: RunFacts) -> str:
    return f" (pools: {', '.join(sorted(facts.pools))})" if facts.pools else ""


def _holders(short: Shortage, facts: RunFacts) -> str:
    if not short.holders or short.why in (Why.UNKNOWN, Why.STOPPED):
        return ""
    return f"; held by {', '.join(facts.named(run_id) for run_id in short.holders)}"


def _requested(short: Shortage) -> str:
    return "; less urgent runs were requested to yield" if short.requested else ""


def _moment(ms: float, record: TaskRecord, now: datetime) -> str:
    return f"{describe(_instant(ms), record.task.timezone)} ({relative(_instant(ms), now)})"


def _instant(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
