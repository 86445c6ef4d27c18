"""Waits for the end of runs, of a task or of all the steps of a chain."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple, Self

from duetime.scheduler.chain.chain_view import view_of_chain
from duetime.scheduler.foresight.readers.chain_reader import tasks_of
from duetime.scheduler.foresight.task_changes import TaskChanges, Wake
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run


def run_key(run: Run) -> str:
    """Return the id of a run; of a chain, as which each generation is shown, that of its generation.

    A process of an earlier version, in a rolling upgrade, counts the generation by its number alone.
    """
    return f"{run.id}_{run.generation}_{run.number}" if is_chain_id(run.id) else run.id


class OpenRun(NamedTuple):
    """The current run of a task or chain, which has not ended, by its key, and the tasks whose changes may end it."""

    key: str
    task_ids: Sequence[str]


class RunEnds:
    """Waits until runs have ended; `changes` wakes the waiting threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changes = TaskChanges(store.history)

    def wait(self, task_id: str, seconds: float, *, by: Principal) -> None:
        """Return when the current run of a task or chain has ended, or after so many seconds. Raises TaskNotFound."""
        ends_at = time.monotonic() + seconds
        woken = threading.Event()
        with self.end_of(task_id, woken.set, by=by) as end:
            while not end.has_come():
                while not woken.is_set():
                    if (left := ends_at - time.monotonic()) <= 0:
                        return
                    if not woken.wait(min(left, LOOK_INTERVAL_S)):
                        self.changes.look()
                woken.clear()

    def end_of(self, task_id: str, wake: Wake, *, by: Principal) -> RunEnd:
        """Return the end of the run that a task or chain has now; `wake` is called whenever it may have come."""
        return RunEnd(self, task_id, wake, by=by)

    def run_to_end(self, task_id: str, *, by: Principal = LOCAL) -> OpenRun | None:
        """Return the current run of a task, None if it has ended. Raises TaskNotFound.

        A chain has ended when each of its steps has; until then it is its own run.
        """
        task_ids: Sequence[str] = (task_id,)
        if is_chain_id(task_id):
            found = self._store.chains.get(by.tenant, task_id)
            run = view_of_chain(found, self._store.now()).record.run
            task_ids = [step.record.task.id for step in found.steps]
        else:
            run = self._store.tasks.get(by.tenant, task_id).run
        return None if run.state in TERMINAL else OpenRun(run_key(run), task_ids)

    def tasks_of(self, task_id: str, *, by: Principal = LOCAL) -> Sequence[str]:
        """Return the tasks of a chain, or the one that is named itself. Raises TaskNotFound for an unknown chain."""
        return tasks_of(self._store, by.tenant, task_id)


class RunEnd:
    """The end of the run that a task or chain has now. `wake` is called, on any thread, whenever it may have come.

    A chain ends with its last step, and steps may spawn more: each look finds the tasks that have joined.
    """

    def __init__(self, ends: RunEnds, task_id: str, wake: Wake, *, by: Principal) -> None:
        self._ends = ends
        self._task_id = task_id
        self._wake = wake
        self._by = by
        self._key: str | None = None
        self._watched: set[str] = set()
        self._left_at_end = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._left_at_end.close()

    def has_come(self) -> bool:
        """Look whether the run has ended, or given way to the next. Raises TaskNotFound."""
        self._watch([self._task_id])
        while (found := self._ends.run_to_end(self._task_id, by=self._by)) and found.key == (self._key or found.key):
            self._key = found.key
            if not self._watch(found.task_ids):
                return False
        return True

    def _watch(self, task_ids: Sequence[str]) -> bool:
        """Be woken by these tasks from now on; return whether one is new, which may have changed before."""
        new = set(task_ids) - self._watched
        for each in new:
            self._left_at_end.enter_context(self._ends.changes.of(each, self._wake))
        self._watched |= new
        return bool(new)
