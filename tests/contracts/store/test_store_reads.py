"""Reading on PostgreSQL: planned for what is asked, and ended when it takes too long."""

from __future__ import annotations

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database import postgres
from sqlalchemy import text

from tests.contracts.store.making import Clock, added

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
    with pytest.raises(StoreUnavailable, match="took too long to find that"):
        store._database.read(lambda connection: connection.execute(text("SELECT pg_sleep(5)")))
    assert added(store).run.id
    store.close()
