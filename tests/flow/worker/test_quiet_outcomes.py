"""Outcomes that tell nobody: by the `notify` of a task, or because the handler says so; the inbox counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.retry import MAX_CRASHES
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Claim, Settlement, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Notify, RetryPolicy, Task
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.widgets.payload import task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import TENANT, Clock, added
from tests.flow.tools.calls import settled
from tests.flow.waiting import eventually
from tests.virtual import VirtualRunner

ALICE = Principal(TENANT, "alice")
SAME = Done("3 mails", {"mails": 3})


class Checks:
    """A recurring task whose handler returns these outcomes, run after run."""

    def __init__(self, store: Store, clock: Clock, notify: Notify, outcomes: Sequence[Outcome]) -> None:
        self.store, self.clock = store, clock
        self._left = list(outcomes)

        @handler("check")
        def check(_ctx: Context) -> Outcome:
            return self._left.pop(0)

        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.handlers = Handlers([check])
        self.worker = Worker(store, self.queue, self.handlers, WorkerOptions("w", threads=1))
        self.record = added(
            store, action="check", payload={}, repeat="FREQ=HOURLY", deliver_to=("team",), notify=notify
        )
        self.worker.start()

    def run(self) -> None:
        before = self.store.tasks.get(TENANT, self.record.task.id).run
        self.clock.at = before.scheduled_for
        self.store.claims.make_ready(limit=1)
        self.queue.put([Entry(before.id, self.clock().timestamp() * 1000)])
        eventually(lambda: self.store.tasks.get(TENANT, self.record.task.id).run.id != before.id, "the run to end")

    def told(self) -> list[str]:
        """Return what the user is told of, oldest first; each is delivered as well."""
        unread = [message.text for message in reversed(self.store.inbox.unread(TENANT, "alice"))]
        assert len(self.store.deliveries.due(limit=99)) == len(unread)
        return unread


@pytest.mark.parametrize(
    ("notify", "told"),
    [
        (Notify.ALWAYS, ["3 mails", "3 mails", "away", "3 mails"]),
        (Notify.FAILURE, ["away"]),
        (Notify.CHANGE, ["3 mails", "away", "3 mails"]),
        (Notify.NEVER, []),
    ],
)
def test_a_task_notifies_of_what_it_was_set_to_notify_of(
    store: Store, clock: Clock, notify: Notify, told: list[str]
) -> None:
    checks = Checks(store, clock, notify, [SAME, SAME, Failed("away"), SAME])
    for _ in range(4):
        checks.run()
    checks.worker.stop(timedelta(0))
    assert [text.partition(" (")[0] for text in checks.told()] == told
    assert store.inbox.quiet_count(TENANT, "alice", most=99) == 4 - len(told)
    clock.forward(hours=25)
    assert store.inbox.quiet_count(TENANT, "alice", most=99) == 0


def told_of(store: Store, task: Task) -> int:
    return len(store.inbox.unread(task.tenant, task.owner, of=task.id))


@pytest.mark.parametrize(("notify", "told"), [("change", 1), ("failure", 3)])
def test_an_event_that_never_comes_is_no_change(store: Store, clock: Clock, notify: Any, told: int) -> None:
    runner = VirtualRunner(store, clock, Handlers.load(entry_points=False), "UTC", {})
    waits: Any = {"event": "paid", "timeout": "1 minute", "on_timeout": "expire"}
    view = runner.scheduler.schedule("Ship", repeat="every day at 12:30", notify=notify, wait_for=waits)
    for _ in range(6):
        clock.forward(hours=12)
        runner.dispatch()
    assert told_of(store, view.record.task) == told


def test_a_success_after_an_event_that_did_not_come_is_a_change(store: Store, clock: Clock) -> None:
    checks = Checks(store, clock, Notify.CHANGE, [SAME, SAME, SAME])
    scheduler = Scheduler(store, Planner(checks.handlers, "UTC"))
    waits: Any = {"event": "paid", "timeout": "5 min", "on_timeout": "skip"}
    given: Any = {"repeat": "every day at 12:30", "notify": "change", "wait_for": waits}
    checks.record = scheduler.schedule("Ship", action="check", **given, by=ALICE).record
    for comes in (True, False, True, True):
        clock.at = store.tasks.get(TENANT, checks.record.task.id).run.scheduled_for
        store.claims.make_ready(limit=9)  # it waits from now on
        if comes:
            assert scheduler.signals.send("paid", by=ALICE).freed == 1
            checks.run()
        else:
            clock.forward(minutes=5)
            assert store.signals.end_late(limit=9) == [checks.record.task.id]
    checks.worker.stop(timedelta(0))
    unread = [message.text.partition(" (")[0] for message in reversed(store.inbox.unread(TENANT, "alice"))]
    assert (unread[0], len(unread), unread[2]) == ("3 mails", 3, "3 mails")


ENDS: dict[str, Any] = {
    "no event": {"wait_for": {"event": "paid", "timeout": "5 min", "on_timeout": "skip"}},
    "no answer": {"approval": {"question": "Pay?", "by": "5 min"}},
    "too late": {"approval": "Pay?", "deadline": "5 min", "deadline_type": "hard"},
}


@pytest.mark.parametrize(("notify", "told"), [("change", 1), ("always", 3)])
@pytest.mark.parametrize("end", ENDS)
def test_the_same_end_on_another_day_is_no_change(store: Store, clock: Clock, end: str, notify: Any, told: int) -> None:
    runner = VirtualRunner(store, clock, Handlers.load(entry_points=False), "UTC", {})
    view = runner.scheduler.schedule("Ship", repeat="every day at 12:30", notify=notify, **ENDS[end])
    for _ in range(3):
        for wait in ({"minutes": 30}, {"minutes": 10}, {"hours": 23, "minutes": 20}):
            clock.forward(**wait)
            runner.dispatch()
    assert told_of(store, view.record.task) == told


@pytest.mark.parametrize(("notify", "told"), [("change", 1), ("failure", 3)])
def test_an_expiry_in_the_same_words_is_no_change(store: Store, clock: Clock, notify: Any, told: int) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    given: Any = {"repeat": "every day at 12:30", "deadline": "5 min", "deadline_type": "hard"}
    view = scheduler.schedule("Ship", notify=notify, **given)

    def late(claim: Claim, end: Settlement) -> Settlement:
        return with_consequences(claim, replace(end, reason="too late", error="too late"), now=clock())

    for _ in range(3):
        clock.forward(hours=24)
        assert store.claims.expire(limit=9, conclude=late)
    assert told_of(store, view.record.task) == told


@pytest.mark.parametrize(("notify", "told"), [(Notify.CHANGE, 1), (Notify.FAILURE, 3)])
def test_a_worker_that_dies_again_is_no_change(store: Store, clock: Clock, notify: Notify, told: int) -> None:
    retry = RetryPolicy(max_attempts=1)
    task = added(store, repeat="FREQ=HOURLY", notify=notify, retry=retry).task
    for _ in range(3):
        clock.at = store.tasks.get(TENANT, task.id).run.scheduled_for
        for _ in range(MAX_CRASHES):
            ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
            store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
            clock.forward(minutes=2)
            store.claims.recover_lapsed(
                epoch=None,
                held=(),
                before=clock(),
                conclude=lambda claim, end: with_consequences(claim, end, now=clock()),
            )
            clock.forward(minutes=2)
    assert told_of(store, task) == told


def test_a_handler_can_be_quiet_about_work_that_came_to_nothing(store: Store, clock: Clock) -> None:
    checks = Checks(store, clock, Notify.ALWAYS, [Done("nothing new", quiet=True), SAME])
    checks.run()
    checks.run()
    checks.worker.stop(timedelta(0))
    assert checks.told() == ["3 mails"]
    quiet = store.run_history.page(TENANT, RunFilter(), limit=9).runs[-1]
    assert store.run_history.detail(TENANT, quiet.id).run.summary == "nothing new"
    assert store.inbox.quiet_count(TENANT, "alice", most=9) == 1


def test_the_list_of_tasks_says_how_many_were_left_out(store: Store, clock: Clock) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    view = scheduler.schedule("Check", when="now", notify="never")
    assert view.record.task.notify is Notify.NEVER
    settled(store, clock(), Done("3 mails"))
    assert task_payload(scheduler.get(view.record.task.id)).delivery is None
    page = scheduler.tasks.list(mention=True)
    assert (page.unread_count, page.quiet_count) == (0, 1)
    assert "1 quiet outcome of the last 24 hours left out." in list_text(page)
    changed = scheduler.reschedule(view.record.task.id, notify="failure", when="in 1 hour")
    assert (changed.record.task.notify, task_payload(changed).notify) == (Notify.FAILURE, Notify.FAILURE)
    assert "Notifies the user: failure." in task_text(task_payload(changed))
    with pytest.raises(InvalidArgument, match="always, failure, change, never"):
        scheduler.schedule("Check", when="now", notify="often")  # type: ignore[arg-type]  # that is what is refused
