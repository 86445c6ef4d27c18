"""One run with all that is kept of it, on every database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.history.run_detail import RunNotFound
from duetime.scheduler.store import Store
from duetime.scheduler.task import Attempt, State

from tests.builders import NOON, TENANT, Clock, added, restarted, settlement, started

SECOND = timedelta(seconds=1)


def test_a_run_shows_its_attempts_with_tracebacks_its_use_its_events_and_its_dead_letter(
    store: Store, clock: Clock
) -> None:
    first = started(store, action="webhook")
    clock.forward(seconds=1)
    again = {"wake_at": clock.at, "error": "busy", "reason": "busy", "failures": 1}
    store.claims.settle([settlement(first, State.RETRYING, used={"tokens": 3.0}, **again)])
    second = restarted(store, store.tasks.get(TENANT, first.task.id), worker="w2")
    clock.forward(seconds=2)
    over = {"error": "gone", "reason": "gone", "failures": 2, "traceback": "Traceback: gone", "dead_letter": True}
    store.claims.settle([settlement(second, State.FAILED, used={"tokens": 4.0, "gpu": 1.0}, **over)])

    found = store.run_history.detail(TENANT, first.run.id)

    assert found.is_current
    assert (found.record.task.title, found.run.state, found.run.error) == ("Call John", State.FAILED, "gone")
    assert found.attempts == (
        Attempt(first.run.id, 1, "w1", NOON, NOON + SECOND, "retry", "busy"),
        Attempt(first.run.id, 2, "w2", NOON + SECOND, NOON + 3 * SECOND, "failed", "gone", "Traceback: gone"),
    )
    assert found.units == {1: {"tokens": 3.0}, 2: {"tokens": 4.0, "gpu": 1.0}}
    kinds = [event.kind for event in found.events]
    assert (kinds[0], kinds[-1]) == (EventKind.CREATED, EventKind.FAILED)
    assert found.dead_letter is not None
    assert found.dead_letter.reason == "gone"


def test_a_run_of_another_tenant_and_one_that_is_not_there_are_refused_alike(store: Store) -> None:
    run = added(store, tenant="globex").run
    said = []
    for run_id in (run.id, "r_000000000000", "no id", "r_1; --"):
        with pytest.raises(RunNotFound) as refused:
            store.run_history.detail(TENANT, run_id)
        said.append(str(refused.value).replace(run_id, "?"))
    assert len(set(said)) == 1
    assert store.run_history.detail(None, run.id).record.task.tenant == "globex"
