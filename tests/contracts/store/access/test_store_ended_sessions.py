"""Sessions that were logged out: known until their cookies end by themselves, and no longer."""

from __future__ import annotations

from datetime import timedelta

from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.access import ended_sessions
from sqlalchemy import func, select

from tests.builders import NOON, Clock

HOUR = timedelta(hours=1)


def test_an_ended_session_is_known_and_no_other_one(store: Store) -> None:
    store.ended_sessions.add("ab" * 16, NOON + HOUR)
    store.ended_sessions.add("ab" * 16, NOON + HOUR)
    assert store.ended_sessions.has("ab" * 16)
    assert not store.ended_sessions.has("cd" * 16)


def test_sessions_whose_time_has_passed_are_forgotten_with_the_next_one(store: Store, clock: Clock) -> None:
    for number in range(20):
        store.ended_sessions.add(f"old {number}", NOON + HOUR)
    clock.forward(hours=1)
    store.ended_sessions.add("new", clock() + HOUR)
    count = select(func.count()).select_from(ended_sessions)
    assert store._database.read(lambda connection: connection.execute(count).scalar_one()) == 1
    assert store.ended_sessions.has("new")
