"""Changes YAML as text: an entry is a block of lines, and comments, quotes and anchors stay as they are."""

from __future__ import annotations

import json
from typing import Any

import yaml  # type: ignore[import-untyped] # its types are a package that nobody needs to run this
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

DEFAULT_INDENT_CHARS = 2


class YamlText:
    """YAML whose tables are blocks."""

    def find(self, text: str, table: str, name: str) -> ServerEntry | None:
        """Return the entry, None where there is none."""
        found = checked_table(_content(text), table).get(name)
        return found if isinstance(found, dict) else None

    def put(self, text: str, table: str, name: str, entry: ServerEntry) -> str:
        """Return the text with the entry, at its old place or after the last of its table."""
        before = _content(text)
        checked_table(before, table)
        after = _put(text, table, name, entry)
        if _read_again(after) != with_entry(before, table, name, entry):
            raise UnreadableText(f"{table!r} is not written as a block of entries")
        return after

    def drop(self, text: str, table: str, name: str) -> str:
        """Return the text without the entry."""
        before = _content(text)
        found = _pair(_pair(_root(text), table), name)
        if found is None:
            return text
        after = _without(text, table, found)
        if plain_of(_read_again(after), table) != without_entry(before, table, name):
            raise UnreadableText(f"{table!r} is not written as a block of entries")
        return after


def _content(text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableText(f"it is not plain YAML ({str(error).splitlines()[0]})") from None
    if content is not None and not isinstance(content, dict):
        raise UnreadableText("it does not hold a table")
    return content or {}


def _read_again(text: str) -> dict[str, Any]:
    try:
        return _content(text)
    except UnreadableText:
        return {}


def _root(text: str) -> tuple[yaml.Node, yaml.Node] | None:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if root is None else (root, root)


def _pair(pair: tuple[yaml.Node, yaml.Node] | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the key and the value of this name in the table that is the value of a pair."""
    if pair is None or not isinstance(pair[1], yaml.MappingNode):
        return None
    return next(((key, value) for key, value in pair[1].value if getattr(key, "value", None) == name), None)


def _put(text: str, table: str, name: str, entry: ServerEntry) -> str:
    lines, end = lines_of(text), line_end_of(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    root = _root(text)
    found = _pair(root, table)
    if root is None or found is None:
        block = _block({table: {name: entry}}, 0, end)
        return "".join([*lines, block])
    old = _pair(found, name)
    if old is not None:
        start, stop = _lines_of(text, *old)
        return "".join([*lines[:start], _block({name: entry}, old[0].start_mark.column, end), *lines[stop:]])
    key, value = found
    if isinstance(value, yaml.MappingNode) and value.value:
        indent = value.value[-1][0].start_mark.column
    else:
        indent, lines[key.start_mark.line] = DEFAULT_INDENT_CHARS, _opened(lines[key.start_mark.line], value)
    _, stop = _lines_of(text, *found)
    return "".join([*lines[:stop], _block({name: entry}, indent, end), *lines[stop:]])


def _without(text: str, table: str, found: tuple[yaml.Node, yaml.Node]) -> str:
    """Return the text without the lines of a pair; a table that it leaves empty is written as one, not as null."""
    lines, (start, stop) = lines_of(text), _lines_of(text, *found)
    pair = _pair(_root(text), table)
    if pair is not None and len(pair[1].value) == 1:
        line = pair[0].end_mark.line
        lines[line] = lines[line].replace(":", ": {}", 1)
    return "".join(lines[:start] + lines[stop:])


def _opened(line: str, value: yaml.Node) -> str:
    """Return the line of an empty table without the `{}` or `null` on it, so that a block can follow."""
    return line[: value.start_mark.column].rstrip(" ") + line[value.end_mark.column :]


def _lines_of(text: str, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
    """Return the lines of a key and its value, up to the last that is neither blank nor a comment."""
    lines = lines_of(text)
    stop = value.end_mark.line + (1 if value.end_mark.column else 0)
    stop = max(stop, key.end_mark.line + 1)
    while stop > key.start_mark.line + 1 and _is_blank(lines[stop - 1]):
        stop -= 1
    return key.start_mark.line, stop


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _block(content: Any, indent: int, end: str) -> str:
    """Write tables as blocks, and their values in the form of JSON, which YAML has as well."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict) and any(isinstance(part, dict | list) for part in value.values()):
            lines.append(f"{' ' * indent}{key}:{end}{_block(value, indent + DEFAULT_INDENT_CHARS, end)}")
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(value, ensure_ascii=False)}{end}")
    return "".join(lines)
