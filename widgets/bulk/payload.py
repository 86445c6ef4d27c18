"""The structured content of a call that changed many tasks: `duetime.list/1` with what became of each row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final, Literal

from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.foresight.task_view import row_of
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.views import TaskFilter, TaskPage, TaskRecord
from duetime.widgets.outcome import MAX_SENTENCE_CHARS
from duetime.widgets.payload import as_json, list_payload
from duetime.widgets.quote import cut
from duetime.widgets.schema.task_list import ListRow, TaskListPayload
from pydantic import BaseModel, ConfigDict

MAX_BULK_ROWS: Final = 20
"""Tasks of an answer, refused ones first; the others are counted."""


class BulkPart(BaseModel):
    """The counts of one call, or of its dry run; `undo` takes it back until `undo_until`, but for `final` tasks.

    A dry run says with which `expect` the same call does it, and whether it decided each task `alone`, since they are
    very many. `left_out` tasks have no row; `left` more match a replay, for another call. A pause may end at
    `paused_until`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    change: BulkVerb
    paused_until: str | None = None
    dry_run: Literal[True] | None = None
    alone: Literal[True] | None = None
    changed: int
    unchanged: int | None = None
    refused: int | None = None
    final: int | None = None
    expect: int | None = None
    undo: str | None = None
    undo_until: str | None = None
    repeated: Literal[True] | None = None
    left_out: int | None = None
    left: int | None = None


class BulkRow(ListRow):
    """A row with what became of the task where it was not changed, and `was`: when a moved one was due before.

    `side_run_at` is when a recurring task runs in addition to its next time: its last failure again, or an occurrence
    moved past that. Then `was` is when it was due. In `why` a moved one says that it falls on another one, or on a
    time that the clocks skip or repeat. There a cancelled one says that this cannot be undone.
    """

    became: Literal[Became.UNCHANGED, Became.REFUSED] | None = None
    why: str | None = None
    was: str | None = None
    side_run_at: str | None = None


class BulkListPayload(TaskListPayload):
    """The tasks of one call and, in `bulk`, what it did to them."""

    tasks: tuple[BulkRow, ...]
    bulk: BulkPart


def bulk_payload(result: BulkResult, most: int = MAX_BULK_ROWS) -> BulkListPayload:
    """Return the payload of a result with rows for `most` of its tasks."""
    shown = result.outcomes[:most]
    counts = Counter(each.record.run.state for each in result.outcomes)
    where = TaskFilter(after=result.after, before=result.before)
    views = tuple(row_of(_of_series(each), result.now) for each in shown)
    page = TaskPage(views, counts, now=result.now, where=where)
    rows = zip(list_payload(page).tasks, shown, strict=True)
    listed = as_json(list_payload(page)) | {"tasks": [_row(row, each, result.why_final(each)) for row, each in rows]}
    return BulkListPayload.model_validate({**listed, "bulk": bulk_part(result, len(shown))})


def _of_series(outcome: TaskOutcome) -> TaskRecord:
    """Return the task, without runs next to its series where the row has the time of one already."""
    return replace(outcome.record, side_runs=()) if outcome.side_run_at else outcome.record


def bulk_part(result: BulkResult, shown: int) -> BulkPart:
    """Return what a result says of all its tasks, where so many have a row."""
    counts = result.counts
    return BulkPart(
        change=result.verb,
        paused_until=utc(result.paused_until) if result.paused_until else None,
        dry_run=result.dry_run or None,
        alone=result.alone or None,
        changed=counts[Became.CHANGED],
        unchanged=counts[Became.UNCHANGED] or None,
        refused=counts[Became.REFUSED] or None,
        final=sum(result.why_final(each) is not None for each in result.outcomes) or None,
        expect=len(result.outcomes) if result.dry_run and result.by_filter and counts[Became.CHANGED] else None,
        undo=result.undo,
        undo_until=utc(result.undo_until) if result.undo_until else None,
        repeated=result.repeated or None,
        left_out=len(result.outcomes) - shown or None,
        left=result.left or None,
    )


def _row(row: ListRow, outcome: TaskOutcome, final: str | None) -> dict[str, Any]:
    why = outcome.why or final
    parts = {
        "became": None if outcome.became is Became.CHANGED else outcome.became,
        "why": cut(why, MAX_SENTENCE_CHARS) if why else None,
        "was": utc(outcome.was) if outcome.was else None,
        "side_run_at": utc(outcome.side_run_at) if outcome.side_run_at else None,
    }
    return {**row.model_dump(exclude_none=True), **parts}
