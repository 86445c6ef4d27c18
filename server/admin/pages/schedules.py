"""Schedules: the tasks that recur, with their next times, each to pause and resume; and the quiet hours of users."""

from __future__ import annotations

from functools import partial
from typing import Any

from duetime.scheduler.intake.validation import MAX_PAGE_ROWS
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.views import TaskView
from duetime.server.admin.answers import PAGE_ROWS, Answer, Moved, Page, get, post
from duetime.server.admin.export import ExportRow, exported, first_rows, wanted_format
from duetime.server.admin.failures import revision_shown, unchanged_task
from duetime.server.admin.page_request import Visit
from duetime.server.admin.site import path_of
from duetime.tools.admin.quiet_hours_rows import quiet_hours_json, quiet_hours_text
from starlette.datastructures import ImmutableMultiDict

TIMES_SHOWN_COUNT = 3
FORGET = "forget"
SCHEDULE_COLUMNS = (
    *("task", "tenant", "title", "action", "repeat", "rule", "timezone", "paused", "next", "paused_until"),
    *("last_state", "last_ended"),
)


def schedules(visit: Visit) -> Answer:
    """List the tasks that recur."""
    if file_format := wanted_format(visit):
        views, cut_at = first_rows(partial(_page, visit), page_rows=MAX_PAGE_ROWS)
        return exported(file_format, "schedules", SCHEDULE_COLUMNS, map(_row, views), cut_at=cut_at)
    found, following = _page(visit, PAGE_ROWS, visit.query.get("cursor"))
    values: dict[str, Any] = {"views": found, "following": following, "times": TIMES_SHOWN_COUNT, "wall": describe}
    quiet = visit.scheduler.quiet_hours.read(user=_user(visit.query), by=_acting(visit))
    values |= {"quiet": quiet, "quiet_text": quiet_hours_text(quiet_hours_json(quiet))}
    return Page("pages/schedules.html", "Schedules", {**values, "live": "cursor" not in visit.query})


def _page(visit: Visit, limit: int, cursor: str | None) -> tuple[list[TaskView], str | None]:
    words = visit.query.get("q", "").strip() or None
    found, following = visit.scheduler.tasks.recurring(
        words=words, limit=limit, cursor=cursor, tenant=visit.reach, by=visit.principal
    )
    return list(found), following


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
    """Pause one schedule, or let it continue."""
    task_id, paused = visit.parts["task_id"], visit.form.get("pause") == "true"
    owner = visit.store.history.tenants([task_id]).get(task_id, visit.principal.tenant)
    with unchanged_task():
        view = visit.scheduler.reschedule(
            task_id, pause=paused, revision=revision_shown(visit), by=visit.acting_in(owner)
        )
    return Moved(path_of(visit.form, "after"), f"{'Paused' if paused else 'Resumed'}: {view.record.task.title}")


def set_quiet_hours(visit: Visit) -> Moved:
    """Set the quiet hours of a user, or forget them, so that those of the settings count again."""
    hours, user, by = visit.scheduler.quiet_hours, _user(visit.form), _acting(visit)
    forget = visit.form.get("do") == FORGET
    found = hours.clear(user=user, by=by) if forget else hours.set(visit.form.get("hours", ""), user=user, by=by)
    return Moved(visit.url("/schedules", user=user), quiet_hours_text(quiet_hours_json(found)))


def _user(given: ImmutableMultiDict[str, str]) -> str | None:
    return given.get("user", "").strip() or None


def _acting(visit: Visit) -> Principal:
    return visit.acting_in(visit.tenant or visit.principal.tenant)


SCHEDULE_ROUTES = (
    get("/schedules", schedules, query={"q", "cursor", "format", "user"}),
    post("/schedules/quiet-hours", set_quiet_hours),
    post("/schedules/{task_id}/pause", pause),
)
