"""Errors that callers read of a database that cannot be used, and details that only the log has."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidSetting, StoreUnavailable, StoreUnwritable
from duetime.scheduler.runtime.failure_log import REPEAT_INTERVAL_S, RepeatFilter
from duetime.scheduler.store import open_store
from duetime.scheduler.store.database import driver_errors
from duetime.scheduler.store.database.sqlite import Sqlite
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from tests.builders import added

NOBODY = "postgresql+psycopg://mallory:hunter2@127.0.0.1:1/ledger"


def test_the_words_of_the_driver_go_to_the_log_and_not_to_callers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_errors.log, "filters", [])  # other tests may have logged the same
    with pytest.raises(StoreUnavailable) as refused:
        open_store(NOBODY)
    assert (
        str(refused.value) == "The database cannot be reached, so nothing was read or stored; the log has the reason."
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


BUSY = "The database is busy: another call holds what this one needs. Nothing was stored; try again."


def raising(code: str) -> Callable[[Connection], object]:
    """Return work in which the server raises an error in the words of another language."""
    statement = f"DO $$ BEGIN RAISE EXCEPTION 'gesperrt' USING ERRCODE = '{code}'; END $$"
    return lambda connection: connection.exec_driver_sql(statement)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("40001", BUSY),
        ("40P01", BUSY),
        ("55P03", BUSY),
        ("57014", "The query took too long. Narrow the filter, or shorten the time range."),
        ("53100", "The disk is full. Nothing was stored; free some space and try again."),
        ("25006", "The database cannot be written. Nothing was stored; check its permissions and its disk."),
    ],
)
def test_the_code_of_a_server_says_what_callers_read(empty_postgres: str, code: str, sentence: str) -> None:
    with closing(open_store(empty_postgres)) as store, pytest.raises(StoreUnavailable) as refused:
        store._database.write(raising(code))
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("code", "kind", "sentence"),
    [
        (sqlite3.SQLITE_FULL, StoreUnwritable, "The disk is full. "),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreUnwritable, "The disk is full. "),
        (sqlite3.SQLITE_IOERR_READ, StoreUnavailable, "The disk of the database file failed. "),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreUnwritable, "The database file cannot be written. "),
    ],
)
def test_the_code_of_sqlite_says_what_callers_read(code: int, kind: type[StoreUnavailable], sentence: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(kind, match=f"^{sentence}"), driver_errors.translated():
        raise error


@pytest.mark.postgres
def test_a_mistake_of_this_code_is_no_outage_of_the_server(empty_postgres: str) -> None:
    with closing(open_store(empty_postgres)) as store, pytest.raises(ProgrammingError):
        store._database.write(lambda connection: connection.exec_driver_sql("SELECT * FROM nothing"))


@pytest.mark.postgres
def test_a_row_that_another_call_holds_is_busy_and_not_out_of_reach(empty_postgres: str) -> None:
    with closing(open_store(empty_postgres)) as first, closing(open_store(empty_postgres)) as second:
        task_id = added(first).task.id
        statement = f"SELECT id FROM tasks WHERE id = '{task_id}' FOR UPDATE NOWAIT"

        def hold(connection: Connection) -> None:
            connection.exec_driver_sql(statement)
            with pytest.raises(StoreUnavailable) as refused:
                second._database.write(lambda other: other.exec_driver_sql(statement))
            assert str(refused.value) == BUSY

        first._database.write(hold)


def test_a_file_that_another_process_writes_is_busy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'duetime.db'}"
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        database = second._database
        assert isinstance(database, Sqlite)
        database._raw.execute("PRAGMA busy_timeout = 0")

        def hold(_connection: Connection) -> None:
            with pytest.raises(StoreUnavailable) as refused:
                database.write(lambda _other: None)
            assert "The database is busy: others have been writing" in str(refused.value)

        first._database.write(hold)


@pytest.mark.postgres
@pytest.mark.parametrize("call", ["look", "attempt", "read", "write"])
def test_an_exception_amid_a_statement_leaves_its_answer_to_no_later_call(
    migrated_postgres_url: str, call: str
) -> None:
    """A program may raise from the handler of a signal, such as a soft time limit, while the driver waits."""

    def interrupted(connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        raw.pgconn.send_query(b"SELECT 1")
        raise RuntimeError("soft time limit")

    with closing(open_store(migrated_postgres_url)) as store:
        with pytest.raises(RuntimeError, match="soft"):
            getattr(store._database, call)(interrupted)
        assert store._database.look(lambda each: each.exec_driver_sql("SELECT 2").scalar_one()) == 2
        assert store._database.attempt(lambda each: each.exec_driver_sql("SELECT 3").scalar_one()).result == 3
