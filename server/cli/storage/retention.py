"""The verbs of retention: status, run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.dispatch.retention_run import RetentionRun, count_due, delete_due, kinds_with_rules
from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.rules.time import times
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.server.cli import output
from duetime.server.cli.exit_codes import FAILED_CODE
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.runtime.logs import configure_logs
from duetime.server.session import cli_caller, session
from duetime.server.settings.options import former_rules, retention_policy
from duetime.server.telemetry.observers import Observers
from duetime.tools.admin.retention_rows import run_json, status_json

NO_RULES_THERE = "There is no rule of retention on this server, so nothing is deleted."
NO_RULE_OF_KIND = "No rule is of that kind."
NO_RULES = (
    "There is no rule of retention, so nothing is deleted. "
    'Write one into the TOML file, as [[retention]], what = "tasks", age = "90 days".'
)
KindOption = Annotated[list[RetentionKind] | None, typer.Option(help="only this kind of rows; may be repeated")]


def status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the rules of retention, and when each kind of rows was last looked through."""
    opened = session(context)
    policy, former = retention_policy(opened.settings()), former_rules(opened.settings())
    with opened.store(create=True) as store:
        now, last = store.now(), store.retention.last_sweeps()
    show_status(status_json(policy, former, last.values()), now, as_json=as_json)


def show_status(found: Mapping[str, Any], now: datetime, *, as_json: bool) -> None:
    """Write the rules of retention."""
    if as_json:
        output.as_json(dict(found))
        return
    if found["rules"]:
        last = {sweep["what"]: sweep for sweep in found["sweeps"]}
        columns = ("WHAT", "OLDER THAN", "STATES", "TENANT", "LAST SWEEP", "DELETED", "PROBLEM")
        rows = (_row(rule, last.get(rule["what"]), now) for rule in found["rules"])
        output.table(columns, rows, spare=("STATES", "TENANT"))
        archive = found.get("archive")
        output.say(f"Archive: {archive}" if archive else "No archive: rows are only deleted.")
    else:
        output.say(NO_RULES)
    if former := found.get("former_rules"):  # a server of an earlier release has none
        headings = ("FORMER RULE", "OLDER THAN", "STATES", "TENANT", "UNTIL")
        output.table(headings, map(_former, former), spare=("STATES", "TENANT"))
        output.say("A former rule deletes nothing: `duetime audit verify` accepts what it deleted until its last day.")


def run(
    context: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="count what would be deleted, and delete nothing")] = False,
    only: KindOption = None,
    reason: AuditReason = None,
    as_json: AsJson = False,
) -> None:
    """Delete now what the rules of retention allow to be deleted, in small batches, while all else runs on."""
    opened = session(context)
    policy = retention_policy(opened.settings())
    kinds = kinds_with_rules(policy, only or ())
    if not kinds:
        show_nothing(NO_RULES if not policy.rules else NO_RULE_OF_KIND, dry_run=dry_run, as_json=as_json)
        return
    with opened.store(create=True) as store:
        if dry_run:
            done = count_due(store, policy, kinds)
        else:
            if not sys.stderr.isatty():  # a person has the table
                settings = opened.settings()
                configure_logs(settings.log_level, settings.log_format)
            done = delete_due(store, policy, kinds, Observers().attached(RunNotifier()), by=cli_caller(), reason=reason)
    show_run(run_json(done), as_json=as_json)


def show_nothing(why: str, *, dry_run: bool, as_json: bool) -> None:
    """Write that no rule lets anything go, and why."""
    if as_json:
        output.note(why)
        show_run(run_json(RetentionRun(dry_run=dry_run, by_kind={})), as_json=True)
    else:
        output.say(why)


def show_run(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write what a run deleted, or would delete, and what stopped it; raises Exit where anything did."""
    write_run(found, as_json=as_json)
    if found.get("problems"):
        raise typer.Exit(FAILED_CODE)


def write_run(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write what a run deleted, or would delete, and what stopped it."""
    if as_json:
        output.as_json(dict(found))
        return
    _write_rows(found)
    for kind, problem in found.get("problems", {}).items():
        output.note(f"Retention of {kind} stopped, so older rows of this kind are left: {problem}")


def _write_rows(found: Mapping[str, Any]) -> None:
    dry_run = found["dry_run"]
    rows = [(kind, table, f"{count:,}") for kind, of in found["rows"].items() for table, count in of.items()]
    if not rows:
        if not found.get("problems"):
            output.say("Nothing is old enough." if dry_run else "Nothing was old enough.")
        return
    output.table(("RULE", "TABLE", "WOULD GO" if dry_run else "DELETED"), rows)
    if dry_run:
        output.note("Nothing was deleted. A row that two rules allow to be deleted counts for the first of them.")
    else:
        output.note(f"No batch kept writers waiting for longer than {1000 * found['longest_batch_seconds']:.0f} ms.")


def _former(rule: Mapping[str, Any]) -> tuple[str, ...]:
    return *_what(rule), rule["until"]


def _what(rule: Mapping[str, Any]) -> tuple[str, ...]:
    return rule["what"], _age(rule.get("age_days")), ",".join(rule["states"]) or "all", rule.get("tenant") or "all"


def _row(rule: Mapping[str, Any], last: Mapping[str, Any] | None, now: datetime) -> tuple[str, ...]:
    if last is None:
        swept = ("never", "", "")
    else:
        at = times.relative(datetime.fromisoformat(last["finished_at"]), now)
        swept = (at, f"{last['deleted']:,}", last.get("problem") or "")
    return *_what(rule), *swept


def _age(days: float | None) -> str:
    return "for ever" if days is None else f"{days:g} day{'' if days == 1 else 's'}"
