"""Reads single runs: the log of one, and outcomes that nobody has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from duetime.scheduler.chain.chain import ChainRecord, foremost
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.past_reader import PastReader
from duetime.scheduler.foresight.reasons.open_waits import open_waits
from duetime.scheduler.foresight.task_view import chain_view, linked
from duetime.scheduler.history.run_log import log_place
from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED, page_size, tenant_read
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.failures.follow_up import LABEL, RUN
from duetime.scheduler.task import InboxMessage, Task
from duetime.scheduler.view_parts import RunLog
from duetime.scheduler.views import HeldDeliveries, TaskView

MAX_LOG_LINES_READ = 1_000
TASK_PREFIX = "t_"


class RunReader(PastReader):
    """Read single runs; every method is synchronous and sees one tenant, unless an operator asks for another one."""

    def _chain_view(self, found: ChainRecord, *, created: bool | None = None, warnings: Sequence[str] = ()) -> TaskView:
        """Return the view of a chain, with the questions and events for which its next steps wait."""
        now = self._store.now()
        view = chain_view(found, now, created=created, warnings=warnings)
        next_steps = [step.record for step in foremost(found)]
        waits = [
            wait
            for each in open_waits(self._store, next_steps).values()
            for wait in each.reasons(found.chain.timezone, now)
        ]
        return replace(view, waits=tuple(waits))

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
        TaskNotFound, and InvalidArgument for what is no place.
        """
        of = tenant_read(by, tenant)
        if run_id.startswith(TASK_PREFIX):
            run_id = self._latest_run(of, run_id)
        if newest is not None:
            return self._store.run_logs.newest(of, run_id, limit=_line_count("newest", newest))
        return self._store.run_logs.read(of, run_id, after=log_place(after), limit=_line_count("limit", limit))

    def inbox(self, *, limit: int = 20, of: str | None = None, by: Principal = LOCAL) -> Sequence[InboxMessage]:
        """Return outcomes that the user has not read yet, newest first: `of` a task, or those whose ids begin so.

        Each says until when quiet hours hold its deliveries.
        """
        found = self._store.inbox.unread(by.tenant, by.user, limit=page_size(limit), of=of)
        held = self._store.deliveries.held_until(by.tenant, [each.run_id for each in found]) if found else {}
        return [replace(each, held_until=held.get(each.run_id)) for each in found]

    def held(self, *, by: Principal = LOCAL) -> HeldDeliveries:
        """Return how many deliveries to the user quiet hours hold, counted up to 1,000, and when the first one goes."""
        return HeldDeliveries(*self._store.deliveries.held(by.tenant, by.user, most=MAX_TASKS_COUNTED))

    def quiet_count(self, *, by: Principal = LOCAL) -> int:
        """Return how many outcomes of the last day the user was not told of, counted up to 1,000."""
        return self._store.inbox.quiet_count(by.tenant, by.user, most=MAX_TASKS_COUNTED)

    def _left_out(self, by: Principal) -> dict[str, Any]:
        """Return the parts of a page that say what a user was not told, or not yet."""
        held = self.held(by=by)
        return {"quiet_count": self.quiet_count(by=by), "held_count": held.count, "held_until": held.until}

    def _latest_run(self, tenant: str | None, task_id: str) -> str:
        owner = tenant or self._store.history.tenants([task_id]).get(task_id, "")
        record = self._store.tasks.get(owner, task_id)
        begun = record.run.attempt or record.last_run is None
        return record.run.id if begun or record.last_run is None else record.last_run.id

    def _linked(self, task: Task) -> tuple[str, ...]:
        """Return how failures link a task to others; reads nothing of a task that has nothing to do with any."""
        links = self._store.dependencies
        cause = links.failure(task.tenant, task.id) if LABEL in task.labels else None
        return linked(cause, links.made_by_failures(task.tenant, task.id) if RUN in task.on_failure else ())


def _line_count(argument: str, given: int) -> int:
    if not 1 <= given <= MAX_LOG_LINES_READ:
        accepted = f"1 to {MAX_LOG_LINES_READ:,}"
        raise InvalidArgument(argument, f"{given} is out of range", accepted=accepted, example=f"{argument}=200")
    return given
