"""Lists runs, newest or oldest first: a page of one tenant's, or of all tenants' together.

Rare words and titles, a label of few tasks, and the runs of one task are looked up. A walk in time finds all else.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.rules.limits.price import amount_of
from duetime.scheduler.rules.states import BLOCKABLE_STATES
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists import run_filter
from duetime.scheduler.store.lists.tenants import tenants
from duetime.scheduler.store.run_history.reasons import misses_in_words, stops_in_words
from duetime.scheduler.store.run_history.run_walk import LISTED_AT, RunKey, RunWalk, keys_of
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.tasks import labels, runs, tasks
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, Matches
from duetime.scheduler.task import State
from sqlalchemy import ColumnElement, Connection, false, func, or_, select

MAX_RUNS_SEARCHED_FIRST = 1_250
MAX_RUNS_SEARCHED = 7_500
"""Runs of a tenant that a page compares with what no index holds: a short page continues behind them.

Of conditions that look in several places, such as tasks and attempts, a page compares fewer runs.
"""

MAX_RUNS_LOOKED_UP = 5_000
"""Runs of tasks that match, up to which all are looked up and sorted."""

_COLUMNS = [
    *(runs.c.id, runs.c.task_id, runs.c.tenant, tasks.c.title, tasks.c.action, tasks.c.priority, tasks.c.labels),
    *(tasks.c.timezone, runs.c.state, runs.c.listed_at, runs.c.scheduled_for, runs.c.started_at, runs.c.ended_at),
    *(runs.c.deadline, runs.c.attempt, runs.c.worker, runs.c.error),
    *(runs.c.cancel_requested, runs.c.overtaken_at, tasks.c.paused),
]
_STOPPED = frozenset({State.CANCELLED, State.SKIPPED})
_SHOWN = select(*_COLUMNS).select_from(runs.join(tasks, tasks.c.id == runs.c.task_id))


PoolUses = Mapping[str, tuple[float, int | None]]
"""Units and cost in millionths by pool."""


class FoundRuns(NamedTuple):
    """Keys of runs in order. All as far as `searched_to` were compared; None when all were, or the page is full."""

    keys: Sequence[RunKey]
    searched_to: RunKey | None = None


def page(
    connection: Connection, tenant: str | None, where: RunFilter, limit: int, behind: RunKey | None
) -> tuple[list[RunSummary], RunKey | None, RunKey | None]:
    """Return at most `limit` runs behind a place, the place where the next page begins, and how far was searched."""
    found = _found(connection, tenant, where, limit + 1, behind)
    following = found.keys[limit - 1] if len(found.keys) > limit else found.searched_to
    return summaries(connection, found.keys[:limit]), following, found.searched_to


def _found(
    connection: Connection, tenant: str | None, where: RunFilter, limit: int, behind: RunKey | None
) -> FoundRuns:
    if tenant is not None:
        return RunSearch(connection, tenant, where, behind).first(limit)
    found = [RunSearch(connection, each, where, behind).first(limit) for each in tenants(connection)]
    return merged(found, limit, oldest_first=where.oldest_first)


def merged(found: Sequence[FoundRuns], limit: int, *, oldest_first: bool = False) -> FoundRuns:
    """Return the first runs of several tenants: those as far as all of them were searched."""
    first = list(islice(heapq.merge(*(each.keys for each in found), reverse=not oldest_first), limit))
    nearest = min if oldest_first else max
    reached = nearest((each.searched_to for each in found if each.searched_to), default=None)
    inside = [key for key in first if reached is None or nearest(key, reached) == key]
    return FoundRuns(inside) if len(inside) == limit else FoundRuns(inside, reached)


@dataclass(frozen=True, slots=True)
class RunSearch:
    """Finds the first runs of one tenant behind a place."""

    connection: Connection
    tenant: str
    where: RunFilter
    behind: RunKey | None

    def first(self, limit: int) -> FoundRuns:
        """Return the first runs: by the index of a label, else on a walk, short unless it finds many, else by texts."""
        walk = RunWalk(self.connection, self.tenant, self.where, self.behind)
        compared = run_filter.compared(self.tenant, self.where, dialect_of(self.connection))
        known = self._of_few_tasks()
        if known is not None:
            return self._looked_up(walk, [known], compared, limit)
        if not compared:
            return FoundRuns(walk.keys((), limit))
        soon = _searched(walk, compared, limit, MAX_RUNS_SEARCHED_FIRST)
        is_common = len(soon.keys) * self._most >= limit * MAX_RUNS_SEARCHED_FIRST
        if is_common:
            soon = self._continued(soon, compared, limit)
        if soon.searched_to is None:
            return soon
        rare = self._rare()
        if rare is not None and self._are_few(rare[0]):
            found = [text_search.among(self.connection, column, ids) for column, ids in self._places(*rare)]
            return self._looked_up(walk, found, compared, limit)
        if is_common:
            return soon
        return self._continued(soon, [*self._in_sets(rare), *compared], limit)

    @property
    def _most(self) -> int:
        """The number of runs that this page compares."""
        share = MAX_RUNS_SEARCHED // max(1, run_filter.looks_count(self.where))
        return max(share, min(2 * MAX_RUNS_SEARCHED_FIRST, MAX_RUNS_SEARCHED))

    def _continued(self, soon: FoundRuns, compared: Sequence[Condition], limit: int) -> FoundRuns:
        """Compare the runs behind those that were compared, as many as a page may have in all."""
        if soon.searched_to is None:
            return soon
        walk = RunWalk(self.connection, self.tenant, self.where, soon.searched_to)
        more = _searched(walk, compared, limit - len(soon.keys), self._most - MAX_RUNS_SEARCHED_FIRST)
        return FoundRuns([*soon.keys, *more.keys], more.searched_to)

    def _looked_up(
        self, walk: RunWalk, known: Sequence[Condition], compared: Sequence[Condition], limit: int
    ) -> FoundRuns:
        """Read runs by their ids or tasks: those that meet one of the known conditions, and all others."""
        order = self.where.oldest_first
        statements = [walk.known((LISTED_AT, runs.c.id), each, compared) for each in known]
        found = {key for each in statements for key in keys_of(self.connection, each, limit, oldest_first=order)}
        return FoundRuns(sorted(found, reverse=not order)[:limit])

    def _of_few_tasks(self) -> Condition | None:
        """Return a condition for the runs of one task, or of the few tasks with a label."""
        if self.where.task_id is not None:
            return runs.c.task_id == self.where.task_id
        if self.where.label is None:
            return None
        of_label = (labels.c.tenant == self.tenant, labels.c.label == self.where.label)
        tasks_of = select(labels.c.task_id).where(*of_label)
        found = text_search.first(self.connection, tasks_of, text_search.MAX_INDEXED_MATCHES)
        return text_search.among(self.connection, runs.c.task_id, found.ids) if self._are_few(found) else None

    def _rare(self) -> tuple[Matches, Matches] | None:
        """Return the tasks and the events that an index gives for the words of the filter; None where none can tell."""
        if self.where.title is not None:
            titles = text_search.rare_titles(self.connection, self.where.title)
            if titles.complete:
                return titles, Matches((), complete=True)
        if self.where.text is not None:
            titles, reasons = text_search.rare_words(self.connection, self.where.text)
            if titles.complete and reasons.complete:
                return titles, reasons
        return None

    def _in_sets(self, rare: tuple[Matches, Matches] | None) -> list[Condition]:
        """Return a condition for the runs that have rare words, which costs little; none where no index can tell."""
        if rare is None:
            return []
        sets = [text_search.in_set_of(self.connection, column, ids) for column, ids in self._places(*rare) if ids]
        return [or_(false(), *sets)]

    def _places(self, titles: Matches, reasons: Matches) -> Sequence[tuple[ColumnElement[str], Sequence[str]]]:
        """Return the columns of a run by which matches know it, each with their ids."""
        return ((runs.c.task_id, titles.ids), (runs.c.id, self._runs_of_events(reasons)))

    def _runs_of_events(self, reasons: Matches) -> list[str]:
        matching = select(events.c.run_id).where(text_search.among(self.connection, events.c.id, reasons.ids))
        return [run_id for run_id in self.connection.execute(matching.distinct()).scalars() if run_id is not None]

    def _are_few(self, found: Matches) -> bool:
        """Whether these tasks are all, and have few runs."""
        of_tasks = text_search.among(self.connection, runs.c.task_id, found.ids)
        return found.complete and text_search.has_at_most(self.connection, of_tasks, MAX_RUNS_LOOKED_UP)


def _searched(walk: RunWalk, compared: Sequence[Condition], limit: int, most: int) -> FoundRuns:
    """Compare up to `most` runs."""
    reached = walk.boundary(most)
    found = walk.keys(compared, limit, as_far_as=reached)
    return FoundRuns(found, None if len(found) == limit else reached)


def summaries(connection: Connection, keys: Sequence[RunKey]) -> list[RunSummary]:
    """Return runs in the order of their keys, with what they used."""
    ids = [key.id for key in keys]
    read = unreadable.values(connection, _SHOWN.where(runs.c.id.in_(ids)), RunSummary, _COLUMNS)
    shown, damage = {run.id: run for run, _ in read}, {run.id: words for run, words in read if words}
    used = _used(connection, ids)
    stopped = stops_in_words(connection, [run.id for run in shown.values() if run.state in _STOPPED])
    missed = misses_in_words(connection, [run.id for run in shown.values() if run.state in BLOCKABLE_STATES])
    parts = {each: _of_use(uses) for each, uses in used.items()}
    for each, why in {**stopped, **missed}.items():
        parts.setdefault(each, {}).update(why=why, blocked=each in missed)
    for each, words in damage.items():
        parts.setdefault(each, {}).update(damage=words)
    # most runs have no such part, and a copy of each costs more than reading it
    return [replace(shown[each], **parts[each]) if each in parts else shown[each] for each in ids if each in shown]


def _of_use(used: PoolUses) -> dict[str, Any]:
    costs = [int(cost) for _, cost in used.values() if cost is not None]
    return {
        "units": {pool: each for pool, (each, _) in used.items()},
        "cost": amount_of(sum(costs)) if costs else None,
    }


def _used(connection: Connection, run_ids: Sequence[str]) -> Mapping[str, PoolUses]:
    key, sums = (usage.c.run_id, usage.c.pool), (func.sum(usage.c.units), func.sum(usage.c.cost))
    statement = select(*key, *sums).where(usage.c.run_id.in_(run_ids)).group_by(*key).order_by(*key)
    found: dict[str, dict[str, tuple[float, int | None]]] = {}
    for run_id, pool, units, cost in unreadable.rows(connection, statement):
        found.setdefault(run_id, {})[pool] = (units, cost)
    return found
