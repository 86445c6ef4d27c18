"""The verbs that stay: `duetime` alone (stdio), `duetime serve` (HTTP) and `duetime worker`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from duetime.server.session import session


def stdio(context: typer.Context) -> None:
    """Serve one chat client until its input ends."""
    if sys.stdin.isatty():
        sys.stderr.write("duetime waits for an MCP client on stdin; for the command-line verbs, see duetime --help\n")
    settings = session(context).settings()
    raise typer.Exit(_serving().serve_stdio(settings))


def serve(
    context: typer.Context,
    *,
    host: Annotated[str | None, typer.Option(help="loopback address to listen on; default: the setting `host`")] = None,
    port: Annotated[int | None, typer.Option(help="port; 0 picks a free one; default: the setting `port`")] = None,
) -> None:
    """Serve MCP over HTTP on this machine until stopped, and run tasks unless workers do."""
    settings = session(context).settings(host=host, port=port)
    raise typer.Exit(_serving().serve_http(settings))


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


def _serving() -> Any:
    """Load the protocol and the workers, which only these two verbs need."""
    return import_module("duetime.server.transport.serve")
