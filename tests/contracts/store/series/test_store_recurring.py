"""The tasks that recur, page by page, on every database."""

from __future__ import annotations

from datetime import timedelta

from duetime.scheduler.store import Store

from tests.builders import NOON, TENANT, Clock, added, cancelled

DAILY = "FREQ=DAILY"


def titles(store: Store, tenant: str | None = TENANT, words: str | None = None) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = store.tasks.recurring(tenant, words=words, limit=2, cursor=cursor)
        found += [record.task.title for record in page]
        if cursor is None:
            return found


def test_recurring_tasks_are_listed_newest_first_and_those_that_ended_are_not(store: Store, clock: Clock) -> None:
    for number in range(5):
        at = NOON + timedelta(minutes=number // 2)
        added(store, repeat=DAILY, title=f"Daily {number}", created_at=at)
        added(store, title=f"Once {number}", created_at=at)
    cancelled(store, added(store, repeat=DAILY, title="Gone"))
    added(store, repeat=DAILY, title="Theirs", tenant="globex", created_at=NOON + timedelta(hours=1))

    assert sorted(titles(store)) == [f"Daily {number}" for number in range(5)]
    assert titles(store)[0] == "Daily 4"
    assert titles(store, None)[:2] == ["Theirs", "Daily 4"]


def test_words_are_a_part_of_the_title_in_any_case_and_no_pattern(store: Store) -> None:
    added(store, repeat=DAILY, title="Water the PLANTS 100%")
    added(store, repeat=DAILY, title="Feed the cat")
    assert titles(store, words="plants") == ["Water the PLANTS 100%"]
    assert titles(store, words="100%") == ["Water the PLANTS 100%"]
    assert titles(store, words="%") == ["Water the PLANTS 100%"]
    assert titles(store, words="_") == []
