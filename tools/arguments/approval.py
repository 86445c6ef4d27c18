"""The kind of the argument `approval`: an object, its question alone, or true for the usual one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from duetime.scheduler.task import ApprovalAnswer, Json
from duetime.scheduler.waits.approval import asks_usual, meant_members
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import ArgumentType, Text, from_json_text, is_blank, named, shown


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """The question before a run, `by` when it is asked, and the `default` answer then; `time` is the kind of `by`.

    Members that models know from another tool need not be `listed` again. A schema for programs has `every_form`: they
    are held to it, while models are only led.
    """

    time: ArgumentType = field(default_factory=lambda: Text(200, "a time"))
    accepted: str = "an object with question, by and default, the question alone, or true"
    listed: bool = True
    every_form: bool = False

    def schema(self) -> dict[str, Any]:
        if not self.listed:
            return {"type": "object"}
        members = {name: kind.schema() for name, kind in self._members().items()}
        whole = {"type": "object", "properties": members}
        return {"anyOf": [whole, {"type": "string"}, {"type": "boolean"}]} if self.every_form else whole

    def read(self, given: Json) -> Any:
        value = from_json_text(given) if isinstance(given, str) else given
        if isinstance(value, bool):
            return value
        if isinstance(given, str) and (usual := asks_usual(given)) is not None:
            return usual
        if isinstance(given, str) and not isinstance(value, dict):
            value = {"question": given}
        if not isinstance(value, dict):
            raise ValueError(f"{named(given)} is not a question")  # noqa: TRY004 - one family for all kinds
        if all(name in value and is_blank(value[name], Text()) for name in ("question", "by")):
            return {}  # a client that fills in every argument, and means none
        return {name: self._given(name, member) for name, member in value.items() if not is_blank(member, Text())}

    def corrected(self, given: Json) -> Json:
        """Return the object with the members that are right, or were meant by other names and words."""
        value = from_json_text(given) if isinstance(given, str) else given
        if not isinstance(value, dict):
            return None
        return {name: member for name, member in meant_members(value).items() if self._fits(name, member)} or None

    def _fits(self, name: str, value: Json) -> bool:
        try:
            return not is_blank(value, Text()) and bool(self._member(name, value))
        except ValueError:
            return False

    def _given(self, name: str, value: Json) -> Any:
        """Return a member; texts that cannot be read, and members that there are not, are for the service to refuse."""
        if name not in self._members():
            return value
        return value if isinstance(value, str) and not self._fits(name, value) else self._member(name, value)

    def _member(self, name: str, value: Json) -> Any:
        kind = self._members().get(name)
        if kind is None:
            raise ValueError(f"it has no member {shown(str(name))}")
        try:
            return kind.read(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}; {kind.accepted} is accepted") from None

    def _members(self) -> dict[str, ArgumentType]:
        return {"question": Text(200), "by": self.time, "default": Choice(tuple(ApprovalAnswer))}
