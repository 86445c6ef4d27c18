"""Dead letters: runs that are out of attempts are listed, shown, replayed and discarded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.dead_letters import DeadLetterFilter, LettersClosed, LetterState
from duetime.scheduler.principal import Scope
from duetime.scheduler.service.letters.letter_call import MAX_LETTERS_CLOSED, USUAL_LETTERS_COUNT
from duetime.server.auth.access import only_operators
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import CURSOR, LIMIT, TENANT, read_by, reader_of
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.letter_rows import closed_json, letter_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Flag, Text, Texts, Whole
from duetime.tools.definition import PAYLOAD, TIME
from duetime.widgets.bulk.payload import BulkListPayload, bulk_payload
from duetime.widgets.schema.history_parts import AttemptPart
from pydantic import Field

_FILTERS: Final = ("task_id", "action", "label", "text", "since", "until")


class DeadLetterPart(RestPayload):
    """A run that is out of attempts, with its payload (secrets as `***`) and every attempt, newest first.

    `replays` counts the replays that led to the run; `replayed_as` is the run that a replay made of it.
    """

    run_id: str
    task_id: str
    tenant: str
    title: str
    action: str
    at: str
    reason: str
    state: LetterState
    closed_at: str | None = None
    replayed_as: str | None = None
    replays: int
    payload: Any = None
    attempts: tuple[AttemptPart, ...]


class DeadLetterPayload(DeadLetterPart):
    """One dead letter."""

    schema_: Annotated[Literal["duetime.dead_letter/1"], Field(alias="schema")] = "duetime.dead_letter/1"


class DeadLettersPayload(RestPayload):
    """One page of dead letters, newest first."""

    schema_: Annotated[Literal["duetime.dead_letters/1"], Field(alias="schema")] = "duetime.dead_letters/1"
    dead_letters: tuple[DeadLetterPart, ...]
    cursor: str | None = None


class ClosedLetterPayload(RestPayload):
    """A dead letter that was replayed as another run, or discarded; a recurring task has its `next` run besides."""

    run_id: str
    task_id: str
    replayed_as: str | None = None
    next: str | None = None


class SkippedLetterPayload(RestPayload):
    """A dead letter that stays open, and why."""

    run_id: str
    why: str


class ClosedLettersPayload(RestPayload):
    """The result of a replay or a discard: of `matched` letters, `held_back` ones were replayed too often.

    `left` matching letters were neither closed, skipped nor held back. With `dry_run` nothing was closed: `closed` and
    `skipped` are what the call would close and skip. `undo` takes all of it back until `undo_until`. With `at_least`
    there may be more than `matched` and `left` say.
    """

    schema_: Annotated[Literal["duetime.dead_letters_closed/1"], Field(alias="schema")] = (
        "duetime.dead_letters_closed/1"
    )
    dry_run: bool
    matched: int
    held_back: int
    left: int
    at_least: bool | None = None
    closed: tuple[ClosedLetterPayload, ...]
    skipped: tuple[SkippedLetterPayload, ...]
    undo: str | None = None
    undo_until: str | None = None


def dead_letters(call: RestCall) -> RestAnswer:
    """Return a page of the runs of a tenant, or of all, that are out of attempts."""
    where = _where(call.values, LetterState(call.values.get("state", LetterState.OPEN)))
    bounds: dict[str, Any] = {name: call.values.get(name) for name in ("since", "until", "cursor")}
    who, limit = read_by(call), call.values.get("limit", 50)
    found, cursor = call.scheduler.letters.page(where, **bounds, limit=limit, **who)
    shown = tuple(DeadLetterPart.model_validate(letter_json(letter)) for letter in found)
    return RestAnswer(DeadLettersPayload(dead_letters=shown, cursor=cursor), cursor=cursor)


def show(call: RestCall) -> RestAnswer:
    """Return one dead letter, whatever became of it."""
    letter = call.scheduler.letters.get(call.values["run_id"], by=reader_of(call))
    return RestAnswer(DeadLetterPayload.model_validate(letter_json(letter)))


def replay(call: RestCall) -> RestAnswer:
    """Run dead letters once more."""
    return _closed(call, partial(call.scheduler.letters.replay, payload=call.values.get("payload")))


def discard(call: RestCall) -> RestAnswer:
    """Close dead letters that need no replay."""
    return _closed(call, call.scheduler.letters.discard)


def undo(call: RestCall) -> RestAnswer:
    """Take a replay or a discard back."""
    tenant = call.values.get("tenant", call.by.tenant)
    if not call.by.may_change_all_of(tenant):
        raise only_operators(Scope.ADMIN)
    key, token = call.idempotency_key, call.values["undo"]
    result = call.scheduler.bulk.change("undo", undo=token, tenant=tenant, idempotency_key=key, by=call.by)
    return RestAnswer(bulk_payload(result, MAX_TASKS_CHANGED))


def _closed(call: RestCall, close: Callable[..., LettersClosed]) -> RestAnswer:
    tenant = call.values.get("tenant", call.by.tenant)
    if not call.by.may_change_all_of(tenant):
        raise only_operators(Scope.ADMIN)
    _check_choice(call.values)
    if call.values.get("dry_run"):  # all else has an entry for each letter
        call.scheduler.past.note_read(tenant, by=call.by)
    bounds = {name: call.values.get(name) for name in ("since", "until", "reason")}
    done = close(
        call.values.get("run_ids") or None,
        where=_where(call.values),
        **bounds,
        max_letters=call.values.get("max_letters", USUAL_LETTERS_COUNT),
        dry_run=call.values.get("dry_run", False),
        idempotency_key=call.idempotency_key,
        tenant=tenant,
        by=call.by,
    )
    return RestAnswer(ClosedLettersPayload.model_validate(closed_json(done)))


def _where(values: Mapping[str, Any], state: LetterState = LetterState.OPEN) -> DeadLetterFilter:
    given = {name: values[name] for name in ("task_id", "action", "label", "text") if name in values}
    return DeadLetterFilter(state=state, **given)


def _check_choice(values: Mapping[str, Any]) -> None:
    """Refuse a call that does not say which dead letters it means: an empty body must not close all of them."""
    ways = [bool(values.get("run_ids")), any(name in values for name in _FILTERS), bool(values.get("all"))]
    if sum(ways) != 1:
        text = "name runs, or give filters, or say all"
        raise InvalidArgument("run_ids", text, accepted="one of these", example="run_ids=['r_7k3m9qx2w4hb00000000']")


_RUN_ID = Argument("run_id", Text(40), "The id of a run", "run_id='r_7k3m9qx2w4hb00000000'", required=True)
_OF_LETTERS = (
    Argument("task_id", Text(40), "Only runs of this task"),
    Argument("action", Text(100), "Only of tasks with this action", "action='webhook'"),
    Argument("label", Text(60), "Only of tasks with this label"),
    Argument("text", Text(200), "Only with this in the title or in the reason"),
    Argument("since", TIME, "From this time on: 'friday', 'last night'", "since='yesterday'"),
    Argument("until", TIME, "Before this time", "until='yesterday'"),
)
_CLOSING = (
    Argument("run_ids", Texts(MAX_LETTERS_CLOSED), "Of dead letters", "run_ids=['r_7k3m9qx2w4hb00000000']"),
    *_OF_LETTERS,
    Argument("all", Flag(), "All that are open, without a filter", "all=true"),
    Argument("reason", Text(200), "Why, for the audit log; needed unless runs are named", "reason='the CRM is back'"),
    Argument("max_letters", Whole(1, MAX_LETTERS_CLOSED), "The oldest first; default 100", "max_letters=100"),
    Argument("dry_run", Flag(), "Only show what would become of them", "dry_run=true"),
    TENANT,
)
OF_DEAD_LETTERS = (
    Operation(
        "list_dead_letters",
        "GET",
        "/dead_letters",
        "List runs that are out of attempts, newest first",
        dead_letters,
        DeadLettersPayload,
        Scope.ADMIN_READ,
        in_query=(
            Argument("state", Choice(tuple(LetterState)), "Default open", "state='replayed'"),
            *_OF_LETTERS,
            TENANT,
            LIMIT,
            CURSOR,
        ),
        paged=True,
    ),
    Operation(
        "get_dead_letter",
        "GET",
        "/dead_letters/{run_id}",
        "Show one dead letter with its payload and every attempt",
        show,
        DeadLetterPayload,
        Scope.ADMIN_READ,
        in_path=(_RUN_ID,),
        in_query=(TENANT,),
    ),
    Operation(
        "replay_dead_letters",
        "POST",
        "/dead_letters/replay",
        "Run dead letters once more: those that are named, or the oldest of a filter",
        replay,
        ClosedLettersPayload,
        Scope.ADMIN,
        body=(*_CLOSING, replace(PAYLOAD, about="Another payload for the one run that is named")),
        repeatable=True,
        statuses=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Operation(
        "discard_dead_letters",
        "POST",
        "/dead_letters/discard",
        "Close dead letters that need no replay; they stay in the history",
        discard,
        ClosedLettersPayload,
        Scope.ADMIN,
        body=_CLOSING,
        repeatable=True,
        statuses=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Operation(
        "undo_dead_letters",
        "POST",
        "/dead_letters/undo",
        "Take a replay or a discard back, within ten minutes: the letters are open again",
        undo,
        BulkListPayload,
        Scope.ADMIN,
        body=(Argument("undo", Text(60), "The token in the answer", "undo='u_b7k3m9qx2w4h'", required=True), TENANT),
        repeatable=True,
        statuses=(HTTPStatus.CONFLICT,),
    ),
)
