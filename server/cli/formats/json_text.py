"""JSON that a caller typed: a refusal says where it broke, and shows what was probably meant."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.redact import redacted, redacted_json
from duetime.scheduler.task import Json
from duetime.tools.arguments.strict_json import strict_json

MAX_CORRECTED_CHARS: Final = 200
"""Longest text that is read loosely; no example has room for a longer one."""

NEAR_CHARS: Final = 20
_QUOTED: Final = re.compile(r'"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'', re.DOTALL)
_NAME: Final = re.compile(r"[^\s{}\[\]:=,\"']+")
_UNQUOTED: Final = re.compile(r"[^,{}\[\]\"'\n]+")
_SEPARATORS: Final = re.compile(r"[\s,]*")
_WORDS: Final[dict[str, Json]] = {"True": True, "False": False, "None": None}


def read_json(
    text: str, name: str, *, kind: type[dict[Any, Any] | list[Any]] = dict, accepted: str, example: str
) -> Any:
    """Read a JSON object, or a list where `kind` says so.

    Raises InvalidArgument for anything else, with the text corrected as its example where that can be done, else with
    `example`.
    """
    try:
        value = strict_json(text)
    except json.JSONDecodeError as error:
        meant = corrected(text)
        if isinstance(meant, kind) and meant and redacted_json(meant) == meant:  # else a repeat would store the mask
            shown = json.dumps(meant, ensure_ascii=False)
            example = f"{name}={shown!r}" if kind is dict else f"{name}={shown}"
        raise InvalidArgument(name, where_broken(error), accepted=accepted, example=example) from error
    except ValueError as error:
        raise InvalidArgument(name, str(error), accepted=accepted, example=example) from error
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise InvalidArgument(name, f"it is not {expected}", accepted=accepted, example=example)
    return value


def where_broken(error: json.JSONDecodeError) -> str:
    """Say why and at which line and column a text is no JSON, and what stands there unless the text has a secret."""
    problem = f"it is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}"
    if redacted(error.doc) != error.doc:
        return problem
    near = error.doc[error.pos : error.pos + NEAR_CHARS]
    return f"{problem}, near {near!r}" if near else f"{problem}, where it ends"


def corrected(text: str) -> Json:
    """Return what a text means that is nearly JSON, None where that is unclear.

    Its names and texts may have other quotes or none, and its constants be those of Python. It may have too many
    commas, and lack its last brackets.
    """
    try:
        return _Loose(text).whole() if len(text) <= MAX_CORRECTED_CHARS else None
    except (_UnclearError, RecursionError):
        return None


class _UnclearError(Exception):
    """A text may mean several things, or nothing."""


class _Loose:
    """Reads a text from its beginning on."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text.strip(), 0

    def whole(self) -> Json:
        """Return the value that is all of the text."""
        value = self._value()
        if self._text[self._at :].strip():
            raise _UnclearError
        return value

    def _value(self) -> Json:
        self._match(re.compile(r"\s*"))
        opening = self._text[self._at : self._at + 1]
        if opening == "{":
            return self._object()
        if opening == "[":
            return self._list()
        return self._quoted() if opening in ("'", '"') else self._word(self._match(_UNQUOTED).strip())

    def _object(self) -> Json:
        found: dict[str, Json] = {}
        self._at += 1
        while not self._ends("}"):
            quoted = self._text[self._at] in "'\""
            name = self._quoted() if quoted else self._match(_NAME)
            self._match(re.compile(r"\s*[:=]"))
            found[name] = self._value()
        return found

    def _list(self) -> Json:
        found: list[Json] = []
        self._at += 1
        while not self._ends("]"):
            found.append(self._value())
        return found

    def _ends(self, closing: str) -> bool:
        """Pass commas, and the closing bracket where it stands here; at the end of the text it is missing."""
        self._match(_SEPARATORS)
        ends = self._text[self._at : self._at + 1] in (closing, "")
        self._at += ends
        return ends

    def _quoted(self) -> str:
        written = self._match(_QUOTED)
        if written[0] == "'":
            written = '"' + written[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
        try:
            return str(json.loads(written, strict=False))
        except json.JSONDecodeError:
            raise _UnclearError from None

    @staticmethod
    def _word(word: str) -> Json:
        try:
            return _WORDS[word] if word in _WORDS else json.loads(word)  # a number, true, false or null
        except json.JSONDecodeError:
            return word

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _UnclearError
        self._at = found.end()
        return found[0]
