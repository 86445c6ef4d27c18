"""When a failing run is tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from duetime.scheduler.outcomes import Retry
from duetime.scheduler.task import RetryPolicy

MAX_DOUBLINGS: Final = 40
"""Past this every backoff is capped anyway; it keeps the power small."""

MAX_RETRY_AFTER: Final = timedelta(days=1)
"""A server may ask for more; nobody waits longer than this on one answer."""


def next_attempt(
    outcome: Retry, *, failures: int, policy: RetryPolicy, now: datetime, jitter: float
) -> datetime | None:
    """Say when to try again, or None when the run is out of attempts.

    `failures` counts the attempts that failed, this one included. The delay is `jitter` (0.0 to 1.0, drawn by the
    caller) times a ceiling that doubles with each failure: full jitter, so that what failed together does not come back
    together. `outcome.after` is a minimum, and the jittered backoff comes on top of it for the same reason.
    """
    if failures >= policy.max_attempts:
        return None
    earliest = max(outcome.after or timedelta(0), timedelta(0))
    return now + earliest + ceiling(failures, policy) * jitter


def ceiling(failures: int, policy: RetryPolicy) -> timedelta:
    """Give the longest delay after so many failures: `backoff` times 1, 2, 4, 8 ..., at most `max_backoff`."""
    doublings = min(max(failures - 1, 0), MAX_DOUBLINGS)
    seconds = policy.backoff.total_seconds() * 2**doublings
    return timedelta(seconds=min(seconds, policy.max_backoff.total_seconds()))


def retry_after(header: str | None, *, now: datetime) -> timedelta | None:
    """Read a Retry-After header (seconds or an HTTP date): how long to wait from `now`, at most a day.

    None when it is absent or not understood; zero when its moment has passed.
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
