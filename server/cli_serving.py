"""The verbs that stay: `duetime` alone (stdio) and `duetime serve` (HTTP)."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from duetime.server.cli_session import session


def stdio(context: typer.Context) -> None:
    """Serve one chat client until its input ends."""
    if sys.stdin.isatty():
        sys.stderr.write("duetime waits for an MCP client on stdin; the commands for people: duetime --help\n")
    settings = session(context).settings()
    raise typer.Exit(_serving().serve_stdio(settings))


def serve(
    context: typer.Context,
    *,
    host: Annotated[str | None, typer.Option(help="loopback address to listen on; default: the setting `host`")] = None,
    port: Annotated[int | None, typer.Option(help="port, 0 for a free one; default: the setting `port`")] = None,
) -> None:
    """Serve MCP over HTTP on this machine, and run tasks, until stopped."""
    settings = session(context).settings(host=host, port=port)
    raise typer.Exit(_serving().serve_http(settings))


def _serving() -> Any:
    """Load the protocol and the workers, which only these two verbs need."""
    return import_module("duetime.server.serving")
