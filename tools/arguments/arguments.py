"""Arguments: the table of a tool's arguments is both the schema that models see and the check of what they send."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from duetime.scheduler.errors import MAX_PROBLEMS, DuetimeError, InvalidArgument
from duetime.scheduler.task import Json
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.types import ArgumentType, Correctable, Object, is_blank, shown

if TYPE_CHECKING:
    from duetime.scheduler.principal import Principal
    from duetime.scheduler.service.scheduler import Scheduler

MEANT_ARGUMENTS = {
    "at": "when",
    "time": "when",
    "date": "when",
    "datetime": "when",
    "run_at": "when",
    "due": "when",
    "tz": "timezone",
    "zone": "timezone",
    "cron": "repeat",
    "schedule": "repeat",
    "rrule": "repeat",
    "recurrence": "repeat",
    "name": "title",
    "event": "name",
    "event_name": "name",
    "subject": "title",
    "key": "idempotency_key",
    "idempotency_key": "event_id",
    "payload": "data",
    "task": "task_id",
    "id": "task_id",
    "tags": "labels",
    "delay": "when",
    "countdown": "when",
    "search": "query",
    "status": "state",
    "retries": "retry",
    "max_retries": "retry",
    "ids": "task_ids",
    "new_time": "when",
    "start": "when",
    "start_time": "when",
    "channel": "deliver_to",
    "message": "payload",
    "description": "payload",
    "text": "payload",
    "body": "payload",
    "note": "payload",
    "due_by": "deadline",
    "by": "deadline",
    "finish_by": "deadline",
    "complete_by": "deadline",
    "urgency": "priority",
    "importance": "priority",
    "tier": "priority",
    "resources": "needs",
    "pools": "needs",
    "requires": "needs",
    "duration": "estimate",
    "takes": "estimate",
}
"""The words that models write for an argument whose name is not near it in letters."""

_OF_OTHER_TOOLS = frozenset({"state", "query", "minutes", "undo", "cursor", "limit"})
"""Arguments of some tools, which are no slips of a name that other ones have."""

_LENGTHS = frozenset({"delay", "countdown"})
"""Words for a time that give how long it is until then."""

_TEXT_ACTIONS = frozenset({None, "", "reminder"})
"""Actions, as a call gives them, whose payload is the text that a user is shown."""

_MAX_RENAMED_CHARS = 60
_MAX_RENAMED_ITEMS = 10
MIN_SIMILARITY_RATIO = 0.75
"""Least likeness of two names of which one is a slip of the other: `whem` of `when`, but not `sort` of `cursor`."""


PAYLOAD_EXAMPLES: Mapping[str, str] = {
    "webhook": "payload={'url': 'https://example.com/hook', 'method': 'POST'}",
    "watch": "payload={'url': 'https://example.com/order', 'condition': \"status == 'shipped'\"}",
}
"""Payloads by the built-in actions that have no message alone."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument; `about` is what models read, `example` a value that an error shows.

    Where there are `examples`, the one example is for reminders, and other actions have their own or none. It
    `goes_with` another argument.
    """

    name: str
    kind: ArgumentType
    about: str = ""
    example: str = ""
    required: bool = False
    examples: Mapping[str, str] = field(default_factory=dict)
    goes_with: str = ""

    def schema(self) -> dict[str, Any]:
        return {**self.kind.schema(), **({"description": self.about} if self.about else {})}

    def problem_in(self, call: Mapping[str, Json], problem: str, action_of: ActionOfTask) -> InvalidArgument:
        """Return what is wrong with the value of a call; one without what it goes with has to be left out."""
        if self.goes_with and not call.get(self.goes_with):
            return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=f"{self.name}=null")
        return self.problem(problem, call[self.name], action=self.action_in(call, action_of))

    def action_in(self, call: Mapping[str, Json], action_of: ActionOfTask) -> Json:
        """Return the action of a call, or of the task that it is about, where an example depends on that."""
        return (call.get("action") or action_of()) if self.examples else None

    def problem(self, problem: str, given: Json = None, *, action: Json = None) -> InvalidArgument:
        near = self.kind.nearest(given) if isinstance(self.kind, Choice) else None
        own = self.example
        if self.examples and action not in _TEXT_ACTIONS:
            own = self.examples.get(str(action), "")
        if isinstance(self.kind, Choices):
            own = self.kind.elsewhere(given) or own
        meant = self.kind.corrected(given) if isinstance(self.kind, Correctable) else None
        if self.examples and action in _TEXT_ACTIONS and isinstance(given, str) and _is_short(given):
            meant = {"message": given}
        own = own if meant is None else f"{self.name}={meant!r}"
        example = f"{self.name}={near!r}" if near else own
        if near and isinstance(self.kind, Choice) and near not in self.kind.words:
            example = near  # the call of another tool
        return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=example)


ActionOfTask = Callable[[], Json]
"""Returns the action of the task that a call is about, None where it names none; asked only of a call that is wrong."""


def no_task() -> None:
    """Return the action of no task."""


def action_of(scheduler: Scheduler, task_id: Json, by: Principal) -> str | None:
    """Return the action of a task, None where there is no such task."""
    with suppress(DuetimeError):
        return scheduler.get(task_id, by=by).record.task.action if isinstance(task_id, str) else None
    return None


Elsewhere = InvalidArgument | Callable[[Json], InvalidArgument]


class Arguments:
    """The arguments of one tool, in the order in which they are shown.

    `elsewhere` has the problem of each name that is an argument of another call, or makes it of the value.
    """

    def __init__(
        self, tool: str, arguments: Sequence[Argument], elsewhere: Mapping[str, Elsewhere] | None = None
    ) -> None:
        self.tool = tool
        self._elsewhere = elsewhere or {}
        self.table: Mapping[str, Argument] = {argument.name: argument for argument in arguments}

    def schema(self) -> dict[str, Any]:
        """JSON Schema without titles, null unions or exotic keywords, which some clients cannot read."""
        required = [argument.name for argument in self.table.values() if argument.required]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: argument.schema() for name, argument in self.table.items()},
            "additionalProperties": False,
        }
        return {**schema, "required": required} if required else schema

    def read(
        self, given: Mapping[str, Json], action_of: ActionOfTask = no_task
    ) -> tuple[dict[str, Any], list[InvalidArgument]]:
        """Return the values that are right, and a problem for each argument that is not.

        An empty value stands for an optional argument that is absent, as many clients send it so. A missing argument
        that another name was most likely meant for is told with that name alone.
        """
        values: dict[str, Any] = {}
        problems = []
        misnamed = {self.nearest(name) for name in self._unknown(given)[:MAX_PROBLEMS]}
        for argument in self.table.values():
            value = given.get(argument.name)
            if value is None or (is_blank(value, argument.kind) and not argument.required):
                missing = argument.required and argument.name not in misnamed
                problems += [argument.problem("it is missing")] if missing else []
                continue
            try:
                read = argument.kind.read(value)
            except ValueError as error:
                problems.append(argument.problem_in(given, str(error), action_of))
            else:
                values |= {argument.name: read} if argument.required or not is_blank(read, argument.kind) else {}
        return values, [*problems, *self.unknown(given)]

    def unknown(self, given: Mapping[str, Any]) -> list[InvalidArgument]:
        """Return a problem for each name that is no argument, with the one that was most likely meant."""
        return [
            self._problem_elsewhere(name, given[name]) or self._not_known(name, given, guessed=place < MAX_PROBLEMS)
            for place, name in enumerate(self._unknown(given))
        ]

    def _problem_elsewhere(self, name: str, value: Json) -> InvalidArgument | None:
        known = self._elsewhere.get(name)
        return known(value) if callable(known) else known

    def _unknown(self, given: Mapping[str, Any]) -> list[str]:
        return [name for name in given if name not in self.table]

    def _not_known(self, name: str, given: Mapping[str, Any], *, guessed: bool) -> InvalidArgument:
        """Guess what was meant only for those that can be told: a guess costs, and a call may have thousands."""
        near = self.nearest(name) if guessed else None
        if guessed and near is None and name in self._payload_members(given):
            return self._in_payload(name, given)
        guess = f"; did you mean {near}?" if near else ""
        problem = f"{self.tool} has no such argument{guess}".rstrip("?")
        example = self._meant(name, near, given)
        return InvalidArgument(shown(name).strip("'"), problem, accepted=", ".join(self.table), example=example)

    def _payload_members(self, given: Mapping[str, Any]) -> Collection[str]:
        """Return the members that a payload usually has, of an action that takes more than a message."""
        kind = self.table["payload"].kind if "payload" in self.table else None
        return kind.usual if isinstance(kind, Object) and given.get("action") not in _TEXT_ACTIONS else ()

    def _in_payload(self, name: str, given: Mapping[str, Any]) -> InvalidArgument:
        payload, members = given.get("payload") or {}, self._payload_members(given)
        moved = {each: value for each, value in given.items() if each in members and each not in self.table}
        is_shown = isinstance(payload, dict) and all(map(_is_short, moved.values()))
        example = f"payload={ ({**payload, **moved})!r}" if is_shown else ""
        return InvalidArgument(name, "it is a member of payload", accepted=", ".join(self.table), example=example)

    def _meant(self, name: str, near: str | None, given: Mapping[str, Any]) -> str:
        """Return a short value of a misnamed argument as it was meant; empty where the call has that already."""
        value = given[name]
        if near == "payload" and isinstance(value, str):
            return self._as_message(value, given)
        if near is None or near in given:
            return ""
        if near == "retry" and (type(value) is int or (isinstance(value, str) and value.strip().isdecimal())):
            return self._renamed(near, f"{str(value).strip()} times")  # the first attempt is none
        if name in _LENGTHS:
            value = f"in {value}{' seconds' if isinstance(value, int | float) else ''}".replace("in in ", "in ")
        return self._renamed(near, value)

    def _as_message(self, text: str, given: Mapping[str, Any]) -> str:
        payload = given.get("payload") or {}
        unsaid = isinstance(payload, dict) and not payload.get("message")
        if not unsaid or given.get("action") not in _TEXT_ACTIONS or not _is_short(text):
            return ""
        return f"payload={ ({**payload, 'message': text})!r}"

    def _renamed(self, name: str, value: Json) -> str:
        """Return a short value under the name of the argument that it may be of; empty where it is none of it."""
        items = value if isinstance(value, list) and len(value) <= _MAX_RENAMED_ITEMS else [value]
        if not all(map(_is_short, items)):
            return ""
        try:
            self.table[name].kind.read(value)
        except ValueError:
            return ""
        return f"{name}={json.dumps(value) if isinstance(value, bool) else repr(value)}"

    def nearest(self, name: str) -> str | None:
        """Return the argument that was most likely meant by `name`, None when nothing is near."""
        plain = name[:60].strip().lower().replace("-", "_")
        letters = {known.replace("_", ""): known for known in self.table}
        found = get_close_matches(plain.replace("_", ""), letters, n=1, cutoff=MIN_SIMILARITY_RATIO)
        meant = MEANT_ARGUMENTS.get(plain, "")
        meant = meant if meant in self.table else MEANT_ARGUMENTS.get(meant, "")
        if meant in self.table:
            return meant
        if plain in _OF_OTHER_TOOLS:
            return None
        return letters[found[0]] if found else None


def _is_short(value: Json) -> bool:
    """Whether an example may repeat a value of a caller."""
    return isinstance(value, str | int) and len(str(value)) <= _MAX_RENAMED_CHARS and str(value).isprintable()
