"""Costs of attempts: the price when each of them ends decides, and nothing changes it later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.outcomes import Done, Outcome, Retry
from duetime.scheduler.task import Json, RetryPolicy, State
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings
from duetime.widgets.outcome import with_details
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests import blank
from tests.flow.waiting import eventually

BUDGET: dict[str, Json] = {"kind": "budget", "capacity": 1_000_000, "per": "day"}


@handler("ask", needs={"tokens": 1000, "gpu": 1})
def ask(ctx: Context) -> Outcome:
    """Use tokens."""
    ctx.use("tokens", 1234)
    return Done("answered")


@handler("ask_twice", needs={"tokens": 1000})
def ask_twice(ctx: Context) -> Outcome:
    """Use tokens, and fail the first time."""
    ctx.use("tokens", 1234)
    return Retry("busy") if ctx.attempt == 1 else Done("answered")


@handler("ask_too_much", needs={"tokens": 1})
def ask_too_much(ctx: Context) -> Outcome:
    """Use more than any pool has; the sum is no number."""
    ctx.use("tokens", 1e308)
    ctx.use("tokens", 1e308)
    return Done("answered")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    blank.make(tmp_path / "duetime.db")
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'duetime.db'}",
        sqlite_synchronous="OFF",
        desktop_notifications="off",
        timezone="UTC",
        pools={"tokens": {**BUDGET, "price": "3.00 per 1_000_000"}, "gpu": {"capacity": 1}},
    )
    with build(settings, handlers=[ask, ask_twice, ask_too_much], role=Role.WORK) as made:
        made.start()
        yield made


def asked(app: App, action: str = "ask") -> str:
    """Schedule a run, and wait until it has succeeded."""
    retry = RetryPolicy(max_attempts=3, backoff=timedelta(seconds=1))
    task_id = app.scheduler.schedule("Ask", action=action, retry=retry).record.task.id
    eventually(lambda: app.scheduler.get(task_id).record.run.state is State.SUCCEEDED, "its success")
    return app.scheduler.get(task_id).record.run.id


def test_a_price_holds_from_then_on_and_the_history_stays(app: App) -> None:
    first = asked(app)
    app.registry.set("tokens", {**BUDGET, "price": "6 per 1_000_000"})
    second = asked(app)
    app.registry.set("tokens", BUDGET)
    third = asked(app)
    costs = {run.id: run.cost for run in app.scheduler.past.runs().runs}
    assert costs == {first: Decimal("0.003702"), second: Decimal("0.007404"), third: None}
    found = app.scheduler.past.runs(RunFilter(min_cost=Decimal("0.003703"))).runs
    assert [run.id for run in found] == [second]


def test_a_task_shows_what_its_last_run_cost(app: App) -> None:
    asked(app)
    view = app.scheduler.get(app.scheduler.past.runs().runs[0].task_id)
    assert view.cost == "0.003702 USD"
    shown = with_details(task_payload(view), view)
    assert shown.cost == "0.003702 USD"
    assert "\nCost 0.003702 USD.\n" in task_text(shown)
    assert app.scheduler.get(app.scheduler.schedule("Later", when="tomorrow").record.task.id).cost is None


def test_a_run_costs_what_all_its_attempts_cost(app: App) -> None:
    run = app.scheduler.past.run(asked(app, "ask_twice"))
    assert run.costs == {1: {"tokens": Decimal("0.003702")}, 2: {"tokens": Decimal("0.003702")}}
    assert run.cost == Decimal("0.007404")


def test_a_use_that_no_pool_has_fails_the_attempt_which_does_not_stay_running(app: App) -> None:
    task_id = app.scheduler.schedule("Ask", action="ask_too_much", retry=RetryPolicy(1)).record.task.id
    eventually(lambda: app.scheduler.get(task_id).record.run.state is State.FAILED, "its failure")
    error = app.scheduler.get(task_id).record.run.error
    assert error is not None
    assert "units: 1e+308 is not an amount" in error
