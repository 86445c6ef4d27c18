"""Errors in the words of the Python API: arguments as parameters, examples as calls, remedies as methods."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass

from duetime.scheduler import remedies
from duetime.scheduler.intake.corrected_example import keywords
from duetime.scheduler.remedies import Remedy, Sentences

METHOD_SENTENCES: Sentences = {
    **{remedy: remedy.plain for remedy in remedies.FOR_ADMINISTRATORS},
    remedies.Resume: "Resume it with {owner}.reschedule({task_id!r}, pause=False).",
    remedies.Cancel: "{owner}.cancel({task_id!r}) cancels it.",
    remedies.ScheduleAnother: "Schedule a new task with {owner}.schedule.",
    remedies.Inspect: "{owner}.get({task_id!r}) returns the task as it is now.",
    remedies.ListAll: "{owner}.list() returns your tasks and their ids.",
    remedies.RepeatAtRevision: "Read it with {owner}.get({task_id!r}) and repeat the call with revision={revision}.",
    remedies.UseNewKey: "Use a new key for a new task, or {owner}.reschedule({task_id!r}, ...) to change that one.",
    remedies.UseNewKeyForChange: remedies.UseNewKeyForChange.plain,
    remedies.MoveDeadline: "{owner}.reschedule({task_id!r}, ...) takes a later when together with a later deadline.",
    remedies.MoveEarlier: "{owner}.reschedule({task_id!r}, when=...) moves it to an earlier time.",
    remedies.RunAgain: "Give when in the same call to run it again, or schedule another task with {owner}.schedule.",
    remedies.GiveRule: "Give a new rule, with {owner}.reschedule({task_id!r}, repeat=...).",
    remedies.RaiseMaxRuns: "Give max_runs={least} or more in the same call, or another task to {owner}.schedule.",
    remedies.SplitCall: "Give pause or skip_next in a call of its own, after the new time.",
    remedies.UndoLater: "{owner}.act({task_id!r}, 'undo', undo={token!r}) takes the later one back.",
    remedies.RunFailedSteps: "{owner}.reschedule({task_id!r}, when='now') runs the failed steps again.",
    remedies.UndoMany: "{owner}.change_many('undo', undo={token!r}) takes all of it back.",
}
_VALUES = {
    "submit": "Request(..., {})",
    "schedule_many": "Request(..., {})",
    "list": "TaskFilter({})",
    **dict.fromkeys(("history", "event_counts", "event_buckets"), "EventFilter({})"),
    **dict.fromkeys(("runs", "run_counts", "run_buckets"), "RunFilter({})"),
}
"""Spellings of the value whose fields are arguments as well, by the method that takes it."""

_ARGUMENT = re.compile(r"(\w+)=(?!=)")
_EITHER = re.compile(r" or (?=\w+=)")


@dataclass(frozen=True, slots=True)
class MethodWords:
    """The words of one method of the class `owner`; `names` are its parameters, `first` the one that is needed."""

    owner: str
    method: str
    names: Collection[str]
    first: str

    def argument(self, name: str) -> str:
        return name

    def example(self, passed: str, of: str = "") -> str:  # noqa: ARG002 - a part is written as it is
        """Return keyword arguments as a call; what is none stays as it is."""
        return " or ".join(self._called(one) for one in _EITHER.split(passed))

    def remedy(self, remedy: Remedy) -> str:
        return METHOD_SENTENCES[type(remedy)].format(owner=self.owner, **asdict(remedy))

    def _called(self, passed: str) -> str:
        given = _ARGUMENT.match(passed)
        if given is None:
            return passed
        in_python = ", ".join(f"{name}={value!r}" for name, value in keywords(passed).items()) or passed
        if given[1] not in self.names and self.method in _VALUES:
            return _VALUES[self.method].format(in_python)
        others = "..., " if self.first not in ("", given[1]) else ""
        return f"{self.owner}.{self.method}({others}{in_python})"
