"""A row of a list says that its run stops, and until when it is held, in the words of the single task."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.remote import RemoteQueue, answer
from duetime.scheduler.rules.limits.pool_spec import read_pool
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage
from duetime.scheduler.views import TaskFilter
from duetime.server.cli.formats import task_list
from duetime.widgets.formats.whole_list import whole_list_payload
from duetime.widgets.payload import as_json, list_payload, task_payload
from duetime.widgets.schema.task_list import ListRow
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, restarted


class Team:
    """A channel that is never tried here."""

    name = "webhook:team"

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Close nothing."""


@handler("build")
def build(_ctx: Context) -> Failed:
    """Build."""
    return Failed("disk full")


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(lambda: clock().timestamp() * 1000)


@pytest.fixture
def scheduler(store: Store, queue: MemoryQueue) -> Scheduler:
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict)
    return Scheduler(store, Planner(Handlers([build]), "UTC", channels=Channels([Team()])), explainer=explainer)


def row(scheduler: Scheduler) -> ListRow:
    [found] = list_payload(scheduler.tasks.list(TaskFilter())).tasks
    return found


def said(scheduler: Scheduler) -> tuple[str, str]:
    """Return the list as tools answer it, and why its task waits as the command line writes it."""
    page = scheduler.tasks.list(TaskFilter())
    [found] = as_json(whole_list_payload(page))["tasks"]
    return list_text(page), task_list._reason(found)


def test_a_row_of_a_run_that_was_asked_to_stop_says_so(scheduler: Scheduler, store: Store) -> None:
    task_id = scheduler.schedule("Build", action="build").record.task.id
    restarted(store, scheduler.get(task_id).record)
    assert row(scheduler).cancel_requested is None
    scheduler.cancel(task_id)
    assert row(scheduler).cancel_requested
    assert " stopping «Build»" in list_text(scheduler.tasks.list(TaskFilter()))


def test_a_row_that_waits_for_an_event_or_an_answer_says_until_when(scheduler: Scheduler) -> None:
    wait = {"event": "order.paid", "timeout": "2 days"}
    task_id = scheduler.schedule("Ship", action="build", wait_for=wait).record.task.id
    words = "for the event 'order.paid', until Thu 26 Nov 2026 12:00 (in 2 d), then it expires"
    assert f"Waiting {words}." in task_text(task_payload(scheduler.get(task_id)))
    tool, terminal = said(scheduler)
    assert f"(waits {words})" in tool
    assert terminal == f"waits {words}"
    [of_row], [of_task] = row(scheduler).waits or (), task_payload(scheduler.get(task_id)).waits or ()
    assert as_json(of_row) == as_json(of_task)
    scheduler.cancel(task_id)
    assert row(scheduler).waits is None


def test_a_row_that_a_pool_holds_says_which_and_until_when_as_the_task_does(
    scheduler: Scheduler, store: Store, queue: MemoryQueue
) -> None:
    task_id = scheduler.schedule("Sync", action="build").record.task.id
    store.claims.make_ready(limit=9)
    run = scheduler.get(task_id).record.run
    queue.set_pool("api", read_pool("api", {"kind": "rate", "capacity": 1, "per": "minute"}).limits(store.now()))
    queue.put([Entry("r_before", 1.0, needs={"api": 1}), Entry(run.id, 2.0, needs={"api": 1})])
    queue.take("w", 2, 30_000)
    single = task_text(task_payload(scheduler.get(task_id)))
    words = "waits for pool api: it needs 1, 0 of 1 are free, until Tue 24 Nov 2026 12:01 (in 1 min)"
    assert words.removeprefix("waits for ") in single
    tool, terminal = said(scheduler)
    assert words in tool
    assert words in terminal
    [wait] = row(scheduler).waits or ()
    assert (wait.kind, wait.pool, wait.until) == ("pool", "api", "2026-11-24T12:01:00Z")


def test_a_chain_whose_next_step_a_pool_holds_says_which(
    scheduler: Scheduler, store: Store, queue: MemoryQueue
) -> None:
    view = scheduler.schedule("Sync", steps=[{"name": "first", "action": "build"}])
    assert view.chain
    store.claims.make_ready(limit=9)
    run = scheduler.get(view.chain.steps[0].task_id).record.run
    queue.set_pool("api", read_pool("api", {"kind": "rate", "capacity": 1, "per": "minute"}).limits(store.now()))
    queue.put([Entry("r_before", 1.0, needs={"api": 1}), Entry(run.id, 2.0, needs={"api": 1})])
    queue.take("w", 2, 30_000)
    said = task_text(task_payload(scheduler.get(view.chain.id)))
    assert "pool api: it needs 1, 0 of 1 are free, until Tue 24 Nov 2026 12:01 (in 1 min)" in said


def test_a_row_whose_delivery_quiet_hours_hold_says_until_when(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Back up", action="build", on_failure={"notify": "webhook:team"}).record.task.id
    claim = restarted(store, scheduler.get(task_id).record)
    store.claims.settle([settle(claim, Failed("disk full"), now=store.now(), jitter=0.0)])
    [delivery] = scheduler.get(task_id).record.deliveries
    store.deliveries.postpone({delivery.id: clock() + timedelta(hours=19)})
    words = "held until Wed 25 Nov 2026 07:00 (quiet hours)"
    assert words in task_text(task_payload(scheduler.get(task_id)))
    tool, terminal = said(scheduler)
    assert f"(delivery {words})" in tool
    assert terminal == f"disk full; delivery {words}"
    assert row(scheduler).held_until == "2026-11-25T07:00:00Z"
    clock.forward(hours=20)
    assert row(scheduler).held_until is None


def test_a_question_that_quiet_hours_hold_says_until_when(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    asked = scheduler.schedule("Pay", action="build", approval="Pay 90 EUR?", deliver_to=["webhook:team"])
    [(delivery, _)] = store.deliveries.due(limit=9)
    store.deliveries.postpone({delivery.id: clock() + timedelta(hours=19)})
    words = "held until Wed 25 Nov 2026 07:00 (quiet hours)"
    assert f"Delivery to webhook:team: {words}, to the inbox at once." in task_text(
        task_payload(scheduler.get(asked.record.task.id))
    )
    assert row(scheduler).held_until == "2026-11-25T07:00:00Z"
    assert words in said(scheduler)[0]


def test_the_queue_is_asked_about_the_first_ready_runs_of_a_page_alone(
    scheduler: Scheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        scheduler.schedule(f"Build {number}", action="build")
    store.claims.make_ready(limit=9)
    asked: list[str] = []
    known = scheduler.tasks._facts._explainer
    assert known

    def explain(_self: object, run_id: str) -> tuple[None, None]:
        asked.append(run_id)
        return None, None

    monkeypatch.setattr(type(known._remote_queue), "explain", explain)
    scheduler.tasks.list(TaskFilter())
    assert len(asked) == len(set(asked)) == 5, "each once"
