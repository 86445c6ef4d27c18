"""A backup that was restored onto a PostgreSQL server, whose transactions count from a lower or a higher number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.audit.verdict import ChainVerdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database import transaction_order
from duetime.scheduler.store.database.transaction_order import EVENT_ID_GAP_COUNT
from duetime.scheduler.store.store import connect
from sqlalchemy import Connection, make_url, text

from tests import services
from tests.builders import NOON, TENANT, Clock, added, cancelled

pytestmark = pytest.mark.postgres

AHEAD_COUNTS = (1_000_000_000, 0)
"""Transactions by which the old server was ahead of the new one; 0 where the new one counts on from a higher number."""

_MOVES = (
    "UPDATE events SET tx = tx + :ahead",
    "UPDATE audit_entries SET tx = tx + :ahead",
    "UPDATE audit_progress SET event_tx = event_tx + :ahead, entry_tx = entry_tx + :ahead",
)


Restored = Callable[[Store], None]

_COPIED = "tenant, task_id, at, kind, actor, tx"


@pytest.fixture
def url(empty_postgres: str) -> str:
    return empty_postgres


@pytest.fixture(params=AHEAD_COUNTS, ids=["behind", "ahead"])
def restored(request: pytest.FixtureRequest) -> Restored:
    """Leave rows as a dump leaves them: written by other transactions than they name."""
    return lambda store: moved(store, request.param)


def moved(store: Store, ahead: int) -> None:
    def work(connection: Connection) -> None:
        for statement in _MOVES:
            connection.execute(text(statement), {"ahead": ahead})

    store._database.write(work)


def written(store: Store, statement: str) -> None:
    store._database.write(lambda connection: connection.execute(text(statement)))


def sealed(store: Store) -> None:
    while store.audit_chain.seal():
        pass


def verdict(store: Store) -> ChainVerdict:
    sealed(store)
    [found] = store.audit_chain.verify(TENANT)
    return found


def ids_since(store: Store, place: int) -> list[int]:
    return [event.id for event in store.history.since(place)]


def recorded(store: Store) -> None:
    store.audit.record(AuditEntry(TENANT, AuditKind.POOL_SET, "ann", "cli ann", "gpu", detail={"capacity": 2}))


def filled(store: Store) -> list[int]:
    """Store three events and an entry, all sealed; return the ids of the events."""
    added(store)
    cancelled(store, added(store))
    recorded(store)
    sealed(store)
    return ids_since(store, 0)


@pytest.fixture
def reopened(store: Store, url: str, clock: Clock, restored: Restored) -> Iterator[Store]:
    """Return a store that was opened after the restore of one that was full."""
    filled(store)
    restored(store)
    opened = open_store(url, clock=clock)
    yield opened
    opened.close()


def test_the_audit_chain_holds_and_goes_on(reopened: Store) -> None:
    added(reopened)
    recorded(reopened)
    found = verdict(reopened)
    assert (found.broken, found.entries, found.checked, found.pending) == (None, 6, 6, 0)


@pytest.mark.damages
@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ("UPDATE events SET actor = 'mallory' WHERE kind = 'cancelled'", "was changed"),
        ("DELETE FROM events WHERE kind = 'cancelled'", "was deleted, and no rule of retention did it"),
        (
            f"INSERT INTO events ({_COPIED}, seq) SELECT {_COPIED}, 99 FROM events ORDER BY id LIMIT 1",
            "was added without being sealed",
        ),
    ],
)
def test_the_audit_chain_still_reveals_what_was_done_to_rows(reopened: Store, change: str, wrong: str) -> None:
    added(reopened)
    reopened._database.write(lambda connection: connection.execute(text(change)))
    broken = verdict(reopened).broken
    assert broken is not None
    assert broken.wrong.endswith(wrong)


def test_rows_not_sealed_in_the_backup_are_sealed(store: Store, restored: Restored) -> None:
    added(store)
    recorded(store)
    restored(store)
    added(store)
    found = verdict(store)
    assert (found.broken, found.entries, found.pending) == (None, 3, 0)


def test_a_chain_that_was_sealed_in_part_goes_on_in_order(store: Store, restored: Restored) -> None:
    filled(store)
    added(store)
    restored(store)
    added(store)
    found = verdict(store)
    assert (found.broken, found.entries, found.checked, found.pending) == (None, 6, 6, 0)


def test_a_stream_that_ended_before_the_backup_gets_each_change_once(
    store: Store, url: str, clock: Clock, restored: Restored
) -> None:
    first, *rest = filled(store)
    restored(store)
    opened = open_store(url, clock=clock)
    added(opened)
    new = opened.history.latest()
    assert ids_since(opened, first) == [*rest, new]
    assert ids_since(opened, rest[-1]) == [new]
    assert ids_since(opened, 0) == [first, *rest, new]
    opened.close()


def test_old_changes_are_not_told_as_new_ones(reopened: Store) -> None:
    added(reopened)
    place = reopened.history.latest()
    assert ids_since(reopened, place) == []
    added(reopened)
    assert ids_since(reopened, place) == [reopened.history.latest()]


def test_ids_of_events_that_are_lost_are_not_given_again(
    store: Store, url: str, clock: Clock, restored: Restored
) -> None:
    *_, last = filled(store)
    restored(store)
    opened = open_store(url, clock=clock)
    added(opened)
    new = opened.history.latest()
    assert new > last + EVENT_ID_GAP_COUNT
    assert ids_since(opened, last + 1_000) == [new]
    opened.close()


def test_a_process_that_worked_through_the_restore_finds_it(store: Store, restored: Restored) -> None:
    filled(store)
    restored(store)
    added(store)  # the number of its transaction is below those of the old rows
    found = verdict(store)
    assert (found.broken, found.entries, found.pending) == (None, 5, 0)
    assert ids_since(store, 0)[-1] == store.history.latest()


def test_a_second_restore_keeps_the_order_of_the_first(store: Store, restored: Restored) -> None:
    before = filled(store)
    for _ in range(2):
        restored(store)
        added(store)
        assert verdict(store).broken is None
    assert ids_since(store, 0)[:3] == before
    assert sorted(ids_since(store, 0)) == ids_since(store, 0)
    assert verdict(store).entries == 6


def test_the_last_rows_of_the_backup_may_have_been_deleted(store: Store, restored: Restored) -> None:
    filled(store)
    restored(store)
    store._database.write(lambda connection: connection.execute(text("DELETE FROM events")))
    store._database.write(lambda connection: connection.execute(text("DELETE FROM audit_entries")))
    recorded(store)
    sealed(store)
    [found] = store.audit_chain.heads(TENANT)
    assert found.entries == 5


def test_one_of_many_processes_moves_the_numbers(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch, restored: Restored
) -> None:
    filled(store)
    restored(store)
    processes = [connect(url) for _ in range(4)]
    looked, locked, look = Barrier(len(processes)), Barrier(len(processes), timeout=0.5), transaction_order._found

    def found(connection: Connection) -> transaction_order.StoredNumbers:
        seen, raw = look(connection), connection.connection.driver_connection
        with suppress(BrokenBarrierError):  # the lock lets only one of them look again
            (looked if raw is not None and raw.autocommit else locked).wait()  # the first look has no transaction
        return seen

    monkeypatch.setattr(transaction_order, "_found", found)
    with ThreadPoolExecutor(len(processes)) as pool:
        moved = [*pool.map(transaction_order.repair, processes)]
    monkeypatch.undo()
    for database in processes:
        database.close()
    assert sorted(moved) == [False, False, False, True]
    added(store, NOON + timedelta(days=1))
    assert verdict(store).broken is None


def test_a_restore_that_earlier_code_did_not_notice_is_found_after_what_was_sealed_since(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = filled(store)[-1]
    moved(store, 0)
    monkeypatch.setattr(transaction_order, "repair", lambda _: False)
    added(store)
    sealed(store)
    monkeypatch.undo()
    added(store)
    found = verdict(store)
    assert (found.broken, found.entries, found.checked, found.pending) == (None, 6, 6, 0)
    added(store)
    assert store.history.latest() > last + EVENT_ID_GAP_COUNT


def test_the_gap_of_a_restore_is_left_once(store: Store, url: str, clock: Clock, restored: Restored) -> None:
    last = filled(store)[-1]
    restored(store)
    for _ in range(3):
        open_store(url, clock=clock).close()
        sealed(store)
    added(store)
    assert last + EVENT_ID_GAP_COUNT < store.history.latest() < last + 2 * EVENT_ID_GAP_COUNT


_OF_BANK = "SET actor = 'eve' WHERE tenant = 'bank'"


@pytest.mark.damages
@pytest.mark.parametrize(
    "changes",
    [
        [f"UPDATE events {_OF_BANK}"],
        [f"UPDATE events {_OF_BANK} AND id = (SELECT min(id) FROM events)"],
        [f"UPDATE audit_entries {_OF_BANK} AND id = (SELECT min(id) FROM audit_entries)", f"UPDATE events {_OF_BANK}"],
    ],
    ids=["events", "oldest", "both"],
)
def test_rows_of_one_tenant_that_somebody_changed_break_no_other_chain(
    store: Store, url: str, clock: Clock, changes: list[str]
) -> None:
    for tenant in ("bank", "acme", "acme", "bank"):
        added(store, tenant=tenant)
        store.audit.record(AuditEntry(tenant, AuditKind.POOL_SET, "ann"))
    sealed(store)
    for change in changes:
        store._database.write(lambda connection, it=change: connection.execute(text(it)))  # type: ignore[misc] # bound now
    opened = open_store(url, clock=clock)
    added(opened, tenant="acme")
    sealed(opened)
    found = {each.tenant: each for each in opened.audit_chain.verify()}
    opened.close()
    assert found["acme"].broken is None
    assert (found["acme"].entries, found["acme"].pending) == (5, 0)
    assert found["bank"].broken is not None
    assert found["bank"].broken.wrong.endswith("was changed")


@pytest.mark.damages
def test_changed_rows_between_others_are_no_restore(store: Store, url: str, clock: Clock) -> None:
    for tenant in ("bank", "acme", "bank"):
        added(store, tenant=tenant)
    last = ids_since(store, 0)[-1]
    change = "UPDATE events SET actor = 'eve' WHERE tenant = 'bank'"
    store._database.write(lambda connection: connection.execute(text(change)))
    opened = open_store(url, clock=clock)
    added(opened)
    assert opened.history.latest() == last + 1
    opened.close()


@pytest.mark.damages
@pytest.mark.parametrize(
    ("table", "count"), [("events", 2), ("audit_entries", 2), ("events", transaction_order.MAX_ROWS_LOOKED_AT + 1)]
)
def test_the_oldest_rows_changed_by_hand_are_no_restore_and_the_audit_chain_names_them(
    store: Store, caplog: pytest.LogCaptureFixture, table: str, count: int
) -> None:
    for _ in range(3):
        added(store)
        recorded(store)
    columns = "tenant, task_id, at, kind, actor"
    more = (
        f"SELECT {columns}, 9 + n FROM events, generate_series(1, {count}) AS n WHERE id = (SELECT min(id) FROM events)"
    )
    written(store, f"INSERT INTO events ({columns}, seq) {more}")
    sealed(store)
    last = store.history.last_id()
    written(store, f"UPDATE {table} SET actor = 'eve' WHERE id < (SELECT min(id) FROM {table}) + {count}")
    added(store)
    broken = verdict(store).broken
    assert store.history.latest() == last + 1
    assert caplog.messages == []
    assert broken is not None
    assert broken.wrong.endswith("was changed")


@pytest.mark.damages
def test_the_log_says_how_to_tell_a_restore_from_rows_that_were_all_changed_by_hand(
    store: Store, url: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    filled(store)
    written(store, "UPDATE events SET actor = 'eve'")
    opened = open_store(url, clock=clock)
    [said] = caplog.messages
    assert "restored from a dump" in said
    assert "`duetime audit verify`" in said
    broken = verdict(opened).broken
    opened.close()
    assert broken is not None
    assert broken.wrong.endswith("was changed")


def test_numbers_of_this_server_stay(store: Store, url: str, clock: Clock) -> None:
    filled(store)
    numbers = "SELECT array_agg(tx ORDER BY id) FROM events"
    before = store._database.read(lambda connection: connection.execute(text(numbers)).scalar_one())
    open_store(url, clock=clock).close()
    sealed(store)
    assert store._database.read(lambda connection: connection.execute(text(numbers)).scalar_one()) == before


@pytest.mark.parametrize("with_gap", [True, False])
def test_after_a_recovery_to_an_older_point_a_reader_gets_each_change_once_if_the_gap_is_left_by_hand(
    postgres_server: str, migrated_postgres_url: str, clock: Clock, *, with_gap: bool
) -> None:
    page = (Path(__file__).parents[4] / "docs" / "operations.md").read_text()
    [command] = re.findall(r"SELECT setval\('events_id_seq'[^\"]*", page)
    url = migrated_postgres_url
    with closing(open_store(url, clock=clock)) as before:
        filled(before)
    template = f'TEMPLATE "{make_url(url).database}"'
    with services.postgres_database(postgres_server, options=template) as older:  # its files are those of that moment
        with closing(open_store(url, clock=clock)) as lost:
            for _ in range(3):
                added(lost)
            place = lost.history.latest()
        with closing(open_store(older, clock=clock)) as store:
            assert store.history.last_id() < place
            if with_gap:
                store._database.write(lambda connection: connection.execute(text(command)))
            new = [added(store).task.id for _ in range(5)]
            told = [event.task_id for event in store.history.since(place)]
    assert told == (new if with_gap else new[3:])
    assert str(EVENT_ID_GAP_COUNT) in command
