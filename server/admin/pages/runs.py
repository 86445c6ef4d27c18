"""The list of runs: filters that stand in the address, keyset pages, export, and one change of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.history.runs import RunSummary
from duetime.scheduler.intake.changes.actions import RUN_NOW
from duetime.scheduler.principal import Principal
from duetime.scheduler.task import Tier
from duetime.scheduler.views import Standing, TaskView
from duetime.server.admin.answers import MAX_PROBLEMS_SHOWN, Answer, Download, Moved, Page, get, post
from duetime.server.admin.export import ExportFormat, FirstRows, each_row, exported, wanted_format
from duetime.server.admin.failures import RunIsOver, check_still_open, unknown
from duetime.server.admin.formats import until_when
from duetime.server.admin.page_request import Visit
from duetime.server.admin.pages.run_query import RUN_KINDS, RUN_PARAMETERS, RunQuery
from duetime.server.admin.site import path_of
from duetime.tools.admin.run_rows import RUN_COLUMNS, file_row

MAX_EXPORTED_RUNS = 100_000

OneChange = Callable[[str, Principal], TaskView]


def runs(visit: Visit) -> Answer:
    """Show a page of runs, or send all of them as a file."""
    query = RunQuery.of(visit)
    if file_format := wanted_format(visit):
        return _download(visit, query, file_format)
    page = query.page(visit)
    values = {
        "page": page,
        "following": query.bounds.following(page.cursor),
        "kinds": [(kind or None, (kind or "recent").replace("_", " "), None) for kind in (*RUN_KINDS, *Standing)],
        "tiers": [*Tier],
        "costs": any(run.cost is not None for run in page.runs),
        "live": "cursor" not in visit.query,
        "filtered": any(value.strip() for name, value in visit.query.items() if name not in {"tenant", "cursor"}),
        "all_tenants": visit.tenant is None,
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


def change_many(visit: Visit) -> Moved:
    """Change the tasks of the selected runs; report how many changed, and why others did not."""
    picked = list(dict.fromkeys(visit.form.getlist("pick")))
    change, done = _change(visit)
    changed, same, problems = _each(visit, picked, change)
    several = list(dict.fromkeys(problems))[:MAX_PROBLEMS_SHOWN]
    text = f"{done} {len(changed)}{until_when(changed) if visit.form['change'] == 'pause' else ''}."
    if same:
        text += f" {same} {'was' if same == 1 else 'were'} so already."
    if problems:
        text += f" {len(problems)} refused: {' '.join(several)}"
    return Moved(path_of(visit.form, "after"), text)


def _each(visit: Visit, picked: Sequence[str], change: OneChange) -> tuple[list[TaskView], int, list[str]]:
    """Return the tasks that were changed, how many were so already, and why others were not."""
    changed, same, problems = [], 0, []
    for each in picked:
        run_id, _, shown_open = each.partition(" ")
        try:
            found = visit.run(run_id)
            if not found.is_current:
                raise RunIsOver(found.record.task.title)
            if visit.form["change"] == RUN_NOW:
                check_still_open(found, shown_open=bool(shown_open))
            view = change(found.record.task.id, visit.acting_in(found.run.tenant))
        except DuetimeError as error:
            problems.append(str(error))
            continue
        if view.record.task.revision == found.record.task.revision:
            same += 1
        else:
            changed.append(view)
    return changed, same, problems


def _change(visit: Visit) -> tuple[OneChange, str]:
    scheduler, reason, until = visit.scheduler, visit.form.get("reason") or None, visit.form.get("until") or None
    changes: dict[str, tuple[OneChange, str]] = {
        "cancel": (lambda task_id, by: scheduler.cancel(task_id, reason=reason, by=by), "Cancelled"),
        "pause": (lambda task_id, by: scheduler.reschedule(task_id, pause=True, pause_until=until, by=by), "Paused"),
        "resume": (lambda task_id, by: scheduler.reschedule(task_id, pause=False, by=by), "Resumed"),
        RUN_NOW: (lambda task_id, by: scheduler.act(task_id, "run_now", by=by), "Started"),
    }
    wanted = visit.form.get("change", "")
    if wanted not in changes:
        raise unknown("change", wanted, changes)
    return changes[wanted]


RUNS_ROUTES = (get("/runs", runs, query=RUN_PARAMETERS), post("/runs/change", change_many))
