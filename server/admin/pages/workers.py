"""Workers: the processes that run tasks, when each reported last, and what it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.foresight.reasons.processes import Claimers
from duetime.scheduler.history.runs import RunFilter, RunSummary
from duetime.scheduler.nodes.heartbeat import RUNNING, SILENT, state_of
from duetime.scheduler.queue import ThreadUse
from duetime.scheduler.records import ExternalWorker, WorkerProcess, is_external_worker
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import State
from duetime.server.admin.answers import Answer, Moved, Page, get, post
from duetime.server.admin.export import ExportRow, exported, wanted_format
from duetime.server.admin.page_request import Visit

MAX_SHOWN_RUNS = 500
MAX_DRAIN_REASON_CHARS = 500
WORKER_COLUMNS = (
    *("worker", "host", "process", "state", "threads", "busy", "gave_way", "lost", "withheld", "runs", "reported"),
)


@dataclass(frozen=True, slots=True)
class WorkerLine:
    """A worker with its state, the use of its threads as the queue reports it, and what it runs."""

    name: str
    state: str
    process: WorkerProcess | None
    threads: ThreadUse | None
    runs: Sequence[RunSummary]

    @property
    def silent(self) -> bool:
        return self.state == SILENT

    @property
    def total(self) -> int | None:
        """The number of its threads."""
        return self.threads.total if self.threads else self.process.threads if self.process else None

    @property
    def busy(self) -> int:
        return self.threads.busy if self.threads else len(self.runs)

    @property
    def preempted(self) -> int | None:
        return self.threads.preempted if self.threads else None

    @property
    def lost(self) -> int | None:
        """The number of threads that did not stop at their time limit."""
        return self.threads.lost if self.threads else self.process.lost_threads if self.process else None

    @property
    def withheld(self) -> int | None:
        """The number of idle threads that start nothing, while the machine is short of memory or CPU."""
        return self.threads.withheld if self.threads else None


@dataclass(frozen=True, slots=True)
class ExternalLine:
    """A worker elsewhere with what it holds, of the runs that are `running`."""

    worker: ExternalWorker
    running: Sequence[RunSummary]
    now: datetime

    @property
    def state(self) -> str:
        return SILENT if Claimers(self.worker.seen_at).are_silent(self.now) else RUNNING

    @property
    def runs(self) -> Sequence[RunSummary]:
        return [run for run in self.running if run.worker == self.worker.name]


def workers(visit: Visit) -> Answer:
    """List the workers of a shared installation, or the threads of the process that runs tasks here; or send them."""
    running = visit.store.run_history.page(None, RunFilter(states=(State.RUNNING,)), limit=MAX_SHOWN_RUNS)
    stats = visit.app.remote_queue.stats()
    here = [run for run in running.runs if not is_external_worker(run.worker)]
    found = _lines(visit, here, stats.threads if stats is not None else {})
    if file_format := wanted_format(visit):
        return exported(file_format, "workers", WORKER_COLUMNS, [_row(line) for line in found])
    external = [ExternalLine(each, running.runs, visit.now) for each in visit.store.external_workers.all()]
    values = {
        "lines": found,
        "external": external,
        "more": running.cursor is not None,
        "shared": visit.app.settings.distributed,
    }
    return Page("pages/workers.html", "Workers", {**values, "live": True})


def _row(line: WorkerLine) -> ExportRow:
    process = line.process
    return {
        "worker": line.name,
        "host": process.host if process else None,
        "process": process.pid if process else None,
        "state": line.state,
        "threads": line.total,
        "busy": line.busy,
        "gave_way": line.preempted,
        "lost": line.lost,
        "withheld": line.withheld,
        "runs": [run.id for run in line.runs],
        "reported": process.seen_at if process else None,
    }


def _lines(visit: Visit, runs: Sequence[RunSummary], threads: Mapping[str, ThreadUse]) -> list[WorkerLine]:
    known = {each.id: each for each in visit.store.workers.all()}
    names = [*known, *sorted({*threads, *(run.worker for run in runs if run.worker)} - known.keys())]
    found = [
        WorkerLine(
            name,
            _state(visit, known.get(name), threads.get(name)),
            known.get(name),
            threads.get(name),
            [run for run in runs if run.worker == name],
        )
        for name in names
    ]
    return sorted(found, key=lambda line: line.silent)  # what can be drained stands first


def _state(visit: Visit, process: WorkerProcess | None, threads: ThreadUse | None) -> str:
    if process is None:
        return RUNNING if threads is not None else SILENT
    return state_of(process, visit.now)


def drain(visit: Visit) -> Moved:
    """Let a worker take no more runs."""
    name, mode = visit.parts["name"], DrainMode.NOW if visit.form.get("now") else DrainMode.FINISH
    act = AuditEntry.by(visit.principal, AuditKind.WORKER_DRAINED, reason=_reason(visit), detail={"mode": mode.value})
    visit.store.workers.drain(name, mode, act)
    return Moved(visit.url("/workers"), f"{name} drains: it takes no more runs.")


def resume(visit: Visit) -> Moved:
    """Let a drained worker take runs again."""
    name = visit.parts["name"]
    visit.store.workers.resume(name, AuditEntry.by(visit.principal, AuditKind.WORKER_RESUMED, reason=_reason(visit)))
    return Moved(visit.url("/workers"), f"{name} takes runs again.")


def _reason(visit: Visit) -> str | None:
    return visit.form.get("reason", "").strip()[:MAX_DRAIN_REASON_CHARS] or None


WORKER_ROUTES = (
    get("/workers", workers, operators=True, query={"format"}),
    post("/workers/{name}/drain", drain, operators=True),
    post("/workers/{name}/resume", resume, operators=True),
)
