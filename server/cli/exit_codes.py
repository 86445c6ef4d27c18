"""The end of a command: its exit code, and what is said on stderr when it did not do what it was asked to."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from duetime.scheduler.errors import (
    DuetimeError,
    IdempotencyConflict,
    InvalidArgument,
    InvalidArguments,
    InvalidSetting,
    Refused,
    StaleRevision,
)
from duetime.server.words.command_words import COMMAND_WORDS
from duetime.widgets.formats.terminal_text import plain_lines
from duetime.widgets.text.history_text import retold
from typer import Abort
from typer.exceptions import TyperException

FAILED_CODE, WRONG_USAGE_CODE, NOT_FOUND_CODE, REFUSED_CODE = range(1, 5)
INTERRUPTED_CODE = 130

_CODES: tuple[tuple[type[DuetimeError], int], ...] = (
    (InvalidArgument, WRONG_USAGE_CODE),
    (InvalidArguments, WRONG_USAGE_CODE),
    (InvalidSetting, WRONG_USAGE_CODE),
    (Refused, REFUSED_CODE),
    (StaleRevision, REFUSED_CODE),
    (IdempotencyConflict, REFUSED_CODE),
)


def explain(error: BaseException) -> int:
    """Say on stderr why the command failed, without a traceback, and return its exit code."""
    if isinstance(error, KeyboardInterrupt | Abort):
        return INTERRUPTED_CODE
    if isinstance(error, TyperException):
        context, named = getattr(error, "ctx", None), bool(getattr(error, "possibilities", ()))
        message = error.format_message().replace("Value error, ", "")
        _write(f"{message}\n{_way_on(context, with_example=not named)}")
        return error.exit_code
    if isinstance(error, DuetimeError):
        _write(retold(error).text_in(COMMAND_WORDS))
        return code_of(error)
    if os.environ.get("DUETIME_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(error)
    _write(f"{type(error).__name__}: {error}. This is a defect of Duetime; DUETIME_LOG_LEVEL=debug shows where it is.")
    return FAILED_CODE


def _way_on(context: Any, *, with_example: bool) -> str:
    """Return where the help of the command is that was wrongly used, after its first example."""
    examples = getattr(context.command, "examples", ()) if context and with_example else ()
    example = f"Example: {examples[0]}\n" if examples else ""
    return f"{example}Try: {context.command_path if context else 'duetime'} --help"


def code_of(error: DuetimeError) -> int:
    """Return the exit code of an error: 2 wrong usage, 3 not found, 4 refused, 1 for the rest.

    A problem of a server on another machine brings its own.
    """
    own = NOT_FOUND_CODE if error.code == "not_found" else getattr(error, "exit_code", None)
    return (
        own if isinstance(own, int) else next((code for kind, code in _CODES if isinstance(error, kind)), FAILED_CODE)
    )


def _write(text: str) -> None:
    sys.stderr.write(f"duetime: {plain_lines(text)}\n")
