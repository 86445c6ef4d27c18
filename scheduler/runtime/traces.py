"""The port of tracing: the way of a task as spans of one trace. Off by default, and then nothing of it costs anything.

A task keeps `traceparent` and `tracestate` (W3C Trace Context) of the call that scheduled it, so that another process,
any time later, continues that trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol

from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.task import Delivery, Task


class SchedulingSpan(Protocol):
    """The span of a call that stores tasks."""

    @property
    def traceparent(self) -> str:
        """The context to store with the tasks; empty for none."""

    @property
    def tracestate(self) -> str:
        """The values of other tracers that belong to it; empty for none."""

    def stored(self, task_ids: Sequence[str]) -> None:
        """Record which tasks are stored now, perhaps by an earlier call."""


class AttemptTrace(Protocol):
    """The spans of one attempt: one for all of it, from when the run was ready until its end is stored."""

    @property
    def traceparent(self) -> str:
        """The context that continues this attempt elsewhere."""

    @property
    def tracestate(self) -> str:
        """The values of other tracers that belong to it; empty for none."""

    def handling(self) -> AbstractContextManager[None]:
        """Make the span of the handler current for the block."""

    def settling(self) -> None:
        """Record that the handler has returned, and that its result is about to be stored."""

    def ended(self, end: Settlement, *, stored: bool) -> None:
        """Record the end of the attempt; one that was not `stored` came behind another end of the same attempt."""


class RequestSpan(Protocol):
    """The span of one HTTP request; its `headers` are to be sent with the request."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def answered(self, status: int) -> None:
        """Record the status of the answer."""


class ServedSpan(Protocol):
    """The span of one request that is served."""

    def answered(self, status: int) -> None:
        """Record the status of the answer."""


class RequestTracer(Protocol):
    """Makes the span of a request that a handler or a channel sends."""

    def request(self, method: str, host: str, port: int | None) -> AbstractContextManager[RequestSpan]: ...


class Tracing(Protocol):
    """Records spans. No method raises, or waits for whoever collects them."""

    def serving(self, method: str, route: str) -> AbstractContextManager[ServedSpan]:
        """Record that a request is served in the block; what it causes is below it."""

    def scheduling(self, tasks: Sequence[Task]) -> AbstractContextManager[SchedulingSpan]:
        """Record that tasks are stored in the block."""

    def attempt(self, claim: Claim, taken_at: float | None) -> AttemptTrace | None:
        """Record a run that was taken at this monotonic time and has just been claimed."""

    def reported(self, claim: Claim, began_at: datetime | None) -> AttemptTrace | None:
        """Continue the attempt of a worker elsewhere, which began then: it reports the end, perhaps to another process.

        Without `began_at` it has not worked on it.
        """

    def delivering(self, delivery: Delivery) -> AbstractContextManager[None]:
        """Record that a delivery is sent in the block."""

    def flush(self, seconds: float) -> None:
        """Send what was recorded, within so many seconds."""


class _Untraced:
    traceparent = tracestate = ""
    headers: Mapping[str, str] = MappingProxyType({})

    def stored(self, task_ids: Sequence[str]) -> None:
        """Record nothing."""

    def answered(self, status: int) -> None:
        """Record nothing."""


_UNTRACED: Final = _Untraced()


class NoTracing:
    """Tracing that is off."""

    def serving(self, method: str, route: str) -> AbstractContextManager[ServedSpan]:  # noqa: ARG002 - the port's
        return nullcontext(_UNTRACED)

    def scheduling(self, tasks: Sequence[Task]) -> AbstractContextManager[SchedulingSpan]:  # noqa: ARG002 - the port's
        return nullcontext(_UNTRACED)

    def attempt(self, claim: Claim, taken_at: float | None) -> AttemptTrace | None:  # noqa: ARG002 - as above
        return None

    def reported(self, claim: Claim, began_at: datetime | None) -> AttemptTrace | None:  # noqa: ARG002 - as above
        return None

    def delivering(self, delivery: Delivery) -> AbstractContextManager[None]:  # noqa: ARG002 - as above
        return nullcontext()

    def flush(self, seconds: float) -> None:
        """Send nothing."""


NO_TRACING: Final = NoTracing()
_REQUESTS: ContextVar[RequestTracer | None] = ContextVar("duetime_request_tracer", default=None)


@contextmanager
def requests_traced_by(tracer: RequestTracer) -> Iterator[None]:
    """Record the requests that the block sends."""
    token = _REQUESTS.set(tracer)
    try:
        yield
    finally:
        _REQUESTS.reset(token)


def request_span(method: str, host: str, port: int | None) -> AbstractContextManager[RequestSpan]:
    """Return the span of a request that is sent now, one that records nothing outside of a traced attempt."""
    tracer = _REQUESTS.get()
    return nullcontext(_UNTRACED) if tracer is None else tracer.request(method, host, port)
