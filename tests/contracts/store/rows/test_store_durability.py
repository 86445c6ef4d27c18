"""A promise waits for the disk; what would be made again after a power cut does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import open_store
from duetime.scheduler.store.database.sqlite import Sqlite

from tests.builders import LEASE, NOON, Clock, added, settlement


def levels(statements: list[str], level: str) -> list[str]:
    """Return the level of synchronisation at each commit."""
    found = []
    for statement in statements:
        if statement.startswith("PRAGMA synchronous="):
            level = statement.partition("=")[2]
        elif statement == "COMMIT":
            found.append(level)
    return found


@pytest.mark.parametrize(("setting", "hurried"), [("FULL", "NORMAL"), ("OFF", "OFF")])
def test_promises_are_on_the_disk_and_steps_on_the_way_need_not_be(tmp_path: Path, setting: str, hurried: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(NOON), synchronous=setting)
    assert isinstance(store._database, Sqlite)
    statements: list[str] = []
    store._database._raw.set_trace_callback(statements.append)
    record = added(store)
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(record.run.id)], worker="w", epoch=None, lease=LEASE)
    store.claims.renew([record.run.id], worker="w", lease=LEASE)
    store.claims.checkpoint(record.run.id, 1, {"page": 2})
    store.claims.settle([settlement(claim)])
    scheduling, ready, start, renewal, checkpoint, settling = levels(statements, setting)
    assert {scheduling, checkpoint, settling} == {setting}
    assert {ready, start, renewal} == {hurried}
    store.close()
