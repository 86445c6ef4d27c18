"""A request of each operation about a task of somebody, by operationId: for tests that have to ask every route."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CANARY = "canary7f3a"
KEY = f"key-{CANARY}"
UNKNOWN_DECISION = "d_7k3m9qx2w4hb00000000"
UNKNOWN_RUN = "r_7k3m9qx2w4hb00000000"
OTHER = "acme"
"""The tenant that others ask about."""
RUN_PATHS = {
    "list_runs": "/runs",
    "count_runs": "/runs/counts",
    "count_runs_by_time": "/runs/buckets",
    "list_costs": "/costs",
    "get_report": "/report",
    "count_events": "/events/counts",
    "count_events_by_time": "/events/buckets",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: method, path below `/v1`, and what else it sends."""

    method: str
    path: str
    given: Mapping[str, Any] = field(default_factory=dict)


def requests_about(task_id: str, key_id: str = "8k4n0ry3x5jc", run_id: str = UNKNOWN_RUN) -> dict[str, list[Asked]]:
    """Return requests by the operation that they are to; together they are every way to learn of a task or a key."""
    ended = f"state=ended&label={CANARY}"
    task, other = f"/tasks/{task_id}", f"tenant={OTHER}"
    new = {"title": "Call John", "when": "in 2 hours"}
    key = {"headers": {"Idempotency-Key": KEY}}
    old = {"headers": {"If-Match": '"7"'}}
    filters = (
        f"query={CANARY}",
        f"query={CANARY[:4]}",
        f"label={CANARY}",
        "state=ended",
        "state=failed",
        "before=in%209%20days&after=yesterday",
        "limit=1",
        "",
    )
    return {
        "schedule_task": [Asked("POST", "/tasks", {"body": {**new, "dry_run": True}, **key})],
        "schedule_tasks": [Asked("POST", "/tasks/batch", {"body": {"tasks": [{**new, "deliver_to": ["none"]}]}})],
        "change_tasks": [
            Asked("POST", "/tasks/changes", {"body": {"change": "cancel", "task_ids": [task_id]}}),
            Asked("POST", "/tasks/changes", {"body": {"change": "pause", "query": CANARY, "expect": 1}}),
            Asked("POST", "/tasks/changes", {"body": {"change": "cancel", "label": CANARY}, **key}),
            Asked("POST", "/tasks/changes", {"body": {"change": "undo", "undo": "u_b1"}}),
        ],
        "make_fire_address": [
            Asked("POST", f"{task}/address", {"body": {}}),
            Asked("POST", f"{task}/address", {"body": {"renew": True}}),
        ],
        "revoke_fire_address": [Asked("POST", f"{task}/address/revoke", {"body": {}})],
        "fire": [Asked("POST", f"/fire/{task_id}", {"body": {"of": CANARY}})],
        "send_event": [
            Asked("POST", "/events", {"body": {"name": "paid", "data": {"of": CANARY}, "event_id": task_id}})
        ],
        "list_tasks": [Asked("GET", f"/tasks?{text}") for text in filters],
        "get_task": [Asked("GET", task), Asked("GET", f"{task}?history=true")],
        "change_task": [
            Asked("PATCH", task, {"body": {"title": "x"}}),
            Asked("PATCH", task, {"body": {"title": "x"}, **old}),
            Asked("PATCH", task, {"body": {"title": "x"}, **key}),
            Asked("PATCH", task, {"body": {"title": "x", "dry_run": True}}),
        ],
        "cancel_task": [Asked("POST", f"{task}/cancel"), Asked("POST", f"{task}/cancel", old)],
        "snooze_task": [Asked("POST", f"{task}/snooze", {"body": {"minutes": 5}})],
        "undo_task": [Asked("POST", f"{task}/undo", {"body": {"undo": each}}) for each in ("u_1", "done")],
        "explain_task": [Asked("GET", f"{task}/explain")],
        "list_attempts": [Asked("GET", f"{task}/attempts"), Asked("GET", f"{task}/attempts?limit=1")],
        "list_inbox": [Asked("GET", "/inbox"), Asked("GET", f"/inbox?task_id={task_id}&limit=5")],
        "mark_inbox_read": [
            Asked("POST", "/inbox/read", {"body": {"all": True}}),
            Asked("POST", "/inbox/read", {"body": {"task_id": task_id}}),
            Asked("POST", "/inbox/read", {"body": {"ids": [task_id]}}),
        ],
        "list_events": [
            Asked("GET", f"/events?{text}")
            for text in (
                "",
                f"task_id={task_id}",
                f"text={CANARY}",
                f"label={CANARY}",
                "since=yesterday",
                other,
                f"error={CANARY}",
            )
        ],
        "find_task": [Asked("GET", f"/find?task_id={task_id}")],
        "list_dead_letters": [
            Asked("GET", f"/dead_letters?{text}") for text in ("", f"text={CANARY}", f"task_id={task_id}", other)
        ],
        "get_dead_letter": [Asked("GET", f"/dead_letters/{run_id}"), Asked("GET", f"/dead_letters/{run_id}?{other}")],
        **{
            f"{verb}_dead_letters": [
                Asked("POST", f"/dead_letters/{verb}", {"body": {"run_ids": [run_id], "reason": "x"}, **key}),
                Asked("POST", f"/dead_letters/{verb}", {"body": {"all": True, "reason": "x"}}),
                Asked("POST", f"/dead_letters/{verb}", {"body": {"text": CANARY, "dry_run": True}}),
                Asked("POST", f"/dead_letters/{verb}", {"body": {"all": True, "reason": "x", "tenant": OTHER}}),
            ]
            for verb in ("replay", "discard")
        },
        "undo_dead_letters": [
            Asked("POST", "/dead_letters/undo", {"body": {"undo": "u_b7k3m9qx2w4h", **of}})
            for of in ({}, {"tenant": OTHER})
        ],
        **{
            name: [
                Asked("GET", f"{path}?{text}") for text in ("", f"task_id={task_id}", f"text={CANARY}", ended, other)
            ]
            for name, path in RUN_PATHS.items()
        },
        "get_run": [Asked("GET", f"/runs/{run_id}"), Asked("GET", f"/runs/{run_id}?{other}")],
        "list_audit_entries": [
            Asked("GET", f"/audit?{text}") for text in ("", f"subject={run_id}", "actor=ann", "surface=rest", other)
        ],
        "list_audit_heads": [Asked("GET", f"/audit/heads?{text}") for text in (other, "tenant=*")],
        "verify_audit": [
            Asked("POST", "/audit/verify", {"body": {"tenant": OTHER}}),
            Asked("POST", "/audit/verify", {"body": {"tenant": "*", "heads": [f"{OTHER}:1:{'0' * 64}"]}}),
        ],
        "get_quiet_hours": [Asked("GET", f"/quiet-hours?{text}") for text in ("", "user=bob", other)],
        "set_quiet_hours": [Asked("PUT", "/quiet-hours", {"body": {"hours": "none", "tenant": OTHER}})],
        "clear_quiet_hours": [Asked("DELETE", f"/quiet-hours?{text}") for text in ("", other)],
        "list_secrets": [Asked("GET", f"/secrets?{text}") for text in ("", other, "tenant=*")],
        "set_secret": [Asked("PUT", "/secrets/theirs", {"body": {"value": "12345678", "tenant": OTHER}})],
        "remove_secret": [Asked("DELETE", f"/secrets/theirs?{text}") for text in ("", other)],
        "rotate_secrets": [Asked("POST", "/secrets/rotate")],
        "get_policy": [Asked("GET", "/policy")],
        "list_policy_versions": [Asked("GET", "/policy/versions")],
        "change_policy": [Asked("PATCH", "/policy", {"body": {"policy": {"value": {"low": 2}}}})],
        "get_policy_shadow": [Asked("GET", "/policy/shadow")],
        "set_policy_shadow": [Asked("PUT", "/policy/shadow", {"body": {"policy": {"shares": {"low": 0.12}}}})],
        "remove_policy_shadow": [Asked("DELETE", "/policy/shadow")],
        "roll_back_policy": [Asked("POST", "/policy/rollback", {"body": {"version": 0}})],
        "get_retention": [Asked("GET", "/retention")],
        "run_retention": [
            Asked("POST", "/retention/run"),
            Asked("POST", "/retention/run", {"body": {"dry_run": True}}),
        ],
        "import_archive": [Asked("POST", "/import", {"body": {"name": "x", "content": "eA==", "tenant": OTHER}})],
        "get_doctor": [Asked("GET", f"/doctor?{text}") for text in ("", "deep=true")],
        "send_doctor_test": [Asked("POST", "/doctor", {"body": body}) for body in ({}, {"send_again": "crm"})],
        "get_config": [Asked("GET", "/config")],
        "get_top": [Asked("GET", "/top")],
        "list_alerts": [Asked("GET", "/alerts")],
        "get_run_log": [
            *(Asked("GET", f"/runs/{each}/log") for each in (run_id, task_id)),
            Asked("GET", f"/runs/{run_id}/log?newest=5"),
            Asked("GET", f"/runs/{run_id}/log?after=0.0&limit=5&{other}"),
        ],
        "stream_changes": [Asked("GET", "/changes?seconds=0")],
        "stream_run_log": [Asked("GET", f"/runs/{each}/log/stream?seconds=0") for each in (run_id, task_id)],
        "list_actions": [Asked("GET", "/actions")],
        "list_pools": [Asked("GET", "/pools")],
        "get_pool": [Asked("GET", "/pools/tenant:acme")],
        "set_pool": [Asked("PUT", "/pools/tenant:acme", {"body": {"spec": {"capacity": 2}}})],
        "remove_pool": [Asked("DELETE", "/pools/tenant:acme")],
        "list_decisions": [Asked("GET", f"/decisions?{text}") for text in ("", f"task_id={task_id}", "limit=1", other)],
        "get_decision": [Asked("GET", f"/decisions/{UNKNOWN_DECISION}?{text}") for text in ("", other)],
        "list_workers": [Asked("GET", "/workers")],
        "drain_worker": [Asked("POST", "/workers/w1/drain", {"body": {"now": True}})],
        "resume_worker": [Asked("POST", "/workers/w1/resume")],
        "get_stats": [Asked("GET", "/stats")],
        "list_keys": [Asked("GET", f"/keys?{text}") for text in ("", other)],
        "create_key": [Asked("POST", "/keys", {"body": {"name": "x", "tenant": OTHER}})],
        "revoke_key": [Asked("POST", f"/keys/{key_id}/revoke")],
        "rotate_key": [Asked("POST", f"/keys/{key_id}/rotate", {"body": {"overlap": "1 hour"}})],
        **{
            f"{name}_task": [Asked("POST", f"{task}/{name}")]
            for name in ("run_now", "skip_next", "done", "approve", "reject")
        },
        **{f"{name}_task": [Asked("POST", f"{task}/{name}")] for name in ("pause", "resume")},
    }
