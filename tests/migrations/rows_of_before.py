"""Rows as each version of the schema could have them: one of every table that a version has, with its columns.

Values are written as a database has them, and no type of today's code is asked how. A version `n` leaves an open task
`t_<n>`, which is due, and one that failed, `t_<n>_failed`, with all that a failure leaves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, column, insert, inspect, table

TENANT, USER = "acme", "alice"
NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
EARLIER = NOON - timedelta(hours=1)
MINUTE_US = 60_000_000
RETRY = {"max_attempts": 5, "backoff": 1, "max_backoff": 60}
PAYLOAD = {"message": "Hi"}

SEALED = ("runner", "shadow_policies", "audit_progress", "audit_heads", "audit_segments", "duetime_version")
"""Tables that have one row for all, or rows that only the code that seals them writes."""


def add(connection: Connection, version: str) -> None:
    """Add the rows of a version to the tables that it has; of these, only the columns are asked for."""
    known = inspect(connection).get_multi_columns()
    stored = _plain if connection.dialect.name == "sqlite" else _as_it_is
    for name, rows in rows_of(int(version)):
        if (columns := known.get((None, name))) is not None:
            found = table(name, *(column(each["name"], each["type"]) for each in columns))
            for row in rows:
                values = {key: stored(value) for key, value in row.items() if key in found.columns}
                connection.execute(insert(found), values)


def _plain(value: Any) -> Any:
    """Return a value as SQLite has it: instants are microseconds, and JSON is text."""
    if isinstance(value, datetime):
        return int(value.timestamp()) * 1_000_000
    return json.dumps(value) if isinstance(value, dict | list) else value


def _as_it_is(value: Any) -> Any:
    return value


def rows_of(n: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of a version by their tables; a table that refers to another one comes behind it."""
    yield from _tasks(f"t_{n}", f"r_{n}", f"t_{n}_failed", f"r_{n}_failed", n)
    yield from _around(f"t_{n}_failed", f"r_{n}_failed", n)
    yield from _installation(n)
    yield from _waits(f"t_{n}", f"t_{n}_failed", f"r_{n}_failed", n)


