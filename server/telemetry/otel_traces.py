"""Traces by OpenTelemetry: the way of a task, over processes, as one trace.

Needs the API alone, which comes with the MCP SDK; `otlp` loads the SDK. Attributes name ids, tiers, outcomes
and hosts: no titles, payloads, addresses or error texts, and a tenant only as a hash.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from hashlib import blake2b
from http import HTTPStatus
from threading import Thread
from typing import Final

from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.runtime.traces import AttemptTrace, requests_traced_by
from duetime.scheduler.task import Delivery, Run, Task
from duetime.server.telemetry.request_spans import W3C, RequestSpans, carried, mark_failed
from duetime.version import __version__
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer, TracerProvider

NANOSECONDS_PER_S: Final = 1_000_000_000
Attributes = Mapping[str, str | int]

TRACED_ATTEMPT: Final[ContextVar[tuple[str, int] | None]] = ContextVar("duetime_traced_attempt", default=None)
"""The run and the number of the attempt whose span starts now.

All attempts of a later occurrence share one trace, whose id is made of the run's. The span of an attempt has an id made
of both, by which any process ends the span of a worker elsewhere.
"""


class OtelTracing:
    """Records spans with the tracers of `provider`. `AttemptTrace` and its children are made where a run is claimed."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("duetime", __version__)

    @contextmanager
    def serving(self, method: str, route: str) -> Iterator[_Serving]:
        """Record a served request, of the trace of its caller; of a call of a tool the MCP SDK does."""
        attributes = {"http.request.method": method, "http.route": route}
        with self._tracer.start_as_current_span(
            f"{method} {route}", kind=SpanKind.SERVER, attributes=attributes, record_exception=False
        ) as span:
            yield _Serving(span)

    @contextmanager
    def scheduling(self, tasks: Sequence[Task]) -> Iterator[_Scheduling]:
        """Record the storing of tasks, as messages that are created."""
        actions = {task.action for task in tasks}
        name = f"schedule {actions.pop()}" if len(actions) == 1 else "schedule"
        attributes = _of_task(tasks[0], "schedule", "create") if len(tasks) == 1 else _of_batch(len(tasks))
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.PRODUCER, attributes=attributes, record_exception=False
        ) as span:
            yield _Scheduling(span)

    def attempt(self, claim: Claim, taken_at: float | None) -> AttemptTrace:
        """Record a claimed run: it waited for admission until it was taken, and was then claimed."""
        now = time.time_ns()
        taken = now if taken_at is None else now - int((time.monotonic() - taken_at) * NANOSECONDS_PER_S)
        made = _Attempt(self._tracer, claim, taken)
        made.claimed(taken, now)
        return made

    def reported(self, claim: Claim, began_at: datetime | None) -> AttemptTrace:
        """Continue what `attempt` began in any process, now that a worker elsewhere reports the end."""
        began = time.time_ns() if began_at is None else _nanoseconds(began_at)
        return _Reported(self._tracer, claim, began, worked=began_at is not None)

    @contextmanager
    def delivering(self, delivery: Delivery) -> Iterator[None]:
        """Record one try of a delivery; it continues the trace of the run whose outcome it delivers."""
        kind = delivery.channel.partition(":")[0]
        attributes: Attributes = {
            "messaging.system": "duetime",
            "messaging.operation.name": "deliver",
            "messaging.operation.type": "send",
            "messaging.message.id": delivery.id,
            "duetime.channel.kind": kind,
            "duetime.task.id": delivery.task_id,
            "duetime.run.id": delivery.run_id,
            "duetime.delivery.attempt": delivery.attempts + 1,
        }
        context = _remote(delivery)
        with (
            self._tracer.start_as_current_span(
                f"deliver {kind}", context, SpanKind.PRODUCER, attributes, record_exception=False
            ) as span,
            requests_traced_by(RequestSpans(self._tracer)),
        ):
            try:
                yield
            except Exception as error:
                mark_failed(span, type(error).__name__)
                raise

    def flush(self, seconds: float) -> None:
        """Send what was recorded; an exporter that hangs is left behind."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            sender = Thread(target=flush, args=(int(seconds * 1000),), name="duetime-traces", daemon=True)
            sender.start()
            sender.join(seconds)


class _Serving:
    def __init__(self, span: Span) -> None:
        self._span = span

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # what callers do wrong is no failure of the server
            mark_failed(self._span, str(status))


class _Scheduling:
    def __init__(self, span: Span) -> None:
        self._span = span
        self.traceparent, self.tracestate = carried(trace.set_span_in_context(span))

    def stored(self, task_ids: Sequence[str]) -> None:
        if len(task_ids) == 1:
            self._span.set_attribute("duetime.task.id", task_ids[0])


class _Attempt:
    """One attempt of a run: a span for all of it, with one each for admission, claim, handler and settlement below."""

    def __init__(self, tracer: Tracer, claim: Claim, taken: int) -> None:
        self._tracer = tracer
        self._action = claim.task.action
        self._ready = min(_ready_at(claim.run, taken), taken)
        self._span = _started(tracer, claim, self._ready)
        self._context = trace.set_span_in_context(self._span, Context())
        self.traceparent, self.tracestate = carried(self._context)
        self._settlement: Span | None = None

    def claimed(self, taken: int, now: int) -> None:
        self._child("admit", self._ready).end(taken)
        self._child("claim", taken).end(now)

    @contextmanager
    def handling(self) -> Iterator[None]:
        span = self._child("handle")
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            with requests_traced_by(RequestSpans(self._tracer)):
                yield
        finally:
            otel_context.detach(token)
            span.end()

    def settling(self) -> None:
        if self._settlement is None:  # an outcome that is computed again after a change is settled once
            self._settlement = self._child("settle")

    def ended(self, end: Settlement, *, stored: bool) -> None:  # noqa: ARG002 - this process alone records it
        if self._settlement is not None:
            self._settlement.end()
        self._span.set_attributes({"duetime.outcome": end.outcome, "duetime.run.state": end.to})
        if end.error is not None and not end.unverified:
            mark_failed(self._span, end.outcome)
        self._span.end()

    def _child(self, word: str, start: int | None = None) -> Span:
        return self._tracer.start_span(f"{word} {self._action}", self._context, start_time=start)


class _Reported(_Attempt):
    """The attempt of a worker elsewhere, which several processes may end at once: the one records it that stored it."""

    def __init__(self, tracer: Tracer, claim: Claim, began: int, *, worked: bool) -> None:
        super().__init__(tracer, claim, began)
        self._began, self._reported_at, self._worked = began, time.time_ns(), worked

    def ended(self, end: Settlement, *, stored: bool) -> None:
        if not stored:
            return
        if self._worked:
            self._child("handle", self._began).end(self._reported_at)
        super().ended(end, stored=stored)


def _started(tracer: Tracer, claim: Claim, ready: int) -> Span:
    """Start the span of an attempt: in the trace of the call that scheduled its task, or in one of the run's own.

    The first run of a task continues the trace of the call. Later ones and replays only link to it. A trace of months
    can be shown by nothing, and one sampling decision would hold for all of them.
    """
    run, caller = claim.run, _remote(claim.task)
    scheduled = trace.get_current_span(caller).get_span_context()
    continues = scheduled.is_valid and run.number == 1 and run.generation == 1
    links = [Link(scheduled)] if scheduled.is_valid and not continues else []
    token = TRACED_ATTEMPT.set((run.id, run.attempt))
    try:
        return tracer.start_span(
            f"run {claim.task.action}",
            caller if continues else Context(),
            SpanKind.CONSUMER,
            _of_run(claim),
            links,
            start_time=ready,
        )
    finally:
        TRACED_ATTEMPT.reset(token)


def _ready_at(run: Run, taken: int) -> int:
    """Return since when a run waited, in nanoseconds; for a later attempt that is not known."""
    if run.attempt > 1 or run.first_ready_at is None:
        return taken
    return _nanoseconds(run.first_ready_at)


def _nanoseconds(instant: datetime) -> int:
    return int(instant.timestamp() * NANOSECONDS_PER_S)


def _of_task(task: Task, name: str, kind: str) -> dict[str, str | int]:
    return {
        "messaging.system": "duetime",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": task.action,
        "duetime.tier": task.priority,
        "duetime.tenant.hash": blake2b(task.tenant.encode(), digest_size=8).hexdigest(),
    }


def _of_batch(count: int) -> dict[str, str | int]:
    return {
        "messaging.system": "duetime",
        "messaging.operation.name": "schedule",
        "messaging.operation.type": "create",
        "messaging.batch.message_count": count,
    }


def _of_run(claim: Claim) -> Attributes:
    run = claim.run
    return {
        **_of_task(claim.task, "run", "process"),
        "messaging.message.id": run.id,
        "duetime.task.id": run.task_id,
        "duetime.run.id": run.id,
        "duetime.run.attempt": run.attempt,
        "duetime.worker": claim.worker,
    }


def _remote(kept: Task | Delivery) -> Context:
    """Return the context that a task or a delivery keeps, an empty one where it keeps none."""
    found = {"traceparent": kept.traceparent, "tracestate": kept.tracestate}
    return W3C.extract({name: value for name, value in found.items() if value}, Context())
