"""Records of the past that a program reads next to runs and events: decisions of the queue, and reports."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime import DecisionPage, InvalidArgument, Principal, Scheduler, TaskNotFound
from duetime.scheduler.rules.policies.decision import Contender, Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import Store

OURS, THEIRS = Contender("r_ours", 0.0, "records"), Contender("r_theirs", 5000.0, "others")
TAKEN = Look(0.0, 0, 2, (0.0,) * 5, (2.0,) * 5, (None, OURS, None, THEIRS, None), 2, OURS)


@pytest.fixture
def ann(scheduler: Scheduler) -> Principal:
    """Return a user of a tenant on whose run a worker looked."""
    store: Store = scheduler.service._store
    if store.decisions.get("records", "d_1") is None:
        store.decisions.add([Decision("d_1", scheduler.now(), "records", "t_ours", "r_ours", "w1", TAKEN)])
    return Principal("records", "ann")


def test_recorded_decisions_are_read_without_the_runs_of_others(scheduler: Scheduler, ann: Principal) -> None:
    page = scheduler.decisions(task_id="t_ours", by=ann)
    assert isinstance(page, DecisionPage)
    assert [(each.id, each.run_id, each.worker) for each in page.decisions] == [("d_1", "r_ours", "w1")]
    assert page.decisions[0].look.heads == (None, OURS, None, None, None)
    assert scheduler.decision("d_1", by=ann) == page.decisions[0]
    assert scheduler.decision("d_1", tenant="records").look.heads[3] == THEIRS


def test_a_decision_that_there_is_not_is_told_by_its_id(scheduler: Scheduler, ann: Principal) -> None:
    with pytest.raises(Exception, match=r"no decision 'd_9'"):
        scheduler.decision("d_9", by=ann)
    with pytest.raises(Exception, match=r"no decision 'd_1'"):
        scheduler.decision("d_1", by=Principal("others", "bob"))


def test_attempts_of_a_task_that_there_is_not_are_refused_as_the_task_is(scheduler: Scheduler) -> None:
    made = scheduler.schedule("Stretch", when="in 2 hours").record.task.id
    assert scheduler.attempts(made) == []
    for unknown, by in (("t_000000000000", None), ("c_000000000000", None), (made, Principal("others", "bob"))):
        with pytest.raises(TaskNotFound, match=rf"no task '{unknown}'.* Scheduler\.list\(\)"):
            scheduler.attempts(unknown, **({"by": by} if by else {}))


def test_a_report_has_the_same_time_before(scheduler: Scheduler, ann: Principal) -> None:
    found = scheduler.report(since="2 days ago", by=ann)
    assert found.work.since - found.before.since == found.before.until - found.before.since
    assert abs(found.work.until - found.work.since - timedelta(days=2)) < timedelta(hours=2)
    with pytest.raises(InvalidArgument, match="it is not before now"):
        scheduler.report(since="tomorrow", by=ann)
