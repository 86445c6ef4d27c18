"""Changes what a task waits for; the event of the change keeps the rows as they were, by which an undo is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from duetime.scheduler import remedies
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.chain.link_change import LinkLocks, NewLinks, RelinkedChange
from duetime.scheduler.errors import Refused
from duetime.scheduler.records import Change
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.values import storable
from duetime.scheduler.store.sql.batch import Batch, together
from duetime.scheduler.store.sql.locks import lock_tasks_in_turn
from duetime.scheduler.store.statements import dependants, event_log, links, read, waiters
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.graph import cycles, held_links
from duetime.scheduler.store.statements.graph.held_links import HeldLinks, Kept, waiter_ids, waits_of
from duetime.scheduler.store.statements.signals import ended_waits, name_locks, new_waits
from duetime.scheduler.store.statements.signals.wait_rows import WAITER_IDS, NewWait
from duetime.scheduler.store.statements.undo import last_changes
from duetime.scheduler.task import Json, Run, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Table, bindparam, delete, insert, select

_INSTANTS = frozenset({"closed_at", "since", "until", "signal_at"})
_UNLINK = delete(dependencies).where(dependencies.c.task_id == bindparam("of_task"))
_LINK = Batch(insert(dependencies), [column.name for column in dependencies.c])
_NO_WAITS = delete(signal_waits).where(signal_waits.c.waiter_id.in_(WAITER_IDS))
_WAIT = Batch(insert(signal_waits), [column.name for column in signal_waits.c])
_ONCE = select(tasks.c.id).where(tasks.c.id.in_(bindparam("task_ids", expanding=True)), tasks.c.repeat.is_(None))
_OPEN: dict[str, Any] = dict.fromkeys(("closed_at", "outcome", "ended_run", "mismatch"))
_NO_QUESTION = delete(approvals).where(approvals.c.run_id == bindparam("of_run"), approvals.c.attempt == 0)


class Relinked(NamedTuple):
    """A change of the links of a task, as it was written.

    `upstream_ids` are the tasks that it came after before the change or comes after now. `before` and `after` are shown
    by the event of the change. `undecided`: every upstream is open and no event is awaited, so the run only waits.
    """

    upstream_ids: Sequence[str]
    before: Mapping[str, Json]
    after: Mapping[str, Json]
    undecided: bool


def lock(connection: Connection, tenant: str, locks: LinkLocks) -> None:
    """Lock what a change of links touches. Two of one tenant take turns: each might close the other's cycle."""
    name_locks.share(connection, [(tenant, name) for name in locks.events])
    digest = blake2b(storable(f"links\n{tenant}").encode(), digest_size=8).digest()
    lock_tasks_in_turn(connection, int.from_bytes(digest, signed=True), locks.task_ids)


def locks_of_undo(connection: Connection, tenant: str, task_id: str) -> LinkLocks | None:
    """Return what an undo of the latest change of a task locks first; None where that was no change of links.

    A later change cannot be meant: the token of an undo names the revision that its change made.
    """
    task = read.record(connection, tenant, task_id).task
    last = last_changes.last_changes(connection, [task]).get(task_id)
    if last is None or last.links is None:
        return None
    rows: Kept = last.links
    return LinkLocks((task_id, *(row["upstream_id"] for row in rows["after"])), _awaited(rows))


def _awaited(rows: Kept) -> tuple[str, ...]:
    """Return the names of the events that kept rows wait for."""
    waits = (*rows["waits"], *rows.get("run_waits", ()))
    return tuple(row["name"] for row in waits if row["closed_at"] is None)


def held(connection: Connection, record: TaskRecord, change: Change) -> HeldLinks | None:
    """Return what the task waited for before a change of its links; None for any other change."""
    return held_links.read(connection, record.task.id, record.run) if isinstance(change, RelinkedChange) else None


def is_empty(record: TaskRecord, change: Change, run: Run, had: HeldLinks | None) -> bool:
    """Whether a change, which leaves the task as it is, leaves `run` as it is or asks for links that there are."""
    if had is None or not isinstance(change, RelinkedChange) or change.links is None:
        return run == record.run and had is None
    found = change.links
    if run.scheduled_for != record.run.scheduled_for:
        return False
    if found.after is None or found.wait or found.no_wait or found.approval:
        return found == NewLinks() or (found == NewLinks(no_wait=True) and not had.kept["waits"])
    have = {(row["upstream_id"], row["after_failure"], _frozen(row["valid_output"])) for row in had.kept["after"]}
    return have == {(each.upstream_id, each.after_failure, _frozen(each.valid_output)) for each in found.after}


def _frozen(schema: Mapping[str, Any] | None) -> str:
    return repr(schema) if schema else ""


def write(
    connection: Connection, record: TaskRecord, change: Change, had: HeldLinks | None, now: datetime
) -> Relinked | None:
    """Store what a task waits for from now on; None for any other change. Raises InvalidArgument, and Refused."""
    if had is None or not isinstance(change, RelinkedChange):
        return None
    has = before = had.kept
    if change.links is not None:
        has = {**before, **_relink(connection, change, change.links, had, now)}
    elif change.before is not None:
        _restore(connection, change.task, record.run, change.before, now)
        has = held_links.read(connection, change.task.id, record.run).kept
    upstreams = {row["upstream_id"] for each in (before, has) for row in each["after"]}
    names = held_links.step_names(connection, change.task.id) if had.is_step else {}
    shown, after = _shown(before, has, names)
    return Relinked(sorted(upstreams), {**shown, event_log.LINKS: before}, after, _is_undecided(has))


