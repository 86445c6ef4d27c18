"""Reads tasks: one with all its details and the reasons why its run waits, and pages of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler.chain.chain_view import chain_of
from duetime.scheduler.chain.inheritance import Inherited
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.foresight.agenda import MAX_OCCURRENCES_AHEAD, Outlook
from duetime.scheduler.foresight.explain import UNSTARTED_STATES, explain_state
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.foresight.order_note import order_note
from duetime.scheduler.foresight.readers.inbox import InboxReader
from duetime.scheduler.foresight.readers.run_facts import RunFactReader, last_skipped
from duetime.scheduler.foresight.reasons.open_waits import MAY_WAIT
from duetime.scheduler.foresight.stall_notes import stall_note
from duetime.scheduler.foresight.start_times import as_filtered, ends_in_future
from duetime.scheduler.foresight.task_view import follow_up_notes, row_of, spawned_note, view_of, with_waits
from duetime.scheduler.intake.bounds import Bound, Bounds
from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED, check_filter, page_size, tenant_read
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.estimates import UNKNOWN_ESTIMATE
from duetime.scheduler.rules.failures.follow_up import FAILURE_LABEL, ON_FAILURE_RUN
from duetime.scheduler.rules.limits.price import amount_of, money
from duetime.scheduler.rules.states import only_failures
from duetime.scheduler.store import Store
from duetime.scheduler.task import Attempt, DeliveryState, InboxMessage, Run, State, Task
from duetime.scheduler.view_parts import RunLog
from duetime.scheduler.views import ChainName, ChainView, TaskFilter, TaskPage, TaskRecord, TaskView

MAX_LOG_LINES_SHOWN = 20


def _unknown_length(record: TaskRecord) -> timedelta:
    return record.task.estimate or UNKNOWN_ESTIMATE


def _ran(record: TaskRecord) -> Run | None:
    """Return the current run once it has started, else the last one; None where none has started."""
    run = record.run if record.run.attempt else record.last_run
    return run if run is not None and run.attempt else None


def _may_be_held(record: TaskRecord) -> list[str]:
    """Return the runs of a task with deliveries to come: of its outcome, or of a question before its run."""
    pending = {each.run_id for each in record.deliveries if each.state is DeliveryState.PENDING}
    return [*pending, *([record.run.id] if record.run.state in MAY_WAIT else [])]


def _first(held: Mapping[str, datetime], record: TaskRecord) -> datetime | None:
    """Return when the first delivery of a task goes that quiet hours hold, by its run."""
    return min((held[run_id] for run_id in _may_be_held(record) if run_id in held), default=None)


class TaskReader:
    """Read tasks; every method is synchronous and sees one tenant, unless an operator asks for others."""

    def __init__(
        self,
        store: Store,
        facts: RunFactReader,
        inbox: InboxReader,
        *,
        zone: str | None,
        holidays: str = "",
        explainer: Explainer | None = None,
    ) -> None:
        self._store = store
        self._facts = facts
        self._inbox = inbox
        self._zone = zone
        self._holidays = holidays
        self._explainer = explainer

    def get(self, task_id: str, *, by: Principal = LOCAL) -> TaskView:
        """Return one task and what it waits for. Raises TaskNotFound, which names the closest ids of the tenant."""
        record = self._store.tasks.get(by.tenant, task_id)
        view = view_of(record, self._store.now(), facts=self._facts.of(record), warnings=self._linked(record.task))
        unread, failed_attempt = self.unread(record, by), self._failed_attempt(record)
        log, cost, chain = self._log(record), self._cost(record), self._chain(record)
        addressed = self._store.fire_addresses.of_task(by.tenant, task_id) is not None
        found = replace(view, unread=unread, failed_attempt=failed_attempt, addressed=addressed)
        found = replace(found, not_run=last_skipped(self._store, record))
        found = found if chain else replace(found, warnings=(*found.warnings, *self._spawned(record)))
        return replace(found, log=log, cost=cost, chain=chain, held_until=self._held_until(record))

    def _chain(self, record: TaskRecord) -> ChainView | None:
        """Return the chain that a task is a step of."""
        tenant, task_id = record.task.tenant, record.task.id
        name = self._store.chains.names(tenant, [task_id]).get(task_id)
        return chain_of(self._store.chains.get(tenant, name.id), name.step) if name else None

    def _spawned(self, record: TaskRecord) -> tuple[str, ...]:
        """Name the tasks that the last run has spawned, which belong to no chain that would show them."""
        task, ran = record.task, record.last_run
        if ran is None or ran.state is not State.SUCCEEDED:
            return ()
        ended = EventFilter(task_id=task.id, kind=EventKind.SUCCEEDED)
        newest = self._store.history.events(task.tenant, ended, limit=1).events
        return spawned_note(newest[0]) if newest and newest[0].run_id == ran.id else ()

    def _cost(self, record: TaskRecord) -> str | None:
        run = _ran(record)
        cost = self._store.usage.cost_of(run.id) if run else None
        return None if cost is None else f"{money(amount_of(cost))} {self._store.usage.currency}"

    def _log(self, record: TaskRecord) -> RunLog | None:
        run = _ran(record)
        if run is None:
            return None
        log = self._store.run_logs.newest(record.task.tenant, run.id, limit=MAX_LOG_LINES_SHOWN)
        return log if log.lines else None

    def _failed_attempt(self, record: TaskRecord) -> Attempt | None:
        runs = [run for run in (record.run, record.last_run) if run is not None]
        failed = [run.id for run in runs if run.failures and run.state is not State.SUCCEEDED]
        return self._store.history.failed_attempt(record.task.tenant, failed) if failed else None

    def _held_until(self, record: TaskRecord) -> datetime | None:
        may_be_held = _may_be_held(record)
        held = self._store.deliveries.held_until(record.task.tenant, may_be_held) if may_be_held else {}
        return _first(held, record) or self._facts.held_until(record)

    def unread(self, record: TaskRecord, by: Principal) -> tuple[InboxMessage, ...]:
        """Return the outcome of the latest run that ended, while its user has not read it."""
        if record.last_run is None:
            return ()
        return tuple(self._store.inbox.unread(by.tenant, by.user, limit=1, run_id=record.last_run.id))

    def _linked(self, task: Task) -> tuple[str, ...]:
        """Return the links between a task and others that failures made; makes no query where there can be none."""
        links = self._store.dependencies
        cause = links.failure(task.tenant, task.id) if FAILURE_LABEL in task.labels else None
        return follow_up_notes(
            cause, links.made_by_failures(task.tenant, task.id) if ON_FAILURE_RUN in task.on_failure else ()
        )

    def find(self, text: str, *, by: Principal = LOCAL) -> str:
        """Return the id that `text` stands for: the beginning of one id, or a title that only one task has.

        A text that stands for none is returned as it is, so that the next call names the closest. Raises
        InvalidArgument for what stands for several.
        """
        found = self._store.tasks.named(by.tenant, text)
        if len(found) > 1:
            raise InvalidArgument(
                "task_id",
                f"{text[:40]!r} may be {', '.join(found)}",
                accepted="an id, the beginning of one, or a title that only one task has",
                example=found[0],
            )
        return found[0] if found else text

    def titles(self, task_ids: Sequence[str], *, tenant: str | None = None, by: Principal = LOCAL) -> Mapping[str, str]:
        """Return the titles of tasks by id; what is not there or cannot be read is left out. `tenant` as in `runs`."""
        return self._store.tasks.titles(tenant_read(by, tenant), task_ids)

    def explain(self, task_id: str, *, by: Principal = LOCAL) -> tuple[TaskView, Sequence[str]]:
        """Return a task, and why its run stands where it stands: always with an answer. Raises TaskNotFound."""
        record, now = self._store.tasks.get(by.tenant, task_id), self._store.now()
        facts = self._facts.of(record)
        view = view_of(record, now, facts=facts)
        heir = self._explainer.heir(record) if self._explainer and record.run.state in UNSTARTED_STATES else Inherited()
        early, links = order_note(heir, record, now), self._linked(record.task)
        return view, (*explain_state(view.record, now, facts), *early, *links)

    def list(
        self,
        where: TaskFilter = TaskFilter(),  # noqa: B008 - a frozen value
        *,
        after: Bound | None = None,
        before: Bound | None = None,
        limit: int = 20,
        cursor: str | None = None,
        by: Principal = LOCAL,
        mention: bool = False,
    ) -> TaskPage:
        """Return a page of tasks: open ones by time, then ended ones; `mention` adds the outcomes that nobody has read.

        `after` and `before` bound when they are due, in words or as a datetime, in place of those of `where`. Where the
        end is to come, every occurrence until then is on a page, and those that clash are named. Words are read in the
        scheduler's zone. Raises InvalidArgument for a bound, a filter or a cursor that cannot be read.
        """
        check_filter(where)
        now = self._store.now()
        bounds = Bounds.of(cursor, now, self._zone, self._holidays, after=after, before=before)
        where = replace(where, **bounds.instants)
        limit = page_size(limit)
        ahead = self._ahead(by, where, now, limit, bounds.cursor) if ends_in_future(where, now) else None
        page = self._page(by, where, now, limit, bounds.cursor) if ahead is None else ahead
        page = replace(page, **self._inbox.mentioned(by)) if mention else page
        rows = [view.record for view in page.views if not view.expected]
        facts = self._facts.of_rows(rows)
        overdue = stall_note(rows, now, lambda row: self._facts.of_due(row, facts), self._facts.left_running)
        views = with_waits(self._with_held(page.views, by), facts, now)
        cursor = bounds.following(page.cursor)
        return replace(page, views=views, overdue=overdue, chains=self._chains(page, by), cursor=cursor)

    def _with_held(self, views: Sequence[TaskView], by: Principal) -> Sequence[TaskView]:
        """Return rows that say until when quiet hours hold their deliveries."""
        may_be_held = [run_id for view in views for run_id in _may_be_held(view.record)]
        held = self._store.deliveries.held_until(by.tenant, may_be_held) if may_be_held else {}
        return [view if view.expected else replace(view, held_until=_first(held, view.record)) for view in views]

    def _chains(self, page: TaskPage, by: Principal) -> Mapping[str, ChainName]:
        task_ids = {view.record.task.id for view in page.views}
        return self._store.chains.names(by.tenant, task_ids) if task_ids else {}

    def _page(self, by: Principal, where: TaskFilter, now: datetime, limit: int, cursor: str | None) -> TaskPage:
        found, following, counts = self._store.tasks.page_and_counts(
            by.tenant, where, limit=limit, cursor=cursor, most=MAX_TASKS_COUNTED
        )
        rows = found if only_failures(where.states) else as_filtered(found, where)
        views = tuple(row_of(record, now) for record in rows)
        return TaskPage(views, *counts, cursor=following, now=now, where=where, zone=self._zone or "UTC")

    def _ahead(
        self, by: Principal, where: TaskFilter, now: datetime, limit: int, cursor: str | None
    ) -> TaskPage | None:
        """Return a page with the occurrences to come, and ended tasks behind the last; None behind the open tasks."""
        agenda = self._store.tasks.agenda(by.tenant, where, limit=MAX_OCCURRENCES_AHEAD, cursor=cursor)
        if agenda is None:
            return None
        window = self._outlook(now).window(agenda, where, limit)
        room = limit - len(window.views)
        rest = self._page(by, where, now, max(room, 1), self._store.tasks.cursor_behind(by.tenant, where, None))
        page = replace(
            rest, views=(*window.views, *rest.views[:room]), clashes=window.clashes, complete=window.complete
        )
        if room and window.last is None:
            return page
        more = window.last is not None or bool(rest.views)
        return replace(page, cursor=self._store.tasks.cursor_behind(by.tenant, where, window.last) if more else None)

    def _outlook(self, now: datetime) -> Outlook:
        known = self._explainer
        return Outlook(now, known.pools(), known.length) if known else Outlook(now, {}, _unknown_length)

    def recurring(
        self,
        *,
        words: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        tenant: str | None = None,
        by: Principal = LOCAL,
    ) -> tuple[Sequence[TaskView], str | None]:
        """Return a page of the tasks that recur, with their next times, newest first, and the cursor of the next page.

        `words` are in their titles; `tenant` as in `runs`.
        """
        found, following = self._store.tasks.recurring(
            tenant_read(by, tenant), words=words, limit=page_size(limit), cursor=cursor
        )
        now = self._store.now()
        return [view_of(record, now) for record in found], following
