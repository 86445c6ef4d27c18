"""The tail of the event log moves behind what was delivered and nothing else, and says when to look again."""

from __future__ import annotations

import logging

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S, MAX_DELIVERIES, EventTail

from tests.contracts.event_log import Log

OUTAGE = StoreUnavailable("away")


def tail_of(log: Log | None, now: list[float] | None = None, *, page_size: int = 500) -> EventTail:
    at = [0.0] if now is None else now
    return EventTail("tail", lambda: log, page_size=page_size, clock=lambda: at[0])


def delivered(tail: EventTail, failure: Exception | None = None) -> list[int]:
    """Look once, and return the ids of the events that were delivered: none with a failure."""
    found: list[int] = []
    with tail.survived():
        page = tail.read()
        with tail.delivery(page):
            if failure is not None:
                raise failure
            found = [event.id for event in page.events]
    return found


def test_a_tail_begins_behind_the_newest_event() -> None:
    log = Log(1, 2)
    tail = tail_of(log)
    tail.begin(tail.newest())
    log.add(3)

    assert delivered(tail) == [3]
    assert tail.place == 3


def test_events_that_were_not_read_or_not_delivered_come_again() -> None:
    log = Log(1, 2, failures=(OUTAGE, RuntimeError("defect")))
    tail = tail_of(log)
    tail.begin(0)

    assert [delivered(tail), delivered(tail), delivered(tail, OUTAGE), tail.place] == [[], [], [], 0]
    assert [delivered(tail), delivered(tail), tail.place] == [[1, 2], [], 2]
    assert log.reads == [0, 0, 0, 0, 2]


def test_a_tail_goes_on_behind_the_last_event_though_an_earlier_one_has_a_greater_id() -> None:
    tail = tail_of(Log(12, 11))
    tail.begin(10)

    assert (delivered(tail), tail.place) == ([12, 11], 11)


def test_an_outage_gives_up_no_page_and_a_defect_one_after_so_many_deliveries(caplog: pytest.LogCaptureFixture) -> None:
    tail = tail_of(Log(1, 2, 3), page_size=2)
    tail.begin(0)
    for failure in (OUTAGE, RuntimeError("defect")):
        for _ in range(MAX_DELIVERIES - 1):
            assert (delivered(tail, failure), tail.place) == ([], 0)
    for _ in range(MAX_DELIVERIES):
        assert (delivered(tail, OUTAGE), tail.place) == ([], 0)
    delivered(tail, RuntimeError("defect"))

    assert "tail: gave up 2 events behind event 0" in caplog.text
    assert delivered(tail) == [3]


def test_a_delivery_of_no_events_may_fail_for_ever() -> None:
    tail = tail_of(Log(1))
    tail.begin(1)
    for _ in range(MAX_DELIVERIES + 1):
        with pytest.raises(RuntimeError), tail.delivery(tail.read()):
            raise RuntimeError


def test_a_look_is_due_after_an_interval_and_at_once_behind_a_full_page() -> None:
    now, log = [0.0], Log(1, 2, 3, failures=(OUTAGE,))
    tail = tail_of(log, now, page_size=2)
    tail.begin(0)
    left = [tail.seconds_left()]
    for seconds in (LOOK_INTERVAL_S, LOOK_INTERVAL_S / 4, LOOK_INTERVAL_S):
        now[0] += seconds
        delivered(tail)
        left.append(tail.seconds_left())

    assert left == [LOOK_INTERVAL_S, LOOK_INTERVAL_S, 0, LOOK_INTERVAL_S], "begun, failed, a full page, the rest"
    now[0] += LOOK_INTERVAL_S * 3
    assert tail.seconds_left() == 0


def test_a_look_that_fails_before_it_reads_is_due_again_after_an_interval() -> None:
    tail = tail_of(Log(1), now := [5.0])
    tail.begin(0)
    now[0] += LOOK_INTERVAL_S
    assert tail.seconds_left() == 0
    with tail.survived():
        if tail.place == 0:
            raise OUTAGE
    assert tail.seconds_left() == LOOK_INTERVAL_S


@pytest.mark.parametrize("place", [None, 7])
def test_a_tail_that_ended_or_began_elsewhere_during_a_delivery_stays_there(place: int | None) -> None:
    tail = tail_of(Log(1, 2))
    tail.begin(0)
    with tail.delivery(tail.read()):
        tail.begin(place)

    assert tail.place == place


def test_nothing_is_new_without_a_place_or_before_the_store_is_open() -> None:
    log = Log(1)
    assert (delivered(tail_of(log)), log.reads) == ([], [])
    closed = tail_of(None)
    closed.begin(closed.newest())
    assert (delivered(closed), closed.place) == ([], None)


def test_a_row_of_failures_is_logged_by_its_kinds_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    defect = RuntimeError("defect")
    tail = tail_of(Log(1, failures=(OUTAGE, OUTAGE, defect)))
    tail.begin(0)
    for _ in range(5):
        delivered(tail)

    assert [(each.levelname, each.getMessage(), bool(each.exc_info)) for each in caplog.records] == [
        ("WARNING", "tail: away", False),
        ("DEBUG", "tail: away", False),
        ("WARNING", "tail: defect", True),
        ("INFO", "tail: recovered, on attempt 4", False),
    ]
