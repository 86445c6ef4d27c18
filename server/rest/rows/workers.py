"""The worker processes of a shared installation as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

from duetime.scheduler.nodes.heartbeat import is_alive, state_of
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
    return {"schema": "duetime.workers/1", "workers": rows}


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
