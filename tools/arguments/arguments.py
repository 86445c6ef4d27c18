"""Arguments: the table of a tool's arguments is both the schema that models see and the check of what they send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.errors import DuetimeError, InvalidArgument
from duetime.scheduler.ids import is_id
from duetime.scheduler.task import Json
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.types import ArgumentType, is_blank
from duetime.tools.arguments.unknown_names import UnknownNames, as_call, is_short, is_text_action, meant_parts, nearest

if TYPE_CHECKING:
    from duetime.scheduler.principal import Principal
    from duetime.scheduler.service.scheduler import Scheduler

SAMPLE_TASK_ID: Final = "t_7k3m9qx2w4hb"
"""The task of an example; a call that has one of its own is shown that."""

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

    def missing_in(self, call: Mapping[str, Json]) -> InvalidArgument:  # noqa: ARG002 - of those that look at it
        """Return the problem of a call that lacks it."""
        return self.problem("it is missing")

    def action_in(self, call: Mapping[str, Json], action_of: ActionOfTask) -> Json:
        """Return the action of a call, or of the task that it is about, where an example depends on that."""
        return (call.get("action") or action_of()) if self.examples else None

    def problem(self, problem: str, given: Json = None, *, action: Json = None) -> InvalidArgument:
        own = self.example
        if self.examples and not is_text_action(action):
            own = self.examples.get(str(action), "")
        if isinstance(self.kind, Choices):
            elsewhere, kept = self.kind.elsewhere(given), as_call({self.name: self.kind.known(given) or None})
            own = f"{elsewhere}, {kept}" if elsewhere else own
        meant = meant_parts(self.kind, self.name, given)
        if self.examples and is_text_action(action) and isinstance(given, str) and is_short(given):
            meant = {self.name: {"message": given}}
        example = as_call(meant) if meant else own
        near = self.kind.nearest(given) if isinstance(self.kind, Choice) and not meant else None
        example = near or example  # the call of another tool
        return InvalidArgument(self.name, problem, accepted=self.kind.accepted, example=example)


ActionOfTask = Callable[[], Json]
"""Returns the action of the task that a call is about, None where it names none; asked only of a call that is wrong."""


def no_task() -> None:
    """Return the action of no task."""


def _of_its_task(problem: InvalidArgument, task_id: Json) -> InvalidArgument:
    """Return a problem whose example, where that is a call of another tool, is about the task of this one."""
    if not isinstance(task_id, str) or not is_id(task_id) or f"(task_id={SAMPLE_TASK_ID!r}" not in problem.example:
        return problem
    example = problem.example.replace(SAMPLE_TASK_ID, task_id)
    return InvalidArgument(problem.argument, problem.problem, accepted=problem.accepted, example=example)


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
        unknown = self.unknown_names(given)
        for argument in self.table.values():
            value = given.get(argument.name)
            if value is None:
                missing = argument.required and argument.name not in unknown.arguments
                problems += [argument.missing_in(given)] if missing else []
                continue
            if is_blank(value, argument.kind) and not argument.required:
                continue
            try:
                read = argument.kind.read(value)
            except ValueError as error:
                problems.append(argument.problem_in(given, str(error), action_of))
            else:
                values |= {argument.name: read} if argument.required or not is_blank(read, argument.kind) else {}
        return values, [
            _of_its_task(each, given.get("task_id")) for each in (*problems, *self.misnamed(unknown, given))
        ]

    def unknown(self, given: Mapping[str, Any]) -> list[InvalidArgument]:
        """Return a problem for each name that is no argument, with the one that was most likely meant."""
        return self.misnamed(self.unknown_names(given), given)

    def unknown_names(self, given: Mapping[str, Any]) -> UnknownNames:
        """Return the names in a call that are no arguments, and what each stands for."""
        return UnknownNames(self.tool, self.table, given)

    def misnamed(self, unknown: UnknownNames, given: Mapping[str, Any]) -> list[InvalidArgument]:
        """Return a problem for each of the unknown names of a call."""
        return [self._problem_elsewhere(name, given[name]) or unknown.problem(name) for name in unknown.names]

    def _problem_elsewhere(self, name: str, value: Json) -> InvalidArgument | None:
        known = self._elsewhere.get(name)
        return known(value) if callable(known) else known

    def nearest(self, name: str) -> str | None:
        """Return the argument that was most likely meant by `name`, None when nothing is near."""
        return nearest(name, self.table)
