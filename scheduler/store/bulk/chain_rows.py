"""Changes what a chain has of its own, in the transaction that changes its steps."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import BatchWrite
from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import OF_CHAIN, EventKind
from duetime.scheduler.rules.series.overtake import OVERTAKING_POLICIES
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.commit_notes import notes_of
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.generations import renewal
from sqlalchemy import Connection, bindparam, false, select, update

_FIRST = (
    select(tasks.c.tenant, tasks.c.id)
    .join_from(chain_steps, tasks, tasks.c.id == chain_steps.c.task_id)
    .where(chain_steps.c.chain_id == bindparam("chain_id"))
    .order_by(chain_steps.c.place, tasks.c.id)
    .limit(1)
    .with_for_update(of=tasks)
)
_LOCK = select(chains.c.id).where(chains.c.id == bindparam("chain_id")).with_for_update()


_POLICY = select(tasks.c.repeat_policy).where(tasks.c.id == bindparam("of_task"))
_OF_CHAIN = select(chain_steps.c.task_id).where(chain_steps.c.chain_id == bindparam("of_chain"))
_LOOK_AGAIN = (
    update(runs)
    .where(runs.c.task_id.in_(_OF_CHAIN), IS_CURRENT, runs.c.ended_at.is_(None), runs.c.cancel_requested == false())
    .values(overtaken_at=bindparam("now"))
)


class FirstStep(NamedTuple):
    """The first step of a chain, whose events record the changes of the chain itself."""

    tenant: str
    task_id: str


def follow(connection: Connection, change: ChainChange, kind: EventKind, write: BatchWrite, now: datetime) -> None:
    """Store the new values and their event, and start the next generation where every step has ended already."""
    steps = [FirstStep(*row) for row in connection.execute(_FIRST, {"chain_id": change.chain_id})]
    _write(connection, change)
    [step] = steps  # a chain goes with its last step
    _log_change(connection, change, step, kind=kind, write=write, now=now)
    policies = unreadable.rows(connection, _POLICY, {"of_task": step.task_id})
    if any(policy is not None and policy.overlap in OVERTAKING_POLICIES for (policy,) in policies):
        connection.execute(_LOOK_AGAIN, {"of_chain": change.chain_id, "now": now})  # the next one may be due earlier
    notes_of(connection).freed.extend(renewal.renew(connection, [step.task_id], now))


def _write(connection: Connection, change: ChainChange) -> None:
    """Store the new values. Raises Refused, so that nothing is stored, where the old ones are others by now."""
    dialect_of(connection).lock_rows(connection, _LOCK, {"chain_id": change.chain_id})
    of_chain = chains.c.id == change.chain_id
    row = connection.execute(select(*(chains.c[name] for name in change.before)).where(of_chain)).one_or_none()
    if row is None or row._asdict() != dict(change.before):
        raise Refused(f"{change.chain_id} was changed again since.", remedy=remedies.Inspect(change.chain_id))
    connection.execute(update(chains).where(of_chain).values(**change.after))


def _log_change(
    connection: Connection, change: ChainChange, step: FirstStep, *, kind: EventKind, write: BatchWrite, now: datetime
) -> None:
    """Record the change as an event of a step, whose row is locked and keeps its revision."""
    stored = change.to_json()
    sides = [{**dict(stored[side]), OF_CHAIN: change.chain_id} for side in ("before", "after")]  # type: ignore[arg-type]  # objects
    entry = event_log.entry(
        step.tenant,
        step.task_id,
        None,
        now,
        kind=kind,
        reason=write.reason,
        before=sides[0],
        after=sides[1],
        **write.acting,
    )
    event_log.append(connection, [entry])
