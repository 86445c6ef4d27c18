"""Settlement of an ended attempt: a pure function from (claim, result, now) to one settlement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait, Yielded
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.failures.follow_up import ON_FAILURE_NOTIFY, has_failed, with_follow_up
from duetime.scheduler.rules.failures.repeated_end import is_repeated_end
from duetime.scheduler.rules.occurrences import latest_delay
from duetime.scheduler.rules.retry import next_attempt
from duetime.scheduler.rules.series.continuation import continue_series
from duetime.scheduler.rules.signals.suspension import suspend
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.task import Delivery, InboxMessage, Json, Notify, Run, State
from duetime.scheduler.views import TaskRecord

LATE_AFTER = timedelta(minutes=1)
"""A run that started later than this says so in its message."""

INBOX_CHANNEL = "inbox"
"""The channel without a delivery: the settlement itself writes the inbox message."""


@dataclass(frozen=True, slots=True)
class StoppedByRequest:
    """The handler stopped because a cancel was requested."""

    reason: str = "cancelled while it ran"


@dataclass(frozen=True, slots=True)
class Unverified(Done):
    """The handler is done, and its result does not meet what the task expects: `miss` says in what."""

    miss: str = ""


AttemptResult = Outcome | StoppedByRequest
_ENDS: Mapping[State, tuple[EventKind, str]] = {
    State.SUCCEEDED: (EventKind.SUCCEEDED, "done"),
    State.FAILED: (EventKind.FAILED, "failed"),
    State.EXPIRED: (EventKind.EXPIRED, "expired"),
}
"""The event of an end, and the outcome of its attempt."""

_PAUSED = r"( \(paused: (a {0}|[0-9]+ {0}s in a row) failed; resume it to go on\))?"
_NOTES = re.compile(
    f"{_PAUSED.format('run')}"
    r"( \(late: was due \w{3} \d{1,2} \w{3} \d{4} \d\d:\d\d [\w/+-]{1,60}\))?( \(\d+ earlier occurrences? missed\))?"
    f"{_PAUSED.format('generation')}$",  # of a chain, which pauses after its settlement
    re.ASCII,
)
"""The notes that a settlement adds at the end of a message. The pattern spares brackets that a task wrote itself."""


def settle(
    claim: Claim, ending: AttemptResult, *, now: datetime, jitter: float, previous: Run | None = None
) -> Settlement:
    """Return the settlement; `jitter`, 0.0 to 1.0, spreads the next attempt of a failed run.

    With a requested cancel only `Done` still counts. `previous` is the run before it, for a task that reports changes.
    """
    settlement = with_follow_up(_settled(claim, ending, now, jitter), claim, now)
    return _quieted(_alarmed(settlement, claim, now), claim, ending, previous)


def _quieted(settlement: Settlement, claim: Claim, ending: AttemptResult, previous: Run | None) -> Settlement:
    """Make an outcome quiet that the task's `notify` leaves out: it counts as read, and goes to no channel."""
    message = settlement.inbox
    if message is None or settlement.asks or settlement.pauses:
        return settlement
    is_quiet = isinstance(ending, Done) and ending.quiet and not has_failed(settlement)
    if not is_quiet and _is_notified(claim.task.notify, settlement, previous):
        return settlement
    kept = tuple(each for each in settlement.deliveries if _is_alarm(claim, settlement, each.channel))
    return replace(settlement, inbox=replace(message, quiet=True, read_at=message.created_at), deliveries=kept)


def _alarmed(settlement: Settlement, claim: Claim, now: datetime) -> Settlement:
    """Add the delivery to the channel that the task names for runs that fail, expire or stay unverified."""
    channel = claim.task.on_failure.get(ON_FAILURE_NOTIFY)
    if channel is None or not has_failed(settlement):
        return settlement
    if channel == INBOX_CHANNEL or any(each.channel == channel for each in settlement.deliveries):
        return settlement
    return replace(settlement, deliveries=(*settlement.deliveries, _delivery(claim, channel, now)))


