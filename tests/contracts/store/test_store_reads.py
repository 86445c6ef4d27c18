"""Reading on PostgreSQL: planned for what is asked, and ended when it takes too long."""

from __future__ import annotations

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventFilter
from duetime.scheduler.store import Store, history, open_store
from duetime.scheduler.store.database import postgres
from duetime.scheduler.store.migrations import trigrams
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
    monkeypatch.setattr(trigrams, "STATEMENTS", ("CREATE EXTENSION no_such_extension",))
    store = open_store(postgres_url, clock=Clock())
    assert "searches read every row" in caplog.text
    assert added(store).run.id
    store.close()


def test_a_rare_text_and_a_common_one_find_the_same_events(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(postgres_url, clock=Clock())
    for title in ("Call the zebra", "Write to John"):
        added(store, title=title)
    found = []
    for most in (100, 0):
        monkeypatch.setattr(history, "MAX_RARE_ROWS", most)
        found.append(store.history.events(TENANT, EventFilter(text="ZEBRA"), limit=9).events)
    assert found[0] == found[1]
    assert len(found[0]) == 1
    store.close()
