"""Labels, channels, retries and the number of runs, changed after a task was scheduled: said, told, and put back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.reschedule import REMOVABLE_ARGUMENTS
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument, InvalidArguments, StaleRevision
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.changes.terms import AFTER_THE_ATTEMPT, PAUSED_AFTER_THE_ATTEMPT
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.retry import retry_policy
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, RetryPolicy, Task
from duetime.scheduler.views import TaskFilter

from tests.builders import LEASE, Clock
from tests.flow.tools.calls import Ask, asked_of

THREE_TRIES = RetryPolicy(max_attempts=3, backoff=timedelta(seconds=30))
TRIED_AGAIN = "it is tried again up to 2 times, about 30 s to 1 min apart"
FILLED_IN: Mapping[str, Any] = {
    "labels": [],
    "deliver_to": [],
    "retry": {"max_attempts": 0, "backoff_seconds": 0, "max_backoff_seconds": 0},
    "max_runs": 0,
    "remove": [],
}
"""Values that a strict client sends for arguments that it leaves out."""


class Mailbox:
    """A channel that sends nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Forget the message."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    channels = Channels([Mailbox("team"), Mailbox("boss")])
    handlers = Handlers.load(entry_points=False)
    return Scheduler(store, Planner(handlers, "UTC", channels=channels, default_channels=["boss"]))


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def made(scheduler: Scheduler, **arguments: Any) -> str:
    given = {"repeat": "every day at 9:00", "labels": ["old"], "deliver_to": ["team"], "max_runs": 5, **arguments}
    return scheduler.schedule("Report", **given).record.task.id


def task_of(scheduler: Scheduler, task_id: str) -> Task:
    return scheduler.get(task_id).record.task


