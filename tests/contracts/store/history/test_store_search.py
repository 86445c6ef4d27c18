"""Searches in titles and in the history: the same results with an index, behind it and without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.records import Change, NewTask
from duetime.scheduler.store import SearchState, Store, open_store
from duetime.scheduler.store.lists import event_list, task_list
from duetime.scheduler.store.text_index import sqlite_index, text_search
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord
from duetime.server.doctor.database import search_check
from sqlalchemy import Connection

from tests import services
from tests.builders import NOON, TENANT, Clock, a_task, added, cancelled, counted
from tests.contracts.store.statement_log import statements_of

ALPHABET = "ab AB%_/\"'*éÉßẞſİıσςΣ会议é🦓\\"
"""Few characters, so that most words are found somewhere; cases and marks that databases fold in their own ways."""


def titles(store: Store, words: str, *states: State) -> list[str]:
    where = TaskFilter(query=words, states=states)
    found: list[str] = []
    cursor = None
    while True:
        page, cursor = store.tasks.page(TENANT, where, limit=20, cursor=cursor)
        found += [each.task.title for each in page]
        if cursor is None:
            break
    counts = counted(store, where, 1_000)
    assert counts.at_least or sum(counts.by_state.values()) == len(found)
    return found


def said(store: Store, words: str) -> list[str | None]:
    found, cursor = [], None
    while True:
        page = store.history.events(TENANT, EventFilter(text=words), limit=20, cursor=cursor)
        found += [event.reason for event in page.events]
        cursor = page.cursor
        if cursor is None:
            return found


def test_a_look_for_events_that_are_not_in_the_index_is_two_statements(store: Store) -> None:
    while store.search.advance():
        pass
    with statements_of(store) as looks:
        assert not store.search.advance()
    assert len(looks) == (2 if store.search.needs_advance else 0), looks


def retitled(store: Store, record: TaskRecord, title: str) -> None:
    def decide(found: TaskRecord) -> Change:

        return Change(replace(found.task, title=title, revision=found.task.revision + 1), found.run)

    store.tasks.change(TENANT, record.task.id, actor="alice", kind=EventKind.RESCHEDULED, decide=decide)


def phrase(random: Random, longest: int) -> str:
    return "".join(random.choices(ALPHABET, k=random.randint(1, longest)))


@pytest.fixture(params=["rare", "common", "too common"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let words count as rare up to thousands of matches, or as common from two, with a window of few rows.

    Words that are too common for their events to be looked up are found by reading.
    """
    if request.param != "rare":
        monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 1)
        monkeypatch.setattr(task_list, "MAX_ROWS_READ_SOON", 7)
        monkeypatch.setattr(event_list, "MAX_EVENTS_READ_FIRST", 3)
        monkeypatch.setattr(event_list, "MAX_EVENTS_READ_SOON", 7)
    if request.param == "too common":
        monkeypatch.setattr(text_search, "MAX_COMMON_MATCHES", 2)
        monkeypatch.setattr(text_search, "MAX_SAMPLE_MATCHES", 2)


@pytest.mark.usefixtures("how")
def test_a_part_of_a_title_finds_the_same_tasks_with_and_without_an_index(store: Store) -> None:
    random = Random(7)
    known = [phrase(random, 12) for _ in range(60)]
    for number, title in enumerate(known):
        record = added(store, title=title)
        if number % 3 == 0:
            cancelled(store, record)
        if number == 30:
            advanced(store)
    for _ in range(20):
        words = phrase(random, 4)
        expected = sorted(title for title in known if words.casefold() in title.casefold())
        assert sorted(titles(store, words)) == expected, words
        assert set(titles(store, words, State.SCHEDULED)) <= set(expected)


@pytest.mark.usefixtures("how")
def test_a_part_of_a_title_or_a_reason_finds_the_same_events(store: Store) -> None:
    random = Random(11)
    known = [(phrase(random, 8), phrase(random, 12)) for _ in range(40)]
    for number, (title, reason) in enumerate(known):
        cancelled(store, added(store, title=title), reason=reason)
        if number == 20:
            advanced(store)
    for _ in range(16):
        words = phrase(random, 4)
        titled = [words.casefold() in title.casefold() for title, _ in known]
        given = [ascii_lower(words) in ascii_lower(reason) for _, reason in known]
        expected = 2 * sum(titled) + sum(g and not t for g, t in zip(given, titled, strict=True))
        assert len(said(store, words)) == expected, words


def ascii_lower(words: str) -> str:
    return words.encode().lower().decode()


def advanced(store: Store) -> None:
    while store.search.advance():
        pass


def test_a_new_title_is_found_and_the_old_one_is_not(store: Store) -> None:
    record = added(store, title="Call the zebra")
    advanced(store)
    retitled(store, record, "Call the giraffe")
    for _ in range(2):
        assert titles(store, "zebra") == []
        assert titles(store, "giraffe") == ["Call the giraffe"]
        assert len(said(store, "GIRAFFE")) == 2
        advanced(store)


def test_a_rare_word_without_a_trigram_is_looked_for_in_titles_alone(store: Store) -> None:
    filled(store, 30)
    with statements_of(store) as found:
        store.tasks.page(TENANT, TaskFilter(query="ze"), limit=9)
    of_runs = [sql for sql in found if "ORDER BY runs.listed_at" in sql]
    assert len(of_runs) == 2
    assert all("json_each" in sql or "ANY (" in sql for sql in of_runs), of_runs


