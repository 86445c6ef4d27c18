"""Names in a call that its tool does not have: the argument that each one means, and the call as it was meant."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final, Protocol

from duetime.scheduler.errors import MAX_PROBLEMS, InvalidArgument
from duetime.scheduler.remedies import MIN_MEMBER_SIMILARITY_RATIO, nearest_name
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.task import Json
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.meant_names import Meaning, meanings
from duetime.tools.arguments.time_text import TimeText
from duetime.tools.arguments.types import ArgumentType, Correctable, Object, Parted, shown

_OF_OTHER_TOOLS: Final = frozenset({"state", "query", "minutes", "undo", "cursor", "limit"})
"""Arguments of some tools, which are no slips of a name that other ones have."""

ADDRESSES: Final = frozenset({"url", "webhook_url", "callback_url", "endpoint"})
"""Names of the address of a request, which is then the action that is meant."""

_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MAX_SHOWN_CHARS: Final = 60
_MAX_BEGUN_CHARS: Final = 30
_MAX_SHOWN_ITEMS: Final = 10
_MAX_NESTED_LEVELS: Final = 3


class Kinded(Protocol):
    """An argument, as its kind and an example of it."""

    @property
    def kind(self) -> ArgumentType: ...

    @property
    def example(self) -> str: ...


Table = Mapping[str, Kinded]


def is_text_action(action: Json) -> bool:
    """Whether the payload of an action, as a call gives it, is the text that a user is shown."""
    return action is None or (isinstance(action, str) and action in {"", "reminder"})


def nearest(name: str, table: Collection[str]) -> str | None:
    """Return the argument that was most likely meant by `name`, None when nothing is near."""
    plain = _plain(name)
    meant = next((each.argument for each in meanings(plain) if each.argument in table), None)
    if meant is not None or plain in _OF_OTHER_TOOLS:
        return meant
    letters = {known.replace("_", ""): known for known in table}
    found = nearest_name(plain.replace("_", ""), letters, min_ratio=MIN_MEMBER_SIMILARITY_RATIO)
    return letters[found] if found else None


def is_short(value: Json) -> bool:
    """Whether an example may repeat a value of a caller."""
    return isinstance(value, str | int) and len(str(value)) <= _MAX_SHOWN_CHARS and str(value).isprintable()


def as_call(values: Mapping[str, Json]) -> str:
    """Write arguments as a call has them."""
    return ", ".join(
        f"{name}={json.dumps(value) if value is None or isinstance(value, bool) else repr(value)}"
        for name, value in values.items()
    )


class UnknownNames:
    """The names in one call that are no arguments of its tool; a guess costs, so that only the first are guessed."""

    def __init__(self, tool: str, table: Table, given: Mapping[str, Json]) -> None:
        self._tool, self._table, self._given = tool, table, given
        self.names = [name for name, value in given.items() if name not in table and value is not None]
        guessed = self.names[:MAX_PROBLEMS]
        self.meant = {name: nearest(name, table) for name in guessed}
        self._values = {name: self._as_meant(name) for name in guessed}

    @property
    def arguments(self) -> frozenset[str | None]:
        """The arguments that the names stand for."""
        return frozenset((*self.meant.values(), *(name for values in self._values.values() for name in values)))

    def problem(self, name: str) -> InvalidArgument:
        """Return what is wrong with a name, with the call as it was meant where that is clear."""
        near, values = self.meant.get(name), self._values.get(name, {})
        is_member = near is None and name in self._payload_members()
        guess = f"; did you mean {next(iter(values), near)}" if near else ""
        problem = "it is a member of payload" if is_member else f"{self._tool} has no such argument{guess}"
        whole = {each: self._joined(each) for each in values}
        left_out = f"{name}=null" if name.isidentifier() and len(name) <= _MAX_SHOWN_CHARS else ""
        if near and not whole and not self._given.get(near):
            left_out = self._table[near].example or left_out
        example = as_call(whole) if whole and all(map(_is_shown, whole.values())) else _begun(whole) or left_out
        return InvalidArgument(shown(name).strip("'"), problem, accepted=", ".join(self._table), example=example)

    def _as_meant(self, name: str) -> dict[str, Json]:
        """Return the arguments that a name stands for; none where that is not clear, or the call has them already."""
        value, near = self._given[name], self.meant[name]
        if name in self._payload_members():
            return self._fitting({"payload": {name: value}})
        if near is None:
            return self._spread(value)
        known = [each for each in meanings(_plain(name)) if each.argument in self._table] or [Meaning(near)]
        for meaning in known:
            found = self._fitting(self._read(meaning.argument, meaning.value(value, self._given)), by=meaning)
            if found:
                return found
        return self._spread(value)

    def _read(self, name: str, value: Json) -> dict[str, Json]:
        """Return the argument with a value that it takes, or what the value means there; nothing for neither."""
        kind = self._table[name].kind
        if name == "payload" and isinstance(value, str):
            return {name: {"message": value}} if is_text_action(self._action) else {}
        with suppress(ValueError):
            read = kind.read(value)
            return {name: read if isinstance(read, list | int) else value}  # in its own form, for readers of no other
        return meant_parts(kind, name, value)

    def _fitting(self, found: dict[str, Json], *, by: Meaning | None = None) -> dict[str, Json]:
        """Return arguments that the call does not have yet; those of a payload are added to the one it has."""
        payload, added = self._given.get("payload"), found.get("payload")
        if isinstance(payload, dict) and isinstance(added, dict):
            rest = {name: value for name, value in found.items() if name != "payload"}
            return {} if any(payload.get(name) for name in added) else {**self._fitting(rest), **found}
        is_request = is_text_action(self._given.get("action")) and self._action == "webhook"
        if is_request and "action" in self._table and "payload" in found:
            found = {"action": "webhook", **found}
        overrides = by is not None and by.refines
        return {} if any(self._given.get(name) and not overrides and name != "action" for name in found) else found

    def _spread(self, value: Json) -> dict[str, Json]:
        """Return the arguments of an object that holds some of them, as `changes` and `filter` do.

        None are returned where another name in it means an argument that the call gives: one of the two is wrong.
        """
        if not isinstance(value, dict) or len(value) > MAX_PROBLEMS:
            return {}
        inner = UnknownNames(self._tool, self._table, value)
        if not all(inner._values[name] for name in inner.names):
            return {}
        known = {name: each for name, each in value.items() if name in self._table and name not in self._given}
        renamed = {name: inner._joined(name) for values in inner._values.values() for name in values}
        return {} if any(self._given.get(name) for name in renamed) else {**known, **renamed}

    def _joined(self, name: str) -> Json:
        """Return the value of an argument that several names mean: a date and a time are one text, objects are one."""
        kind = self._table[name].kind
        parts = sorted(self._values.items(), key=lambda item: item[0].endswith("time"))
        found = [values[name] for _, values in parts if name in values]
        if len(found) > 1 and isinstance(kind, TimeText):
            return " ".join(map(str, found))
        if any(isinstance(each, dict) for each in found):
            payload = self._given.get(name) if name == "payload" else None
            parts_of_it = [payload if isinstance(payload, dict) else {}, *(_as_object(kind, each) for each in found)]
            return {key: value for part in parts_of_it for key, value in part.items()}
        return found[0]

    @property
    def _action(self) -> Json:
        """The action of the call; one with an address, and no action that does work, is meant as a request."""
        given = self._given.get("action")
        return "webhook" if is_text_action(given) and any(name in ADDRESSES for name in self.names) else given

    def _payload_members(self) -> Collection[str]:
        """Return the members that a payload usually has, of an action that takes more than a message."""
        kind = self._table["payload"].kind if "payload" in self._table else None
        usual = kind.usual if isinstance(kind, Object) and not is_text_action(self._action) else {}
        return [name for name in usual if name != "message"]


def meant_parts(kind: ArgumentType, name: str, given: Json) -> dict[str, Json]:
    """Return the arguments that a wrong value was most likely meant as; none where nothing of it is right."""
    if isinstance(kind, Parted):
        return dict(kind.as_arguments(name, given) or {})
    meant = kind.corrected(given) if isinstance(kind, Correctable) else None
    if isinstance(kind, Choice):
        near = kind.nearest(given)
        meant = near if near in kind.words else None
    return {} if meant is None else {name: meant}


def _as_object(kind: ArgumentType, value: Json) -> Mapping[str, Json]:
    """Return a value as an object; an empty one for what the kind does not take, or does not read as one."""
    read = value
    with suppress(ValueError):
        read = value if isinstance(value, dict) else kind.read(value)
    return read if isinstance(read, dict) else {}


def _is_shown(value: Json, depth: int = 0) -> bool:
    """Whether an example may show a value: a short one, which holds no credential."""
    if isinstance(value, dict | list):
        inner = list(value.values()) if isinstance(value, dict) else value
        fits = depth < _MAX_NESTED_LEVELS and len(inner) <= _MAX_SHOWN_ITEMS
        return fits and all(_is_shown(each, depth + 1) for each in inner) and redacted_json(value) == value
    return value is None or isinstance(value, float) or is_short(value)


def _begun(values: Mapping[str, Json]) -> str:
    """Write an argument whose text is too long to be shown with the beginning of it; nothing for any other value."""
    [(name, value), *more] = [*values.items()] or [("", None)]
    if (
        more
        or not isinstance(value, str)
        or not value[:_MAX_SHOWN_CHARS].isprintable()
        or redacted_json(value) != value
    ):
        return ""
    return as_call({name: f"{value[:_MAX_BEGUN_CHARS].rstrip()}..."})


def _plain(name: str) -> str:
    """Return a name in small letters: `delayMinutes` is `delay_minutes`."""
    return _CAPITAL.sub("_", name[:_MAX_SHOWN_CHARS].strip()).lower().replace("-", "_").replace(" ", "_")
