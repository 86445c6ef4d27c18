"""Reads dead letters, and replays or discards them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Unpack

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.calls.bulk_change import BULK_UNDO_WINDOW, BatchWrite, Became, BulkVerb, StoredBatch
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import (
    ClosedLetter,
    ClosingKey,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterNotFound,
    EarlierClosing,
    LettersClosed,
    LetterState,
)
from duetime.scheduler.intake.bounds import Bound, Bounds
from duetime.scheduler.intake.changes.reschedule import with_stored_secrets
from duetime.scheduler.intake.validation import (
    check_filter,
    check_key_text,
    check_reason,
    page_size,
    tenant_changed,
    tenant_read,
)
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.records import Change
from duetime.scheduler.request import GivenPayload
from duetime.scheduler.rules import changes
from duetime.scheduler.service.letters.letter_call import (
    DISCARDED,
    MAX_LETTERS_CLOSED,
    REPLAYED,
    Closing,
    ClosingArguments,
    ClosingCall,
    check_none_current,
    check_one,
    named_runs,
    require_reason,
    undo_tokens,
    undone_by,
)
from duetime.scheduler.service.letters.trial import ClosingTrial
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.views import TaskRecord

PayloadCheck = Callable[[str, Mapping[str, Json], str], Mapping[str, Json]]
"""Checks the payload of an action for a tenant, and returns it with defaults; raises InvalidArgument(s)."""


class DeadLetterService:
    """Read the runs that are out of attempts, and replay or discard them."""

    def __init__(
        self,
        store: Store,
        zone: str | None,
        check_payload: PayloadCheck,
        *,
        on_change: Callable[[Sequence[str]], None],
        via: str | None,
    ) -> None:
        self._store = store
        self._zone = zone
        self._check_payload = check_payload
        self._on_change = on_change
        self._via = via

    def page(
        self,
        where: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008 - a frozen value
        *,
        since: Bound | None = None,
        until: Bound | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> tuple[Sequence[DeadLetter], str | None]:
        """Return runs that are out of attempts, newest first, and the cursor of the next page.

        Only letters that nobody has replayed or discarded, unless `where` says otherwise. `since`, `until` and `tenant`
        are as in `runs`.
        """
        check_filter(where)
        bounds = Bounds.of(cursor, self._store.now(), self._zone, since=since, until=until)
        found, following = self._store.dead_letters.page(
            tenant_read(by, tenant), replace(where, **bounds.instants), limit=page_size(limit), cursor=bounds.cursor
        )
        return found, bounds.following(following)

    def get(self, run_id: str, *, tenant: str | None = None, by: Principal = LOCAL) -> DeadLetter:
        """Return the dead letter of a run, whatever became of it. Raises DeadLetterNotFound."""
        return self._store.dead_letters.get(tenant_read(by, tenant), run_id)

    def newest_of(self, task_id: str, *, by: Principal = LOCAL) -> DeadLetter | None:
        """Return the newest open dead letter of a task, else its newest; None for one that has none."""
        of_task = (DeadLetterFilter(state=state, task_id=task_id) for state in (LetterState.OPEN, None))
        pages = (self._store.dead_letters.page(by.tenant, where, limit=1)[0] for where in of_task)
        return next((page[0] for page in pages if page), None)

    def replay(
        self,
        /,
        run_ids: Sequence[str] | None = None,
        *,
        payload: GivenPayload | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
        by: Principal = LOCAL,
        **asked: Unpack[ClosingArguments],
    ) -> LettersClosed:
        """Run dead letters once more, now: those that are named, or else the oldest of the filter, with a `reason`.

        Each becomes the next generation of its run, as by `run_now`, in a transaction of its own with its audit entry.
        A run to which three replays led is left out unless it is named. So is one whose recurring task has another run
        that has begun, is due, or was started by a replay. An empty list names no letter and is refused. A dry run
        stores nothing. A repeated call with the same `idempotency_key` finishes the first one where it was cut off, and
        returns the letters of both. After the undo it is refused. A `payload` replaces that of the one run that is
        named; the action checks it. A task that repeats keeps its own.
        """
        call = ClosingCall(REPLAYED, named_runs(run_ids), payload=payload, **asked)
        check_one(call)
        return self._call(call, tenant, by, dry_run=dry_run)

    def discard(
        self,
        /,
        run_ids: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        tenant: str | None = None,
        by: Principal = LOCAL,
        **asked: Unpack[ClosingArguments],
    ) -> LettersClosed:
        """Close dead letters that need no replay: those that are named, or else the oldest of the filter.

        They stay in the history. Each is closed in a transaction of its own with its audit entry. An empty list and an
        `idempotency_key` are as in `replay`.
        """
        call = ClosingCall(DISCARDED, named_runs(run_ids), **asked)
        return self._call(call, tenant, by, dry_run=dry_run)

    def _call(self, call: ClosingCall, tenant: str | None, by: Principal, *, dry_run: bool) -> LettersClosed:
        tenant, where = tenant_changed(by, tenant), self._wanted(call)
        check_reason(call.reason)
        check_key_text(call.idempotency_key)
        if dry_run:
            trial = ClosingTrial(self._store.dead_letters, tenant, call, partial(self._replayed, call))
            tried = Closing(trial.close, call.max_letters, trial.ahead)
            return replace(self._all(tried, call, tenant, where, None), dry_run=True)
        if not (call.kind is REPLAYED and call.run_ids):
            require_reason(call.reason)
        key = call.key()
        if key and _is_taken_back(self._store.batches.stored(tenant, call.token())):
            raise Refused("This call was taken back. Make a new one to close letters again.")

        def close(run_id: str, number: int) -> ClosedLetter:
            entry = self._entry(by, call.kind, run_id, tenant, call.reason)
            numbered = replace(key, number=number) if key else None
            if call.kind is DISCARDED:
                closed = self._store.dead_letters.discard(tenant, run_id, entry, numbered)
            else:
                replayed = partial(self._replayed, call)
                closed = self._store.dead_letters.replay(tenant, run_id, entry, replayed, numbered)
            self._on_change([closed.task_id])
            return closed

        return self._undoable(self._all(Closing(close, call.max_letters), call, tenant, where, key), call, tenant, by)

    def _undoable(self, done: LettersClosed, call: ClosingCall, tenant: str, by: Principal) -> LettersClosed:
        """Return the result with its undo, which is stored; that of an earlier call with the same key stays."""
        now, token = self._store.now(), call.token()
        found = self._store.batches.stored(tenant, token) if call.idempotency_key else []
        if _is_taken_back(found):
            return done  # by another call, a moment ago
        known = {run_id for batch in found for runs in batch.undo.values() for run_id in runs.split(",")}
        new = [letter for letter in done.closed if undone_by(letter) not in known]
        if new:
            verb = BulkVerb.DISCARD if call.kind is DISCARDED else BulkVerb.REPLAY
            undo = undo_tokens(new)
            batch = StoredBatch(verb, "", token, now, dict.fromkeys(undo, Became.CHANGED), {}, undo, tuple(undo))
            end = now + BULK_UNDO_WINDOW + changes.UNDO_GRACE
            write = BatchWrite(batch, len(found), end, by.acting(self._via), call.reason)
            self._store.batches.remember(tenant, write)
            found = [*found, batch]
        return replace(done, undo=token, undo_until=found[0].at + BULK_UNDO_WINDOW) if found else done

    def _replayed(self, call: ClosingCall, record: TaskRecord) -> Change:
        payload = call.payload
        if not call.run_ids:
            check_none_current(record)
        change = changes.replay(record, self._store.now())
        if payload is None:
            return change
        task = record.task
        if task.repeat is not None or record.renewed:
            raise Refused(
                f"{task.id} repeats: its next runs would get this payload as well; a reschedule changes it for all.",
                argument="payload",
            )
        whole = with_stored_secrets(payload, task) or {}
        return replace(change, task=replace(change.task, payload=self._check_payload(task.action, whole, task.tenant)))

    def _entry(self, by: Principal, kind: AuditKind, run_id: str, tenant: str, reason: str | None) -> AuditEntry:
        return AuditEntry.by(by.with_via(self._via), kind, run_id, tenant=tenant, reason=reason)

    def _wanted(self, call: ClosingCall) -> DeadLetterFilter:
        """Return the filter for open letters up to now: one that a replay makes is not replayed as well."""
        where = call.where
        check_filter(where)
        if not 1 <= call.max_letters <= MAX_LETTERS_CLOSED:
            accepted = f"1 to {MAX_LETTERS_CLOSED:,}"
            raise InvalidArgument("max_letters", "out of range", accepted=accepted, example="max_letters=100")
        now = self._store.now()
        given = Bounds.of(None, now, self._zone, since=call.since, until=call.until).instants
        where, end = replace(where, **given, state=LetterState.OPEN), now + timedelta(microseconds=1)
        return replace(where, until=min(where.until, end) if where.until else end)

    def _counted(
        self, run_ids: Sequence[str], tenant: str, where: DeadLetterFilter, *, below: int | None = None
    ) -> LettersClosed:
        """Count what a call would find, of runs to which fewer replays than `below` led; named ones are all counted."""
        letters = self._store.dead_letters
        if run_ids:
            found = letters.open_tasks(tenant, run_ids).values()
            for unknown in (each for each in found if isinstance(each, DeadLetterNotFound)):
                raise unknown
            return LettersClosed(sum(isinstance(each, str) for each in found), dry_run=True)
        if not below:
            return LettersClosed(letters.count(tenant, where), dry_run=True)
        matched, tried = letters.counts(tenant, where, replayed_below=below)
        return LettersClosed(matched, matched - tried, dry_run=True)

    def _all(
        self, closing: Closing, call: ClosingCall, tenant: str, where: DeadLetterFilter, key: ClosingKey | None
    ) -> LettersClosed:
        earlier = self._store.dead_letters.closed_by(tenant, key, call.max_letters) if key else EarlierClosing()
        if earlier.at is not None and where.until is not None:
            until = earlier.at + timedelta(microseconds=1)
            where = replace(where, until=min(where.until, until))  # what came later is for another call
        closing.closed += earlier.letters
        done = {each.run_id for each in closing.closed}
        named = [run_id for run_id in call.run_ids if run_id not in done]
        counted = LettersClosed(0)
        if named or not call.run_ids:
            counted = self._counted(named, tenant, where, below=call.below)
            found = named or self._store.dead_letters.ids(tenant, where, replayed_below=call.below)
            closing.all(found, alone=len(call.run_ids) == 1)
        if not call.run_ids:  # others may have closed some of them since
            still = self._store.dead_letters.count(tenant, where, replayed_below=call.below)
            counted = replace(counted, still_open=still)
        closed, skipped = tuple(closing.closed), tuple(closing.skipped)
        matched = counted.matched + len(done)
        return replace(counted, matched=matched, closed=closed, skipped=skipped, dry_run=False)


def _is_taken_back(batches: Sequence[StoredBatch]) -> bool:
    return bool(batches) and not any(batch.undo for batch in batches)
