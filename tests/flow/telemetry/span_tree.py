"""Spans as a tree of lines, as a person reads a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan


@dataclass(frozen=True)
class Seen:
    """A span as a collector has it."""

    trace: str
    id: str
    parent: str
    name: str
    start: int
    service: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    failed: bool = False


def of_sdk(span: ReadableSpan) -> Seen:
    context = span.get_span_context()
    assert context is not None
    return Seen(
        f"{context.trace_id:032x}",
        f"{context.span_id:016x}",
        f"{span.parent.span_id:016x}" if span.parent else "",
        span.name,
        span.start_time or 0,
        attributes=dict(span.attributes or {}),
        links=tuple(f"{link.context.trace_id:032x}" for link in span.links),
        failed=not span.status.is_ok and span.status.status_code.name == "ERROR",
    )


def of_otlp(body: bytes) -> Iterator[Seen]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                yield Seen(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    named.get("service.name", ""),
                    attributes,
                )


def tree(spans: Iterable[Seen], parent: str = "", depth: int = 0) -> list[str]:
    """Return a line for each span below `parent`, in the order in which they began."""
    known = list(spans)
    lines = []
    for span in sorted((each for each in known if each.parent == parent), key=lambda each: each.start):
        lines.append("  " * depth + span.name + (f" ({span.service})" if span.service else ""))
        lines += tree(known, span.id, depth + 1)
    return lines
