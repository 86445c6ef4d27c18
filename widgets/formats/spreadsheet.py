"""Text as a cell of CSV: no spreadsheet takes it for a formula, and no terminal acts on it."""

from __future__ import annotations

from duetime.scheduler.task import Json
from duetime.widgets.quote import as_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a text that a spreadsheet evaluates; the last four are full-width forms of the first."""

_CONTROLS = {code: 0xFFFD for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
"""A carriage return becomes a line end: alone it would end the row for many readers."""


def cell_text(text: str) -> str:
    """Return a text as a cell, with `'` in front of what would be a formula; control characters become visible."""
    lead = "'" if text.lstrip(" ").startswith(_FORMULA) else ""
    if text.isprintable():  # as nearly every one is
        return lead + text
    return lead + text.translate(_CONTROLS).replace("\r\n", "\n").replace("\r", "\n")


def cell(value: Json) -> str:
    """Return any value as a cell: of a list its values, of an object its JSON, and nothing for no or none."""
    if value is None or isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, str):
        return cell_text(value)
    if isinstance(value, list | tuple):
        value = "; ".join(map(as_text, value))
    return cell_text(as_text(value))
