"""All metrics of one application, in a registry of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.queue import Stats
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.store import Store
from duetime.server.telemetry.installation import InstallationReader
from duetime.server.telemetry.kept_value import KeptValue
from duetime.server.telemetry.metrics.installation_metrics import InstallationMetrics
from duetime.server.telemetry.metrics.labels import BoundedNames, PoolNames
from duetime.server.telemetry.metrics.process_metrics import (
    CallMetrics,
    ProcessMetrics,
    RefusalMetrics,
    RequestMetrics,
    RoundTrips,
)
from duetime.server.telemetry.metrics.run_metrics import RunMetrics
from duetime.server.telemetry.observers import Observers
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from duetime.server.settings.model import Settings


class Observed(Protocol):
    """The parts of an application that metrics look at."""

    @property
    def store(self) -> Store: ...

    @property
    def handlers(self) -> Handlers: ...

    @property
    def registry(self) -> PoolRegistry: ...

    @property
    def remote_queue(self) -> RemoteQueue: ...

    @property
    def observers(self) -> Observers: ...


class Metrics:
    """Observes an application from now on, and writes what it saw as Prometheus reads it."""

    def __init__(self, app: Observed, settings: Settings, *, role: str) -> None:
        self.registry = CollectorRegistry()
        live = _Live(app)
        most = settings.metrics_actions
        pool = PoolNames(most, declared=live.pools, tenants=settings.metrics_tenants)
        action = BoundedNames(most, app.handlers)
        reader = InstallationReader(live.store, live.stats)
        self._state = state = KeptValue(RoundTrips(self.registry, reader.read))
        self.registry.register(InstallationMetrics(state, pool))
        self.registry.register(
            ProcessMetrics(state, live.skew, live.unwritable_rows, role=role, registry=self.registry)
        )
        runs = RunMetrics(self.registry, action=action, pool=pool, now=live.now)
        runs.expect(app.handlers)
        app.observers.runs.append(runs)
        refusals = RefusalMetrics(self.registry)
        app.observers.refusals.append(refusals.refused)
        app.observers.admissions.append(refusals.not_admitted)
        app.observers.calls.append(CallMetrics(self.registry, refusals.refused))
        app.observers.requests.append(RequestMetrics(self.registry))

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics in the format that `accept`, a header of a request, asks for, and its media type."""
        self._state()  # before the histograms of the time that it takes
        encode, media_type = choose_encoder(accept)
        return encode(_Undated(self.registry)), media_type


class _Live:
    """The parts of an application as it is now: a reload replaces them."""

    def __init__(self, app: Observed) -> None:
        self._app = app

    def store(self) -> Store:
        return self._app.store

    def now(self) -> datetime:
        return self._app.store.now()

    def skew(self) -> float:
        return self._app.store.skew()

    def unwritable_rows(self) -> int:
        return self._app.store.unwritable_rows()

    def stats(self) -> Stats | None:
        return self._app.remote_queue.stats()

    def pools(self) -> Collection[str]:
        return self._app.registry.known()


class _Undated(Collector):
    """Leaves out when each series was made: a third of all lines, and nothing reads them."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
