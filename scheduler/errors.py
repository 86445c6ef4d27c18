"""Every error that Duetime raises on purpose, as a tree.

Messages are written for the caller who has to act on them, an agent or a person: one or two sentences that say what is
wrong, what is accepted, and a corrected example.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from duetime.scheduler.events import Event


_CALL = re.compile(r"\w+=|@")
"""How an example begins that is more than a value."""

_BARE = re.compile(r"[\[{].*|timedelta\(.*|[0-9]+(\.[0-9]+)?")
"""Values that are written without quotes."""


class DuetimeError(Exception):
    """Base of all errors that Duetime raises on purpose; `code` is stable and documented in docs/tools.md."""

    code: ClassVar[str] = "error"


class InvalidArgument(DuetimeError):
    """One argument is wrong.

    `argument` names it as the caller wrote it, `problem` says what is wrong, `accepted` what would be right, and
    `example` is a corrected value, or a whole call; the sentence shows it as it is passed.
    """

    code = "invalid_argument"

    def __init__(self, argument: str, problem: str, *, accepted: str = "", example: str = "") -> None:
        self.argument = argument
        self.problem = problem
        self.accepted = accepted
        self.example = example
        super().__init__(self.sentence())

    def sentence(self) -> str:
        parts = [f"{self.argument}: {self.problem}."]
        if self.accepted:
            parts.append(f"Accepted: {self.accepted}.")
        if self.example:
            parts.append(f"Example: {self._passed(self.example)}")
        return " ".join(parts)

    def _passed(self, example: str) -> str:
        if _CALL.match(example) or not self.argument.isidentifier():  # a part of an argument has no name to pass it by
            return example
        return f"{self.argument}={example}" if _BARE.fullmatch(example) else f"{self.argument}={example!r}"


class InvalidArguments(DuetimeError):
    """Several arguments are wrong; all are reported together, in the order of the arguments."""

    code = "invalid_argument"

    def __init__(self, problems: Sequence[InvalidArgument]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence() for problem in self.problems))


class TaskNotFound(DuetimeError):
    """No task of this tenant has the id; `closest` are the caller's own tasks whose ids are most alike (id, title)."""

    code = "not_found"

    def __init__(self, task_id: str, closest: Sequence[tuple[str, str]] = ()) -> None:
        self.task_id = task_id
        self.closest = tuple(closest)
        nearest = ", ".join(f"{found} ({title!r})" for found, title in self.closest)
        hint = f"Closest of your tasks: {nearest}." if nearest else "list_tasks shows your tasks and their ids."
        super().__init__(f"task_id: no task {task_id[:40]!r}. {hint}")


class UnreadableTask(DuetimeError):
    """The task holds something that this version does not know; it is left alone."""

    code = "unreadable"

    def __init__(self, task_id: str, problem: str) -> None:
        self.task_id = task_id
        super().__init__(
            f"task_id: {task_id} cannot be read by this version of Duetime ({problem}), so it is neither run nor "
            "changed here. A newer version has written it, or its row is damaged: upgrade this process, or restore a "
            "copy."
        )


class StaleRevision(DuetimeError):
    """The task changed since the caller read it; nothing was changed by this call.

    `changes` says what happened since, in words; `events` are the same as they are stored, of a task in `zone`.
    """

    code = "stale_revision"

    def __init__(
        self,
        task_id: str,
        given: int,
        current: int,
        changes: Sequence[str] = (),
        *,
        events: Sequence[Event] = (),
        zone: str = "UTC",
    ) -> None:
        self.task_id = task_id
        self.given = given
        self.current = current
        self.changes = tuple(changes)
        self.events = tuple(events)
        self.zone = zone
        since = f" Since then: {'; '.join(self.changes)}." if self.changes else ""
        super().__init__(
            f"revision: {task_id} is at revision {current}, not {given}; nothing was changed.{since} "
            f"Read it with get_task and repeat the call with revision={current}."
        )


class IdempotencyConflict(DuetimeError):
    """The key was used before for other content; `differences` maps each field to (first, now)."""

    code = "idempotency_conflict"

    def __init__(self, key: str, task_id: str, differences: Mapping[str, tuple[str, str]]) -> None:
        self.key = key
        self.task_id = task_id
        self.differences = dict(differences)
        shown = "; ".join(f"{name} was {first}, now {now}" for name, (first, now) in self.differences.items())
        super().__init__(
            f"idempotency_key: {key[:60]!r} already made {task_id} with other content ({shown}). "
            "Use a new key for a new task, or reschedule_task to change that one."
        )


class Refused(DuetimeError):
    """The call is well-formed, but the task's state does not allow it; the message says what is possible instead."""

    code = "refused"


class IllegalMove(DuetimeError):
    """A state change that the table in `rules.states` does not list: a defect of Duetime, never of the caller."""

    code = "illegal_move"


class SchemaTooNew(DuetimeError):
    """The database was written by a newer Duetime; this process must be upgraded, and changes nothing."""

    code = "schema_too_new"


class SchemaTooOld(DuetimeError):
    """The database needs `duetime migrate` first (a shared database is never migrated by a start)."""

    code = "schema_too_old"


class StoreUnavailable(DuetimeError):
    """The database cannot be reached or written (locked, full, read-only, down); nothing was stored."""

    code = "store_unavailable"


class InvalidSetting(DuetimeError):
    """A setting is unknown or wrong; the message names the setting, its value and what is accepted."""

    code = "invalid_setting"


class HandlerError(DuetimeError):
    """A handler is declared wrongly, or returned something that is not an outcome."""

    code = "handler_error"


class RunnerReplaced(DuetimeError):
    """Another process runs the tasks now (its epoch is newer); this one must stop starting and settling runs."""

    code = "runner_replaced"

    def __init__(self, epoch: int, newest: int) -> None:
        self.epoch = epoch
        self.newest = newest
        super().__init__(f"this process was the runner of epoch {epoch}; another took over with epoch {newest}")
