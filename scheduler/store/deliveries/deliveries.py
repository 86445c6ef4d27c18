"""Deliveries: messages that go to users through channels, each with a state and retries of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.records import OutgoingMessage
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.deliveries import channel_failures
from duetime.scheduler.store.deliveries.channel_failures import FailingChannel
from duetime.scheduler.store.schema.damage import is_damaged, next_time
from duetime.scheduler.store.schema.rows import DELIVERY_FIELDS, MESSAGE_FIELDS
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.task_filter import UNVERIFIED_RUN
from duetime.scheduler.task import DeadlineType, Delivery, DeliveryState, InboxMessage, Tier
from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, delete, func, null, or_, select, update

IS_HELD = deliveries.c.held_until == deliveries.c.next_at
"""Whether quiet hours hold a delivery: a lease, and each try, moves `next_at` only."""

_NEXT_WAKE = select(func.min(deliveries.c.next_at)).where(deliveries.c.next_at.is_not(None))
_turn = func.row_number().over(partition_by=deliveries.c.channel, order_by=deliveries.c.next_at)
_IN_TURN = select(deliveries.c.id, _turn.label("turn")).where(deliveries.c.next_at <= bindparam("now")).subquery()
_DUE = (
    select(
        *DELIVERY_FIELDS, *MESSAGE_FIELDS, tasks.c.origin, case((UNVERIFIED_RUN, runs.c.error)), deliveries.c.held_until
    )
    .select_from(deliveries.join(_IN_TURN, _IN_TURN.c.id == deliveries.c.id))
    .join(inbox, inbox.c.run_id == deliveries.c.run_id)
    .join(tasks, tasks.c.id == deliveries.c.task_id)
    .outerjoin(runs, runs.c.id == deliveries.c.run_id)
    .order_by(_IN_TURN.c.turn, deliveries.c.next_at)
    .limit(bindparam("most"))
)
"""Channels take turns, so that the backlog of one hides no delivery of another."""

_FAILED = {
    "state": DeliveryState.FAILED,
    "attempts": 0,
    "next_at": null(),
    "delivered_at": null(),
    "error": "damaged: its row or that of its message cannot be read",
}
_TO_TAKE = (
    select(deliveries.c.id)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.next_at <= bindparam("now"))
    .with_for_update(skip_locked=True)
)
_TAKE = (
    update(deliveries)
    .where(deliveries.c.id.in_(_TO_TAKE.scalar_subquery()))
    .values(next_at=bindparam("until"))
    .returning(deliveries.c.id)
)
_HOLD = (
    update(deliveries)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.next_at.is_not(None))
    .values(next_at=bindparam("until"))
)
_IS_URGENT = tasks.c.priority.in_((Tier.CRITICAL, Tier.HIGH))
_open_question = and_(approvals.c.run_id == deliveries.c.run_id, approvals.c.closed_at.is_(None))
_binds = and_(tasks.c.deadline_type == DeadlineType.HARD, runs.c.deadline > bindparam("now"))
_URGENT = (
    select(
        deliveries.c.id,
        case((_IS_URGENT, null()), else_=approvals.c.ends_at),
        case((_IS_URGENT, null()), (_binds, runs.c.deadline)),
    )
    .join_from(deliveries, tasks, tasks.c.id == deliveries.c.task_id)
    .outerjoin(approvals, _open_question)
    .outerjoin(runs, runs.c.id == deliveries.c.run_id)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)))
    .where(or_(_IS_URGENT, approvals.c.ends_at.is_not(None), _binds))
)
_UNVERIFIED = (
    select(deliveries.c.id)
    .join_from(deliveries, runs, runs.c.id == deliveries.c.run_id)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), UNVERIFIED_RUN)
)
_POSTPONE = Batch(
    update(deliveries)
    .where(deliveries.c.id == bindparam("of_delivery"), deliveries.c.attempts == 0)
    .where(deliveries.c.next_at <= bindparam("now", type_=Instant()))
    .values(next_at=bindparam("at"), held_until=bindparam("at"))
)
_PUT_OFF = (
    select(deliveries.c.next_at)
    .join_from(deliveries, inbox, inbox.c.run_id == deliveries.c.run_id)
    .where(deliveries.c.tenant == bindparam("tenant"), inbox.c.user == bindparam("of_user"))
    .where(IS_HELD, deliveries.c.next_at > bindparam("now"))
    .order_by(deliveries.c.next_at)
    .limit(bindparam("most"))
    .subquery()
)
_HELD = select(func.count(), func.min(_PUT_OFF.c.next_at))
_HELD_RUNS = (
    select(deliveries.c.run_id, func.min(deliveries.c.next_at))
    .where(deliveries.c.run_id.in_(bindparam("runs", expanding=True)), deliveries.c.tenant == bindparam("tenant"))
    .where(IS_HELD, deliveries.c.next_at > bindparam("now"))
    .group_by(deliveries.c.run_id)
)
_DROP = delete(deliveries).where(
    deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.state == DeliveryState.PENDING
)


class Deliveries:
    """Deliveries of outcomes to users through channels."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def failing(self) -> list[FailingChannel]:
        """Return the channels of all tenants that deliveries failed through, by name. Reads every row."""
        return self._database.read(channel_failures.found)

    def send_again(self, channel: str, act: AuditEntry | None = None) -> int:
        """Make all deliveries due that were given up for a channel, under the keys that they had; return how many.

        The entry says how many there were.
        """
        now = self._now()

        def work(connection: Connection) -> int:
            count = channel_failures.send_again(connection, channel, now)
            if act is not None:
                entries.store(connection, replace(act, detail={"deliveries": count}), now)
            return count

        return self._database.write(work)

    def fail_others(self, channel: str, *, least: int, error: str, next_at: datetime | None, lease: timedelta) -> int:
        """Store a failed try for the other deliveries of a channel that have failed `least` times; None gives up.

        It counts for those that are due; the others wait as long. A delivery that may be on its way stays as it is.
        Returns how many changed.
        """
        others = channel_failures.Others(channel, least, self._now(), lease)
        return self._database.write(lambda connection: channel_failures.fail(connection, others, error, next_at))

    def retry_others(self, channel: str, *, least: int, lease: timedelta) -> None:
        """Let those of these deliveries be due now that are to be tried later than a lease from now."""
        others = channel_failures.Others(channel, least, self._now(), lease)
        self._database.write(lambda connection: channel_failures.retry(connection, others), durable=False)

    def next_wake(self) -> datetime | None:
        """Return when the next delivery is due; None when none waits."""
        return self._database.look(lambda connection: next_time(unreadable.every(connection, _NEXT_WAKE)[0][0][0]))

    def due(self, *, limit: int) -> list[tuple[Delivery, InboxMessage]]:
        """Return deliveries that are due, each with its message: the longest due of each channel, then its next."""
        due = {"now": self._now(), "most": limit}
        rows, some_damaged = self._database.look(lambda connection: unreadable.every(connection, _DUE, due))
        if some_damaged:
            self._fail([row[0] for row in rows if is_damaged(row[:-2])])
            rows = [row for row in rows if not is_damaged(row[:-2])]
        return [_outgoing(row) for row in rows]

    def _fail(self, ids: Sequence[str]) -> None:
        """Give up damaged deliveries, or those of a damaged message; the inbox has it all the same."""
        statement = update(deliveries).where(deliveries.c.id.in_(list(ids))).values(_FAILED)
        self._database.write(lambda connection: connection.execute(statement))

    def take(self, ids: Sequence[str], *, lease: timedelta) -> set[str]:
        """Lease those of the deliveries that are still due and return them.

        For `lease` they are due for no other process. Any number of processes may call this; one of them gets a
        delivery.
        """
        now = self._now()
        values = {"ids": list(ids), "now": now, "until": now + lease}
        return self._database.write(lambda connection: set(connection.execute(_TAKE, values).scalars()), durable=False)

    def drop(self, ids: Sequence[str]) -> None:
        """Remove deliveries that are pending: their channel does not take the outcome, which the inbox has."""
        self._database.write(lambda connection: connection.execute(_DROP, {"ids": list(ids)}), durable=False)

    def unverified(self, ids: Sequence[str]) -> set[str]:
        """Return those of the deliveries whose runs succeeded without what their tasks expect."""
        values = {"ids": list(ids)}
        return self._database.look(lambda connection: set(connection.execute(_UNVERIFIED, values).scalars()))

    def urgent(self, until: Mapping[str, datetime]) -> set[str]:
        """Return those of the deliveries that cannot wait until then.

        These are of tasks with the tier critical or high, and questions that are decided by then without an answer. A
        hard deadline that is still to come and passes by then is as urgent: after it the outcome is worthless.
        """
        values = {"ids": list(until), "now": self._now()}
        rows = self._database.look(lambda connection: connection.execute(_URGENT, values).all())
        ends = [(delivery_id, [at for at in ends if at is not None]) for delivery_id, *ends in rows]
        return {delivery_id for delivery_id, times in ends if not times or min(times) <= until[delivery_id]}

    def postpone(self, until: Mapping[str, datetime]) -> None:
        """Let deliveries that are due and were not tried yet be due later, each at its own moment."""
        rows = [{"of_delivery": delivery_id, "at": at, "now": self._now()} for delivery_id, at in until.items()]
        self._database.write(lambda connection: _POSTPONE.run(connection, rows), durable=False)

    def held(self, tenant: str, user: str, *, most: int) -> tuple[int, datetime | None]:
        """Return how many deliveries to a user are put off, counted up to `most`, and when the first of them goes."""
        values = {"tenant": tenant, "of_user": user, "now": self._now(), "most": most}
        found = self._database.look(lambda connection: connection.execute(_HELD, values).one())
        return int(found[0]), found[1]

    def held_until(self, tenant: str, run_ids: Sequence[str]) -> dict[str, datetime]:
        """Return of those runs some of whose deliveries are put off when the first of these goes."""
        values = {"tenant": tenant, "runs": list(run_ids), "now": self._now()}
        rows = self._database.look(lambda connection: connection.execute(_HELD_RUNS, values).all())
        return {run_id: until for run_id, until in rows if until is not None}

    def hold(self, ids: Sequence[str], *, lease: timedelta) -> None:
        """Extend the leases of these deliveries to `lease` from now, unless they were settled."""
        values = {"ids": list(ids), "until": self._now() + lease}
        self._database.write(lambda connection: connection.execute(_HOLD, values), durable=False)

    def settle_delivered(self, ids: Sequence[str], attempts: int) -> bool:
        """Store that a try succeeded; False when some of the deliveries are no longer pending, which stay.

        `attempts` is that of the deliveries as they were read. More are stored where the channel has failed since.
        """
        values = {"state": DeliveryState.DELIVERED, "error": None, "delivered_at": self._now(), "next_at": None}
        return self._settle(ids, deliveries.c.attempts >= attempts, values)

    def settle_failed(self, ids: Sequence[str], attempts: int, error: str, *, next_at: datetime | None) -> bool:
        """Store that a try failed, and when the next one is; None gives up. Returns as `settle_delivered` does."""
        state = DeliveryState.PENDING if next_at else DeliveryState.FAILED
        values = {"state": state, "error": error, "delivered_at": None, "next_at": next_at}
        return self._settle(ids, deliveries.c.attempts == attempts, values)

    def _settle(self, ids: Sequence[str], as_read: ColumnElement[bool], values: Mapping[str, Any]) -> bool:
        statement = (
            update(deliveries)
            .where(deliveries.c.id.in_(list(ids)), as_read)
            .where(deliveries.c.state == DeliveryState.PENDING)
            .values(attempts=deliveries.c.attempts + 1, **values)
        )
        return self._database.write(lambda connection: connection.execute(statement).rowcount) == len(ids)


def _outgoing(row: Sequence[Any]) -> tuple[Delivery, InboxMessage]:
    """Read a row of DELIVERY_FIELDS and MESSAGE_FIELDS, the task's origin, why its run is unverified, and the hold.

    The last two count as absent where they are damaged.
    """
    *message, origin, miss, mark = row[len(DELIVERY_FIELDS) :]
    held_until, unverified = (None if is_damaged([each]) else each for each in (mark, miss))
    values = dict(zip((column.name for column in MESSAGE_FIELDS), message, strict=True))
    outgoing = OutgoingMessage(**values, held_until=held_until, origin=origin, unverified=unverified)
    return Delivery(*row[: len(DELIVERY_FIELDS)]), outgoing