def test_labels_channels_retries_and_runs_change_and_the_rest_stays(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    before = scheduler.get(task_id).record
    view = scheduler.reschedule(
        task_id, labels=["new", "x", "new"], deliver_to=["boss", "inbox"], retry=THREE_TRIES, max_runs=7
    )
    task = view.record.task
    assert (task.labels, task.deliver_to, task.retry, task.max_runs) == (("new", "x"), ("boss",), THREE_TRIES, 7)
    assert (task.payload, task.repeat, view.record.run) == (before.task.payload, before.task.repeat, before.run)
    assert [found.record.task.id for found in scheduler.tasks.list(TaskFilter(label="x")).views] == [task_id]
    assert scheduler.tasks.list(TaskFilter(label="old")).views == ()


def test_the_history_says_what_changed_from_what_to_what(scheduler: Scheduler, ask: Ask) -> None:
    task_id = made(scheduler)
    ask(
        "reschedule_task",
        task_id=task_id,
        labels=["new"],
        deliver_to=["boss"],
        retry={"max_attempts": 3, "backoff_seconds": 30},
        max_runs=7,
    )
    newest = scheduler.past.events(EventFilter(task_id=task_id)).events[0]
    text, _ = ask("get_task", task_id=task_id, history=True)
    assert newest.kind is EventKind.RESCHEDULED
    assert newest.before == {
        "labels": ["old"],
        "deliver_to": ["team"],
        "retry": {"max_attempts": 5, "backoff": 1.0, "max_backoff": 3600.0},
        "max_runs": 5,
    }
    assert newest.after is not None
    assert newest.after.keys() == newest.before.keys()
    assert "retry 5 attempts, 1 s to 1 h apart -> 3 attempts, 30 s to 1 h apart" in text
    assert "labels «old» -> «new»" in text
    assert "deliver_to team -> boss" in text
    assert "max_runs 5 -> 7" in text


def test_the_values_before_a_change_put_the_task_back_as_it_was(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    before = task_of(scheduler, task_id)
    scheduler.reschedule(task_id, labels=["new"], deliver_to=["boss"], retry=THREE_TRIES, max_runs=7)
    told = scheduler.past.events(EventFilter(task_id=task_id)).events[0].before
    assert told is not None
    old: Any = dict(told)
    back = scheduler.reschedule(
        task_id,
        labels=old["labels"],
        deliver_to=old["deliver_to"],
        retry=retry_policy({"max_attempts": old["retry"]["max_attempts"]}),
        max_runs=old["max_runs"],
    ).record.task
    assert (back.labels, back.deliver_to, back.retry, back.max_runs) == (
        before.labels,
        before.deliver_to,
        before.retry,
        before.max_runs,
    )


def test_undo_takes_the_change_back(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    before = scheduler.get(task_id).record
    changed = scheduler.reschedule(task_id, labels=["new"], deliver_to=["boss"], retry=THREE_TRIES, max_runs=7)
    back = scheduler.act(task_id, "undo", undo=changed.undo).record
    for name in ("labels", "deliver_to", "retry", "max_runs", "repeat", "payload"):
        assert getattr(back.task, name) == getattr(before.task, name), name
    assert back.run == before.run
    assert [found.record.task.id for found in scheduler.tasks.list(TaskFilter(label="old")).views] == [task_id]


def test_undoing_a_cancel_brings_the_task_back_as_it_was_changed(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    changed = scheduler.reschedule(task_id, labels=["new"], deliver_to=["boss"], retry=THREE_TRIES, max_runs=7).record
    cancelled = scheduler.cancel(task_id)
    back = scheduler.act(task_id, "undo", undo=cancelled.undo).record.task
    for name in ("labels", "deliver_to", "retry", "max_runs", "repeat"):
        assert getattr(back, name) == getattr(changed.task, name)


def test_an_old_revision_changes_nothing_and_is_told_what_did(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    scheduler.reschedule(task_id, labels=["new"], retry=THREE_TRIES, revision=1)
    with pytest.raises(StaleRevision, match="rescheduled"):
        scheduler.reschedule(task_id, labels=["newer"], revision=1)
    assert task_of(scheduler, task_id).labels == ("new",)


def test_blank_arguments_of_a_strict_client_change_nothing(scheduler: Scheduler, ask: Ask) -> None:
    task_id = made(scheduler)
    before = task_of(scheduler, task_id)
    ask("reschedule_task", task_id=task_id, title="Weekly report", **FILLED_IN)
    after = task_of(scheduler, task_id)
    assert after.title == "Weekly report"
    for name in ("labels", "deliver_to", "retry", "max_runs", "payload"):
        assert getattr(after, name) == getattr(before, name)


def test_one_run_of_a_task_that_runs_once_is_said_aloud_and_does_no_harm(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Call John", when="in 2 hours").record.task.id
    assert scheduler.reschedule(task_id, title="Call Jane", max_runs=1).record.task.max_runs is None
    with pytest.raises(InvalidArgument, match="max_runs: only a recurring task has an end"):
        scheduler.reschedule(task_id, max_runs=2)


def test_a_removed_argument_is_as_if_it_had_never_been_given(scheduler: Scheduler, ask: Ask) -> None:
    task_id = made(scheduler, retry=THREE_TRIES, payload={"message": "Bring coffee"})
    ask("reschedule_task", task_id=task_id, remove=list(REMOVABLE_ARGUMENTS))
    fresh = scheduler.schedule("Other", repeat="every day at 9:00").record.task
    task = task_of(scheduler, task_id)
    for name in set(REMOVABLE_ARGUMENTS) - {"after", "wait_for"}:  # it waits for nothing
        assert getattr(task, name) == getattr(fresh, name), name
    assert task.deliver_to == ("boss",)


def test_only_the_inbox_is_told_where_only_the_inbox_is_named(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    assert scheduler.reschedule(task_id, deliver_to=["inbox"]).record.task.deliver_to == ()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"labels": ["x"] * 11}, "labels: 11 labels. Accepted: up to 10"),
        ({"labels": [" "]}, "labels: "),
        ({"deliver_to": ["pigeon"]}, "deliver_to: no channel 'pigeon' is configured. Accepted: inbox, team, boss"),
        ({"retry": RetryPolicy(max_attempts=0)}, "retry: out of range"),
        ({"max_runs": 0}, "max_runs: out of range"),
        ({"remove": ["title"]}, "remove: 'title' cannot be removed. Accepted: a list of payload, needs"),
        ({"remove": ["labels"], "labels": ["x"]}, "remove: labels is also given"),
    ],
)
def test_a_wrong_argument_is_refused_and_changes_nothing(scheduler: Scheduler, wrong: Any, said: str) -> None:
    task_id = made(scheduler)
    with pytest.raises(InvalidArgument) as caught:
        scheduler.reschedule(task_id, **wrong)
    assert str(caught.value).startswith(said)
    assert task_of(scheduler, task_id).revision == 1


def test_all_that_is_wrong_is_said_at_once(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    with pytest.raises(InvalidArguments) as caught:
        scheduler.reschedule(task_id, title="", labels=["x"] * 11, deliver_to=["pigeon"], max_runs=0)
    assert [problem.argument for problem in caught.value.problems] == ["title", "deliver_to", "labels", "max_runs"]


def test_the_same_values_again_change_nothing(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    same = scheduler.reschedule(task_id, labels=["old"], deliver_to=["team"], max_runs=5)
    assert (same.record.task.revision, same.warnings) == (1, (NOTHING_CHANGED,))


def test_a_change_of_retries_while_an_attempt_runs_says_that_it_ends_as_it_began(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = made(scheduler)
    clock.forward(days=2)
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    assert len(store.claims.start(ready, worker="w", epoch=None, lease=LEASE)) == 1
    assert scheduler.reschedule(task_id, retry=THREE_TRIES).warnings == (AFTER_THE_ATTEMPT, TRIED_AGAIN)
    assert scheduler.reschedule(task_id, labels=["new"]).warnings == ()


def test_the_time_that_a_task_has_already_moves_nothing(scheduler: Scheduler) -> None:
    once, daily = made(scheduler, repeat=None, max_runs=None, when="tomorrow 9am"), made(scheduler)
    for task_id in (once, daily):
        at = scheduler.get(task_id).record.run.scheduled_for
        again = scheduler.reschedule(task_id, when=at)
        assert (again.record.task.revision, again.warnings) == (1, (NOTHING_CHANGED,))


def test_a_pause_while_an_attempt_runs_says_that_this_one_goes_on(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = made(scheduler)
    clock.forward(days=2)
    store.claims.start([Start(r.run_id) for r in store.claims.make_ready(limit=9)], worker="w", epoch=None, lease=LEASE)
    assert scheduler.reschedule(task_id, pause=True).warnings == (PAUSED_AFTER_THE_ATTEMPT,)
    assert scheduler.reschedule(task_id, pause=False).warnings == ()


def test_a_run_that_has_begun_is_not_one_of_the_next(
    scheduler: Scheduler, store: Store, clock: Clock, ask: Ask
) -> None:
    task_id = made(scheduler)
    clock.forward(days=2)
    store.claims.start([Start(r.run_id) for r in store.claims.make_ready(limit=9)], worker="w", epoch=None, lease=LEASE)
    text, _ = ask("get_task", task_id=task_id)
    assert "Next: Fri 27 Nov 09:00, Sat 28 Nov 09:00" in text


def test_a_dry_run_shows_the_new_values_and_stores_none(scheduler: Scheduler, ask: Ask) -> None:
    task_id = made(scheduler)
    _, shown = ask("reschedule_task", task_id=task_id, labels=["new"], max_runs=7, dry_run=True)
    assert (shown["labels"], shown["repeat"]["max_runs"]) == (["new"], 7)
    assert task_of(scheduler, task_id).labels == ("old",)


def test_a_repeated_call_is_made_once(scheduler: Scheduler) -> None:
    task_id = made(scheduler)
    given = {"retry": THREE_TRIES, "labels": ["new"], "idempotency_key": "k"}
    first, second = (scheduler.reschedule(task_id, **given) for _ in range(2))  # type: ignore[arg-type] # of several types
    assert (first.warnings, second.warnings) == ((TRIED_AGAIN,), (REPEATED_CALL,))
    assert second.record.task.revision == 2
    with pytest.raises(IdempotencyConflict, match=r"used before.* Use a new key for this change\.$"):
        scheduler.reschedule(task_id, retry=THREE_TRIES, labels=["newer"], idempotency_key="k")
