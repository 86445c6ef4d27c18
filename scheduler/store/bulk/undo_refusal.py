"""Cancels that no undo can reverse: a step that had begun stays cancelled, and so does everything after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from duetime.scheduler.calls.bulk_change import TaskOutcome
from duetime.scheduler.chain.judgement import DependencyLink, prevents_run
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.statements.endings import past_ends
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
    found: dict[str, list[DependencyLink]] = {}
    for row in rows:
        at = cancelled[row.upstream_id].record.run.ended_at
        link = DependencyLink(row.upstream_id, None, row.after_failure, State.CANCELLED, at=at)
        found.setdefault(row.task_id, []).append(link)
    binding = past_ends.without(connection, found)
    links = [(task_id, each.upstream_id) for task_id, those in binding.items() for each in those if prevents_run(each)]
    while vain := {task_id for task_id, upstream_id in links if task_id in may and upstream_id in ended - may}:
        may -= vain
    return {task_id: each if task_id in may else replace(each, undo=None) for task_id, each in cancelled.items()}
