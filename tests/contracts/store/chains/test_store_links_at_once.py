"""Links that change at one moment with the end of an upstream, or with other links: each sees what the other stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.store.statements.graph import cycles, relink
from duetime.scheduler.store.statements.signals import ended_waits, new_waits
from duetime.scheduler.task import RetryPolicy, State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk

pytestmark = on_each_database

ONCE = RetryPolicy(max_attempts=1)
PATIENCE_S = 20


def desk_of(store: Store, clock: Clock) -> Desk:
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return desk_of(store, clock)


@pytest.fixture
def beside(url: str, clock: Clock) -> Iterator[Desk]:
    """Open the same database again, as another process has it."""
    store = open_store(url, clock=clock, synchronous="OFF")
    yield desk_of(store, clock)
    store.close()


def task(desk: Desk, title: str, when: str = "in 1 hour", **more: Any) -> str:
    return desk.scheduler.schedule(title, when=when, retry=ONCE, **more).record.task.id


ENDS = pytest.mark.parametrize(
    ("outcome", "then"), [(Done("rows"), State.SCHEDULED), (Failed("no rows"), State.FAILED)]
)


def begun_within(
    monkeypatch: pytest.MonkeyPatch,
    place: object,
    step: str,
    change: Callable[[], object],
    other: Callable[[], object],
) -> None:
    """Begin `other` once `change` has made a step of its transaction, before its commit; wait for both."""
    made, go_on, make = threading.Event(), threading.Event(), getattr(place, step)

    def pausing(*given: Any) -> Any:
        done = make(*given)
        made.set()
        assert go_on.wait(PATIENCE_S)
        return done

    monkeypatch.setattr(place, step, pausing)
    first, second = threading.Thread(target=change), threading.Thread(target=other)
    first.start()
    assert made.wait(PATIENCE_S)
    second.start()
    second.join(0.3)
    go_on.set()
    for thread in (first, second):
        thread.join(PATIENCE_S)


def refused_together(
    monkeypatch: pytest.MonkeyPatch, changes: Iterable[Callable[[], object]], *looks: str
) -> list[DuetimeError]:
    """Make two changes that both look for cycles before either is committed; return what is refused."""
    refused, both_look = list[DuetimeError](), threading.Barrier(2)

    def looking(check: Callable[..., None], *given: Any) -> None:
        check(*given)
        with suppress(threading.BrokenBarrierError):
            both_look.wait(0.3)

    def changed(change: Callable[[], object]) -> None:
        try:
            change()
        except DuetimeError as error:
            refused.append(error)

    for name in looks:
        monkeypatch.setattr(cycles, name, partial(looking, getattr(cycles, name)))
    threads = [threading.Thread(target=changed, args=[each]) for each in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return refused


@ENDS
def test_an_end_sees_the_edge_that_is_being_stored(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, then: State
) -> None:
    fetch, load = task(desk, "Fetch"), task(desk, "Load", "in 3 hours")
    task(desk, "Another", after=[fetch])  # from then on the row of the upstream says that it is followed
    claims = desk.start(9)
    link = partial(beside.scheduler.reschedule, load, after=[fetch])
    begun_within(monkeypatch, relink, "settle", link, lambda: desk.end(claims, outcome))
    assert desk.scheduler.get(load).record.run.state is then


@ENDS
def test_an_end_sees_the_edge_that_an_undo_is_storing_again(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, then: State
) -> None:
    fetch, load = task(desk, "Fetch"), task(desk, "Load", "in 3 hours")
    desk.scheduler.reschedule(load, after=[fetch])
    claims = desk.start(9)
    token = desk.scheduler.reschedule(load, remove=["after"]).undo
    undo = partial(beside.scheduler.act, load, "undo", undo=token)
    begun_within(monkeypatch, relink, "settle", undo, lambda: desk.end(claims, outcome))
    assert desk.scheduler.get(load).record.run.state is then


@pytest.mark.parametrize("length", [2, 4])
def test_of_two_edges_that_would_close_a_cycle_together_one_is_refused(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """In a cycle of four, the two edges have no task in common."""
    one, other = task(desk, "One"), task(desk, "Other")
    ends = (one, other) if length == 2 else (task(desk, "Behind one", after=[one]), task(desk, "Behind", after=[other]))
    links = [
        partial(at.scheduler.reschedule, below, after=[above])
        for at, below, above in ((desk, one, ends[1]), (beside, other, ends[0]))
    ]
    refused = refused_together(monkeypatch, links, "check")
    states = [desk.scheduler.get(each).record.run.state for each in (one, other)]
    assert (len(refused), sorted(states)) == (1, [State.SCHEDULED, State.WAITING])


@pytest.mark.parametrize("length", [2, 3])
def test_of_an_undo_and_a_new_edge_that_would_close_a_cycle_together_one_is_refused(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """In a cycle of three, the new edge has no task in common with the change that is taken back."""
    above, other = task(desk, "Above"), task(desk, "Other")
    below = task(desk, "Below", after=[above])
    token = desk.scheduler.reschedule(below, after=[other]).undo
    last = below if length == 2 else task(desk, "Last", after=[below])
    undo = partial(beside.scheduler.act, below, "undo", undo=token)
    link = partial(desk.scheduler.reschedule, above, after=[last])
    refused = refused_together(monkeypatch, (undo, link), "check", "check_undo")
    states = [desk.scheduler.get(each).record.run.state for each in (above, other)]
    assert len(refused) == 1
    assert "would come after itself" in str(refused[0])
    assert State.SCHEDULED in states


Again = Callable[[Desk], object]
"""A change of which a task waits again, by the desk that makes it."""


def cancelled(desk: Desk) -> tuple[str, Again]:
    """Return a task that waits again by an undo of its cancel, and that undo."""
    load = task(desk, "Load", wait_for={"event": "paid"})
    token = desk.scheduler.cancel(load).undo
    return load, lambda at: at.scheduler.act(load, "undo", undo=token)


def relinked(desk: Desk) -> tuple[str, Again]:
    """Return a task that waits again by an undo of the change of its links, and that undo."""
    load = task(desk, "Load", wait_for={"event": "paid"})
    token = desk.scheduler.reschedule(load, remove=["wait_for"]).undo
    return load, lambda at: at.scheduler.act(load, "undo", undo=token)


def ended_with_another(desk: Desk) -> tuple[str, Again]:
    """Return a task that waits again since what it comes after is to run again, and that change."""
    fetch = task(desk, "Fetch")
    load = task(desk, "Load", "in 3 hours", after=[fetch], after_failure="fail", wait_for={"event": "paid"})
    desk.end(desk.start(9), Failed("no rows"))
    return load, lambda at: at.scheduler.reschedule(fetch, when="in 2 hours")


def cancelled_with_others(desk: Desk) -> tuple[str, Again]:
    """Return a task that waits again by an undo of a change of many tasks, and that undo."""
    load = task(desk, "Load", wait_for={"event": "paid"})
    token = desk.scheduler.bulk.change("cancel", [load, task(desk, "Other")]).undo
    return load, lambda at: at.scheduler.bulk.change("undo", undo=token)


AGAIN = pytest.mark.parametrize("made", [cancelled, relinked, ended_with_another, cancelled_with_others])


@AGAIN
def test_an_event_sees_the_wait_that_is_being_opened_again(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, made: Callable[[Desk], tuple[str, Again]]
) -> None:
    load, again = made(desk)
    send = partial(desk.scheduler.signals.send, "paid")
    begun_within(monkeypatch, ended_waits, "reopen", partial(again, beside), send)
    assert not has_open_wait(desk, load)


@AGAIN
def test_a_wait_that_is_opened_again_sees_the_event_that_is_being_stored(
    desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch, made: Callable[[Desk], tuple[str, Again]]
) -> None:
    """The event is stored, and its transaction has looked for waits, before the wait is opened."""
    load, again = made(desk)
    send = partial(desk.scheduler.signals.send, "paid")
    begun_within(monkeypatch, send_signal, "forget_surplus", send, partial(again, beside))
    assert not has_open_wait(desk, load)


def has_open_wait(desk: Desk, task_id: str) -> bool:
    return bool(desk.store.signals.open_of("local", [task_id]))


def test_an_event_sees_the_wait_that_is_being_stored(desk: Desk, beside: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    load = task(desk, "Load")
    stored, go_on, freed, add = threading.Event(), threading.Event(), list[int](), new_waits.add

    def pausing(*given: Any) -> None:
        add(*given)
        stored.set()
        assert go_on.wait(PATIENCE_S)

    monkeypatch.setattr(new_waits, "add", pausing)
    waiting = threading.Thread(target=lambda: beside.scheduler.reschedule(load, wait_for={"event": "paid"}))
    sending = threading.Thread(target=lambda: freed.append(desk.scheduler.signals.send("paid").freed))
    waiting.start()
    assert stored.wait(PATIENCE_S)
    sending.start()
    sending.join(0.3)
    go_on.set()
    for thread in (waiting, sending):
        thread.join(PATIENCE_S)
    assert freed == [1]
    assert desk.scheduler.get(load).record.run.state is State.SCHEDULED
