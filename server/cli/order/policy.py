"""The verbs of the policy: show, set, history, rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.policies.policy import OrderPolicy, read_policy
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Tier
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_way, session
from duetime.server.words.json_examples import as_assignments, as_json_word, with_examples
from duetime.tools.admin.policy_rows import change_json, history_json, number_or_text, policy_json
from duetime.tools.arguments.strict_json import strict_json
from duetime.widgets.text.history_text import clock_time

Reason = Annotated[str | None, typer.Option(help="why, for the history and the audit log")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say what would change")]

CHANGE_EXAMPLE = "patience.normal='2 minutes'"


def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the policy in force: its numbers by tier."""
    opened = session(context)
    with opened.app() as app:
        policies = app.registry.policies
        found = policy_json(policies.refresh(), next(iter(policies.history(1)), None))
    show_policy(found, opened.zone(), as_json=as_json)


def show_policy(found: Mapping[str, Any], zone: str, *, as_json: bool) -> None:
    """Write the policy in force."""
    if as_json:
        output.as_json(dict(found))
        return
    output.say(_version_text(found, zone) if found["version"] else "version 0: the default, which nobody has changed")
    output.table(("TIER", "PATIENCE", "VALUE", "SHARE", "CEILING", "HEADROOM"), _rows(read_policy(found["policy"])))


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
    given = read_changes(changes)
    with session(context).app() as app, with_examples(as_typed(changes)):
        change = app.registry.policies.set(given, by=_caller(), reason=reason, dry_run=dry_run)
        app.runner.wake()
        backlog = app.backlog.report()
    show_change(change_json(change, sum(tier.waiting for tier in backlog.tiers)), as_json=as_json)


def history(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the versions of the policy, newest first: who set each, when, why and what it changed."""
    opened = session(context)
    with opened.app() as app:
        found = history_json(app.registry.policies.history())
    show_history(found, opened.zone(), as_json=as_json)


def show_history(found: Mapping[str, Any], zone: str, *, as_json: bool) -> None:
    """Write versions of the policy."""
    if as_json:
        output.as_json(dict(found))
        return
    if not found["versions"]:
        output.say("nobody has changed the policy: the default is in force")
    for each in found["versions"]:
        output.say(_version_text(each, zone))
        _say_lines(each["changes"])


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
    show_change(change_json(change, sum(tier.waiting for tier in backlog.tiers)), as_json=as_json)


def _caller() -> Principal:
    return replace(LOCAL, via=cli_way())


def as_typed(changes: Sequence[str]) -> Callable[[Mapping[str, Any]], str]:
    """Return how changes of the policy are written as the caller typed them: JSON, or NAME.TIER=VALUE."""
    return (
        as_assignments if any("=" in each and not each.lstrip().startswith("{") for each in changes) else as_json_word
    )


def read_changes(changes: Iterable[str]) -> Mapping[str, Any]:
    words = list(changes)
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _json_of(words[0])
    found: dict[str, Any] = {}
    for word in words:
        name, is_assigned, value = word.partition("=")
        part, has_tier, tier = name.strip().partition(".")
        if not (is_assigned and has_tier):
            accepted = "NAME.TIER=VALUE, or a JSON object"
            raise InvalidArgument(
                "changes", f"{word[:60]!r} is not a change", accepted=accepted, example=CHANGE_EXAMPLE
            )
        found.setdefault(part, {})[tier] = number_or_text(value.strip())
    return found


def _json_of(text: str) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = strict_json(text)
    except ValueError as error:
        message = f"it is not JSON: {error}"
        raise InvalidArgument("changes", message, accepted="one JSON object", example=CHANGE_EXAMPLE) from None
    return found


def show_change(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write a change of the policy, done or only tried."""
    if as_json:
        output.as_json(dict(found))
        return
    if not found["changes"]:
        output.say("nothing changes: the policy in force has these numbers")
        return
    version, moved = found.get("version"), found["waiting_runs_with_new_keys"]
    output.say(f"version {version} is in force:" if version else "this would change:")
    _say_lines(found["changes"])
    if moved:
        output.say(f"{moved} waiting runs {'get' if version else 'would get'} new places in the order")


def _say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        output.say(f"  {line}")


def _version_text(found: Mapping[str, Any], zone: str) -> str:
    why = f": {found['reason']}" if found.get("reason") else ""
    return f"version {found['version']}, set by {found['actor']} at {clock_time(found['at'], zone)} {zone}{why}"


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
