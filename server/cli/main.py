"""The command `duetime`: starts the verbs, and turns every ending into an exit code and one clear sentence."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from duetime.version import __version__

COMPLETION_VARIABLE = "_DUETIME_COMPLETE"
"""Set by a shell that asks which words may follow; the words are in other variables."""

NEW_OBJECTS_PER_VERB_COLLECTION = 300_000
"""A verb loads some 220,000 objects. If it works for minutes, it makes more garbage than it may keep."""


def main() -> None:
    """Run the command line of this process and exit with its code (docs/cli.md lists them).

    The first collection of garbage comes after the load of any verb: before, they would be a sixth of its time.
    """
    gc.set_threshold(NEW_OBJECTS_PER_VERB_COLLECTION)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are said on stderr."""
    if list(arguments) == ["--version"]:
        sys.stdout.write(f"duetime {__version__}\n")
        return 0
    try:
        result = _call(list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where nothing may become a traceback
        explain: Any = import_module("duetime.server.cli.exit_codes").explain
        return int(explain(error))
    return result if isinstance(result, int) else 0


def _call(arguments: list[str]) -> Any:
    """Call the verb of the arguments. Verbs and their parser are loaded only where there is something to parse."""
    if not arguments and COMPLETION_VARIABLE not in os.environ:
        return import_module("duetime.server.session").Session().serve_client()
    command: Any = import_module("duetime.server.cli.verbs").duetime_command()
    return command(arguments, prog_name="duetime", standalone_mode=False)
