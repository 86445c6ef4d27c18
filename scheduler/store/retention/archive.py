"""Files of the archive: rows as lines of JSON, compressed. A file is whole and on the disk, or it is not there.

The first line says what the file is, the last one how many rows it has; gzip's checksum covers all of it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zlib import error as ZlibError  # noqa: N812 - it is an error, and is named as one here

from duetime.scheduler.errors import Refused
from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.store.retention.row_json import ARCHIVED_TABLES, TypedRow, from_json, to_json
from duetime.scheduler.store.schema.values import encode
from sqlalchemy import Table

ARCHIVE_SCHEMA = "duetime.archive/1"
MAX_ARCHIVE_LINE_CHARS = 64_000_000
MAX_FILE_CHARS = 1_000_000_000
"""Characters of a file when it is unpacked: more than the rows of any batch have, and all of them are held at once."""
MAX_SENT_CHARS = 50_000_000
"""The same of a file that a request brings: it must not fill the memory of a server."""

ArchivedRow = tuple[Table, TypedRow]


class DamagedArchive(Refused):
    """A file cannot be imported; nothing of it is stored."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}. Nothing of this file was stored.")


@dataclass(frozen=True, slots=True)
class ArchiveContent:
    """The rows of a file: those of a kind, with all that goes with them, parents first."""

    kind: RetentionKind
    rows: tuple[ArchivedRow, ...]

    def of(self, table: Table) -> list[TypedRow]:
        return [row for each, row in self.rows if each is table]

    def tenants(self) -> set[str]:
        return {row["tenant"] for _, row in self.rows if "tenant" in row}


def write(
    directory: Path, kind: RetentionKind, schema: str, now: datetime, rows: Iterable[tuple[Table, Mapping[str, Any]]]
) -> Path:
    """Write a file into the folder of the day, and return its path once it is on the disk. Raises OSError."""
    folder = directory / f"{now:%Y-%m-%d}"
    folder.mkdir(mode=0o700, exist_ok=True)  # the directory itself has to exist: it may be a disk that is not mounted
    target = folder / f"{kind}-{now:%H%M%S%f}-{secrets.token_hex(4)}.jsonl.gz"
    partial = target.with_suffix(".partial")
    try:
        _write_lines(partial, {"schema": ARCHIVE_SCHEMA, "database": schema, "kind": kind.value}, rows)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(folder)
    return target


def _write_lines(path: Path, head: Mapping[str, Any], rows: Iterable[tuple[Table, Mapping[str, Any]]]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
            packed.write(f"{encode(dict(head))}\n".encode())
            count = 0
            for table, row in rows:
                packed.write(f"{encode({'table': table.name, 'row': to_json(row, table)})}\n".encode())
                count += 1
            packed.write(f"{encode({'rows': count})}\n".encode())
        raw.flush()
        os.fsync(raw.fileno())


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk; Windows does so by itself."""
    if sys.platform == "win32":
        return
    for path in (folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: Path, newest_schema: str, content: bytes | None = None) -> ArchiveContent:
    """Read and check a whole file; `content` is what it has, where it lies on another machine.

    Raises DamagedArchive with the line, and OSError.
    """
    lines = _lines(path, content)
    head = next(lines, (1, None))[1]
    kind = _kind_of(path, head, newest_schema)
    rows: list[ArchivedRow] = []
    for number, line in lines:
        if "rows" in line:
            if line["rows"] != len(rows) or next(lines, None) is not None:
                raise DamagedArchive(path, number, f"{len(rows)} rows were read, {line['rows']} were written")
            return ArchiveContent(kind, tuple(rows))
        rows.append(_row(path, number, line))
    raise DamagedArchive(path, len(rows) + 2, "the file ends before its last line")


def _kind_of(path: Path, head: Any, newest_schema: str) -> RetentionKind:
    if not isinstance(head, dict) or head.get("schema") != ARCHIVE_SCHEMA:
        raise DamagedArchive(path, 1, "it is not an archive of Duetime")
    if not re.fullmatch("[0-9]{1,9}", str(head.get("database"))) or int(head["database"]) > int(newest_schema):
        written = str(head.get("database"))[:20]
        raise DamagedArchive(path, 1, f"a newer Duetime wrote it (schema {written}, not {newest_schema})")
    if head.get("kind") not in list(RetentionKind):
        raise DamagedArchive(path, 1, f"its kind {str(head.get('kind'))[:40]!r} is unknown")
    return RetentionKind(head["kind"])


def _row(path: Path, number: int, line: Mapping[str, Any]) -> ArchivedRow:
    table = ARCHIVED_TABLES.get(str(line.get("table")))
    if table is None or not isinstance(line.get("row"), dict):
        raise DamagedArchive(path, number, "it is not a row of an archived table")
    try:
        return table, from_json(line["row"], table)
    except ValueError as error:
        raise DamagedArchive(path, number, str(error)) from None


def _lines(path: Path, content: bytes | None) -> Iterator[tuple[int, dict[str, Any]]]:
    number = read_chars = 0
    source, limit = (path, MAX_FILE_CHARS) if content is None else (io.BytesIO(content), MAX_SENT_CHARS)
    try:
        with gzip.open(source, "rt", encoding="utf-8") as file:
            while text := file.readline(min(MAX_ARCHIVE_LINE_CHARS, limit)):
                number += 1
                read_chars += len(text)
                if read_chars > limit:
                    raise DamagedArchive(path, number, f"it has more than {limit:,} characters unpacked")
                yield number, _object(path, number, text)
    except (EOFError, ZlibError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise _unreadable(path, number + 1, error) from None


def _object(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, number, error) from None
    if not isinstance(found, dict):
        raise DamagedArchive(path, number, "it is not a JSON object")
    return found


def _unreadable(path: Path, number: int, error: Exception) -> DamagedArchive:
    return DamagedArchive(path, number, f"it cannot be read ({str(error)[:80]})")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one that names a member twice means different things to different readers."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it names a member twice")
    return found
