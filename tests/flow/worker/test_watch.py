"""A watch in the store: suspended with its checkpoint between two looks; its end reaches user and dependants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.handlers import Context, Link, run_handler, watch, watch_check
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import NOON, TENANT, Clock, a_task, restarted, started


class Shop:
    """A stock that is looked at, and the runs that look."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.level = 9
        self.handler = watch(checks=[watch_check("stock")(self._read)])

    def _read(self, _ctx: Context, _arguments: Mapping[str, Any]) -> int:
        return self.level

    def look(self, claim: Claim) -> State:
        """Make one attempt as a worker does, and return the state that it leaves."""
        link = Link(now=self.store.now)
        ctx = Context.of(claim.task, claim.run, worker="w1", link=link)
        outcome = run_handler(self.handler, ctx, claim.task.payload)
        self.store.claims.settle([settle(claim, outcome, now=self.store.now(), jitter=0.0)])
        return self.store.tasks.get(TENANT, claim.task.id).run.state


@pytest.fixture
def shop(store: Store) -> Shop:
    return Shop(store)


def a_watch(shop: Shop, **payload: Any) -> Claim:
    checked = shop.handler.check({"check": "stock", "condition": "@ == `0`", **payload})
    return started(shop.store, action="watch", payload=checked)


def test_a_watch_is_suspended_between_two_looks_and_fires_once(store: Store, shop: Shop, clock: Clock) -> None:
    claim = a_watch(shop)
    assert shop.look(claim) is State.SUSPENDED
    record = store.tasks.get(TENANT, claim.task.id)
    assert record.run.wake_at == NOON + timedelta(minutes=5)
    assert store.inbox.unread(TENANT, "alice", limit=9) == []
    clock.forward(minutes=5)
    shop.level = 0
    again = restarted(store, record)
    assert (again.run.checkpoint["looks"], again.run.failures) == (1, 0)
    assert shop.look(again) is State.SUCCEEDED
    [message] = store.inbox.unread(TENANT, "alice", limit=9)
    assert message.text.startswith("stock: @ == `0` holds (0)")


def test_an_expired_watch_is_a_failure_with_an_outcome_of_its_own(store: Store, shop: Shop, clock: Clock) -> None:
    claim = a_watch(shop, until="5 min")
    shop.look(claim)
    clock.forward(minutes=5)
    assert shop.look(restarted(store, store.tasks.get(TENANT, claim.task.id))) is State.FAILED
    run = store.tasks.get(TENANT, claim.task.id).run
    assert run.result == {"outcome": "expired", "value": 9, "looks": 2}
    assert run.error == "expired after 5 min and 2 looks: not met yet: 9"


@pytest.mark.parametrize(("level", "then"), [(0, State.SCHEDULED), (9, State.FAILED)], ids=["met", "expired"])
def test_what_comes_after_a_watch_goes_on_when_it_is_met_and_not_when_it_expires(
    store: Store, shop: Shop, clock: Clock, level: int, then: State
) -> None:
    claim = a_watch(shop, until="5 min")
    task, run = a_task()
    waiting = replace(run, state=State.WAITING, wake_at=None)
    later = store.tasks.add(task, waiting, actor="alice", after=[Dependency(claim.task.id)]).record
    shop.look(claim)
    clock.forward(minutes=5)
    shop.level = level
    shop.look(restarted(store, store.tasks.get(TENANT, claim.task.id)))
    assert store.tasks.get(TENANT, later.task.id).run.state is then
    outcome = "met" if then is State.SCHEDULED else "expired"
    given = {"outcome": outcome, "value": level, "looks": 2}
    assert store.dependencies.results(TENANT, later.task.id) == {claim.task.id: given}
