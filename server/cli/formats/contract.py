"""The options of outcomes: whom they tell, what a result must meet, and what follows from a failure."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.scheduler.request import ScheduleArguments
from duetime.scheduler.task import Notify
from duetime.server.cli.formats.option_values import read_object

NotifyOption = Annotated[
    Notify | None, typer.Option(help="which outcomes tell the user: always, failure, change or never")
]
ExpectOption = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="what the result must meet: an object with field, schema or url"),
]
OnFailureOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="what follows from a failure: an object with notify")
]
ValidOutputOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="a JSON Schema that the results of the tasks of --after have to meet")
]


OriginOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="the conversation that asks: an object with client, session, thread")
]


def terms_of(
    expect: str | None, on_failure: str | None, valid_output: str | None, origin: str | None
) -> ScheduleArguments:
    """Return the arguments that the options stand for; raises InvalidArgument."""
    return {
        "expect": read_object(expect, "expect"),
        "on_failure": read_object(on_failure, "on_failure"),
        "valid_output": read_object(valid_output, "valid_output"),
        "origin": read_object(origin, "origin"),  # type: ignore[typeddict-item]  # the service reads it
    }
