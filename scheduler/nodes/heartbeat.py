"""The heartbeat of a worker process: a row with its identity and load, for display."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duetime.scheduler.errors import DuetimeError, Refused, listed
from duetime.scheduler.nodes.ipc import RunnerClient
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.records import RunHolder, WorkerProcess
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import Store
from duetime.scheduler.store.workers import DrainMode

WORKER_HEARTBEAT_INTERVAL_S = 5.0
WORKER_FORGOTTEN_AFTER = timedelta(minutes=10)
"""Age of the last heartbeat after which the row of a worker is removed."""

WORKER_ALIVE_FOR = timedelta(seconds=15)
"""Age of the last heartbeat after which a worker counts as silent."""

_MAX_NAMES_BYTES = 400
_BEATS_PER_CLEANUP = 24
"""Heartbeats between two cleanups of such rows."""

DRAIN_CHECK_INTERVAL_S = 1.0
"""Seconds between heartbeats while a worker drains and something runs."""

RUNNING, DRAINING, DRAINED, SILENT = "running", "draining", "drained", "silent"
WORKER_STATES = (RUNNING, DRAINING, DRAINED, SILENT)


def is_alive(seen_at: datetime | None, now: datetime) -> bool:
    """Whether a worker with this last heartbeat is alive."""
    return seen_at is not None and now - seen_at <= WORKER_ALIVE_FOR


def state_of(worker: WorkerProcess, now: datetime) -> str:
    """Return the state of a worker; one that was asked to drain and has not answered yet is draining."""
    if not is_alive(worker.seen_at, now):
        return SILENT
    return DRAINING if worker.drain and worker.state == RUNNING else worker.state


def any_worker_alive(store: Store) -> bool:
    """Whether any live worker, on any machine, takes runs."""
    now = store.now()
    return any(state_of(worker, now) == RUNNING for worker in store.workers.all())


def any_worker_drained(store: Store) -> bool:
    """Whether any live worker, on any machine, takes no runs because it was asked to drain."""
    now = store.now()
    return any(worker.drain and is_alive(worker.seen_at, now) for worker in store.workers.all())


def any_worker_handles(store: Store, action: str) -> bool:
    """Whether any live worker, on any machine, has a handler for an action."""
    now = store.now()
    return any(is_alive(worker.seen_at, now) and action in worker.actions for worker in store.workers.all())


def workers_without_key(store: Store) -> list[str]:
    """Return the live workers, on any machine, that do not report the key by which this process encrypts secrets.

    So the runner of an SQLite file, as `process` with its pid. One of an earlier release does not say which it has.
    """
    return [*_other_keys(store)]


def check_workers_have_key(store: Store) -> None:
    """Raise Refused while a live worker reports keys without the first: it could read no secret after a rotation.

    A worker that reports no key may be of an earlier release, or read no secret with or without a rotation.
    """
    if lacking := _with_older_keys(store):
        raise Refused(
            f"nothing was encrypted, since {_lack_key(lacking)} Put the key before the old one in DUETIME_SECRET_KEYS "
            "there, restart them, and rotate again."
        )


def words_on_keys(store: Store) -> str:
    """Say which live workers lack the first key, and which may: what is known of each; nothing where all report it."""
    lacking = _with_older_keys(store)
    unsure = [name for name in workers_without_key(store) if name not in lacking]
    if not (lacking and unsure):
        return _lack_key(lacking) if lacking else may_lack_key(unsure) if unsure else ""
    second = may_lack_key(unsure)
    return f"{_lack_key(lacking)} {second[0].upper()}{second[1:]}"


def may_lack_key(names: Sequence[str]) -> str:
    """Say of processes that report no key what that means."""
    shown = listed(names, ", ", _MAX_NAMES_BYTES)
    return (
        f"these processes do not report the first key: {shown}. "
        "Unless they are of an earlier release, their runs can read no secret."
    )


def _lack_key(names: Sequence[str]) -> str:
    shown = listed(names, ", ", _MAX_NAMES_BYTES)
    return f"these processes do not have the first key, and their runs could read no secret: {shown}."


def _with_older_keys(store: Store) -> list[str]:
    return [name for name, key_ids in _other_keys(store).items() if key_ids]


def _other_keys(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the ids of the keys of each live worker that does not report the first key of this process."""
    now, first = store.now(), store.secrets.key_ids[:1]
    alive = {worker.id: worker.key_ids for worker in store.workers.all() if is_alive(worker.seen_at, now)}
    runner = store.runners.current()
    if runner is not None and (keys := RemoteQueue(RunnerClient(store).ask).key_ids()) is not None:
        alive[f"process {runner.pid}"] = tuple(keys)
    return {name: key_ids for name, key_ids in alive.items() if not {*first} <= {*key_ids}}


@dataclass(frozen=True, slots=True)
class SilentWorkers:
    """The workers of a store whose last heartbeat is too old, and what they hold."""

    store: Store

    def holders(self, run_ids: Collection[str]) -> Mapping[str, RunHolder]:
        """Return the holders of those among these running runs whose worker is silent, by run."""
        now, found = self.store.now(), self.store.workers.holders(run_ids)
        return {run_id: holder for run_id, holder in found.items() if not is_alive(holder.seen_at, now)}

    def seen_at(self, name: str) -> datetime | None:
        """Return when a silent worker was last seen; None for any other, also for one without a heartbeat yet."""
        now = self.store.now()
        seen = (worker.seen_at for worker in self.store.workers.all() if worker.id == name)
        return next((at for at in seen if not is_alive(at, now)), None)


class Heartbeat:
    """Writes the row of one worker every 5 seconds, and removes it at the end.

    `running` counts its claimed runs, `lost_threads` the threads of handlers that did not stop. `follow` is called with
    what an operator asks of the worker, and returns whether that is new.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        threads: Callable[[], int],
        running: Callable[[], int],
        lost_threads: Callable[[], int] = lambda: 0,
        actions: Iterable[str] = (),
        follow: Callable[[DrainMode | None], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._threads = threads
        self._running = running
        self._lost_threads = lost_threads
        self._follow = follow
        self._beats = 0
        self._row = WorkerProcess(
            id=name,
            host=socket.gethostname(),
            pid=os.getpid(),
            threads=0,
            started_at=store.now(),
            actions=tuple(actions),
            key_ids=store.secrets.key_ids,
        )
        self.loop = Loop("heartbeat", self.step)

    def step(self) -> float:
        """Write the row, sometimes remove rows of dead workers, and return the seconds until the next beat."""
        if self._follow(self._send(self._state)):
            self._send(self._state)
        if self._beats % _BEATS_PER_CLEANUP == 0:
            self._store.workers.forget(self._store.now() - WORKER_FORGOTTEN_AFTER)
        self._beats += 1
        return DRAIN_CHECK_INTERVAL_S if self._state == DRAINING else WORKER_HEARTBEAT_INTERVAL_S

    @property
    def _state(self) -> str:
        if not self._row.drain:
            return RUNNING
        return DRAINING if self._running() else DRAINED

    def draining(self) -> None:
        """Report that this worker takes no more runs."""
        with suppress(DuetimeError):
            self._send(DRAINING)

    def gone(self) -> None:
        """Remove the row, as the worker has shut down."""
        with suppress(DuetimeError):
            self._store.workers.remove(self._row.id)

    def _send(self, state: str) -> DrainMode | None:
        threads, running, lost = self._threads(), self._running(), self._lost_threads()
        row = replace(self._row, state=state, threads=threads, running=running, lost_threads=lost)
        wanted = self._store.workers.beat(row)
        self._row = replace(self._row, drain=wanted)
        return wanted
