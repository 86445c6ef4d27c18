"""PostgreSQL: any number of new tasks by one prepared statement, whose one parameter is a JSON array of rows of text.

Each row has everything of one task, and is read once. A table of rows for each table of the database had to be joined
with every other one. That cost more the more tasks there were.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

from duetime.scheduler.chain.dependency import upstreams_within
from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.store.postgres.add_one import KEY_IS_FREE
from duetime.scheduler.store.schema.rows import NEW_RUN_VALUES, NEW_TASK_VALUES, new_run_row, new_task_row
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.events import keys as key_table
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import encode, instant_text
from duetime.scheduler.store.sql.prepared_statement import PreparedStatement, RowTexts, TextWriter
from duetime.scheduler.store.statements import event_log, idempotency
from duetime.scheduler.store.statements.idempotency import KEY_KEPT_AFTER_END, NATURAL_KEY_KEPT_AFTER_END, name_of
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql

_KEY = ("key", "fingerprint", "expires_at", "derived", "look_at")
_EVENT = ("actor", "after", "via")
_PARTS: Mapping[str, tuple[Table, Sequence[str]]] = {
    "": (tasks, NEW_TASK_VALUES),
    "run_": (runs, NEW_RUN_VALUES),
    "key_": (key_table, _KEY),
    "event_": (events, _EVENT),
}
"""The columns of a row in their order, by the prefix of their names in the statement."""


def _columns() -> Iterator[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for it
    names = [(prefix, table, name) for prefix, (table, names) in _PARTS.items() for name in names]
    for place, (prefix, table, name) in enumerate(names):
        yield f'(line->>{place})::{table.c[name].type.compile(dialect)} AS "{prefix}{name}"'


def _selected(prefix: str, names: Sequence[str]) -> str:
    return ", ".join(f'"{prefix}{name}"' for name in names)


def _named(names: Sequence[str]) -> str:
    return _selected("", names)


# Tables: idempotency_keys, tasks, runs, task_labels, events; all are written, runs and tasks are read.
# Parameters: `lines`, an array with an array of texts for each task, ordered by key: locks taken in one order never
#   deadlock. `now`. `cutoff`: keys of tasks that ended before it are free. `natural_cutoff`: the same for keys of
#   templates. `twins`: whether to look for a twin.
# Sees: what was committed when it began, and each key as it is once every other call with it has ended.
# Returns: the id of each task whose key did not hold, and that of its twin.
# Why: as `add_one`, its twin for a single task, which has the reasons.
ADD_MANY = PreparedStatement.of(
    f"""
WITH given AS MATERIALIZED (
    SELECT {", ".join(_columns())}
    FROM jsonb_array_elements(:lines::jsonb) AS line
), claimed AS (
    INSERT INTO idempotency_keys AS held (tenant, key, task_id, fingerprint, expires_at, derived, look_at)
    SELECT tenant, key_key, id, key_fingerprint, key_expires_at, key_derived, key_look_at
    FROM given WHERE key_key IS NOT NULL
    ON CONFLICT (tenant, key) DO UPDATE SET
        task_id = excluded.task_id, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at,
        derived = excluded.derived, revision = excluded.revision, look_at = excluded.look_at
    WHERE {KEY_IS_FREE}
    RETURNING task_id
), new AS MATERIALIZED (
    SELECT * FROM given WHERE key_key IS NULL OR id IN (SELECT task_id FROM claimed)
), task AS (
    INSERT INTO tasks ({_named(NEW_TASK_VALUES)})
    SELECT {_selected("", NEW_TASK_VALUES)} FROM new
), run AS (
    INSERT INTO runs ({_named(NEW_RUN_VALUES)})
    SELECT {_selected("run_", NEW_RUN_VALUES)} FROM new
), label AS (
    INSERT INTO task_labels (tenant, label, task_id)
    SELECT DISTINCT tenant, label, id FROM new, jsonb_array_elements_text(labels) AS label
), event AS (
    INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, from_state, to_state, after, revision, via)
    SELECT tenant, id, run_id, 1, :now, 'created', event_actor, NULL,
        CASE run_state WHEN 'ready' THEN 'scheduled' ELSE run_state END, event_after, revision, event_via
    FROM new
    UNION ALL
    SELECT tenant, id, run_id, 2, :now, 'ready', 'duetime', 'scheduled', 'ready', NULL, NULL, NULL
    FROM new WHERE run_state = 'ready'
)
SELECT id, CASE WHEN :twins::boolean THEN (
    SELECT alike.task_id
    FROM (SELECT * FROM runs  -- pairs: no other index can serve them, however little the server has counted
          WHERE (twin_hash, scheduled_for) >= (run_twin_hash, run_scheduled_for)
              AND (twin_hash, scheduled_for) <= (run_twin_hash, run_scheduled_for) OFFSET 0) AS alike
    WHERE alike.current AND alike.ended_at IS NULL AND alike.listed_at = alike.scheduled_for
        AND (SELECT tasks.tenant = new.tenant AND tasks.owner = new.owner AND tasks.title_folded = new.title_folded
             FROM tasks WHERE tasks.id = alike.task_id)
    LIMIT 1) END
FROM new
"""  # nosec B608 # noqa: S608 - names of columns
)

_TASK, _RUN, _OF_KEY, _OF_EVENT = (TextWriter(table, names) for table, names in _PARTS.values())
_key_values, _event_values = itemgetter(*_KEY), itemgetter(*_EVENT)
_NO_KEY: RowTexts = [None] * len(_KEY)


def insert(
    connection: Connection,
    items: Sequence[NewTask],
    entries: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    """Store the tasks whose keys do not hold; returns the answers by their ids."""
    created = {entry["task_id"]: entry for entry in reversed(entries)}
    keyed = sorted((name_of(item), item.task.id, item) for item in items if item.key)
    ordered = [item for item in items if not item.key] + list(map(itemgetter(2), keyed))
    followed = upstreams_within(items)
    values = {
        "lines": encode([_line(item, created[item.task.id], followed) for item in ordered]),
        "now": instant_text(now),
        "cutoff": instant_text(now - KEY_KEPT_AFTER_END),
        "natural_cutoff": instant_text(now - NATURAL_KEY_KEPT_AFTER_END),
        "twins": "t" if twins else "f",
    }
    by_id = {item.task.id: item for item in items}
    return {
        task_id: Added(TaskRecord(by_id[task_id].task, by_id[task_id].run), created=True, twin=twin)
        for task_id, twin in ADD_MANY.rows(connection, values)
    }


def _line(item: NewTask, created: event_log.EventValues, followed: Container[str]) -> RowTexts:
    """Return the texts of one task, in the order of the statement's columns."""
    task, run = item.task, item.run
    return [
        *_TASK.written(new_task_row(task, followed)),
        *_RUN.written(new_run_row(task, run)),
        *_key(item),
        *_OF_EVENT.written(_event_values(created)),
    ]


def _key(item: NewTask) -> RowTexts:
    if item.key is None:
        return _NO_KEY
    return _OF_KEY.written(_key_values(idempotency.key_row(item.task, item.key, item.task.created_at)))
