"""The list of runs: filters that stand in the address, keyset pages, export, and one change of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.calls.bulk_change import BulkVerb
from duetime.scheduler.history.runs import RunSummary
from duetime.scheduler.intake.changes.actions import RUN_NOW
from duetime.scheduler.task import Tier
from duetime.scheduler.views import Standing
from duetime.server.admin.answers import Answer, Download, Moved, Page, get, post
from duetime.server.admin.bulk.picked_runs import CHANGES, ManyChanged, PickedChange, changed_by
from duetime.server.admin.bulk.undo import NO_UNDO, is_kept, take_back, undo_of, why_no_undo
from duetime.server.admin.export import ExportFormat, FirstRows, each_row, exported, wanted_format
from duetime.server.admin.failures import ONCE, new_once
from duetime.server.admin.formats import until_when
from duetime.server.admin.page_request import PICK_PARAMETERS, Visit
from duetime.server.admin.pages.run_query import RUN_KINDS, RUN_PARAMETERS, RunQuery
from duetime.server.admin.site import path_of
from duetime.tools.admin.run_rows import RUN_COLUMNS, file_row

MAX_EXPORTED_RUNS = 100_000

FORM_TAKEN_BACK: Final = (
    "This change was taken back, so its form does nothing any more. To make it after all, pick the runs in the list."
)

_NO_FILTERS: Final = PICK_PARAMETERS | {"tenant", "cursor"}


def runs(visit: Visit) -> Answer:
    """Show a page of runs, or send all of them as a file."""
    query = RunQuery.of(visit)
    if file_format := wanted_format(visit):
        return _download(visit, query, file_format)
    asked = _question(visit)
    page = query.page(visit)
    values = {
        "page": page,
        "following": query.bounds.following(page.cursor),
        "kinds": [(kind or None, (kind or "recent").replace("_", " "), None) for kind in (*RUN_KINDS, *Standing)],
        "tiers": [*Tier],
        "costs": any(run.cost is not None for run in page.runs),
        "asked": asked,
        "live": asked is None and "cursor" not in visit.query,
        "filtered": any(value.strip() for name, value in visit.query.items() if name not in _NO_FILTERS),
        "all_tenants": visit.tenant is None,
        "pick_parameters": PICK_PARAMETERS,
    }
    return Page("pages/runs.html", "Runs", values)


def _download(visit: Visit, query: RunQuery, file_format: ExportFormat) -> Download:
    """Return the file of all runs, which is sent while they are read."""

    def page(limit: int, cursor: str | None) -> tuple[Sequence[RunSummary], str | None]:
        found = query.page(visit, limit, cursor)
        return found.runs, found.cursor

    found, is_cut = FirstRows(each_row(page), MAX_EXPORTED_RUNS), _is_cut(visit, query)
    cut_at, first = MAX_EXPORTED_RUNS if is_cut else None, found if is_cut is None else None
    return exported(file_format, "runs", RUN_COLUMNS, map(file_row, found), cut_at=cut_at, first=first)


def _is_cut(visit: Visit, query: RunQuery) -> bool | None:
    """Return whether a file cannot have all runs; None where only reading them says it, as not all are counted."""
    if query.bounds.cursor:
        return None
    counted = query.counted(visit)
    total, all_counted = sum(counted.counts.values()), counted.counted_to is None
    return total > MAX_EXPORTED_RUNS or not all_counted if all_counted or total >= MAX_EXPORTED_RUNS else None


# --- one change of many


@dataclass(frozen=True, slots=True)
class ChangeQuestion:
    """A question before many tasks are changed: what the change would do, as it was `tried`.

    `fields` are sent back with the answer.
    """

    change: str
    tried: ManyChanged
    fields: Sequence[tuple[str, str]]

    @property
    def number(self) -> int:
        """The number of tasks to change."""
        return len(self.tried.changed)

    @property
    def sentence(self) -> str:
        """The tasks that would change by their state, those that would not, and what an undo brings back."""
        tried = self.tried
        until = f"Paused{until_when(tried.changed) or ' until somebody resumes it'}." if self._pauses else ""
        states = f"{tried.states}." if tried.changed else ""
        parts = (states, until, tried.same, tried.refused, self._undo, tried.stays)
        return " ".join(filter(None, parts if self.number else (tried.same, tried.refused)))

    @property
    def _undo(self) -> str:
        if self.change == RUN_NOW:
            return "A start has no undo."
        return "Undo takes it back for 10 minutes." if is_kept(self.tried.tenants) else NO_UNDO

    @property
    def _pauses(self) -> bool:
        return self.change == BulkVerb.PAUSE and bool(self.tried.changed)

    @property
    def verb(self) -> str:
        """The change as the button says it."""
        return _VERBS[self.change]

    @property
    def what(self) -> str:
        """The number of tasks as the button says it."""
        return f"{self.number:,} {'task' if self.number == 1 else 'tasks'}{' now' if self.change == RUN_NOW else ''}"


_VERBS: Final[Mapping[str, str]] = {
    BulkVerb.CANCEL: "Cancel",
    BulkVerb.PAUSE: "Pause",
    BulkVerb.RESUME: "Resume",
    RUN_NOW: "Run",
}


def _question(visit: Visit) -> ChangeQuestion | None:
    """Try the change that the address asks for. Raises InvalidArgument."""
    if not (visit.may_change and visit.query.get("change")):
        return None
    asked = PickedChange.of(visit.query, visit.query.getlist("pick"))
    picks = [("pick", each) for each in asked.picked]
    fields = [("change", asked.change), (ONCE, new_once()), *picks, *([("to", asked.to)] if asked.to else [])]
    return ChangeQuestion(asked.change, changed_by(visit, asked, dry_run=True), fields)


def change_many(visit: Visit) -> Moved:
    """Change the tasks of the selected runs; report how many changed, and why others did not."""
    asked = PickedChange.of(visit.form, visit.form.getlist("pick"))
    done = changed_by(visit, asked)
    if done.is_taken_back:
        return Moved(path_of(visit.form, "after"), FORM_TAKEN_BACK)
    until = until_when(done.changed) if asked.change == BulkVerb.PAUSE else ""
    text = f"{CHANGES[asked.change]} {len(done.changed):,}{until}."
    text = " ".join(filter(None, (text, done.same, done.refused, done.stays, why_no_undo(done.undo))))
    return Moved(path_of(visit.form, "after"), text, undo_of(done.undo), "/runs/undo")


RUNS_ROUTES = (
    get("/runs", runs, query=RUN_PARAMETERS | PICK_PARAMETERS),
    post("/runs/change", change_many),
    post("/runs/undo", take_back),
)
