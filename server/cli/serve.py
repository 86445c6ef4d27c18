"""The verbs that stay: `duetime` alone (stdio), `duetime serve` (HTTP) and `duetime worker`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer
from duetime.server.session import session


def serve(
    context: typer.Context,
    *,
    host: Annotated[str | None, typer.Option(help="address to listen on; default: the setting `host`")] = None,
    port: Annotated[int | None, typer.Option(help="port; 0 picks a free one; default: the setting `port`")] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="for development: reload your handlers when their files change")
    ] = False,
) -> None:
    """Serve MCP over HTTP until stopped, and run tasks unless workers do."""
    settings = session(context).settings(host=host, port=port)
    # The protocol and the workers are loaded only here.
    raise typer.Exit(import_module("duetime.server.transport.serve_http").serve_http(settings, reload=reload))


def worker(
    context: typer.Context,
    *,
    threads: Annotated[int | None, typer.Option(help="concurrent runs; default: the setting `threads`")] = None,
    processes: Annotated[
        int | None, typer.Option(help="processes, each with its own threads; default: the setting `processes`")
    ] = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="also stop when standard input closes")] = False,
) -> None:
    """Run tasks as one of many workers, with PostgreSQL and Redis, until stopped."""
    settings = session(context).settings(threads=threads, processes=processes)
    if settings.processes == 1:
        raise typer.Exit(import_module("duetime.server.workers.worker").run_worker(settings, until_eof=until_eof))
    again = (sys.executable, *sys.orig_argv[1:], "--processes", "1", "--until-eof")  # the last word counts
    run_processes = import_module("duetime.server.workers.supervisor").run_processes
    raise typer.Exit(run_processes(settings, again, until_eof=until_eof))
