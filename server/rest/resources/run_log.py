"""The log and the result of one run."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.foresight.readers.past_reader import MAX_LOG_LINES_READ
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import TENANT, read_by
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.run_rows import log_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text, Whole
from pydantic import Field

RUN_OR_TASK_ID = Argument(
    "run_id",
    Text(40),
    "The id of a run; or of a task, for its current run or, before that has begun, its last one",
    "run_id='r_7k3m9qx2w4hb'",
    required=True,
)


class RunLogLinePayload(RestPayload):
    """A line that the handler of an attempt logged."""

    place: str
    attempt: int
    at: str
    level: str
    logger: str
    text: str


class RunLogPayload(RestPayload):
    """Lines of the log of a run, oldest first; `after` the `place` of the last one come those that follow.

    `cut` older lines were not kept. With `more`, there are newer ones; without it and without `ended` some may come.
    """

    schema_: Annotated[Literal["duetime.run_log/1"], Field(alias="schema")] = "duetime.run_log/1"
    run_id: str
    task_id: str
    lines: tuple[RunLogLinePayload, ...]
    cut: int | None = None
    more: Literal[True] | None = None
    ended: bool


def log(call: RestCall) -> RestAnswer:
    """Return lines of the log of a run."""
    given = {name: call.values[name] for name in ("after", "newest", "limit") if name in call.values}
    found = call.scheduler.past.run_log(call.values["run_id"], **given, **read_by(call))
    return RestAnswer(RunLogPayload.model_validate(log_json(found)))


OF_RUN_LOGS = (
    Operation(
        "get_run_log",
        "GET",
        "/runs/{run_id}/log",
        "Show what the handler of a run logged, oldest first",
        log,
        RunLogPayload,
        in_path=(RUN_OR_TASK_ID,),
        in_query=(
            Argument("after", Text(40), "Only lines behind the one with this `place`", "after='1.20'"),
            Argument("newest", Whole(1, MAX_LOG_LINES_READ), "Only this many of the last lines", "newest=20"),
            Argument("limit", Whole(1, MAX_LOG_LINES_READ), "Default 200", "limit=200"),
            TENANT,
        ),
    ),
)
