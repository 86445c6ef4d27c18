"""A dry run of retention counts exactly what a run deletes, whatever is stored and whatever the rules are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Final

from duetime.scheduler.dispatch.retention_run import count_due, delete_due, kinds_with_rules
from duetime.scheduler.history.retention import WITH_STATES, WITH_UNREAD, RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import (
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    cancelled,
    delivery,
    log_chunk,
    message,
    restarted,
    settlement,
)
from tests.search import walks

HOUR: Final = timedelta(hours=1)
AGES: Final = [timedelta(days=days) for days in (1, 20, 45, 70)]
LEASE: Final = timedelta(seconds=30)


class Stored:
    """A store that fills with what retention looks at, as a random number generator says."""

    def __init__(self, store: Store, clock: Clock, seed: int) -> None:
        self.store, self.clock, self.random = store, clock, Random(seed)

    def fill(self) -> None:
        """Store some days of tasks: repeated calls, failures with all their rows, cancels, and tasks that recur."""
        for number in range(12):
            self.random.choice([self._keyed, self._failed, self._failed, self._recurring, self._cancelled])(number)
            self.clock.forward(days=self.random.randint(0, 9))

    def policy(self) -> RetentionPolicy:
        """Return one or two rules of most kinds."""
        kinds = [kind for kind in RetentionKind if self.random.random() < 0.7]
        return RetentionPolicy(tuple(self._rule(kind) for kind in kinds for _ in range(self.random.randint(1, 2))))

    def _rule(self, kind: RetentionKind) -> RetentionRule:
        states = self.random.choice([(), (State.FAILED,), (State.SUCCEEDED, State.CANCELLED)])
        return RetentionRule(
            kind,
            self.random.choice(AGES),
            states if kind in WITH_STATES else (),
            self.random.choice([None, None, TENANT]),
            kind in WITH_UNREAD and self.random.random() < 0.5,
        )

    def _keyed(self, number: int) -> None:
        task, run = a_task()
        expires = self.random.choice([None, self.clock() + timedelta(days=self.random.randint(1, 60))])
        key = IdempotencyKey(f"k{number}", {"title": "Call John"}, expires_at=expires, derived=False)
        cancelled(self.store, self.store.tasks.add(task, run, actor="alice", key=key).record)

    def _cancelled(self, _number: int) -> None:
        cancelled(self.store, added(self.store, tenant=self.random.choice([TENANT, "globex"])))

    def _failed(self, _number: int) -> None:
        record = added(self.store, tenant=self.random.choice([TENANT, "globex"]))
        self.store.claims.make_ready(limit=99)
        [claim] = self.store.claims.start([Start(record.run.id)], worker="w1", epoch=None, lease=LEASE)
        pending = self.clock() if self.random.random() < 0.3 else None
        ending = settlement(
            claim,
            State.FAILED,
            inbox=message(claim),
            deliveries=(replace(delivery(claim), next_at=pending),),
            dead_letter=self.random.random() < 0.5,
            used={"tokens": 3},
            traceback="Traceback",
            error=self.random.choice([None, "no answer"]),
            reason=self.random.choice([None, "no answer"]),
            log=(log_chunk(claim, 1, "a", last=True),),
        )
        self.store.claims.settle([ending])
        if self.random.random() < 0.5:
            self.store.inbox.mark_read(claim.run.tenant, "alice")

    def _recurring(self, _number: int) -> None:
        record = added(self.store, self.clock(), repeat="every hour")
        for n in range(1, 4):
            claim = restarted(self.store, self.store.tasks.get(TENANT, record.task.id))
            following = a_run(record.task, self.clock() + HOUR, number=n + 1)
            error = self.random.choice([None, "no answer"])
            to = State.FAILED if error else State.SUCCEEDED
            ending = settlement(claim, to, next_run=following, inbox=message(claim), error=error, reason=error)
            self.store.claims.settle([ending])
            self.clock.forward(hours=1)
        if self.random.random() < 0.7:
            cancelled(self.store, self.store.tasks.get(TENANT, record.task.id))


def rows_by_kind(found: object) -> dict[str, dict[str, int]]:
    by_kind = found.by_kind  # type: ignore[attr-defined] # RetentionRun
    return {kind: dict(+Counter(counts)) for kind, counts in by_kind.items() if +Counter(counts)}


@walks(range(12), range(4))
def test_a_dry_run_counts_what_a_run_deletes(store: Store, clock: Clock, seed: int) -> None:
    stored = Stored(store, clock, seed)
    stored.fill()
    policy = stored.policy()
    kinds = kinds_with_rules(policy)
    clock.forward(days=stored.random.choice([0, 15, 40]))
    counted = rows_by_kind(count_due(store, policy, kinds))
    assert counted == rows_by_kind(delete_due(store, policy, kinds))
