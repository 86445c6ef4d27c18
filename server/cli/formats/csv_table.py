"""CSV for programs and spreadsheets: RFC 4180 with one line end, and no cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence

from duetime.scheduler.task import Json
from duetime.widgets.formats.spreadsheet import cell


def write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Json]]) -> None:
    """Write a line of names and one for each row; what a row does not have is an empty cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row.get(column)) for column in columns] for row in rows)
