"""The options of outcomes: whom they tell, what a result must meet, and what follows from a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from duetime.scheduler.calls.reschedule import RescheduleArguments
from duetime.scheduler.request import ScheduleArguments
from duetime.scheduler.rules.retry import retry_policy
from duetime.scheduler.task import Notify, RetryPolicy
from duetime.server.cli.formats.option_values import read_object, read_repeat_policy, read_retry, removed_parts

NotifyOption = Annotated[
    Notify | None, typer.Option(help="which outcomes notify the user: always, failure, change or never")
]
ExpectOption = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="what the result must meet: an object with field, schema or url"),
]
OnFailureOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="what follows from a failure: an object with notify, run or tier")
]
ValidOutputOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="a JSON Schema that the results of the tasks of --after have to meet")
]


OriginOption = Annotated[
    str | None, typer.Option(metavar="JSON", help="the conversation that asks: an object with client, session, thread")
]


def policy_of(pairs: list[str] | None) -> RetryPolicy | None:
    """Return the retry policy that the option stands for; raises InvalidArgument."""
    members = read_retry(pairs)
    return None if members is None else retry_policy(members)


def changed_terms(
    repeat_policy: list[str] | None,
    retry: list[str] | None,
    notify: Notify | None,
    expect: str | None,
    on_failure: str | None,
    *,
    origin: str | None,
    remove: Sequence[str] | None,
    payload: str | None,
) -> RescheduleArguments:
    """Return the arguments of a change that the options stand for; raises InvalidArgument."""
    return {
        "repeat_policy": read_repeat_policy(repeat_policy),
        "retry": policy_of(retry),
        "notify": notify,
        "expect": read_object(expect, "expect"),
        "on_failure": read_object(on_failure, "on_failure"),
        "origin": read_object(origin, "origin"),  # type: ignore[typeddict-item]  # the service reads it
        "payload": read_object(payload),
        "remove": removed_parts(remove),
    }


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
