"""A tail over the events of a database delivers each once, in order, whatever its pages and failures are."""

from __future__ import annotations

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.runtime.event_tail import EventTail
from duetime.scheduler.store import Store

from tests.builders import added


def test_a_tail_delivers_each_event_of_all_tenants_once(store: Store) -> None:
    added(store)
    tail = EventTail("tail", lambda: store.history, page_size=2)
    tail.begin(tail.newest())
    made = [added(store, tenant=tenant).task.id for tenant in ("acme", "globex", "acme", "globex", "acme")]
    told: list[str] = []
    for attempt in range(8):
        with tail.survived():
            page = tail.read()
            with tail.delivery(page):
                if attempt % 2:
                    raise StoreUnavailable("away")
                told += [event.task_id for event in page.events]

    assert told == made
    assert tail.place == store.history.latest()
