"""The command `duetime`: starts the verbs, and turns every ending into an exit code and one clear sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from duetime.version import __version__


def main() -> None:
    """Run the command line of this process and exit with its code (docs/cli.md lists them)."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are said on stderr."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"duetime {__version__}\n")
        return 0
    # The verbs need settings, tables and a parser of arguments; asking for the version should not wait for them.
    endings: Any = import_module("duetime.server.cli.exit_codes")
    try:
        verbs: Any = import_module("duetime.server.cli.verbs")
        result = verbs.app(list(arguments), prog_name="duetime", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where nothing may become a traceback
        return int(endings.explain(error))
    return result if isinstance(result, int) else 0
