"""One run with all that is kept of it: payload, result, attempts with tracebacks, events and deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from duetime.scheduler.history.run_detail import RunDetail
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.series.natural_key import key_of_run
from duetime.scheduler.rules.time.times import utc, utc_or_none
from duetime.scheduler.task import Attempt, Delivery, DeliveryState, State, Tier
from duetime.server.rest.operation import RestAnswer, RestCall
from duetime.server.rest.resources.history import EventPayload, event_payload, read_by
from duetime.server.rest.resources.payloads import RestPayload
from duetime.widgets.history import attempt_payload
from duetime.widgets.schema.history_parts import AttemptPart
from pydantic import Field


class RunAttemptPayload(AttemptPart):
    """One try of the run; `units` are what it used of each pool, `costs` what that cost."""

    worker: str
    units: dict[str, float] | None = None
    costs: dict[str, str] | None = None


class DeliveryPayload(RestPayload):
    """Telling the user the outcome through one channel."""

    channel: str
    state: DeliveryState
    attempts: int
    delivered_at: str | None = None
    next_at: str | None = None
    error: str | None = None


class RunDetailPayload(RestPayload):
    """A run, whole. Secrets in `payload`, `result` and `checkpoint` are `***`.

    `message` is the text of its outcome, `dead_letter` why it is out of attempts, `cost` what its attempts cost
    together, in the installation's currency. `events` are the newest. `idempotency_key` is there by a template.
    """

    schema_: Annotated[Literal["duetime.run/1"], Field(alias="schema")] = "duetime.run/1"
    id: str
    task_id: str
    title: str
    action: str
    owner: str
    state: State
    current: bool
    priority: Tier
    scheduled_for: str
    started_at: str | None = None
    ended_at: str | None = None
    deadline: str | None = None
    timezone: str
    payload: Any = None
    idempotency_key: str | None = None
    summary: str | None = None
    result: Any = None
    error: str | None = None
    progress: Any = None
    checkpoint: Any = None
    message: str | None = None
    dead_letter: str | None = None
    cost: str | None = None
    attempts: tuple[RunAttemptPayload, ...]
    deliveries: tuple[DeliveryPayload, ...]
    events: tuple[EventPayload, ...]


def show(call: RestCall) -> RestAnswer:
    """Return one run of a tenant."""
    return RestAnswer(_payload(call.scheduler.past.run(call.values["run_id"], **read_by(call))))


def _payload(found: RunDetail) -> RunDetailPayload:
    task, run = found.record.task, found.run
    return RunDetailPayload(
        id=run.id,
        task_id=task.id,
        title=task.title,
        action=task.action,
        owner=task.owner,
        state=run.state,
        current=found.is_current,
        priority=task.priority,
        scheduled_for=utc(run.scheduled_for),
        started_at=utc_or_none(run.started_at),
        ended_at=utc_or_none(run.ended_at),
        deadline=utc_or_none(run.deadline),
        timezone=task.timezone,
        payload=redacted_json(task.payload) or None,
        idempotency_key=key_of_run(task, run),
        summary=run.summary,
        result=redacted_json(run.result),
        error=run.error,
        progress=run.progress,
        checkpoint=redacted_json(run.checkpoint),
        message=found.message.text if found.message else None,
        dead_letter=found.dead_letter.reason if found.dead_letter else None,
        cost=None if found.cost is None else money(found.cost),
        attempts=tuple(_attempt(each, found) for each in reversed(found.attempts)),
        deliveries=tuple(map(_delivery, found.deliveries)),
        events=tuple(event_payload(event, task.timezone) for event in reversed(found.events)),
    )


def _attempt(attempt: Attempt, found: RunDetail) -> RunAttemptPayload:
    part = attempt_payload(attempt)
    units = dict(found.units.get(attempt.number, {}))
    costs = {pool: money(cost) for pool, cost in found.costs.get(attempt.number, {}).items()}
    return RunAttemptPayload(**part.model_dump(), worker=attempt.worker, units=units or None, costs=costs or None)


def _delivery(delivery: Delivery) -> DeliveryPayload:
    return DeliveryPayload(
        channel=delivery.channel,
        state=delivery.state,
        attempts=delivery.attempts,
        delivered_at=utc_or_none(delivery.delivered_at),
        next_at=utc_or_none(delivery.next_at),
        error=delivery.error,
    )
