"""A watch in the store: suspended with its checkpoint between two looks; its end reaches user and dependants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Context, Handlers, Link, reminder, run_handler, watch, watch_check
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter

from tests.builders import NOON, TENANT, Clock, a_task, restarted, started
from tests.flow.tools.calls import asked_of


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
        return self.store.tasks.get(claim.task.tenant, claim.task.id).run.state


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


def test_a_watch_between_two_looks_is_suspended_everywhere_and_one_that_is_cancelled_was_not_by_what_it_saw(
    store: Store, shop: Shop, scheduler: Scheduler
) -> None:
    payload = {"check": "stock", "condition": "@ == `0`"}
    claim = restarted(store, scheduler.schedule("Stock", when="now", action="watch", payload=payload).record)
    shop.look(claim)
    ask = asked_of(scheduler)
    said, _ = ask("get_task", task_id=claim.task.id)
    assert said.startswith("The task is suspended until its next look. Its time is ")
    assert re.search(rf"{claim.task.id} .* suspended «", ask("list_tasks", state="suspended")[0])
    ended, cancelled = ask("cancel_task", task_id=claim.task.id)
    assert ended.startswith("The task is cancelled")
    assert "not met yet" not in ended
    assert "summary" not in cancelled["last_run"]


def test_an_expired_watch_is_found_by_its_state_and_has_no_dead_letter(store: Store, shop: Shop, clock: Clock) -> None:
    claim = a_watch(shop, until="5 min")
    shop.look(claim)
    clock.forward(minutes=5)
    assert shop.look(restarted(store, store.tasks.get(TENANT, claim.task.id))) is State.EXPIRED
    run = store.tasks.get(TENANT, claim.task.id).run
    assert run.result == {"outcome": "expired", "value": 9, "looks": 2}
    assert (run.error, run.failures) == ("not met yet: 9; expired after 5 min and 2 looks", 0)
    assert not store.dead_letters.page(TENANT, limit=9)[0]
    assert store.history.events(TENANT, EventFilter(), limit=1).events[0].kind is EventKind.EXPIRED
    [message] = store.inbox.unread(TENANT, "alice", limit=9)
    assert (message.state, message.text) == (State.EXPIRED, "not met yet: 9; expired after 5 min and 2 looks")
    found = store.tasks.page(TENANT, TaskFilter(states=(State.EXPIRED,)), limit=9)[0]
    assert [each.task.id for each in found] == [claim.task.id]


@pytest.mark.parametrize(("level", "then"), [(0, State.SCHEDULED), (9, State.FAILED)], ids=["met", "expired"])
def test_a_downstream_of_a_watch_goes_on_when_it_is_met_and_not_when_it_expires(
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


EACH_SECOND = {"check": "stock", "condition": "@ == `0`", "every": "1 s"}
AS_SENT: dict[str, Any] = {"raw": {"title": "Stock"}}


@pytest.fixture
def scheduler(store: Store, shop: Shop) -> Scheduler:
    return Scheduler(store, Planner(Handlers([reminder, shop.handler]), "UTC"))


def test_a_watch_of_a_program_may_look_each_second(scheduler: Scheduler, store: Store, shop: Shop) -> None:
    task_id = scheduler.schedule("Stock", action="watch", payload={**EACH_SECOND, "until": "1 min"}).record.task.id
    scheduler.reschedule(task_id, payload={**EACH_SECOND, "until": "2 min"})
    with pytest.raises(InvalidArgument, match="'0 s' is out of range"):
        scheduler.schedule("Stock", action="watch", payload={**EACH_SECOND, "every": "0 s"})
    shop.look(a_watch(shop, every="1 s"))
    [suspended] = store.tasks.page(TENANT, TaskFilter(states=(State.SUSPENDED,)), limit=9)[0]
    assert suspended.run.wake_at == NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "watch", "payload": EACH_SECOND},
        {"steps": [{"name": "look", "action": "watch", "payload": EACH_SECOND}]},
        {"when": "now", "on_failure": {"run": {"action": "watch", "payload": EACH_SECOND}}},
    ],
    ids=["alone", "in a chain", "after a failure"],
)
def test_a_watch_of_an_agent_keeps_the_minute(scheduler: Scheduler, asked: dict[str, Any]) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments), match=r"'1 s' is shorter than a minute.*at least 1 minute"):
        scheduler.schedule("Stock", **asked, **AS_SENT)
    assert scheduler.schedule("Stock", **asked).created


def test_no_change_of_an_agent_makes_a_watch_look_more_often(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Stock", action="watch", payload={**EACH_SECOND, "every": "1 min"}).record.task.id
    with pytest.raises((InvalidArgument, InvalidArguments), match="'1 s' is shorter than a minute"):
        scheduler.reschedule(task_id, payload=EACH_SECOND, **AS_SENT)
