"""The filter of a list of tasks, as conditions: on the task, on its current run, and on when that is due.

A list has two sections, open tasks and ended ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from duetime.scheduler.rules.states import BLOCKABLE_STATES, BLOCKED_PREFIX, OPEN, TERMINAL
from duetime.scheduler.store.schema.rows import IS_CURRENT
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import labels, runs, tasks
from duetime.scheduler.store.text_index import text_search
from duetime.scheduler.store.text_index.text_search import Condition, titled, titled_by_reading
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing, TaskFilter
from sqlalchemy import Connection, and_, case, exists, func, literal_column, not_, or_, select, true

OPEN_SECTION, ENDED_SECTION = "open", "ended"
PER_SECTION = {OPEN_SECTION: runs.c.ended_at.is_(None), ENDED_SECTION: runs.c.ended_at.is_not(None)}
_OPEN_STANDINGS = frozenset({Standing.BLOCKED, Standing.PAUSED})
SECTION_STATES = {OPEN_SECTION: OPEN, ENDED_SECTION: TERMINAL}
_ENDED_EARLY = (State.CANCELLED, State.EXPIRED, State.SKIPPED)
_KEEPS_NO_TIME = or_(runs.c.started_at.is_not(None), runs.c.first_ready_at.is_(None))
DUE_AT = case(
    (and_(runs.c.state.in_((State.RETRYING, State.SUSPENDED)), runs.c.wake_at.is_not(None)), runs.c.wake_at),
    (and_(runs.c.state == State.SCHEDULED, runs.c.wake_at > runs.c.scheduled_for, _KEEPS_NO_TIME), runs.c.wake_at),
    else_=runs.c.scheduled_for,
)
"""When a run is due, for the reader, as `views.due_at`."""

_held = tasks.alias("held")
_PAUSE_ENDS: Condition = literal_column("held.paused_until IS NOT NULL")  # literal, as in its index
HELD_TASKS = select(_held.c.id).where(_PAUSE_ENDS)
IS_HELD_BY_PAUSE = and_(runs.c.state != State.RUNNING, runs.c.task_id.in_(HELD_TASKS))
"""Whether an open run starts no earlier than its pause ends."""

STARTS_AT = case(
    (
        runs.c.state != State.RUNNING,
        func.coalesce(
            select(_held.c.paused_until)
            .where(_held.c.id == runs.c.task_id, _held.c.paused_until > DUE_AT)
            .correlate(runs)
            .scalar_subquery(),
            DUE_AT,
        ),
    ),
    else_=DUE_AT,
)
"""When an open run starts at the earliest; the next occurrence of a series may come later than its pause ends."""


BLOCKED_RUN = and_(runs.c.summary.startswith(BLOCKED_PREFIX), runs.c.state.in_(BLOCKABLE_STATES))
UNVERIFIED_RUN = and_((runs.c.state == State.SUCCEEDED).is_(true()), runs.c.error.is_not(None))
DEAD_RUN = exists().where(dead_letters.c.run_id == runs.c.id, dead_letters.c.closed_at.is_(None))
"""Whether the dead letter of a run is open."""

ASKING_RUN = and_(
    runs.c.state == State.SUSPENDED,
    or_(
        exists().where(approvals.c.run_id == runs.c.id, approvals.c.closed_at.is_(None)),
        exists().where(signal_waits.c.waiter_id == runs.c.id, signal_waits.c.closed_at.is_(None)),
    ),
)
"""Whether a run that has started waits for an answer or an event."""

_unmet, _later = runs.alias("unmet"), runs.alias("later")


def meets(where: TaskFilter, states: frozenset[State]) -> bool:
    if where.standing in _OPEN_STANDINGS and states.isdisjoint(OPEN):
        return False
    return not where.states or not states.isdisjoint(where.states)


def conditions(tenant: str, where: TaskFilter, titled: Callable[[str], Condition] = titled) -> list[Condition]:
    found: list[Condition] = list(of_task(tenant, where, titled))
    if where.states:
        found += [runs.c.phase.in_({phase_of(state) for state in states_within(where)}), is_in_states(where)]
    return found


def is_in_states(where: TaskFilter) -> Condition:
    """Whether the current run is in one of the filter's states, of which it has some."""
    in_states = runs.c.state.in_(where.states)
    return or_(in_states, ASKING_RUN) if asked_too(where) else in_states


