"""Runs that wait take another place when it is learned that their action takes longer or shorter than was thought."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch import rekey
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.estimates import Estimate
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import DeadlineType

from tests.builders import Clock, a_task, with_deadline


@dataclass
class Site:
    """A queue that a dispatcher fills and maintenance looks after; `learned` are seconds by action."""

    store: Store
    queue: MemoryQueue
    learned: dict[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def __post_init__(self) -> None:
        placement = Placement(estimates=self._estimate)
        self.dispatcher = Dispatcher(self.store, self.queue, placement=placement)
        self.maintenance = Maintenance(self.store, self.queue, placement=placement, clock=lambda: self.at_s)

    def _estimate(self, _tenant: str, action: str, _declared: timedelta | None) -> Estimate:
        takes = timedelta(seconds=self.learned.get(action, 1.0))
        return Estimate(takes, takes)

    def add(self, action: str, after: timedelta | None, kind: DeadlineType = DeadlineType.SOFT) -> str:
        task, run = a_task(action=action)
        if after is not None:
            task, run = with_deadline(task, run, after=after, deadline_type=kind)
        self.store.tasks.add(task, run, actor="a")
        self.dispatcher.step()
        return run.id

    def look(self) -> None:
        self.maintenance.step()
        self.at_s += 31

    def order(self) -> list[str]:
        return list(self.queue.take("w", 99, 1e6).run_ids)


@pytest.fixture
def site(store: Store, clock: Clock) -> Site:
    return Site(store, MemoryQueue(lambda: clock().timestamp() * 1000))


HOUR = timedelta(hours=1)


def test_a_run_goes_earlier_once_it_is_learned_that_its_action_takes_long(site: Site) -> None:
    later, sooner = (site.add(action, timedelta(seconds=s)) for action, s in (("render", 50), ("reminder", 40)))
    site.look()
    site.learned["render"] = 20
    site.look()
    assert site.order() == [later, sooner]


def test_a_run_without_a_deadline_moves_too_as_its_key_counts_what_it_costs(site: Site) -> None:
    long, short = (site.add(action, None) for action in ("render", "reminder"))
    site.look()
    site.learned["render"] = 600
    site.look()
    assert site.order() == [short, long]


def noted(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the runs that get a new key from now on."""
    moved: list[str] = []

    def rescore(run_id: str, _key: float) -> bool:
        moved.append(run_id)
        return True

    monkeypatch.setattr(site.queue, "rescore", rescore)
    return moved


def test_a_small_change_moves_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.learned["render"] = 100
    run_id = site.add("render", HOUR)
    site.look()
    moved = noted(site, monkeypatch)
    site.learned["render"] = 120
    site.look()
    assert moved == []
    site.learned["render"] = 140
    site.look()
    site.look()
    assert moved == [run_id]


def test_a_look_gives_so_many_new_keys_and_the_next_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rekey, "MAX_NEW_KEYS", 2)
    run_ids = sorted(site.add("render", HOUR) for _ in range(5))
    site.look()
    moved = noted(site, monkeypatch)
    site.learned["render"] = 600
    for _ in range(4):
        site.look()
    assert moved == run_ids


def test_an_action_is_forgotten_with_its_last_waiting_run(site: Site, store: Store) -> None:
    started = site.add("render", HOUR)
    site.add("resize", HOUR)
    site.look()
    known = site.maintenance._new_keys
    assert {action for _, action in known._keyed_p90} == {"render", "resize"}
    store.claims.start([Start(started)], worker="w", epoch=None, lease=HOUR)
    site.look()
    assert {action for _, action in known._keyed_p90} == {"resize"}, "it grows with each action of each tenant"


def test_a_place_in_an_unfinished_look_is_forgotten_with_the_last_waiting_run(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rekey, "MAX_NEW_KEYS", 1)
    run_ids = [site.add("render", HOUR) for _ in range(2)]
    site.learned["render"] = 600
    site.look()
    known = site.maintenance._new_keys
    assert list(known._resume_after.values()) == [min(run_ids)]
    store.claims.start([Start(run_id) for run_id in run_ids], worker="w", epoch=None, lease=HOUR)
    site.look()
    assert known._resume_after == {}


def test_the_timer_of_a_deadline_follows_the_estimate(site: Site, store: Store) -> None:
    site.add("render", HOUR, DeadlineType.HARD)
    site.look()
    before = store.claims.next_times().drop_at
    site.learned["render"] = 600
    site.look()
    after = store.claims.next_times().drop_at
    assert before is not None
    assert after is not None
    assert before - after == pytest.approx(timedelta(seconds=598), abs=timedelta(seconds=3))


def test_a_run_is_queued_though_the_timer_of_its_deadline_cannot_be_stored(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_drops: object) -> None:
        raise StoreUnavailable("The database cannot be reached.")

    site.learned["render"] = 20
    monkeypatch.setattr(store.claims, "redate", away)
    with pytest.raises(StoreUnavailable):
        site.add("render", HOUR, DeadlineType.HARD)
    assert len(site.order()) == 1
