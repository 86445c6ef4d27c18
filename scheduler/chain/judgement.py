"""Decides whether a run that waits for other tasks and for a signal may go, ends, or waits on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from duetime.scheduler.request import AfterFailure
from duetime.scheduler.task import Run, State
from duetime.scheduler.waits.signal import KeptWait, OnTimeout, ReceivedSignal

_INHERITED: Final[Mapping[State, State]] = {State.CANCELLED: State.CANCELLED, State.SKIPPED: State.SKIPPED}


class DependencyLink(NamedTuple):
    """One dependency of a waiting run; `outcome` is how the upstream's run ended, None before that.

    A result of another form than it has to have counts as a failure, and `mismatch` says how it differs. `at` is when
    it was followed.
    """

    upstream_id: str
    title: str | None
    after_failure: AfterFailure
    outcome: State | None
    mismatch: str | None = None
    at: datetime | None = None


class LinkVerdict(NamedTuple):
    """The consequence for the waiting run: the state it moves to; None while it waits on.

    The reason is `link`, or `words` where that is a signal, or the lack of one.
    """

    to: State | None
    link: DependencyLink | None = None
    words: str = ""

    @property
    def reason(self) -> str:
        return self.words or in_words(self.link)


def state_after_upstream(outcome: State, after_failure: AfterFailure) -> State | None:
    """Return the state in which an upstream's end leaves the waiting run; None if it may still run.

    A failure fails what comes after it; a cancelled task cancels it, and a skipped one skips it.
    """
    if outcome is State.SUCCEEDED or after_failure is AfterFailure.RUN_ANYWAY:
        return None
    return State.SKIPPED if after_failure is AfterFailure.SKIP else _INHERITED.get(outcome, State.FAILED)


def prevents_run(link: DependencyLink) -> bool:
    """Whether the upstream's end keeps the waiting run from running."""
    return link.outcome is not None and state_after_upstream(link.outcome, link.after_failure) is not None


def judge(
    links: Iterable[DependencyLink], awaited: KeptWait | None = None, *, approval_open: bool = False
) -> LinkVerdict:
    """Return whether the run ends, goes or waits on: one bad end ends it, the last good one or the signal frees it.

    Nothing frees it while `approval_open`.
    """
    by_links = _by_links(list(links))
    if by_links.to not in {None, State.SCHEDULED}:
        return by_links
    if awaited and awaited.timed_out and (ends := _TOO_LATE.get(awaited.wait.on_timeout)):
        return LinkVerdict(ends, words=timeout_text(awaited))
    if approval_open or by_links.to is None or (awaited and awaited.is_open):
        return LinkVerdict(None)
    if awaited is None:
        return by_links
    reason = arrival_text(awaited.signal) if awaited.signal else timeout_text(awaited)
    also = [in_words(by_links.link)] if by_links.link else []
    return LinkVerdict(State.SCHEDULED, by_links.link, "; ".join([*also, reason]))


def _by_links(known: list[DependencyLink]) -> LinkVerdict:
    for link in known:
        ends = state_after_upstream(link.outcome, link.after_failure) if link.outcome else None
        if ends:
            return LinkVerdict(ends, link)
    if any(link.outcome is None for link in known):
        return LinkVerdict(None)
    return LinkVerdict(State.SCHEDULED, known[-1] if known else None)


def why_left_out(runs: Iterable[Run], state: State) -> str | None:
    """Return why the first run in a state was left out: an answer, or none, or no event. None if not by these."""
    first = next(run for run in runs if run.state is state)
    return first.error or first.summary if state in {State.CANCELLED, State.SKIPPED} else None


def in_words(link: DependencyLink | None) -> str:
    """Return the upstream's end in words, as the reason in the event of the waiting run."""
    if link is None:
        return "it waits for no other task any more"
    if link.mismatch:
        return f"{link.upstream_id} succeeded, but its result is not valid: {link.mismatch}"
    named = f"{link.upstream_id} ({link.title})" if link.title else link.upstream_id
    return f"{named} {_ENDED.get(link.outcome or State.CANCELLED, 'ended')}"


def arrival_text(signal: ReceivedSignal) -> str:
    """Return the arrival of a signal in words, as the reason in the event of the waiting run."""
    return f"the event {signal.name!r} came ({signal.id})"


def timeout_text(awaited: KeptWait) -> str:
    """Return the timeout of a wait in words, as the reason in the event of the waiting run."""
    event_names = awaited.wait.event_names
    return (
        f"its time came before the event {event_names}"
        if awaited.wait.at_once
        else f"no event {event_names} came in time"
    )


def no_event_text(name: str) -> str:
    """Return that no signal of this name has come, as the reason of what follows."""
    return f"no event {name!r} came in time"


_TOO_LATE: Final[Mapping[OnTimeout, State]] = {OnTimeout.EXPIRE: State.EXPIRED, OnTimeout.SKIP: State.SKIPPED}
_ENDED: Final[Mapping[State, str]] = {
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.EXPIRED: "expired",
    State.SKIPPED: "was skipped",
}
