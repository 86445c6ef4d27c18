"""Lists as CSV: a program wants all rows, not a page and a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import typer
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv

MAX_CSV_ROWS: Final = 100_000
"""Rows that one command writes; the rest is another command."""

CSV_PAGE_ROWS: Final = 100
"""Rows that are read at a time where a verb does not say otherwise, and no more are in memory."""

CsvRow = Mapping[str, Any]
ReadRows = Callable[[int, str | None], Mapping[str, Any]]
"""Reads a page of so many rows at most, behind a cursor or from the beginning."""


def wants_every_page(context: typer.Context) -> bool:
    """Whether a verb writes all rows: with `--csv`, unless `--limit` asks for a page."""
    source = context.get_parameter_source("limit")
    is_csv = context.params["as_csv"] and not context.params["as_json"]
    return bool(is_csv) and source is not None and source.name == "DEFAULT"


class EveryRow:
    """The rows of all pages behind a cursor, up to `MAX_CSV_ROWS`; `cursor` is where they were cut, None at the end."""

    def __init__(self, read: ReadRows, rows: str, cursor: str | None, page_rows: int | None = None) -> None:
        self.cursor = cursor
        self._page_rows = page_rows or CSV_PAGE_ROWS
        self._read = read
        self._rows = rows

    def __iter__(self) -> Iterator[CsvRow]:
        left = MAX_CSV_ROWS
        while left > 0:
            page = self._read(min(left, self._page_rows), self.cursor)
            self.cursor = page.get("cursor")
            yield from page[self._rows]
            left -= len(page[self._rows])
            if self.cursor is None:
                return


def write_every_page(
    context: typer.Context,
    read: ReadRows,
    rows: str,
    columns: Sequence[str],
    as_cells: Callable[[CsvRow], CsvRow] = dict,
    *,
    page_rows: int | None = None,
) -> None:
    """Write the rows of all pages while they are read, and how to get the rest where there are too many."""
    found = EveryRow(read, rows, context.params["cursor"], page_rows)
    write_csv(columns, map(as_cells, found))
    if found.cursor is not None:
        output.note(f"Cut after {MAX_CSV_ROWS:,} rows.")
        output.say_next(context, found.cursor, without=("limit",))
