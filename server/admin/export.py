"""Export of a list: as CSV for a spreadsheet, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, Generic, TypeVar

from duetime.scheduler.intake.validation import MAX_FILE_PAGE_ROWS
from duetime.scheduler.rules.time.times import utc
from duetime.server.admin.answers import Download
from duetime.server.admin.failures import unknown
from duetime.server.admin.page_request import Visit
from duetime.widgets.formats.spreadsheet import cell

EXPORT_PAGE_ROWS = MAX_FILE_PAGE_ROWS
"""Rows that are read at a time where a page does not say otherwise, and rows that are sent at a time."""

MAX_EXPORTED_ROWS = 10_000
CUT_TEXT = "cut: there are more"
"""The first cell of the last row of a CSV file that is cut."""

T = TypeVar("T")
ExportRow = Mapping[str, Any]
PageOf = Callable[[int, str | None], tuple[Sequence[T], str | None]]
"""Reads so many rows behind a cursor, and returns them with the next cursor."""


class ExportFormat(StrEnum):
    """The formats of a file."""

    CSV = "csv"
    JSON = "json"


def wanted_format(visit: Visit) -> ExportFormat | None:
    """Return the format of the file that a visit asks for, None for a page. Raises InvalidArgument for another one."""
    wanted = visit.query.get("format")
    if wanted and wanted not in set(ExportFormat):
        raise unknown("format", wanted, ExportFormat)
    return ExportFormat(wanted) if wanted else None


def exported(
    file_format: ExportFormat,
    name: str,
    columns: Sequence[str],
    rows: Iterable[ExportRow],
    *,
    cut_at: int | None = None,
    first: FirstRows[Any] | None = None,
) -> Download:
    """Return the rows as a file, which reads them while it is sent.

    A CSV file begins with the columns, also without a row. With `cut_at` there are more than so many: the name of the
    file says how many it has. The rows come from `first` where only reading says whether there are more. Then the name
    says how many it may have. A file that is cut ends so: CSV with a row that says it, JSON with `"cut": true`.
    """
    most = "" if cut_at is None else f"-first-{cut_at}"
    file = name + (most if first is None else f"-up-to-{first.most}")
    cut = (lambda: cut_at is not None) if first is None else (lambda: first.is_cut)
    if file_format is ExportFormat.CSV:
        return Download(f"{file}.csv", "text/csv; charset=utf-8", _csv(columns, rows, cut))
    return Download(f"{file}.json", "application/json", _json(name, rows, cut))


class FirstRows(Generic[T]):
    """The first rows of many, `most` at most; `is_cut` says behind the last one whether there are more."""

    def __init__(self, rows: Iterator[T], most: int) -> None:
        self.most = most
        self.is_cut = False
        self._rows = rows

    def __iter__(self) -> Iterator[T]:
        yield from islice(self._rows, self.most)
        self.is_cut = any(True for _ in self._rows)  # takes one more


def each_row(page: PageOf[T], page_rows: int | None = None) -> Iterator[T]:
    """Read page by page, as far as rows are taken."""
    limit = page_rows or EXPORT_PAGE_ROWS
    found, cursor = page(limit, None)
    yield from found
    while cursor is not None:
        found, cursor = page(limit, cursor)
        yield from found


def first_rows(
    page: PageOf[T], most: int = MAX_EXPORTED_ROWS, page_rows: int | None = None
) -> tuple[list[T], int | None]:
    """Return the first rows, `most` at most; and how many they are where there are more, else None."""
    rows = [*islice(each_row(page, page_rows), most + 1)]
    return rows[:most], most if len(rows) > most else None


def _csv(columns: Sequence[str], rows: Iterable[ExportRow], is_cut: Callable[[], bool]) -> Iterator[str]:
    yield _lines([columns])
    for some in _parts(rows):
        yield _lines([_cell(row[name]) for name in columns] for row in some)
    if is_cut():
        yield _lines([[CUT_TEXT, *[""] * (len(columns) - 1)]])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue()


def _parts(rows: Iterable[ExportRow]) -> Iterator[list[ExportRow]]:
    """Put rows together that are sent at once: each part that is sent changes threads."""
    left = iter(rows)
    while some := [*islice(left, EXPORT_PAGE_ROWS)]:
        yield some


def _cell(value: Any) -> str:
    return utc(value) if isinstance(value, datetime) else cell(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _json(name: str, rows: Iterable[ExportRow], is_cut: Callable[[], bool]) -> Iterator[str]:
    yield f'{{"schema": "duetime.export/1", "{name}": ['
    for number, some in enumerate(_parts(rows)):
        yield ("," if number else "") + ",".join(f"\n{_text(dict(row))}" for row in some)
    yield '\n], "cut": true}\n' if is_cut() else "\n]}\n"


def _plain(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else str(value)
