"""Errors in the words of the command line: arguments as options, examples as they are typed, remedies as commands."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, fields

from duetime.scheduler import remedies
from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.intake.corrected_example import keywords
from duetime.scheduler.remedies import Remedy, Sentences
from duetime.scheduler.request import Request

COMMAND_SENTENCES: Sentences = {
    remedies.Resume: "Resume it with `duetime reschedule {task_id} --resume`.",
    remedies.Cancel: "`duetime cancel {task_id}` cancels it.",
    remedies.ScheduleAnother: "Schedule a new task with `duetime schedule`.",
    remedies.Inspect: "`duetime show {task_id}` shows the task as it is now.",
    remedies.ListAll: "`duetime list` shows your tasks and their ids.",
    remedies.RepeatAtRevision: "Read it with `duetime show {task_id}` and repeat this with --revision {revision}.",
    remedies.UseNewKey: "Use a new key for a new task, or `duetime reschedule {task_id}` to change that one.",
    remedies.UseNewKeyForChange: remedies.UseNewKeyForChange.plain,
    remedies.MoveDeadline: "`duetime reschedule {task_id}` takes a later --when together with a later --deadline.",
    remedies.MoveEarlier: "`duetime reschedule {task_id} --when` moves it to an earlier time.",
    remedies.RunAgain: "Give --when in the same command to run it again, or schedule another task with "
    "`duetime schedule`.",
    remedies.GiveRule: "Give a new rule, with `duetime reschedule {task_id} --repeat`.",
    remedies.RaiseMaxRuns: "Give --max-runs {least} or more in the same command, or schedule a new task with "
    "`duetime schedule`.",
    remedies.SplitCall: "Give --pause, --resume or --skip-next in a command of its own, after the new time.",
    remedies.RunFailedSteps: "`duetime reschedule {task_id} --when now` runs the failed steps again.",
    remedies.UndoMany: "`duetime bulk undo {token}` takes all of it back.",
    remedies.UndoLater: "`duetime undo {task_id} {token}` takes the later one back.",
    remedies.ListKeys: "`duetime keys list` lists all.",
    remedies.CreateKey: "Create a new one with `duetime keys create`.",
    remedies.ListSecrets: "`duetime secrets list` lists all.",
    remedies.ListWorkers: "`duetime workers` lists all.",
    remedies.ListChains: "`duetime audit head` names every tenant.",
    remedies.SetShadow: "`duetime policy shadow shares.low=0.12` sets one.",
}
_NAMES = {item.name for kind in (Request, Reschedule) for item in fields(kind)} | {
    "after",
    "before",
    "label",
    "query",
    "reason",
    "since",
    "text",
    "error",
    "via",
    "state",
    "cursor",
    "limit",
    "revision",
    *(
        "tenant",
        "worker",
        "actor",
        "pool",
        "min_units",
        "min_cost",
        "min_attempts",
        "min_duration",
        "max_duration",
    ),
    *("min_lateness", "min_delay"),
}
_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in _NAMES},
    "labels": "--label",
    "needs": "--need",
    "idempotency_key": "--key",
    "max_letters": "--max",
    "to": "--to",
    "event_id": "--id",
    "data": "--data",
    "title": "TITLE",
    "json": "JSON",
    "task_id": "ID",
    "task_ids": "ID",
    "key_id": "ID",
    "worker_id": "ID",
    "change": "CHANGE",
    "undo": "undo",
    "changes": "OPTIONS",
}


_PASSED = re.compile(r"\b([a-z_]+)=(?:true|[0-9]+|'[^']*')")
_PARTS = re.compile(r"[^.\[\]]+")
_EITHER = re.compile(r" or (?=[a-z_]+=)")
_OF_STEP = re.compile(r"steps[.\[]")
_IN_PAIRS = {_OPTIONS[name] for name in ("needs", "retry", "repeat_policy", "approval")}
"""Options that are given once for each part of a value, as `NAME=VALUE`."""


class CommandWords:
    """The words of a shell: what is shown can be typed."""

    def argument(self, name: str) -> str:
        outer, _, part = name.partition(".")
        option = _OPTIONS.get(outer, outer)
        return f"{option} {part}" if part and option in _IN_PAIRS else _OPTIONS.get(name, name)

    def example(self, passed: str, of: str = "") -> str:
        """Return keyword arguments as options, those of each of two examples; what is none stays as it is.

        Arguments of a step, which stands in a file, are members of JSON.
        """
        examples = _EITHER.split(passed)
        if len(examples) > 1 and all(keywords(each).keys() & _OPTIONS.keys() for each in examples):
            return " or ".join(self.example(each, of) for each in examples)
        given = keywords(passed)
        if _OF_STEP.match(of):
            return _members(_of_step(given, of) or given or {of.rpartition(".")[2]: passed})
        verb = ["duetime bulk"] if "change" in given else []  # of no other verb the whole command is an example
        options = {**_OPTIONS, "title": "--title"} if of == "changes" else _OPTIONS  # a new title is an option
        named = {options[name]: value for name, value in given.items() if name in options}
        typed = [_typed(option, value) for option, value in named.items() if value not in (None, False)]
        left_out = [f"without {option}" for option, value in named.items() if value in (None, False)]
        return ", ".join([*filter(None, [" ".join([*verb, *typed])]), *left_out]) or passed

    def remedy(self, remedy: Remedy) -> str:
        return COMMAND_SENTENCES[type(remedy)].format(**asdict(remedy))


def _of_step(given: dict[str, object], of: str) -> dict[str, object]:
    """Return the part of a step, which an example has in the list of all steps; none for an example without them."""
    _, which, *parts = _PARTS.findall(of)
    steps = given.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) and parts else (), start=1):
        if isinstance(step, dict) and which in (step.get("name"), str(number)):
            return {parts[0]: step.get(parts[0])}
    return {}


def _members(given: dict[str, object]) -> str:
    return ", ".join(f"{json.dumps(name)}: {_in_json(value)}" for name, value in given.items())


def _in_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _typed(option: str, value: object) -> str:
    if value is True:
        return option
    if option == _OPTIONS["steps"] and isinstance(value, list):
        return f"{option} chain.json, a file with {_in_json(value)}"
    if isinstance(value, list):
        return " ".join(f"{option} {shlex.quote(str(item))}" for item in value)
    if isinstance(value, dict) and option in _IN_PAIRS:
        return " ".join(f"{option} {shlex.quote(_pair(name, part))}" for name, part in value.items())
    text = _in_json(value) if isinstance(value, dict) else str(value)
    by_position = option in {_OPTIONS[name] for name in ("title", "json", "task_id", "change", "undo")}
    return shlex.quote(text) if by_position else f"{option} {shlex.quote(text)}"


def _pair(name: str, part: object) -> str:
    text = ",".join(map(str, part)) if isinstance(part, list) else str(part)
    return text if name == "question" else f"{name}={text}"


COMMAND_WORDS = CommandWords()


def in_options(note: str) -> str:
    """Return a note with options in place of the name that it begins with, and of `all_following=true` in it."""
    name, colon, rest = note.partition(":")
    return _PASSED.sub(_as_option, f"{COMMAND_WORDS.argument(name)}{colon}{rest}")


def _as_option(passed: re.Match[str]) -> str:
    return COMMAND_WORDS.example(passed[0].replace("=true", "=True")) if passed[1] in _OPTIONS else passed[0]
