"""One task, as `duetime.task/1`, and its words for cards in other languages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from duetime.scheduler.task import Notify, State, Tier
from duetime.widgets.schema.chain_parts import ChainPart
from duetime.widgets.schema.history_parts import HistoryPart
from duetime.widgets.schema.part import PayloadPart
from duetime.widgets.schema.run_parts import (
    DeliveryPart,
    KeyPart,
    LastRun,
    LetterPart,
    LogPart,
    OriginPart,
    ProgressPart,
    TargetPart,
    Unread,
    WaitPart,
)
from duetime.widgets.schema.time_parts import DeadlinePart, ExtraRun, RelativeDeadlinePart, Repeat, When
from pydantic import Field


class TaskPayload(PayloadPart):
    """One task, or a whole chain, as `duetime.task/1`.

    `attempt` counts the attempts of the current run that have started, `max_attempts` how many it may have: from the
    second on. `payload` (without the message) and `result`, which the latest attempt gave, are there where one task was
    asked for. Secrets in them are `***`. Without the history they are short enough for a model, as the message is, and
    `cut` names those that are not whole. `log` is cut too, and so is `idempotency_key`, if it is a template. A `letter`
    is there with the history of a task that is out of attempts. `speech` says how it stands, for a voice. It is in what
    programs read (REST, `--json`, the resource of a task), not in answers of tools.
    """

    schema_: Annotated[Literal["duetime.task/1"], Field(alias="schema")] = "duetime.task/1"
    id: str
    revision: int
    title: str
    state: State
    paused: Literal[True] | None = None
    paused_until: str | None = None
    cancel_requested: Literal[True] | None = None
    damaged: Literal[True] | None = None
    blocked: Literal[True] | None = None
    action: str
    effect: str | None = None
    target: TargetPart | None = None
    message: str | None = None
    when: When
    extra_run: ExtraRun | None = None
    repeat: Repeat | None = None
    priority: Tier | None = None
    deadline: DeadlinePart | None = None
    relative_deadline: RelativeDeadlinePart | None = None
    estimate: str | None = None
    needs: dict[str, int] | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    progress: ProgressPart | None = None
    waiting_for: tuple[str, ...] | None = None
    waits: tuple[WaitPart, ...] | None = None
    snoozed_until: str | None = None
    last_run: LastRun | None = None
    payload: Any = None
    result: Any = None
    cut: tuple[Literal["message", "payload", "result"], ...] | None = None
    log: LogPart | None = None
    letter: LetterPart | None = None
    cost: str | None = None
    fire_address: Literal[True] | None = None
    chain: ChainPart | None = None
    delivery: DeliveryPart | None = None
    notify: Notify | None = None
    expect: Any = None
    on_failure: Any = None
    origin: OriginPart | None = None
    idempotency_key: KeyPart | None = None
    labels: tuple[str, ...] | None = None
    owner: str
    created: bool | None = None
    warnings: tuple[str, ...] | None = None
    undo: str | None = None
    undo_until: str | None = None
    unread: tuple[Unread, ...] | None = None
    history: HistoryPart | None = None
    speech: str | None = None
    now: str


class TaskWords(PayloadPart):
    """The words of an answer by kind, for a card in any language: `duetime/words` in `_meta`, which no model reads.

    `repeat` are the clauses of the recurrence, `sentences` the kind and the values of English texts of the answer. A
    card says what has no kind, or one that it does not know, as it is written.
    """

    repeat: tuple[dict[str, Any], ...] | None = None
    sentences: dict[str, dict[str, Any]] | None = None
