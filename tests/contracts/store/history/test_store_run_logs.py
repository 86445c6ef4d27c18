"""The log of a run: stored in batches and with the end of an attempt, bounded, and read from any place on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from duetime.scheduler.history.run_detail import RunNotFound
from duetime.scheduler.history.run_log import MAX_RUN_LOG_BYTES
from duetime.scheduler.run_records import Claim, Verdict
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.logs import run_logs
from duetime.scheduler.task import State
from sqlalchemy import create_engine, update

from tests.builders import NOON, TENANT, added, log_chunk, restarted, settlement, started


def said(store: Store, claim: Claim, after: tuple[int, int] = (0, 0), limit: int = 100) -> list[str]:
    return [line.text for line in store.run_logs.read(TENANT, claim.run.id, after=after, limit=limit).lines]


def test_lines_of_a_running_attempt_grow_and_those_at_its_end_come_with_its_settlement(store: Store) -> None:
    one, other = started(store), started(store)
    store.run_logs.write([log_chunk(one, 1, "a", "b"), log_chunk(other, 1, "elsewhere")])
    store.run_logs.write([log_chunk(one, 1, "a", "b", "c")])
    store.run_logs.write([log_chunk(one, 1, "a")])  # an older one that comes late
    assert said(store, one) == ["a", "b", "c"]
    ends = [
        settlement(one, log=(log_chunk(one, 2, "b", "c", "d", last=True),)),  # stored already: they overlap
        replace(settlement(other, log=(log_chunk(other, 2, "end", last=True),)), claim=None),
    ]
    assert store.claims.settle(ends) == [Verdict.SETTLED] * 2
    assert (said(store, one), said(store, other)) == (["a", "b", "c", "d"], ["elsewhere", "end"])
    log = store.run_logs.read(TENANT, one.run.id, limit=100)
    assert [(line.attempt, line.number, line.place, line.level, line.logger, line.at) for line in log.lines] == [
        (1, number, f"1.{number}", "info", "shop", NOON) for number in (1, 2, 3, 4)
    ]
    assert (log.task_id, log.cut, log.more, log.ended) == (one.task.id, 0, False, True)


def test_a_log_is_read_on_from_any_place_over_all_attempts(store: Store) -> None:
    record = added(store)
    claim = restarted(store, record)
    store.run_logs.write([log_chunk(claim, 1, "a", "b"), log_chunk(claim, 3, "c")])
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=NOON)])
    second = restarted(store, record)
    store.run_logs.write([log_chunk(second, 1, "d")])
    first_page = store.run_logs.read(TENANT, record.run.id, limit=2)
    assert ([line.text for line in first_page.lines], first_page.more, first_page.ended) == (["a", "b"], True, False)
    assert said(store, claim, (1, 2)) == ["c", "d"]
    assert said(store, claim, (1, 3)) == ["d"]
    assert said(store, claim, (2, 1)) == []
    newest = store.run_logs.newest(TENANT, record.run.id, limit=2)
    assert [(line.attempt, line.text) for line in newest.lines] == [(1, "c"), (2, "d")]


def test_a_log_keeps_256_kib_and_counts_what_was_cut(store: Store) -> None:
    record = added(store)
    claim, line = restarted(store, record), "x" * 8_000
    store.run_logs.write([log_chunk(claim, number, line, cut=3 if number == 1 else 0) for number in range(1, 31)])
    store.run_logs.write([], cut=[record.run.id])
    assert store.run_logs.read(TENANT, record.run.id, limit=100).cut == 3
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=NOON)])
    second = restarted(store, record)
    for number in (1, 2, 3, 4, 5):
        store.run_logs.write([log_chunk(second, number, line)], cut=[record.run.id])
    log = store.run_logs.read(TENANT, record.run.id, limit=100)
    assert sum(len(each.text) for each in log.lines) <= MAX_RUN_LOG_BYTES
    assert (len(log.lines), log.cut, log.lines[0].place, log.lines[-1].place) == (32, 6, "1.4", "2.5")


def test_a_log_is_that_of_its_tenant_alone(store: Store) -> None:
    claim = started(store)
    store.run_logs.write([log_chunk(claim, 1, "a")])
    for tenant in ("other", ""):
        for read in (store.run_logs.read, store.run_logs.newest):
            with pytest.raises(RunNotFound):
                read(tenant, claim.run.id, limit=5)
    assert len(store.run_logs.newest(None, claim.run.id, limit=5).lines) == 1
    with pytest.raises(RunNotFound):
        store.run_logs.read(TENANT, "r_000000000000", limit=5)


@pytest.mark.damages
def test_a_line_that_cannot_be_read_is_shown_as_it_stands(store: Store, url: str) -> None:
    claim = started(store)
    store.run_logs.write([log_chunk(claim, 1, "a", "b")])
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(update(run_logs).values(text='[1, "info", "shop", "a"]\n{"half'))
    engine.dispose()
    found = store.run_logs.read(TENANT, claim.run.id, limit=5).lines
    assert [(line.level, line.text) for line in found] == [("info", "a"), ("unreadable", '{"half')]
