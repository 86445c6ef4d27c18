"""Events of changes that callers made say by which way; those of the dispatcher and of workers do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.rules.changes import cancel, pause
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import NOON, TENANT, a_task, added, restarted, settlement

HOW: dict[str, Any] = {"actor": "ann", "via": "rest 10.0.0.7"}


def ways(store: Store) -> set[tuple[str, str, str | None]]:
    events = store.history.events(TENANT, EventFilter(), limit=99).events
    return {(event.kind.value, event.actor, event.via) for event in events}


@pytest.mark.parametrize("state", [State.SCHEDULED, State.READY])
def test_a_new_task_and_not_its_dispatch_is_told_by_its_way(store: Store, state: State) -> None:
    task, run = a_task()
    if state is State.READY:
        run = replace(run, state=state, wake_at=None, first_ready_at=NOON)
    store.tasks.add(task, run, key=IdempotencyKey("k", {}), **HOW)
    dispatched = {("ready", "duetime", None)} if state is State.READY else set()
    assert ways(store) == {("created", "ann", "rest 10.0.0.7"), *dispatched}


def test_several_new_tasks_are_each_told_by_their_way(store: Store) -> None:
    store.tasks.add_many([NewTask(*a_task(), actor="ann", via="cli ann"), NewTask(*a_task(), actor="bob", via=None)])
    assert ways(store) == {("created", "ann", "cli ann"), ("created", "bob", None)}


def test_changes_and_undos_are_told_by_their_way(store: Store) -> None:
    task_id = added(store, NOON + timedelta(days=1)).task.id
    store.tasks.change(TENANT, task_id, kind=EventKind.PAUSED, decide=pause, **HOW)
    store.tasks.change(
        TENANT, task_id, kind=EventKind.CANCELLED, decide=lambda record: cancel(record, NOON), reason="over", **HOW
    )
    assert {("paused", "ann", "rest 10.0.0.7"), ("cancelled", "ann", "rest 10.0.0.7")} < ways(store)


def test_an_event_of_a_worker_has_no_way(store: Store) -> None:
    claim = restarted(store, added(store))
    store.claims.settle([settlement(claim)])
    assert {way for kind, _, way in ways(store) if kind in {"ready", "started", "succeeded"}} == {None}
