"""Follow-ups: a failure makes the task that `on_failure` asks for, once, and raises the tier of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, InvalidArguments, StaleRevision
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import Change
from duetime.scheduler.rules.settlement import Unverified, settle, with_consequences
from duetime.scheduler.run_records import Claim, Start, Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Task, Tier
from duetime.scheduler.views import TaskFilter, TaskRecord

from tests.builders import LEASE, TENANT, Clock, restarted
from tests.contracts.store.databases import on_each_database

ALICE = Principal(TENANT, "alice")
HOOK = {"action": "webhook", "payload": {"url": "https://example.com/page"}}
TELL = {"action": "reminder"}


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    handlers = Handlers.load(entry_points=False)
    return Scheduler(store, Planner(handlers, "UTC", channels=Channels(), upstreams=store.dependencies.known))


def ended(store: Store, record: TaskRecord, outcome: Outcome) -> Claim:
    """Run a task once, and settle it with this outcome."""
    claim = restarted(store, record)
    assert settled(store, claim, outcome) == [Verdict.SETTLED]
    return claim


def settled(store: Store, claim: Claim, outcome: Outcome) -> list[Verdict]:
    return list(store.claims.settle([settle(claim, outcome, now=store.now(), jitter=0.0)]))


def made(store: Store) -> list[Task]:
    return [each.task for each in store.tasks.page(TENANT, TaskFilter(label="on_failure"), limit=99)[0]]


def events(store: Store, task_id: str) -> list[Event]:
    return list(store.history.events(TENANT, EventFilter(task_id=task_id), limit=99).events)


def a_task(scheduler: Scheduler, on_failure: Mapping[str, Any], **more: Any) -> TaskRecord:
    return scheduler.schedule("Import", when="now", on_failure=on_failure, by=ALICE, **more).record


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (Failed("disk full", {"rows": 3}), "Import failed: disk full"),
        (
            Unverified("done", {"rows": 3}, miss="the result has no `id`"),
            "Import is unverified: the result has no `id`",
        ),
    ],
)
def test_a_failure_makes_one_task_with_it_as_input(
    store: Store, scheduler: Scheduler, *, outcome: Outcome, why: str
) -> None:
    freed: list[str] = []
    store.commits.listen(freed.extend)
    record = a_task(scheduler, {"run": HOOK}, labels=["crm"], priority="high", notify="failure")
    claim = ended(store, record, outcome)
    [task] = made(store)
    assert freed == [task.id]
    assert (task.title, task.action, task.owner) == ("On failure: Import", "webhook", "alice")
    assert task.payload["url"] == "https://example.com/page"
    assert (task.labels, task.priority, task.on_failure) == (("crm", "on_failure"), Tier.HIGH, {})
    assert task.retry.max_attempts == 10  # as webhooks are tried
    cause = store.dependencies.results(TENANT, task.id)["failure"]
    assert isinstance(cause, Mapping)
    assert (cause["task_id"], cause["run_id"], cause["result"]) == (record.task.id, claim.run.id, {"rows": 3})
    assert why.endswith(str(cause["why"]))
    [created] = [each for each in events(store, task.id) if each.kind is EventKind.CREATED]
    assert created.reason == f"on_failure of {record.task.id}: {why}"
    end = [each for each in events(store, record.task.id) if each.to_state is outcome_state(outcome)]
    assert end[0].after == {"follow_up": task.id}
    assert [each.task.id for each in store.dependencies.made_by_failures(TENANT, record.task.id)] == [task.id]


def outcome_state(outcome: Outcome) -> State:
    return State.SUCCEEDED if isinstance(outcome, Done) else State.FAILED


def test_a_result_that_comes_twice_makes_one_task_and_a_replay_that_fails_another(
    store: Store, scheduler: Scheduler
) -> None:
    record = a_task(scheduler, {"run": HOOK})
    claim = ended(store, record, Failed("disk full"))
    assert settled(store, claim, Failed("disk full")) == [Verdict.FENCED]
    assert len(made(store)) == 1
    scheduler.act(record.task.id, "run_now", by=ALICE)
    ended(store, store.tasks.get(TENANT, record.task.id), Failed("disk full"))
    assert len(made(store)) == 2


def test_nothing_follows_from_the_failure_of_what_a_failure_made_nor_from_a_success(
    store: Store, scheduler: Scheduler
) -> None:
    ended(store, a_task(scheduler, {"run": HOOK, "tier": "high"}), Done("done"))
    assert made(store) == []
    ended(store, a_task(scheduler, {"run": HOOK}), Failed("disk full"))
    [task] = made(store)
    ended(store, store.tasks.get(TENANT, task.id), Failed("no answer"))
    assert len(made(store)) == 1


def test_a_reminder_without_a_message_says_what_failed(store: Store, scheduler: Scheduler) -> None:
    ended(store, a_task(scheduler, {"run": TELL}, notify="never"), Failed("disk full"))
    [task] = made(store)
    assert (task.payload["message"], task.notify) == ("Import failed: disk full", "always")


def test_an_expired_and_a_crashed_run_make_a_task_too(store: Store, scheduler: Scheduler, clock: Clock) -> None:
    record = a_task(scheduler, {"run": TELL}, deadline="1 min", deadline_type="hard")
    clock.forward(minutes=2)
    store.claims.expire(limit=9, conclude=lambda claim, end: with_consequences(claim, end, now=clock()))
    [task] = made(store)
    assert str(task.payload["message"]).startswith("Import expired: its deadline of")
    other = a_task(scheduler, {"run": TELL})
    for _ in range(3):
        restarted(store, store.tasks.get(TENANT, other.task.id), epoch=None)
        clock.forward(minutes=10)
        store.claims.recover_lapsed(
            epoch=None, held=(), before=clock(), conclude=lambda claim, end: with_consequences(claim, end, now=clock())
        )
        clock.forward(minutes=10)
    assert store.tasks.get(TENANT, other.task.id).run.state is State.FAILED
    assert len(made(store)) == 2
    assert record.task.id != other.task.id


@on_each_database
def test_an_attempt_that_fails_raises_the_tier_for_the_next_one(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    record = a_task(scheduler, {"tier": "high"})
    ended(store, record, Retry("no answer", after=timedelta(0)))
    task = store.tasks.get(TENANT, record.task.id).task
    assert (task.priority, task.revision, task.updated_at) == (Tier.HIGH, 2, clock())
    with pytest.raises(StaleRevision, match=r"at revision 2, not 1.*Since then: rescheduled by duetime"):
        scheduler.reschedule(task.id, title="Sync", revision=1, by=ALICE)
    [raised] = [each for each in events(store, task.id) if each.kind is EventKind.RESCHEDULED]
    assert (raised.actor, raised.reason) == ("duetime", "on_failure raises its tier")
    assert (raised.before, raised.after) == ({"priority": "normal"}, {"priority": "high"})
    clock.forward(seconds=1)
    [ready] = store.claims.make_ready(limit=9)
    assert ready.tier is Tier.HIGH


def test_a_recurring_task_that_fails_has_its_next_run_in_the_raised_tier(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    record = scheduler.schedule("Sync", repeat="daily at 12:00", on_failure={"tier": "critical"}, by=ALICE).record
    clock.forward(days=1)
    ended(store, record, Failed("no answer"))
    clock.forward(days=1)
    [ready] = store.claims.make_ready(limit=9)
    assert (ready.task_id, ready.tier) == (record.task.id, Tier.CRITICAL)


def test_a_failure_that_pauses_a_task_and_raises_its_tier_makes_two_revisions(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    terms = {"repeat": "daily at 12:00", "repeat_policy": {"pause_after": 1}, "on_failure": {"tier": "high"}}
    record = scheduler.schedule("Sync", **terms, by=ALICE).record  # type: ignore[arg-type]  # plain values
    clock.forward(days=1)
    ended(store, record, Failed("no answer"))
    task = store.tasks.get(TENANT, record.task.id).task
    assert (task.paused, task.priority, task.revision) == (True, Tier.HIGH, 3)


def test_a_tier_that_is_raised_already_stays(store: Store, scheduler: Scheduler) -> None:
    record = a_task(scheduler, {"tier": "high"}, priority="critical")
    ended(store, record, Failed("no answer"))
    assert store.tasks.get(TENANT, record.task.id).task.priority is Tier.CRITICAL
    assert EventKind.RESCHEDULED not in [each.kind for each in events(store, record.task.id)]


def test_a_tier_that_its_user_raised_while_it_ran_is_not_lowered(store: Store, scheduler: Scheduler) -> None:
    record = a_task(scheduler, {"tier": "high"})
    claim = restarted(store, record)
    store.tasks.change(
        TENANT,
        record.task.id,
        actor="alice",
        kind=EventKind.RESCHEDULED,
        decide=lambda found: Change(replace(found.task, priority=Tier.CRITICAL), found.run),
    )
    settled(store, claim, Retry("no answer"))
    assert store.tasks.get(TENANT, record.task.id).task.priority is Tier.CRITICAL


@on_each_database
def test_a_tier_that_its_user_lowered_while_it_ran_is_raised_again(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    terms = {"repeat": "daily at 12:00", "priority": "high", "on_failure": {"tier": "high"}}
    record = scheduler.schedule("Sync", **terms, by=ALICE).record  # type: ignore[arg-type]  # plain values
    clock.forward(days=1)
    claim = restarted(store, record)
    scheduler.reschedule(record.task.id, priority="low", by=ALICE)
    assert settled(store, claim, Retry("no answer")) == [Verdict.SETTLED]
    assert store.tasks.get(TENANT, record.task.id).task.priority is Tier.HIGH


@on_each_database
def test_of_two_runs_that_fail_at_once_the_one_with_the_most_urgent_tier_raises_it(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    record = scheduler.schedule("Sync", repeat="daily at 12:00", on_failure={"tier": "critical"}, by=ALICE).record
    scheduler.act(record.task.id, "run_now", by=ALICE)
    first = started(store)
    scheduler.reschedule(record.task.id, on_failure={"tier": "high"}, by=ALICE)
    clock.forward(days=1)
    second = started(store)
    ends = [settle(claim, Retry("no answer"), now=store.now(), jitter=0.0) for claim in (*first, *second)]
    assert store.claims.settle(ends) == [Verdict.SETTLED, Verdict.SETTLED]
    assert store.tasks.get(TENANT, record.task.id).task.priority is Tier.CRITICAL


def started(store: Store) -> list[Claim]:
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    return store.claims.start(ready, worker="w", epoch=None, lease=LEASE)


def test_of_a_chain_the_step_that_failed_makes_a_task_and_those_behind_it_make_none(
    store: Store, scheduler: Scheduler
) -> None:
    steps: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}, {"name": "tell", "after": ["load"]}]
    chain = scheduler.schedule("Book", when="now", steps=steps, on_failure={"run": TELL}, by=ALICE)
    assert chain.chain
    first = store.tasks.get(TENANT, chain.chain.steps[0].task_id)
    ended(store, first, Failed("no answer"))
    assert [task.title for task in made(store)] == ["On failure: Book: fetch"]
    assert store.tasks.get(TENANT, chain.chain.steps[2].task_id).run.state is State.FAILED


def test_a_wait_that_expires_makes_a_task_and_raises_the_tier_as_a_failed_run_does(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    wait, terms = {"event": "paid", "timeout": "1 hour"}, {"run": TELL, "tier": "high"}
    alone = a_task(scheduler, terms, action="webhook", payload=HOOK["payload"], wait_for=wait, timezone="Asia/Tokyo")
    steps: Any = [{"name": "fetch", "wait_for": wait, "on_failure": terms}, {"name": "load", "after": ["fetch"]}]
    chain = scheduler.schedule("Book", steps=steps, on_failure={"run": TELL}, by=ALICE).chain
    clock.forward(hours=1)
    store.signals.end_late(limit=9)
    found = {task.title: task for task in made(store)}
    assert sorted(found) == ["On failure: Book: fetch", "On failure: Import"]
    assert found["On failure: Import"].payload["message"] == (
        "Import expired: it did not run: no event 'paid' came in time"
    )
    assert (found["On failure: Import"].timezone, found["On failure: Import"].priority) == ("Asia/Tokyo", Tier.HIGH)
    assert chain is not None
    for ended_id in (alone.task.id, chain.steps[0].task_id):
        assert store.tasks.get(TENANT, ended_id).task.priority is Tier.HIGH


def test_a_skipped_wait_is_no_failure_from_which_a_task_follows(
    store: Store, scheduler: Scheduler, clock: Clock
) -> None:
    a_task(scheduler, {"run": TELL}, wait_for={"event": "paid", "timeout": "1 hour", "on_timeout": "skip"})
    clock.forward(hours=1)
    assert len(store.signals.end_late(limit=9)) == 1
    assert made(store) == []


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"call": 1}, "on_failure: it has no member 'call'. Accepted: an object of notify, run, tier"),
        ({"run": "webhook"}, "on_failure.run: expected an object, got "),
        ({"run": {"payload": {}}}, "on_failure.run.action: it is missing"),
        ({"run": {"action": "wbhook"}}, "on_failure.run.action: "),
        ({"run": {"action": "webhook", "payload": {"url": "ftp://x"}}}, "on_failure.run.payload.url: "),
        ({"run": {**TELL, "on_failure": {"run": TELL}}}, "on_failure.run: it has no member 'on_failure'"),
        ({"tier": "higher"}, "on_failure.tier: "),
    ],
)
def test_an_impossible_follow_up_is_refused_when_the_task_is_scheduled(
    scheduler: Scheduler, *, asked: dict[str, Any], problem: str
) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments)) as refused:
        a_task(scheduler, asked)
    assert str(refused.value).startswith(problem)


@on_each_database
def test_a_follow_up_is_changed_by_a_reschedule_and_taken_back_by_an_undo(store: Store, scheduler: Scheduler) -> None:
    hook = {"action": "webhook", "payload": {"url": "https://example.com/hook"}}
    record = a_task(scheduler, {"run": HOOK}, expect={"field": "id"}, **hook)
    scheduler.reschedule(record.task.id, on_failure={"tier": "high"}, expect={"field": "rows"}, by=ALICE)
    changed = store.tasks.get(TENANT, record.task.id).task
    assert (changed.on_failure, changed.expect) == ({"tier": "high"}, {"field": "rows"})
    undone = scheduler.act(record.task.id, "undo", undo=f"u_{changed.revision}", by=ALICE).record.task
    assert (undone.on_failure, undone.expect) == (record.task.on_failure, record.task.expect)
    emptied = scheduler.reschedule(record.task.id, remove=["on_failure", "expect"], by=ALICE).record.task
    assert (emptied.on_failure, emptied.expect) == ({}, {})
    with pytest.raises(InvalidArgument, match=r"on_failure\.tier"):
        scheduler.reschedule(record.task.id, on_failure={"tier": "higher"}, by=ALICE)


def test_the_answers_of_both_tasks_name_the_other_one(store: Store, scheduler: Scheduler) -> None:
    record = a_task(scheduler, {"run": TELL})
    ended(store, record, Failed("disk full"))
    [task] = made(store)
    assert scheduler.get(record.task.id, by=ALICE).warnings == (f"a failure of it made {task.id} (scheduled)",)
    assert scheduler.get(task.id, by=ALICE).warnings == (f"a failure of {record.task.id} made this task",)
    assert scheduler.explain(record.task.id, by=ALICE)[1][-1] == f"a failure of it made {task.id} (scheduled)"
