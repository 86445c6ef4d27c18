"""The worker processes of a shared installation as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

from duetime.scheduler.foresight.reasons.processes import Claimers
from duetime.scheduler.nodes.heartbeat import RUNNING, SILENT, is_alive, state_of
from duetime.scheduler.queue import Stats, ThreadUse
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present

NOT_SHARED_TEXT: Final = (
    "drain is for shared installations, with PostgreSQL and Redis. Here one process runs the tasks: "
    "stop `duetime serve`, or pause tasks with `duetime reschedule ID --pause`."
)


def workers_json(store: Store, stats: Stats | None = None) -> dict[str, Json]:
    """Return the workers, as each reported itself; withheld threads are known of those that `stats` have."""
    now, left = store.now(), store.workers.active_runs()
    threads = stats.threads if stats else {}
    rows: list[Json] = [_worker(each, left, threads.get(each.id), now) for each in store.workers.all()]
    external: list[Json] = [*external_workers(store, now)]
    return {"schema": "duetime.workers/1", "workers": rows, "external": external}


def external_workers(store: Store, now: datetime) -> Iterator[dict[str, Json]]:
    """Yield the workers elsewhere, each with what it holds; one that has not called for a while is silent."""
    held = defaultdict[str, list[Json]](list)
    known = store.external_workers.all()
    for run in store.workers.runs() if known else ():
        held[run.worker].append(run.run_id)
    for each in known:
        row: dict[str, Json] = {
            "id": each.name,
            "tenant": each.tenant,
            "user": each.user,
            "client": each.client,
            "all_tenants": each.everywhere,
            "state": SILENT if Claimers(each.seen_at).are_silent(now) else RUNNING,
            "actions": list(each.actions),
            "running": len(held[each.name]),
            "runs": held[each.name],
            "started_at": utc(each.started_at),
            "seen_at": utc(each.seen_at),
        }
        yield present(row)


def _worker(
    worker: WorkerProcess, left: Mapping[str, int], threads: ThreadUse | None, now: datetime
) -> dict[str, Json]:
    """Return a worker; what one said before it fell silent is long untrue, so its runs are counted.

    The keys that it has are for rotations alone.
    """
    running = worker.running if is_alive(worker.seen_at, now) else left.get(worker.id, 0)
    seen = {"started_at": utc(worker.started_at), "seen_at": utc(worker.seen_at or worker.started_at)}
    known = {**asdict(worker), **seen, "state": state_of(worker, now), "running": running}
    withheld = threads.withheld if threads else None
    return present({**known, "actions": list(worker.actions), "withheld": withheld, "key_ids": None})
