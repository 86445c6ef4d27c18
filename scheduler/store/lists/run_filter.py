"""The filter of the history of runs, as conditions on a run: some are a range of an index, the others are compared.

A condition on the run's task or attempts is a subquery for each run. A planner cannot turn that into a join, and so
reads runs in the order of the list until the page is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules.limits.price import micros_of
from duetime.scheduler.rules.states import BLOCKABLE_STATES, OPEN, TERMINAL
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.database.dialects import StoreDialect
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.tasks import attempts, labels, runs, tasks
from duetime.scheduler.store.sql.task_filter import BLOCKED_RUN, DEAD_RUN, UNVERIFIED_RUN, phase_of
from duetime.scheduler.store.text_index.text_search import Condition, has_text, titled_by_reading
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing
from sqlalchemy import Column, ColumnElement, and_, case, false, func, or_, select, true

BEGUN_STATES = frozenset({State.READY, State.RETRYING, State.SUSPENDED})
"""Phases of runs that are open and not to come: a next time of theirs is that of a further attempt."""

PHASES = tuple(dict.fromkeys(phase_of(state) for state in State))
_PHASES_OF: Mapping[Standing, tuple[State, ...]] = {
    Standing.UNVERIFIED: (State.SUCCEEDED,),
    Standing.BLOCKED: BLOCKABLE_STATES,
    Standing.PAUSED: tuple(phase for phase in PHASES if phase in OPEN),
    Standing.DEAD_LETTER: (State.FAILED,),
}


def phases(where: RunFilter) -> tuple[State, ...]:
    """Return the phases in which runs of the filter may be; a duration and a lateness have ended ones alone."""
    named = tuple(dict.fromkeys(phase_of(state) for state in where.states)) or PHASES
    if where.standing is not None:
        may = _PHASES_OF[where.standing]
        named = tuple(phase for phase in named if phase in may) or may
    at_end = (where.min_duration, where.max_duration, where.min_lateness)
    if all(span is None for span in at_end):
        return named
    return tuple(phase for phase in named if phase in TERMINAL) or named


def of_phase(where: RunFilter, phase: State) -> list[Condition]:
    """Return the conditions within a phase that its index does not need: ready ones share theirs with running ones."""
    wanted = [state for state in where.states if phase_of(state) is phase]
    shared = [state for state in State if phase_of(state) is phase]
    return [runs.c.state.in_(wanted)] if wanted and len(wanted) < len(shared) else []


def in_time(where: RunFilter) -> list[Condition]:
    """Return the conditions on the time of a run in any phase."""
    begun = [runs.c.phase.in_(BEGUN_STATES)] if where.or_begun else []
    return [*since(where), *(or_(each, *begun) for each in until(where, State.SCHEDULED))]


def since(where: RunFilter) -> list[Condition]:
    return [runs.c.listed_at >= where.since] if where.since else []


def until(where: RunFilter, phase: State) -> list[Condition]:
    """Return the condition on the time of a run in a phase that bounds it above."""
    if where.until is None or (where.or_begun and phase in BEGUN_STATES):
        return []
    return [runs.c.listed_at < where.until]


def compared(tenant: str, where: RunFilter, dialect: StoreDialect) -> list[Condition]:
    """Return the conditions that each run is compared with."""
    found = [*_of_times(where, dialect), *_of_attempts(where), *_of_task(where)]
    if where.label is not None:
        found.append(_labelled(tenant, where.label))
    if where.text is not None:
        found.append(says(where.text))
    if where.error is not None:
        found.append(has_text(runs.c.error, where.error))
    if where.min_units is not None or where.pool is not None:
        found.append(_used(where))
    if where.standing is not None:
        found.append(_standing(where.standing))
    if where.unpaused:
        found.append(or_(runs.c.paused == false(), runs.c.ended_at.is_not(None)))
    if where.min_cost is not None:
        found.append(_of_pool(where, usage.c.cost) >= micros_of(where.min_cost))
    return found


def looks_count(where: RunFilter) -> int:
    """Return in how many places apart from a run the conditions look for it: its task, its attempts, what it used."""
    of_task = any(each is not None for each in (where.action, where.tier, where.title, where.actor))
    used = where.pool is not None or where.min_units is not None
    others = sum(each is not None for each in (where.worker, where.label, where.text, where.min_cost))
    return of_task + used + others


def _standing(standing: Standing) -> Condition:
    if standing is Standing.PAUSED:
        return and_(runs.c.ended_at.is_(None), runs.c.state != State.RUNNING, _task(tasks.c.paused == true()))
    if standing is Standing.DEAD_LETTER:
        return DEAD_RUN
    return UNVERIFIED_RUN if standing is Standing.UNVERIFIED else BLOCKED_RUN


def says(words: str) -> Condition:
    """Return the condition that a run's title, its error, or the reason of an attempt has these words."""
    of_title = _task(titled_by_reading(words))
    of_attempts = select(func.count()).where(attempts.c.run_id == runs.c.id, has_text(attempts.c.reason, words))
    tried = case((runs.c.attempt > 0, _subquery(of_attempts) > 0), else_=false())  # looks for attempts only then
    return or_(has_text(runs.c.error, words), of_title, tried)


