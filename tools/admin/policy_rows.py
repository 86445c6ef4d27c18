"""The policy as JSON: for the command line and REST."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from duetime.scheduler.dispatch.policy_registry import PolicyChange, PolicyInForce
from duetime.scheduler.rules.policies.policy import (
    DEFAULT_POLICY,
    OrderPolicy,
    PolicyVersion,
    differences,
    read_policy,
    spec_of,
)
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present

ORDERING_PARTS = ("patience", "value")
"""Parts of a policy that give waiting runs new places in the order."""

_NUMBER: Final = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def policy_json(found: PolicyInForce, newest: PolicyVersion | None) -> dict[str, Json]:
    """Return the policy in force, with who set it."""
    made = version_json(newest) if newest is not None and newest.version == found.version else {}
    made.pop("policy", None)
    return {"schema": "duetime.policy/1", **made, "version": found.version, "policy": _numbers(found.policy)}


def _numbers(policy: OrderPolicy) -> dict[str, Json]:
    return dict(spec_of(policy))


def version_json(found: PolicyVersion) -> dict[str, Json]:
    """Return a version of the policy."""
    made: dict[str, Json] = {
        "version": found.version,
        "at": times.utc(found.at),
        "actor": found.actor,
        "via": found.via,
        "reason": found.reason,
        "policy": dict(found.content),
    }
    return present(made)


def history_json(found: Sequence[PolicyVersion]) -> dict[str, Json]:
    """Return versions of the policy, newest first, each with what it changed."""
    versions: list[Json] = []
    for each, before in zip(found, [*found, None][1:], strict=True):
        known = read_policy(before.content) if before else DEFAULT_POLICY
        changed = list(differences(known, read_policy(each.content))) if before or each.version == 1 else []
        versions.append({**version_json(each), "changes": [*changed]})
    return {"schema": "duetime.policy_history/1", "versions": versions}


def change_json(change: PolicyChange, waiting: int) -> dict[str, Json]:
    """Return a change of the policy, done or only tried, while so many runs wait."""
    moved = any(line.startswith(ORDERING_PARTS) for line in change.differences)
    made: dict[str, Json] = {
        "schema": "duetime.policy_change/1",
        "version": change.version,
        "changes": list(change.differences),
        "waiting_runs_with_new_keys": waiting if moved else 0,
    }
    return present(made)


def number_or_text(text: str) -> float | str:
    """Return the number that a text is, as JSON writes one; another text as it is, for the refusal to name it."""
    return float(text) if _NUMBER.fullmatch(text) else text
