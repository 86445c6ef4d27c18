"""Spans of HTTP requests by OpenTelemetry, and the context that they carry to the other side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

W3C: Final = TraceContextTextMapPropagator()
MAX_TRACESTATE_CHARS: Final = 512
"""Characters of a `tracestate` that is kept: as many as the W3C requires everyone to hand on."""

MAX_MEMBER_CHARS: Final = 128
"""A longer member of it goes first where all together are too long."""


class RequestSpans:
    """Spans of HTTP requests, as children of the current span."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, method: str, host: str, port: int | None) -> Iterator[_Request]:
        attributes: dict[str, str | int] = {"http.request.method": method, "server.address": host}
        if port is not None:
            attributes["server.port"] = port
        with self._tracer.start_as_current_span(
            method, kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            try:
                yield _Request(span)
            except Exception as error:
                mark_failed(span, type(error).__name__)
                raise


class _Request:
    def __init__(self, span: Span) -> None:
        self._span = span
        traceparent, tracestate = carried(trace.set_span_in_context(span))
        state = {"tracestate": tracestate} if tracestate else {}
        self.headers: Mapping[str, str] = {"traceparent": traceparent, **state}

    def answered(self, status: int) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.BAD_REQUEST:
            mark_failed(self._span, str(status))


def mark_failed(span: Span, kind: str) -> None:
    """Record that what a span stands for failed."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def carried(context: Context) -> tuple[str, str]:
    """Return `traceparent` and `tracestate` of a context, each empty where there is none."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, context)
    return carrier.get("traceparent", ""), _shortened(carrier.get("tracestate", ""))


def _shortened(tracestate: str) -> str:
    """Leave out whole members until it is short enough: long ones first, then the oldest, as the W3C requires."""
    members = tracestate.split(",")
    while len(tracestate) > MAX_TRACESTATE_CHARS:
        long = [member for member in members if len(member) > MAX_MEMBER_CHARS]
        members.remove(long[-1] if long else members[-1])
        tracestate = ",".join(members)
    return tracestate