def _tasks(task: str, run: str, failed: str, failed_run: str, n: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    common = {
        "tenant": TENANT, "owner": USER, "action": "reminder", "payload": PAYLOAD, "timezone": "UTC", "when": "noon",
        "anchor": NOON, "paused": False, "retry": RETRY, "deliver_to": ["inbox"], "labels": ["old"], "revision": 1,
        "created_at": EARLIER, "updated_at": EARLIER, "priority": "high", "deadline_type": "hard", "penalty": "none",
        "estimate": MINUTE_US, "needs": {}, "notify": "always", "origin": {}, "expect": {}, "on_failure": {},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }  # fmt: skip
    titles = {task: f"Open since version {n}", failed: f"Failed in version {n}"}
    yield "tasks", [common | {"id": id_, "title": text, "title_folded": text.lower()} for id_, text in titles.items()]
    yield "task_labels", [{"tenant": TENANT, "label": "old", "task_id": id_} for id_ in titles]
    due = {
        "tenant": TENANT, "scheduled_for": NOON, "generation": 1, "number": 1, "current": True, "failures": 0,
        "crashes": 0, "missed": 0, "cancel_requested": False, "listed_at": NOON, "paused": False, "failed_before": 0,
    }  # fmt: skip
    ended = {"first_ready_at": NOON, "started_at": NOON, "ended_at": NOON, "attempt": 1, "failures": 1, "error": "boom"}
    told = {"summary": "gave up", "progress": {"percent": 50, "text": "half"}, "last_failure": True}
    yield (
        "runs",
        [
            due | {"id": run, "task_id": task, "state": "scheduled", "wake_at": NOON, "attempt": 0},
            due | ended | told | {"id": failed_run, "task_id": failed, "state": "failed"},
        ],
    )
    yield "attempts", [
        {"run_id": failed_run, "number": 1, "worker": "host-1", "started_at": NOON, "ended_at": NOON,
         "outcome": "failed", "reason": "boom"},
    ]  # fmt: skip
    moves = [("created", None, "scheduled"), ("ready", "scheduled", "ready"), ("started", "ready", "running"),
             ("failed", "running", "failed")]  # fmt: skip
    event = {"tenant": TENANT, "at": NOON, "actor": USER, "revision": 1, "via": "mcp"}
    yield (
        "events",
        [
            event
            | {"task_id": failed, "run_id": failed_run, "seq": seq, "kind": kind, "from_state": was, "to_state": now}
            for seq, (kind, was, now) in enumerate(moves, 1)
        ]
        + [event | {"task_id": task, "run_id": run, "seq": 1, "kind": "created", "to_state": "scheduled"}],
    )


def _around(task: str, run: str, n: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the rows that a run leaves next to itself when it fails."""
    of_run = {"tenant": TENANT, "task_id": task, "run_id": run}
    yield "idempotency_keys", [
        {"tenant": TENANT, "key": f"k_{n}", "task_id": task, "fingerprint": {"title": "x"}, "derived": False,
         "revision": 1, "look_at": NOON + timedelta(days=30)},
    ]  # fmt: skip
    yield "dead_letters", [of_run | {"at": NOON, "reason": "out of attempts", "payload": PAYLOAD}]
    yield "inbox", [
        of_run | {"id": f"m_{n}", "user": USER, "title": "Failed", "text": "boom", "state": "failed",
                  "created_at": NOON, "quiet": False},
    ]  # fmt: skip
    yield "deliveries", [
        of_run | {"id": f"d_{n}", "channel": "desktop", "state": "delivered", "attempts": 1, "delivered_at": NOON},
    ]  # fmt: skip
    yield "usage", [
        {"run_id": run, "attempt": 1, "pool": "gpu", "tenant": TENANT, "units": 2.0, "at": NOON, "cost": 7},
    ]  # fmt: skip
    yield "tracebacks", [{"run_id": run, "attempt": 1, "text": "Traceback (most recent call last)"}]
    yield "run_logs", [
        {"run_id": run, "attempt": 1, "first": 1, "last": True, "lines": 1, "cut": 0, "size": 5, "at": NOON,
         "text": "hello\n"},
    ]  # fmt: skip
    yield "decisions", [of_run | {"id": f"x_{n}", "at": NOON, "worker": "host-1", "detail": {}}]


def _installation(n: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the rows that an installation keeps of itself."""
    yield "pools", [
        {"name": f"pool-{n}", "spec": {"kind": "slots", "capacity": 2}, "revision": 1, "updated_at": NOON,
         "updated_by": USER},
    ]  # fmt: skip
    yield "estimates", [
        {"tenant": TENANT, "action": f"action-{n}", "histogram": {"3": 1.0}, "weight": 1.0, "updated_at": NOON},
    ]  # fmt: skip
    yield "workers", [
        {"id": f"host-{n}", "host": "host", "pid": n, "threads": 4, "started_at": NOON, "state": "gone", "running": 0,
         "seen_at": NOON, "actions": ["reminder"], "lost_threads": 0},
    ]  # fmt: skip
    yield "external_workers", [
        {"tenant": TENANT, "user": f"bot-{n}", "client": None, "everywhere": False, "actions": ["transcribe"],
         "started_at": NOON, "seen_at": NOON},
    ]  # fmt: skip
    yield "server_keys", [{"name": f"key-{n}", "key": "00" * 16}]
    yield "api_keys", [
        {"id": f"key{n}", "tenant": TENANT, "user": USER, "scopes": ["tasks"], "name": "laptop", "digest": "00" * 32,
         "created_at": NOON},
    ]  # fmt: skip
    yield "audit_entries", [{"tenant": TENANT, "at": NOON, "kind": "key_created", "actor": USER, "subject": f"key{n}"}]
    yield "secrets", [
        {"tenant": TENANT, "name": f"secret-{n}", "token": "gAAA", "hosts": [], "set_at": NOON, "set_by": USER},
    ]  # fmt: skip
    yield "quiet_hours", [
        {"tenant": TENANT, "user": f"{USER}-{n}", "hours": "22:00-07:00 UTC", "set_at": NOON, "set_by": USER},
    ]  # fmt: skip
    yield "policies", [{"version": n, "content": {}, "at": NOON, "actor": USER}]
    yield "retention_sweeps", [{"kind": f"kind-{n}", "finished_at": NOON, "deleted": 3}]
    yield "alerts", [{"rule": "dead_letters", "key": f"k{n}", "phase": "firing", "since": NOON, "value": 1.0}]
    yield "alert_notices", [
        {"rule": "dead_letters", "key": f"k{n}", "channel": "desktop", "told": "firing", "told_at": NOON, "tries": 1},
    ]  # fmt: skip
    yield "turns", [{"name": f"turn-{n}", "next_at": NOON}]
    yield "ended_sessions", [{"session_id": f"session-{n}", "ends_at": NOON}]


def _waits(task: str, failed: str, run: str, n: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return what tasks have with each other and with the world; all waits are over, so that the open task is due."""
    yield "dependencies", [
        {"task_id": task, "upstream_id": failed, "tenant": TENANT, "after_failure": "run_anyway", "closed_at": NOON,
         "outcome": "failed", "ended_run": run},
    ]  # fmt: skip
    yield "chains", [
        {"id": f"c_{n}", "tenant": TENANT, "owner": USER, "title": "Chain", "timezone": "UTC", "created_at": NOON,
         "number": 1},
    ]  # fmt: skip
    yield "chain_steps", [
        {"task_id": failed, "chain_id": f"c_{n}", "tenant": TENANT, "name": "first", "place": 0},
        {"task_id": task, "chain_id": f"c_{n}", "tenant": TENANT, "name": "second", "place": 1},
    ]  # fmt: skip
    yield "spawned_tasks", [{"task_id": failed, "tenant": TENANT, "name": "first/one", "run_id": run}]
    yield "approvals", [
        {"run_id": run, "attempt": 0, "question": "Go?", "default": "reject", "asked_at": EARLIER, "closed_at": EARLIER,
         "answer": "approve", "answered_by": USER},
    ]  # fmt: skip
    yield "signals", [
        {"tenant": TENANT, "id": f"s_{n}", "name": "paid", "data": {"order": 7}, "at": NOON, "actor": USER, "freed": 1,
         "matched": 1},
    ]  # fmt: skip
    yield "signal_waits", [
        {"waiter_id": failed, "task_id": failed, "tenant": TENANT, "name": "paid", "wanted": {"order": 7},
         "since": EARLIER, "until": NOON, "on_timeout": "expire", "at_once": False, "closed_at": NOON,
         "signal_id": f"s_{n}", "signal_at": NOON, "data": {"order": 7}},
    ]  # fmt: skip
    yield "fire_addresses", [
        {"id": f"f_{n}", "tenant": TENANT, "task_id": task, "digest": "00" * 32, "made_at": NOON, "made_by": USER},
    ]  # fmt: skip
    yield "follow_ups", [
        {"task_id": task, "tenant": TENANT, "of_task": failed, "of_run": run, "title": "Failed", "state": "failed",
         "why": "boom", "at": NOON},
    ]  # fmt: skip
