"""Cursors of pages: encrypted with a key of the database, which all processes share."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from contextlib import closing

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.tables.pools import server_keys
from duetime.scheduler.store.sql.cursors import Cursors
from duetime.scheduler.views import TaskFilter
from sqlalchemy import delete, select

from tests.builders import TENANT, added
from tests.contracts.store.statement_log import statements_of

FOREIGN = (
    "cursor: this server cannot read this cursor; it may be of another server, or older than a restored backup. "
    "Begin at the first page: list again without a cursor"
)


def first_page(store: Store) -> str:
    for _ in range(3):
        added(store)
    _, cursor = store.tasks.page(TENANT, TaskFilter(), limit=2)
    assert cursor
    return cursor


def keys_read(statements: Sequence[str]) -> int:
    return sum("server_keys" in sql for sql in statements)


def raw_of(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def test_another_process_reads_on_where_one_stopped(store: Store, url: str) -> None:
    cursor = first_page(store)
    with closing(open_store(url)) as other:
        page, following = other.tasks.page(TENANT, TaskFilter(), limit=2, cursor=cursor)
    assert (len(page), following) == (1, None)


def test_processes_that_make_the_key_at_once_get_the_same_one(store: Store, url: str) -> None:
    def make() -> None:
        with closing(open_store(url)) as other:
            made.append(Cursors(other._database).write([1], of="list"))

    made: list[str] = []
    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 6
    assert len(set(made)) == 1


def test_a_list_of_one_page_needs_no_key_and_further_pages_read_it_once(store: Store) -> None:
    with statements_of(store) as statements:
        added(store)
        store.tasks.page(TENANT, TaskFilter(), limit=2)
        assert keys_read(statements) == 0
        cursor = first_page(store)
        made = keys_read(statements)
        for _ in range(3):
            store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=cursor)
        store.history.events(TENANT, EventFilter(), limit=1)
        assert 0 < keys_read(statements) == made


def test_a_position_that_was_changed_is_refused(store: Store) -> None:
    raw = raw_of(first_page(store))
    for place in (0, 15, 16, 20, len(raw) - 2):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        with pytest.raises(InvalidArgument, match=FOREIGN):
            store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=forged)


def test_a_cursor_does_not_reveal_its_position(store: Store) -> None:
    """Ids of events count the changes of all tenants, and titles and times are in positions too."""
    cursors = Cursors(store._database)
    made = [raw_of(cursors.write([number], of="list")) for number in (1, 999, 10**6)]
    assert len({len(raw) for raw in made}) == 1
    assert all(str(number).encode() not in raw for number in (1, 999, 10**6) for raw in made[1:] if number > 1)
    page = raw_of(first_page(store))
    listed = [each.task.id.encode() for each in store.tasks.page(TENANT, TaskFilter(), limit=9)[0]]
    assert listed
    assert not any(task_id in page for task_id in listed)
    assert cursors.read(cursors.write([10**6, "x"], of="list"), of="list") == [10**6, "x"]


def test_a_cursor_without_a_seal_as_before_is_refused(store: Store) -> None:
    body = json.dumps(["open", 1, "t_1"]).encode()
    for cursor in (body, b"123456789" + body):
        with pytest.raises(InvalidArgument, match=FOREIGN):
            store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=base64.urlsafe_b64encode(cursor).decode())


def test_a_cursor_of_before_the_key_was_replaced_is_refused_and_new_ones_work_everywhere(
    store: Store, url: str
) -> None:
    old = first_page(store)
    with closing(open_store(url)) as other:
        store._database.write(lambda connection: connection.execute(delete(server_keys)))
        with pytest.raises(InvalidArgument, match=FOREIGN):
            other.tasks.page(TENANT, TaskFilter(), limit=2, cursor=old)
        _, new = other.tasks.page(TENANT, TaskFilter(), limit=2)
        assert new not in {None, old}
        assert len(store.tasks.page(TENANT, TaskFilter(), limit=2, cursor=new)[0]) == 1
    assert len(store._database.read(lambda connection: connection.execute(select(server_keys)).all())) == 1


def test_a_cursor_of_one_kind_of_list_is_none_of_another(store: Store) -> None:
    cursor = first_page(store)
    with pytest.raises(InvalidArgument, match="made with other filters"):
        store.history.events(TENANT, EventFilter(), limit=2, cursor=cursor)
    with pytest.raises(InvalidArgument, match="made with other filters"):
        store.dead_letters.page(TENANT, limit=2, cursor=cursor)


def test_a_place_in_the_stream_of_changes_is_read_by_its_tenant_alone_and_by_nobody_outside(store: Store) -> None:
    place = store.history.cursor_at(TENANT, 4711)

    assert store.history.place_of(TENANT, place) == 4711
    assert (4711).to_bytes(8) not in raw_of(place)
    assert place != store.history.cursor_at(TENANT, 4711)
    for tenant, text in (("other", place), (TENANT, place[:-2] + "AA"), (TENANT, ""), (TENANT, "x"), (TENANT, "%")):
        with pytest.raises(InvalidArgument, match="cannot read this cursor"):
            store.history.place_of(tenant, text)
