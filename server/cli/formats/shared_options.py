"""Options that several verbs have, said once: a decorator gives them to a command as one argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer

VerbFunction = Callable[..., None]

AuditReason = Annotated[str | None, typer.Option("--reason", help="why, for the audit log")]


class SharedOption(NamedTuple):
    """The annotation of an option, as typer reads it, and its default."""

    kind: Any
    default: Any = None


def with_options(
    argument: str, options: Mapping[str, SharedOption], read: Callable[[dict[str, Any]], Any] = dict
) -> Callable[[VerbFunction], VerbFunction]:
    """Give commands these options by name; each gets what `read` returns for them as its argument of this name."""

    def decorated(command: VerbFunction) -> VerbFunction:
        @wraps(command)
        def called(*arguments: Any, **given: Any) -> None:
            shared = {name: given.pop(name) for name in options}
            command(*arguments, **{argument: read(shared)}, **given)

        known = inspect.signature(command, eval_str=True)
        own = [parameter for name, parameter in known.parameters.items() if name != argument]
        new = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.kind)
            for name, each in options.items()
        ]
        called.__signature__ = known.replace(parameters=[*own, *new])  # type: ignore[attr-defined]  # a function has one
        called.__annotations__ = {**command.__annotations__, **{name: each.kind for name, each in options.items()}}
        del called.__annotations__[argument]
        return called

    return decorated
