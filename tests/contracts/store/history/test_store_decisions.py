"""Recorded decisions: kept as they were seen, newest first, of one tenant, up to a number and an age."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.queue import Why
from duetime.scheduler.rules.order import KeyFacts
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import NOON, TENANT, added, settlement, started

SEEN = Look(
    1_800_000_000_000.123,
    7,
    3,
    (0.1 + 0.2, 1.25, 0.0, 0.0, 2.0),
    (2.0, 0.30000000000000004, -1.5, 2.0, 2.0),
    (None, Contender("r_1", 1_799_999_999_999.9, "acme", True), None, Contender("r_2", 1.0), None),
    2,
    Contender("r_1", 1_799_999_999_999.9, "acme", True),
    (PoolSeen("cpu", 1, 4.5), PoolSeen("nobody", 2, None, Why.UNKNOWN)),
    (0, 1, 2, 2, 2),
    True,
)
FACTS = KeyFacts(NOON, NOON + timedelta(microseconds=1), timedelta(seconds=2.5), True, 0.1)


def decision(number: int, tenant: str = TENANT, task_id: str = "t_1") -> Decision:
    at = NOON + timedelta(minutes=number)
    return Decision(f"d_{number:04}", at, tenant, task_id, "r_1", "w1", SEEN, {"r_1": FACTS})


def test_a_decision_comes_back_to_the_last_digit(store: Store) -> None:
    store.decisions.add([decision(1)])
    assert store.decisions.get(TENANT, "d_0001") == decision(1)
    assert store.decisions.get(None, "d_0001") == decision(1)
    assert store.decisions.get("globex", "d_0001") is None


def test_decisions_are_listed_newest_first_by_page_tenant_and_task(store: Store) -> None:
    store.decisions.add([decision(number, task_id=f"t_{number % 2}") for number in range(5)])
    store.decisions.add([decision(9, tenant="globex")])
    first = store.decisions.page(TENANT, limit=3)
    rest = store.decisions.page(TENANT, limit=3, cursor=first.cursor)
    assert [each.id[-1] for each in (*first.decisions, *rest.decisions)] == ["4", "3", "2", "1", "0"]
    assert rest.cursor is None
    assert [each.id[-1] for each in store.decisions.page(TENANT, limit=9, task_id="t_1").decisions] == ["3", "1"]
    assert len(store.decisions.page(None, limit=9).decisions) == 6
    with pytest.raises(InvalidArgument, match="other filters"):
        store.decisions.page("globex", limit=3, cursor=first.cursor)


def test_all_but_the_newest_and_all_that_are_old_are_deleted(store: Store) -> None:
    store.decisions.add([decision(number) for number in range(8)])
    assert store.decisions.trim(5, NOON) == 3
    assert store.decisions.trim(5, NOON + timedelta(minutes=6)) == 3
    assert [each.id[-1] for each in store.decisions.page(None, limit=9).decisions] == ["7", "6"]


def test_runs_are_read_as_a_queue_ordered_them_in_whatever_state_they_are_by_now(store: Store) -> None:
    waiting, claim = added(store).run, started(store)
    store.claims.settle([settlement(claim, State.SUCCEEDED)])
    found = store.decisions.ready_runs([waiting.id, claim.run.id, "r_gone"], NOON)
    assert {run.run_id for run in found} == {waiting.id, claim.run.id}


def test_another_tenant_sees_no_run_but_its_own() -> None:
    shown = replace(decision(1), facts={"r_1": FACTS, "r_2": FACTS}).shown_to("acme")
    assert shown.look.heads == (None, SEEN.heads[1], None, None, None)
    assert shown.facts == {"r_1": FACTS}
