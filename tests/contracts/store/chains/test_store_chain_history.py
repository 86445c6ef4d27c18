"""The history of a chain is that of all its steps, each named: pages, attempts, and what is read by it."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.widgets.history import history_payload, steps_of

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.flow.tools.calls import asked_of, settled

pytestmark = on_each_database

STEPS: Any = [{"name": "fetch", "when": "now"}, {"name": "report", "after": ["fetch"], "when": "now"}]


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Scheduler(store, planner)


@pytest.fixture
def chain_id(scheduler: Scheduler, store: Store, clock: Clock) -> str:
    """Make a chain whose second step fails, and another chain."""
    scheduler.schedule("Other", steps=STEPS)
    made = scheduler.schedule("Book", steps=STEPS).record.task.id
    for outcome in (Done("fetched"), Failed("no paper")):
        settled(store, clock(), outcome)
        clock.forward(minutes=1)
    return made


def test_the_events_of_a_chain_are_those_of_its_steps_page_by_page(scheduler: Scheduler, chain_id: str) -> None:
    where = EventFilter(task_id=chain_id)
    whole = scheduler.past.events(where).events
    steps = steps_of(scheduler.get(chain_id))
    assert {steps[event.task_id] for event in whole} == {"fetch", "report"}
    assert list(whole) == sorted(whole, key=lambda event: (event.at, event.id), reverse=True)

    paged, cursor = list[Any](), None
    while True:
        page = scheduler.past.events(where, limit=2, cursor=cursor)
        paged += page.events
        cursor = page.cursor
        if cursor is None:
            break
    assert paged == list(whole)
    counted = scheduler.past.event_counts(EventGroup.KIND, where).counts
    assert (counted[EventKind.FAILED], counted[EventKind.CREATED]) == (1, 2)
    assert scheduler.past.events(where, by=Principal("globex", "ann")).events == ()


def test_each_entry_names_its_step(scheduler: Scheduler, chain_id: str) -> None:
    view = scheduler.get(chain_id)
    past = history_payload(
        scheduler.past.attempts(chain_id),
        scheduler.past.events(EventFilter(task_id=chain_id)).events,
        "UTC",
        steps=steps_of(view),
    )
    assert [(each.step, each.outcome, each.run) for each in past.attempts] == [
        ("report", "failed", None),
        ("fetch", "done", None),
    ]
    assert {each.step for each in past.events} == {"fetch", "report"}


def test_a_model_reads_the_history_of_a_chain_with_its_steps_and_thereby_its_outcomes(
    scheduler: Scheduler, chain_id: str
) -> None:
    unread = scheduler.inbox.unread_count()
    text, task = asked_of(scheduler)("get_task", task_id=chain_id, history=True)
    assert "report attempt 1: failed «no paper»" in text
    assert "report failed by " in text
    assert task["history"]["attempts"][1]["step"] == "fetch"
    assert scheduler.inbox.unread_count() == unread - 2


def test_the_history_of_one_task_names_no_step(scheduler: Scheduler, chain_id: str) -> None:
    chain = scheduler.get(chain_id).chain
    assert chain
    _, task = asked_of(scheduler)("get_task", task_id=chain.steps[0].task_id, history=True)
    assert not any("step" in entry for entry in (*task["history"]["attempts"], *task["history"]["events"]))
