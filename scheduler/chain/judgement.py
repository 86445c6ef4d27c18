"""Decides whether a run that comes after other tasks may go, ends, or waits on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from duetime.scheduler.request import AfterFailure
from duetime.scheduler.task import State

_INHERITED: Final[Mapping[State, State]] = {State.CANCELLED: State.CANCELLED, State.SKIPPED: State.SKIPPED}


class DependencyLink(NamedTuple):
    """One dependency of a waiting run; `outcome` is how the upstream's run ended, None before that.

    A result of another form than it has to have counts as a failure, and `mismatch` says how it differs.
    """

    upstream_id: str
    title: str | None
    after_failure: AfterFailure
    outcome: State | None
    mismatch: str | None = None


class LinkVerdict(NamedTuple):
    """The consequence for the waiting run: the state it moves to, because of `link`; None while it waits on."""

    to: State | None
    link: DependencyLink | None = None


def end_after(outcome: State, after_failure: AfterFailure) -> State | None:
    """Return how a run ends whose upstream ended so; None if that does not keep it from running.

    A failure fails what comes after it; a cancelled task cancels it, and a skipped one skips it.
    """
    if outcome is State.SUCCEEDED or after_failure is AfterFailure.RUN_ANYWAY:
        return None
    return State.SKIPPED if after_failure is AfterFailure.SKIP else _INHERITED.get(outcome, State.FAILED)


def judge(links: Iterable[DependencyLink], *, asked: bool = False) -> LinkVerdict:
    """Return what follows for a waiting run: a bad end decides, the last good one frees unless approval is `asked`."""
    known = list(links)
    for link in known:
        ends = end_after(link.outcome, link.after_failure) if link.outcome else None
        if ends:
            return LinkVerdict(ends, link)
    if asked or any(link.outcome is None for link in known):
        return LinkVerdict(None)
    return LinkVerdict(State.SCHEDULED, known[-1] if known else None)


def in_words(link: DependencyLink | None) -> str:
    """Return how the upstream ended, as the reason of what follows."""
    if link is None:
        return "it waits for no other task any more"
    if link.mismatch:
        return f"{link.upstream_id} succeeded, but its result is not valid: {link.mismatch}"
    named = f"{link.upstream_id} ({link.title})" if link.title else link.upstream_id
    return f"{named} {_ENDED.get(link.outcome or State.CANCELLED, 'ended')}"


_ENDED: Final[Mapping[State, str]] = {
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.CANCELLED: "was cancelled",
    State.EXPIRED: "expired",
    State.SKIPPED: "was skipped",
}
