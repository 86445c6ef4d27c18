"""Text that no database takes as it is: every entry of the service refuses it plainly, or finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from duetime.scheduler.dispatch.learned_estimates import LearnedEstimates
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, Refused, TaskNotFound
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import Request
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskFilter

from tests.contracts.store.databases import on_each_database

pytestmark = on_each_database

HOSTILE = {
    "a NUL": "t_\x00",
    "half a character": "t_\ud800",
    "an escape": "t_\x1b[2J",
    "40,000 characters": "t" * 40_000,
}

ENTRIES: dict[str, Callable[[Scheduler, str], object]] = {
    "the tenant": lambda s, text: s.inbox.unread(by=Principal(tenant=text)),
    "the user": lambda s, text: s.schedule("Tea", when="in 1 hour", by=Principal(user=text)),
    "title": lambda s, text: s.schedule(text, when="in 1 hour"),
    "when": lambda s, text: s.schedule("Tea", when=text),
    "repeat": lambda s, text: s.schedule("Tea", repeat=text),
    "until of a series": lambda s, text: s.schedule("Tea", repeat="daily", until=text),
    "timezone": lambda s, text: s.schedule("Tea", when="tomorrow", timezone=text),
    "deadline": lambda s, text: s.schedule("Tea", when="in 1 hour", deadline=text),
    "estimate": lambda s, text: s.schedule("Tea", when="in 1 hour", estimate=text),
    "the action of a task": lambda s, text: s.schedule("Tea", when="in 1 hour", action=text),
    "a name in payload": lambda s, text: s.schedule("Tea", when="in 1 hour", payload={text: 1}),
    "a text in payload": lambda s, text: s.schedule("Tea", when="in 1 hour", payload={"message": text}),
    "needs": lambda s, text: s.schedule("Tea", when="in 1 hour", needs={text: 1}),
    "labels": lambda s, text: s.schedule("Tea", when="in 1 hour", labels=[text]),
    "deliver_to": lambda s, text: s.schedule("Tea", when="in 1 hour", deliver_to=[text]),
    "the key of a task": lambda s, text: s.schedule("Tea", when="in 1 hour", idempotency_key=text),
    "one of several titles": lambda s, text: s.task_creator.create_many(
        [Request("Tea", when="in 1 hour"), Request(text)]
    ),
    "find": lambda s, text: s.tasks.find(text),
    "titles": lambda s, text: s.tasks.titles([text]),
    "get": lambda s, text: s.get(text),
    "explain": lambda s, text: s.explain(text),
    "attempts": lambda s, text: s.past.attempts(text),
    "reschedule": lambda s, text: s.reschedule(text, when="tomorrow"),
    "cancel": lambda s, text: s.cancel(text),
    "act": lambda s, text: s.act(text, "run_now"),
    "done": lambda s, text: s.act(text, "done"),
    "the messages to mark": lambda s, text: s.inbox_changes.mark_read([text]),
    "the task to mark": lambda s, text: s.inbox_changes.mark_read(task_id=text),
    "query": lambda s, text: s.tasks.list(TaskFilter(query=text)),
    "the label of a filter": lambda s, text: s.tasks.list(TaskFilter(label=text)),
    "the action of a filter": lambda s, text: s.tasks.list(TaskFilter(action=text)),
    "after": lambda s, text: s.tasks.list(after=text),
    "the cursor of a list": lambda s, text: s.tasks.list(cursor=text),
    "the task of events": lambda s, text: s.past.events(EventFilter(task_id=text)),
    "the text of events": lambda s, text: s.past.events(EventFilter(text=text)),
    "the label of events": lambda s, text: s.past.events(EventFilter(label=text)),
    "the action of events": lambda s, text: s.past.events(EventFilter(action=text)),
    "since": lambda s, text: s.past.events(since=text),
    "the cursor of events": lambda s, text: s.past.events(cursor=text),
    "the cursor of dead letters": lambda s, text: s.letters.page(cursor=text),
}

OF_A_TASK: dict[str, Callable[[Scheduler, str, str], object]] = {
    "the new title": lambda s, task_id, text: s.reschedule(task_id, title=text),
    "the new time": lambda s, task_id, text: s.reschedule(task_id, when=text),
    "the key of a change": lambda s, task_id, text: s.reschedule(task_id, when="tomorrow", idempotency_key=text),
    "the button": lambda s, task_id, text: s.act(task_id, text),  # type: ignore[arg-type] # hostile on purpose
    "until of a snooze": lambda s, task_id, text: s.act(task_id, "snooze", until=text),
    "undo": lambda s, task_id, text: s.act(task_id, "undo", undo=text),
    "the reason": lambda s, task_id, text: s.cancel(task_id, reason=text),
}


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    learned = LearnedEstimates(store)
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "Europe/Berlin", estimates=learned.estimate))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_text_that_no_database_takes_is_refused_plainly_or_names_nothing(scheduler: Scheduler, text: str) -> None:
    task_id = scheduler.schedule("Tea", when="in 1 hour").record.task.id
    defects: list[str] = []

    def note(name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except (InvalidArgument, InvalidArguments, Refused, TaskNotFound):
            pass
        except Exception as error:  # noqa: BLE001 - each is a finding of this test
            defects.append(f"{name}: {type(error).__name__}: {str(error)[:120]!r}")

    for name, call in ENTRIES.items():
        note(name, partial(call, scheduler, text))
    for name, change in OF_A_TASK.items():
        note(name, partial(change, scheduler, task_id, text))
    assert defects == []
