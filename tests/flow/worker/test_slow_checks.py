"""The check of a result is no part of its handler: neither its time limit nor the end of a worker undoes the run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from duetime.scheduler.handlers import Context, Handlers, WebhookOptions, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.worker.watchdog import TIME_LIMIT_GRACE_S
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import NOON, TENANT, added
from tests.flow.delivery.receiver import Answer, Server, serving
from tests.flow.waiting import PATIENCE_S, eventually

LOCAL = WebhookOptions(allow_http=True, allow_private=True, timeout=PATIENCE_S)
TIME_LIMIT_S = 2.0


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


class Checked:
    """A run that has succeeded, and whose result is being checked: the address does not answer until `answer`."""

    def __init__(self, store: Store, server: Server) -> None:
        @handler("reminder", time_limit=TIME_LIMIT_S)
        def remind(ctx: Context) -> Done:
            self.attempts.append(ctx.attempt)
            return Done("sent")

        self.at = 100.0
        self.attempts: list[int] = []
        self.answer = threading.Event()
        self.store = store
        server.answers = [Answer(write=self.write)]
        queue = MemoryQueue(lambda: NOON.timestamp() * 1000)
        options = WorkerOptions("w", threads=1)
        self.worker = Worker(store, queue, Handlers([remind], webhooks=LOCAL), options, monotonic=lambda: self.at)
        self.worker.start()
        self._record = added(store, expect={"url": server.url()})
        store.claims.make_ready(limit=1)
        queue.put([Entry(self._record.run.id, NOON.timestamp() * 1000)])
        eventually(lambda: server.received, "the address is asked")

    def write(self, _file: object) -> None:
        self.answer.wait(PATIENCE_S)

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.worker._watchdog.step()

    @property
    def run(self) -> Run:
        return self.store.tasks.get(TENANT, self._record.task.id).run


@pytest.fixture
def checked(store: Store, server: Server) -> Iterator[Checked]:
    made = Checked(store, server)
    yield made
    made.answer.set()
    made.worker.stop(timedelta(0))


def test_a_check_that_outlasts_the_time_limit_of_the_handler_repeats_nothing(checked: Checked) -> None:
    for seconds in (TIME_LIMIT_S, TIME_LIMIT_GRACE_S, TIME_LIMIT_GRACE_S):
        checked.pass_time(seconds)
    assert checked.run.state is State.RUNNING
    checked.answer.set()
    eventually(lambda: checked.run.ended_at, "the run ends")
    assert (checked.run.state, checked.run.unverified, checked.attempts) == (State.SUCCEEDED, None, [1])


def test_a_worker_that_stops_during_a_check_stores_the_success_as_unverified(checked: Checked) -> None:
    checked.worker.hurry()
    assert checked.worker.stop(timedelta(0))
    run = checked.run
    assert (run.state, run.summary, checked.attempts) == (State.SUCCEEDED, "sent", [1])
    assert run.unverified == "the worker stopped before the check had ended"
