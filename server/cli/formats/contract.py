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
    typer.Option(metavar="JSON", help='what the result must meet, such as \'{"field": "order_id"}\''),
]
OnFailureOption = Annotated[
    str | None, typer.Option(metavar="JSON", help='what follows from a failure, such as \'{"notify": "team"}\'')
]


def contract_of(expect: str | None, on_failure: str | None) -> ScheduleArguments:
    """Return the arguments that the options stand for; raises InvalidArgument."""
    return {"expect": read_object(expect, "expect"), "on_failure": read_object(on_failure, "on_failure")}
