"""Tasks that come after others and are run again: which ends of the others they heed from then on."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.statements import dependants, links
from duetime.scheduler.task import RetryPolicy, State
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

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
        return list(desk.scheduler.ends.tasks_of(chain_id))
    load = desk.scheduler.schedule("Load", when="at 9:00").record.task.id
    check = desk.scheduler.schedule("Check", after=[load]).record.task.id
    return [load, check, desk.scheduler.schedule("Mail", after=[check], **last).record.task.id]


def states(desk: Desk, *task_ids: str) -> list[State]:
    return [desk.scheduler.get(task_id).record.run.state for task_id in task_ids]


def questions(desk: Desk) -> list[str]:
    return [each.text for each in desk.scheduler.inbox.unread() if each.state is State.WAITING]


def sound(desk: Desk) -> None:
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0, "nothing is left to be followed"


def test_a_step_that_waits_for_its_turn_again_has_no_deadline_before_it(desk: Desk) -> None:
    steps: Any = [{"name": "load"}, {"name": "mail", "after": ["load"], "after_failure": "run_anyway"}]
    steps[-1] |= {"deadline": "1 hour", "deadline_type": "hard", "wait_for": {"event": "go", "timeout": "2 hours"}}
    chain_id = desk.scheduler.schedule("Report", repeat="daily at 9:00", steps=steps).record.task.id
    load, mail = desk.scheduler.ends.tasks_of(chain_id)
    cancelled = desk.scheduler.cancel(load)
    assert desk.scheduler.get(mail).record.run.deadline == at(10)
    desk.scheduler.act(load, "undo", undo=cancelled.undo)
    run = desk.scheduler.get(mail).record.run
    assert (run.state, run.deadline, run.drop_at) == (State.WAITING, None, None)


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
    events = desk.scheduler.past.events(EventFilter(task_id=mail)).events
    desk.scheduler.act(load, "undo", undo=undo)

    assert states(desk, load, check) == [State.FAILED, State.FAILED], "what had ended with it ends again"
    assert desk.scheduler.get(mail).record.run == before
    assert (questions(desk), desk.scheduler.past.events(EventFilter(task_id=mail)).events) == (["Send?"], events)
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


@on_each_database
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_the_undo_of_a_cancel_leaves_what_an_earlier_run_had_ended(desk: Desk, policy: Any) -> None:
    load = desk.hourly()
    mail = desk.scheduler.schedule("Mail", after=[load], after_failure=policy).record.task.id
    desk.end(desk.start(9), Failed("no"))
    desk.clock.at = at(9, 5)
    later = desk.scheduler.schedule("Later", after=[load]).record.task.id
    cancelled = desk.scheduler.cancel(load)
    assert states(desk, mail, later) == [ENDED[policy], State.CANCELLED]
    desk.scheduler.act(load, "undo", undo=cancelled.undo)
    assert states(desk, load, mail, later) == [State.SCHEDULED, ENDED[policy], State.WAITING]
    sound(desk)


@on_each_database
@pytest.mark.parametrize("chain", [True, False], ids=["chain", "tasks"])
@pytest.mark.parametrize("policy", ["fail", "run_anyway"])
@pytest.mark.parametrize("is_ready", [True, False], ids=["ready", "scheduled"])
def test_the_undo_of_a_cancel_lets_what_the_cancel_had_let_go_wait_again(
    desk: Desk, policy: Any, *, chain: bool, is_ready: bool
) -> None:
    deadline = {"deadline": "1 hour", "deadline_type": "hard"}
    load, check, mail = tasks(desk, chain=chain, after_failure="run_anyway", **deadline)
    if policy == "run_anyway":
        desk.scheduler.reschedule(check, after=[load], after_failure="run_anyway")
    tidy = desk.scheduler.schedule("Tidy", after=[load], after_failure="run_anyway").record.task.id
    desk.scheduler.act(tidy, "run_now")
    before = desk.scheduler.get(mail).record.run
    cancelled = desk.scheduler.cancel(load)
    if is_ready:
        desk.store.claims.make_ready(limit=9)
    desk.clock.forward(seconds=5)
    view = desk.scheduler.act(load, "undo", undo=cancelled.undo)
    assert states(desk, load, check, mail) == [State.SCHEDULED, State.WAITING, State.WAITING]
    again = desk.scheduler.get(mail).record.run
    assert (again.deadline, again.drop_at, again.scheduled_for) == (None, None, before.scheduled_for)
    assert states(desk, tidy) == [State.READY if is_ready else State.SCHEDULED], "it was run now"
    assert not [each for each in view.warnings if "begun" in each]
    assert [claim.task.id for claim in desk.start(8, 59)] == [tidy] * (not is_ready)
    desk.end(desk.start(9))
    assert states(desk, check, mail) == [State.SCHEDULED, State.WAITING]
    sound(desk)


@on_each_database
def test_the_undo_of_a_cancel_names_what_had_begun_by_it(desk: Desk) -> None:
    load = desk.scheduler.schedule("Load", when="at 9:00").record.task.id
    mail = desk.scheduler.schedule("Mail", after=[load], after_failure="run_anyway").record.task.id
    desk.clock.at = at(8, 5)
    cancelled = desk.scheduler.cancel(load)
    claims = desk.start(8, 5)
    view = desk.scheduler.act(load, "undo", undo=cancelled.undo)
    assert f"what had begun does not wait again: {mail}" in view.warnings
    assert states(desk, load, mail) == [State.SCHEDULED, State.RUNNING]
    desk.end(claims)
    sound(desk)


EVENT: Any = {"event": "rows", "timeout": "30 min"}


@on_each_database
@pytest.mark.parametrize("at_once", [1, 2, 1_000])
def test_all_that_had_ended_with_a_task_waits_again_when_it_runs_again_however_many_they_are(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(dependants, "MAX_LINKS_CLOSED", at_once)
    monkeypatch.setattr(links, "MAX_TASKS_REOPENED", at_once)
    first = desk.scheduler.schedule("First", when="at 9:00", retry=RetryPolicy(max_attempts=1)).record.task.id
    behind = [desk.scheduler.schedule(f"Behind {n}", after=[first]).record.task.id for n in range(5)]
    last = desk.scheduler.schedule("Last", after=behind[1:4]).record.task.id
    very_last = desk.scheduler.schedule("Very last", after=[last, behind[4]]).record.task.id
    desk.end(desk.start(9), Failed("no"))
    while desk.store.dependencies.repair(limit=99):
        pass
    others = [*behind, last, very_last]
    assert states(desk, *others) == [State.FAILED] * 7

    desk.scheduler.reschedule(first, when="now")

    assert states(desk, *others) == [State.WAITING] * 7
    sound(desk)


def expired(desk: Desk, *, chain: bool = False, **more: Any) -> tuple[str, str]:
    """Schedule `load` at 13:00 and `mail` behind it, which expires at 8:30 without its event; return both."""
    if chain:
        steps: Any = [
            {"name": "load", "when": "at 13:00"},
            {"name": "mail", "after": ["load"], "wait_for": EVENT, **more},
        ]
        load, mail = desk.scheduler.ends.tasks_of(desk.scheduler.schedule("Report", steps=steps).record.task.id)
    else:
        load = desk.scheduler.schedule("Load", when="at 13:00").record.task.id
        mail = desk.scheduler.schedule("Mail", after=[load], wait_for=EVENT, **more).record.task.id
    if more.get("approval") == "Send?":
        desk.scheduler.approve(mail)
    desk.clock.at = at(8, 40)
    assert desk.store.signals.end_late(limit=9) == [mail]
    assert states(desk, load, mail) == [State.SCHEDULED, State.EXPIRED]
    return load, mail


def put_off(desk: Desk, task_id: str, how: str) -> TaskView:
    if how == "snooze":
        return desk.scheduler.act(task_id, "snooze", minutes=5)
    return desk.scheduler.reschedule(task_id, when="in 5 minutes")


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "tasks"])
@pytest.mark.parametrize("how", ["when", "snooze"])
def test_an_expired_task_that_is_put_off_waits_for_its_upstreams(desk: Desk, how: str, *, chain: bool) -> None:
    load, mail = expired(desk, chain=chain)
    view = put_off(desk, mail, how)
    assert (view.record.run.state, view.record.run.scheduled_for) == (State.WAITING, at(8, 45))
    [waits_for] = view.waiting_for
    assert waits_for.startswith(load)
    assert (desk.start(8, 46), desk.store.signals.end_late(limit=9)) == ([], [])
    [claim] = desk.start(13)
    assert (claim.task.id, states(desk, mail)) == (load, [State.WAITING])
    desk.end([claim])
    assert [each.task.id for each in desk.start(13, 1)] == [mail], "it waits for no event any more"
    sound(desk)


def test_an_expired_task_that_is_put_off_expires_again_by_the_undo(desk: Desk) -> None:
    _, mail = expired(desk)
    before = desk.scheduler.get(mail).record.run
    undo = put_off(desk, mail, "when").undo
    assert desk.scheduler.act(mail, "undo", undo=undo).record.run == before
    sound(desk)


def test_an_expired_task_goes_around_what_it_comes_after_by_run_now_alone(desk: Desk) -> None:
    load, mail = expired(desk)
    desk.scheduler.act(mail, "run_now")
    assert [each.task.id for each in desk.start(8, 41)] == [mail]
    assert states(desk, load) == [State.SCHEDULED]


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "tasks"])
def test_an_expired_task_without_an_answer_asks_again_and_does_not_expire_again(desk: Desk, *, chain: bool) -> None:
    load, mail = expired(desk, chain=chain, approval={"question": "Mail?"})
    assert questions(desk) == []
    put_off(desk, mail, "when")
    assert (states(desk, mail), questions(desk)) == ([State.WAITING], ["Mail?"])
    assert desk.store.signals.end_late(limit=9) == []
    desk.scheduler.approve(mail)
    assert desk.start(8, 50) == []
    desk.end(desk.start(13))
    assert [each.task.id for each in desk.start(13, 1)] == [mail]
    assert states(desk, load) == [State.SUCCEEDED]
    sound(desk)


def test_the_yes_to_a_task_that_expired_before_its_start_holds(desk: Desk) -> None:
    _, mail = expired(desk, approval="Send?")
    put_off(desk, mail, "when")
    assert (states(desk, mail), questions(desk), desk.start(8, 46)) == ([State.WAITING], [], [])
    desk.end(desk.start(13))
    assert [each.task.id for each in desk.start(13, 1)] == [mail]


@pytest.mark.parametrize("outcome", [Done("done"), Failed("no")], ids=["well", "failed"])
def test_a_task_that_failed_with_one_upstream_and_is_put_off_waits_for_the_other(desk: Desk, outcome: Outcome) -> None:
    first, second = (desk.scheduler.schedule("Load", when=f"at {hour}:00").record.task.id for hour in (9, 10))
    mail = desk.scheduler.schedule("Mail", after=[first, second]).record.task.id
    desk.end(desk.start(9), Failed("no"))
    assert states(desk, mail) == [State.FAILED]
    desk.clock.at = at(9, 5)
    view = put_off(desk, mail, "when")
    assert [each.split()[0] for each in view.waiting_for] == [second]
    assert desk.start(9, 15) == []
    desk.end(desk.start(10), outcome)
    goes = [mail] if isinstance(outcome, Done) else []
    assert [each.task.id for each in desk.start(10, 1)] == goes
    sound(desk)
