"""Retention as JSON: for the command line and REST."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.dispatch.retention_run import RetentionRun
from duetime.scheduler.history.retention import RetentionPolicy, RetentionRule
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.time import times
from duetime.scheduler.store.retention.retention import LastSweep
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present

MAX_RULE_NAME_CHARS: Final = 100
"""Characters of a file's name in the audit log."""


def status_json(
    policy: RetentionPolicy, former: Iterable[RetentionRule], sweeps: Iterable[LastSweep]
) -> dict[str, Json]:
    """Return the rules, the former ones, and when each kind of rows was last looked through."""
    rules: list[Json] = [_rule(rule) for rule in policy.rules]
    known: dict[str, Json] = {"schema": "duetime.retention/1", "rules": rules, "archive": _text(policy.archive)}
    return present({**known, "former_rules": [*map(_rule, former)], "sweeps": [*map(_sweep, sweeps)]})


def run_json(run: RetentionRun) -> dict[str, Json]:
    """Return what a run deleted, or would delete."""
    counts: dict[str, Json] = {
        kind.value: {name: count for name, count in of.items() if count} for kind, of in run.by_kind.items()
    }
    return {
        "schema": "duetime.retention_run/1",
        "dry_run": run.dry_run,
        "complete": run.complete,
        "rows": counts,
        "longest_batch_seconds": round(run.longest, 6),
        **({"problems": {kind.value: text for kind, text in run.problems.items()}} if run.problems else {}),
    }


def import_json(stored: Mapping[str, int], there: int) -> dict[str, Json]:
    """Return how many rows of files were stored, by table, and how many were there already."""
    return {"schema": "duetime.import/1", "stored": {**stored}, "there": there}


def import_entry(name: str, stored: Mapping[str, int], *, by: Principal, reason: str | None) -> AuditEntry:
    """Return the audit entry of a file that was imported."""
    subject, detail = name[:MAX_RULE_NAME_CHARS], {"stored": {**stored}}
    return AuditEntry.by(by, AuditKind.ROWS_IMPORTED, subject, reason=reason, detail=detail)


def _text(archive: Path | None) -> str | None:
    return str(archive) if archive else None


def _rule(rule: RetentionRule) -> dict[str, Json]:
    days = rule.age / timedelta(days=1) if rule.age is not None else None
    states: list[Json] = [state.value for state in rule.states]
    known: dict[str, Json] = {"what": rule.kind.value, "age_days": days, "states": states}
    until = rule.until.isoformat() if rule.until else None
    return present({**known, "tenant": rule.tenant, "unread": rule.unread, "until": until})


def _sweep(sweep: LastSweep) -> dict[str, Json]:
    at = times.utc(sweep.finished_at)
    known: dict[str, Json] = {"what": sweep.kind.value, "finished_at": at, "deleted": sweep.deleted}
    return present({**known, "problem": sweep.problem})
