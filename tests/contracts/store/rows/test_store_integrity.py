"""`Integrity` finds what the database does not refuse: each damage is planted behind the store's back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import LEGAL_MOVES
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.integrity import MAX_ROWS_NAMED, Integrity
from duetime.scheduler.store.schema.constraints import INVARIANTS
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.task import State
from duetime.scheduler.waits.signal import ReceivedSignal
from sqlalchemy import Connection, insert

from tests.builders import NOON, TENANT, Clock, added, cancelled, delivery, log_chunk, message, settlement, started
from tests.invariants import broken_tables

pytestmark = pytest.mark.damages

DAMAGES = {
    "a task without a run": ("tasks", "no current run", "UPDATE runs SET current = (1 = 0) WHERE state = 'running'"),
    "a run without its task": (
        "runs",
        "no task of its tenant",
        "UPDATE runs SET task_id = 't_gone' WHERE id = '{run}'",
    ),
    "a run of another tenant": ("runs", "no task of its tenant", "UPDATE runs SET tenant = 'else' WHERE id = '{run}'"),
    "an unknown state": ("runs", "unknown state", "UPDATE runs SET state = 'dreaming' WHERE id = '{run}'"),
    "an end of an open run": ("runs", "has an end", "UPDATE runs SET ended_at = listed_at WHERE state = 'scheduled'"),
    "an ended run without an end": ("runs", "has an end", "UPDATE runs SET ended_at = NULL WHERE state = 'cancelled'"),
    "a scheduled run without a time": ("runs", "waits for a", "UPDATE runs SET wake_at = NULL"),
    "a running one that waits": ("runs", "waits for a", "UPDATE runs SET wake_at = listed_at WHERE state = 'running'"),
    "a running one without a lease": ("runs", "a lease", "UPDATE runs SET lease_until = NULL WHERE state = 'running'"),
    "a running one without its attempt": (
        "runs",
        "open attempt",
        "UPDATE runs SET attempt = 7 WHERE state = 'running'",
    ),
    "an attempt that did not end": ("attempts", "is open", "UPDATE attempts SET ended_at = NULL"),
    "an attempt without its run": ("attempts", "names a run", "UPDATE attempts SET run_id = 'r_gone' || run_id"),
    "an event without its task": (
        "events",
        "names a task",
        "UPDATE events SET task_id = 't_gone' || task_id WHERE kind = 'ready'",
    ),
    "an event without its run": ("events", "names a run", "UPDATE events SET run_id = 'r_gone' WHERE kind = 'ready'"),
    "an event of a kind to come": ("events", "unknown kind", "UPDATE events SET kind = 'dreamt' WHERE kind = 'ready'"),
    "an illegal move": ("events", "move", "UPDATE events SET to_state = 'succeeded' WHERE kind = 'ready'"),
    "a gap in a history": ("events", "before it", "DELETE FROM events WHERE kind = 'ready'"),
    "a label without its task": ("task_labels", "names a task", "UPDATE task_labels SET task_id = 't_gone' || task_id"),
    "a key without its task": (
        "idempotency_keys",
        "names a task",
        (
            "INSERT INTO idempotency_keys (tenant, key, task_id, fingerprint, derived)"
            " VALUES ('a', 'k', 't', '{{}}', 1 = 0)"
        ),
    ),
    "a dead letter without its task": ("dead_letters", "names a task", "UPDATE dead_letters SET task_id = 't_gone'"),
    "a dead letter without its run": ("dead_letters", "names a run", "UPDATE dead_letters SET run_id = 'r_gone'"),
    "a message without its task": ("inbox", "names a task", "UPDATE inbox SET task_id = 't_gone'"),
    "a message without its run": ("inbox", "names a run", "UPDATE inbox SET run_id = 'r_gone'"),
    "a delivery without its task": ("deliveries", "names a task", "UPDATE deliveries SET task_id = 't_gone'"),
    "a delivery without its message": ("deliveries", "names a run", "UPDATE deliveries SET run_id = 'r_gone'"),
    "an unknown delivery": ("deliveries", "unknown state", "UPDATE deliveries SET state = 'lost'"),
    "a traceback without its run": ("tracebacks", "names a run", "UPDATE tracebacks SET run_id = 'r_gone'"),
    "a log without its run": ("run_logs", "names a run", "UPDATE run_logs SET run_id = 'r_gone'"),
    "a run that waits for nothing": (
        "runs",
        "waits for other tasks, an approval or an event",
        "UPDATE runs SET state = 'waiting', wake_at = NULL",
    ),
    "a dependency without its task": (
        "dependencies",
        "names a task",
        (
            "INSERT INTO dependencies (tenant, task_id, upstream_id, after_failure)"
            " VALUES ('local', 't_gone', 't_gone', 'fail')"
        ),
    ),
    "a dependency on itself": (
        "dependencies",
        "comes after itself",
        (
            "INSERT INTO dependencies (tenant, task_id, upstream_id, after_failure)"
            " SELECT 'local', MIN(id), MAX(id), 'fail' FROM tasks UNION"
            " SELECT 'local', MAX(id), MIN(id), 'fail' FROM tasks"
        ),
    ),
    "an approval without its run": (
        "approvals",
        "names a run",
        (
            'INSERT INTO approvals (run_id, attempt, "default", asked_at)'
            " SELECT 'r_gone', 0, 'reject', at FROM events LIMIT 1"
        ),
    ),
    "a wait without its task": (
        "signal_waits",
        "names a task",
        (
            "INSERT INTO signal_waits (waiter_id, task_id, tenant, name, wanted, since, until, on_timeout, at_once)"
            " SELECT 't_gone', 't_gone', 'local', 'paid', '{{}}', at, at, 'run', 1 = 0 FROM events LIMIT 1"
        ),
    ),
    "a wait whose event has come": (
        "signal_waits",
        "is open although its event has come",
        (
            "INSERT INTO signal_waits (waiter_id, task_id, tenant, name, wanted, since, until, on_timeout, at_once)"
            " SELECT id, id, tenant, 'sent', '{{}}', created_at, created_at, 'run', 1 = 0 FROM tasks LIMIT 1"
        ),
    ),
    "a follow-up without its task": (
        "follow_ups",
        "names a task",
        (
            "INSERT INTO follow_ups (task_id, tenant, of_task, of_run, title, state, why, at)"
            " SELECT 't_gone', 'local', 't_gone', 'r_gone', 'Import', 'failed', 'torn', at FROM events LIMIT 1"
        ),
    ),
    "an address without its task": (
        "fire_addresses",
        "names a task",
        (
            "INSERT INTO fire_addresses (id, tenant, task_id, digest, made_at, made_by)"
            " SELECT 'a', 'local', 't_gone', '', at, '' FROM events LIMIT 1"
        ),
    ),
    "a spawned task that is gone": (
        "spawned_tasks",
        "names a task",
        (
            "INSERT INTO spawned_tasks (task_id, tenant, name, run_id)"
            " SELECT 't_gone', 'local', 'pages/one', run_id FROM events WHERE run_id IS NOT NULL LIMIT 1"
        ),
    ),
    "use without its run": ("usage", "names a run", "UPDATE usage SET run_id = 'r_gone'"),
}


@pytest.fixture
def run_id(store: Store) -> str:
    """Return one of the runs that are scheduled, in a store that has something in each table."""
    claim = started(store)
    store.claims.settle(
        [
            settlement(
                claim,
                State.FAILED,
                inbox=message(claim),
                deliveries=(delivery(claim),),
                dead_letter=True,
                used={"tokens": 3},
                traceback="Traceback",
                log=(log_chunk(claim, 1, "a", last=True),),
            )
        ]
    )
    cancelled(store, added(store, NOON + timedelta(hours=3)))
    started(store)
    store.signals.send(TENANT, ReceivedSignal("sent", "e1"), actor="bob")
    return added(store, NOON + timedelta(hours=1)).run.id


def plant(store: Store, statement: str) -> None:
    """Write what foreign keys would refuse."""

    def work(connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        connection.exec_driver_sql(statement)

    engine = store._database.engine
    if engine.dialect.name == "postgresql":
        store._database.write(work)
        return
    with closing(sqlite3.connect(str(engine.url.database))) as loose, loose:  # foreign keys are off here
        loose.execute(statement)


def test_a_store_in_use_has_no_findings_and_every_row_was_read(store: Store, run_id: str) -> None:
    whole = store.integrity.examine()
    assert whole.findings == ()
    assert Integrity(store._database, batch=2).examine() == whole
    assert whole.rows > 4 * len({each.table for each in INVARIANTS}) / 2


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found_with_its_remedy(store: Store, run_id: str, name: str) -> None:
    table, words, statement = DAMAGES[name]
    plant(store, statement.format(run=run_id))
    findings = store.integrity.examine().findings
    found = [each for each in findings if each.table == table and words in each.broken]
    assert [bool(each.count and each.examples and each.remedy.endswith(".")) for each in found] == [True]
    assert broken_tables(store) == {each.table for each in findings}, "the suite's own question finds the same"


def test_every_invariant_has_a_damage_that_breaks_it() -> None:
    broken = {(table, words) for table, words, _ in DAMAGES.values()}
    assert [each for each in INVARIANTS if not any(each.table == t and w in each.broken for t, w in broken)] == []


def test_a_finding_counts_all_rows_and_names_the_first(store: Store) -> None:
    for _ in range(5):
        added(store)
    plant(store, "UPDATE runs SET state = 'dreaming'")
    [found, *_] = [each for each in store.integrity.examine().findings if "unknown state" in each.broken]
    assert (found.count, len(found.examples)) == (5, MAX_ROWS_NAMED)


def test_the_legal_moves_are_found_legal_and_no_others(clock: Clock) -> None:
    store = open_store("sqlite://", clock=clock)
    record = added(store)
    moves = [(before, after) for before in (None, *State) for after in State]
    told = {"tenant": TENANT, "task_id": record.task.id, "at": NOON, "kind": EventKind.READY, "actor": "a"}
    values = [{**told, "seq": n, "from_state": move[0], "to_state": move[1]} for n, move in enumerate(moves, 2)]
    store._database.write(lambda connection: connection.execute(insert(events), values))
    [found] = store.integrity.examine().findings
    store.close()
    assert found.broken == "reports a move that no run may make"
    assert found.count == len(moves) - sum(map(len, LEGAL_MOVES.values()))
