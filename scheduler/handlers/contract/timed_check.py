"""A preflight outside of a run: on a thread of its own, so that one that hangs blocks no caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Final

from duetime.scheduler.handlers.context import Context, Link
from duetime.scheduler.handlers.contract.preflight import preflight_wait
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.runtime.secret_mask import learn_secret, secrets_masked
from duetime.scheduler.task import Run, Task

MAX_CHECKS_AT_ONCE: Final = 8
WORKER: Final = "scheduled"
"""The worker in the context of a check: there is none yet."""


@dataclass(slots=True)
class CheckAnswer:
    """The answer of a check; without a wait nothing is missing."""

    wait: Wait | None = None
    given: threading.Event = field(default_factory=threading.Event)


class TimedChecks:
    """Checks what runs miss before they are due; only so many checks hang at once.

    `secret` returns the value of a secret by tenant, name and host, as `Context.secret` promises it.
    """

    def __init__(self, now: Callable[[], datetime], secret: Callable[[str, str, str | None], str]) -> None:
        self._now = now
        self._secret = secret
        self._slots = threading.BoundedSemaphore(MAX_CHECKS_AT_ONCE)

    def look(self, handler: Handler, task: Task, run: Run, *, now: datetime, ends_at: float) -> CheckAnswer | None:
        """Return what a check says until a moment of `monotonic`; None for one that does not answer."""
        if monotonic() >= ends_at or not self._slots.acquire(blocking=False):
            return None
        answer, context = CheckAnswer(), Context.of(task, run, worker=WORKER, link=self._link(task))

        def check() -> None:
            try:
                with secrets_masked():
                    answer.wait = preflight_wait(handler, context, task.payload, now)
                answer.given.set()
            finally:
                self._slots.release()

        threading.Thread(target=copy_context().run, args=(check,), name="duetime-preflight", daemon=True).start()
        return answer if answer.given.wait(max(0.0, ends_at - monotonic())) else None

    def _link(self, task: Task) -> Link:
        return Link(now=self._now, secret=lambda name, host: learn_secret(self._secret(task.tenant, name, host)))
