"""The part of the service that reads dead letters, and replays or discards them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.reader import Reader
from duetime.scheduler.history.dead_letters import (
    MAX_REPLAYS,
    ClosedLetter,
    DeadLetter,
    DeadLetterFilter,
    DeadLetterNotFound,
    LettersClosed,
    LetterState,
    SkippedLetter,
)
from duetime.scheduler.intake.bounds import Bound, Bounds
from duetime.scheduler.intake.validation import check_filter, check_reason, page_size, tenant_changed, tenant_read
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store

MAX_LETTERS_CLOSED: Final = 1_000
"""Dead letters that one call replays or discards at most."""

USUAL_LETTERS_COUNT: Final = 100
MAX_LETTERS_SKIPPED: Final = 1_000
"""Letters that a call tries in vain before it ends."""


@dataclass(slots=True)
class _Closing:
    """Closes letters one by one, and keeps which ones it could not close."""

    close: Callable[[str], ClosedLetter]
    room: int
    closed: list[ClosedLetter] = field(default_factory=list)
    skipped: list[SkippedLetter] = field(default_factory=list)

    def all(self, run_ids: Iterable[str], *, alone: bool) -> None:
        """Close as many as there is room for; of one `alone`, raise why it cannot be closed."""
        for run_id in run_ids:
            try:
                self.closed.append(self.close(run_id))
            except (Refused, DeadLetterNotFound) as problem:
                if alone:
                    raise
                self.skipped.append(SkippedLetter(run_id, str(problem)))
            if len(self.closed) == self.room or len(self.skipped) == MAX_LETTERS_SKIPPED:
                return


class DeadLetterService(Reader):
    """Read tasks, and replay or discard the runs that are out of attempts."""

    def __init__(
        self,
        store: Store,
        zone: str | None,
        explainer: Explainer | None,
        holidays: str,
        *,
        on_change: Callable[[Sequence[str]], None],
        via: str | None,
    ) -> None:
        super().__init__(store, zone, explainer, holidays)
        self._on_change = on_change
        self._via = via

    def dead_letters(
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

        Those that nobody has replayed or discarded, unless `where` says otherwise. `since`, `until` and `tenant` are as
        in `runs`.
        """
        check_filter(where)
        bounds = Bounds.of(cursor, self._store.now(), self._zone, since=since, until=until)
        found, following = self._store.dead_letters.page(
            tenant_read(by, tenant), replace(where, **bounds.instants), limit=page_size(limit), cursor=bounds.cursor
        )
        return found, bounds.following(following)

    def dead_letter(self, run_id: str, *, tenant: str | None = None, by: Principal = LOCAL) -> DeadLetter:
        """Return the dead letter of a run, whatever became of it. Raises DeadLetterNotFound."""
        return self._store.dead_letters.get(tenant_read(by, tenant), run_id)

    def replay(
        self,
        run_ids: Sequence[str] = (),
        *,
        where: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008 - a frozen value
        since: Bound | None = None,
        until: Bound | None = None,
        reason: str | None = None,
        max_letters: int = USUAL_LETTERS_COUNT,
        dry_run: bool = False,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> LettersClosed:
        """Run dead letters once more, now: those that are named, or else the oldest of the filter, with a `reason`.

        Each becomes the next generation of its run, as by `run_now`, in a transaction of its own with its audit entry.
        A run to which three replays led is left out unless it is named. A dry run only counts.
        """
        tenant = tenant_changed(by, tenant)
        where = self._wanted(where, since, until, max_letters)
        check_reason(reason)
        if dry_run:
            return self._counted(run_ids, tenant, where, below=MAX_REPLAYS)
        if not run_ids:
            _require(reason)

        def close(run_id: str) -> ClosedLetter:
            now = self._store.now()
            entry = self._entry(by, AuditKind.DEAD_LETTER_REPLAYED, run_id, tenant, reason)
            closed = self._store.dead_letters.replay(tenant, run_id, entry, lambda record: changes.replay(record, now))
            self._on_change([closed.task_id])
            return closed

        return self._all(_Closing(close, max_letters), run_ids, tenant, where, below=MAX_REPLAYS)

    def discard(
        self,
        run_ids: Sequence[str] = (),
        *,
        reason: str | None = None,
        where: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008 - a frozen value
        since: Bound | None = None,
        until: Bound | None = None,
        max_letters: int = USUAL_LETTERS_COUNT,
        dry_run: bool = False,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> LettersClosed:
        """Close dead letters that need no replay: those that are named, or else the oldest of the filter.

        They stay in the history. Each is closed in a transaction of its own with its audit entry.
        """
        tenant = tenant_changed(by, tenant)
        where = self._wanted(where, since, until, max_letters)
        check_reason(reason)
        if dry_run:
            return self._counted(run_ids, tenant, where)
        _require(reason)

        def close(run_id: str) -> ClosedLetter:
            entry = self._entry(by, AuditKind.DEAD_LETTER_DISCARDED, run_id, tenant, reason)
            return self._store.dead_letters.discard(tenant, run_id, entry)

        return self._all(_Closing(close, max_letters), run_ids, tenant, where)

    def _entry(self, by: Principal, kind: AuditKind, run_id: str, tenant: str, reason: str | None) -> AuditEntry:
        who = by if by.via else replace(by, via=self._via)
        return AuditEntry.by(who, kind, run_id, tenant=tenant, reason=reason)

    def _wanted(
        self, where: DeadLetterFilter, since: Bound | None, until: Bound | None, max_letters: int
    ) -> DeadLetterFilter:
        """Return the filter for open letters up to now: one that a replay makes meanwhile is not replayed as well."""
        check_filter(where)
        if not 1 <= max_letters <= MAX_LETTERS_CLOSED:
            accepted = f"1 to {MAX_LETTERS_CLOSED:,}"
            raise InvalidArgument("max_letters", "out of range", accepted=accepted, example="max_letters=100")
        now = self._store.now()
        given = Bounds.of(None, now, self._zone, since=since, until=until).instants
        where, end = replace(where, **given, state=LetterState.OPEN), now + timedelta(microseconds=1)
        return replace(where, until=min(where.until, end) if where.until else end)

    def _counted(
        self, run_ids: Sequence[str], tenant: str, where: DeadLetterFilter, *, below: int | None = None
    ) -> LettersClosed:
        """Count what a call would find, of runs to which fewer replays than `below` led; named ones are all counted."""
        letters = self._store.dead_letters
        if run_ids:
            states = [letters.get(tenant, run_id).state for run_id in dict.fromkeys(run_ids)]
            return LettersClosed(states.count(LetterState.OPEN), dry_run=True)
        matched = letters.count(tenant, where)
        held_back = matched - letters.count(tenant, where, replayed_below=below) if below else 0
        return LettersClosed(matched, held_back, dry_run=True)

    def _all(
        self,
        closing: _Closing,
        run_ids: Sequence[str],
        tenant: str,
        where: DeadLetterFilter,
        *,
        below: int | None = None,
    ) -> LettersClosed:
        named = list(dict.fromkeys(run_ids))
        counted = self._counted(named, tenant, where, below=below)
        found = named or self._store.dead_letters.ids(tenant, where, replayed_below=below)
        closing.all(found, alone=len(named) == 1)
        closed, skipped = tuple(closing.closed), tuple(closing.skipped)
        return replace(counted, closed=closed, skipped=skipped, dry_run=False)


def _require(reason: str | None) -> None:
    if not (reason or "").strip():
        raise InvalidArgument(
            "reason", "it is missing", accepted="why, for the audit log", example="reason='the CRM is back'"
        )
