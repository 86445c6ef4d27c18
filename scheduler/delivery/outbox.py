"""The port through which a deliverer reads and settles deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from duetime.scheduler.task import Delivery, InboxMessage


class Outbox(Protocol):
    """The part of the store that a deliverer needs."""

    def due(self, *, limit: int) -> list[tuple[Delivery, InboxMessage]]:
        """Return pending deliveries that are due; channels take turns."""

    def take(self, ids: Sequence[str], *, lease: timedelta) -> set[str]:
        """Lease due deliveries, and return those that no other process has leased."""

    def drop(self, ids: Sequence[str]) -> None:
        """Remove pending deliveries whose channels do not take their outcomes."""

    def unverified(self, ids: Sequence[str]) -> set[str]:
        """Return the deliveries of runs that succeeded without what their tasks expect."""

    def urgent(self, until: Mapping[str, datetime]) -> set[str]:
        """Return the deliveries that cannot wait until then."""

    def postpone(self, until: Mapping[str, datetime]) -> None:
        """Put deliveries off that were not tried yet."""

    def hold(self, ids: Sequence[str], *, lease: timedelta) -> None:
        """Extend leases."""

    def settle_delivered(self, ids: Sequence[str], attempts: int) -> bool:
        """Store that a try succeeded, also where a failure of the channel was counted since they were read."""

    def settle_failed(self, ids: Sequence[str], attempts: int, error: str, *, next_at: datetime | None) -> bool:
        """Store that a try failed, and when the next one is; not of those that have had more than `attempts` tries."""

    def fail_others(self, channel: str, *, least: int, error: str, next_at: datetime | None, lease: timedelta) -> int:
        """Store a failed try for the other deliveries of a channel that have failed `least` times; None gives up.

        The try counts for those that are due. All others that were to be tried before `next_at` wait until then. A
        delivery that may be on its way, for a `lease` at most, and parts of digests are left as they are. Returns how
        many of them changed.
        """

    def retry_others(self, channel: str, *, least: int, lease: timedelta) -> None:
        """Let these deliveries be due now: the channel takes messages again."""

    def next_wake(self) -> datetime | None:
        """Return the time of the next due delivery."""
