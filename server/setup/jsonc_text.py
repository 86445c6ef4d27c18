"""Changes JSON as text, also with comments and trailing commas."""

from __future__ import annotations

import json
import re
from typing import Any

from duetime.server.setup.jsonc_nodes import JsonMember, JsonNode, blank_end, root_of
from duetime.server.setup.text_format import (
    ServerEntry,
    UnreadableText,
    checked_table,
    line_end_of,
    plain_of,
    with_entry,
    without_entry,
)

DEFAULT_INDENT = "  "
_INDENT = re.compile(r"[ \t]*")


class JsoncText:
    """JSON, with comments and trailing commas where there are some."""

    def find(self, text: str, table: str, name: str) -> ServerEntry | None:
        """Return the entry, None where there is none."""
        found = checked_table(_content(text), table).get(name)
        return found if isinstance(found, dict) else None

    def put(self, text: str, table: str, name: str, entry: ServerEntry) -> str:
        """Return the text with the entry."""
        before = _content(text)
        checked_table(before, table)
        if not text.strip("\ufeff \t\r\n"):
            return json.dumps(with_entry(before, table, name, entry), indent=2, ensure_ascii=False) + "\n"
        after = _put(text, table, name, entry)
        if root_of(after).value != with_entry(before, table, name, entry):
            raise UnreadableText("the entry cannot be put in")
        return after

    def drop(self, text: str, table: str, name: str) -> str:
        """Return the text without the entry."""
        before = _content(text)
        entries = root_of(text).member(table)
        member = entries.node.member(name) if entries else None
        if entries is None or member is None:
            return text
        after = _without(text, entries.node, member)
        if plain_of(root_of(after).value, table) != without_entry(before, table, name):
            raise UnreadableText("the entry cannot be taken out")
        return after


def _content(text: str) -> dict[str, Any]:
    if not text.strip("\ufeff \t\r\n"):
        return {}
    content: dict[str, Any] = root_of(text).value
    return content


def _put(text: str, table: str, name: str, entry: ServerEntry) -> str:
    root = root_of(text)
    entries = root.member(table)
    if entries is None or entries.node.value is None:
        return _set(text, root, table, {name: entry})
    return _set(text, entries.node, name, entry)


def _set(text: str, parent: JsonNode, name: str, value: Any) -> str:
    found = parent.member(name)
    if found is not None:
        written = _written(text, value, _indent_at(text, found.start), spread=_is_spread(text, parent))
        return text[: found.node.start] + written + text[found.node.end :]
    if not _is_spread(text, parent) and parent.members:
        return _after_the_last(text, parent, f" {json.dumps(name)}: {_written(text, value, '', spread=False)}")
    end, outer = line_end_of(text), _indent_at(text, parent.start)
    indent = _indent_at(text, parent.members[0].start) if parent.members else outer + _unit(text)
    member = f"{end}{indent}{json.dumps(name)}: {_written(text, value, indent, spread=True)}"
    if parent.members:
        return _after_the_last(text, parent, member)
    inner = text[parent.start + 1 : parent.end - 1].rstrip()
    return text[: parent.start + 1] + inner + member + end + outer + text[parent.end - 1 :]


def _after_the_last(text: str, parent: JsonNode, member: str) -> str:
    """Put a member after the last one, and behind a comment on its line; a trailing comma stays one."""
    last = parent.members[-1]
    end = last.end if last.comma is None else last.comma + 1
    line = text.find("\n", end)
    stop = min(blank_end(text, end), len(text) if line < 0 else line)
    if not member.startswith(" "):  # a comment on the line of the last one belongs to that
        stop -= len(text[end:stop]) - len(text[end:stop].rstrip())
    else:
        stop = end
    comma = "" if last.comma is not None else ","
    trailing = "," if last.comma is not None else ""
    return text[: last.end] + comma + text[last.end : stop] + member + trailing + text[stop:]


def _without(text: str, parent: JsonNode, member: JsonMember) -> str:
    start, end = member.start, member.end if member.comma is None else member.comma + 1
    place = parent.members.index(member)
    before = parent.members[place - 1] if place else None
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip():
        start, end = _whole_lines(text, line_start, end)
    elif before and before.comma is not None and member.comma is None:
        start = before.comma + 1
    rest = text[:start] + text[end:]
    if member.comma is None and before and before.comma is not None:
        rest = rest[: before.comma] + rest[before.comma + 1 :]
    return _closed(rest, parent.start, parent.end - (len(text) - len(rest))) if len(parent.members) == 1 else rest


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds with the line break, before the member where something else follows it on its last line."""
    line = text.find("\n", end)
    if line >= 0 and not text[end:line].strip():
        return start, line + 1
    return start, end


def _closed(text: str, start: int, end: int) -> str:
    """Close an object from which the only member was taken."""
    return text if text[start + 1 : end - 1].strip() else text[: start + 1] + text[end - 1 :]


def _written(text: str, value: Any, indent: str, *, spread: bool) -> str:
    if not spread:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (line_end_of(text) + indent).join(lines)


def _is_spread(text: str, parent: JsonNode) -> bool:
    """Whether the members of an object stand on lines of their own; new ones of an empty object do."""
    return not parent.members or "\n" in text[parent.start : parent.members[0].start]


def _indent_at(text: str, at: int) -> str:
    found = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return found[0] if found else ""


def _unit(text: str) -> str:
    """Return the indent of one level, as the first member of the file has it."""
    root = root_of(text)
    first = root.members[0] if root.members else None
    return (_indent_at(text, first.start) if first and _is_spread(text, root) else "") or DEFAULT_INDENT
