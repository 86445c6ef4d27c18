"""Dead letters of all tenants: lists, and the two ways to close one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.history.dead_letters import (
    ClosedLetter,
    ClosingKey,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterNotFound,
    EarlierClosing,
)
from duetime.scheduler.ids import is_id
from duetime.scheduler.principal import Acting
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.store.audit import entries
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.dead_letters import repeated_calls, selection
from duetime.scheduler.store.lists import event_list
from duetime.scheduler.store.lists.tenant_counts import NO_GROWTH, Growth, admit_change
from duetime.scheduler.store.schema.rows import DEAD_LETTER, RUN_FIELDS
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.schema.values import to_microseconds
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.store.sql.unindexed_column import unindexed
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import read, repair
from duetime.scheduler.store.statements.endings import letters as ends
from duetime.scheduler.task import Json, Run
from duetime.scheduler.views import TaskRecord
from sqlalchemy import BindParameter, Connection, Row, Select, bindparam, select, tuple_, update

LETTERS_PER_READ = 100
_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_FAILED = select(*RUN_FIELDS).where(runs.c.id.in_(_IDS))
_LETTERS: Select[Any] = select(
    dead_letters.c.run_id, dead_letters.c.task_id, dead_letters.c.closed_at, dead_letters.c.replayed_as
).where(unindexed(dead_letters.c.tenant) == bindparam("tenant"), dead_letters.c.run_id.in_(_IDS))


TriedLetter = str | Refused | DeadLetterNotFound
"""The task of a letter that a trial could close, or why not."""


class TriedReplays(NamedTuple):
    """Replays that were only tried: each letter, the tasks as they are left, and the growth by all of the trial."""

    found: Mapping[str, TriedLetter]
    changed: Mapping[str, TaskRecord]
    growth: Growth = NO_GROWTH


NONE_TRIED = TriedReplays({}, {})


class DeadLetters:
    """Runs that are out of attempts. A letter is closed once: by a replay, or by a discard."""

    def __init__(self, database: Database, now: Callable[[], datetime], cursors: Cursors, commits: Commits) -> None:
        self._database = database
        self._commits = commits
        self._now = now
        self._cursors = cursors

    def page(
        self,
        tenant: str | None,
        where: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008 - a frozen value
        *,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[DeadLetter], str | None]:
        """Return letters, newest first, with every attempt; and the cursor of the next page.

        Of all tenants for None. Raises `InvalidArgument` for a cursor of another list.
        """
        of = ("dead letters", tenant, where)
        behind = self._cursors.read(cursor, of=of)
        statement = select(*DEAD_LETTER).where(*selection.matching(tenant, where))
        statement = event_list.behind_in_time(statement, selection.LETTER_KEY, behind).limit(limit + 1)
        found = self._database.read(lambda connection: selection.read(connection, statement))
        if len(found) <= limit:
            return found, None
        last = found[limit - 1]
        return found[:limit], self._cursors.write([to_microseconds(last.at), last.run_id], of=of)

    def get(self, tenant: str | None, run_id: str) -> DeadLetter:
        """Return the letter of a run; raises `DeadLetterNotFound`."""
        of_run = [dead_letters.c.run_id == run_id, *selection.matching(tenant, DeadLetterFilter(state=None))]
        statement = select(*DEAD_LETTER).where(*of_run)
        found = self._database.read(lambda connection: selection.read(connection, statement)) if is_id(run_id) else []
        if not found:
            raise DeadLetterNotFound(run_id)
        return found[0]

    def count(self, tenant: str | None, where: DeadLetterFilter, *, replayed_below: int | None = None) -> int:
        """Return how many letters match, up to MAX_LETTERS_COUNTED; of runs with fewer replays where given.

        Of all tenants for None.
        """
        number = selection.counted(tenant, where, replayed_below)
        return self._database.look(lambda connection: connection.execute(select(number)).scalar_one())

    def counts(self, tenant: str, where: DeadLetterFilter, *, replayed_below: int) -> tuple[int, ...]:
        """Return `count` of all that match and of those with fewer replays, both as they are at one moment."""
        both = select(selection.counted(tenant, where), selection.counted(tenant, where, replayed_below))
        return self._database.read(lambda connection: tuple(connection.execute(both).one()))

    def ids(self, tenant: str, where: DeadLetterFilter, *, replayed_below: int | None = None) -> Iterator[str]:
        """Yield the runs of letters that match, oldest first, read in parts; a letter may be closed in between."""
        conditions = selection.matching(tenant, where, replayed_below)
        every = select(*selection.LETTER_KEY).where(*conditions).order_by(*selection.LETTER_KEY).limit(LETTERS_PER_READ)
        types = [column.type for column in selection.LETTER_KEY]
        statement = every
        while found := self._database.look(partial(_rows, statement=statement)):
            yield from (run_id for _, run_id in found)
            statement = every.where(tuple_(*selection.LETTER_KEY) > tuple_(*found[-1], types=types))

    def try_replays(
        self,
        tenant: str,
        run_ids: Sequence[str],
        decide: Callable[[TaskRecord], Change],
        *,
        earlier: TriedReplays,
        left: Callable[[TaskRecord, Change], TaskRecord],
    ) -> TriedReplays:
        """Return what `replay` of each would do after the `earlier` ones of a trial, and store nothing.

        `left` returns a task as a replay leaves it.
        """

        def work(connection: Connection) -> TriedReplays:
            rows, found, growth = _letters(connection, tenant, run_ids), dict[str, TriedLetter](), earlier.growth
            records = read.records(connection, {row.task_id for row in rows.values()}) | {**earlier.changed}
            failed = _failed(connection, list(rows))
            for run_id in run_ids:
                try:
                    task_id = found[run_id] = _open_task(rows, run_id)
                    record = records[task_id]
                    change = _decided(connection, record, failed[run_id], decide)
                    now, kind = self._now(), EventKind.RUN_NOW
                    growth = admit_change(connection, record, change, kind, now, dry_run=True, earlier=growth)
                    records[task_id] = left(record, change)
                except (Refused, DeadLetterNotFound) as problem:
                    found[run_id] = problem
            return TriedReplays(found, records, growth)

        return self._database.read(work)

    def open_tasks(self, tenant: str, run_ids: Sequence[str]) -> dict[str, TriedLetter]:
        """Return the task of each letter that is open, and why the others cannot be closed."""
        rows = self._database.look(lambda connection: _letters(connection, tenant, run_ids))
        found = dict[str, TriedLetter]()
        for run_id in run_ids:
            try:
                found[run_id] = _open_task(rows, run_id)
            except (Refused, DeadLetterNotFound) as problem:
                found[run_id] = problem
        return found

    def open_runs(self, tenant: str, task_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the runs with an open letter of these tasks, by task."""
        return self._database.look(lambda connection: selection.open_runs(connection, tenant, task_ids))

    def failed_runs(self, tenant: str, task_ids: Sequence[str]) -> dict[str, Run]:
        """Return the runs of the newest open letters of these tasks, by task."""
        return self._database.look(lambda connection: ends.failed_runs(connection, tenant, task_ids))

    def replays(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return how many replays led to each of these runs, without those of none."""
        return self._database.look(lambda connection: selection.replays(connection, run_ids))

    def closed_by(self, tenant: str, key: ClosingKey, most: int) -> EarlierClosing:
        """Return up to `most` letters that calls with this key closed. Raises `ClosingConflict` for another call's."""
        now = self._now()
        return self._database.read(lambda connection: repeated_calls.closed(connection, tenant, key, most, now))

    def replay(
        self,
        tenant: str,
        run_id: str,
        entry: AuditEntry,
        decide: Callable[[TaskRecord], Change],
        key: ClosingKey | None = None,
    ) -> ClosedLetter:
        """Store the run that `decide` makes, close the letter, and store the audit entry: all in one transaction.

        Raises `DeadLetterNotFound`, and `Refused` for a letter that is closed or a task that cannot run again.
        """

        def work(connection: Connection) -> ClosedLetter:
            task_id, now = _task_of(connection, tenant, run_id), self._now()
            record = read.locked_record(connection, tenant, task_id)
            actor: Acting = {"actor": entry.actor, "via": entry.via}
            if record.damage:
                record = repair.mended(connection, record, EventKind.RUN_NOW, actor, now)
            _open_task(_letters(connection, tenant, [run_id]), run_id)
            change = _decided(connection, record, _failed(connection, [run_id])[run_id], decide)
            admit_change(connection, record, change, EventKind.RUN_NOW, now)
            replayed = change.extra_run or change.next_run
            assert replayed is not None
            number = selection.replays(connection, [run_id]).get(run_id, 0) + 1
            _close(connection, tenant, run_id, now, replayed_as=replayed.id, replay_number=number)
            changing.apply(
                connection, record, change, ChangeOrigin(kind=EventKind.RUN_NOW, reason=entry.reason, **actor), now
            )
            detail: dict[str, Json] = {"task_id": task_id, "replayed_as": replayed.id, "replay_number": number}
            entries.store(connection, replace(entry, detail=detail), now)
            repeated_calls.store(connection, tenant, key, (task_id, run_id), now)
            goes_on = change.extra_run is not None and record.run.ended_at is None
            return ClosedLetter(run_id, task_id, replayed.id, record.run.scheduled_for if goes_on else None)

        return self._commits.write(work)

    def discard(self, tenant: str, run_id: str, entry: AuditEntry, key: ClosingKey | None = None) -> ClosedLetter:
        """Close a letter without a run, and store the audit entry in the same transaction; raises as `replay` does."""

        def work(connection: Connection) -> ClosedLetter:
            task_id, now = _task_of(connection, tenant, run_id), self._now()
            _close(connection, tenant, run_id, now)
            entries.store(connection, replace(entry, detail={"task_id": task_id}), now)
            repeated_calls.store(connection, tenant, key, (task_id, run_id), now)
            return ClosedLetter(run_id, task_id)

        return self._database.write(work)


def _rows(connection: Connection, statement: Select[Any]) -> list[tuple[datetime, str]]:
    return [(at, run_id) for at, run_id in connection.execute(statement).all()]


def _failed(connection: Connection, run_ids: Sequence[str]) -> dict[str, Run]:
    found = unreadable.values(connection, _FAILED, Run, RUN_FIELDS, {"run_ids": list(run_ids)})
    return {run.id: run for run, _ in found}


def _decided(connection: Connection, record: TaskRecord, failed: Run, decide: Callable[[TaskRecord], Change]) -> Change:
    return _completing(failed, decide(read.since(connection, record, failed)))


def _completing(failed: Run, change: Change) -> Change:
    """Return the change with a run that does again what the failed one did not complete, under its idempotency key."""
    of_it: dict[str, Any] = {"repeats": failed.repeats or failed.id}
    if change.task.key_template:
        of_it |= {"occurrence": failed.occurrence or failed.slot or failed.scheduled_for}
    if change.extra_run:
        return replace(change, extra_run=replace(change.extra_run, **of_it))
    return replace(change, next_run=replace(change.next_run, **of_it)) if change.next_run else change


def _letters(connection: Connection, tenant: str, run_ids: Sequence[str]) -> dict[str, Row[Any]]:
    given = {"tenant": tenant, "run_ids": list(filter(is_id, run_ids))}
    return {row.run_id: row for row in connection.execute(_LETTERS, given)}


def _task_of(connection: Connection, tenant: str, run_id: str) -> str:
    letter = _letters(connection, tenant, [run_id]).get(run_id)
    if letter is None:
        raise DeadLetterNotFound(run_id)
    return str(letter.task_id)


def _open_task(letters: Mapping[str, Row[Any]], run_id: str) -> str:
    """Return the task of an open letter. Raises `DeadLetterNotFound`, and `Refused` for one that is closed."""
    letter = letters.get(run_id)
    if letter is None:
        raise DeadLetterNotFound(run_id)
    if letter.closed_at is not None:
        how = f"replayed already, as {letter.replayed_as}" if letter.replayed_as else "discarded already"
        raise Refused(f"the dead letter of {run_id} was {how}.", argument="run_id")
    return str(letter.task_id)


def _close(
    connection: Connection,
    tenant: str,
    run_id: str,
    now: datetime,
    *,
    replayed_as: str | None = None,
    replay_number: int | None = None,
) -> None:
    is_open = (dead_letters.c.run_id == run_id, dead_letters.c.closed_at.is_(None))
    closed = {"closed_at": now, "replayed_as": replayed_as, "replay_number": replay_number}
    if connection.execute(update(dead_letters).where(*is_open).values(closed)).rowcount != 1:
        _open_task(_letters(connection, tenant, [run_id]), run_id)
