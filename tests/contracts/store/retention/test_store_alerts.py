"""Alerts as they are kept, turns of processes, and the outcomes that alerts count."""

from __future__ import annotations

from datetime import timedelta

from duetime.scheduler.rules.alerts.alert import Alert, Notice, Phase, RecentOutcomes
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import NOON, Clock, settlement, started, with_deadline
from tests.builders import a_task as new_task

MINUTE = timedelta(minutes=1)
FIRING = Alert("R", "k", Phase.FIRING, NOON, 1.5)
OF = ("R", "k", "webhook:team")


def test_alerts_are_kept_as_they_were_found(store: Store) -> None:
    other = Alert("S", "", Phase.PENDING, NOON, 2)
    store.alerts.replace("R", {}, {"k": FIRING})
    store.alerts.replace("S", {}, {"": other})
    assert store.alerts.all() == [FIRING, other]
    over = Alert("R", "k", Phase.RESOLVED, NOON + MINUTE, 0)
    store.alerts.replace("R", {"k": FIRING}, {"k": over})
    store.alerts.replace("S", {"": other}, {})
    assert store.alerts.all() == [over]


def test_a_notice_is_claimed_by_one_process_until_its_lease_ends(store: Store) -> None:
    claims = [store.alerts.claim(OF, now, MINUTE) for now in (NOON, NOON, NOON + MINUTE)]
    assert claims == [True, False, True]
    told = Notice(Phase.FIRING, NOON, 2, NOON + MINUTE)
    store.alerts.settle(OF, told)
    assert store.alerts.notices() == {OF: told}


def test_an_alert_that_is_gone_takes_its_notices_with_it(store: Store) -> None:
    store.alerts.replace("R", {}, {"k": FIRING})
    store.alerts.claim(OF, NOON, MINUTE)
    store.alerts.replace("R", {"k": FIRING}, {})
    assert (store.alerts.all(), store.alerts.notices()) == ([], {})


def test_forgetting_one_key_of_a_rule_leaves_its_other_keys_and_other_rules(store: Store) -> None:
    kept = [("R", "new", "webhook:team"), ("S", "k", "webhook:team")]
    for of in (OF, ("R", "old", "webhook:team"), *kept):
        store.alerts.claim(of, NOON, MINUTE)
    store.alerts.replace("R", {}, {"k": FIRING})
    store.alerts.forget("R", ["k", "old"])
    assert (store.alerts.all(), sorted(store.alerts.notices())) == ([], kept)


def test_a_turn_is_taken_once_until_it_is_due_again(store: Store, clock: Clock) -> None:
    taken = [store.turns.take("alerts", MINUTE), store.turns.take("alerts", MINUTE)]
    clock.forward(minutes=1)
    taken.append(store.turns.take("alerts", MINUTE))
    store.turns.plan("alerts", NOON + timedelta(hours=1))
    clock.forward(minutes=5)
    taken.append(store.turns.take("alerts", MINUTE))
    assert taken == [True, False, True, False]


def test_the_first_turn_of_a_work_may_be_later(store: Store, clock: Clock) -> None:
    later = NOON + timedelta(hours=1)
    assert not store.turns.take("report", MINUTE, first_at=later)
    clock.forward(hours=1)
    assert store.turns.take("report", MINUTE, first_at=later)


def test_outcomes_are_counted_in_their_window(store: Store, clock: Clock) -> None:
    store.claims.settle([settlement(started(store), State.FAILED, dead_letter=True)])
    clock.forward(minutes=20)
    due = clock()
    for late in (False, True):
        task, run = with_deadline(*new_task(due), after=MINUTE)
        store.tasks.add(task, run, actor="alice")
        store.claims.make_ready(limit=9)
        [claim] = store.claims.start([Start(run.id)], worker="w", epoch=None, lease=MINUTE)
        clock.forward(minutes=2 * late)
        store.claims.settle([settlement(claim)])
    store.claims.settle([settlement(started(store, due), State.RETRYING, wake_at=clock() + MINUTE)])
    store.claims.settle([settlement(started(store, due), State.FAILED, dead_letter=True)])
    store.claims.settle([settlement(started(store, due), State.FAILED)])  # with a task that it came after
    found = store.backlog.recent_outcomes(clock(), timedelta(minutes=15))
    assert found == RecentOutcomes(started=5, retried=1, dead_letters=1, deadlines=2, missed=1)
