"""Data of each earlier schema: upgraded through all versions, and read, run and checked by the code of today."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from duetime.scheduler.events import EventFilter
from duetime.scheduler.principal import Principal
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.migrations import upgrade
from duetime.scheduler.store.schema.base import Base
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.app import build
from duetime.server.settings.model import Settings
from duetime.widgets.payload import task_payload
from sqlalchemy import Connection, select

from tests import forked, services
from tests.builders import settlement
from tests.migrations.old_code import ROOT
from tests.migrations.rows_of_before import NOON, SEALED, TENANT, USER

VERSIONS = range(1, int(upgrade.HEAD_VERSION) + 1)
ALICE = Principal(TENANT, USER)
MAX_TASKS = 2 * len(VERSIONS) + 1


@dataclass(frozen=True)
class Walked:
    """A database that has gone through every version."""

    url: str
    store: Store


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def walked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    url = f"sqlite:///{tmp_path_factory.mktemp('walked')}/duetime.db"
    if request.param == "postgres":
        url = request.getfixturevalue("walked_postgres")
    forked.run([sys.executable, "-m", "tests.migrations.walk", url], cwd=ROOT, timeout=220).check_returncode()
    store = open_store(url, migrate=False, clock=lambda: NOON + timedelta(minutes=5))
    yield Walked(url, store)
    store.close()


@pytest.fixture(scope="module")
def walked_postgres(postgres_server: str) -> Iterator[str]:
    with services.postgres_database(postgres_server) as url:
        yield url


def test_every_table_has_rows_and_every_row_is_read(walked: Walked) -> None:
    def counted(connection: Connection) -> dict[str, int]:
        return {table.name: len(connection.execute(select(table)).all()) for table in Base.metadata.sorted_tables}

    found = walked.store._database.read(counted)
    assert [name for name, count in found.items() if not count and name not in SEALED] == []
    assert found["tasks"] == 2 * len(VERSIONS)
    examined = walked.store.integrity.examine()
    assert examined.findings == ()


def test_tasks_of_each_version_are_shown_with_all_that_belongs_to_them(walked: Walked) -> None:
    settings = Settings(database_url=walked.url, timezone="UTC", desktop_notifications="off")
    with build(settings) as app:
        for version in VERSIONS:
            for task_id in (f"t_{version}", f"t_{version}_failed"):
                view = app.scheduler.get(task_id, by=ALICE)
                assert task_payload(view).title.endswith(f"version {version}")
                assert view.record.task.labels == ("old",)
            history = app.store.history.events(TENANT, EventFilter(f"t_{version}_failed"), limit=9).events
            assert [event.kind for event in history] == ["failed", "started", "ready", "created"]
            [attempt] = app.store.history.attempts(TENANT, f"t_{version}_failed")
            assert (attempt.outcome, attempt.reason) == ("failed", "boom")


def test_lists_messages_and_dead_letters_have_those_of_each_version(walked: Walked) -> None:
    failed = {f"r_{version}_failed" for version in VERSIONS}
    page, _ = walked.store.tasks.page(TENANT, TaskFilter(), limit=MAX_TASKS)
    assert len(page) == 2 * len(VERSIONS)
    assert {message.run_id for message in walked.store.inbox.unread(TENANT, USER, limit=MAX_TASKS)} == failed
    assert {walked.store.dead_letters.get(TENANT, run_id).run_id for run_id in failed} == failed
    listed, _ = walked.store.tasks.page(TENANT, TaskFilter((State.FAILED,)), limit=MAX_TASKS)
    assert {record.run.id for record in listed} == failed


def test_open_tasks_of_each_version_run(walked: Walked) -> None:
    ready = walked.store.claims.make_ready(limit=MAX_TASKS)
    assert {run.run_id for run in ready} == {f"r_{version}" for version in VERSIONS}
    starts = [Start(run.run_id) for run in ready]
    claims = walked.store.claims.start(starts, worker="today", epoch=None, lease=timedelta(minutes=1))
    assert walked.store.claims.settle([settlement(claim) for claim in claims]) == [Verdict.SETTLED] * len(VERSIONS)
    assert walked.store.integrity.examine().findings == ()
