"""Tasks that come after others, as callers of the service meet them: lists, explanations and cards."""

from __future__ import annotations

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.tools.arguments.filters import states_of
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "America/Denver", upstreams=store.dependencies.known))


def test_a_list_of_what_waits_has_what_comes_after_others_and_nothing_that_is_ready(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Fetch", when="in 1 hour").record.task.id
    second = scheduler.schedule("Report", after=[first]).record.task.id
    found = scheduler.tasks.list(TaskFilter(states=states_of("waiting")))
    assert [view.record.task.id for view in found.views] == [second]
    assert found.counts == {State.WAITING: 1}


def test_a_card_names_the_task_that_it_waits_for(scheduler: Scheduler) -> None:
    first = scheduler.schedule("Fetch", when="in 1 hour").record.task.id
    card = task_payload(scheduler.schedule("Report", after=[first]))
    assert card.waits
    assert (card.waits[0].task, card.waits[0].title, card.waits[0].state) == (first, "Fetch", State.SCHEDULED)
    assert f"Waiting for {first} «Fetch», which is scheduled." in task_text(card)