def _is_alarm(claim: Claim, settlement: Settlement, channel: str) -> bool:
    return channel == claim.task.on_failure.get(ON_FAILURE_NOTIFY) and has_failed(settlement)


def _is_notified(notify: Notify, settlement: Settlement, previous: Run | None) -> bool:
    if notify is Notify.CHANGE:
        ended = settlement
        return not is_repeated_end(previous, ended.to, ended.summary, ended.error, ended.result)
    return notify is Notify.ALWAYS or (notify is Notify.FAILURE and has_failed(settlement))


def _settled(claim: Claim, ending: AttemptResult, now: datetime, jitter: float) -> Settlement:
    if claim.run.cancel_requested and not isinstance(ending, Done | StoppedByRequest):
        return _cancelled(claim, ending.reason, now)
    match ending:
        case Done():
            miss = ending.miss if isinstance(ending, Unverified) else ""
            return _ended(claim, now, State.SUCCEEDED, ending.summary, result=ending.result, miss=miss)
        case Retry():
            return _failing(claim, ending, now, jitter)
        case Wait() | Yielded():
            return suspend(claim, ending, now)
        case Failed():
            to = State.EXPIRED if ending.expired else State.FAILED
            return _ended(claim, now, to, ending.reason, result=ending.result)
        case StoppedByRequest():
            return _cancelled(claim, ending.reason, now)
        case _:
            assert_never(ending)


def with_consequences(claim: Claim, settlement: Settlement, *, now: datetime, follows: bool = True) -> Settlement:
    """Add the consequences of an end without its handler (a crash, an expiry); a cancel notifies nobody.

    Unless it `follows`, no task follows from it: it ended because another one failed, from which that follows.
    """
    if settlement.to not in {State.FAILED, State.EXPIRED}:
        return _giving_way(settlement, claim, now) if settlement.to is State.CANCELLED else settlement
    words = settlement.reason or settlement.to.value
    ended = replace(settlement, **_consequences(claim, settlement.to, words, now))
    ended = with_follow_up(ended, claim, now) if follows else ended
    return _quieted(_alarmed(ended, claim, now), claim, Failed(words), claim.previous)


def with_notice(claim: Claim, settlement: Settlement, *, now: datetime) -> Settlement:
    """Add the message that a run was skipped, as no event came in time."""
    words = settlement.reason or settlement.to.value
    message = _message(claim, now, settlement.to, words)
    noticed = replace(settlement, inbox=message, deliveries=_deliveries(claim, now))
    return _quieted(noticed, claim, Done(words), claim.previous)


def refresh(claim: Claim, record: TaskRecord) -> Claim:
    """Return the claim with the changes of its task and its run since, but for the terms on which it began."""
    known, began = {run.id: run for run in (record.run, *record.side_runs)}, claim.task
    run = known.get(claim.run.id, claim.run)
    task = replace(record.task, retry=began.retry, expect=began.expect, on_failure=began.on_failure)
    return replace(claim, task=task, run=replace(run, attempt=claim.run.attempt))


def without_series(claim: Claim) -> Claim:
    """Return the claim as of a one-shot in UTC: for a task whose zone or rule cannot be read."""
    return replace(claim, task=replace(claim.task, timezone="UTC", repeat=None))


def without_consequences(claim: Claim, reason: str) -> Settlement:
    """Return a failure without consequences: the last resort when they cannot be computed."""
    return Settlement(
        claim.run.id,
        claim.run.attempt,
        claim.task.revision,
        to=State.FAILED,
        kind=EventKind.FAILED,
        outcome="failed",
        reason=reason,
        failures=claim.run.failures + 1,
        error=reason,
        dead_letter=True,
    )


def _failing(claim: Claim, ending: Retry, now: datetime, jitter: float) -> Settlement:
    failures = claim.run.failures + 1
    again = next_attempt(ending, failures=failures, policy=claim.task.retry, now=now, jitter=jitter)
    if again is None:
        return _ended(claim, now, State.FAILED, ending.reason, result=ending.result, outcome="retry", failures=failures)
    return Settlement(
        claim.run.id,
        claim.run.attempt,
        claim.task.revision,
        to=State.RETRYING,
        kind=EventKind.RETRYING,
        outcome="retry",
        reason=ending.reason,
        wake_at=again,
        failures=failures,
        result=ending.result,
        error=ending.reason,
        claim=claim,
    )


