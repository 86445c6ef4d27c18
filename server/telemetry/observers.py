"""Observers of what happens in one process: logs, metrics and traces connect here, before the process starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duetime.scheduler.runtime.notifier import Subscriber
from duetime.server.telemetry.run_log import log_runs

if TYPE_CHECKING:
    from duetime.tools.definition import CallObserver  # with MCP, which a program that only schedules does not load


@dataclass(frozen=True, slots=True)
class Observers:
    """Quick functions: `runs` get the events of runs (see `RunNotifier`), `calls` each answered call of a tool.

    `requests` get each answered request of the REST API.
    """

    runs: list[Subscriber] = field(default_factory=lambda: [log_runs])
    calls: list[CallObserver] = field(default_factory=list)
    requests: list[CallObserver] = field(default_factory=list)

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Notify of the outcome of a call."""
        for observe in self.calls:
            observe(tool, outcome, seconds)

    def answered(self, operation: str, outcome: str, seconds: float) -> None:
        """Notify of the outcome of a request."""
        for observe in self.requests:
            observe(operation, outcome, seconds)

    def take_over(self, others: Observers) -> None:
        """Notify those that another application notified until now."""
        self.runs[:], self.calls[:], self.requests[:] = others.runs, others.calls, others.requests
