"""A thread of the worker survives whatever fails around a handler, and the run that it had ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, Clock, added
from tests.flow.waiting import eventually


@handler("reminder")
def remind(_ctx: Context) -> Done:
    return Done("sent")


class Fragile:
    """A worker of one thread; `fail` is called before each handler, between claim and result."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.fail: Callable[[], None] = lambda: None
        self.store, self.queue = store, MemoryQueue(lambda: clock().timestamp() * 1000)
        options = WorkerOptions("w", threads=1, reached=self.reached)
        self.worker = Worker(store, self.queue, Handlers([remind]), options)
        self.worker.start()

    def reached(self, channels: Sequence[str]) -> tuple[str, ...]:
        self.fail()
        return tuple(channels)

    def reaches(self, record: TaskRecord, state: State) -> None:
        def there() -> bool:
            Dispatcher(self.store, self.queue).step()
            return self.store.tasks.get(TENANT, record.task.id).run.state is state

        eventually(there, f"the run is {state}")


@pytest.fixture
def fragile(store: Store, clock: Clock) -> Iterator[Fragile]:
    made = Fragile(store, clock)
    yield made
    made.worker.stop(timedelta(0))


def raises_once(error: BaseException) -> Callable[[], None]:
    errors = [error]

    def fail() -> None:
        if errors:
            raise errors.pop()

    return fail


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_step_before_the_handler_that_fails_ends_the_attempt_and_the_thread_goes_on(
    fragile: Fragile, kind: type[BaseException]
) -> None:
    fragile.fail = raises_once(kind("no channels"))
    first = added(fragile.store, deliver_to=("desktop",))
    fragile.reaches(first, State.RETRYING)
    attempt = fragile.store.history.attempts(TENANT, first.task.id)[0]
    assert attempt.reason == f"{kind.__name__}: no channels"
    fragile.reaches(added(fragile.store, deliver_to=("desktop",)), State.SUCCEEDED)


def test_a_thread_that_fails_outside_every_step_ends_its_run_and_goes_on(
    fragile: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail, began = raises_once(SystemExit("no thread")), fragile.worker._preemption.began

    def failing(held: ActiveRun) -> None:
        fail()
        began(held)

    monkeypatch.setattr(fragile.worker._preemption, "began", failing)
    first = added(fragile.store)
    fragile.reaches(first, State.RETRYING)
    assert fragile.store.history.attempts(TENANT, first.task.id)[0].reason == "SystemExit: no thread"
    fragile.reaches(added(fragile.store), State.SUCCEEDED)
    assert fragile.worker.lost_threads == 0
