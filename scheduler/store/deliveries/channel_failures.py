"""Channels that fail: their deliveries are tried together, so that a dead receiver costs as much as for one message.

One or two that are due are sent. If one fails, its try counts for all that are due, and the others wait as long; if it
succeeds, all are due at once. Deliveries have a part in that after `MIN_CHANNEL_FAILURES` tries of their own.
Parts of digests have none, as a digest is tried as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from duetime.scheduler.rules.retry import MIN_CHANNEL_FAILURES
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.task import DeliveryState
from sqlalchemy import Connection, and_, bindparam, case, func, null, or_, select, update

MAX_LEASE_SKEW: Final = timedelta(seconds=5)
"""Seconds by which the clock of a process that leases a delivery may be ahead."""

_is_given_up = deliveries.c.state == DeliveryState.FAILED
_is_tried_again = and_(deliveries.c.next_at.is_not(None), deliveries.c.attempts >= MIN_CHANNEL_FAILURES)
_FAILING = (
    select(
        deliveries.c.channel,
        func.count().filter(_is_given_up),
        func.count().filter(_is_tried_again),
        func.min(deliveries.c.next_at).filter(_is_tried_again),
    )
    .where(or_(_is_given_up, _is_tried_again))
    .group_by(deliveries.c.channel)
    .order_by(deliveries.c.channel)
)
_LAST_ERROR = (
    select(deliveries.c.error)
    .join_from(deliveries, inbox, inbox.c.run_id == deliveries.c.run_id)
    .where(deliveries.c.channel == bindparam("of_channel"), deliveries.c.error.is_not(None))
    .order_by(inbox.c.created_at.desc())
    .limit(1)
)
_SEND_AGAIN = (
    update(deliveries)
    .where(deliveries.c.channel == bindparam("of_channel"), _is_given_up)
    .values(state=DeliveryState.PENDING, attempts=0, next_at=bindparam("now"), held_until=null())
)
_others = and_(
    deliveries.c.channel == bindparam("of_channel"),
    deliveries.c.next_at.is_not(None),
    deliveries.c.held_until.is_(None),
    deliveries.c.attempts >= bindparam("least"),
)
_is_due = deliveries.c.next_at <= bindparam("now", type_=Instant())
_is_later = deliveries.c.next_at > bindparam("leased_until", type_=Instant())
_FAIL = (
    update(deliveries)
    .where(_others, or_(_is_due, _is_later), deliveries.c.next_at < bindparam("until", type_=Instant()))
    .values(
        attempts=deliveries.c.attempts + case((_is_due, 1), else_=0),
        error=bindparam("why"),
        next_at=bindparam("until", type_=Instant()),
    )
)
_GIVE_UP = (
    update(deliveries)
    .where(_others, or_(_is_due, _is_later))
    .values(state=DeliveryState.FAILED, attempts=deliveries.c.attempts + 1, error=bindparam("why"), next_at=null())
)
_RETRY = update(deliveries).where(_others, _is_later).values(next_at=bindparam("now", type_=Instant()))


class FailingChannel(NamedTuple):
    """A channel with deliveries that were given up, or that have failed several times; its newest error.

    The failing ones are tried together, the next time at `next_at`.
    """

    name: str
    given_up: int
    failing: int
    error: str
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Others:
    """The deliveries of a channel that have failed `least` times, without those that a process may be sending `now`."""

    channel: str
    least: int
    now: datetime
    lease: timedelta

    @property
    def values(self) -> dict[str, Any]:
        return {
            "of_channel": self.channel,
            "least": self.least,
            "now": self.now,
            "leased_until": self.now + self.lease + MAX_LEASE_SKEW,
        }


def found(connection: Connection) -> list[FailingChannel]:
    """Return the channels of all tenants that deliveries failed through, by name. Reads every row."""
    rows = connection.execute(_FAILING).all()
    errors = [connection.execute(_LAST_ERROR, {"of_channel": row[0]}).scalar() for row in rows]
    return [
        FailingChannel(name, given_up, failing, error or "", next_at)
        for (name, given_up, failing, next_at), error in zip(rows, errors, strict=True)
    ]


def send_again(connection: Connection, channel: str, now: datetime) -> int:
    """Make all deliveries due that were given up for a channel; return how many."""
    return connection.execute(_SEND_AGAIN, {"of_channel": channel, "now": now}).rowcount


def fail(connection: Connection, others: Others, error: str, next_at: datetime | None) -> int:
    """Store a failed try of the channel, and when the next one is (None gives up); return for how many deliveries."""
    values = {**others.values, "why": error}
    if next_at is None:
        return connection.execute(_GIVE_UP, values).rowcount
    return connection.execute(_FAIL, {**values, "until": next_at}).rowcount


def retry(connection: Connection, others: Others) -> None:
    """Let deliveries be due that wait for the next try of the channel."""
    connection.execute(_RETRY, others.values)