def _is_undecided(has: Kept) -> bool:
    outcomes = [row["outcome"] for row in has["after"]]
    return bool(outcomes) and not any(outcomes) and not has["waits"]


def with_links(entries: list[event_log.EventValues], relinked: Relinked | None) -> list[event_log.EventValues]:
    """Return the events of a change, the first one with what the task waited for, and waits for."""
    if relinked is None:
        return entries
    first, *rest = entries
    sides = {"before": relinked.before, "after": relinked.after}
    return [{**first, **{name: {**(first[name] or {}), **side} for name, side in sides.items()}}, *rest]


def settle(connection: Connection, relinked: Relinked, task_id: str, now: datetime) -> bool:
    """Judge the run by what it waits for now, and place those above it; return whether the run may have moved."""
    ended = waiters.note_above(connection, relinked.upstream_ids)
    if relinked.undecided and not ended:
        return False
    dependants.follow(connection, ended, now)
    dependants.follow(connection, dependants.settle_waiting(connection, [task_id], now), now)
    return True


def _relink(connection: Connection, change: Change, new: NewLinks, had: HeldLinks, now: datetime) -> dict[str, Any]:
    """Store the new links; return those rows of what the task waits for that differ from those it `had`."""
    task, changed = change.task, dict[str, Any]()
    if new.after is not None:
        cycles.check(connection, task.id, [each.upstream_id for each in new.after if had.is_followed])
        changed["after"] = _replace_links(connection, task, had.kept["after"], new.after)
    if new.wait is not None or new.no_wait:
        connection.execute(_NO_WAITS, {"waiter_ids": waiter_ids(task.id)})
        if new.wait is not None:
            new_waits.add(connection, [NewWait(task.tenant, task.id, task.id, new.wait)], now)
        changed["waits"] = waits_of(connection, task.id)
    if new.approval is not None:
        if had.kept["asked"]:
            text = f"{task.id} has its question already, which only the user answers."
            raise Refused(text, argument="approval", remedy=remedies.Inspect(task.id))
        questions.ask(connection, [(task, change.run, new.approval)])
        changed["asked"] = True
    return changed


def _replace_links(
    connection: Connection, task: Task, old: Sequence[Mapping[str, Any]], after: Sequence[Dependency]
) -> list[dict[str, Any]]:
    """Store new dependencies, and return their rows; one that stays keeps how its upstream ended."""
    stored = {row["upstream_id"]: row for row in old}
    rows = []
    for each in sorted(after, key=lambda link: link.upstream_id):
        row = {"task_id": task.id, "upstream_id": each.upstream_id, "tenant": task.tenant, **_OPEN}
        row |= {"after_failure": each.after_failure, "valid_output": each.valid_output}
        before = stored.get(each.upstream_id)
        same = before and before["valid_output"] == each.valid_output
        rows.append(row | ({name: before[name] for name in _OPEN} if before and same else {}))
    if old:
        connection.execute(_UNLINK, {"of_task": task.id})
    if rows:
        new = _LINK, [_from_json(dependencies, row) for row in rows]
        together(connection, new, links.followed_marks(row["upstream_id"] for row in rows))
    return rows


def _restore(connection: Connection, task: Task, run: Run, links: Mapping[str, Any], now: datetime) -> None:
    """Store the rows again that an event kept; what has ended or come since is found as it would have been.

    Raises Refused where that would close a cycle.
    """
    cycles.check_undo(connection, task.id, [row["upstream_id"] for row in links["after"]])
    connection.execute(_UNLINK, {"of_task": task.id})
    rows = [_from_json(dependencies, row) for row in links["after"]]
    again = _run_again(connection, rows)
    _LINK.run(connection, [row | _OPEN if row["upstream_id"] in again else row for row in rows])
    _restore_waits(connection, task, task.id, links["waits"])
    if links.get("run_waits"):
        _restore_waits(connection, task, run.id, links["run_waits"])
    if not links["asked"]:
        questions.close(connection, [run.id], now)
        connection.execute(_NO_QUESTION, {"of_run": run.id})


def _restore_waits(connection: Connection, task: Task, waiter_id: str, waits: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(_NO_WAITS, {"waiter_ids": waiter_ids(waiter_id)})
    _WAIT.run(connection, [_from_json(signal_waits, row) for row in waits])
    if any(row["closed_at"] is None for row in waits):
        ended_waits.reopen(connection, task.tenant, task.id, waiter_id)


def _run_again(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the tasks that were run again after their end; a next occurrence of a series does not count."""
    closed = {row["upstream_id"]: row["closed_at"] for row in rows if row["closed_at"]}
    wanted, _ = event_log.begun_again_at(connection, sorted(closed))
    again = [task_id for task_id, at in wanted.items() if at >= closed[task_id]]
    return set(connection.execute(_ONCE, {"task_ids": again}).scalars()) if again else set()


def _from_json(of_table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row; columns that came since are empty."""
    values = {column.name: row.get(column.name) for column in of_table.c}
    return {
        name: datetime.fromisoformat(value) if name in _INSTANTS and value else value for name, value in values.items()
    }


def _shown(
    had: Mapping[str, Any], has: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the parts of the event that people read; steps of the same chain by their names."""
    sides: list[dict[str, Json]] = [
        {
            "after": sorted(names.get(row["upstream_id"], row["upstream_id"]) for row in each["after"]) or None,
            "wait_for": ", ".join(row["name"] for row in each["waits"]) or None,
        }
        for each in (had, has)
    ]
    changed = [name for name in sides[0] if sides[0][name] != sides[1][name]]
    before, after = ({name: side[name] for name in changed} for side in sides)
    return before, after
