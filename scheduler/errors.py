"""Every error that Duetime raises on purpose, as a tree.

Messages are written for the caller who has to act on them, an agent or a person. One or two sentences say what is wrong
and what is accepted, and show a corrected example. Or a remedy comes as data, which each front end says in its own
syntax. Whatever was sent and whoever says it, a message has at most `MAX_REFUSAL_BYTES`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from duetime.scheduler.remedies import (
    PLAIN_WORDS,
    Cancel,
    ErrorWords,
    ListAll,
    Remedy,
    RepeatAtRevision,
    UseNewKey,
)

_CALL = re.compile(r"[a-z_]+(\.[\w.-]+)?=|[a-z]+(_tasks?|\.submit)\(|@|duetime ")
"""The beginning of an example that is more than a value."""

_IN_REQUESTS = re.compile(r"^requests\[\d+\]\.")
_BARE = re.compile(r"[\[{].*|timedelta\(.*|[0-9]+(\.[0-9]+)?")
"""Values that are written without quotes."""

MAX_REFUSAL_BYTES = 1024
"""A message is read by a model, whose context it fills; as UTF-8."""

MAX_PROBLEMS = 12
"""Problems that one message lists. After them it counts the rest."""

_MAX_PLACE_BYTES = 120
_MAX_PROBLEM_BYTES = 320
_MAX_LISTED_BYTES = 400
"""Of a list inside a sentence, which has to end with what to do."""

_MAX_TITLE_BYTES = 80
_MAX_REMEDY_BYTES = 300
_MAX_MORE_BYTES = 32
"""Of "and 1234 more" with what separates it."""

_DETAIL_BYTES = ((560, 240), (200, 120), (0, 120), (0, 0))
"""Longest texts of `accepted` and of its example: the first pair with which all problems fit is taken."""

_EITHER = " or "
"""Stands between the values of an example, one for each thing that could be meant."""

_ELLIPSIS = "…"


def cut_to_bytes(text: str, limit: int) -> str:
    """Return `text` in at most `limit` bytes of UTF-8, cut behind a whole character; a lone surrogate becomes `?`."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len(_ELLIPSIS.encode())].decode("utf-8", "ignore").rstrip() + _ELLIPSIS


def listed(parts: Sequence[str], separator: str, limit: int) -> str:
    """Join as many whole parts as may be and fit into `limit` bytes; "and N more" stands for the rest."""
    kept = [cut_to_bytes(part, limit - _MAX_MORE_BYTES) for part in parts[:MAX_PROBLEMS]]
    text = _with_more(kept, len(parts), separator)
    while len(text.encode()) > limit:
        kept.pop()
        text = _with_more(kept, len(parts), separator)
    return text


def _with_more(kept: Sequence[str], count: int, separator: str) -> str:
    more = [f"and {count - len(kept)} more"] if count > len(kept) else []
    return separator.join([*kept, *more])


class DuetimeError(Exception):
    """Base of all errors that Duetime raises on purpose; `code` is stable and documented in docs/tools.md."""

    code: ClassVar[str] = "error"
    max_bytes: ClassVar[int] = MAX_REFUSAL_BYTES

    def __init__(self, message: str = "", *, argument: str = "", remedy: Remedy | None = None) -> None:
        self.message = message
        self.argument = argument
        self.remedy = remedy
        super().__init__(self.text_in(PLAIN_WORDS))

    def text_in(self, words: ErrorWords) -> str:
        """Say it in the words of a front end: the argument that it is about, the message, the remedy."""
        place = f"{words.argument(self.argument)}: " if self.argument else ""
        remedy = f" {cut_to_bytes(words.remedy(self.remedy), _MAX_REMEDY_BYTES)}" if self.remedy else ""
        return cut_to_bytes(f"{place}{self.message}", self.max_bytes - len(remedy.encode())) + remedy


class InvalidArgument(DuetimeError):
    """One argument is wrong.

    `argument` names it as the caller wrote it, `problem` says what is wrong, and `accepted` what would be right.
    `example` is a corrected value or a whole call; the sentence shows it as it is passed.
    """

    code = "invalid_argument"

    def __init__(self, argument: str, problem: str, *, accepted: str = "", example: str = "") -> None:
        self.problem = problem
        self.accepted = accepted
        self.example = example
        super().__init__(problem, argument=argument)

    def at(self, place: str) -> InvalidArgument:
        """Return the same problem, of an argument of the object at a place."""
        return InvalidArgument(f"{place}.{self.argument}", self.problem, accepted=self.accepted, example=self.example)

    def text_in(self, words: ErrorWords) -> str:
        return _joined([self], words)

    def sentence(self, words: ErrorWords, accepted_bytes: int, example_bytes: int) -> str:
        """Say it with what is accepted, cut, and with the example, which is left out where it is longer."""
        place = cut_to_bytes(words.argument(self.argument), _MAX_PLACE_BYTES)
        parts = [f"{place}: {cut_to_bytes(self.problem, _MAX_PROBLEM_BYTES)}."]
        if self.accepted and accepted_bytes:
            parts.append(f"Accepted: {cut_to_bytes(self.accepted, accepted_bytes)}.")
        example = words.example(self.as_passed(self.example), self.argument) if self.example else ""
        if example and len(example.encode("utf-8", "replace")) <= example_bytes:
            parts.append(f"Example: {cut_to_bytes(example, example_bytes)}")
        return " ".join(parts)

    def as_passed(self, example: str) -> str:
        name = _IN_REQUESTS.sub("", self.argument)
        if _CALL.match(example) or not name.isidentifier():  # a part of an argument has no name to pass it by
            return example
        named = (f"{name}={one}" if _BARE.fullmatch(one) else f"{name}={one!r}" for one in example.split(_EITHER))
        return _EITHER.join(named)


