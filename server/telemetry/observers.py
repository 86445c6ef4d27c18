"""Observers of what happens in one process: logs, metrics and traces connect here, before the process starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from duetime.scheduler.runtime.notifier import NoticeObserver, RunNotifier, Subscriber
from duetime.server.telemetry.notice_log import log_notice
from duetime.server.telemetry.run_log import log_runs

if TYPE_CHECKING:
    from duetime.scheduler.quotas import Quota
    from duetime.tools.definition import CallObserver  # with MCP, which a program that only schedules does not load


@dataclass(frozen=True, slots=True)
class Observers:
    """Quick functions: `runs` get the events of runs (see `RunNotifier`), `calls` each answered call of a tool.

    `notices` get what a process reports of its own work. `requests` get each answered request of the REST API.
    `refusals` get the code of each one that was refused, and of each call over MCP that was refused before its tool
    read it. `admissions` get the quota that refused tasks, whoever scheduled them.
    """

    runs: list[Subscriber] = field(default_factory=lambda: [log_runs])
    notices: list[NoticeObserver] = field(default_factory=lambda: [log_notice])
    calls: list[CallObserver] = field(default_factory=list)
    requests: list[CallObserver] = field(default_factory=list)
    refusals: list[Callable[[str], None]] = field(default_factory=list)
    admissions: list[Callable[[Quota], None]] = field(default_factory=list)

    def attached(self, notifier: RunNotifier) -> RunNotifier:
        """Return a notifier that notifies these of events and notices as well."""
        return replace(notifier, subscribers=self.runs, observers=self.notices)

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Notify of the outcome of a call."""
        for observe in self.calls:
            observe(tool, outcome, seconds)

    def answered(self, operation: str, outcome: str, seconds: float) -> None:
        """Notify of the outcome of a request."""
        for observe in self.requests:
            observe(operation, outcome, seconds)

    def refused(self, code: str) -> None:
        """Notify of a request that was refused."""
        for observe in self.refusals:
            observe(code)

    def not_admitted(self, quota: Quota) -> None:
        """Notify of tasks that a quota refused."""
        for observe in self.admissions:
            observe(quota)

    def take_over(self, others: Observers) -> None:
        """Notify those that another application notified until now."""
        self.runs[:], self.notices[:], self.calls[:] = others.runs, others.notices, others.calls
        self.requests[:] = others.requests
        self.refusals[:], self.admissions[:] = others.refusals, others.admissions
