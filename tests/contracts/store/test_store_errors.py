"""Errors that callers read of a database that cannot be used, and details that only the log has."""

from __future__ import annotations

import logging

import pytest
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable
from duetime.scheduler.runtime.repeat_filter import REPEAT_INTERVAL_S, RepeatFilter
from duetime.scheduler.store import open_store
from duetime.scheduler.store.database import driver_errors

NOBODY = "postgresql+psycopg://mallory:hunter2@127.0.0.1:1/ledger"


def test_the_words_of_the_driver_go_to_the_log_and_not_to_callers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_errors.log, "filters", [])  # other tests may have logged the same
    with pytest.raises(StoreUnavailable) as refused:
        open_store(NOBODY)
    assert str(refused.value) == (
        "The database cannot be reached. Nothing was stored; the server's log has the reason."
    )
    assert "127.0.0.1" in caplog.text
    assert "hunter2" not in caplog.text


def test_lines_of_one_kind_are_logged_once_a_minute_and_counted() -> None:
    seconds = [0.0]
    repeats = RepeatFilter(clock=lambda: seconds[0])
    passed: list[str] = []

    def line(text: str, *values: object) -> None:
        record = logging.LogRecord("duetime", logging.WARNING, __file__, 1, text, values, None)
        if repeats.filter(record):
            passed.append(record.getMessage())

    for port in (4001, 4002, 4003):
        line("no answer at port %d", port)
    line("the disk is full")
    seconds[0] = REPEAT_INTERVAL_S
    line("no answer at port %d", 4004)
    assert passed == ["no answer at port 4001", "the disk is full", "no answer at port 4004 (2 more like this before)"]


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///a\0b",
        "sqlite://:memory:",
        "postgresql://[::1",
        "postgresql://me:p@ss:w0rd@db:port/x",
        "postgresql://me:p@ss:w0rd@db\0/x",
        "postgresql://\ud800/x",
    ],
)
def test_a_broken_address_is_refused_with_what_is_accepted_and_without_its_password(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"database_url: .* Accepted: sqlite:///<path>") as refused:
        open_store(url)
    assert "p@ss" not in str(refused.value)
    assert "w0rd" not in str(refused.value)
