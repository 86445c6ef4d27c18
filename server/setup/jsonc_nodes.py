"""Reads JSON with comments and trailing commas, as editors write it, with the place of each part in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from duetime.server.setup.text_format import UnreadableText

_BLANK = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_WORD = re.compile(r"[-+.\w]+")


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value, from `start` to before `end`; `members` are those of an object, in order."""

    start: int
    end: int
    value: Any
    members: tuple[JsonMember, ...] = ()

    def member(self, name: str) -> JsonMember | None:
        """Return the member of this name; of several the last, which counts."""
        return next((member for member in reversed(self.members) if member.name == name), None)


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of an object, from `start` of its name; `comma` is where the comma after it stands, if there is one."""

    name: str
    start: int
    node: JsonNode
    comma: int | None = field(default=None)

    @property
    def end(self) -> int:
        return self.node.end


def root_of(text: str) -> JsonNode:
    """Return the object that the text holds. Raises UnreadableText."""
    try:
        node = _JsonReader(text).whole()
    except RecursionError:
        raise UnreadableText("it is nested too deeply") from None
    if not isinstance(node.value, dict):
        raise UnreadableText("it does not hold an object")
    return node


def blank_end(text: str, at: int) -> int:
    """Return where blanks and comments from here on end."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


class _JsonReader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> JsonNode:
        node = self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("more text after the end")
        return node

    def _value(self) -> JsonNode:
        self._skip()
        readers = {"{": self._object, "[": self._array, '"': self._string}
        return readers.get(self._text[self._at : self._at + 1], self._word)()

    def _object(self) -> JsonNode:
        start, members = self._at, []
        for _ in self._items("}"):
            self._skip()
            name = self._string()
            self._expect(":")
            node = self._value()
            self._skip()
            members.append(JsonMember(name.value, name.start, node, self._at if self._next_is(",") else None))
        value = {member.name: member.node.value for member in members}
        return JsonNode(start, self._at, value, tuple(members))

    def _array(self) -> JsonNode:
        start = self._at
        values = [self._value().value for _ in self._items("]")]
        return JsonNode(start, self._at, values)

    def _items(self, closing: str) -> Iterator[None]:
        """Yield before each item, and pass the comma after it; a comma after the last is allowed."""
        self._at += 1
        self._skip()
        while not self._next_is(closing):
            yield
            self._skip()
            if not self._next_is(closing):
                self._expect(",")
                self._skip()
        self._at += 1

    def _string(self) -> JsonNode:
        return self._scalar(_STRING, "a text was expected")

    def _word(self) -> JsonNode:
        return self._scalar(_WORD, "a value was expected")

    def _scalar(self, pattern: re.Pattern[str], problem: str) -> JsonNode:
        found = pattern.match(self._text, self._at)
        try:
            value = json.loads(found[0]) if found else None
        except ValueError:
            raise self._wrong(problem) from None
        if found is None:
            raise self._wrong(problem)
        start, self._at = self._at, found.end()
        return JsonNode(start, self._at, value)

    def _skip(self) -> None:
        self._at = blank_end(self._text, self._at)

    def _next_is(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _expect(self, sign: str) -> None:
        self._skip()
        if not self._next_is(sign):
            raise self._wrong(f"{sign!r} was expected")
        self._at += 1

    def _wrong(self, problem: str) -> UnreadableText:
        return UnreadableText(f"line {self._text.count(chr(10), 0, self._at) + 1}: {problem}")
