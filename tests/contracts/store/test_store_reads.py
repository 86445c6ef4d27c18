"""Reading on PostgreSQL: planned for what is asked, and ended when it takes too long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import Event, EventFilter
from duetime.scheduler.store import SearchState, Store, migrate_store, open_store
from duetime.scheduler.store.database import postgres
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.views import TaskFilter
from sqlalchemy import text

from tests.builders import TENANT, Clock, added

pytestmark = pytest.mark.postgres


def settings(store: Store, way: str) -> list[str]:
    asked = "SELECT current_setting(name) FROM unnest(ARRAY['statement_timeout', 'enable_bitmapscan']) AS name"
    found: list[str] = getattr(store._database, way)(lambda connection: list(connection.execute(text(asked)).scalars()))
    return found


def test_only_reads_have_a_time_limit_and_a_planner_of_their_own(postgres_url: str) -> None:
    store = open_store(postgres_url, clock=Clock())
    assert settings(store, "read") == ["30s", "on"]
    assert settings(store, "write") == settings(store, "look") == ["0", "off"]
    store.close()


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
