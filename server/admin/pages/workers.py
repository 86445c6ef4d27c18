"""Workers: the processes that run tasks, when each reported last, and what it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.nodes.heartbeat import is_alive
from duetime.scheduler.queue import ThreadUse
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.task import State
from duetime.server.admin.answers import Page, get
from duetime.server.admin.visit import Visit

MAX_RUNS_SHOWN = 500
SILENT = "silent"


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker with its state, the use of its threads as the queue knows it, and what it runs."""

    name: str
    state: str
    process: WorkerProcess | None
    threads: ThreadUse | None
    runs: Sequence[RunSummary]


def workers(visit: Visit) -> Page:
    """List the workers of a shared installation, or the threads of the process that runs tasks here."""
    running = visit.store.run_history.page(None, RunFilter(states=(State.RUNNING,)), limit=MAX_RUNS_SHOWN)
    stats = visit.app.remote_queue.stats()
    found = _lines(visit, running.runs, stats.threads if stats is not None else {})
    values = {"lines": found, "more": running.cursor is not None, "shared": visit.app.settings.distributed}
    return Page("workers.html", "Workers", {**values, "live": True})


def _lines(visit: Visit, runs: Sequence[RunSummary], threads: Mapping[str, ThreadUse]) -> list[WorkerLine]:
    known = {each.id: each for each in visit.store.workers.all()}
    names = [*known, *sorted({*threads, *(run.worker for run in runs if run.worker)} - known.keys())]
    return [
        WorkerLine(
            name,
            _state(visit, known.get(name), threads.get(name)),
            known.get(name),
            threads.get(name),
            [run for run in runs if run.worker == name],
        )
        for name in names
    ]


def _state(visit: Visit, process: WorkerProcess | None, threads: ThreadUse | None) -> str:
    if process is None:
        return "running" if threads is not None else SILENT
    return process.state if is_alive(process.seen_at, visit.now) else SILENT


ROUTES = (get("/workers", workers, operators=True),)
