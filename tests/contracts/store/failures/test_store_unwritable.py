"""Rows that cannot be written: which failures are said, and how many rows there are."""

from __future__ import annotations

import pytest
from duetime.scheduler.store.database import unwritable
from duetime.scheduler.store.database.unwritable import RETRY_INTERVAL_S, UNWRITABLE_LOG_INTERVAL_S, UnwritableRows


class Ticks:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_a_row_is_news_once_and_then_once_an_hour() -> None:
    ticks = Ticks()
    rows = UnwritableRows(ticks)
    said = []
    for ticks.at in range(0, 3 * int(UNWRITABLE_LOG_INTERVAL_S), 3):
        if rows.is_news("r_1"):
            said.append(ticks.at)
    assert said == [0, UNWRITABLE_LOG_INTERVAL_S, 2 * UNWRITABLE_LOG_INTERVAL_S]
    assert rows.is_news("r_2"), "each row is one for itself"


def test_rows_count_until_a_minute_after_their_last_failure() -> None:
    ticks = Ticks()
    rows = UnwritableRows(ticks)
    rows.is_news("r_1")
    ticks.at = RETRY_INTERVAL_S - 1
    rows.is_news("r_2")
    assert rows.count() == 2
    ticks.at = RETRY_INTERVAL_S
    assert rows.count() == 1


def test_no_more_rows_are_kept_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritable, "MAX_ROWS_KEPT", 2)
    rows = UnwritableRows(Ticks())
    for row_id in ("r_1", "r_2", "r_1", "r_3"):
        rows.is_news(row_id)
    assert (rows.count(), rows.is_news("r_1"), rows.is_news("r_2")) == (2, False, True)
