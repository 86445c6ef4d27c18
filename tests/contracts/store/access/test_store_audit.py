"""The audit log: acts of callers are kept as they were recorded, listed newest first, and filtered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal
from duetime.scheduler.store import Store

from tests.builders import NOON, Clock

ROOT = Path(__file__).resolve().parents[4]
ANN = Principal("acme", "Ann", via="rest 10.0.0.7")
REVOKED = AuditEntry.by(ANN, AuditKind.KEY_REVOKED, "7k3m9qx2w4hb", reason="lost her laptop", detail={"keys": 2})


def all_of(store: Store, tenant: str = "acme", **filters: Any) -> list[AuditEntry]:
    return list(store.audit.page(tenant, AuditFilter(**filters), limit=9).entries)


def test_an_entry_is_kept_as_it_was_recorded_with_its_number_and_time(store: Store) -> None:
    store.audit.record(REVOKED)
    [found] = all_of(store)
    assert found == replace(REVOKED, id=found.id, at=NOON)
    assert (found.actor, found.via, found.subject, found.reason) == (
        "Ann", "rest 10.0.0.7", "7k3m9qx2w4hb", "lost her laptop",
    )  # fmt: skip


def test_the_log_of_a_tenant_names_the_home_of_an_actor_from_elsewhere(store: Store) -> None:
    operator = Principal("local", "root", operator=True, via="admin 10.0.0.9")
    store.audit.record(AuditEntry.by(operator, AuditKind.OTHER_TENANT_READ, "history", tenant="acme"))
    [found] = all_of(store)
    assert (found.actor, found.actor_tenant) == ("root", "local")
    assert all_of(store, "local") == []


def test_entries_are_listed_newest_first_page_by_page(store: Store, clock: Clock) -> None:
    for subject in ("a", "b", "c"):
        store.audit.record(replace(REVOKED, subject=subject))
        clock.forward(seconds=1)
    first = store.audit.page("acme", AuditFilter(), limit=2)
    second = store.audit.page("acme", AuditFilter(), limit=2, cursor=first.cursor)
    assert [entry.subject for entry in (*first.entries, *second.entries)] == ["c", "b", "a"]
    assert second.cursor is None
    with pytest.raises(InvalidArgument):
        store.audit.page("acme", AuditFilter(actor="Ann"), limit=2, cursor=first.cursor)


@pytest.mark.parametrize(
    "filters",
    [
        {"actor": "Bob"}, {"surface": "cli"}, {"kind": "pool_set"}, {"subject": "gpu"},
        {"since": NOON.replace(hour=13)},
    ],
)  # fmt: skip
def test_a_filter_keeps_what_matches(store: Store, clock: Clock, filters: dict[str, Any]) -> None:
    store.audit.record(REVOKED)
    clock.forward(hours=2)
    store.audit.record(AuditEntry("acme", AuditKind.POOL_SET, "Bob", "cli bob", "gpu"))
    assert [entry.actor for entry in all_of(store, **filters)] == ["Bob"]


def test_a_surface_is_a_whole_word(store: Store) -> None:
    store.audit.record(replace(REVOKED, via="restless 10.0.0.7"))
    store.audit.record(replace(REVOKED, via="stdio"))
    assert all_of(store, surface="rest") == []
    assert [entry.via for entry in all_of(store, surface="stdio")] == ["stdio"]


def test_every_kind_of_entry_that_a_filter_offers_is_written_by_some_module() -> None:
    modules = (path for room in ("scheduler", "server", "tools") for path in (ROOT / room).rglob("*.py"))
    text = "".join(path.read_text("utf-8") for path in modules)
    assert [kind.value for kind in AuditKind if f"AuditKind.{kind.name}" not in text] == []
