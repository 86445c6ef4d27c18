"""Reads what happened: events, runs with their attempts and logs, and the audit log; pages and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypedDict, Unpack

from duetime.scheduler import remedies
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind, AuditPage
from duetime.scheduler.chain.chain import name_steps
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventFilter, EventPage
from duetime.scheduler.foresight.readers.chain_reader import tasks_of
from duetime.scheduler.history.events import EventBuckets, EventCounts, EventGroup
from duetime.scheduler.history.run_detail import RunDetail
from duetime.scheduler.history.run_log import log_place
from duetime.scheduler.history.runs import BucketWidth, RunCounts, RunFilter, RunGroup, RunPage, TimeBuckets
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.intake.bounds import Bound, Bounds
from duetime.scheduler.intake.validation import MAX_FILE_PAGE_ROWS, check_filter, page_size, tenant_read
from duetime.scheduler.principal import ALL_TENANTS, LOCAL, Principal
from duetime.scheduler.rules.states import FAILURES
from duetime.scheduler.store import Store
from duetime.scheduler.task import Attempt
from duetime.scheduler.view_parts import RunLog

MAX_LOG_LINES_READ: Final = 1_000
TASK_PREFIX: Final = "t_"


class PastArguments(TypedDict, total=False):
    """The keyword arguments of counts: bounds as in `list`, and a `tenant` as in `runs`."""

    since: Bound | None
    until: Bound | None
    tenant: str | None
    by: Principal


class PastReader:
    """Read what happened; every method is synchronous and sees one tenant, unless an operator asks for others."""

    def __init__(self, store: Store, zone: str | None) -> None:
        self._store = store
        self._zone = zone

    def note_read(self, tenant: str | None, *, by: Principal) -> None:
        """Record in the audit log that a call over the network reads another tenant than its own, or all (`*`).

        Every surface calls this once a call, before it reads; the other methods record nothing. Raises InvalidArgument
        for a tenant of which the caller may not read all.
        """
        wanted = tenant_read(by, tenant)
        if wanted is None:
            self._store.audit.record(AuditEntry.by(by, AuditKind.OTHER_TENANT_READ, ALL_TENANTS))
        elif wanted != by.tenant:
            other = Principal(wanted).tenant  # raises InvalidArgument for what is no name
            self._store.audit.record_read(AuditEntry.by(by, AuditKind.OTHER_TENANT_READ, tenant=other))

    def events(
        self,
        where: EventFilter = EventFilter(),  # noqa: B008 - a frozen value
        *,
        since: Bound | None = None,
        until: Bound | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> EventPage:
        """Return a page of events, newest first; `since` and `until` are in words or a datetime, as in `list`.

        A page may be short: see `EventPage`. `tenant` as in `runs`; users read the events of their own tenant.
        """
        check_filter(where)
        bounds = Bounds.of(cursor, self._store.now(), self._zone, since=since, until=until)
        where = replace(where, **bounds.instants)
        page = self._store.history.events(
            tenant_read(by, tenant), where, limit=page_size(limit, MAX_FILE_PAGE_ROWS), cursor=bounds.cursor
        )
        return replace(page, cursor=bounds.following(page.cursor), where=where)

    def event_counts(
        self,
        group: EventGroup = EventGroup.KIND,
        where: EventFilter = EventFilter(),  # noqa: B008 - a frozen value
        **read: Unpack[PastArguments],
    ) -> EventCounts:
        """Return the number of events of a filter by group, the largest first; the filter is read as in `history`."""
        tenant, where = self._events_wanted(where, read)
        return replace(self._store.history.event_counts(tenant, where, group), where=where)

    def event_buckets(
        self,
        width: BucketWidth = BucketWidth.HOUR,
        where: EventFilter = EventFilter(),  # noqa: B008 - a frozen value
        **read: Unpack[PastArguments],
    ) -> EventBuckets:
        """Return the number of events of a filter by time and kind, oldest first; days are those of the own zone."""
        tenant, where = self._events_wanted(where, read)
        found = self._store.history.event_buckets(tenant, where, width, self._zone or "UTC")
        return replace(found, where=where)

    def _events_wanted(self, where: EventFilter, read: PastArguments) -> tuple[str | None, EventFilter]:
        """Return the tenant whose events are counted, and the filter with its bounds as instants."""
        check_filter(where)
        given = Bounds.of(None, self._store.now(), self._zone, since=read.get("since"), until=read.get("until"))
        return tenant_read(read.get("by", LOCAL), read.get("tenant")), replace(where, **given.instants)

    def runs(
        self,
        where: RunFilter = RunFilter(),  # noqa: B008 - a frozen value
        *,
        since: Bound | None = None,
        until: Bound | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> RunPage:
        """Return a page of runs in the order of the filter, as `RunPage` says; `since` and `until` as in `history`.

        Without states and an end, runs are left out that are due later and have not begun. `tenant` is the caller's
        own by default; an operator may name another one, or `*` for all.
        """
        where, bounds = self._runs_wanted(where, since, until, cursor)
        page = self._store.run_history.page(
            tenant_read(by, tenant), where, limit=page_size(limit, MAX_FILE_PAGE_ROWS), cursor=bounds.cursor
        )
        return replace(page, cursor=bounds.following(page.cursor), where=where)

    def run(self, run_id: str, *, tenant: str | None = None, by: Principal = LOCAL) -> RunDetail:
        """Return one run with all that is kept of it; `tenant` as in `runs`. Raises RunNotFound."""
        return self._store.run_history.detail(tenant_read(by, tenant), run_id)

    def run_counts(
        self,
        group: RunGroup = RunGroup.STATE,
        where: RunFilter = RunFilter(),  # noqa: B008 - a frozen value
        **read: Unpack[PastArguments],
    ) -> RunCounts:
        """Return the number of runs of a filter by group, the largest first; the filter is read as in `runs`."""
        where, _ = self._runs_wanted(where, read.get("since"), read.get("until"), None)
        tenant = tenant_read(read.get("by", LOCAL), read.get("tenant"))
        return replace(self._store.run_history.counts(tenant, where, group), where=where)

    def run_buckets(
        self,
        width: BucketWidth = BucketWidth.HOUR,
        where: RunFilter = RunFilter(),  # noqa: B008 - a frozen value
        **read: Unpack[PastArguments],
    ) -> TimeBuckets:
        """Return the number of runs of a filter by time and state, oldest first; days are those of the own zone."""
        where, _ = self._runs_wanted(where, read.get("since"), read.get("until"), None)
        tenant = tenant_read(read.get("by", LOCAL), read.get("tenant"))
        found = self._store.run_history.buckets(tenant, where, width, self._zone or "UTC")
        return replace(found, where=where)

    def _runs_wanted(
        self, where: RunFilter, since: Bound | None, until: Bound | None, cursor: str | None
    ) -> tuple[RunFilter, Bounds]:
        """Return the filter with its bounds as instants, and what the cursor of a page says of them."""
        check_filter(where)
        if until is None and where.until is None and not (where.states or where.standing):
            until, where = "now", replace(where, or_begun=True)
        bounds = Bounds.of(cursor, self._store.now(), self._zone, since=since, until=until)
        return replace(where, **bounds.instants), bounds

    def attempts(self, task_id: str, *, by: Principal = LOCAL) -> Sequence[Attempt]:
        """Return every attempt of every run of a task, oldest first; of a chain, those of its steps one by one.

        Raises TaskNotFound.
        """
        task_ids = tasks_of(self._store, by.tenant, task_id)
        found = [each for name in task_ids for each in self._store.history.attempts(by.tenant, name)]
        if not found and not is_chain_id(task_id):
            self._store.tasks.get(by.tenant, task_id)  # a task of which nothing has run yet has none
        return found

    def run_log(
        self,
        run_id: str,
        *,
        after: str | None = None,
        newest: int | None = None,
        limit: int = 200,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> RunLog:
        """Return what the handler of a run logged, oldest first: `limit` lines at most behind the place `after`.

        With `newest`, the last lines instead. A place is that of a line, `LogLine.place`. The id of a task stands for
        its current run or, before that has begun, its last one. `tenant` as in `runs`. Raises RunNotFound,
        TaskNotFound, InvalidArgument for what is no place, and Refused for a chain: each step has a log of its own.
        """
        of = tenant_read(by, tenant)
        if is_chain_id(run_id):
            raise self._of_steps(of or by.tenant, run_id)
        if run_id.startswith(TASK_PREFIX):
            run_id = self._latest_run(of, run_id)
        if newest is not None:
            return self._store.run_logs.newest(of, run_id, limit=_line_count("newest", newest))
        return self._store.run_logs.read(of, run_id, after=log_place(after), limit=_line_count("limit", limit))

    def _of_steps(self, tenant: str, chain_id: str) -> Refused:
        """Return the refusal of the log of a chain, which names the steps: those that failed come first."""
        steps = sorted(
            self._store.chains.get(tenant, chain_id).steps, key=lambda step: step.record.run.state not in FAILURES
        )
        text = f"{chain_id} is a chain, and each of its steps has a log: {name_steps(steps)}."
        return Refused(text, argument="run_id", remedy=remedies.Inspect(chain_id))

    def _latest_run(self, tenant: str | None, task_id: str) -> str:
        owner = tenant or self._store.history.tenants([task_id]).get(task_id, "")
        record = self._store.tasks.get(owner, task_id)
        begun = record.run.attempt or record.last_run is None
        return record.run.id if begun or record.last_run is None else record.last_run.id

    def audit(
        self,
        where: AuditFilter = AuditFilter(),  # noqa: B008 - a frozen value
        *,
        since: Bound | None = None,
        until: Bound | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> AuditPage:
        """Return a page of the audit log, newest first: what callers did apart from task changes.

        `since` and `until` as in `history`. `tenant` is the caller's own by default; an operator may name another one.
        """
        check_filter(where)
        of = tenant_read(by, tenant)
        if of is None:
            raise InvalidArgument("tenant", "an audit log is of one tenant", example="tenant='acme'")
        bounds = Bounds.of(cursor, self._store.now(), self._zone, since=since, until=until)
        where = replace(where, **bounds.instants)
        page = self._store.audit.page(of, where, limit=page_size(limit), cursor=bounds.cursor)
        return replace(page, cursor=bounds.following(page.cursor))


def _line_count(argument: str, given: int) -> int:
    if not 1 <= given <= MAX_LOG_LINES_READ:
        accepted = f"1 to {MAX_LOG_LINES_READ:,}"
        raise InvalidArgument(argument, f"{given} is out of range", accepted=accepted, example=f"{argument}=200")
    return given