@pytest.mark.postgres
def test_letters_that_postgresql_does_not_know_are_not_looked_up_in_its_index(postgres_server: str) -> None:
    with services.postgres_database(postgres_server, options="TEMPLATE template0 LC_CTYPE 'C' LC_COLLATE 'C'") as url:
        store = open_store(url, clock=Clock())
        added(store, title="会議室の予約")
        with statements_of(store) as found:
            assert (titles(store, "会議室"), len(said(store, "会議室"))) == (["会議室の予約"], 1)
            assert [sql for sql in found if "title_folded LIKE" in sql and "JOIN" not in sql] == []
        assert search_check(store).finding.endswith("this database was created with LC_CTYPE C")
        with statements_of(store) as found:
            assert titles(store, "zebra") == []
            assert any("title_folded LIKE" in sql for sql in found)
        store.close()


# -- SQLite: the index is filled behind the events


@pytest.fixture
def file(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


def filled(store: Store, count: int, zebra: int | None = 7) -> None:
    """Add tasks, all of them about a dentist and one of them about a zebra."""
    new = [a_task(NOON, title=f"Dentist {n}{' and zebra' if n == zebra else ''}") for n in range(count)]
    store.tasks.add_many([NewTask(task, run, "alice") for task, run in new])


def steps(store: Store, words: str) -> tuple[int, int]:
    """Return how many hundred steps SQLite's machine takes for a list of tasks with these words, and for events."""
    with store._database.engine.connect() as connection:
        raw: Any = connection.connection.dbapi_connection
    taken: list[None] = []
    raw.set_progress_handler(lambda: taken.append(None), 100)
    store.tasks.page(TENANT, TaskFilter(query=words), limit=9)
    of_tasks = len(taken)
    store.history.events(TENANT, EventFilter(text=words), limit=9)
    raw.set_progress_handler(None, 0)
    return of_tasks, len(taken) - of_tasks


def test_a_rare_text_is_found_without_reading_every_row(file: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "MAX_ROWS_SAMPLED", 50)
    filled(file, 3_000)
    assert min(steps(file, "zebra")) > 200
    advanced(file)
    for words in ("zebra", "ze", "z", "ra", "qq"):
        assert max(steps(file, words)) < 40, words
    assert titles(file, "ZEBRA") == ["Dentist 7 and zebra"]


def test_common_words_that_are_far_back_are_found_without_reading_what_is_newer(
    file: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 10)
    monkeypatch.setattr(event_list, "MAX_EVENTS_READ_FIRST", 50)
    zebras = [added(file, title=f"Zebra {number}").task for number in range(20)]
    for _ in range(30):
        clock.forward(seconds=1)
        filled(file, 100, zebra=None)
    advanced(file)

    assert steps(file, "zebra ")[1] < 50
    found = file.history.events(TENANT, EventFilter(text="zebra "), limit=3)
    assert [event.task_id for event in found.events] == [task.id for task in zebras[:-4:-1]]


def test_common_words_in_a_list_start_no_further_process_of_the_server(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner expects few of them, and so to read to the end; a page that is full soon is not worth a process."""
    monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 1)
    for number in range(5):
        added(store, title=f"Zebra {number}")

    def processes(words: str) -> Callable[[Connection], str]:
        def read(connection: Connection) -> str:
            where = TaskFilter(query=words)
            found, _ = task_list.page(
                connection, TENANT, where, task_list.matching(connection, TENANT, where), limit=3, behind=[]
            )
            assert len(found) == (3 if words == "zebra" else 1)
            return str(connection.exec_driver_sql("SHOW max_parallel_workers_per_gather").scalar_one())

        return read

    if not store.search.needs_advance:  # SQLite has one process
        assert store._database.read(processes("zebra")) == "0"
        assert store._database.read(processes("zebra 3")) != "0", "for that transaction alone"


def test_the_ids_of_many_tasks_with_common_words_are_not_read_from_the_server(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "MAX_INDEXED_MATCHES", 1)
    monkeypatch.setattr(event_list, "MAX_EVENTS_READ_FIRST", 1)
    zebras = [added(store, title=f"Zebra {number}").task.id for number in range(5)]
    added(store, title="Dentist")
    if not store.search.needs_advance:  # SQLite is in this process
        monkeypatch.setattr(text_search, "matching_tasks", None)
    found = store.history.events(TENANT, EventFilter(text="zebra"), limit=3)
    assert [event.task_id for event in found.events] == zebras[:-4:-1]


def test_events_are_indexed_in_batches_and_each_once(file: Store) -> None:
    filled(file, 2_500)
    assert [file.search.advance() for _ in range(5)] == [True, True, True, False, False]
    added(file, title="One more zebra")
    assert sorted(titles(file, "zebra")) == ["Dentist 7 and zebra", "One more zebra"]
    assert file.search.advance() is False
    assert sorted(titles(file, "zebra")) == ["Dentist 7 and zebra", "One more zebra"]


def test_an_index_that_is_far_behind_is_not_used(file: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    file.search.advance()
    added(file, title="Call the zebra")
    monkeypatch.setattr(text_search, "MAX_UNINDEXED_EVENTS", 0)
    assert titles(file, "zebra") == ["Call the zebra"]


def test_a_python_without_full_text_search_schedules_and_finds_all_the_same(
    file: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(file, title="Call the zebra")
    advanced(file)
    monkeypatch.setattr(sqlite_index, "MODULE", "no_such_module")
    with_index = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(), synchronous="OFF")
    added(with_index, title="Write to the zebra")
    assert len(titles(with_index, "zebra")) == 2
    assert with_index.search.state() is SearchState.UNSUPPORTED
    assert (with_index.search.advance(), with_index.search.needs_advance) == (False, False)
    with_index.close()
    monkeypatch.undo()
    assert len(titles(file, "zebra")) == 2
    assert file.search.state() is SearchState.INDEXED
