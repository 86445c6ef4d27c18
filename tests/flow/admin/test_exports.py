"""Files of the lists: a file without a row names its columns, as one with rows does."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.foresight.readers.past_reader import PastReader
from duetime.scheduler.history.runs import RunPage
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.store.run_history import run_counts
from duetime.server.admin import export
from duetime.server.admin.answers import Download
from duetime.server.admin.page_request import Visit
from duetime.server.admin.pages import runs
from duetime.server.admin.pages.run_query import RunQuery
from duetime.tools.admin.run_rows import RUN_COLUMNS

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


@pytest.mark.parametrize("path", ["/runs", "/dead", "/schedules", "/timeline", "/cost", "/audit", "/pools", "/workers"])
async def test_an_unknown_format_is_refused_before_anything_is_read(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    admin = await admin_page()
    monkeypatch.setattr(export, "each_row", None)
    monkeypatch.setattr(PastReader, "runs", None)
    answer = await admin.get(f"{path}?format=xml")
    assert answer.status_code == 400
    assert "csv, json" in answer.text


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """Return how many pages of runs were read when a file began; and each page that was read, by its limit."""
    read, read_before, page_of_runs = list[int](), list[int](), RunQuery.page

    def page(query: RunQuery, visit: Visit, limit: int = 50, cursor: str | None = None) -> RunPage:
        read.append(limit)
        return page_of_runs(query, visit, limit, cursor)

    def begun(*given: Any, **named: Any) -> Download:
        read_before.append(len(read))
        return export.exported(*given, **named)

    monkeypatch.setattr(RunQuery, "page", page)
    monkeypatch.setattr(runs, "exported", begun)
    return read_before, read


def cancelled(admin: Admin, *titles: str) -> None:
    scheduler = admin.site.app.scheduler
    for title in titles:
        scheduler.cancel(scheduler.schedule(title, when="in 1 hour").record.task.id)


@pytest.mark.parametrize("most", [100_000, 5])
@pytest.mark.parametrize("file_format", ["csv", "json"])
async def test_a_file_of_runs_begins_before_they_are_read(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch, pages: tuple[list[int], list[int]], file_format: str, most: int
) -> None:
    admin = await admin_page()
    cancelled(admin, *["Call John"] * 9)
    monkeypatch.setattr(runs, "MAX_EXPORTED_RUNS", most)
    answer = await admin.get(f"/runs?format={file_format}")
    read_before, read = pages
    assert answer.status_code == 200
    assert (read_before, read) == ([0], [1_000])
    assert ("-first-5." in answer.headers["content-disposition"]) == (most == 5)


@pytest.mark.parametrize(("most", "count"), [(5, 5), (8, 8), (9, 8)])
async def test_a_file_of_filtered_runs_that_no_count_knows_begins_before_they_are_read_and_says_whether_it_is_cut(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch, pages: tuple[list[int], list[int]], most: int, count: int
) -> None:
    admin = await admin_page()
    cancelled(admin, "Write", *["Call John"] * 8, "Write")
    monkeypatch.setattr(runs, "MAX_EXPORTED_RUNS", most)
    monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", 2)
    saved = {each: await admin.get(f"/runs?title=call&format={each}") for each in export.ExportFormat}
    read_before, read = pages
    assert read_before == [0, len(read) / 2]
    for file_format, answer in saved.items():
        assert f'"runs-up-to-{most}.{file_format}"' in answer.headers["content-disposition"]
    *_, last = lines = [*csv.reader(io.StringIO(saved[export.ExportFormat.CSV].text))]
    assert (len(lines) - 1, [*{*map(len, lines)}]) == (count + (most < 8), [len(RUN_COLUMNS)])
    assert (last[0] == export.CUT_TEXT) == (most < 8)
    found = saved[export.ExportFormat.JSON].json()
    assert (len(found["runs"]), found.get("cut", False)) == (count, most < 8)


async def test_a_file_of_exactly_as_many_runs_as_are_counted_is_whole(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await admin_page()
    cancelled(admin, *["Call John"] * 3)
    names, ends = [], []
    for most in (3, 2):
        monkeypatch.setattr(runs, "MAX_EXPORTED_RUNS", most)
        monkeypatch.setattr(run_counts, "MAX_RUNS_COUNTED", most)
        answer = await admin.get("/runs?format=csv")
        names.append(answer.headers["content-disposition"].partition("=")[2])
        ends.append(answer.text.rstrip().endswith(f"{export.CUT_TEXT}{',' * (len(RUN_COLUMNS) - 1)}"))
    assert (names, ends) == (['"runs.csv"', '"runs-first-2.csv"'], [False, True])


@pytest.mark.parametrize("file_format", export.ExportFormat)
async def test_a_file_is_sent_in_parts_of_many_rows(file_format: export.ExportFormat) -> None:
    rows = [{"id": number} for number in range(3 * export.EXPORT_PAGE_ROWS)]
    parts = [*export.exported(file_format, "rows", ["id"], iter(rows)).parts]
    sent = "".join(parts)
    if file_format is export.ExportFormat.CSV:
        found = [int(row["id"]) for row in csv.DictReader(io.StringIO(sent))]
    else:
        found = [row["id"] for row in json.loads(sent)["rows"]]
    assert found == [row["id"] for row in rows]
    assert len(parts) <= 5
