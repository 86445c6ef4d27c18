"""Measure what a schedule call costs: CPU of this process and of the server, however many tasks stand at its instant.

    python benchmarks/bench_call.py [--calls 1000] [--at 0 1000 4000] [--database all] [--peer]

Each figure is for one call of `Scheduler.schedule` by one thread. It is milliseconds of CPU of this process (`plan` is
the part that understands the request) and of PostgreSQL's processes that serve it. The last one is the median until it
returns. `at` is how many open tasks of the same owner, each with a title of its own, stand at the instant already. The
calls are for this one instant too; at 0 each call has an instant of its own. Then 200 tasks at a time
(`schedule_many`), as tasks a second. With `--peer` every call is made in turn with `add_job` of APScheduler 3 on a
database of its own: `pip install 'apscheduler>=3.11,<4'`.

Nothing waits for a disk: SQLite has synchronous=OFF, the PostgreSQL of the tests fsync=off. Read README.md next to this
file before quoting a number.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.request import Request
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from sqlalchemy import create_engine, event, make_url, text

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import services

TASKS_PER_CALL = 200
WARM_UP_COUNT = 100
PAYLOAD = {"message": "Take the pill"}


class Server:
    """The CPU time of the processes of a PostgreSQL server that serve one application; 0 without a server."""

    def __init__(self, url: str | None, application: str) -> None:
        self._engine = create_engine(url) if url else None
        self._application = application

    def seconds(self) -> float:
        if self._engine is None:
            return 0.0
        asked = text("SELECT pid FROM pg_stat_activity WHERE application_name = :name AND datname = current_database()")
        with self._engine.connect() as connection:
            pids = connection.execute(asked, {"name": self._application}).scalars().all()
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def without_waiting(raw: Any, _record: object) -> None:
    """Set the peer's SQLite as ours is in this benchmark."""
    for pragma in ("journal_mode=WAL", "synchronous=OFF"):
        raw.execute(f"PRAGMA {pragma}").close()


class Peer:
    """APScheduler 3 with its SQLAlchemy job store; it is paused, so that adding a job is all that it does."""

    def __init__(self, url: str) -> None:
        stores = import_module("apscheduler.jobstores.sqlalchemy")  # here, since only a comparison needs it
        schedulers = import_module("apscheduler.schedulers.background")
        options = {"connect_args": {"application_name": "peer"}} if url.startswith("postgresql") else {}
        engine = create_engine(url, **options)
        if not options:
            event.listen(engine, "connect", without_waiting)
        self._scheduler = schedulers.BackgroundScheduler(
            jobstores={"default": stores.SQLAlchemyJobStore(engine=engine)}
        )
        self._scheduler.start(paused=True)

    def add(self, at: datetime) -> None:
        self._scheduler.add_job(print, "date", run_date=at, args=["Take the pill"], name="Take the pill")

    def close(self) -> None:
        self._scheduler.shutdown()


