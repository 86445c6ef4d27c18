"""CSV for programs and spreadsheets: RFC 4180 with one line end, and no cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence

from duetime.scheduler.task import Json
from duetime.widgets.formats.spreadsheet import cell_text
from duetime.widgets.outcome import as_text


def write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Json]]) -> None:
    """Write a line of names and one for each row; what a row does not have is an empty cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)


def _cell(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, list | tuple):
        value = "; ".join(map(as_text, value))
    return cell_text(as_text(value))