def states_within(where: TaskFilter) -> tuple[State, ...]:
    """Return the states of the runs that the filter finds: waiting ones include those that a handler keeps waiting."""
    return (*where.states, State.SUSPENDED) if asked_too(where) else where.states


def asked_too(where: TaskFilter) -> bool:
    """Whether the filter finds suspended tasks where they wait for an answer or an event."""
    return State.WAITING in where.states and State.SUSPENDED not in where.states


def phase_of(state: State) -> State:
    """Return the phase by which an index finds runs of a state (`tasks.PHASE`)."""
    return State.READY if state is State.RUNNING else state


def parts(where: TaskFilter, section: str) -> Sequence[Sequence[Condition]]:
    """Return the conditions on the due time, as parts of a section that follow each other in its order.

    The first part is a range of the section's index. Of ended tasks a second one holds what is listed outside of the
    bound but due within it, as it ended before it was due. Few are in those states. Of open ones it is the first part
    that is listed outside of the bound: what a pause holds until then.
    """
    at = STARTS_AT if section == OPEN_SECTION else DUE_AT
    window = [where.after <= at] if where.after else []
    window += [where.before > at] if where.before else []
    if section == OPEN_SECTION and where.before:
        return ([*window, runs.c.listed_at < where.before],)
    if where.after is None:
        return (window,)
    inside = runs.c.listed_at >= where.after
    if section == OPEN_SECTION:
        later = HELD_TASKS.where(_held.c.paused_until >= where.after)
        return ([*window, not_(inside), runs.c.task_id.in_(later)], [*window, inside])
    return ([*window, inside], [*window, not_(inside), runs.c.phase.in_(_ENDED_EARLY)])


def parts_of(tenant: str, where: TaskFilter, section: str) -> Iterator[tuple[Condition, Sequence[Condition]]]:
    """Yield the parts with their condition on the tenant: only the few held tasks can lead to what a pause holds."""
    *before, last = parts(where, section)
    column = text_search.unindexed(runs.c.tenant) if section == OPEN_SECTION else runs.c.tenant
    for part in before:
        yield column == tenant, part
    yield runs.c.tenant == tenant, last


def in_time(where: TaskFilter) -> Condition:
    return or_(*(and_(PER_SECTION[section], *part) for section in SECTION_STATES for part in parts(where, section)))


def of_task(tenant: str, where: TaskFilter, titled: Callable[[str], Condition] = titled) -> list[Condition]:
    found: list[Condition] = []
    if where.action:
        found.append(tasks.c.action == where.action)
    if where.tier:
        found.append(tasks.c.priority == where.tier)
    if where.label:
        found.append(labelled(tenant, where.label))
    if where.query:
        found.append(titled(where.query))
    if where.standing:
        found.append(_standing(tenant, where.standing))
    return found


def _standing(tenant: str, standing: Standing) -> Condition:
    if standing is Standing.PAUSED:
        return and_(tasks.c.paused == true(), runs.c.ended_at.is_(None))
    if standing is Standing.DEAD_LETTER:
        of_tenant = (dead_letters.c.tenant == tenant, dead_letters.c.closed_at.is_(None))
        return tasks.c.id.in_(select(dead_letters.c.task_id).where(*of_tenant))
    return BLOCKED_RUN if standing is Standing.BLOCKED else _last_unverified(tenant)


def _last_unverified(tenant: str) -> Condition:
    """Whether the last run of a task that ended is unverified; literal, as in the partial index."""
    unmet: Condition = literal_column("unmet.phase = 'succeeded' AND unmet.error IS NOT NULL")
    is_last = ~exists().where(_later.c.task_id == _unmet.c.task_id, _later.c.ended_at > _unmet.c.ended_at)
    return tasks.c.id.in_(select(_unmet.c.task_id).where(_unmet.c.tenant == tenant, unmet, is_last))


def labelled(tenant: str, label: str) -> Condition:
    named = select(labels.c.task_id).where(labels.c.tenant == tenant, labels.c.label == label)
    return tasks.c.id.in_(named)


def among(connection: Connection, tenant: str, where: TaskFilter, ids: Sequence[str]) -> Sequence[Condition]:
    """Limit to these tasks, in a form where only their ids can lead a plan."""
    return (
        text_search.among(connection, runs.c.task_id, ids),
        IS_CURRENT,
        text_search.unindexed(runs.c.tenant) == tenant,
        *conditions(tenant, where, titled_by_reading),
    )
