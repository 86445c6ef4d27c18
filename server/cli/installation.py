"""The verbs for the installation itself: migrate, doctor, config, install, service."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, InvalidSetting, Refused
from duetime.server.cli import output
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.server.settings.layers import config_path, default_config_path
from duetime.server.settings.source import config_json
from duetime.server.setup import background_service, client_file, mcp_clients, service_alternatives
from duetime.server.setup.client_file import FileChange, WriteResult
from duetime.server.setup.invocation import Invocation
from duetime.server.setup.mcp_clients import Client
from duetime.widgets.formats.terminal_text import plain

_UPGRADES = "duetime.scheduler.store.migrations.upgrade"


def migrate(context: typer.Context) -> None:
    """Upgrade the database to this version; an SQLite file is backed up next to itself first."""
    settings = session(context).settings()
    settings.create_data_directory()
    store: Any = import_module("duetime.scheduler.store")
    upgrades: Any = import_module(_UPGRADES)
    done = store.migrate_store(settings.database_url, _show_progress, show_waiting)
    _end_progress()
    if done.copied:
        output.say(f"The database as it was: {done.copied}")
    if done.before is None:
        output.say(f"Created the tables, schema {done.now}.")
    elif newer := upgrades.newer_in_words(done.now):
        output.say(f"Nothing to do: the database has {newer}. {upgrades.NO_WAY_BACK}")
    elif done.before == done.now and not done.indexes:
        output.say(f"Nothing to do: the database has schema {done.now} already.")
    elif done.before != done.now:
        output.say(f"Upgraded the database from schema {done.before} to {done.now}.")
    if done.indexes:
        output.say(f"Built the indexes {', '.join(done.indexes)}.")


PROGRESS_BAR_CHARS = 30


def _show_progress(version: str) -> None:
    """Draw on a terminal how far an upgrade is; each version is a step of its own length."""
    if sys.stderr.isatty():
        newest = import_module(_UPGRADES).HEAD_VERSION
        done = PROGRESS_BAR_CHARS * int(version) // int(newest)
        sys.stderr.write(f"\rSchema {version} of {newest} [{'#' * done}{'.' * (PROGRESS_BAR_CHARS - done)}]")
        sys.stderr.flush()


def show_waiting(blocker: str, pids: Sequence[int]) -> None:
    """Say for which of PostgreSQL's processes an upgrade waits."""
    named = ", ".join(map(str, pids))
    output.note(f"Waiting for {blocker}; PostgreSQL names the processes {named}.")


def _end_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")


def doctor(
    context: typer.Context,
    *,
    send_test: Annotated[
        bool, typer.Option("--send-test", help="send a test message to every channel and the desktop")
    ] = False,
    send_again: Annotated[
        str | None, typer.Option("--send-again", metavar="CHANNEL", help="send again what was given up for a channel")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="read the whole database and look for rows that cannot be right")
    ] = False,
    reason: AuditReason = None,
    as_json: AsJson = False,
) -> None:
    """Check database, clock, zone, runner, handlers, channels and settings, and suggest remedies."""
    check_reason(reason, send_again)
    checks: Any = import_module("duetime.server.doctor.examine")
    opened = session(context)
    try:
        settings = opened.settings()
    except InvalidSetting as error:
        found = [checks.misconfigured(error)]
    else:
        invocation = opened.invocation()
        again = send_again and AuditEntry.by(cli_caller(), AuditKind.DELIVERIES_SENT_AGAIN, send_again, reason=reason)
        asked = {"config": opened.config, "send_test": send_test, "send_again": again, "deep": deep}
        found = checks.examine(settings, invocation, **asked)
    show_doctor({"schema": "duetime.doctor/1", "checks": [check.as_json() for check in found]}, as_json=as_json)


def check_reason(reason: str | None, send_again: str | None) -> None:
    """Refuse a reason for nothing: the audit log would not have it. Raises InvalidArgument."""
    if reason is not None and send_again is None:
        example = "duetime doctor --send-again team --reason 'it is back'"
        raise InvalidArgument("--reason", "only with --send-again", accepted="none without it", example=example)


