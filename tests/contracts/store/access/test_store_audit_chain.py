"""The hash chain of a tenant holds whatever Duetime does, and reveals whatever else was done to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.audit.chain import Head
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.audit.verdict import ChainVerdict, KeptHead, Removal
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.events import DUETIME_ACTOR
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.audit import seal
from sqlalchemy import Connection, text

from tests.builders import NOON, TENANT, Clock, added, cancelled, restarted, settlement
from tests.contracts.store.statement_log import statements_of

OTHER = "globex"
OLD, NEW = "old secret of the audit", "new secret of the audit"

Change = Callable[[Connection], object]


def sealed(store: Store) -> None:
    while store.audit_chain.seal():
        pass


def verdicts(store: Store, **asked: Any) -> list[ChainVerdict]:
    return list(store.audit_chain.verify(**asked))


def verdict(store: Store, **asked: Any) -> ChainVerdict:
    [found] = verdicts(store, tenant=TENANT, **asked)
    return found


def wrong(store: Store, **asked: Any) -> str:
    broken = verdict(store, **asked).broken
    assert broken is not None
    return f"{broken.entry}: {broken.wrong}"


def behind_its_back(store: Store, *statements: str) -> None:
    """Change the database by hand."""

    def work(connection: Connection) -> None:
        for statement in statements:
            assert connection.execute(text(statement)).rowcount > 0, statement

    store._database.write(work)


def fill(store: Store) -> None:
    """Store two tasks with six events, and two entries of the audit log, in three segments."""
    claim = restarted(store, added(store))
    store.claims.settle([settlement(claim)])
    sealed(store)
    store.audit.record(AuditEntry(TENANT, AuditKind.POOL_SET, "ann", "cli ann", "gpu", detail={"capacity": 2}))
    cancelled(store, added(store, NOON + timedelta(days=1)), reason="no longer needed")
    sealed(store)
    store.audit.record(AuditEntry(TENANT, AuditKind.POOL_REMOVED, "ann", "cli ann", "gpu"))
    sealed(store)


def test_a_look_at_a_database_in_which_all_is_sealed_reads_no_chain(store: Store) -> None:
    fill(store)
    sealed(store)
    with statements_of(store) as looks:
        assert store.audit_chain.seal() == 0
    assert not [each for each in looks if "audit_heads" in each or "audit_segments" in each]
    added(store)
    assert store.audit_chain.seal() == 1
    assert verdict(store).broken is None


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store)
    return store


def test_the_chain_holds_after_all_that_duetime_did(filled: Store) -> None:
    found = verdict(filled)
    assert (found.broken, found.entries, found.checked, found.pending) == (None, 8, 8, 0)
    assert filled.audit_chain.heads() == [Head(TENANT, 3, 8, found.hash)]


def test_each_tenant_has_a_chain_of_its_own(filled: Store) -> None:
    before = verdict(filled)
    added(filled, tenant=OTHER)
    sealed(filled)
    assert verdict(filled) == before
    assert [(found.tenant, found.entries, found.broken) for found in verdicts(filled)] == [
        (TENANT, 8, None), (OTHER, 1, None),
    ]  # fmt: skip


def test_an_unsealed_row_is_counted_and_no_break(filled: Store) -> None:
    added(filled, NOON + timedelta(days=2))
    found = verdict(filled)
    assert (found.broken, found.entries, found.pending) == (None, 8, 1)
    sealed(filled)
    assert (verdict(filled).entries, verdict(filled).pending) == (9, 0)


def test_a_tenant_without_a_chain_holds(store: Store) -> None:
    assert verdicts(store) == []
    assert verdict(store).broken is None


def test_rows_are_sealed_in_steps_that_one_process_takes(filled: Store) -> None:
    for _ in range(5):
        added(filled, NOON + timedelta(days=2))
    sealer = filled.audit_chain._sealer
    assert [sealer.step(2), sealer.step(2), sealer.step(2), sealer.step(2)] == [2, 2, 1, 0]
    assert verdict(filled).checked == 13


def test_of_two_processes_that_seal_the_same_one_does(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    added(filled, NOON + timedelta(days=2))
    store_segments = seal._store

    def outrun(*arguments: Any) -> None:
        monkeypatch.setattr(seal, "_store", store_segments)
        raise seal._Outrun

    monkeypatch.setattr(seal, "_store", outrun)
    assert filled.audit_chain.seal() == 0
    assert filled.audit_chain.seal() == 1
    assert verdict(filled).broken is None


def test_a_step_that_read_before_another_one_wrote_stores_nothing(filled: Store) -> None:
    added(filled, NOON + timedelta(days=2))
    sealer, database = filled.audit_chain._sealer, filled._database
    late = database.read(lambda connection: sealer._read(connection, 9))
    sealed(filled)
    with pytest.raises(seal._Outrun):
        database.write(lambda connection: seal._store(connection, late, list(sealer._segments(late))))
    assert (verdict(filled).broken, verdict(filled).entries) == (None, 9)


# -- what somebody did by hand: each is found

CHANGED = {
    "reason": "UPDATE events SET reason = 'he said so' WHERE kind = 'cancelled'",
    "actor": "UPDATE events SET actor = 'bob' WHERE kind = 'cancelled'",
    "via": "UPDATE events SET via = 'cli bob' WHERE kind = 'cancelled'",
    "no run": "UPDATE events SET run_id = NULL WHERE kind = 'cancelled'",
    "number of a row": "UPDATE events SET id = id + 1000 WHERE kind = 'cancelled'",
    "tenant": "UPDATE events SET tenant = 'globex' WHERE kind = 'cancelled'",
    "json": "UPDATE events SET before = NULL WHERE kind = 'cancelled'",
}


@pytest.mark.damages
@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_changed_event_is_found(filled: Store, change: str) -> None:
    behind_its_back(filled, change)
    assert wrong(filled).startswith("6: event ")


@pytest.mark.damages
def test_a_changed_time_is_found(filled: Store) -> None:
    later = "at + 1" if filled._database.engine.name == "sqlite" else "at + interval '1 microsecond'"
    behind_its_back(filled, f"UPDATE events SET at = {later} WHERE kind = 'cancelled'")
    assert wrong(filled).endswith("was changed")


@pytest.mark.damages
def test_a_changed_entry_of_the_audit_log_is_found(filled: Store) -> None:
    behind_its_back(filled, "UPDATE audit_entries SET actor = 'bob' WHERE kind = 'pool_removed'")
    assert wrong(filled) == "8: audit entry 2 was changed" or wrong(filled).endswith("was changed")


@pytest.mark.damages
def test_a_deleted_row_is_found(filled: Store) -> None:
    behind_its_back(filled, "DELETE FROM events WHERE kind = 'cancelled'")
    assert wrong(filled).endswith("was deleted, and no rule of retention did it")


@pytest.mark.damages
def test_an_inserted_row_is_found(filled: Store) -> None:
    columns = "tenant, task_id, run_id, at, kind, actor"
    behind_its_back(
        filled,
        f"INSERT INTO events (id, seq, {columns}) SELECT -1, 99, {columns} FROM events WHERE kind = 'cancelled'",
        "UPDATE events SET tx = 1 WHERE id = -1",
    )
    assert wrong(filled) == "9: event -1 was added without being sealed"


@pytest.mark.damages
def test_a_row_of_no_transaction_is_found(filled: Store) -> None:
    columns = "tenant, task_id, run_id, at, kind, actor"
    behind_its_back(
        filled,
        f"INSERT INTO events (id, seq, tx, {columns})"
        f" SELECT -1, 99, NULL, {columns} FROM events WHERE kind = 'cancelled'",
    )
    assert wrong(filled) == "9: event -1 was added without being sealed"


@pytest.mark.damages
def test_rows_that_changed_places_are_found(filled: Store) -> None:
    behind_its_back(
        filled,
        "UPDATE events SET id = id + 2000 WHERE kind IN ('started', 'succeeded')",
        "UPDATE events SET id = id - 1999 WHERE kind = 'started'",
        "UPDATE events SET id = id - 2001 WHERE kind = 'succeeded'",
    )
    assert wrong(filled).startswith("3: event ")


@pytest.mark.damages
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE audit_segments SET hash = previous WHERE number = 2", "5: segment 2 was changed"),
        ("UPDATE audit_segments SET entries = (SELECT entries FROM audit_segments WHERE number = 3) WHERE number = 2",
         "5: segment 2 was changed"),
        ("UPDATE audit_segments SET count = count + 1 WHERE number = 2", "5: segment 2 was changed"),
        ("UPDATE audit_segments SET first = first + 1 WHERE number = 2", "5: segment 2 does not follow the one before"),
        ("UPDATE audit_segments SET previous = hash WHERE number = 2", "5: segment 2 does not follow the one before"),
        ("UPDATE audit_segments SET number = 9 WHERE number = 2", "5: segment 2 of the chain is missing"),
        ("DELETE FROM audit_segments WHERE number = 1", "1: segment 1 of the chain is missing"),
        ("DELETE FROM audit_segments WHERE number = 3", "8: the tail is missing: the head has 8 entries"),
        ("UPDATE audit_heads SET hash = 'x'", "9: the tail is missing: the head has 8 entries"),
    ],
)  # fmt: skip
def test_a_changed_chain_is_found(filled: Store, change: str, found: str) -> None:
    behind_its_back(filled, change)
    assert wrong(filled).startswith(found)


@pytest.mark.damages
def test_segments_that_changed_places_are_found(filled: Store) -> None:
    behind_its_back(
        filled,
        "UPDATE audit_segments SET number = 9 WHERE number = 2",
        "UPDATE audit_segments SET number = 2 WHERE number = 3",
        "UPDATE audit_segments SET number = 3 WHERE number = 9",
    )
    assert wrong(filled).startswith("5: segment 2 does not follow the one before")


@pytest.mark.damages
def test_progress_that_was_set_back_seals_twice_which_is_found(filled: Store) -> None:
    behind_its_back(filled, "DELETE FROM audit_progress")
    sealed(filled)
    assert wrong(filled).endswith("was sealed twice")


@pytest.mark.damages
def test_progress_that_was_moved_on_leaves_out_rows_which_is_found(filled: Store) -> None:
    behind_its_back(filled, "UPDATE audit_progress SET event_id = 9999999, event_tx = event_tx * 2")
    added(filled, NOON + timedelta(days=2))
    sealed(filled)
    assert wrong(filled).endswith("was added without being sealed")


def cut_the_tail(store: Store) -> KeptHead:
    """Take away the last segment and its row, and set back all that shows it; return the head as it was before."""
    [head] = store.audit_chain.heads()
    behind_its_back(
        store,
        "DELETE FROM audit_segments WHERE number = 3",
        "DELETE FROM audit_entries WHERE kind = 'pool_removed'",
        "UPDATE audit_heads SET segments = 2, entries = 7, key_id = (SELECT key_id FROM audit_segments WHERE number=2),"
        " hash = (SELECT hash FROM audit_segments WHERE number = 2)",
    )
    return KeptHead(TENANT, head.entries, head.hash)


@pytest.mark.damages
def test_a_tail_that_was_cut_without_a_trace_is_found_by_a_head_kept_elsewhere(filled: Store) -> None:
    kept = cut_the_tail(filled)
    assert verdict(filled).broken is None
    assert wrong(filled, anchors=[kept]) == "8: the tail is missing: the head that you kept has 8 entries"


def test_heads_of_any_time_hold_while_the_chain_grows(filled: Store) -> None:
    kept = []
    for _ in range(3):
        kept += [KeptHead(head.tenant, head.entries, head.hash) for head in filled.audit_chain.heads()]
        added(filled, NOON + timedelta(days=2))
        sealed(filled)
    assert verdict(filled, anchors=kept).broken is None


@pytest.mark.parametrize("kept", [KeptHead(TENANT, 8, "ab" * 32), KeptHead(TENANT, 6, "ab" * 32)])
def test_the_head_of_another_chain_is_no_head_of_this_one(filled: Store, kept: KeptHead) -> None:
    assert wrong(filled, anchors=[kept]).endswith("the chain is another one than that of the head that you kept")


def test_a_chain_that_is_gone_is_missed_by_its_head(store: Store) -> None:
    [found] = verdicts(store, anchors=[KeptHead(TENANT, 8, "ab" * 32)])
    assert found.broken is not None


# -- keys


@pytest.fixture
def keyed(store: Store, url: str, clock: Clock) -> Iterator[Callable[..., Store]]:
    """Open the same database with keys."""
    opened: list[Store] = []

    def reopened(*keys: str) -> Store:
        opened.append(open_store(url, clock=clock, synchronous="OFF", audit_keys=keys))
        return opened[-1]

    yield reopened
    for each in opened:
        each.close()


def test_a_chain_of_a_key_holds_with_it(keyed: Callable[..., Store]) -> None:
    fill(keyed(OLD))
    assert (verdict(keyed(OLD)).broken, verdict(keyed(OLD)).unkeyed) == (None, 0)
    assert wrong(keyed(NEW)).startswith("1: segment 1 was sealed with the key ")


@pytest.mark.damages
def test_a_chain_cannot_be_rebuilt_without_the_key(keyed: Callable[..., Store]) -> None:
    """Without a key he can: then only a head kept elsewhere reveals it."""
    fill(keyed(OLD))
    behind_its_back(
        keyed(),
        "UPDATE events SET actor = 'bob' WHERE kind = 'cancelled'",
        "DELETE FROM audit_segments",
        "DELETE FROM audit_heads",
        "DELETE FROM audit_progress",
    )
    forged = keyed()
    sealed(forged)
    assert verdict(forged).broken is None
    assert wrong(keyed(OLD)) == "1: no entry is sealed with a key, although there is one"


@pytest.mark.damages
def test_a_head_kept_elsewhere_reveals_a_rebuilt_chain(filled: Store) -> None:
    [head] = filled.audit_chain.heads()
    behind_its_back(
        filled,
        "UPDATE events SET actor = 'bob' WHERE kind = 'cancelled'",
        "DELETE FROM audit_segments",
        "DELETE FROM audit_heads",
        "DELETE FROM audit_progress",
    )
    sealed(filled)
    assert verdict(filled).broken is None
    assert wrong(filled, anchors=[KeptHead(TENANT, head.entries, head.hash)]).startswith("8: ")


def test_the_first_key_seals_the_end_of_chains_that_had_none(filled: Store, keyed: Callable[..., Store]) -> None:
    store = keyed(OLD)
    sealed(store)
    found = verdict(store)
    assert (found.broken, found.unkeyed, found.entries) == (None, 8, 8)
    added(store, NOON + timedelta(days=2))
    sealed(store)
    assert (verdict(store).broken, verdict(store).unkeyed, verdict(store).checked) == (None, 8, 9)


def test_a_key_is_rotated(keyed: Callable[..., Store]) -> None:
    fill(keyed(OLD))
    rotated = keyed(NEW, OLD)
    sealed(rotated)
    assert verdict(rotated).broken is None
    assert wrong(keyed(NEW)).startswith("1: segment 1 was sealed with the key ")


def test_a_process_without_the_key_seals_nothing(keyed: Callable[..., Store], caplog: pytest.LogCaptureFixture) -> None:
    fill(keyed(OLD))
    keyless = keyed()
    added(keyless, NOON + timedelta(days=2))
    assert [keyless.audit_chain.seal() for _ in range(3)] == [0, 0, 0]
    assert [record.message for record in caplog.records if "audit_keys" in record.message] == [
        "audit chains are sealed with a key: set audit_keys, or this process seals nothing"
    ]
    sealed(keyed(OLD))
    assert verdict(keyed(OLD)).checked == 9


@pytest.mark.damages
def test_segments_without_the_key_after_some_with_it_are_found(keyed: Callable[..., Store]) -> None:
    store = keyed(OLD)
    fill(store)
    behind_its_back(store, "UPDATE audit_segments SET key_id = NULL WHERE number = 3")
    assert wrong(store) == "8: segment 3 was sealed without the key of those before it"


# -- retention


def swept(store: Store, clock: Clock) -> None:
    clock.forward(days=100)
    rule = RetentionRule(RetentionKind.TASKS, timedelta(days=90))
    assert list(Sweep(store, RetentionPolicy((rule,))).run())


def test_a_deletion_by_retention_breaks_no_chain(filled: Store, clock: Clock) -> None:
    added(filled, NOON + timedelta(days=900))
    swept(filled, clock)
    sealed(filled)
    found = verdict(filled)
    assert (found.broken, found.removed, found.checked) == (None, 6, 4)
    assert found.removals == (Removal(clock().date(), 6),)


def test_each_day_on_which_retention_deleted_events_is_listed(filled: Store, clock: Clock) -> None:
    added(filled, NOON + timedelta(days=900))
    swept(filled, clock)
    first = clock().date()
    cancelled(filled, added(filled, clock() + timedelta(days=1)))
    sealed(filled)
    swept(filled, clock)
    sealed(filled)
    assert [each.day for each in verdict(filled).removals] == [first, clock().date()]


KEPT_FOR_90_DAYS = (RetentionRule(RetentionKind.EVENTS, timedelta(days=90)),)


def delete_and_record(store: Store, statement: str, ids: str = "1-999999999") -> None:
    """Delete events by hand, and record a removal as retention does."""
    behind_its_back(store, statement)
    store.audit.record(AuditEntry(TENANT, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail={"events": ids}))
    sealed(store)


@pytest.mark.damages
def test_events_deleted_within_a_day_are_found_in_spite_of_a_record_of_their_removal(
    filled: Store, clock: Clock
) -> None:
    clock.forward(hours=23)
    delete_and_record(filled, "DELETE FROM events WHERE kind = 'cancelled'")
    assert wrong(filled).startswith("6: event ")
    assert wrong(filled).endswith(" was deleted within a day, and no rule of retention is as short")


@pytest.mark.damages
def test_the_time_of_a_record_makes_no_event_older_than_it_was_when_the_record_was_sealed(
    filled: Store, clock: Clock
) -> None:
    clock.forward(hours=23)
    clock.forward(days=400)
    record = AuditEntry(TENANT, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail={"events": "1-999999999"})
    filled.audit.record(record)
    clock.forward(days=-400)
    behind_its_back(filled, "DELETE FROM events WHERE kind = 'cancelled'")
    sealed(filled)
    assert wrong(filled).endswith("no rule of retention is as short")


@pytest.mark.damages
def test_events_deleted_before_the_rules_let_them_go_are_counted_by_the_day_of_their_record(
    filled: Store, clock: Clock
) -> None:
    clock.forward(days=89)
    delete_and_record(filled, "DELETE FROM events WHERE kind IN ('started', 'cancelled')")
    day = clock().date()
    assert verdict(filled).removals == (Removal(day, 2),)
    found = verdict(filled, rules=KEPT_FOR_90_DAYS)
    assert (found.broken, found.removals, found.too_young) == (None, (Removal(day, 2, too_young=2),), 2)
    assert verdict(filled, rules=()).too_young == 2, "no rule lets an event go"
    of_others = RetentionRule(RetentionKind.EVENTS, timedelta(days=7), tenant=OTHER)
    assert verdict(filled, rules=(*KEPT_FOR_90_DAYS, of_others)).too_young == 2
    of_tenant = replace(of_others, tenant=TENANT)
    assert verdict(filled, rules=(*KEPT_FOR_90_DAYS, of_tenant)).too_young == 0


@pytest.mark.damages
def test_a_former_rule_lets_go_what_was_deleted_until_its_last_day(filled: Store, clock: Clock) -> None:
    clock.forward(days=40)
    delete_and_record(filled, "DELETE FROM events WHERE kind IN ('started', 'cancelled')")
    day = clock().date()
    former = RetentionRule(RetentionKind.EVENTS, timedelta(days=30), until=day)
    forever = RetentionRule(RetentionKind.EVENTS, None, tenant=TENANT)
    for rules in (KEPT_FOR_90_DAYS, (), (*KEPT_FOR_90_DAYS, forever)):
        assert verdict(filled, rules=rules).too_young == 2
        assert verdict(filled, rules=(*rules, former)).holds
        assert verdict(filled, rules=(*rules, replace(former, until=day - timedelta(days=1)))).too_young == 2
        assert verdict(filled, rules=(*rules, replace(former, age=timedelta(days=41)))).too_young == 2


@pytest.mark.damages
def test_no_former_rule_lets_go_what_a_record_of_an_earlier_day_came_for_afterwards(
    filled: Store, clock: Clock
) -> None:
    clock.forward(days=40)
    former = RetentionRule(RetentionKind.EVENTS, timedelta(days=30), until=clock().date())
    record = AuditEntry(TENANT, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail={"events": "1-999999999"})
    filled.audit.record(record)
    clock.forward(days=2)
    behind_its_back(filled, "DELETE FROM events WHERE kind = 'cancelled'")
    sealed(filled)
    assert verdict(filled, rules=(*KEPT_FOR_90_DAYS, former)).too_young == 1


def test_events_that_retention_deleted_are_never_too_young_by_its_rules(filled: Store, clock: Clock) -> None:
    swept(filled, clock)
    sealed(filled)
    found = verdict(filled, rules=(RetentionRule(RetentionKind.TASKS, timedelta(days=90)),))
    assert (found.broken, found.removed, found.too_young) == (None, 6, 0)


@pytest.mark.damages
def test_the_oldest_time_of_a_segment_is_under_its_hash(filled: Store) -> None:
    older = "oldest_at - 1" if filled._database.engine.name == "sqlite" else "oldest_at - interval '1 day'"
    behind_its_back(filled, f"UPDATE audit_segments SET oldest_at = {older} WHERE number = 2")
    assert wrong(filled) == "5: segment 2 was changed"


def test_of_segments_of_earlier_versions_no_age_is_known(filled: Store, clock: Clock) -> None:
    [head] = filled.audit_chain.heads()
    assert head.segments == 3
    behind_its_back(filled, "UPDATE audit_segments SET oldest_at = NULL WHERE number = 1")
    assert wrong(filled) == "1: segment 1 was changed", "its hash says that it had one"


@pytest.mark.damages
@pytest.mark.parametrize("name", ["audit_entries", "events"])
def test_no_record_of_a_removal_excuses_a_deleted_audit_entry(filled: Store, name: str) -> None:
    [entry] = filled.audit.page(TENANT, AuditFilter(kind="pool_set"), limit=1).entries
    behind_its_back(filled, "DELETE FROM audit_entries WHERE kind = 'pool_set'")
    record = AuditEntry(TENANT, AuditKind.ROWS_REMOVED, DUETIME_ACTOR, detail={name: f"1-{entry.id + 100}"})
    filled.audit.record(record)
    sealed(filled)
    assert wrong(filled) == f"7: audit entry {entry.id} was deleted, which no rule of retention does"


@pytest.mark.damages
def test_rows_deleted_along_with_those_of_retention_are_found(filled: Store, clock: Clock) -> None:
    added(filled, NOON + timedelta(days=900))
    swept(filled, clock)
    sealed(filled)
    behind_its_back(filled, "DELETE FROM events WHERE kind = 'created'")
    assert wrong(filled).endswith("was deleted, and no rule of retention did it")


@pytest.mark.damages
def test_a_record_of_a_removal_that_was_changed_is_found(filled: Store, clock: Clock) -> None:
    swept(filled, clock)
    sealed(filled)
    behind_its_back(filled, "UPDATE audit_entries SET detail = NULL WHERE kind = 'rows_removed'")
    assert verdict(filled).broken is not None