class InvalidArguments(DuetimeError):
    """Several arguments are wrong; all are reported together, in the order of the arguments."""

    code = "invalid_argument"

    def __init__(self, problems: Sequence[InvalidArgument]) -> None:
        self.problems = tuple(problems)
        super().__init__()

    def text_in(self, words: ErrorWords) -> str:
        return _joined(self.problems, words)


def _joined(problems: Sequence[InvalidArgument], words: ErrorWords) -> str:
    """Describe the first problems with as much detail as has room for all of them, then count the others."""
    first = problems[:MAX_PROBLEMS]
    for accepted_bytes, example_bytes in _DETAIL_BYTES:
        sentences = [problem.sentence(words, accepted_bytes, example_bytes) for problem in first]
        text = _with_more(sentences, len(problems), "\n")
        if len(text.encode()) <= MAX_REFUSAL_BYTES:
            return text
    return listed([problem.sentence(words, 0, 0) for problem in problems], "\n", MAX_REFUSAL_BYTES)


class TaskNotFound(DuetimeError):
    """No task of this tenant has the id; `closest` are the caller's own tasks whose ids are most alike (id, title)."""

    code = "not_found"

    def __init__(self, task_id: str, closest: Sequence[tuple[str, str]] = (), *, argument: str = "task_id") -> None:
        self.task_id = task_id
        self.closest = tuple(closest)
        nearest = ", ".join(f"{found} ({cut_to_bytes(title, _MAX_TITLE_BYTES)!r})" for found, title in self.closest)
        hint = f" Closest of your tasks: {nearest}." if nearest else ""
        remedy = None if nearest else ListAll()
        super().__init__(f"no task {task_id[:40]!r}.{hint}", argument=argument, remedy=remedy)


class UnreadableTask(DuetimeError):
    """The task is damaged, or a newer version wrote it: it can be read and cancelled, and nothing else."""

    code = "unreadable"

    def __init__(self, task_id: str, damage: Sequence[str]) -> None:
        self.task_id = task_id
        super().__init__(
            f"{task_id} is damaged: {listed(damage, '; ', _MAX_LISTED_BYTES)}. So it cannot be changed.",
            argument="task_id",
            remedy=Cancel(task_id),
        )


class StaleRevision(DuetimeError):
    """The task changed since the caller read it; nothing was changed by this call.

    `changes` says what happened since, in words; `events` are the same as values of `Event`, of a task in `zone`.
    """

    code = "stale_revision"

    def __init__(
        self,
        task_id: str,
        given: int,
        current: int,
        changes: Sequence[str] = (),
        *,
        events: Sequence[object] = (),
        zone: str = "UTC",
    ) -> None:
        self.task_id, self.given, self.current = task_id, given, current
        self.changes = tuple(changes)
        self.events = tuple(events)
        self.zone = zone
        since = f" Since then: {listed(self.changes, '; ', _MAX_LISTED_BYTES)}." if self.changes else ""
        super().__init__(
            f"{task_id} is at revision {current}, not {given}; nothing was changed.{since}",
            argument="revision",
            remedy=RepeatAtRevision(task_id, current),
        )


def _quoted(value: str) -> str:
    """Quote what people wrote, a title say, so that no model takes it for words of the refusal."""
    return value if value == "not given" else repr(cut_to_bytes(value, _MAX_TITLE_BYTES))


class IdempotencyConflict(DuetimeError):
    """The key was used before for other content; `differences` maps each field to (first, now)."""

    code = "idempotency_conflict"

    def __init__(
        self, key: str, task_id: str, differences: Mapping[str, tuple[str, str]], *, remedy: Remedy | None = None
    ) -> None:
        self.key, self.task_id = key, task_id
        self.differences = dict(differences)
        parts = [f"{name} was {_quoted(first)}, now {_quoted(now)}" for name, (first, now) in differences.items()]
        shown = listed(parts, "; ", _MAX_LISTED_BYTES)
        super().__init__(
            f"{key[:60]!r} was used before, for {task_id}, with other content ({shown}).",
            argument="idempotency_key",
            remedy=remedy or UseNewKey(task_id),
        )


class Refused(DuetimeError):
    """The call is well-formed, but the task's state does not allow it; the remedy says what is possible instead."""

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


class StoreUnwritable(StoreUnavailable):
    """The database can be read, but not written: its disk is full, or its file is read-only."""


class InvalidSetting(DuetimeError):
    """A setting is unknown or wrong; the message names the setting, its value and what is accepted."""

    code = "invalid_setting"
    max_bytes = 16 * 1024  # an operator reads it, who corrects a whole file at once


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
