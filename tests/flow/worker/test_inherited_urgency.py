"""A run that others wait for goes before its like: on both queues, whenever the others came."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.queue.remote import RemoteQueue, answer
from duetime.scheduler.rules.estimates import Estimate
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskRecord

from tests.builders import NOON, Clock, a_task, added

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


class Site:
    """A store and a queue with the dispatcher between them."""

    def __init__(self, store: Store, queue: DispatchQueue) -> None:
        self.store, self.queue = store, queue
        placement = Placement(estimates=self._estimate)
        self.dispatcher = Dispatcher(store, queue, placement=placement)
        self.maintenance = Maintenance(store, queue, placement=placement)
        store.commits.listen(rescored=self.dispatcher.rescore)

    def _estimate(self, _tenant: str, _action: str, _declared: timedelta | None) -> Estimate:
        return Estimate(10 * SECOND, 10 * SECOND)

    def ready(self, title: str) -> TaskRecord:
        record = added(self.store, title=title)
        self.dispatcher.step()
        return record

    def after(self, upstream: TaskRecord, due: timedelta | None = None, tier: Tier = Tier.NORMAL) -> TaskRecord:
        task, run = a_task(priority=tier)
        deadline = NOON + due if due is not None else None
        waiting = replace(run, state=State.WAITING, wake_at=None, deadline=deadline)
        link = [Dependency(upstream.task.id)]
        record = self.store.tasks.add(task, waiting, actor="alice", after=link).record
        self.dispatcher.step()
        return record

    def first(self) -> str:
        """Return the task that is started next, and take nothing else."""
        [run_id] = self.queue.take("w", 1, 1e6).run_ids
        return next(iter(self.store.tasks.of_runs("acme", [run_id]).values())).title


@pytest.fixture
def site(store: Store, queue: DispatchQueue) -> Site:
    return Site(store, queue)


def test_a_normal_task_that_holds_up_a_critical_one_goes_first(site: Site, clock: Clock) -> None:
    site.ready("before")
    clock.forward(seconds=1)
    site.after(site.ready("upstream"), tier=Tier.CRITICAL)
    assert site.first() == "upstream"


def test_a_deadline_downstream_counts_less_what_lies_between(site: Site, clock: Clock) -> None:
    middle = site.after(site.ready("upstream"))
    site.after(middle, due=60 * SECOND)
    late = added(site.store, title="its own", priority=Tier.HIGH)  # urgent 30 s from now; the other in 60 - 3 * 10 s
    site.dispatcher.step()
    clock.forward(seconds=1)
    assert site.first() == "upstream"
    assert late.task.title == site.first()


def test_a_deadline_that_nothing_can_meet_any_more_pushes_nobody(site: Site, clock: Clock) -> None:
    added(site.store, title="high", priority=Tier.HIGH)
    upstream = site.ready("upstream")
    site.after(upstream, due=11 * SECOND, tier=Tier.BACKGROUND)
    clock.forward(seconds=1)
    assert site.first() == "high"


def test_a_wait_added_by_another_process_counts_at_the_next_look(site: Site, clock: Clock) -> None:
    site.ready("before")
    clock.forward(seconds=1)
    upstream = site.ready("upstream")
    site.store.commits.listen(rescored=lambda _: None)
    site.after(upstream, tier=Tier.CRITICAL)
    site.maintenance.step()
    assert site.first() == "upstream"


def test_explain_says_that_it_goes_early_and_for_whom(site: Site) -> None:
    upstream = site.ready("upstream")
    explainer = Explainer(site.store, RemoteQueue(lambda question: answer(site.queue, question)), dict)
    scheduler = Scheduler(site.store, Planner(Handlers.load(), "America/Denver"), explainer=explainer)
    by = replace(LOCAL, tenant="acme")
    site.after(upstream, tier=Tier.CRITICAL)
    assert scheduler.explain(upstream.task.id, by=by)[1][-1] == (
        "it goes early: 1 task waits for it, the most urgent of priority critical"
    )
    middle = site.after(upstream)
    site.after(middle, due=HOUR)
    assert scheduler.explain(upstream.task.id, by=by)[1][-1] == (
        "it goes early: 3 tasks wait for it, the most urgent due Tue 24 Nov 2026 07:00 (in 1 h)"
    )
