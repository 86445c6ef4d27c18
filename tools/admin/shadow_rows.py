"""The comparison of a shadow policy as JSON, for REST, the command line and programs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from duetime.scheduler.dispatch.shadow_registry import ShadowReport
from duetime.scheduler.rules.policies.shadow import ShadowDifference, TierDifference
from duetime.scheduler.rules.time.times import length, utc
from duetime.widgets.formats.rows import present

ONE_STEP = (
    "Each decision is replayed alone: what would have followed from another choice is not simulated, and headroom and "
    "the turns of tenants are as recorded."
)
"""The limits of the comparison."""


def report_json(report: ShadowReport) -> dict[str, Any]:
    """Return the comparison; `summary` is the same in words."""
    shadow, found = report.shadow, report.difference
    return present(
        {
            "schema": "duetime.policy_shadow/1",
            "at": utc(shadow.at),
            "actor": shadow.actor,
            "via": shadow.via,
            "reason": shadow.reason,
            "policy": dict(shadow.content),
            "in_force": report.in_force,
            "changes": list(report.changes),
            "switch_on": dict(report.switch_on),
            "decisions": found.decisions,
            "since": utc(found.since) if found.since else None,
            "other_tier": found.other_tier,
            "other_run": found.other_run,
            "tiers": [_tier_json(tier, found.decisions) for tier in found.tiers],
            "summary": summary(found),
        }
    )


def summary(found: ShadowDifference) -> str:
    """Return in a sentence or two in how many decisions the shadow would have chosen otherwise."""
    if not found.decisions:
        return "No decision under the policy in force is recorded yet, so there is nothing to compare."
    part = _part(found.other_tier, found.decisions)
    return (
        f"Of {found.decisions} recorded starts, the shadow would have chosen another tier in {found.other_tier} "
        f"({part:.1%}), and another run of the tier in {found.other_run}. {ONE_STEP}"
    )


def shift_text(tier: TierDifference) -> str:
    """Return how keys of a tier would move: `2 min earlier`."""
    shift = timedelta(seconds=round(tier.mean_shift.total_seconds()))
    if not tier.runs:
        return "-"
    if not shift:
        return "same"
    return f"{length(abs(shift))} {'earlier' if shift < timedelta(0) else 'later'}"


def _tier_json(tier: TierDifference, decisions: int) -> dict[str, Any]:
    return {
        "tier": tier.tier.value,
        "starts": tier.starts,
        "shadow_starts": tier.shadow_starts,
        "part": round(_part(tier.starts, decisions), 4),
        "shadow_part": round(_part(tier.shadow_starts, decisions), 4),
        "runs": tier.runs,
        "earlier": tier.earlier,
        "later": tier.later,
        "mean_key_shift_seconds": round(tier.mean_shift.total_seconds(), 3),
        "keys": shift_text(tier),
    }


def _part(count: int, of: int) -> float:
    return count / of if of else 0.0
