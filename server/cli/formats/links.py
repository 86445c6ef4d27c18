"""Options of a change of a task that stand apart: what it waits for from now on, and what the call is based on."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from duetime.server.cli.completion import AfterFailureOption, AfterOption, WaitForOption
from duetime.server.cli.formats.contract import ValidOutputOption
from duetime.server.cli.formats.option_values import ApprovalOption, read_approval, read_object, read_wait
from duetime.server.cli.formats.shared_options import SharedOption, with_options

Key = Annotated[str | None, typer.Option(help="idempotency key: repeating a call with the same key changes nothing")]
Revision = Annotated[int | None, typer.Option(help="refuse if the task changed after this revision")]


def _links_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Read the options; what is not given stays."""
    return {
        "after": fields["after"] or None,
        "after_failure": fields["after_failure"],
        "valid_output": read_object(fields["valid_output"], "valid_output"),
        "approval": read_approval(fields["approval"]),
        "wait_for": read_wait(fields["wait_for"]),
        "revision": fields["revision"],
        "idempotency_key": fields["key"],
    }


with_links = with_options(
    "links",
    {
        "after": SharedOption(AfterOption),
        "after_failure": SharedOption(AfterFailureOption),
        "valid_output": SharedOption(ValidOutputOption),
        "approval": SharedOption(ApprovalOption),
        "wait_for": SharedOption(WaitForOption),
        "revision": SharedOption(Revision),
        "key": SharedOption(Key),
    },
    _links_of,
)
"""Gives a command these options; it gets what they say as its argument `links`."""