def _cancelled(claim: Claim, reason: str, now: datetime) -> Settlement:
    settlement = Settlement(
        claim.run.id,
        claim.run.attempt,
        claim.task.revision,
        to=State.CANCELLED,
        kind=EventKind.CANCELLED,
        outcome="cancelled",
        reason=OVERTAKEN_REASON if claim.run.gives_way else reason or None,
        failures=claim.run.failures,
        claim=claim,
    )
    return _giving_way(settlement, claim, now)


def _giving_way(settlement: Settlement, claim: Claim, now: datetime) -> Settlement:
    """Let the series continue behind a run that was cancelled for the next one."""
    if not claim.run.gives_way:
        return settlement
    return replace(settlement, **continue_series(claim, settlement.to, now)._asdict())


def _ended(
    claim: Claim,
    now: datetime,
    to: State,
    words: str,
    *,
    result: Json = None,
    outcome: str | None = None,
    failures: int | None = None,
    miss: str = "",
) -> Settlement:
    kind, attempt_outcome = _ENDS[to]
    failed, is_failure = to is State.FAILED, to in FAILURES
    text = words or (f"{claim.task.title}: {to}")
    message = f"{text} (unverified: {miss})" if miss else text
    return Settlement(
        claim.run.id,
        claim.run.attempt,
        claim.task.revision,
        to=to,
        kind=kind,
        outcome=outcome or attempt_outcome,
        reason=words if is_failure else None,
        failures=claim.run.failures + failed if failures is None else failures,
        summary=None if is_failure else text,
        result=result,
        error=words if is_failure else miss or None,
        dead_letter=failed,
        claim=claim,
        **_consequences(claim, to, message, now),
    )


def _message(claim: Claim, now: datetime, to: State, text: str, *more: str) -> InboxMessage:
    task, run = claim.task, claim.run
    words = " ".join([text, *more, *_lateness(claim)])
    return InboxMessage(new_id("m"), task.tenant, task.owner, task.id, run.id, task.title, words, to, now)


def words_and_note(text: str) -> tuple[str, str]:
    """Split the text of a message into what its task says, and the note on lateness that a settlement added."""
    words = _NOTES.sub("", text)
    return words, text[len(words) :].strip()


def _lateness(claim: Claim) -> list[str]:
    """Describe that a run was late, and which occurrences it stands for."""
    run, zone = claim.run, claim.task.timezone
    sentences = []
    if run.started_at is not None and run.started_at - run.scheduled_for > LATE_AFTER + latest_delay(claim.task):
        sentences.append(f"(late: was due {describe(run.scheduled_for, zone)} {zone})")
    if run.missed:
        sentences.append(f"({run.missed} earlier occurrence{'s' if run.missed > 1 else ''} missed)")
    return sentences


def _deliveries(claim: Claim, now: datetime) -> tuple[Delivery, ...]:
    task = claim.task
    channels = (channel for channel in task.deliver_to if channel != INBOX_CHANNEL)
    return tuple(_delivery(claim, name, now) for name in channels)


def _delivery(claim: Claim, channel: str, now: datetime) -> Delivery:
    task = claim.task
    return Delivery(new_id("d"), task.tenant, task.id, claim.run.id, channel, next_at=now)


def _consequences(claim: Claim, to: State, words: str, now: datetime) -> dict[str, Any]:
    """Return members of a settlement: the continuation of the series, the message, and its deliveries."""
    following = continue_series(claim, to, now)
    sentences = [f"(paused: {following.pauses}; resume it to go on)"] if following.pauses else []
    message = _message(claim, now, to, words, *sentences)
    return {**following._asdict(), "inbox": message, "deliveries": _deliveries(claim, now)}
