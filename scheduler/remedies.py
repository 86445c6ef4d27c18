"""The remedies of errors, as data: what the caller can do about one. Each front end names it in its own syntax.

And the accepted name that is nearest to a wrong one, which errors suggest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import ClassVar, Final, Protocol

MIN_SIMILARITY_RATIO: Final = 0.6
"""Similarity, of 1 for the same text, from which on a word stands for one of a few that are accepted."""

MIN_MEMBER_SIMILARITY_RATIO: Final = 0.75
"""The same for the name of an argument or member: any word may come there, and a wrong guess is worse than none.

At 0.7 `duration` stands for `action`, and `dead_letter` for `deadline_type`.
"""

MAX_NAME_CHARS_COMPARED: Final = 64


def nearest_name(given: str, names: Iterable[str], *, min_ratio: float = MIN_SIMILARITY_RATIO) -> str | None:
    """Return the accepted name that is most like the one given, by its first 64 characters; None if none is alike."""
    return next(iter(get_close_matches(given[:MAX_NAME_CHARS_COMPARED], list(names), n=1, cutoff=min_ratio)), None)


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused task continue."""

    task_id: str
    plain: ClassVar[str] = "Resume it."


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the task, which is the only way to end it."""

    task_id: str
    plain: ClassVar[str] = "Cancel it instead."


@dataclass(frozen=True, slots=True)
class ScheduleAnother:
    """Schedule a new task: this one is over."""

    plain: ClassVar[str] = "Schedule a new task."


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read the task as it is now."""

    task_id: str
    plain: ClassVar[str] = "Read the task as it is now."


@dataclass(frozen=True, slots=True)
class ListAll:
    """Look the id up in the list."""

    plain: ClassVar[str] = "The list shows your tasks and their ids."


@dataclass(frozen=True, slots=True)
class RepeatAtRevision:
    """Read the task, then repeat the call for what it is now."""

    task_id: str
    revision: int
    plain: ClassVar[str] = "Read it and repeat the call for revision {revision}."


@dataclass(frozen=True, slots=True)
class UseNewKey:
    """Give another idempotency key, or change the task that the key has made."""

    task_id: str
    plain: ClassVar[str] = "Use a new key for a new task, or change that one."


@dataclass(frozen=True, slots=True)
class UseNewKeyForChange:
    """Give another idempotency key: this one stands for an earlier call."""

    plain: ClassVar[str] = "Use a new key for this change."


@dataclass(frozen=True, slots=True)
class MoveDeadline:
    """Give a later time together with a later deadline."""

    task_id: str
    plain: ClassVar[str] = "Give it a later time together with a later deadline."


@dataclass(frozen=True, slots=True)
class MoveEarlier:
    """Reschedule a task to a time before the one that it has."""

    task_id: str
    plain: ClassVar[str] = "Reschedule it to move it to an earlier time."


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Give a time, which runs an ended task again."""

    task_id: str
    plain: ClassVar[str] = "Give a time in the same call to run it again, or schedule another task."


@dataclass(frozen=True, slots=True)
class GiveRule:
    """Give a series another recurrence."""

    task_id: str
    plain: ClassVar[str] = "Give it a new recurrence."


@dataclass(frozen=True, slots=True)
class RaiseMaxRuns:
    """Allow a series that has used up its runs more of them."""

    task_id: str
    least: int
    plain: ClassVar[str] = "Give max_runs of {least} or more in the same call, or schedule a new task."


@dataclass(frozen=True, slots=True)
class SplitCall:
    """Move the task in one call, then pause it or skip its run in another one."""

    task_id: str
    plain: ClassVar[str] = "Pause or skip in a call of its own, after the new time."


@dataclass(frozen=True, slots=True)
class UndoMany:
    """Take back a change of many tasks as a whole."""

    token: str
    plain: ClassVar[str] = "Undo it as a change of many tasks."


@dataclass(frozen=True, slots=True)
class UndoLater:
    """Take back the later change of a task first."""

    task_id: str
    token: str
    plain: ClassVar[str] = "Undo {token} takes the later one back."


@dataclass(frozen=True, slots=True)
class RunFailedSteps:
    """Run again, at once, the steps of an ended chain that failed."""

    task_id: str
    plain: ClassVar[str] = "Give when='now' to run the failed steps again."


@dataclass(frozen=True, slots=True)
class ListKeys:
    """Look the id of an API key up in the list."""

    plain: ClassVar[str] = "The list of API keys has all."


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Create an API key: this one is over."""

    plain: ClassVar[str] = "Create a new API key."


