"""Whether this process records traces: by the OTEL_* variables of its environment, or the provider of its program.

Nothing of OpenTelemetry is loaded here unless it is wanted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final

from duetime.scheduler.runtime.traces import NO_TRACING, Tracing

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"

log = logging.getLogger(__name__)


def configured_tracing(environment: Mapping[str, str] = os.environ) -> Tracing:
    """Return the tracing that the program has set up, or that the environment requests; else one that is off.

    It is asked for by an OTLP endpoint, or by `OTEL_TRACES_EXPORTER=otlp` for the usual one. `OTEL_SDK_DISABLED=true`
    and `OTEL_TRACES_EXPORTER=none` turn it off. An exporter that is asked for and cannot be had is logged, and stops
    nothing.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return NO_TRACING
    if _has_provider():
        return _tracing_of_program()
    if not _is_wanted(environment):
        return NO_TRACING
    if problem := _problem(environment):
        log.warning("no traces are recorded: %s", problem)
        return NO_TRACING
    try:
        import_module("duetime.server.telemetry.otlp").provide()
    except ModuleNotFoundError as error:
        log.warning("no traces are recorded: %s is missing. In a checkout: pip install '.[otel]'", error.name)
        return NO_TRACING
    return _tracing_of_program()


def _has_provider() -> bool:
    """Whether the program has made tracers of the SDK global, as OpenTelemetry's own command line does."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return False
    sdk, api = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.trace")
    return isinstance(api.get_tracer_provider(), sdk.TracerProvider)


def _tracing_of_program() -> Tracing:
    provider = import_module("opentelemetry.trace").get_tracer_provider()
    tracing: Tracing = import_module("duetime.server.telemetry.otel_traces").OtelTracing(provider)
    return tracing


def _is_wanted(environment: Mapping[str, str]) -> bool:
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" and (exporter != "" or any(environment.get(name) for name in _ENDPOINTS))


def _problem(environment: Mapping[str, str]) -> str | None:
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if exporter != "otlp":
        return f"OTEL_TRACES_EXPORTER is {exporter[:40]!r}; Duetime exports by otlp, or not at all (none)"
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _HTTP)
    if protocol != _HTTP:
        return f"the protocol of the exporter is {protocol[:40]!r}; Duetime has {_HTTP} only"
    return None
