"""Handles of waits for the end of a run: all that is needed to continue one, in any process and after a restart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.intake.validation import wait_seconds
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.task import Json
from duetime.scheduler.views import TaskView
from duetime.tools.get_task import GET_TASK, GetTask

if TYPE_CHECKING:
    from duetime.scheduler.service.scheduler import Scheduler

_TEXT: Final = re.compile(r"([tc]_\w{1,40})\.(\w{1,90})\.(\d{1,13})\.(\d{1,6})\.(h?)(k?)", re.ASCII)
_MS: Final = timedelta(milliseconds=1)
_ARGUMENTS: Final = GET_TASK.read()


@dataclass(frozen=True, slots=True)
class WaitHandle:
    """A call of `get_task` that waits for the end of a run, from `since` until `until` at most.

    It gives nobody a right: a caller who shows one has to have the right to read the task.
    """

    call: GetTask
    run: str
    since: datetime
    until: datetime

    @classmethod
    def of_call(cls, given: Mapping[str, Json], scheduler: Scheduler, by: Principal) -> tuple[Self, TaskView] | None:
        """Return the handle of a call that has to wait, and the task as it is; None for any other or wrong call."""
        values, problems = _ARGUMENTS.read(given)
        if problems or values.get("wait") is None:
            return None
        call = GetTask(**values)
        try:
            length = timedelta(seconds=wait_seconds(values["wait"]))
            view = scheduler.get(call.task_id, by=by)
        except DuetimeError:  # the tool itself says what is wrong
            return None
        if view.record.run.state in TERMINAL:
            return None
        return cls(call, _key_of(view), view.now, view.now + length), view

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """Return the handle that `text` is, None where it is none."""
        found = _TEXT.fullmatch(text)
        if found is None:
            return None
        task_id, run, began, length, history, keep_unread = found.groups()
        since = EPOCH + int(began) * _MS
        call = GetTask(task_id=task_id, history=bool(history), keep_unread=bool(keep_unread))
        return cls(call, run, since, since + int(length) * _MS)

    @property
    def text(self) -> str:
        flags = "h" * self.call.history + "k" * self.call.keep_unread
        began, length = (self.since - EPOCH) // _MS, (self.until - self.since) // _MS
        return f"{self.call.task_id}.{self.run}.{began}.{length}.{flags}"

    def is_over(self, view: TaskView) -> bool:
        """Whether the run has ended, or the time of the wait."""
        is_other = _key_of(view) != self.run
        return is_other or view.record.run.state in TERMINAL or view.now >= self.until


def _key_of(view: TaskView) -> str:
    from duetime.scheduler.foresight.readers.run_ends import run_key  # noqa: PLC0415 - with the store, loaded later

    return run_key(view.record.run)