@dataclass(frozen=True, slots=True)
class ListSecrets:
    """Look the name of a secret up in the list."""

    plain: ClassVar[str] = "The list of secrets has all."


@dataclass(frozen=True, slots=True)
class ListWorkers:
    """Look the id of a worker up in the list."""

    plain: ClassVar[str] = "The list of workers has all."


@dataclass(frozen=True, slots=True)
class ListChains:
    """Look at the newest entry of each tenant's audit chain."""

    plain: ClassVar[str] = "The heads of the audit chains name every tenant."


@dataclass(frozen=True, slots=True)
class SetShadow:
    """Set a shadow policy."""

    plain: ClassVar[str] = "Set one with the numbers that are to differ, such as shares.low=0.12."


FOR_ADMINISTRATORS: Final = (ListKeys, CreateKey, ListSecrets, ListWorkers, ListChains, SetShadow)
"""Remedies for which tools and the Python API have no call, so they say them in plain words."""

Remedy = (
    Resume
    | Cancel
    | ScheduleAnother
    | Inspect
    | ListAll
    | RepeatAtRevision
    | UseNewKey
    | UseNewKeyForChange
    | MoveDeadline
    | MoveEarlier
    | RunAgain
    | GiveRule
    | RaiseMaxRuns
    | SplitCall
    | UndoMany
    | UndoLater
    | RunFailedSteps
    | ListKeys
    | CreateKey
    | ListSecrets
    | ListWorkers
    | ListChains
    | SetShadow
)
"""All remedies that there are; a test sees to it that each front end has a sentence for each."""

Sentences = Mapping[type[Remedy], str]
"""A sentence for each kind of remedy, with the names of its fields in braces."""


class ErrorWords(Protocol):
    """The syntax of one front end, in which an error is written."""

    def argument(self, name: str) -> str:
        """Return the name of an argument as the caller writes it."""
        ...

    def example(self, passed: str, of: str = "") -> str:
        """Return an example of an argument, which comes as keyword arguments; a part of one comes as its value."""
        ...

    def remedy(self, remedy: Remedy) -> str:
        """Return a sentence that says what to do."""
        ...


class PlainWords:
    """No syntax but that of the Python API, for a log or a program."""

    def argument(self, name: str) -> str:
        return name

    def example(self, passed: str, of: str = "") -> str:  # noqa: ARG002 - in no syntax a part has another one
        return passed

    def remedy(self, remedy: Remedy) -> str:
        return remedy.plain.format(**asdict(remedy))


PLAIN_WORDS = PlainWords()
OVERTAKEN_REASON = "the next one is due"
"""Why a run was cancelled that gave way to the next occurrence."""

PAUSE_OVER_REASON = "its pause is over"
"""Why a task was resumed that was paused until a time."""

_UNTIL_RESUMED = ": it waits until it is resumed"

PAUSED_UNTIL_PREFIX = "paused until "
"""The beginning of the reason of one that is held until a time; a front end adds how it continues sooner."""


def paused_reason(why: str = "") -> str:
    """Return the reason of a task that is held until somebody resumes it; a front end adds the way to do that."""
    return f"paused{f', as {why}' if why else ''}{_UNTIL_RESUMED}"


def reason_in(words: ErrorWords, reason: str, task_id: str) -> str:
    """Return a reason for which a task waits, with the way to resume one that is paused."""
    held = reason.removesuffix(_UNTIL_RESUMED)
    if not (reason.startswith("paused") and held != reason) and not reason.startswith(PAUSED_UNTIL_PREFIX):
        return reason
    resume = words.remedy(Resume(task_id)).rstrip(".")
    how = f"{resume[0].lower()}{resume[1:]}"
    return f"{reason}; to go on sooner, {how}" if held == reason else f"{held}: {how}"
