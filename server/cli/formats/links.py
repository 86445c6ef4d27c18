"""Options of a change of a task that stand apart: what it waits for from now on, and what the call is based on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Final

import typer
from duetime.server.cli.completion import AfterFailureOption, AfterOption, WaitForOption
from duetime.server.cli.formats.contract import ValidOutputOption
from duetime.server.cli.formats.option_values import ApprovalOption, read_approval, read_object, read_wait

Key = Annotated[str | None, typer.Option(help="idempotency key: repeating a call with the same key changes nothing")]
Revision = Annotated[int | None, typer.Option(help="refuse if the task changed after this revision")]

_OPTIONS: Final[dict[str, Any]] = {
    "after": AfterOption,
    "after_failure": AfterFailureOption,
    "valid_output": ValidOutputOption,
    "approval": ApprovalOption,
    "wait_for": WaitForOption,
    "revision": Revision,
    "key": Key,
}


def with_links(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options; it gets what they say as its argument `links`."""

    @wraps(command)
    def linking(*arguments: Any, **given: Any) -> None:
        said = {name: given.pop(name) for name in _OPTIONS}
        command(*arguments, links=_links_of(said), **given)

    known = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in known.parameters.items() if name != "links"]
    new = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _OPTIONS.items()
    ]
    linking.__signature__ = known.replace(parameters=[*own, *new])  # type: ignore[attr-defined]  # a function has one
    linking.__annotations__ = {**command.__annotations__, **_OPTIONS}
    del linking.__annotations__["links"]
    return linking


def _links_of(said: dict[str, Any]) -> dict[str, Any]:
    """Read the options; what is not given stays."""
    return {
        "after": said["after"] or None,
        "after_failure": said["after_failure"],
        "valid_output": read_object(said["valid_output"], "valid_output"),
        "approval": read_approval(said["approval"]),
        "wait_for": read_wait(said["wait_for"]),
        "revision": said["revision"],
        "idempotency_key": said["key"],
    }
