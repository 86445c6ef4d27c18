"""Metrics of this process: what it is, how far its clock is off, and how long database and queue take to answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from duetime.scheduler.quotas import Quota
from duetime.server.telemetry.installation import InstallationState
from duetime.version import __version__
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

ROUND_TRIP_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
CALL_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
OK: Final = "ok"


class RoundTrips:
    """Counts the seconds that database and queue took to answer; one observation for each read of the state."""

    def __init__(self, registry: CollectorRegistry, read: Callable[[], InstallationState]) -> None:
        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"duetime_{name}_seconds", text, registry=registry, buckets=ROUND_TRIP_BUCKETS_S)

        self._read = read
        self._database = histogram("database_round_trip", "Time of the smallest read of the database.")
        self._queue = histogram("queue_round_trip", "Time of the counts of the queue; of Redis where it is shared.")

    def __call__(self) -> InstallationState:
        state = self._read()
        for seconds, histogram in ((state.database_s, self._database), (state.queue_s, self._queue)):
            if seconds is not None:
                histogram.observe(seconds)
        return state


class RefusalMetrics:
    """Counts the calls and requests that this process refused, by code, and the tasks that quotas kept out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "duetime_refusals", "Calls and requests that were refused, by reason.", ("reason",), registry=registry
        )
        self._admissions = Counter(
            "duetime_refused_admissions",
            "Times that a quota of a tenant refused to store tasks, by quota.",
            ("reason",),
            registry=registry,
        )
        for quota in Quota:
            self._admissions.labels(quota)

    def refused(self, code: str) -> None:
        self._calls.labels(code).inc()

    def not_admitted(self, quota: Quota) -> None:
        self._admissions.labels(quota).inc()


class CallMetrics:
    """Counts the calls of tools that this process answered; `refused` is notified of the code of a refusal."""

    def __init__(self, registry: CollectorRegistry, refused: Callable[[str], None]) -> None:
        self._refused = refused
        self._calls = Counter(
            "duetime_tool_calls", "Calls of tools, by outcome: ok, or a code.", ("tool", "outcome"), registry=registry
        )
        self._seconds = Histogram(
            "duetime_tool_call_duration_seconds",
            "Time from a call of a tool to its answer.",
            ("tool",),
            registry=registry,
            buckets=CALL_BUCKETS_S,
        )

    def __call__(self, tool: str, outcome: str, seconds: float) -> None:
        self._calls.labels(tool, outcome).inc()
        self._seconds.labels(tool).observe(seconds)
        if outcome != OK:
            self._refused(outcome)


class RequestMetrics:
    """Counts the requests of the REST API that this process answered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "duetime_rest_requests", "Requests, by status of the answer.", ("operation", "status"), registry=registry
        )
        self._seconds = Histogram(
            "duetime_rest_request_duration_seconds",
            "Time from a request to its answer.",
            ("operation",),
            registry=registry,
            buckets=CALL_BUCKETS_S,
        )

    def __call__(self, operation: str, status: str, seconds: float) -> None:
        self._requests.labels(operation, status).inc()
        self._seconds.labels(operation).observe(seconds)


class ProcessMetrics(Collector):
    """The state of this process; `role` is serve or work."""

    def __init__(
        self,
        state: Callable[[], InstallationState],
        skew: Callable[[], float],
        unwritable: Callable[[], int],
        *,
        role: str,
        registry: CollectorRegistry,
    ) -> None:
        self._state = state
        self._skew = skew
        self._unwritable = unwritable
        self._role = role
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is now so."""
        state = self._state()
        yield _gauge(
            "build_info", "1; the labels say what this process is.", {"version": __version__, "role": self._role}, 1
        )
        yield _gauge("clock_skew_seconds", "How far this machine's clock is ahead of the database's.", {}, self._skew())
        yield _gauge("database_up", "Whether the database answers this process.", {}, state.database_s is not None)
        yield _gauge("queue_up", "Whether the queue answers this process.", {}, state.stats is not None)
        yield _gauge("unwritable_rows", "Rows that this process tries in vain to write.", {}, self._unwritable())

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics for the registry; makes no request."""
        names = ("build_info", "clock_skew_seconds", "database_up", "queue_up", "unwritable_rows")
        return [GaugeMetricFamily(f"duetime_{name}", "") for name in names]


def _gauge(name: str, text: str, labels: dict[str, str], value: float) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"duetime_{name}", text, labels=list(labels))
    found.add_metric(list(labels.values()), value)
    return found
