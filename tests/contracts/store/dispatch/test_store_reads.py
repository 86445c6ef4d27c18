"""Reading on PostgreSQL: planned for what is asked, and ended when it takes too long."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.store import SearchState, Store, migrate_store, open_store
from duetime.scheduler.store.database import postgres
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.views import TaskFilter
from sqlalchemy import Connection, text

from tests.builders import TENANT, Clock, added

pytestmark = pytest.mark.postgres


SETTINGS = ("statement_timeout", "enable_seqscan", "enable_bitmapscan", "plan_cache_mode")
READS = ["30s", "on", "on", "force_custom_plan"]
WRITES = ["0", "off", "off", "auto"]


def settings(connection: Connection) -> list[str]:
    return [setting(connection, name) for name in SETTINGS]


def setting(connection: Connection, name: str) -> str:
    return str(connection.exec_driver_sql(f"SHOW {name}").scalar_one())


def test_each_kind_of_read_has_a_time_limit_and_is_planned_for_its_parameters(postgres_url: str) -> None:
    store = open_store(postgres_url, clock=Clock())
    assert store._database.read(settings) == READS
    assert [store._database.look(partial(setting, name=name)) for name in SETTINGS] == READS
    store.close()


def test_each_kind_of_write_finds_rows_by_an_index_and_has_no_time_limit(postgres_url: str) -> None:
    store = open_store(postgres_url, clock=Clock())
    database = store._database
    assert isinstance(database, postgres.Postgres)
    attempted = database.attempt(settings)
    assert attempted.result == WRITES
    for written in (database.write(settings), database.write(settings, may_be_stored=True), database.command(settings)):
        assert written == WRITES
    store.close()


def test_a_statement_outside_any_transaction_leaves_its_connection_to_writes(postgres_url: str) -> None:
    store = open_store(postgres_url, clock=Clock())
    database = store._database
    assert isinstance(database, postgres.Postgres)
    database.command(lambda connection: connection.exec_driver_sql("CREATE INDEX CONCURRENTLY i ON runs (id)"))
    with pytest.raises(ZeroDivisionError):
        database.write(fails_late)
    assert database.look(lambda connection: connection.exec_driver_sql("SELECT count(*) FROM tasks").scalar_one()) == 0
    assert added(store).run.id
    store.close()


def fails_late(connection: Connection) -> None:
    connection.exec_driver_sql("DELETE FROM tasks")
    raise ZeroDivisionError


def test_a_read_that_takes_too_long_is_a_sentence_that_says_what_to_do(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "READ_TIMEOUT_S", 0.05)
    store = open_store(postgres_url, clock=Clock())
    with pytest.raises(StoreUnavailable, match="query took too long"):
        store._database.read(lambda connection: connection.execute(text("SELECT pg_sleep(5)")))
    assert added(store).run.id
    store.close()


def test_titles_and_reasons_have_indexes_of_trigrams_where_the_server_can(postgres_url: str) -> None:
    store = open_store(postgres_url, clock=Clock())
    named = text("SELECT indexname FROM pg_indexes WHERE indexname LIKE '%_trigrams' ORDER BY indexname")
    found = store._database.read(lambda connection: list(connection.execute(named).scalars()))
    assert found == ["events_reason_trigrams", "tasks_title_trigrams"]
    store.close()


def test_a_server_without_trigrams_is_used_as_it_is(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trigrams, "EXTENSION", "no_such_extension")
    store = open_store(postgres_url, clock=Clock())
    assert "searches read every row" in caplog.text
    assert store.search.state() is SearchState.UNSUPPORTED
    added(store, title="Call the zebra")
    assert titles(store, "zebra") == ["Call the zebra"]
    assert [event.kind for event in said(store, "zebra")] == ["created"]
    store.close()


def test_migrate_adds_the_indexes_that_a_server_can_have_by_now(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigrams, "EXTENSION", "no_such_extension")
    store = open_store(postgres_url, clock=Clock())
    monkeypatch.undo()
    assert store.search.state() is SearchState.MISSING
    assert migrate_store(postgres_url).indexes == tuple(trigrams.INDEXES)
    assert store.search.state() is SearchState.INDEXED
    assert migrate_store(postgres_url).indexes == ()
    store.close()


def titles(store: Store, words: str) -> list[str]:
    return [each.task.title for each in store.tasks.page(TENANT, TaskFilter(query=words), limit=9)[0]]


def said(store: Store, words: str) -> Sequence[Event]:
    return store.history.events(TENANT, EventFilter(text=words), limit=9).events
