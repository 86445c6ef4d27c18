"""The values of options that stand for more than a text: a JSON object, units by pool, how failures are retried."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import RETRY_ACCEPTED, ScheduleArguments
from duetime.scheduler.task import ApprovalRequest, Json
from duetime.scheduler.waits.approval import asks_usual
from duetime.server.cli.formats.json_text import read_json
from duetime.tools.arguments.retry import RetryTerms
from duetime.tools.arguments.steps import Steps

ApprovalOption = Annotated[
    list[str] | None,
    typer.Option(
        "--approval",
        metavar="QUESTION",
        help="ask for your approval before the run starts; `by=TIME` says until when, and `default=approve` what "
        "follows without an answer; may be repeated",
    ),
]

DeliverToOption = Annotated[
    list[str] | None,
    typer.Option("--deliver-to", metavar="CHANNEL", help="a channel in addition to the inbox; may be repeated"),
]
RetryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--retry",
        metavar="TERMS",
        help="how failures are tried again: a number of attempts, words such as `3 times, 5 min apart`, or "
        "`max_attempts`, `backoff_seconds` and `max_backoff_seconds` with a number each (`max_attempts=3`); "
        "may be repeated",
    ),
]
StepsOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="a chain: a JSON file with a list of steps, each with a name; `-` reads standard input"
    ),
]


def read_object(text: str | None, name: str = "payload") -> Mapping[str, Json] | None:
    """Read a JSON object. Raises InvalidArgument for anything else."""
    if text is None:
        return None
    found: Mapping[str, Json] = read_json(text, name, accepted="a JSON object", example=_EXAMPLES[name])
    return found


def read_steps(paths: list[Path] | None) -> list[Any]:
    """Read the steps of a chain from a file of JSON, or from standard input for `-`; no file has none.

    Raises InvalidArgument for a file that cannot be read as a list, and for several files.
    """
    if not paths:
        return []
    if len(paths) > 1:
        raise _bad_steps(f"it is given {len(paths)} times")
    [path] = paths
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _bad_steps(f"{str(path)[:80]!r} cannot be read as text") from error
    found: list[Any] = read_json(
        text, "steps", kind=list, accepted="a JSON file with a list", example=_EXAMPLES["steps"]
    )
    steps: list[Any] = Steps().read(found)
    return steps


def _bad_steps(problem: str) -> InvalidArgument:
    return InvalidArgument("steps", problem, accepted="a JSON file with a list", example=_EXAMPLES["steps"])


def read_wait(text: str | None) -> Mapping[str, Json] | None:
    """Read the name of an event, or an object as `wait_for` of the tools takes it."""
    if text is None or not text.lstrip().startswith("{"):
        return None if text is None else {"event": text}
    return read_object(text, "wait_for")


def read_units(pairs: list[str] | None) -> dict[str, Any] | None:
    """Read `gpu=1`, or `none`; what is no number continues as it is, and is refused with all that is wrong with it."""
    if not pairs or pairs == ["none"]:
        return None if not pairs else {}
    read = (pair.rpartition("=") for pair in pairs)
    return {name or units: int(units) if name and units.isdecimal() else units for name, _, units in read}


def read_retry(pairs: list[str] | None) -> dict[str, Any] | None:
    """Read `5`, a number of attempts, words such as `3 times, 5 min apart`, or `max_attempts=5` and the like."""
    if not pairs:
        return None
    read = [pair.rpartition("=") for pair in pairs]
    named: dict[str, Json] = {name.strip().replace("-", "_"): value for name, _, value in read if name}
    given: list[Json] = [*(value for name, _, value in read if not name), *([named] if named else [])]
    try:
        return {name: number for each in given for name, number in RetryTerms(fillable=False).read(each).items()}
    except ValueError as error:
        meant = {name: number for each in given for name, number in (RetryTerms().corrected(each) or {}).items()}
        example = f"retry={meant or {'max_attempts': 5}!r}"
        raise InvalidArgument("retry", str(error), accepted=RETRY_ACCEPTED, example=example) from None


def read_repeat_policy(pairs: list[str] | None) -> dict[str, Any] | None:
    """Read `overlap=buffer_one`, `except=2026-12-24,2026-12-25` and the like; the service checks them."""
    if not pairs:
        return None
    read = (pair.partition("=") for pair in pairs)
    parts = {name.strip().replace("-", "_"): value for name, _, value in read}
    return {name: value.split(",") if name == "except" else value for name, value in parts.items()}


def removed_parts(names: Sequence[str] | None) -> list[str]:
    """Return the parts that `--remove` names, with hyphens as options have them."""
    return [name.replace("-", "_") for name in names or ()]


def read_approval(parts: list[str] | None) -> ApprovalRequest | bool | None:
    """Read the question, or `yes` for the usual one, and `by=2 hours` or `default=approve`; None for no option."""
    found: Any = {}
    usual = None
    for part in parts or ():
        name, _, value = part.partition("=")
        if name not in ("by", "default") and (usual := asks_usual(part)) is not None:
            continue
        found |= {name: value} if name in ("by", "default") else {"question": part}
    return found or usual


_EXAMPLES = {
    "payload": """payload='{"message": "Call John"}'""",
    "expect": """expect='{"field": "order_id"}'""",
    "origin": """origin='{"client": "my-app", "thread": "7"}'""",
    "on_failure": """on_failure='{"run": {"action": "reminder"}}'""",
    "wait_for": """wait_for='{"event": "order.paid", "timeout": "2 days"}'""",
    "valid_output": """valid_output='{"type": "object"}'""",
    "steps": """steps=[{"name": "fetch", "action": "webhook"}, {"name": "report", "after": ["fetch"]}]""",
    "data": """data='{"order": {"id": 7}}'""",
}


def more_of(
    steps: list[Path] | None, wait_for: str | None, approval: list[str] | None, repeat_policy: list[str] | None
) -> ScheduleArguments:
    """Read the options of what a new task waits for, of how it repeats, and of its steps."""
    waits: ScheduleArguments = {"wait_for": read_wait(wait_for), "approval": read_approval(approval)}
    return {**waits, "steps": read_steps(steps), "repeat_policy": read_repeat_policy(repeat_policy)}