def _of_times(where: RunFilter, dialect: StoreDialect) -> Iterable[Condition]:
    took = dialect.microseconds(runs.c.started_at, runs.c.ended_at)
    if where.min_duration is not None:
        yield took >= where.min_duration // MICROSECOND
    if where.max_duration is not None:
        yield took <= where.max_duration // MICROSECOND
    if where.min_lateness is not None:
        yield runs.c.ended_at > runs.c.deadline
        yield dialect.microseconds(runs.c.deadline, runs.c.ended_at) >= where.min_lateness // MICROSECOND
    if where.started_before is not None:
        yield runs.c.started_at < where.started_before
    if where.min_delay is not None:
        yield dialect.microseconds(runs.c.scheduled_for, runs.c.started_at) >= where.min_delay // MICROSECOND


def _of_attempts(where: RunFilter) -> Iterable[Condition]:
    if where.min_attempts is not None:
        yield runs.c.attempt >= where.min_attempts
    if where.worker is not None:
        earlier = select(func.count()).where(attempts.c.run_id == runs.c.id, attempts.c.worker == where.worker)
        yield or_(runs.c.worker == where.worker, and_(runs.c.attempt > 1, _subquery(earlier) > 0))


def _of_task(where: RunFilter) -> Iterable[Condition]:
    """Return one condition for all that the task decides: it is looked up once."""
    found: list[Condition] = []
    if where.action is not None:
        found.append(tasks.c.action == where.action)
    if where.tier is not None:
        found.append(tasks.c.priority == where.tier)
    if where.title is not None:
        found.append(titled_by_reading(where.title))
    if where.actor is not None:
        found.append(_acted(where.actor))
    if found:
        yield _task(and_(*found))


def _acted(actor: str) -> Condition:
    """Return the condition that an actor owns the run's task, or has changed it."""
    of_run = (events.c.task_id == tasks.c.id, events.c.run_id == runs.c.id, events.c.actor == actor)
    changes = select(func.count()).where(*of_run).correlate(runs, tasks).scalar_subquery()
    return case((tasks.c.owner == actor, true()), (tasks.c.revision > 1, changes > 0), else_=false())


def _task(condition: Condition) -> Condition:
    return _subquery(select(condition).where(tasks.c.id == runs.c.task_id)).is_(true())


def _labelled(tenant: str, label: str) -> Condition:
    of_task = (labels.c.tenant == tenant, labels.c.label == label, labels.c.task_id == runs.c.task_id)
    return _subquery(select(func.count()).where(*of_task)) > 0


def _used(where: RunFilter) -> Condition:
    used = _of_pool(where, usage.c.units)
    return used > 0 if where.min_units is None else used >= where.min_units


def _of_pool(where: RunFilter, summed: Column[Any]) -> ColumnElement[Any]:
    of_run = select(func.sum(summed)).where(usage.c.run_id == runs.c.id)
    if where.pool is not None:
        of_run = of_run.where(usage.c.pool == where.pool)
    return func.coalesce(_subquery(of_run), 0)


def _subquery(statement: Any) -> ColumnElement[Any]:
    found: ColumnElement[Any] = statement.correlate(runs).scalar_subquery()
    return found
