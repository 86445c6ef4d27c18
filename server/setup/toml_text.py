"""Changes TOML as text: an entry is a table of its own, and comments stay where they are.

Libraries that keep comments count those above the next table to the one before, and take them out with it.
"""

from __future__ import annotations

import json
import re
import tomllib
from itertools import pairwise
from typing import Any, NamedTuple

from duetime.server.setup.text_format import (
    ServerEntry,
    UnreadableText,
    checked_table,
    line_end_of,
    lines_of,
    plain_of,
    with_entry,
    without_entry,
)

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?", re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class _Lines(NamedTuple):
    """Lines of a file, from `start` to before `end`."""

    start: int
    end: int


class TomlText:
    """TOML whose entries are tables such as `[mcp_servers.duetime]`."""

    def find(self, text: str, table: str, name: str) -> ServerEntry | None:
        """Return the entry, None where there is none."""
        found = checked_table(_content(text), table).get(name)
        return found if isinstance(found, dict) else None

    def put(self, text: str, table: str, name: str, entry: ServerEntry) -> str:
        """Return the text with the entry, at its old place or at the end."""
        before = _content(text)
        checked_table(before, table)
        end, spans = line_end_of(text), _spans(text, (table, name))
        written = end.join(_written(table, name, entry)) + end
        if spans:
            lines = lines_of(text)
            head = "".join(lines[: spans[0].start])
            after = head + written + _left("".join(lines[spans[0].end :]), table, name)
        else:
            after = _ended(text, end) + written
        _check(after, with_entry(before, table, name, entry), table)
        return after

    def drop(self, text: str, table: str, name: str) -> str:
        """Return the text without the entry."""
        before = _content(text)
        after = _left(text, table, name)
        _check(after, without_entry(before, table, name), table)
        return after


def _content(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableText(f"it is not TOML ({error})") from None


def _check(text: str, expected: dict[str, Any], table: str) -> None:
    """Refuse a change after which the file would say anything else: it was not written as tables of their own."""
    try:
        found = _content(text)
    except UnreadableText:
        found = {}
    if plain_of(found, table) != plain_of(expected, table):
        raise UnreadableText(f"the entries of {table!r} are not tables of their own")


def _spans(text: str, path: tuple[str, str]) -> list[_Lines]:
    """Return the lines of the table and of those inside it, each without the blanks and comments after it."""
    lines = lines_of(text)
    headers = [(number, _path(line)) for number, line in enumerate(lines) if _HEADER.fullmatch(line)]
    spans = []
    for (start, found), (stop, _) in pairwise([*headers, (len(lines), ())]):
        if found[: len(path)] == path:
            spans.append(_Lines(start, _last_content(lines, start, stop)))
    return spans


def _path(header: str) -> tuple[str, ...]:
    """Return the names in a header: `[a."b c"]` is a, b c."""
    found = _HEADER.fullmatch(header)
    try:
        content: Any = tomllib.loads(f"{found[1]} = 0") if found else 0
    except tomllib.TOMLDecodeError:
        return ()
    names = []
    while isinstance(content, dict):
        ((name, content),) = content.items()
        names.append(name)
    return tuple(names)


def _last_content(lines: list[str], start: int, stop: int) -> int:
    while stop > start + 1 and (not lines[stop - 1].strip() or lines[stop - 1].lstrip().startswith("#")):
        stop -= 1
    return stop


def _left(text: str, table: str, name: str) -> str:
    """Return the text without the tables of the entry, and without the blank line before what stood at the end."""
    lines = lines_of(text)
    for span in reversed(_spans(text, (table, name))):
        start = span.start
        if start and not lines[start - 1].strip() and not "".join(lines[span.end :]).strip():
            start -= 1
        del lines[start : span.end]
    return "".join(lines)


def _ended(text: str, end: str) -> str:
    """Return the text with a blank line at its end, before a new table."""
    if not text.strip("\ufeff \t\r\n"):
        return text
    return text + ("" if text.endswith("\n") else end) + end


def _written(table: str, name: str, entry: ServerEntry) -> list[str]:
    return [f"[{_key(table)}.{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers and lists of texts are written as in JSON


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
