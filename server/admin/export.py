"""Export of a list: as CSV for a spreadsheet, or as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.time.times import utc
from duetime.server.admin.answers import Download
from duetime.server.admin.failures import unknown
from duetime.widgets.formats.spreadsheet import cell

EXPORT_PAGE_ROWS = 100
MAX_EXPORTED_ROWS = 10_000

ExportRow = Mapping[str, Any]


def exported(file_format: str, name: str, rows: Sequence[ExportRow]) -> Download:
    """Return the rows as a file in the wanted format, `csv` or `json`. Raises InvalidArgument for another one."""
    if file_format == "csv":
        return Download(f"{name}.csv", "text/csv; charset=utf-8", _csv(rows))
    if file_format == "json":
        return Download(f"{name}.json", "application/json", _json(name, rows))
    raise unknown("format", file_format, ("csv", "json"))


def _csv(rows: Iterable[ExportRow]) -> Iterator[str]:
    lines = io.StringIO()
    writer = csv.writer(lines)
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])
        yield lines.getvalue()
        lines.seek(0)
        lines.truncate()


def _cell(value: Any) -> str:
    return utc(value) if isinstance(value, datetime) else cell(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _json(name: str, rows: Iterable[ExportRow]) -> Iterator[str]:
    yield f'{{"schema": "duetime.export/1", "{name}": ['
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n" + _text(dict(row))
    yield "\n]}\n"


def _plain(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else str(value)
