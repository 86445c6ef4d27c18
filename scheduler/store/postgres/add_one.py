"""PostgreSQL: one new task by one prepared statement with scalar parameters: what nearly every schedule call is.

A document of rows, as many tasks are stored by, costs the server twice as much for a single one.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from operator import attrgetter, itemgetter

from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.store.schema.rows import TASK_VALUES, listed_at, task_row, twin_hash
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.events import keys as key_table
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import instant_text
from duetime.scheduler.store.sql.prepared_statement import PreparedStatement, RowTexts, TextWriter
from duetime.scheduler.store.statements import event_log, idempotency
from duetime.scheduler.store.statements.idempotency import KEY_KEPT_AFTER_END, NATURAL_KEY_KEPT_AFTER_END
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection

KEY_IS_FREE = """
        held.expires_at <= :now
        OR held.derived AND 'cancelled' = (SELECT state FROM runs WHERE runs.task_id = held.task_id AND runs.current)
        OR held.derived AND held.expires_at IS NOT NULL AND EXISTS (
            SELECT FROM events AS later WHERE later.task_id = held.task_id AND later.revision > 1
            AND later.actor = (SELECT actor FROM events AS first WHERE first.task_id = held.task_id AND first.seq = 1))
        OR held.expires_at IS NULL
            AND CASE WHEN held.derived THEN :natural_cutoff::timestamptz ELSE :cutoff::timestamptz END
                >= (SELECT ended_at FROM runs WHERE runs.task_id = held.task_id AND runs.current)"""
"""When the key `held` names its task no longer: as `statements/idempotency.py` decides on SQLite."""

_FIRST_RUN = ("scheduled_for", "state", "wake_at", "first_ready_at", "drop_at", "occurrence")
_KEY = ("key", "fingerprint", "expires_at", "derived", "look_at")
_EVENT = ("actor", "after", "via")

# Tables: idempotency_keys, tasks, runs, task_labels, events; all are written, runs, tasks and events are read.
# Parameters: the columns of the task and of its key by their names (`key` is NULL without one), and those of its first
#   run (`run_id` is its id). `actor`, `after`, `via` of the event. `now`. `cutoff`: keys of tasks ended before it are
#   free. `natural_cutoff`: the same for keys of templates.
# Sees: what was committed when it began, and the key as it is once every other call with it has ended.
# Returns: nothing when the key holds, else the task's id and that of its twin, if it has one.
# Plan: OFFSET 0 leaves `runs_by_twin` as the one index that fits the look for a twin, also in an empty database.
# Why: the key decides. Whoever inserts it makes the task, in the same round trip and the same transaction.
ADD_ONE = PreparedStatement.of(
    f"""
