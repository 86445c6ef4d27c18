"""Answers say each thing once and as it is: how often a series runs, what a run waits for, what a step cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.widgets.bulk.text import bulk_text
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


@pytest.mark.parametrize("most", [3, None])
def test_a_rule_with_a_number_of_times_says_it_once(desk: Desk, most: int | None) -> None:
    view = desk.scheduler.schedule("Pills", repeat="FREQ=DAILY;COUNT=3", max_runs=most)
    text = task_text(task_payload(view))
    assert text.count(" times") == 1
    assert ", 3 times" in text


@pytest.mark.parametrize(("upstreams", "more"), [(4, None), (5, "1 more thing"), (7, "3 more things")])
def test_reasons_of_a_wait_that_have_no_room_are_counted(desk: Desk, upstreams: int, more: str | None) -> None:
    after = [desk.scheduler.schedule(f"Load {n}", when="at 9:00").record.task.id for n in range(upstreams)]
    payload = task_payload(desk.scheduler.schedule("Mail", after=after))
    reasons, waits = as_json(payload)["waiting_for"], as_json(payload)["waits"]
    assert len(reasons) == len(waits) == 4 + (more is not None)
    assert more is None or (reasons[-1], waits[-1]) == (more, {"kind": "more", "count": upstreams - 4})
    assert more is None or f"Waiting for {more}." in task_text(payload)


def test_reasons_without_room_are_counted_where_the_step_asks_then(desk: Desk) -> None:
    names = [f"load-{n}" for n in range(7)]
    steps: Any = [{"name": name} for name in names] + [{"name": "mail", "after": names, "approval": "Send it?"}]
    chain = desk.scheduler.schedule("Report", repeat="every 4 hours", steps=steps)
    mail = desk.scheduler.get(desk.scheduler.ends.tasks_of(chain.record.task.id)[-1])
    assert "2 more tasks; then approval" in mail.waiting_for[-1]
    assert as_json(task_payload(mail))["waiting_for"][-1] == "3 more things"
    assert as_json(task_payload(mail))["waits"][-1] == {"kind": "more", "count": 3}


def test_a_step_of_a_chain_that_recurs_cannot_skip_and_is_not_to_be_cancelled_for_it(desk: Desk) -> None:
    chain = desk.scheduler.schedule("Report", repeat="every 4 hours", steps=[{"name": "fetch"}, {"name": "load"}])
    step = next(iter(desk.scheduler.ends.tasks_of(chain.record.task.id)))
    skips: list[Callable[[], object]] = [
        lambda: desk.scheduler.reschedule(step, skip_next=True),
        lambda: desk.scheduler.act(step, "skip_next"),
    ]
    for skip in skips:
        with pytest.raises(InvalidArgument, match="a step runs in each generation of its chain") as refused:
            skip()
        assert chain.record.task.id in refused.value.example
        assert "cancel" not in str(refused.value)


def test_a_repeated_change_of_many_tasks_speaks_of_no_key_that_was_not_given(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Pills", when="at 9:00").record.task.id
    raw: Any = {"change": "cancel", "task_ids": [task_id]}
    desk.scheduler.bulk.change("cancel", [task_id], raw=raw)
    result = desk.scheduler.bulk.change("cancel", [task_id], raw=raw)
    assert result.repeated
    assert bulk_text(result).startswith("The same call did this already. Cancelled 1 task")
