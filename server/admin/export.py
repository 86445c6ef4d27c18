"""Export of a list: as CSV for a spreadsheet, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from duetime.scheduler.rules.time.times import utc
from duetime.server.admin.answers import Download
from duetime.server.admin.failures import unknown
from duetime.widgets.formats.spreadsheet import cell

EXPORT_PAGE_ROWS = 100
MAX_EXPORTED_ROWS = 10_000

T = TypeVar("T")
ExportRow = Mapping[str, Any]
PageOf = Callable[[int, str | None], tuple[Sequence[T], str | None]]
"""Reads so many rows behind a cursor, and returns them with the next cursor."""


def exported(
    file_format: str, name: str, columns: Sequence[str], rows: Sequence[ExportRow], *, cut: bool = False
) -> Download:
    """Return the rows as a file in the wanted format, `csv` or `json`. Raises InvalidArgument for another one.

    A CSV file begins with the columns, also without a row. With `cut` there are more: the name of the file says how
    many it has, and JSON has `"cut": true`.
    """
    file = f"{name}-first-{len(rows)}" if cut else name
    if file_format == "csv":
        return Download(f"{file}.csv", "text/csv; charset=utf-8", _csv(columns, rows))
    if file_format == "json":
        return Download(f"{file}.json", "application/json", _json(name, rows, cut=cut))
    raise unknown("format", file_format, ("csv", "json"))


def every_row(page: PageOf[T], most: int = MAX_EXPORTED_ROWS) -> tuple[list[T], bool]:
    """Read page by page, `most` rows or a few more; return them, and whether there are more."""
    found, cursor = page(EXPORT_PAGE_ROWS, None)
    rows = [*found]
    while cursor is not None and len(rows) < most:
        found, cursor = page(EXPORT_PAGE_ROWS, cursor)
        rows += found
    return rows, cursor is not None


def _csv(columns: Sequence[str], rows: Iterable[ExportRow]) -> Iterator[str]:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])
        yield lines.getvalue()
        lines.seek(0)
        lines.truncate()
    yield lines.getvalue()


def _cell(value: Any) -> str:
    return utc(value) if isinstance(value, datetime) else cell(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _json(name: str, rows: Iterable[ExportRow], *, cut: bool) -> Iterator[str]:
    said = '"cut": true, ' if cut else ""
    yield f'{{"schema": "duetime.export/1", {said}"{name}": ['
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n" + _text(dict(row))
    yield "\n]}\n"


def _plain(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else str(value)
