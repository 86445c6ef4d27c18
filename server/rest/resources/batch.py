"""Many tasks at once: scheduled, all of them or none; and changed.

A problem of a batch names the place of the task that has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final, Literal

from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED
from duetime.scheduler.errors import MAX_PROBLEMS, IdempotencyConflict, InvalidArgument, InvalidArguments
from duetime.scheduler.request import Request
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.request_arguments import ObjectList
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.resources.tasks import ORIGIN_ARGUMENT, SCHEDULE_TASK, arguments_of, request_of
from duetime.tools.arguments.arguments import Argument, Arguments
from duetime.tools.change_tasks import CHANGE_TASKS
from duetime.widgets.bulk.payload import BulkListPayload, bulk_payload
from duetime.widgets.payload import task_payload
from duetime.widgets.schema.task import TaskPayload
from pydantic import Field

MAX_BATCH_TASKS: Final = 200
DIGEST_CHARS: Final = 32
_KEY = next(argument for argument in SCHEDULE_TASK.arguments if argument.name == "idempotency_key")
_ONLY_ALONE: Final = {
    "steps": InvalidArgument(
        "steps",
        "a chain cannot be part of a batch",
        accepted="tasks without steps, and POST /v1/tasks for each chain",
        example="POST /v1/tasks with {'title': 'Weekly report', 'steps': [{'name': 'fetch'}]}",
    ),
    "dry_run": InvalidArgument(
        "dry_run",
        "cannot be used with tasks that are stored together",
        accepted="tasks without dry_run, and POST /v1/tasks to try one",
        example="POST /v1/tasks with {'title': 'Call John', 'when': 'in 2 hours', 'dry_run': true}",
    ),
}
"""Arguments of POST /v1/tasks that a batch refuses."""

BATCH_ITEM: Final = Arguments(
    "a task of POST /v1/tasks/batch",
    (*arguments_of(SCHEDULE_TASK.arguments, *_ONLY_ALONE), ORIGIN_ARGUMENT, replace(_KEY, about="")),
    elsewhere=_ONLY_ALONE,
)


class BatchPayload(RestPayload):
    """The tasks in the order in which they were given; `created` of one is false if its key had made it before."""

    schema_: Annotated[Literal["duetime.batch/1"], Field(alias="schema")] = "duetime.batch/1"
    tasks: tuple[TaskPayload, ...]


TASKS = Argument(
    "tasks",
    ObjectList(BATCH_ITEM, MAX_BATCH_TASKS),
    "Each as POST /v1/tasks takes it",
    "tasks=[{'title': 'Call John', 'when': 'in 2 hours'}]",
    required=True,
)


def schedule_batch(call: RestCall) -> RestAnswer:
    """Store all tasks in one transaction; the key of the request gives each task one that has none of its own."""
    given = call.values["tasks"]
    requests = [request_of({**_key_of(call, place), **one}) for place, one in enumerate(given)]
    _check_same_places(call)
    try:
        views = call.scheduler.task_creator.create_named(requests, TASKS.name, call.by)
    except (InvalidArgument, InvalidArguments) as error:
        found = list(_wrong_ones(call, requests))
        raise InvalidArguments(found) if found else error from None
    created = any(view.created for view in views)
    payload = BatchPayload(tasks=tuple(map(task_payload, views)))
    return RestAnswer(payload, HTTPStatus.CREATED if created else HTTPStatus.OK)


def _key_of(call: RestCall, place: int) -> dict[str, str]:
    """Return the key of the task at a place, of a request that has a key."""
    if call.idempotency_key is None:
        return {}
    return {"idempotency_key": _key_text(call.idempotency_key, place)}


def _key_text(key: str, place: int) -> str:
    return f"batch-{hashlib.sha256(key.encode()).hexdigest()[:DIGEST_CHARS]}-{place}"


def _check_same_places(call: RestCall) -> None:
    """Refuse a key that stored a batch in which other places have their key from that of the request.

    A part of this batch would be new, or would be left out. Raises IdempotencyConflict.
    """
    key, given = call.idempotency_key, call.values["tasks"]
    if key is None:
        return
    names = [_key_text(key, place) for place in range(MAX_BATCH_TASKS)]
    made = call.parts.store.tasks.keyed(call.by.tenant, names)
    keyed = {name for name, one in zip(names, given, strict=False) if _KEY.name not in one}
    if made and made.keys() != keyed:
        difference = {"list of tasks": ("another one", f"one of {len(given)}")}
        raise IdempotencyConflict(key, next(iter(made.values())), difference)


def _wrong_ones(call: RestCall, requests: Sequence[Request]) -> Iterator[InvalidArgument]:
    """Try the tasks one by one, which stores none, until there are as many problems as a message lists."""
    found = 0
    for place, request in enumerate(requests):
        for problem in _tried(call, replace(request, dry_run=True)):
            found += 1
            yield problem.at(f"tasks[{place}]")
        if found >= MAX_PROBLEMS:
            return


def _tried(call: RestCall, request: Request) -> Sequence[InvalidArgument]:
    try:
        call.scheduler.submit(request, by=call.by)
    except InvalidArgument as problem:
        return (problem,)
    except InvalidArguments as several:
        return several.problems
    return ()


SCHEDULE_BATCH = Operation(
    "schedule_tasks",
    "POST",
    "/tasks/batch",
    f"Schedule up to {MAX_BATCH_TASKS} tasks: all of them, or none when one is wrong",
    schedule_batch,
    BatchPayload,
    body=(TASKS,),
    created=True,
    repeatable=True,
    statuses=(HTTPStatus.CONFLICT,),
)


def change_tasks(call: RestCall) -> RestAnswer:
    """Change many tasks, or say what would be changed."""
    asked = CHANGE_TASKS.call(**call.without("dry_run", "expect"))
    result = call.scheduler.bulk.change(
        asked.change,
        asked.task_ids,
        where=asked.where,
        after=asked.after,
        before=asked.before,
        to=asked.to,
        undo=asked.undo,
        reason=asked.reason,
        expect=call.values.get("expect"),
        max_letters=asked.max_letters,
        dry_run=call.values.get("dry_run", False),
        idempotency_key=call.idempotency_key,
        by=call.by,
    )
    return RestAnswer(bulk_payload(result, MAX_TASKS_CHANGED))


CHANGE_MANY = Operation(
    "change_tasks",
    "POST",
    "/tasks/changes",
    "Change many tasks by one call, or take that back; a filter only previews until expect says how many",
    change_tasks,
    BulkListPayload,
    body=arguments_of(CHANGE_TASKS.arguments),
    repeatable=True,
    statuses=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
