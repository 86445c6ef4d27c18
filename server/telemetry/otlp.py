"""The tracer provider of a Duetime process: spans go to an OTLP collector over HTTP, in batches, on a thread.

The SDK reads sampler, limits, batches, endpoint, headers and time-outs from OTEL_* variables. A batch that cannot be
sent is dropped, and so is a span when 2,048 wait: nothing waits for the collector.
"""

from __future__ import annotations

from hashlib import blake2b

from duetime.server.telemetry.otel_traces import TRACED_ATTEMPT
from duetime.version import __version__
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


class RunTraceIds(RandomIdGenerator):
    """Random ids, but for the trace of a run and the spans of its attempts, which are the same in any process."""

    def generate_trace_id(self) -> int:
        attempt = TRACED_ATTEMPT.get()
        return super().generate_trace_id() if attempt is None else _made_of(attempt[0], 16)

    def generate_span_id(self) -> int:
        attempt = TRACED_ATTEMPT.get()
        return super().generate_span_id() if attempt is None else _made_of(f"{attempt[0]}.{attempt[1]}", 8)


def _made_of(name: str, size: int) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=size).digest())


def make_provider() -> TracerProvider:
    """Return a provider without an exporter; `OTEL_SERVICE_NAME` names the service, by default `duetime`."""
    named = Resource({"service.name": "duetime", "service.version": __version__}).merge(OTELResourceDetector().detect())
    # At the end the application flushes within its own limit: the SDK would wait for a collector that hangs.
    return TracerProvider(resource=Resource.create().merge(named), id_generator=RunTraceIds(), shutdown_on_exit=False)


def provide() -> None:
    """Make a provider with the exporter of the environment, for all of this process."""
    provider = make_provider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
