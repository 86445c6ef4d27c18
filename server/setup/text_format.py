"""The text of a configuration file: one entry is put in or taken out, and every other byte stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from duetime.scheduler.errors import DuetimeError

ServerEntry = Mapping[str, Any]
"""The settings of one server: texts, numbers, lists of texts, and tables of texts."""


class UnreadableText(DuetimeError):
    """The text is not of its format, or not of a form that can be changed without loss; the message says why."""


class TextFormat(Protocol):
    """A format of files that hold tables of entries by name."""

    def find(self, text: str, table: str, name: str) -> ServerEntry | None:
        """Return the entry of this name, None where there is none. Raises UnreadableText."""

    def put(self, text: str, table: str, name: str, entry: ServerEntry) -> str:
        """Return the text with the entry, in place of one of this name or after the last. Raises UnreadableText."""

    def drop(self, text: str, table: str, name: str) -> str:
        """Return the text without the entry. Raises UnreadableText."""


def with_entry(content: Mapping[str, Any], table: str, name: str, entry: ServerEntry) -> dict[str, Any]:
    """Return the content as it is to be read after `put`."""
    entries = content.get(table) or {}
    return {**content, table: {**entries, name: entry}}


def without_entry(content: Mapping[str, Any], table: str, name: str) -> dict[str, Any]:
    """Return the content as it is to be read after `drop`; an empty table stands for none."""
    entries = {other: entry for other, entry in (content.get(table) or {}).items() if other != name}
    rest = {other: entry for other, entry in content.items() if other != table}
    return {**rest, table: entries} if entries else rest


def plain_of(content: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return the content without the table if that is empty, to compare."""
    return {name: value for name, value in content.items() if name != table or value}


def line_end_of(text: str) -> str:
    """Return the line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def lines_of(text: str) -> list[str]:
    """Return the lines, each with its end."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])


def checked_table(content: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """Return the entries of a table. Raises UnreadableText when it holds something else."""
    entries = content.get(table)
    if entries is None:
        return {}
    if not isinstance(entries, Mapping):
        raise UnreadableText(f"{table!r} is not a table of entries")
    return entries
