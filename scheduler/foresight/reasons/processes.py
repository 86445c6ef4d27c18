"""Reasons that lie with processes: no worker takes the run, none queues it, or the worker that ran it is gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from duetime.scheduler.queue.remote import NoAnswer
from duetime.scheduler.records import RunHolder
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.retry import attempt_in_words
from duetime.scheduler.rules.time.times import describe, relative, rough_length
from duetime.scheduler.task import Run, State
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskRecord, due_at

CLAIMERS_SILENT_AFTER = timedelta(minutes=5)
"""Time since the last call of a worker elsewhere after which runs that it could claim say so."""

SILENT_LEASE_RATIO = 2 / 3
"""Part of a lease without a heartbeat after which its worker elsewhere counts as silent: it should have renewed it."""

START_A_PROCESS = "start `duetime serve` or open a chat client"


@dataclass(frozen=True, slots=True)
class LeftRunning:
    """A run whose process is gone or silent: its `holder` is None where no process runs tasks."""

    holder: RunHolder | None = None


def no_worker(*, drained: bool) -> WaitReason:
    """Describe that no worker takes runs; `drained` ones live, and take none until they are resumed."""
    if drained:
        text = "a worker: all were drained, so resume them with `duetime workers resume --all`, or start another one"
        return WaitReason(WaitKind.NO_WORKER, text)
    return WaitReason(WaitKind.NO_WORKER, "a worker: none is running, so start one with `duetime worker`")


def no_handler(action: str) -> WaitReason:
    """Describe that no worker has a handler for an action."""
    text = (
        f"a worker with a handler for {action!r}: no running worker has one, so start one "
        "whose setting `handlers` names its module"
    )
    return WaitReason(WaitKind.NO_WORKER, text)


def is_due_now(record: TaskRecord, now: datetime) -> bool:
    """Whether a run of the task is due and has not started, as after `run_now`."""
    unstarted = (run for run in (record.run, *record.side_runs) if run.state in {State.SCHEDULED, State.READY})
    return not record.task.paused and any((run.wake_at or run.scheduled_for) <= now for run in unstarted)


@dataclass(frozen=True, slots=True)
class Claimers:
    """The workers elsewhere that ask for an external action of a tenant: when one last called, None for never."""

    seen_at: datetime | None = None

    def are_silent(self, now: datetime) -> bool:
        """Whether none has called for a while."""
        return self.seen_at is None or now - self.seen_at >= CLAIMERS_SILENT_AFTER


def no_claimer(action: str, claimers: Claimers, now: datetime) -> WaitReason:
    """Describe that no worker elsewhere asks for an external action."""
    since = f"for {rough_length(now - claimers.seen_at)}" if claimers.seen_at else "lately"
    text = (
        f"a worker elsewhere: none has claimed {action!r} {since}, so start one that calls claim_runs, "
        "with a key of the scope `worker`"
    )
    return WaitReason(WaitKind.NO_WORKER, text)


def lost_process_reason(record: TaskRecord, found: LeftRunning, now: datetime) -> WaitReason:
    """Describe a run that is stored as running while its process is gone: others end the attempt."""
    attempt, holder = attempt_in_words(record.run, record.task.retry), found.holder
    if holder is None:
        text = f"a process that runs tasks: the one that ran {attempt} is gone, so {START_A_PROCESS}"
    else:
        text = f"the end of {attempt}: its worker {holder.worker} {_silence(holder, now)}, {_lease(holder, now)}"
    return WaitReason(WaitKind.NO_WORKER, text)


def stop_reason(run: Run, holder: RunHolder | None, now: datetime) -> WaitReason:
    """Describe a running run that was asked to stop; `holder` is the worker elsewhere that has it.

    That one may act until its lease ends, so the run ends no sooner unless it reports.
    """
    why = f", as {OVERTAKEN_REASON}" if run.gives_way else ""
    if holder is None or holder.lease_until is None or holder.seen_at is None:
        return WaitReason(WaitKind.STOP, f"its handler to stop{why}")
    if holder.lease_until <= now:
        then = "its lease has expired, so the run ends in seconds"
    else:
        then = (
            f"its next heartbeat asks it to; without one the run ends when its lease expires, "
            f"{relative(holder.lease_until, now)}, since it may act until then "
            f"(its last call was {relative(holder.seen_at, now)})"
        )
    return WaitReason(WaitKind.STOP, f"its worker {holder.worker} to stop{why}: {then}", until=holder.lease_until)


def held_elsewhere(holder: RunHolder | None, now: datetime) -> str:
    """Name the worker elsewhere that holds a running run, and its last call; empty where none does."""
    if holder is None or holder.seen_at is None:
        return ""
    return f", by worker {holder.worker} (its last call was {relative(holder.seen_at, now)})"


def silent_worker_reason(holder: RunHolder, now: datetime) -> WaitReason:
    """Describe a run that a worker has taken which is silent: it is free for others when the queue's lease ends."""
    if holder.lease_until is None or holder.lease_until <= now:
        free = "its lease has expired, so the run is free for other workers in seconds"
    else:
        free = f"the run is free for other workers when its lease expires, {relative(holder.lease_until, now)}"
    text = f"worker {holder.worker}, which has taken it and {_silence(holder, now)}: {free}"
    return WaitReason(WaitKind.NO_WORKER, text)


def _silence(holder: RunHolder, now: datetime) -> str:
    return f"has been silent for {rough_length(now - holder.seen_at)}" if holder.seen_at else "is gone"


def _lease(holder: RunHolder, now: datetime) -> str:
    if holder.lease_until is None or holder.lease_until <= now:
        return "and its lease has expired, so a server or another worker ends the attempt in seconds"
    return (
        f"and a server or another worker ends the attempt when its lease expires, {relative(holder.lease_until, now)}"
    )


def no_answer_reason(silence: NoAnswer | None) -> WaitReason:
    """Describe why the queue does not say where the run is; None where it answered, and does not know the run."""
    return WaitReason(*_SILENT[silence])


def not_queued_reason(record: TaskRecord, now: datetime) -> WaitReason:
    """Describe a due run that no process has put into the queue."""
    due = due_at(record.run)
    return WaitReason(
        WaitKind.NO_WORKER,
        f"a process to queue it (it was due {describe(due, record.task.timezone)}, {relative(due, now)}): "
        "start `duetime serve` or a worker, or open a chat client",
    )


_SILENT = {
    NoAnswer.NO_PROCESS: (WaitKind.NO_WORKER, f"a process that runs tasks: none is running, so {START_A_PROCESS}"),
    NoAnswer.STARTING: (WaitKind.QUEUE, "a process that runs tasks: this one starts to within seconds"),
    NoAnswer.AWAY: (
        WaitKind.QUEUE,
        "Redis, which is unreachable: no run starts until it is back, and no task is lost",
    ),
    NoAnswer.EMPTY: (
        WaitKind.QUEUE,
        "the queue in Redis to be rebuilt from the database: a running server or worker rebuilds it",
    ),
    None: (
        WaitKind.QUEUE,
        "a dispatcher to queue it: immediately if one is running, otherwise when `duetime serve` or a worker starts",
    ),
}
