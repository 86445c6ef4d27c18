"""Schedules: the tasks that recur, with their next times; each can be paused and resumed."""

from __future__ import annotations

from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.views import TaskView
from duetime.server.admin.answers import PAGE_ROWS, Answer, Moved, Page, get, post
from duetime.server.admin.export import EXPORT_PAGE_ROWS, MAX_EXPORTED_ROWS, ExportRow, exported
from duetime.server.admin.site import path_of
from duetime.server.admin.visit import Visit

TIMES_SHOWN_COUNT = 3


def schedules(visit: Visit) -> Answer:
    """List the tasks that recur."""
    if visit.query.get("format"):
        return exported(visit.query["format"], "schedules", _rows(visit))
    found, following = _page(visit, PAGE_ROWS, visit.query.get("cursor"))
    values = {"views": found, "following": following, "times": TIMES_SHOWN_COUNT, "wall": describe}
    return Page("schedules.html", "Schedules", {**values, "live": "cursor" not in visit.query})


def _page(visit: Visit, limit: int, cursor: str | None) -> tuple[list[TaskView], str | None]:
    words = visit.query.get("q", "").strip() or None
    found, following = visit.scheduler.tasks.recurring(
        words=words, limit=limit, cursor=cursor, tenant=visit.reach, by=visit.principal
    )
    return list(found), following


def _rows(visit: Visit) -> list[ExportRow]:
    found, cursor = _page(visit, EXPORT_PAGE_ROWS, None)
    while cursor is not None and len(found) < MAX_EXPORTED_ROWS:
        more, cursor = _page(visit, EXPORT_PAGE_ROWS, cursor)
        found += more
    return [_row(view) for view in found]


def _row(view: TaskView) -> ExportRow:
    task, last = view.record.task, view.record.last_run
    return {
        "task": task.id,
        "tenant": task.tenant,
        "title": task.title,
        "action": task.action,
        "repeat": view.repeat_text,
        "rule": task.repeat,
        "timezone": task.timezone,
        "paused": task.paused,
        "next": view.upcoming[0].instant if view.upcoming else None,
        "paused_until": task.paused_until,
        "last_state": last.state.value if last else None,
        "last_ended": last.ended_at if last else None,
    }


def pause(visit: Visit) -> Moved:
    """Pause one schedule, or let it go on."""
    task_id, paused = visit.parts["task_id"], visit.form.get("pause") == "true"
    owner = visit.store.history.tenants([task_id]).get(task_id, visit.principal.tenant)
    view = visit.scheduler.reschedule(task_id, pause=paused, by=visit.acting_in(owner))
    return Moved(path_of(visit.form, "after"), f"{'Paused' if paused else 'Resumed'}: {view.record.task.title}")


SCHEDULE_ROUTES = (get("/schedules", schedules), post("/schedules/{task_id}/pause", pause))
