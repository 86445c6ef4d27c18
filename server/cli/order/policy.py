"""The verbs of the policy: show, set, history, rollback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import typer
from duetime.scheduler.dispatch.policy_registry import PolicyChange
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.foresight.lateness import BacklogReport
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.policies.policy import (
    DEFAULT_POLICY,
    OrderPolicy,
    PolicyVersion,
    differences,
    read_policy,
    spec_of,
)
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json, Tier
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_way, session

Reason = Annotated[str | None, typer.Option(help="why, for the history and the audit log")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would change")]

CHANGE_EXAMPLE = "patience.normal='2 minutes'"


def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the policy in force: its numbers by tier."""
    with session(context).app() as app:
        found = app.registry.policies.refresh()
        newest = app.registry.policies.history(1)
    if as_json:
        output.as_json({"schema": "duetime.policy/1", "version": found.version, "policy": spec_of(found.policy)})
        return
    output.say(_version_text(newest[0]) if newest else "version 0: the default, which nobody has changed")
    output.table(("TIER", "PATIENCE", "VALUE", "SHARE", "CEILING", "HEADROOM"), _rows(found.policy))


def set_(
    context: typer.Context,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="CHANGES", help="numbers as NAME.TIER=VALUE, any number of them, or one JSON object"),
    ],
    *,
    reason: Reason = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change numbers of the policy in all processes, within seconds; everything else stays."""
    given = _given(changes)
    with session(context).app() as app:
        change = app.registry.policies.set(given, by=_caller(), reason=reason, dry_run=dry_run)
        app.runner.wake()
        backlog = app.backlog.report()
    _say_change(change, backlog, as_json=as_json)


def history(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the versions of the policy, newest first: who set each, when, why and what it changed."""
    with session(context).app() as app:
        found = list(app.registry.policies.history())
    if as_json:
        output.as_json({"schema": "duetime.policy_history/1", "versions": [_json(each) for each in found]})
        return
    if not found:
        output.say("nobody has changed the policy: the default is in force")
    for each, before in zip(found, [*found[1:], None], strict=True):
        output.say(_version_text(each))
        known = read_policy(before.content) if before else DEFAULT_POLICY
        _say_lines(differences(known, read_policy(each.content)) if before or each.version == 1 else ())


def rollback(
    context: typer.Context,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="a version of `duetime policy history`, or 0")],
    *,
    reason: Reason = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make an earlier version of the policy the newest one; 0 is the default."""
    with session(context).app() as app:
        change = app.registry.policies.roll_back(version, by=_caller(), reason=reason, dry_run=dry_run)
        app.runner.wake()
        backlog = app.backlog.report()
    _say_change(change, backlog, as_json=as_json)


def _caller() -> Principal:
    return replace(LOCAL, via=cli_way())


def _given(changes: Iterable[str]) -> Mapping[str, Any]:
    words = list(changes)
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _json_of(words[0])
    found: dict[str, Any] = {}
    for word in words:
        name, is_assigned, value = word.partition("=")
        part, has_tier, tier = name.strip().partition(".")
        if not (is_assigned and has_tier):
            accepted = "NAME.TIER=VALUE, or a JSON object"
            raise InvalidArgument("changes", f"{word[:60]!r} is no change", accepted=accepted, example=CHANGE_EXAMPLE)
        found.setdefault(part, {})[tier] = _value(value.strip())
    return found


def _json_of(text: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(text)
    except ValueError as error:
        said = f"is not JSON: {error}"
        raise InvalidArgument("changes", said, accepted="one JSON object", example=CHANGE_EXAMPLE) from None
    return found


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _say_change(change: PolicyChange, backlog: BacklogReport, *, as_json: bool) -> None:
    waiting = sum(tier.waiting for tier in backlog.tiers)
    moved = any(line.startswith(("patience", "value")) for line in change.differences)
    if as_json:
        output.as_json(
            {
                "schema": "duetime.policy_change/1",
                "version": change.version,
                "changes": list(change.differences),
                "waiting_runs_with_new_keys": waiting if moved else 0,
            }
        )
        return
    if not change.differences:
        output.say("nothing changes: the policy in force has these numbers")
        return
    output.say(f"version {change.version} is in force:" if change.version else "this would change:")
    _say_lines(change.differences)
    if moved and waiting:
        output.say(f"{waiting} waiting runs {'get' if change.version else 'would get'} new places in the order")


def _say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        output.say(f"  {line}")


def _version_text(found: PolicyVersion) -> str:
    why = f": {found.reason}" if found.reason else ""
    return f"version {found.version}, set by {found.actor} at {times.utc(found.at)}{why}"


def _json(found: PolicyVersion) -> dict[str, Json]:
    return {
        "version": found.version,
        "at": times.utc(found.at),
        "actor": found.actor,
        "via": found.via,
        "reason": found.reason,
        "policy": found.content,
    }


def _rows(policy: OrderPolicy) -> Iterator[tuple[str, ...]]:
    parts = {Tier.CRITICAL: policy.headroom.critical, Tier.HIGH: policy.headroom.high} if policy.headroom else {}
    for tier, share, ceiling in zip(Tier, policy.shares.guaranteed, policy.shares.ceilings, strict=True):
        kept = f"{parts[tier]:.1%}" if tier in parts else "-"
        yield (
            tier.value,
            times.length(timedelta(seconds=policy.patience[tier].total_seconds())),
            f"{policy.value[tier]:g}",
            f"{share:.0%}",
            f"{ceiling:.0%}",
            kept,
        )