def show_doctor(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the checks. Raises Exit with code 1 where one found something wrong."""
    checks = found["checks"]
    if as_json:
        output.as_json(dict(found))
    else:
        output.verdicts([(each["verdict"], each["name"], each["said"], each.get("advice", "")) for each in checks])
    if any(each["verdict"] == "wrong" for each in checks):
        raise typer.Exit(1)


def config(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show every setting in force and its source; secrets are masked."""
    opened = session(context)
    settings = opened.settings()
    path = config_path(opened.config)
    show_config(config_json(settings, path), f"none; {default_config_path()} would be read", as_json=as_json)


def show_config(found: Mapping[str, Any], no_file: str, *, as_json: bool) -> None:
    """Write the settings in force; `no_file` stands for a file that there is not."""
    if as_json:
        output.as_json(dict(found))
        return
    output.say(f"file: {found.get('file') or no_file}")
    rows = ((each["name"], each["value"], each["from"]) for each in found["settings"])
    output.table(("SETTING", "VALUE", "FROM"), rows)


ClientName = Annotated[Client, typer.Argument(metavar="CLIENT", help=f"one of {', '.join(Client)}")]
FileOption = Annotated[
    Path | None, typer.Option("--file", help="the client's file, where it is not at its usual place")
]


def install(
    context: typer.Context,
    *,
    client: ClientName,
    write: Annotated[bool, typer.Option("--write", help="merge it into the file and keep a backup next to it")] = False,
    file: FileOption = None,
) -> None:
    """Show the entry for a chat client's MCP configuration, or write it there."""
    invocation = session(context).invocation()
    if not write:
        output.raw(client_file.shown(client, invocation))
        output.note(f"It belongs in {file or mcp_clients.configuration_path(client)}; --write merges it there.")
        return
    change = client_file.installing(client, invocation, file=file)
    written = _written(change)
    if not written.changed:
        output.say(f"{written.path} has it already.")
        return
    output.say(f"Written to {written.path}. Restart {client.value} to use it.")
    if written.backup:
        output.say(f"The file as it was: {written.backup}")


def uninstall(
    *,
    client: ClientName,
    file: FileOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would change, change nothing")] = False,
) -> None:
    """Take the entry out of a chat client's MCP configuration; the rest of the file stays."""
    change = client_file.removing(client, file=file)
    if not change.changed:
        output.say(f"{change.path} has no entry of Duetime.")
        return
    if dry_run:
        _show(change)
        return
    written = _written(change)
    output.say(f"Taken out of {written.path}. Restart {client.value}.")
    output.say(f"The file as it was: {written.backup}")


def _written(change: FileChange) -> WriteResult:
    """Show a change, and make it."""
    _show(change)
    return client_file.write(change, now=datetime.now(UTC))


def _show(change: FileChange) -> None:
    for line in change.diff():
        output.raw(f"{plain(line)}\n")


def service_install(
    context: typer.Context,
    *,
    show: Annotated[bool, typer.Option("--print", help="show the file, change nothing")] = False,
) -> None:
    """Set up `duetime serve` as a background service of this user, and start it."""
    opened = session(context)
    opened.settings()
    invocation = opened.invocation()
    plan = background_service.plan(invocation)
    if show:
        _show_service(plan, invocation)
        return
    problem = background_service.NO_MANAGER if plan is None else background_service.unreachable(plan)
    if plan is None or problem:
        output.note(f"{problem}; nothing was changed. What works here:")
        _say_ways(invocation)
        raise typer.Exit(1)
    background_service.install(plan)
    output.say(f"The service is running and will start at each login ({plan.manager}, {plan.path}).")
    output.say(plan.hint)


def _show_service(plan: background_service.ServicePlan | None, invocation: Invocation) -> None:
    if plan is None:
        _say_ways(invocation)
        return
    output.raw(plan.content.decode())
    output.note(f"It belongs in {plan.path}")


def _say_ways(invocation: Invocation) -> None:
    for line in service_alternatives.by_hand(invocation).splitlines():
        output.say(line)


def service_status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Report whether the background service is running; exit code 1 if it is not."""
    plan = _plan(context)
    state = background_service.status(plan)
    if as_json:
        output.as_json({"schema": "duetime.service/1", "state": state, "manager": plan.manager, "file": str(plan.path)})
    else:
        output.say(f"{state} ({plan.manager}, {plan.path})")
    if state != "running":
        raise typer.Exit(1)


def service_remove(context: typer.Context) -> None:
    """Stop the background service and remove it; tasks and settings stay."""
    plan = _plan(context)
    removed = background_service.remove(plan)
    output.say(f"Removed {plan.path}. Tasks and settings stay." if removed else "There was no service.")


def _plan(context: typer.Context) -> background_service.ServicePlan:
    plan = background_service.plan(session(context).invocation())
    if plan is None:
        raise Refused(f"{background_service.NO_MANAGER}; `duetime service install` prints what works here.")
    return plan
