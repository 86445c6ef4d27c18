"""Conditions that stored rows must meet, as SQL that both databases understand.

The database enforces keys and most references itself. All else is guarded by the statements and their contract suites,
because a CHECK costs each write more than the write of an index. `duetime doctor --deep` looks for rows that break it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import LEGAL_MOVES, OPEN, TERMINAL
from duetime.scheduler.task import DeliveryState, State

TIMER_STATES = (State.SCHEDULED, State.SUSPENDED, State.RETRYING)
"""The states that wait for a time: `wake_at` is only set in these."""


def _listed(words: Iterable[StrEnum]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def _moves() -> str:
    cases = "".join(
        f" WHEN '{before}' THEN to_state IN ({_listed(LEGAL_MOVES[before])})"
        for before in State
        if before not in TERMINAL
    )
    return (
        f"CASE WHEN from_state IS NULL THEN to_state IS NULL OR to_state IN ({_listed(LEGAL_MOVES[None])})"
        f" WHEN to_state IS NULL THEN false ELSE CASE from_state{cases} ELSE false END END"
    )


LEGAL_MOVE = _moves()
"""The table of legal moves (`rules.states.LEGAL_MOVES`), for a row of `events`."""


def _in(table: str, **equal: str) -> str:
    """Return whether a row of another table exists, by its columns."""
    conditions = " AND ".join(f"{table}.{column} = {value}" for column, value in equal.items())
    return f"EXISTS (SELECT 1 FROM {table} WHERE {conditions})"  # nosec B608 # noqa: S608 - words of this module


@dataclass(frozen=True, slots=True)
class Invariant:
    """A condition that each row of a table meets, what a row that breaks it is called, and what to do about it."""

    table: str
    holds: str
    broken: str
    remedy: str


_RESTORE = "Restore what is missing from a backup"
_NEWER = "Upgrade this Duetime if a newer one wrote it; else restore the row from a backup."
_HISTORY = "`duetime history TASK` shows what happened to it."


def _refers(table: str, column: str, to: str, *, key: str = "id") -> Invariant:
    remedy = f"{_RESTORE}, or delete these rows of {table}: nothing else refers to them."
    exists = f"{table}.{column} IS NULL OR {_in(to, **{key: f'{table}.{column}'})}"
    return Invariant(table, exists, f"names a {column.removesuffix('_id')} that does not exist", remedy)


_OPEN_ATTEMPT = (
    "EXISTS (SELECT 1 FROM attempts"
    " WHERE attempts.run_id = runs.id AND attempts.number = runs.attempt AND attempts.ended_at IS NULL)"
)
_WAITS = (
    "EXISTS (SELECT 1 FROM dependencies JOIN runs AS ending ON ending.task_id = dependencies.upstream_id"
    " WHERE dependencies.task_id = runs.task_id AND dependencies.closed_at IS NULL"
    " AND ending.current AND ending.ended_at IS NULL)"
    " OR EXISTS (SELECT 1 FROM approvals WHERE approvals.run_id = runs.id AND approvals.closed_at IS NULL)"
    " OR EXISTS (SELECT 1 FROM signal_waits"
    " WHERE signal_waits.waiter_id IN (runs.task_id, runs.id) AND signal_waits.closed_at IS NULL)"
)
_COMES_AFTER_ITSELF = (
    "EXISTS (WITH RECURSIVE above (id) AS ("
    "SELECT direct.upstream_id FROM dependencies AS direct WHERE direct.task_id = dependencies.task_id UNION"
    " SELECT further.upstream_id FROM above JOIN dependencies AS further ON further.task_id = above.id"
    ") SELECT 1 FROM above WHERE above.id = dependencies.task_id)"
)
_EVENT_CAME = (
    "EXISTS (SELECT 1 FROM signals WHERE signals.tenant = signal_waits.tenant AND signals.name = signal_waits.name"
    " AND signals.at >= signal_waits.since)"
)
"""Enough for a wait without `match`; what others are compared with is not known to SQL."""

_RUN_OF_ATTEMPT = _in("runs", id="attempts.run_id", attempt="attempts.number", state=f"'{State.RUNNING}'")

_EARLIER = (
    "EXISTS (SELECT 1 FROM events AS earlier WHERE earlier.task_id = events.task_id AND earlier.seq = events.seq - 1)"
)
_CUT = "EXISTS (SELECT 1 FROM tasks WHERE tasks.id = events.task_id AND events.seq <= tasks.history_from)"
"""Retention deleted events before this one."""

_RUNS_DELETED = "EXISTS (SELECT 1 FROM tasks WHERE tasks.id = events.task_id AND tasks.history_from IS NOT NULL)"
"""Retention deleted earlier runs of the task, or events; those of deleted runs may stay."""

INVARIANTS = (
    Invariant(
        "tasks",
        "EXISTS (SELECT 1 FROM runs WHERE runs.task_id = tasks.id AND runs.current)",
        "has no current run, so that no list shows it and it never runs",
        f"{_RESTORE}, or make its latest row of runs current.",
    ),
    Invariant(
        "runs",
        _in("tasks", id="runs.task_id", tenant="runs.tenant"),
        "belongs to no task of its tenant",
        f"{_RESTORE}, or delete these runs with their events and attempts.",
    ),
    Invariant("runs", f"state IN ({_listed(State)})", "is in an unknown state", _NEWER),
    Invariant(
        "runs",
        f"(ended_at IS NULL) = (state IN ({_listed(OPEN)}))",
        "has an end although its state is open, or none although it is terminal",
        f"Set ended_at to the time of its last event, or to NULL while it is open. {_HISTORY}",
    ),
    Invariant(
        "runs",
        f"CASE WHEN state IN ({_listed(TIMER_STATES)}) THEN wake_at IS NOT NULL OR paused ELSE wake_at IS NULL END",
        "waits for a time that it does not have, or has one although it does not wait",
        f"Set wake_at to the time when it is due again, or to NULL unless it waits. {_HISTORY}",
    ),
    Invariant(
        "runs",
        f"state <> '{State.RUNNING}' OR worker IS NOT NULL AND lease_until IS NOT NULL AND {_OPEN_ATTEMPT}",
        "is running without a worker, a lease or an open attempt",
        "Stop its worker, then set state to 'ready': it starts again as its next attempt.",
    ),
    Invariant(
        "attempts",
        f"ended_at IS NOT NULL OR {_RUN_OF_ATTEMPT}",
        "is open although its run is not running it",
        f"Set its ended_at and outcome. {_HISTORY}",
    ),
    _refers("attempts", "run_id", "runs"),
    _refers("events", "task_id", "tasks"),
    Invariant(
        "events",
        f"events.run_id IS NULL OR {_in('runs', id='events.run_id')} OR {_RUNS_DELETED}",
        "names a run that does not exist",
        f"{_RESTORE}, or delete these rows of events: nothing else refers to them.",
    ),
    Invariant("events", f"kind IN ({_listed(EventKind)})", "is of an unknown kind", _NEWER),
    Invariant(
        "events",
        LEGAL_MOVE,
        "reports a move that no run may make",
        f"Restore its run and this event from a backup, after a look at what wrote it. {_HISTORY}",
    ),
    Invariant(
        "events",
        f"seq = 1 OR {_EARLIER} OR {_CUT}",
        "has no event before it, so that a part of the history is lost",
        f"{_RESTORE}; the task itself goes on.",
    ),
    _refers("task_labels", "task_id", "tasks"),
    _refers("idempotency_keys", "task_id", "tasks"),
    _refers("dead_letters", "task_id", "tasks"),
    _refers("dead_letters", "run_id", "runs"),
    _refers("inbox", "task_id", "tasks"),
    _refers("inbox", "run_id", "runs"),
    _refers("deliveries", "task_id", "tasks"),
    _refers("deliveries", "run_id", "inbox", key="run_id"),
    Invariant("deliveries", f"state IN ({_listed(DeliveryState)})", "is in an unknown state", _NEWER),
    _refers("dependencies", "task_id", "tasks"),
    Invariant(
        "dependencies",
        f"NOT {_COMES_AFTER_ITSELF}",
        "comes after itself, directly or behind others, so that it may wait for ever",
        "`duetime reschedule TASK --remove after` lets one task of the cycle go.",
    ),
    _refers("signal_waits", "task_id", "tasks"),
    Invariant(
        "signal_waits",
        f"closed_at IS NOT NULL OR CAST(wanted AS TEXT) <> '{{}}' OR NOT {_EVENT_CAME}",
        "is open although its event has come, so that it lasts until its timeout",
        "Send the event once more, or let its task run with `duetime run-now TASK`.",
    ),
    _refers("follow_ups", "task_id", "tasks"),
    _refers("spawned_tasks", "task_id", "tasks"),
    _refers("fire_addresses", "task_id", "tasks"),
    Invariant(
        "runs",
        f"state <> '{State.WAITING}' OR NOT current OR {_WAITS}",
        "waits for other tasks, an approval or an event, but all of that has come",
        "Start `duetime serve` or a worker: within a minute it continues by itself.",
    ),
    _refers("approvals", "run_id", "runs"),
    _refers("tracebacks", "run_id", "runs"),
    _refers("run_logs", "run_id", "runs"),
    _refers("usage", "run_id", "runs"),
)
