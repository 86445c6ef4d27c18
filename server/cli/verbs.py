"""The verbs of `duetime`, put together; docs/cli.md describes each one and a test compares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from duetime.server.cli import history, installation, serve, tasks
from duetime.server.cli import pools as cli_pools
from duetime.server.cli.help import Verb, Verbs
from duetime.server.session import open_session

EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage or setting, 3 not found, 4 refused, 130 interrupted."

app = typer.Typer(
    name="duetime",
    cls=Verbs,
    rich_markup_mode=None,
    help="Scheduling that LLM agents can trust. Without a verb, it serves MCP on stdin and stdout for a chat client.",
    epilog=EXIT_CODES,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
service = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    help="The background service, which runs tasks while no chat is open.",
    no_args_is_help=False,
)

pools = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    help="Pools, which limit concurrency and rate.",
    no_args_is_help=False,
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
    version: Annotated[bool, typer.Option("--version", help="show the version and exit")] = False,
) -> None:
    """Serve MCP on stdin and stdout when no verb is given."""
    open_session(context, config=config, database_url=database_url, handlers=",".join(handlers or ()) or None)
    if version:
        installation.version()
    elif context.invoked_subcommand is None:
        serve.stdio(context)


app.command("serve", cls=Verb)(serve.serve)
app.command("worker", cls=Verb)(serve.worker)
app.command("schedule", cls=Verb)(tasks.schedule)
app.command("list", cls=Verb)(tasks.list_)
app.command("show", cls=Verb)(tasks.show)
app.command("reschedule", cls=Verb)(tasks.reschedule)
app.command("cancel", cls=Verb)(tasks.cancel)
app.command("undo", cls=Verb)(tasks.undo)
app.command("explain", cls=Verb)(cli_pools.explain)
app.command("history", cls=Verb)(history.history)
app.command("stats", cls=Verb)(cli_pools.stats)
app.command("migrate", cls=Verb)(installation.migrate)
app.command("workers", cls=Verb)(installation.workers)
app.command("doctor", cls=Verb)(installation.doctor)
app.command("config", cls=Verb)(installation.config)
app.command("install", cls=Verb)(installation.install)
service.command("install", cls=Verb)(installation.service_install)
service.command("status", cls=Verb)(installation.service_status)
service.command("remove", cls=Verb)(installation.service_remove)
app.add_typer(service, name="service")
pools.command("list", cls=Verb)(cli_pools.pools_list)
pools.command("set", cls=Verb)(cli_pools.pools_set)
pools.command("remove", cls=Verb)(cli_pools.pools_remove)
app.add_typer(pools, name="pools")
