"""The verbs of retention: status, run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from duetime.scheduler.dispatch.retention import ORDER, Sweep
from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind, RetentionRule
from duetime.scheduler.rules.time import times
from duetime.scheduler.store.retention.retention import LastSweep
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import session
from duetime.server.settings.options import retention_policy

NO_RULES = (
    "There is no rule of retention, so nothing is deleted. "
    'Write one into the TOML file, as [[retention]], what = "tasks", age = "90 days".'
)
KindOption = Annotated[list[RetentionKind] | None, typer.Option(help="only this kind of rows; may be repeated")]


def status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the rules of retention, and when each kind of rows was last looked through."""
    opened = session(context)
    policy = retention_policy(opened.settings())
    with opened.store(create=True) as store:
        now, last = store.now(), store.retention.last_sweeps()
    if as_json:
        rules = [_rule_json(rule) for rule in policy.rules]
        sweeps = [_sweep_json(sweep) for sweep in last.values()]
        archive = str(policy.archive) if policy.archive else None
        output.as_json({"schema": "duetime.retention/1", "rules": rules, "archive": archive, "sweeps": sweeps})
    elif policy.rules:
        columns = ("WHAT", "OLDER THAN", "STATES", "TENANT", "LAST SWEEP", "DELETED", "PROBLEM")
        output.table(
            columns, (_row(rule, last.get(rule.kind), now) for rule in policy.rules), spare=("STATES", "TENANT")
        )
        output.say(f"Archive: {policy.archive}" if policy.archive else "No archive: rows are only deleted.")
    else:
        output.say(NO_RULES)


def run(
    context: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="count what would be deleted, and delete nothing")] = False,
    only: KindOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete now what the rules of retention let go, in small batches beside everything else."""
    opened = session(context)
    policy = retention_policy(opened.settings())
    kinds = [kind for kind in ORDER if any(rule.kind is kind for rule in policy.rules) and kind in (only or ORDER)]
    if not kinds:
        output.say(NO_RULES if not policy.rules else "No rule is of that kind.")
        return
    with opened.store(create=True) as store:
        sweep = Sweep(store, policy)
        result = _Result.counted(sweep, kinds) if dry_run else _Result.swept(sweep, kinds)
    if as_json:
        output.as_json(result.as_json())
    else:
        result.show()


@dataclass(frozen=True, slots=True)
class _Result:
    """The rows that a run deleted, or would delete, by kind of rule and table."""

    dry_run: bool
    by_kind: Mapping[RetentionKind, Counter[str]]
    longest: float = 0.0

    @classmethod
    def counted(cls, sweep: Sweep, kinds: list[RetentionKind]) -> _Result:
        return cls(dry_run=True, by_kind={kind: sweep.due(kind) for kind in kinds})

    @classmethod
    def swept(cls, sweep: Sweep, kinds: list[RetentionKind]) -> _Result:
        """Sweep kind by kind; raises Refused while another process does."""
        found: dict[RetentionKind, Counter[str]] = {}
        for kind in kinds:
            before = Counter(sweep.deleted)
            for pause in sweep.run([kind]):
                time.sleep(pause)
            if sweep.refused:
                raise Refused(
                    "Another process deletes by these rules at the moment; `duetime retention status` shows more."
                )
            found[kind] = sweep.deleted - before
        return cls(dry_run=False, by_kind=found, longest=sweep.longest)

    def show(self) -> None:
        rows = [
            (kind.value, table, f"{count:,}")
            for kind, counts in self.by_kind.items()
            for table, count in counts.items()
            if count
        ]
        if not rows:
            output.say("Nothing is old enough." if self.dry_run else "Nothing was old enough.")
            return
        output.table(("RULE", "TABLE", "WOULD GO" if self.dry_run else "DELETED"), rows)
        if self.dry_run:
            output.note("Nothing was deleted. A row that two rules let go is counted for both.")
        else:
            output.note(f"No batch kept writers waiting for longer than {1000 * self.longest:.0f} ms.")

    def as_json(self) -> dict[str, Any]:
        counts = {kind.value: {name: count for name, count in of.items() if count} for kind, of in self.by_kind.items()}
        return {"schema": "duetime.retention_run/1", "dry_run": self.dry_run, "rows": counts}


def _row(rule: RetentionRule, last: LastSweep | None, now: datetime) -> tuple[str, ...]:
    states = ",".join(rule.states) or "all"
    swept = (
        (times.relative(last.finished_at, now), f"{last.deleted:,}", last.problem or "") if last else ("never", "", "")
    )
    return (rule.kind.value, _age(rule.age), states, rule.tenant or "all", *swept)


def _age(age: timedelta | None) -> str:
    return "for ever" if age is None else f"{age / timedelta(days=1):g} days"


def _rule_json(rule: RetentionRule) -> dict[str, Any]:
    days = rule.age / timedelta(days=1) if rule.age is not None else None
    states = [state.value for state in rule.states]
    return {"what": rule.kind.value, "age_days": days, "states": states, "tenant": rule.tenant, "unread": rule.unread}


def _sweep_json(sweep: LastSweep) -> dict[str, Any]:
    at = times.utc(sweep.finished_at)
    return {"what": sweep.kind.value, "finished_at": at, "deleted": sweep.deleted, "problem": sweep.problem}
