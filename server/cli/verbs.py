"""The verbs of `duetime`, put together; docs/cli.md describes each one and a test compares.

A verb is loaded when it is used. Its sentence stands here, so that help and completion load none; a test compares it
with the verb's own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.server.cli.access.groups import AUDIT_VERBS, KEY_VERBS, SECRET_VERBS
from duetime.server.cli.help import DeferredVerb, Verbs
from duetime.server.cli.notices.groups import INBOX_VERBS, QUIET_HOURS
from duetime.server.cli.order.groups import DECISION_VERBS, POLICY_VERBS, POOL_VERBS, WORKER_VERBS
from duetime.server.cli.past.groups import DEAD_VERBS
from duetime.server.cli.reports.groups import LIVE_VERBS, REPORT_VERBS
from duetime.server.cli.storage.groups import BACKUP, IMPORT, RETENTION_VERBS
from duetime.server.cli.waits.groups import EVENT_VERBS
from duetime.version import __version__
from typer.main import get_command

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage or setting, 3 not found, 4 refused, 130 interrupted."

_HERE = "duetime.server.cli"
_TASKS, _POOLS, _INSTALLATION, _LISTS = (f"{_HERE}.{name}" for name in ("tasks", "pools", "installation", "lists"))

_VERBS = (
    DeferredVerb(
        "serve",
        f"{_HERE}.serve:serve",
        "Serve MCP over HTTP until stopped, and run tasks unless workers do.",
        examples=("duetime serve", "duetime serve --port 8080"),
    ),
    DeferredVerb(
        "worker",
        f"{_HERE}.serve:worker",
        "Run tasks as one of many workers, with PostgreSQL and Redis, until stopped.",
        examples=("duetime worker --threads 16",),
    ),
    DeferredVerb(
        "schedule",
        f"{_TASKS}:schedule",
        "Schedule a task: a reminder, a webhook, or one of your handlers.",
        examples=(
            'duetime schedule "Call John" --when "tomorrow 9am"',
            'duetime schedule "Stand-up" --repeat "every weekday at 9:00"',
        ),
    ),
    DeferredVerb(
        "list",
        f"{_LISTS}:list_",
        "List tasks: open ones by time, then ended ones; with --before in the future, every occurrence up to it.",
        examples=(
            "duetime list --state failed",
            'duetime list --after "last monday" --before now',
        ),
    ),
    DeferredVerb(
        "failed",
        f"{_LISTS}:failed",
        "List tasks whose last run failed, newest first, and why; with a time, every run that failed then.",
        examples=(
            "duetime failed",
            'duetime failed --since "last night"',
            "duetime failed --label reports",
        ),
    ),
    DeferredVerb(
        "show",
        f"{_TASKS}:show",
        "Show everything about one task.",
        examples=(
            "duetime show t_7k3m",
            'duetime show "call john" --history',
        ),
    ),
    DeferredVerb(
        "reschedule",
        f"{_TASKS}:reschedule",
        "Change a task; what you leave out stays as it is.",
        examples=(
            'duetime reschedule t_7k3m --when "tomorrow 11am"',
            'duetime reschedule "stand-up" --pause',
        ),
    ),
    DeferredVerb(
        "cancel",
        f"{_TASKS}:cancel",
        "Cancel a task; a running attempt is asked to stop.",
        examples=('duetime cancel t_7k3m --reason "he called"',),
    ),
    DeferredVerb(
        "undo",
        f"{_TASKS}:undo",
        "Undo a cancel or another change: of a task within 30 seconds, of a chain within 10 minutes.",
        examples=("duetime undo t_7k3m", "duetime undo t_7k3m u_4"),
    ),
    DeferredVerb(
        "approve",
        f"{_HERE}.waits.approvals:approve",
        "Approve a task that waits for approval.",
        examples=("duetime approve t_7k3m",),
    ),
    DeferredVerb(
        "reject",
        f"{_HERE}.waits.approvals:reject",
        "Cancel a task that waits for approval; of a recurring one, skip the run that asks.",
        examples=('duetime reject t_7k3m --reason "too much"',),
    ),
    DeferredVerb(
        "bulk",
        f"{_HERE}.bulk:bulk",
        "Cancel, pause, resume, move, replay or discard many tasks, or undo that; a filter previews until --expect.",
        examples=(
            "duetime bulk cancel --about John",
            "duetime bulk cancel --about John --expect 12",
            "duetime bulk move --after 'today 12:00' --before tomorrow --to tomorrow",
            "duetime bulk undo u_b7k3m9qx2w4h",
        ),
    ),
    DeferredVerb(
        "explain",
        f"{_POOLS}:explain",
        "Explain why a task is not running: what it waits for, how much is missing, and which task holds it.",
        examples=("duetime explain t_7k3m",),
    ),
    DeferredVerb(
        "history",
        f"{_HERE}.past.history:history",
        "Show what happened to tasks, newest first: who did what, when and why.",
        examples=(
            'duetime history --since "last night"',
            "duetime history t_7k3m",
        ),
    ),
    DeferredVerb(
        "runs",
        f"{_HERE}.past.runs:runs",
        "List runs, newest first by default, or count them: when, what, on which worker, how long and why.",
        examples=(
            'duetime runs --state failed --since "last night"',
            "duetime runs --since 7d --count-by action",
        ),
    ),
    DeferredVerb(
        "logs",
        f"{_HERE}.past.logs:logs",
        "Show what the handler of a run logged, oldest first.",
        examples=("duetime logs t_7k3m --follow", "duetime logs r_7k3m9qx2w4hb00000000 --tail 20"),
    ),
    *LIVE_VERBS,
    DeferredVerb(
        "migrate",
        f"{_INSTALLATION}:migrate",
        "Upgrade the database to this version; an SQLite file is backed up next to itself first.",
        examples=("duetime migrate",),
    ),
    *REPORT_VERBS,
    DeferredVerb(
        "doctor",
        f"{_INSTALLATION}:doctor",
        "Check database, clock, zone, runner, handlers, channels and settings, and suggest remedies.",
        examples=("duetime doctor",),
    ),
    DeferredVerb(
        "config",
        f"{_INSTALLATION}:config",
        "Show every setting in force and its source; secrets are masked.",
        examples=("duetime config",),
    ),
    DeferredVerb(
        "install",
        f"{_INSTALLATION}:install",
        "Show the entry for a chat client's MCP configuration, or write it there.",
        examples=("duetime install claude --write",),
    ),
    DeferredVerb(
        "uninstall",
        f"{_INSTALLATION}:uninstall",
        "Take the entry out of a chat client's MCP configuration; the rest of the file stays.",
        examples=("duetime uninstall claude",),
    ),
)
VERB_GROUPS = (
    INBOX_VERBS,
    QUIET_HOURS,
    Verbs(
        name="service",
        help="The background service, which runs tasks while no chat is open.",
        rich_markup_mode=None,
        commands=(
            DeferredVerb(
                "install",
                f"{_INSTALLATION}:service_install",
                "Set up `duetime serve` as a background service of this user, and start it.",
                examples=("duetime service install",),
            ),
            DeferredVerb(
                "status",
                f"{_INSTALLATION}:service_status",
                "Report whether the background service is running; exit code 1 if it is not.",
                examples=("duetime service status",),
            ),
            DeferredVerb(
                "remove",
                f"{_INSTALLATION}:service_remove",
                "Stop the background service and remove it; tasks and settings stay.",
                examples=("duetime service remove",),
            ),
        ),
    ),
    DEAD_VERBS,
    EVENT_VERBS,
    KEY_VERBS,
    SECRET_VERBS,
    AUDIT_VERBS,
    RETENTION_VERBS,
    POLICY_VERBS,
    DECISION_VERBS,
    IMPORT,
    BACKUP,
    POOL_VERBS,
    WORKER_VERBS,
)

app = typer.Typer(
    name="duetime",
    cls=Verbs,
    rich_markup_mode=None,
    help="Stores what LLM agents schedule, and runs it when due. Without a verb, serves MCP on stdin and stdout.",
    epilog=EXIT_CODES,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    *,
    config: Annotated[Path | None, typer.Option(help="the TOML file with settings, instead of DUETIME_CONFIG")] = None,
    database_url: Annotated[str | None, typer.Option(help="the database, instead of DUETIME_DATABASE_URL")] = None,
    handlers: Annotated[
        list[str] | None, typer.Option(metavar="MODULE", help="a module with your own handlers; may be repeated")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="DUETIME_SERVER", help="the address of a server that the verb works on"),
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="DUETIME_KEY", help="the API key for --server; better in DUETIME_KEY")
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="show the version and exit")] = False,
) -> None:
    """Serve MCP on stdin and stdout when no verb is given."""
    if version:
        sys.stdout.write(f"duetime {__version__}\n")
        raise typer.Exit
    sessions: Any = import_module("duetime.server.session")
    named = ",".join(handlers or ()) or None
    where = {"server": server or None, "key": key or None, "call_server": _call_server}
    sessions.open_session(context, config=config, database_url=database_url, handlers=named, **where)
    if context.invoked_subcommand is None:
        raise typer.Exit(sessions.session(context).serve_client())


def _call_server(context: typer.Context) -> Any:
    """Run the verb of a command on the server that it names."""
    opened, remote = context.find_root().obj, import_module("duetime.server.cli.remote.verbs")
    return remote.call(opened.server, opened.key, context, opened.zone)


def duetime_command() -> Any:
    """Return the command `duetime` with all its verbs."""
    found: Any = get_command(app)
    for verb in (*_VERBS, *VERB_GROUPS):
        found.add_command(verb)
    return found
