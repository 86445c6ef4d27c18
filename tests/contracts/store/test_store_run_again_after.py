"""Tasks that come after others and are run again, on each database: which ends of the others they heed from then on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk, at

HOUR = timedelta(hours=1)
ENDED = {"fail": State.FAILED, "skip": State.SKIPPED}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def tasks(desk: Desk, *, chain: bool, **last: Any) -> list[str]:
    """Schedule `load` at 9:00, `check` behind it and `mail` behind that, in a chain or not."""
    if chain:
        steps: Any = [{"name": "load"}, {"name": "check", "after": ["load"]}, {"name": "mail", "after": ["check"]}]
        steps[-1] |= last
        chain_id = desk.scheduler.schedule("Report", when="at 9:00", steps=steps).record.task.id
        return list(desk.scheduler.tasks_of(chain_id))
    load = desk.scheduler.schedule("Load", when="at 9:00").record.task.id
    check = desk.scheduler.schedule("Check", after=[load]).record.task.id
    return [load, check, desk.scheduler.schedule("Mail", after=[check], **last).record.task.id]


def states(desk: Desk, *task_ids: str) -> list[State]:
    return [desk.scheduler.get(task_id).record.run.state for task_id in task_ids]


def questions(desk: Desk) -> list[str]:
    return [each.text for each in desk.scheduler.inbox() if each.state is State.WAITING]


def sound(desk: Desk) -> None:
    assert desk.store.integrity.examine().findings == ()
    assert desk.store.dependencies.repair(limit=99) == 0, "nothing is left to be followed"


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "tasks"])
@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("again", ["now", "in 1 hour"])
def test_the_undo_of_a_re_run_leaves_what_was_started_again_in_spite_of_the_first_end(
    desk: Desk, again: str, policy: str, *, chain: bool
) -> None:
    load, check, mail = tasks(desk, chain=chain, after_failure=policy, approval="Send?")
    desk.end(desk.start(9), Failed("no"))
    assert states(desk, load, check, mail) == [State.FAILED, State.FAILED, ENDED[policy]]
    desk.clock.at = at(9, 5)
    before = desk.scheduler.reschedule(mail, when="in 2 hours").record.run
    assert (before.state, questions(desk)) == (State.WAITING, ["Send?"])

    desk.clock.at = at(9, 10)
    undo = desk.scheduler.reschedule(load, when=again).undo
    assert states(desk, load, check, mail) == [State.SCHEDULED, State.WAITING, State.WAITING]
    events = desk.scheduler.history(EventFilter(task_id=mail)).events
    desk.scheduler.act(load, "undo", undo=undo)

    assert states(desk, load, check) == [State.FAILED, State.FAILED], "what had ended with it ends again"
    assert desk.scheduler.get(mail).record.run == before
    assert (questions(desk), desk.scheduler.history(EventFilter(task_id=mail)).events) == (["Send?"], events)
    desk.scheduler.approve(mail)
    assert [claim.task.id for claim in desk.start(11, 5)] == [mail]
    sound(desk)


def test_a_task_that_is_to_run_again_heeds_the_end_of_the_re_run_itself(desk: Desk) -> None:
    load, _, mail = tasks(desk, chain=False, approval="Send?")
    desk.end(desk.start(9), Failed("no"))
    desk.clock.at = at(9, 5)
    desk.scheduler.reschedule(mail, when="in 2 hours")
    desk.scheduler.act(load, "run_now")
    desk.end(desk.start(9, 10), Failed("no"))
    assert (states(desk, mail), questions(desk)) == ([State.FAILED], [])
    sound(desk)
