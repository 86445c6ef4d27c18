"""The time of the next attempt of a failed run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from duetime.scheduler.outcomes import Retry
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.task import RetryPolicy, Run, State
from duetime.scheduler.translatable import NoteKind, Translatable

MAX_DOUBLINGS: Final = 40
"""Failures after which every backoff has reached its cap, which keeps the power small."""

MAX_ATTEMPTS: Final = 100

MAX_RETRY_AFTER: Final = timedelta(days=1)
"""Longest wait that a server's Retry-After can cause."""

MAX_CRASHES: Final = 3
"""Crashes after which a run fails instead of starting again, because it may be what kills its worker."""


MIN_CHANNEL_FAILURES: Final = 3
"""Failed tries after which it is the channel that fails, and not the message: its deliveries are tried together."""


def retry_policy(members: Mapping[str, int]) -> RetryPolicy:
    """Return the policy of whole numbers by the names in `RETRY_BOUNDS`; those that are absent have their defaults."""
    usual = RetryPolicy()
    backoff = _span(members, "backoff_seconds", usual.backoff)
    longest = max(usual.max_backoff, 2 * backoff)  # a pause is half of its longest in the mean
    max_backoff = _span(members, "max_backoff_seconds", longest)
    return RetryPolicy(members.get("max_attempts", usual.max_attempts), backoff, max_backoff)


def as_policy(given: RetryPolicy | Mapping[str, int] | None) -> RetryPolicy | None:
    """Return a policy that may be given by its members."""
    return retry_policy(given) if given is not None and isinstance(given, Mapping) else given


def is_sound(policy: object) -> bool:
    """Whether the policy has at least one attempt, a bound, and pauses that do not shrink."""
    if not isinstance(policy, RetryPolicy):
        return False
    spans: tuple[Any, ...] = (policy.backoff, policy.max_backoff)
    if type(policy.max_attempts) is not int or not all(isinstance(span, timedelta) for span in spans):
        return False
    return 1 <= policy.max_attempts <= MAX_ATTEMPTS and timedelta(0) < policy.backoff <= policy.max_backoff


def _span(members: Mapping[str, int], name: str, usual: timedelta) -> timedelta:
    return timedelta(seconds=members[name]) if name in members else usual


def next_attempt(
    outcome: Retry, *, failures: int, policy: RetryPolicy, now: datetime, jitter: float
) -> datetime | None:
    """Return the time of the next attempt, or None when the run is out of attempts.

    `failures` counts the failed attempts, this one included. The delay is `jitter` (0.0 to 1.0, drawn by the caller)
    times a ceiling that doubles with each failure. This is full jitter, which spreads runs that failed together.
    `outcome.after` is a minimum, and the jittered backoff is added to it for the same reason.
    """
    if failures >= policy.max_attempts:
        return None
    earliest = max(outcome.after or timedelta(0), timedelta(0))
    return now + earliest + ceiling(failures, policy) * jitter


def max_attempts(run: Run, policy: RetryPolicy) -> int:
    """Return the number of the last attempt that a run may have; attempts that waited or yielded do not count."""
    ended = run.attempt - (run.state is State.RUNNING)
    return policy.max_attempts + max(ended - run.failures, 0)


def attempt_in_words(run: Run, policy: RetryPolicy) -> str:
    """Say which attempt runs or comes next: `attempt 3 of 5`."""
    return f"attempt {run.attempt + (run.state is not State.RUNNING)} of {max_attempts(run, policy)}"


def retries_in_words(policy: RetryPolicy) -> str:
    """Say how often a run that fails is tried again, and after which mean pauses: `up to 3 times, about 1 h apart`."""
    again = policy.max_attempts - 1
    if again == 0:
        return Translatable.of(NoteKind.NOT_RETRIED, "it is not tried again after a failure")
    first, last = (length(ceiling(failures, policy) / 2) for failures in (1, again))
    pauses = first if first == last else f"{first} to {last}"
    text = f"it is tried again up to {again} time{'' if again == 1 else 's'}, about {pauses} apart"
    return Translatable.of(NoteKind.RETRIED, text, count=f"{policy.max_attempts}", pause=first)


def ceiling(failures: int, policy: RetryPolicy) -> timedelta:
    """Return the longest delay after this many failures: `backoff` times 2, 4, 8 ..., at most `max_backoff`.

    With full jitter the mean pause after the first failure is `backoff` then.
    """
    doublings = min(max(failures, 1), MAX_DOUBLINGS)
    seconds = policy.backoff.total_seconds() * 2**doublings
    return timedelta(seconds=min(seconds, policy.max_backoff.total_seconds()))


def retry_after(header: str | None, *, now: datetime) -> timedelta | None:
    """Parse a Retry-After header (seconds or an HTTP date): the time to wait from `now`, at most a day.

    None when it is absent or malformed; zero when its time has passed.
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    moment = _http_date(text)
    return None if moment is None else min(max(moment - now, timedelta(0)), MAX_RETRY_AFTER)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