WITH claimed AS (
    INSERT INTO idempotency_keys AS held (tenant, key, task_id, fingerprint, expires_at, derived, look_at)
    SELECT :tenant, :key, :id, :fingerprint, :expires_at, :derived, :look_at WHERE :key::text IS NOT NULL
    ON CONFLICT (tenant, key) DO UPDATE SET
        task_id = excluded.task_id, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at,
        derived = excluded.derived, revision = excluded.revision, look_at = excluded.look_at
    WHERE {KEY_IS_FREE}
    RETURNING 1
), task AS (
    INSERT INTO tasks ({", ".join(f'"{name}"' for name in TASK_VALUES)})
    SELECT {", ".join(f":{name}" for name in TASK_VALUES)}
    WHERE :key::text IS NULL OR EXISTS (SELECT FROM claimed)
    RETURNING id
), run AS (
    INSERT INTO runs (
        id, task_id, tenant, scheduled_for, state, wake_at, first_ready_at, drop_at, deadline, listed_at, twin_hash,
        occurrence, generation, number, current, attempt, failures, crashes, missed, cancel_requested)
    SELECT
        :run_id, :id, :tenant, :scheduled_for, :state, :wake_at, :first_ready_at, :drop_at, :run_deadline, :listed_at,
        :twin_hash, :occurrence, 1, 1, true, 0, 0, 0, 0, false
    FROM task
), label AS (
    INSERT INTO task_labels (tenant, label, task_id)
    SELECT :tenant, label, :id
    FROM task, (SELECT DISTINCT jsonb_array_elements_text(:labels::jsonb) AS label) AS given
), event AS (
    INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, from_state, to_state, after, revision, via)
    SELECT
        :tenant, :id, :run_id, seq, :now, kind, CASE seq WHEN 1 THEN :actor ELSE 'duetime' END, from_state, to_state,
        CASE seq WHEN 1 THEN :after::jsonb END, CASE seq WHEN 1 THEN :revision::integer END,
        CASE seq WHEN 1 THEN :via::text END
    FROM task, (VALUES (1, 'created', NULL, 'scheduled'), (2, 'ready', 'scheduled', 'ready'))
        AS move (seq, kind, from_state, to_state)
    WHERE seq = 1 OR :state = 'ready'
)
SELECT task.id, (
    SELECT alike.task_id
    FROM (SELECT * FROM runs  -- pairs: no other index can serve them, however little the server has counted
          WHERE (twin_hash, scheduled_for) >= (:twin_hash, :scheduled_for)
              AND (twin_hash, scheduled_for) <= (:twin_hash, :scheduled_for) OFFSET 0) AS alike
    WHERE alike.current AND alike.ended_at IS NULL AND alike.listed_at = alike.scheduled_for
        AND (SELECT tenant = :tenant AND owner = :owner AND title_folded = :title_folded
             FROM tasks WHERE tasks.id = alike.task_id)
    LIMIT 1)
FROM task
""",  # nosec B608 # noqa: S608 - a condition of this module and names of columns
    names=(
        *TASK_VALUES,
        *_FIRST_RUN,
        *("run_id", "run_deadline", "listed_at", "twin_hash"),
        *_KEY,
        *_EVENT,
        *("now", "cutoff", "natural_cutoff"),
    ),
)

_TASK, _RUN = TextWriter(tasks, TASK_VALUES), TextWriter(runs, _FIRST_RUN)
_OF_KEY, _OF_EVENT = TextWriter(key_table, _KEY), TextWriter(events, _EVENT)
_run_values, _key_values, _event_values = attrgetter(*_FIRST_RUN), itemgetter(*_KEY), itemgetter(*_EVENT)
_NO_KEY: RowTexts = [None] * len(_KEY)

_NOT_STORED = [item for item in fields(Run) if item.name not in ("id", "task_id", "tenant", "deadline", *_FIRST_RUN)]
_not_stored = attrgetter(*(item.name for item in _NOT_STORED))
_AS_NEW = tuple(item.default for item in _NOT_STORED)


def is_first_run(run: Run) -> bool:
    """Whether the run has nothing but what the statement stores: it waits for no task, and all else is as new."""
    return bool(_not_stored(run) == _AS_NEW) and run.state is not State.WAITING


def insert(
    connection: Connection, item: NewTask, created: event_log.EventValues, *, now: datetime, twins: bool
) -> dict[str, Added]:
    """Store the task unless its key holds; returns the answer by its id, none when it does."""
    made = ADD_ONE.rows_of(
        connection,
        [
            *_TASK.written(task_row(item.task)),
            *_run(item),
            *_key(item),
            *_OF_EVENT.written(_event_values(created)),
            instant_text(now),
            instant_text(now - KEY_KEPT_AFTER_END),
            instant_text(now - NATURAL_KEY_KEPT_AFTER_END),
        ],
    )
    record = TaskRecord(item.task, item.run)
    return {task_id: Added(record, created=True, twin=twin if twins else None) for task_id, twin in made}


def _run(item: NewTask) -> RowTexts:
    task, run = item.task, item.run
    return [
        *_RUN.written(_run_values(run)),
        run.id,
        instant_text(run.deadline) if run.deadline else None,
        instant_text(listed_at(run)),
        str(twin_hash(task.tenant, task.owner, task.title)),
    ]


def _key(item: NewTask) -> RowTexts:
    if item.key is None:
        return _NO_KEY
    return _OF_KEY.written(_key_values(idempotency.key_row(item.task, item.key, item.task.created_at)))
