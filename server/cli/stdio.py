"""`duetime` without a verb: serves the chat client that started it, whose first question waits for all imports."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from duetime.server.session import Session


def serve_client(session: Session) -> int:
    """Serve one chat client until its input ends; return the exit code.

    Collections are off while modules load, which leave no garbage worth a look; `serve_stdio` turns them on.
    """
    gc.disable()
    if sys.stdin.isatty():
        sys.stderr.write("duetime waits for an MCP client on stdin; for the command-line verbs, see duetime --help\n")
    settings = session.settings()
    return int(import_module("duetime.server.transport.serve_stdio").serve_stdio(settings))
