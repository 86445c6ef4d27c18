"""Cancels that no undo can reverse: a step that had begun stays cancelled, and so does everything after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from duetime.scheduler.calls.bulk_change import TaskOutcome
from duetime.scheduler.chain.judgement import state_after_upstream
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.task import State
from sqlalchemy import Connection, bindparam, select

_LINKS = select(dependencies.c.task_id, dependencies.c.upstream_id, dependencies.c.after_failure).where(
    dependencies.c.task_id.in_(bindparam("task_ids", expanding=True)),
    dependencies.c.upstream_id.in_(bindparam("upstream_ids", expanding=True)),
)


def left_out(connection: Connection, cancelled: Mapping[str, TaskOutcome]) -> dict[str, TaskOutcome]:
    """Return the outcomes of a cancel, of which those have an undo whose run it would bring back."""
    may = {task_id for task_id, each in cancelled.items() if each.undo}
    ended = {task_id for task_id, each in cancelled.items() if each.record.run.state is State.CANCELLED}
    if not may or ended <= may:
        return dict(cancelled)
    rows = connection.execute(_LINKS, {"task_ids": sorted(may), "upstream_ids": sorted(ended)}).all()
    links = [(row.task_id, row.upstream_id) for row in rows if state_after_upstream(State.CANCELLED, row.after_failure)]
    while vain := {task_id for task_id, upstream_id in links if task_id in may and upstream_id in ended - may}:
        may -= vain
    return {task_id: each if task_id in may else replace(each, undo=None) for task_id, each in cancelled.items()}
