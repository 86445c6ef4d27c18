"""Chains: tasks that one call made as steps, stored in one transaction and read together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from duetime.scheduler.chain.chain import Chain, ChainAdded, ChainRecord, NewChain, StepRecord
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.ids import is_id
from duetime.scheduler.records import Added
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.forms import Forms
from duetime.scheduler.store.lists import tenant_counts
from duetime.scheduler.store.lists.tenant_counts import Admission
from duetime.scheduler.store.schema.rows import columns_of
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements import add, read
from duetime.scheduler.task import Task
from duetime.scheduler.views import ChainName
from sqlalchemy import Connection, bindparam, insert, select, true, update

_CHAIN = columns_of(Chain, chains)
_ADD_CHAIN = Batch(insert(chains), tuple(column.name for column in _CHAIN))
_ADD_STEPS = Batch(insert(chain_steps), ("task_id", "chain_id", "tenant", "name", "place"))
_FOLLOWED = update(tasks).where(tasks.c.id.in_(bindparam("task_ids", expanding=True))).values(followed=true())
_ONE = select(*_CHAIN).where(chains.c.id == bindparam("chain_id"), chains.c.tenant == bindparam("tenant"))
_STEPS = select(chain_steps.c.place, chain_steps.c.name, chain_steps.c.task_id).where(
    chain_steps.c.chain_id == bindparam("chain_id")
)
_AFTER = select(dependencies.c.task_id, dependencies.c.upstream_id, dependencies.c.valid_output).where(
    dependencies.c.task_id.in_(bindparam("task_ids", expanding=True)),
    dependencies.c.upstream_id.in_(bindparam("task_ids", expanding=True)),
)
_NAMES = (
    select(chain_steps.c.task_id, chains.c.id, chains.c.title, chain_steps.c.name, chains.c.repeat)
    .join_from(chain_steps, chains, chains.c.id == chain_steps.c.chain_id)
    .where(chain_steps.c.tenant == bindparam("tenant"))
    .where(chain_steps.c.task_id.in_(bindparam("task_ids", expanding=True)))
)


class Chains:
    """Stores and reads chains; each call is for one tenant."""

    def __init__(self, database: Database, now: Callable[[], datetime], forms: Forms, commits: Commits) -> None:
        self._database = database
        self._commits = commits
        self._now = now
        self._forms = forms

    def add(self, new: NewChain, admission: Admission | None = None) -> ChainAdded:
        """Store a chain with all its tasks; a known key of the first one returns the chain that it made.

        Raises `IdempotencyConflict` when the key was used for other content, and what `admission` raises.
        """

        def work(connection: Connection) -> ChainAdded:
            now, form = self._now(), self._forms.store_new
            if admission:
                tenant_counts.admit(connection, new.chain.tenant, now, admission)
            first, *rest = new.steps.values()
            [made] = add.add(connection, [first], now, store_new=form)
            if not made.created:
                return ChainAdded(_chain_of(connection, made.record.task))
            _ADD_CHAIN.run(connection, [{name: getattr(new.chain, name) for name in _CHAIN_NAMES}])
            _ADD_STEPS.run(connection, _step_rows(new))
            behind = add.add(connection, rest, now, store_new=form) if rest else []
            if new.chain.repeat:  # its next generation follows the ends of all of them
                connection.execute(_FOLLOWED, {"task_ids": [item.task.id for item in new.steps.values()]})
            return ChainAdded(new.chain.id, (made, *behind))

        return self._commits.write(work, stored=_stored)

    def get(self, tenant: str, chain_id: str) -> ChainRecord:
        """Return a chain with its steps. Raises `TaskNotFound`."""
        return self._database.read(lambda connection: record(connection, tenant, chain_id))

    def names(self, tenant: str, task_ids: Iterable[str]) -> dict[str, ChainName]:
        """Return the chain and the step of those of these tasks that are steps."""
        given = {"tenant": tenant, "task_ids": list(task_ids)}
        rows = self._database.look(lambda connection: unreadable.rows(connection, _NAMES, given))
        return {
            task_id: ChainName(chain_id, title, step, repeat is not None)
            for task_id, chain_id, title, step, repeat in rows
        }


_CHAIN_NAMES = [item.name for item in fields(Chain)]


def record(connection: Connection, tenant: str, chain_id: str) -> ChainRecord:
    """Return a chain with its steps in their order. Raises `TaskNotFound`."""
    given: dict[str, Any] = {"chain_id": chain_id, "tenant": tenant}
    found = unreadable.rows(connection, _ONE, given) if is_id(chain_id) else []
    if not found:
        raise TaskNotFound(chain_id)
    rows = sorted(map(tuple, connection.execute(_STEPS, given)))  # here: each database sorts names in its own way
    names = {task_id: name for _, name, task_id in rows}
    records = read.records(connection, names)
    place = {task_id: number for number, task_id in enumerate(names)}
    above, schemas = dict[str, list[str]](), dict[str, dict[str, Any]]()
    links = connection.execute(_AFTER, {"task_ids": list(names)})
    for row in sorted(links, key=lambda row: place[row.upstream_id]):
        above.setdefault(row.task_id, []).append(names[row.upstream_id])
        if row.valid_output is not None:
            schemas.setdefault(row.task_id, {})[names[row.upstream_id]] = row.valid_output
    steps = [
        StepRecord(name, records[task_id], tuple(above.get(task_id, ())), schemas.get(task_id, {}))
        for task_id, name in names.items()
        if task_id in records
    ]
    if not steps:
        raise TaskNotFound(chain_id)
    return ChainRecord(Chain(*found[0]), tuple(steps))


def _chain_of(connection: Connection, task: Task) -> str:
    """Return the chain that a key made; that of a single task names other content, and was refused before."""
    statement = select(chain_steps.c.chain_id).where(chain_steps.c.task_id == task.id)
    return str(connection.execute(statement).scalar_one())


def _step_rows(new: NewChain) -> list[dict[str, Any]]:
    return [
        {
            "task_id": item.task.id,
            "chain_id": new.chain.id,
            "tenant": new.chain.tenant,
            "name": name,
            "place": place,
        }
        for place, (name, item) in enumerate(new.steps.items())
    ]


def _stored(connection: Connection, answer: ChainAdded) -> bool:
    made: Sequence[Added] = answer.added
    return commit_check.added(connection, made)