class Bench:
    """One database, with a scheduler over it."""

    def __init__(self, store: Store, server: Server, peer: Peer | None, peer_server: Server) -> None:
        self._store, self._server, self._peer, self._peer_server = store, server, peer, peer_server
        self._planner = Planner(Handlers.load(entry_points=False), "UTC")
        self._scheduler = Scheduler(store, self._planner)
        self._number = 0
        self._day = 1

    def calls(self, standing: int, calls: int) -> dict[str, float]:
        """Make calls for an instant at which so many tasks stand."""
        self._day += 1
        at = store_day(self._store, self._day)
        for first in range(0, standing, TASKS_PER_CALL):
            self._scheduler.task_creator.create_many(
                [self._request(at) for _ in range(min(TASKS_PER_CALL, standing - first))]
            )
        step = timedelta(0) if standing else timedelta(seconds=1)
        figures = self._timed([at + step * n for n in range(calls)])
        return {**figures, "plan": self._planning(at, calls)}

    def _timed(self, instants: list[datetime]) -> dict[str, float]:
        cpu, peer_cpu, took, peer_took = 0, 0, list[int](), list[int]()
        requests = [self._request(at) for at in instants]
        gc.collect()
        before, peer_before = self._server.seconds(), self._peer_server.seconds()
        for request, at in zip(requests, instants, strict=True):
            cpu += timed(took, lambda request=request: self._scheduler.submit(request))  # type: ignore[misc] # bound now
            if self._peer:
                peer_cpu += timed(peer_took, lambda peer=self._peer, at=at: peer.add(at))  # type: ignore[misc] # as above
        ms = 1e3 / len(instants)
        figures = {
            "client": cpu / 1e9 * ms,
            "server": (self._server.seconds() - before) * ms,
            "p50": statistics.median(took) / 1e6,
        }
        if self._peer:
            figures |= {
                "peer client": peer_cpu / 1e9 * ms,
                "peer server": (self._peer_server.seconds() - peer_before) * ms,
                "peer p50": statistics.median(peer_took) / 1e6,
            }
        return figures

    def _planning(self, at: datetime, calls: int) -> float:
        requests, now = [self._request(at) for _ in range(calls)], self._store.now()
        began = time.thread_time()
        for request in requests:
            self._planner.plan(request, LOCAL, now)
        return (time.thread_time() - began) / calls * 1e3

    def many(self, calls: int) -> float:
        """Schedule 200 tasks a call; returns the tasks a second of the median call."""
        self._day += 1
        at, took = store_day(self._store, self._day), list[int]()
        for _ in range(calls):
            requests = [self._request(at) for _ in range(TASKS_PER_CALL)]
            timed(took, lambda requests=requests: self._scheduler.task_creator.create_many(requests))  # type: ignore[misc] # as above
        return TASKS_PER_CALL / statistics.median(took) * 1e9

    def _request(self, at: datetime) -> Request:
        self._number += 1
        return Request(
            f"Take pill {self._number}", when=at.isoformat(), payload=PAYLOAD, idempotency_key=f"key-{self._number}"
        )


def store_day(store: Store, day: int) -> datetime:
    """Return 9:00 of a day to come."""
    return (store.now() + timedelta(days=day)).replace(hour=9, minute=0, second=0, microsecond=0)


def timed(took: list[int], call: Callable[[], Any]) -> int:
    """Call, note how long that took, and return what it took of this thread's CPU; both in nanoseconds."""
    began, cpu = time.perf_counter_ns(), time.thread_time_ns()
    call()
    spent = time.thread_time_ns() - cpu
    took.append(time.perf_counter_ns() - began)
    return spent


def benches(stack: ExitStack, wanted: str, *, peer: bool) -> Iterator[tuple[str, Bench]]:
    if wanted in {"all", "sqlite"}:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        yield "sqlite", bench(stack, f"sqlite:///{folder}/bench.db", f"sqlite:///{folder}/peer.db" if peer else None)
    if wanted in {"all", "postgres"}:
        server = stack.enter_context(services.postgres_server())
        urls = [stack.enter_context(services.postgres_database(server)) for _ in range(2)]
        yield "postgres", bench(stack, urls[0], urls[1] if peer else None)


def bench(stack: ExitStack, url: str, peer_url: str | None) -> Bench:
    store = open_store(url, synchronous="OFF")
    stack.callback(store.close)
    peer = Peer(with_driver(peer_url)) if peer_url else None
    if peer:
        stack.callback(peer.close)
    watched = [with_driver(each) if each and each.startswith("postgresql") else None for each in (url, peer_url)]
    return Bench(store, Server(watched[0], "duetime"), peer, Server(watched[1], "peer"))


def with_driver(url: str) -> str:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed.render_as_string(hide_password=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--at", type=int, nargs="+", default=[0, 1000, 4000])
    parser.add_argument("--many", type=int, default=20, help="calls of schedule_many")
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    parser.add_argument("--peer", action="store_true", help="in turn with APScheduler 3")
    asked = parser.parse_args()
    with ExitStack() as stack:
        for name, each in benches(stack, asked.database, peer=asked.peer):
            each.calls(0, WARM_UP_COUNT)
            for standing in asked.at:
                figures = each.calls(standing, asked.calls)
                print(json.dumps({"database": name, "at": standing, **{n: round(v, 3) for n, v in figures.items()}}))
            print(
                json.dumps(
                    {"database": name, f"schedule_many of {TASKS_PER_CALL}, a second": round(each.many(asked.many))}
                )
            )


if __name__ == "__main__":
    main()
