"""Admission: no message runs without a live claim. Hosting: Dramatiq's own command line runs the threads.

Dramatiq logs and swallows exceptions of a hook, and runs the actor all the same; only `SkipMessage` stops it. So every
failure in this module becomes a `SkipMessage`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from dramatiq.middleware import Middleware, SkipMessage
from dramatiq.worker import WorkerThread
from duetime.scheduler.worker.active_runs import ActiveRuns

if TYPE_CHECKING:
    from dramatiq import Broker, MessageProxy, Worker

log = logging.getLogger(__name__)


class Admission(Middleware):
    """Lets a message through once, and only while its run is claimed."""

    def __init__(self, active_runs: ActiveRuns) -> None:
        self._active_runs = active_runs

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:  # noqa: ARG002 - Dramatiq's signature
        """Raise SkipMessage unless this thread is the one to run the claim of this message."""
        try:
            held = self._active_runs.get(message.message_id)
            admitted = held is not None and held.begin()
        except Exception as error:
            raise SkipMessage(f"cannot check the claim of run {message.message_id}") from error
        if not admitted:
            raise SkipMessage(f"run {message.message_id} is not claimed by this worker, or is already running")


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

    def replace(self, lost: threading.Thread) -> None:
        """Start another thread; Dramatiq no longer waits for the lost one when it stops."""
        worker = self._worker
        started = WorkerThread(
            broker=worker.broker,
            consumers=worker.consumers,
            work_queue=worker.work_queue,
            worker_timeout=worker.worker_timeout,
        )
        worker.workers = [*(thread for thread in worker.workers if thread is not lost), started]
        started.start()

    def end_this(self) -> None:
        """End the calling thread after its current message."""
        thread = threading.current_thread()
        if isinstance(thread, WorkerThread):
            thread.stop()
