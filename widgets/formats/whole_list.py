"""One page of tasks with nothing cut: for the REST API and for the command line."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.foresight.start_times import expected_at, rows_of
from duetime.scheduler.rules.states import FAILURES, blocked_by
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import waits_in_row
from duetime.scheduler.views import ChainName, TaskPage, TaskView
from duetime.widgets.payload import list_payload
from duetime.widgets.schema.run_parts import LastRun
from duetime.widgets.schema.task_list import ListRow, WholeClash, WholeListPayload, WholeListRow
from duetime.widgets.text.list_text import clash_line

_HAS_ERROR: Final = FAILURES | {State.RETRYING}


def whole_list_payload(page: TaskPage) -> WholeListPayload:
    """Return a page of tasks, each with all that a table says of it."""
    brief = list_payload(page)
    rows = zip(brief.tasks, rows_of(page), strict=True)
    clashes = tuple(
        WholeClash(**dict(part), text=clash_line(clash, page.now or clash.at))
        for part, clash in zip(brief.clashes or (), page.clashes, strict=True)
    )
    whole = {"tasks": tuple(_row(row, view, page.chains.get(view.record.task.id)) for row, view in rows)}
    return WholeListPayload(**{**dict(brief), **whole, "clashes": clashes or None})


def _row(row: ListRow, view: TaskView, chain: ChainName | None) -> WholeListRow:
    task, run, at = view.record.task, view.record.run, expected_at(view.record, view.now)
    whole = {
        "title": task.title,
        "why": blocked_by(run) if row.blocked else None,
        "chain": chain.title if chain else None,
        "last_run": _whole(row.last_run, view) if row.last_run else None,
    }
    return WholeListRow(
        **{**dict(row), **whole},
        local=at.astimezone(zones.load(task.timezone)).isoformat(timespec="seconds"),
        timezone=task.timezone,
        relative=times.relative(at, view.now),
        action=task.action,
        labels=task.labels,
        waiting_for=tuple(wait.sentence for wait in waits_in_row(view.waits)) or None,
        error=(run.error or None) if run.state in _HAS_ERROR else None,
        chain_id=chain.id if chain else None,
    )


def _whole(part: LastRun, view: TaskView) -> LastRun:
    """Return the last run with the texts that are cut for a model."""
    last = view.record.last_run or view.record.run
    summary = last.error if part.summary is not None else None
    return part.model_copy(update={"summary": summary, "unverified": last.unverified if part.unverified else None})
