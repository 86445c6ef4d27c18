"""Waits for the end of runs, of a task or of all the steps of a chain."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

from duetime.scheduler.foresight.readers.chain_reader import ChainReader, tasks_of
from duetime.scheduler.foresight.task_changes import TaskChanges
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S
from duetime.scheduler.store import Store


class RunEnds:
    """Waits until runs have ended; `changes` wakes the waiting threads."""

    def __init__(self, store: Store, chains: ChainReader) -> None:
        self._store = store
        self._chains = chains
        self.changes = TaskChanges(store.history)

    def wait(self, task_id: str, seconds: float, *, by: Principal) -> None:
        """Return when the current run of a task or chain has ended, or after so many seconds. Raises TaskNotFound."""
        ends_at = time.monotonic() + seconds
        woken = threading.Event()
        with ExitStack() as watched:
            for each in self.tasks_of(task_id, by=by):
                watched.enter_context(self.changes.of(each, woken.set))
            run_id = self.run_to_end(task_id, by=by)
            while run_id and (left := ends_at - time.monotonic()) > 0:
                if not woken.wait(min(left, LOOK_INTERVAL_S)):
                    self.changes.look()
                if woken.is_set():
                    woken.clear()
                    run_id = run_id if self.run_to_end(task_id, by=by) == run_id else None

    def run_to_end(self, task_id: str, *, by: Principal = LOCAL) -> str | None:
        """Return the id of the current run of a task, None if it has ended. Raises TaskNotFound.

        A chain has ended when each of its steps has; until then it is its own run.
        """
        chain = self._chains.get(task_id, by=by) if is_chain_id(task_id) else None
        run = chain.record.run if chain else self._store.tasks.get(by.tenant, task_id).run
        return None if run.state in TERMINAL else run.id

    def tasks_of(self, task_id: str, *, by: Principal = LOCAL) -> Sequence[str]:
        """Return the tasks of a chain, or the one that is named itself. Raises TaskNotFound for an unknown chain."""
        return tasks_of(self._store, by.tenant, task_id)
