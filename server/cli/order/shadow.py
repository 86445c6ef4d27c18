"""The verb of the shadow policy: set it, show what it would have chosen, end it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.server.cli import output
from duetime.server.cli.order.policy import Reason, as_typed, read_changes
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.server.words.json_examples import with_examples
from duetime.tools.admin.shadow_rows import report_json
from duetime.tools.arguments.strict_json import strict_json
from duetime.widgets.text.history_text import clock_time


def shadow(
    context: typer.Context,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGES|FILE|VERSION]",
            help="numbers as NAME.TIER=VALUE or JSON, a file with JSON, or a version of `duetime policy history`",
        ),
    ] = None,
    *,
    off: Annotated[bool, typer.Option("--off", help="end the shadow")] = False,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Compare a policy with recorded decisions before it is switched on; without arguments, show the result."""
    body = read_shadow(changes or (), off=off)
    opened = session(context)
    with opened.app() as app, with_examples(as_typed(changes or ())):
        registry, by = app.registry.policies.shadow, cli_caller()
        if off:
            registry.remove(by=by, reason=reason)
            say_off(as_json=as_json)
            return
        if "version" in body:
            found = registry.set_version(body["version"], by=by, reason=reason)
        else:
            found = registry.set(body["policy"], by=by, reason=reason) if body else registry.report()
    show_shadow(report_json(found), opened.zone(), as_json=as_json)


def read_shadow(changes: Sequence[str], *, off: bool) -> dict[str, Any]:
    """Return what the arguments ask for, as the body of a request: a policy, a version, or nothing."""
    if not changes:
        return {}
    if off:
        raise InvalidArgument("--off", "ends the shadow and takes no numbers", accepted="--off alone", example="--off")
    (first, *more) = changes
    if not more and first.isascii() and first.isdigit():
        return {"version": int(first)}
    if not more and "=" not in first and not first.lstrip().startswith("{"):
        return {"policy": _content(Path(first))}
    return {"policy": dict(read_changes(changes))}


def _content(path: Path) -> dict[str, Any]:
    accepted = "NAME.TIER=VALUE, a JSON object, a file with one, or a version"
    try:
        found = strict_json(path.read_text("utf-8"))
        if isinstance(found, dict):
            return found
        text = f"{str(path)[:60]!r} has no JSON object"
    except OSError as error:
        text = f"{str(path)[:60]!r} cannot be read: {error.strerror}"
    except ValueError as error:
        text = f"{str(path)[:60]!r} has no JSON object: {error}"
    raise InvalidArgument("changes", text, accepted=accepted, example="shares.low=0.12")


def say_off(*, as_json: bool) -> None:
    if as_json:
        output.as_json({"schema": "duetime.shadow_removed/1", "removed": True})
    else:
        output.say("The shadow policy has ended.")


def show_shadow(found: Mapping[str, Any], zone: str, *, as_json: bool) -> None:
    """Write a shadow and what it would have chosen."""
    if as_json:
        output.as_json(dict(found))
        return
    why = f": {found['reason']}" if found.get("reason") else ""
    output.say(
        f"shadow of version {found['in_force']}, set by {found['actor']} at {clock_time(found['at'], zone)} {zone}{why}"
    )
    for line in found["changes"]:
        output.say(f"  {line}")
    output.say(found["summary"])
    if found["decisions"]:
        output.table(("TIER", "STARTS", "UNDER THE SHADOW", "KEYS", "RUNS EARLIER", "RUNS LATER"), _rows(found))
    if found["switch_on"]:
        output.say(f"Put it in force: duetime policy set '{json.dumps(found['switch_on'])}'")
    else:
        output.say("The policy in force has these numbers by now.")
    output.say("End it: duetime policy shadow --off")


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for tier in found["tiers"]:
        yield (
            tier["tier"],
            f"{tier['part']:.1%}",
            f"{tier['shadow_part']:.1%}",
            tier["keys"],
            f"{tier['earlier']} of {tier['runs']}",
            f"{tier['later']} of {tier['runs']}",
        )
