"""Files of the lists: a file without a row names its columns, as one with rows does."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import WorkerProcess

from tests.flow.admin.conftest import Admin, Open

pytestmark = pytest.mark.anyio

NOTHING = "q=nothing+has+these+words"
LISTS = [
    ("/runs?", NOTHING),
    ("/dead?", NOTHING),
    ("/schedules?", NOTHING),
    ("/timeline?window=24h", "&until=2020-01-01"),
    ("/cost?by=action", "&since=2020-01-01&until=2020-01-02"),
    ("/cost?by=task", "&since=2020-01-01&until=2020-01-02"),
    ("/audit?", "who=nobody"),
    ("/audit?list=tasks", f"&{NOTHING}"),
]


async def lines_of(admin: Admin, path: str) -> list[list[str]]:
    answer = await admin.get(f"{path}&format=csv")
    assert answer.status_code == 200, answer.text
    return list(csv.reader(io.StringIO(answer.text)))


async def columns_of(admin: Admin, path: str) -> list[str]:
    """Return the columns of a list that has rows, of which each file has all."""
    saved = json.loads((await admin.get(f"{path}&format=json")).text)
    row = next(value for value in saved.values() if isinstance(value, list))[0]
    header, first, *_ = await lines_of(admin, path)
    assert (header, len(first)) == ([*row], len(row))
    return header


@pytest.mark.parametrize(("path", "of_none"), LISTS)
async def test_a_file_without_a_row_has_the_header_of_one_with_rows(
    tmp_path: Path, day: bytes, admin_page: Open, path: str, of_none: str
) -> None:
    (tmp_path / "duetime.db").write_bytes(day)
    admin = await admin_page()
    admin.site.app.store.audit.record(AuditEntry.by(LOCAL, AuditKind.LOGGED_IN))
    assert await lines_of(admin, path + of_none) == [await columns_of(admin, path)]


async def test_a_file_of_no_pools_or_workers_has_the_header_of_one_with_some(admin_page: Open) -> None:
    admin = await admin_page()
    paths = ("/pools?", "/workers?")
    none = [await lines_of(admin, path) for path in paths]
    await admin.post("/pools", page="/pools", name="gpu", spec='{"capacity": 2}')
    store = admin.site.app.store
    store.workers.beat(WorkerProcess("awake", "host-a", 1, threads=4, started_at=store.now()))
    assert none == [[await columns_of(admin, path)] for path in paths]
