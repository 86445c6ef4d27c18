"""Changes what a chain has of its own, in the transaction that changes its steps."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.bulk.change import BatchWrite
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import OF_CHAIN, EventKind
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.chains import chains
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.task import Task
from sqlalchemy import Connection, bindparam, select, update

_LOCK = select(chains.c.id).where(chains.c.id == bindparam("chain_id")).with_for_update()


def write(connection: Connection, change: ChainChange) -> None:
    """Store the new values. Raises Refused, so that nothing is stored, where the old ones are others by now."""
    dialect_of(connection).lock_rows(connection, _LOCK, {"chain_id": change.chain_id})
    of_chain = chains.c.id == change.chain_id
    row = connection.execute(select(*(chains.c[name] for name in change.before)).where(of_chain)).one_or_none()
    if row is None or row._asdict() != dict(change.before):
        raise Refused(f"{change.chain_id} was changed again since.", remedy=remedies.Inspect(change.chain_id))
    connection.execute(update(chains).where(of_chain).values(**change.after))


def tell(
    connection: Connection, change: ChainChange, step: Task, *, kind: EventKind, write: BatchWrite, now: datetime
) -> None:
    """Tell of the change by an event of a step, whose row is locked; it makes no revision of it."""
    stored = change.to_json()
    sides = [{**dict(stored[side]), OF_CHAIN: change.chain_id} for side in ("before", "after")]  # type: ignore[arg-type]  # objects
    told = event_log.entry(
        step.tenant, step.id, None, now, kind=kind, reason=write.reason, before=sides[0], after=sides[1], **write.acting
    )
    event_log.append(connection, [told])
