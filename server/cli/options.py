"""Options and arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.server.cli import completion

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="the task: its id, such as t_7k3m9qx2w4hb, the beginning of it, or a title that no other task has",
        autocompletion=completion.ids,
    ),
]
Label = Annotated[str | None, typer.Option(help="only tasks with this label", autocompletion=completion.labels)]
Labels = Annotated[
    list[str] | None,
    typer.Option(help="a label to find it by; may be repeated", autocompletion=completion.labels),
]
