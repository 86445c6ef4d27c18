"""Threads of Dramatiq: hosting by its own command line, and threads in place of lost ones.

Dramatiq logs and swallows exceptions of a hook, and runs the actor all the same. So no hook decides what may run; the
gate does (`threads/gate.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dramatiq import Message, MessageProxy
from dramatiq.middleware import Middleware
from dramatiq.worker import WorkerThread, _WorkQueueItem
from duetime.scheduler.worker.broker import RUN_ACTOR, RUN_QUEUE

if TYPE_CHECKING:
    from dramatiq import Broker, Worker

MAX_THREAD_END_S = 1.0
"""Seconds that the threads of a stopped worker may take to end."""


class Hosting(Middleware):
    """Hooks of the worker that Dramatiq's command line makes: its number of threads, and its stop."""

    def __init__(self, boot: Callable[[int], None], shutdown: Callable[[], None]) -> None:
        self._boot = boot
        self._shutdown = shutdown

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002 - Dramatiq's signature
        self._boot(worker.worker_threads)

    def before_worker_shutdown(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002 - as above
        """Stop all loops before the threads: the grace period of running work begins now."""
        self._shutdown()


class ThreadReplacement(Middleware):
    """Starts a thread in place of a lost one, and ends a lost one that has returned."""

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002 - Dramatiq's signature
        self._worker = worker

    def replace(self, lost_thread: threading.Thread) -> None:
        """Start another thread; Dramatiq no longer waits for the lost one when it stops."""
        worker = self._worker
        started = WorkerThread(
            broker=worker.broker,
            consumers=worker.consumers,
            work_queue=worker.work_queue,
            worker_timeout=worker.worker_timeout,
        )
        worker.workers = [*(thread for thread in worker.workers if thread is not lost_thread), started]
        started.start()

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002 - as above
        """Wake the threads of a stopped worker that wait for messages, and return when they have ended.

        Threads whose handlers do not stop are left after a second.
        """
        for _ in worker.workers:
            nothing = MessageProxy(Message(RUN_QUEUE, RUN_ACTOR, (), {}, {}))
            nothing.fail()  # so that no actor is called
            worker.work_queue.put(_WorkQueueItem(0, nothing))
        ends_at = time.monotonic() + MAX_THREAD_END_S
        for thread in (*worker.workers, *worker.consumers.values()):
            thread.join(max(0.0, ends_at - time.monotonic()))

    def end_this(self) -> None:
        """End the calling thread after its current message."""
        thread = threading.current_thread()
        if isinstance(thread, WorkerThread):
            thread.stop()
