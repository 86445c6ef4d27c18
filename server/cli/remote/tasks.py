"""The verbs of tasks on another machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.validation import wait_seconds
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.formats.option_values import (
    read_approval,
    read_object,
    read_repeat_policy,
    read_retry,
    read_steps,
    read_units,
    read_wait,
    removed_parts,
)
from duetime.server.cli.formats.task_list import show_list, write_tasks
from duetime.server.cli.past import count_tables
from duetime.server.cli.past.history import EVENT_FILTERS, show_page
from duetime.server.cli.past.history_table import EVENT_COLUMNS, event_cells
from duetime.server.cli.past.pages import PagePlace, full_page
from duetime.server.cli.pools import show_explanation
from duetime.server.cli.remote.client import RemoteAnswer, RemoteServer
from duetime.server.cli.remote.tables import CONTEXT, zone_of
from duetime.server.cli.tasks import UNCHANGED_VERB, show_changed, show_task, undo_verb, verb_of
from duetime.widgets.history import NO_CHANGES
from duetime.widgets.schema.task import TaskPayload

Params = Mapping[str, Any]


def reason_of(params: Params) -> dict[str, str]:
    """Return the reason that is given for the audit log."""
    return {"reason": params["reason"]} if params["reason"] else {}


SAME_NAMES: Final = (
    *(
        "title",
        "when",
        "repeat",
        "timezone",
        "until",
        "max_runs",
        "action",
        "priority",
        "deadline",
        "deadline_type",
        "notify",
    ),
    *("estimate", "deliver_to", "after", "after_failure", "dry_run", "skip_next", "all_following", "pause_until"),
)
"""Options whose names are those of the arguments."""

_ID: Final = re.compile(r"[ct]_[0-9a-z]{12}|r_[0-9a-z]{20}")


def schedule(server: RemoteServer, params: Params) -> None:
    """Schedule a task."""
    task = server.post("/tasks", _body(params), Idempotency_Key=params["key"])
    verb = "Would schedule" if params["dry_run"] else "Scheduled" if task.get("created") else "Exists already:"
    _show_change(verb, task, params)


def list_(server: RemoteServer, params: Params) -> None:
    """List tasks."""
    names = ("state", "label", "query", "after", "before")
    _show_tasks(server, params, {name: params[name] for name in names})


def failed(server: RemoteServer, params: Params) -> None:
    """List tasks whose last run failed."""
    _show_tasks(server, params, {"state": "failed", **{name: params[name] for name in ("label", "query")}})


def _show_tasks(server: RemoteServer, params: Params, where: Mapping[str, Any]) -> None:
    def read(limit: int, cursor: str | None) -> RemoteAnswer:
        return server.get("/tasks", **where, limit=limit, cursor=cursor)

    def chain_of(chain_id: str) -> TaskPayload:
        return TaskPayload.model_validate(server.get(f"/tasks/{chain_id}"))

    if wants_every_page(params[CONTEXT]):
        write_tasks(params[CONTEXT], read)
    else:
        show_list(params[CONTEXT], read(params["limit"], params["cursor"]), zone_of(params), chain_of)


def show(server: RemoteServer, params: Params) -> None:
    """Show everything about one task."""
    task_id = found_id(server, params["task_id"])
    if params["wait"] is not None:
        server = replace(server, timeout_s=server.timeout_s + wait_seconds(params["wait"]))
    task = server.get(f"/tasks/{task_id}", history="true" if params["history"] else None, wait=params["wait"])
    show_task(task, as_json=params["as_json"])


def history(server: RemoteServer, params: Params) -> None:
    """Show what happened to tasks."""
    task_id = found_id(server, params["task_id"]) if params["task_id"] else None
    where = {"task_id": task_id, **{name: params[name] for name in (*EVENT_FILTERS, "since", "until", "tenant")}}
    ways = {"as_json", "as_csv"}
    shown = {way: params[way] for way in ways}
    if params["count_by"]:
        count_tables.show_counts(
            server.get("/events/counts", group=params["count_by"].value, **where), "events", **shown
        )
    elif params["bucket"]:
        found = server.get("/events/buckets", width=params["bucket"].value, **where)
        count_tables.show_buckets(found, "events", **shown)
    else:
        _events(server, params, where)


def _events(server: RemoteServer, params: Params, where: dict[str, Any]) -> None:
    def read(limit: int, cursor: str | None) -> RemoteAnswer:
        return server.get("/events", **where, limit=limit, cursor=cursor)

    if wants_every_page(params[CONTEXT]):
        write_every_page(params[CONTEXT], read, "events", EVENT_COLUMNS, event_cells)
        return
    page = full_page(read, "events", PagePlace(params["limit"], params["cursor"]))
    show_page(params[CONTEXT], page, zone_of(params))


def reschedule(server: RemoteServer, params: Params) -> None:
    """Change a task."""
    task_id = found_id(server, params["task_id"])
    headers = {"Idempotency_Key": params["key"], "If_Match": _etag(params)}
    task = server.send("PATCH", f"/tasks/{task_id}", _body(params), **headers)
    if params["dry_run"]:
        _show_change("Would change", task, params)
    elif NOTHING_CHANGED in task.get("warnings", ()):
        _show_change(UNCHANGED_VERB, task, params)
    else:
        newest = {} if params["as_json"] else server.get(f"/tasks/{task_id}", history="true")["history"]["events"][0]
        show_changed(verb_of(params), task, newest.get("changes", NO_CHANGES), as_json=params["as_json"])


def cancel(server: RemoteServer, params: Params) -> None:
    """Cancel a task."""
    task_id = found_id(server, params["task_id"])
    body = {"reason": params["reason"]} if params["reason"] else {}
    headers = {"Idempotency_Key": params["key"], "If_Match": _etag(params)}
    task = server.post(f"/tasks/{task_id}/cancel", body, **headers)
    _show_change("Cancelled" if task["state"] == "cancelled" else "Stop requested:", task, params)


def approve(server: RemoteServer, params: Params) -> None:
    """Approve a task that waits for approval."""
    _answer(server, params, "approve", "Approved")


def reject(server: RemoteServer, params: Params) -> None:
    """Cancel a task that waits for approval; of a recurring one, skip the run that asks."""
    _answer(server, params, "reject", "Rejected")


def _answer(server: RemoteServer, params: Params, answer: str, verb: str) -> None:
    task_id = found_id(server, params["task_id"])
    body = {"reason": params["reason"]} if params["reason"] else {}
    _show_change(verb, server.post(f"/tasks/{task_id}/{answer}", body, If_Match=_etag(params)), params)


def undo(server: RemoteServer, params: Params) -> None:
    """Undo a change: the one that is named, or a cancel."""
    task_id = found_id(server, params["task_id"])
    body = {"undo": params["token"]} if params["token"] else {}
    task = server.post(f"/tasks/{task_id}/undo", body, Idempotency_Key=params["key"])
    _show_change(undo_verb(params["token"], task["state"]), task, params)


def explain(server: RemoteServer, params: Params) -> None:
    """Explain why a task is not running."""
    task_id = found_id(server, params["task_id"])
    found = server.get(f"/tasks/{task_id}/explain")
    show_explanation(found, as_json=params["as_json"])


def found_id(server: RemoteServer, text: str) -> str:
    """Return the id of the task that a text stands for: the beginning of one, or a title that one task alone has."""
    return text if _ID.fullmatch(text) else str(server.get("/find", task_id=text)["id"])


def _show_change(verb: str, task: RemoteAnswer, params: Params) -> None:
    show_changed(verb, task, as_json=params["as_json"])


def _is_given(value: Any) -> bool:
    """Whether an option was given; a number that is 0 was."""
    return value is not None and value is not False and value not in ([], ())


def _body(params: Params) -> dict[str, Any]:
    """Return the arguments of a request; options that were not given are left out."""
    same = {name: params[name] for name in SAME_NAMES if _is_given(params.get(name))}
    approval = read_approval(params.get("approval"))
    read: dict[str, Any] = {
        "payload": read_object(params["payload"]),
        "expect": read_object(params.get("expect"), "expect"),
        "on_failure": read_object(params.get("on_failure"), "on_failure"),
        "origin": read_object(params.get("origin"), "origin"),
        "needs": read_units(params["needs"]),
        "retry": read_retry(params["retry"]),
        "repeat_policy": read_repeat_policy(params["repeat_policy"]),
        "labels": list(params["label"] or ()) or None,
        "steps": read_steps(params.get("steps")) or None,
        "approval": dict(approval) if isinstance(approval, Mapping) else approval,
        "wait_for": read_wait(params.get("wait_for")),
        "valid_output": read_object(params.get("valid_output"), "valid_output"),
        "remove": removed_parts(params.get("remove")) or None,
    }
    pause = {} if params.get("pause") is None else {"pause": params["pause"]}
    return {**same, **pause, **{name: value for name, value in read.items() if value is not None}}


def _etag(params: Params) -> str | None:
    return f'"{params["revision"]}"' if params["revision"] is not None else None
