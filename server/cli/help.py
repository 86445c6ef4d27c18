"""Plain text of help, with a placeholder in capitals for each value, and none for a flag."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

_OTHER_WORDS = {
    "uninstall": "remove", "delete": "cancel", "remove": "cancel", "rm": "cancel", "add": "schedule",
    "remind": "schedule", "create": "schedule", "ls": "list", "get": "show", "why": "explain",
    "edit": "reschedule", "move": "reschedule", "pause": "reschedule ID --pause",
    "resume": "reschedule ID --resume", "skip": "reschedule ID --skip-next",
    "logs": "history", "start": "serve", "run": "serve",
}  # fmt: skip
"""Names of commands elsewhere, and the command here that does the same."""
_OTHER_WORDS_OF_A_TASK = {"run": "reschedule ID --when now"}
"""Names that mean something else with a task behind them."""
_BRACES = re.compile(r"\{([A-Z]+)\}")


class Verb(TyperCommand):
    """One command; `examples` are command lines that it accepts."""

    examples: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name_values(self.params)

    def invoke(self, ctx: Any) -> Any:
        opened = ctx.find_root().obj
        return super().invoke(ctx) if opened is None or opened.server is None else opened.call_server(ctx)

    def get_help(self, ctx: Any) -> str:
        shown = "".join(f"\n  {each}" for each in self.examples)
        return _BRACES.sub(r"\1", super().get_help(ctx)) + (f"\n\nExamples:{shown}" if shown else "")

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - a sentence that is cut says too little
        return self.help or ""


class DeferredVerb(TyperCommand):
    """A command whose function, `module:name`, is loaded when the command is used."""

    def __init__(self, name: str, source: str, about: str, *, examples: tuple[str, ...]) -> None:
        super().__init__(name=name, help=about, rich_markup_mode=None)
        self.source = source
        self.examples = examples

    @cached_property
    def loaded(self) -> Any:
        """The command with its parameters."""
        module, _, function = self.source.partition(":")
        alone = Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(self.name, cls=Verb)(getattr(import_module(module), function))
        found: Any = get_command(alone)
        found.examples = self.examples
        return found

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        return self.loaded.make_context(*args, **kwargs)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - as above
        return self.help or ""


class Verbs(TyperGroup):
    """Commands under one name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        name_values(self.params)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except TyperException as error:
            words = _OTHER_WORDS | _OTHER_WORDS_OF_A_TASK if args[1:] else _OTHER_WORDS
            meant = words.get(args[0], "")
            if meant.partition(" ")[0] in self.commands:
                known: Any = error  # a wrong usage, which has a message
                known.message = f"No such command {args[0]!r}. Did you mean {meant!r}?"
            raise

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - as above
        return self.help or ""


class VerbsOf(Verbs):
    """Commands under one name, of which the first is meant where none is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        first = next(iter(self.commands))
        given = args and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if given else [first, *args])


def name_values(params: Iterable[Any]) -> None:
    """Call each value by a plain name: an option's by its own (`--when WHEN`), an argument's without a type."""
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = _no_type
        elif not param.is_flag and param.metavar is None:
            param.metavar = param.opts[-1].strip("-").replace("-", "_").upper()


def _no_type(ctx: Any) -> str:  # noqa: ARG001 - the parser's signature
    return ""
