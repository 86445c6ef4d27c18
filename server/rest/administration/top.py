"""An installation at one moment, for operators: counts, waits, pools, workers and their runs, throughput, misses.

No word of it was written by a tenant but the names of actions and tenants, so reading it is in no audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from duetime.scheduler.history.worker_run import WorkerRun
from duetime.scheduler.nodes.heartbeat import is_alive, state_of
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.alerts.alert_rules import OUTCOME_WINDOW
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import State, Tier
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.resources.stats import NO_ANSWER_TEXTS, PoolUsePayload, WindowPayload, shown_pools, until_of
from duetime.server.rest.rows.workers import external_workers
from duetime.widgets.formats.rows import present
from pydantic import Field

if TYPE_CHECKING:
    from duetime.scheduler.foresight.lateness import BacklogMonitor
    from duetime.scheduler.queue import Stats
    from duetime.scheduler.queue.remote import RemoteQueue
    from duetime.scheduler.store import Store


class TopTierPayload(RestPayload):
    """A tier: its open runs by state, those of paused tasks, and how long the oldest that could start has waited."""

    tier: Tier
    states: dict[State, int]
    paused: int = 0
    oldest_seconds: float
    patience_seconds: float
    late: bool


class TopQueuePayload(RestPayload):
    """The queue: runs `leased` to workers, `parked` on a pool, and `delayed`."""

    leased: int
    parked: int
    delayed: int


class TopRunPayload(RestPayload):
    """A run that runs now."""

    run_id: str
    task_id: str
    tenant: str
    action: str
    priority: Tier
    attempt: int
    started_at: str
    seconds: float


class TopWorkerPayload(RestPayload):
    """A worker and the runs that it holds; of a process without workers of its own only these are known.

    `withheld` threads start nothing, while the machine is short of memory or CPU.
    """

    id: str
    state: str
    threads: int | None = None
    withheld: int = 0
    running: int
    runs: tuple[TopRunPayload, ...]


class OutcomesPayload(RestPayload):
    """Attempts and ends of runs of the last `seconds`: of `deadlines` that ended, `missed` were not met in time."""

    seconds: float
    started: int
    retried: int
    failed: int
    deadlines: int
    missed: int


class TopPayload(RestPayload):
    """The installation at one moment. Without an answer of the queue `silent` says why, and pools are unknown."""

    schema_: Annotated[Literal["duetime.top/1"], Field(alias="schema")] = "duetime.top/1"
    now: str
    tiers: tuple[TopTierPayload, ...]
    queue: TopQueuePayload | None = None
    silent: str | None = None
    pools: dict[str, PoolUsePayload]
    workers: tuple[TopWorkerPayload, ...]
    throughput: tuple[WindowPayload, ...]
    outcomes: OutcomesPayload


def top(call: RestCall) -> RestAnswer:
    """Return the installation as it is now."""
    parts = call.parts
    return RestAnswer(TopPayload.model_validate(top_json(parts.store, parts.remote_queue, parts.backlog)))


def top_json(store: Store, queue: RemoteQueue, backlog: BacklogMonitor) -> dict[str, Any]:
    """Return the installation as it is now; where no process answers for the queue, without that."""
    now, stats = store.now(), queue.stats()
    report, outcomes = backlog.report(), store.backlog.recent_outcomes(now, OUTCOME_WINDOW)
    counts = {"started": outcomes.started, "retried": outcomes.retried, "failed": outcomes.dead_letters}
    judged = {"deadlines": outcomes.deadlines, "missed": outcomes.missed}
    return {
        "schema": "duetime.top/1",
        "now": utc(now),
        "tiers": _tiers(report.tiers, store.backlog.open_runs(), store.backlog.paused_runs()),
        **_of_queue(stats, "" if stats else NO_ANSWER_TEXTS[queue.silence()]),
        "workers": [_with_load(each, stats) for each in _workers(store, now)],
        "throughput": [
            {"seconds": each.window.total_seconds(), "ready": each.ready, "started": each.started, "ended": each.ended}
            for each in report.throughput
        ],
        "outcomes": {"seconds": OUTCOME_WINDOW.total_seconds(), **counts, **judged},
    }


def _tiers(
    lateness: Iterable[Any], open_runs: Mapping[tuple[State, Tier], int], paused: Mapping[Tier, int]
) -> list[dict[str, Any]]:
    return [
        {
            "tier": late.tier.value,
            "states": {state.value: count for (state, tier), count in open_runs.items() if tier is late.tier},
            "paused": paused.get(late.tier, 0),
            "oldest_seconds": late.oldest.total_seconds(),
            "patience_seconds": late.patience.total_seconds(),
            "late": late.is_late,
        }
        for late in lateness
    ]


def _of_queue(stats: Stats | None, silent: str) -> dict[str, Any]:
    if stats is None:
        return {"silent": silent, "pools": {}}
    pools = {
        name: present({**asdict(use), "until": utc(until) if (until := until_of(use)) else None})
        for name, use in shown_pools(stats)
    }
    queue = {"leased": stats.leased, "parked": stats.parked, "delayed": stats.delayed}
    return {"queue": queue, "pools": pools}


def _workers(store: Store, now: datetime) -> list[dict[str, Any]]:
    """Return the workers, each with its runs; a process that runs tasks without reporting is known by its runs.

    Workers elsewhere come last.
    """
    by_worker: dict[str, list[dict[str, Any]]] = {}
    for run in store.workers.runs():
        by_worker.setdefault(run.worker, []).append(_run(run, now))
    rows = []
    for worker in store.workers.all():
        own = by_worker.pop(worker.id, [])
        running = worker.running if is_alive(worker.seen_at, now) else len(own)
        rows.append(
            {
                "id": worker.id,
                "state": state_of(worker, now),
                "threads": worker.threads,
                "running": running,
                "runs": own,
            }
        )
    elsewhere = [
        {"id": each["id"], "state": each["state"], "running": len(own), "runs": own}
        for each in external_workers(store, now)
        for own in [by_worker.pop(str(each["id"]), [])]
    ]
    unreported = [{"id": each, "state": "running", "running": len(own), "runs": own} for each, own in by_worker.items()]
    return [*rows, *unreported, *elsewhere]


def _with_load(worker: Mapping[str, Any], stats: Stats | None) -> dict[str, Any]:
    known = stats.threads.get(worker["id"]) if stats else None
    return {**worker, "withheld": known.withheld if known else 0}


def _run(run: WorkerRun, now: datetime) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "task_id": run.task_id,
        "tenant": run.tenant,
        "action": run.action,
        "priority": run.tier.value,
        "attempt": run.attempt,
        "started_at": utc(run.started_at),
        "seconds": max((now - run.started_at).total_seconds(), 0.0),
    }


OF_TOP = (
    Operation(
        "get_top",
        "GET",
        "/top",
        "Show the installation at this moment: counts, waits, pools, workers and their runs, throughput, misses",
        top,
        TopPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
)
