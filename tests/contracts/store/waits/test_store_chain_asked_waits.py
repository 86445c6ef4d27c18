"""Steps that ask for approval and wait for an event: of chains that run once, and that recur."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

TENANT = "local"
SCHEDULED, WAITING, SUCCEEDED = State.SCHEDULED, State.WAITING, State.SUCCEEDED
EXPIRED, SKIPPED, CANCELLED = State.EXPIRED, State.SKIPPED, State.CANCELLED
FETCH: StepArguments = {"name": "fetch"}
MAIL: StepArguments = {"name": "mail", "after": ["fetch"]}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def mailing(default: str = "reject", **wait: Any) -> Any:
    """Return the second step: it asks, for 10 minutes, and waits for `ready`, for 20 minutes."""
    asks = {"question": "Mail it?", "by": "10 min", "default": default}
    return {**MAIL, "approval": asks, "wait_for": {"event": "ready", "timeout": "20 min", **wait}}


def report(desk: Desk, *steps: StepArguments, once: bool = False, **more: Any) -> str:
    """Schedule a chain that is due at 9, and each hour from then on unless it runs `once`."""
    rule = {"when": "at 9:00"} if once else {"repeat": "every hour at :00"}
    return desk.scheduler.schedule("Report", **{**rule, "steps": list(steps), **more}).record.task.id


def states(desk: Desk, chain_id: str) -> list[State]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def step(desk: Desk, chain_id: str, name: str = "mail") -> str:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return next(each.task_id for each in chain.steps if each.name == name)


def current(desk: Desk, chain_id: str, name: str = "mail") -> Run:
    return desk.scheduler.get(step(desk, chain_id, name)).record.run


def starts(desk: Desk, hour: int, minute: int) -> list[str]:
    """Start and end what may run; return the titles of the steps."""
    claims = desk.start(hour, minute)
    desk.end(claims)
    return [claim.task.title for claim in claims]


def turn(desk: Desk, chain_id: str, hour: int) -> None:
    """Let the turn of the last step come: it asks and waits from a minute past the hour."""
    assert starts(desk, hour, 0) == ["Report: fetch"]
    desk.nothing_due(hour, 1)
    assert waited_for(desk, chain_id) == (at(hour, 11), at(hour, 21))


def waited_for(desk: Desk, chain_id: str, name: str = "mail") -> tuple[datetime | None, datetime | None]:
    """Return until when a step asks and waits; None for what it does not."""
    run = current(desk, chain_id, name)
    asked = desk.store.approvals.open_of(TENANT, [run.id]).get(run.id)
    waits = desk.store.signals.open_of(TENANT, [run.id, run.task_id])
    awaited = next(iter(waits.values()), None)
    if run.state is WAITING and (asked or awaited):
        said = "; ".join(desk.scheduler.explain(run.task_id)[1])
        assert ("approval of " in said, "the event " in said) == (bool(asked), bool(awaited)), said
    inbox = [each for each in desk.scheduler.inbox.unread() if each.task_id == run.task_id and each.state is WAITING]
    assert len(inbox) == bool(asked), "the inbox has the question as long as it is open"
    return asked.ends_at if asked else None, awaited.wait.until if awaited else None


def send(desk: Desk, event_id: str) -> int:
    return desk.scheduler.signals.send("ready", event_id=event_id).freed


def kinds(desk: Desk, run: Run) -> list[EventKind]:
    events = desk.scheduler.past.events(EventFilter(task_id=run.task_id)).events
    return [event.kind for event in reversed(events) if event.run_id == run.id]


def sound(desk: Desk) -> None:
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0


@pytest.mark.parametrize("first", ["yes", "event"])
def test_a_step_that_runs_once_asks_and_waits_from_the_call_on_and_goes_after_both(desk: Desk, first: str) -> None:
    chain_id = report(desk, FETCH, mailing(timeout="2 hours"), once=True)
    assert waited_for(desk, chain_id) == (at(8, 10), at(10))
    mail = step(desk, chain_id)
    if first == "yes":
        desk.scheduler.approve(mail)
        assert starts(desk, 9, 0) == ["Report: fetch"]
        desk.nothing_due(9, 1)
        assert waited_for(desk, chain_id) == (None, at(10))
        assert send(desk, "e1") == 1
    else:
        assert send(desk, "e1") == 0
        assert starts(desk, 9, 0) == ["Report: fetch"]
        desk.nothing_due(9, 1)
        assert waited_for(desk, chain_id) == (at(8, 10), None)
        desk.scheduler.approve(mail)
    assert starts(desk, 9, 2) == ["Report: mail"]
    sound(desk)


@pytest.mark.parametrize("lot", ["timeout", "no", "default"])
def test_a_step_that_runs_once_ends_by_the_first_that_fails(desk: Desk, lot: str) -> None:
    chain_id = report(desk, FETCH, mailing(timeout="70 min"), {"name": "end", "after": ["mail"]}, once=True)
    mail = step(desk, chain_id)
    if lot == "timeout":
        desk.scheduler.approve(mail)
        desk.clock.at = at(9, 10)
        assert desk.store.signals.end_late(limit=9) == [mail]
        assert states(desk, chain_id)[1:] == [EXPIRED, State.FAILED]
    else:
        desk.clock.at = at(8, 10)
        _ = desk.store.approvals.expire(limit=9) if lot == "default" else desk.scheduler.reject(mail)
        assert states(desk, chain_id)[1:] == [CANCELLED, CANCELLED]
    assert (send(desk, "e1"), waited_for(desk, chain_id)[0]) == (0, None)
    sound(desk)


def test_the_undo_of_a_no_to_a_step_that_runs_once_asks_and_waits_again(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing(timeout="2 hours"), once=True)
    mail = step(desk, chain_id)
    desk.scheduler.reject(mail)
    desk.scheduler.act(mail, "undo")
    assert waited_for(desk, chain_id) == (at(8, 10), at(10))
    sound(desk)


@on_each_database
@pytest.mark.parametrize("first", ["yes", "event"])
def test_a_step_asks_and_waits_when_its_turn_comes_in_each_generation(desk: Desk, first: str) -> None:
    chain_id = report(desk, FETCH, mailing())
    for hour in (9, 10, 11):
        turn(desk, chain_id, hour)
        run = current(desk, chain_id)
        desk.clock.at = at(hour, 5)
        if first == "yes":
            desk.scheduler.approve(chain_id)
            assert waited_for(desk, chain_id) == (None, at(hour, 21))
            assert send(desk, f"e{hour}") == 1
        else:
            assert send(desk, f"e{hour}") == 0
            assert waited_for(desk, chain_id) == (at(hour, 11), None)
            desk.scheduler.approve(chain_id)
        assert starts(desk, hour, 6) == ["Report: mail"]
        came = [] if first == "yes" else [EventKind.WAIT_ENDED]
        begun = [EventKind.WAIT_BEGAN, EventKind.ASKED, *came, EventKind.APPROVED, EventKind.UNBLOCKED]
        assert kinds(desk, run)[-7 - len(came) : -3] == begun, "the history has both"
        assert current(desk, chain_id, "fetch").number == hour - 7
    sound(desk)


def test_the_first_steps_ask_and_wait_for_what_the_chain_has_and_are_answered_as_a_whole(desk: Desk) -> None:
    asks, wait = {"question": "Go?", "by": "10 min"}, {"event": "ready", "timeout": "20 min"}
    chain_id = report(desk, FETCH, {"name": "look"}, MAIL, approval=asks, wait_for=wait)
    for hour in (9, 10):
        desk.nothing_due(hour, 0)
        assert [waited_for(desk, chain_id, name) for name in ("fetch", "look")] == [(at(hour, 10), at(hour, 20))] * 2
        desk.scheduler.approve(chain_id)
        desk.nothing_due(hour, 1)
        assert send(desk, f"e{hour}") == 2
        assert sorted(starts(desk, hour, 2)) == ["Report: fetch", "Report: look"]
        assert starts(desk, hour, 3) == ["Report: mail"]
    sound(desk)


@pytest.mark.parametrize(("lot", "ends"), [("expire", EXPIRED), ("skip", SKIPPED)])
@pytest.mark.parametrize("answered", [True, False])
def test_a_timeout_ends_the_step_whatever_was_answered_and_the_next_generation_comes(
    desk: Desk, lot: str, ends: State, *, answered: bool
) -> None:
    chain_id = report(desk, FETCH, mailing(on_timeout=lot, timeout="5 min"))
    assert starts(desk, 9, 0) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    mail = step(desk, chain_id)
    if answered:
        desk.scheduler.approve(chain_id)
    desk.clock.at = at(9, 6)
    assert desk.store.signals.end_late(limit=9) == [mail]
    assert desk.runs(mail) == {9: ends, 10: WAITING}
    assert waited_for(desk, chain_id) == (None, None)
    sound(desk)


def test_a_step_that_may_go_without_its_event_waits_for_the_answer_alone_then(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing(on_timeout="run", timeout="5 min"))
    assert starts(desk, 9, 0) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    desk.clock.at = at(9, 6)
    desk.store.signals.end_late(limit=9)
    assert waited_for(desk, chain_id) == (at(9, 11), None)
    desk.scheduler.approve(chain_id)
    assert starts(desk, 9, 7) == ["Report: mail"]
    sound(desk)


@pytest.mark.parametrize("by_default", [True, False])
def test_a_no_skips_the_step_ends_its_wait_and_the_next_generation_comes(desk: Desk, *, by_default: bool) -> None:
    chain_id = report(desk, FETCH, mailing())
    turn(desk, chain_id, 9)
    mail = step(desk, chain_id)
    desk.clock.at = at(9, 11)
    _ = desk.store.approvals.expire(limit=9) if by_default else desk.scheduler.reject(chain_id)
    assert desk.runs(mail) == {9: SKIPPED, 10: WAITING}
    assert send(desk, "e1") == 0
    turn(desk, chain_id, 10)
    sound(desk)


def test_a_default_yes_leaves_the_event_to_wait_for(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing("approve"))
    turn(desk, chain_id, 9)
    desk.clock.at = at(9, 11)
    assert desk.store.approvals.expire(limit=9) == [step(desk, chain_id)]
    assert waited_for(desk, chain_id) == (None, at(9, 21))
    assert send(desk, "e1") == 1
    assert starts(desk, 9, 12) == ["Report: mail"]
    sound(desk)


@pytest.mark.parametrize("answered", [True, False])
def test_an_undone_cancel_of_the_chain_asks_and_waits_until_the_same_times(desk: Desk, *, answered: bool) -> None:
    chain_id = report(desk, FETCH, mailing())
    turn(desk, chain_id, 9)
    if answered:
        desk.scheduler.approve(chain_id)
    desk.clock.at = at(9, 2)
    undo = desk.scheduler.cancel(chain_id).undo
    assert waited_for(desk, chain_id) == (None, None)
    desk.scheduler.act(chain_id, "undo", undo=undo)
    desk.nothing_due(9, 2)
    assert waited_for(desk, chain_id) == (None if answered else at(9, 11), at(9, 21))
    assert send(desk, "e1") == answered
    sound(desk)


def test_a_cancel_before_its_turn_is_undone_without_a_question(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing())
    undo = desk.scheduler.cancel(chain_id).undo
    desk.scheduler.act(chain_id, "undo", undo=undo)
    assert waited_for(desk, chain_id) == (None, None)
    turn(desk, chain_id, 9)
    sound(desk)


def test_a_pause_holds_both_and_their_ends(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing())
    turn(desk, chain_id, 9)
    desk.scheduler.reschedule(chain_id, pause=True)
    desk.clock.at = at(9, 30)
    assert (desk.store.approvals.expire(limit=9), desk.store.signals.end_late(limit=9)) == ([], [])
    send(desk, "e1")
    desk.scheduler.approve(chain_id)
    desk.nothing_due(9, 31)
    desk.scheduler.reschedule(chain_id, pause=False)
    assert starts(desk, 9, 32) == ["Report: mail"]
    sound(desk)


def test_run_now_asks_now_and_waits_for_no_event_and_is_refused_while_the_question_is_open(desk: Desk) -> None:
    alone: Any = {**mailing(), "name": "only", "after": []}
    chain_id = report(desk, alone)
    only = step(desk, chain_id, "only")
    desk.scheduler.act(only, "run_now")
    desk.nothing_due(8, 1)
    assert waited_for(desk, chain_id, "only") == (at(8, 11), None)
    with pytest.raises(Refused, match="needs an approval first"):
        desk.scheduler.act(only, "run_now")
    desk.scheduler.approve(chain_id)
    assert starts(desk, 8, 2) == ["Report: only"]
    turned = desk.scheduler.get(chain_id).record.run.scheduled_for
    assert desk.start(turned.hour) == []
    with pytest.raises(Refused, match="needs an approval first"):
        desk.scheduler.act(only, "run_now")
    desk.scheduler.approve(chain_id)
    desk.scheduler.act(only, "run_now")
    assert starts(desk, turned.hour, 1) == ["Report: only"], "a yes is enough: it waits for no event any more"
    sound(desk)


def test_a_snoozed_step_asks_and_waits_at_its_new_time_and_the_undo_until_the_same_times(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing())
    turn(desk, chain_id, 9)
    mail = step(desk, chain_id)
    undo = desk.scheduler.act(mail, "snooze", minutes=20).undo
    assert (current(desk, chain_id).state, waited_for(desk, chain_id)) == (SCHEDULED, (None, None))
    desk.scheduler.act(mail, "undo", undo=undo)
    desk.nothing_due(9, 1)
    assert waited_for(desk, chain_id) == (at(9, 11), at(9, 21))
    later = desk.scheduler.act(mail, "snooze", minutes=20).record.run.scheduled_for
    assert desk.start(later.hour, later.minute) == []
    asked, awaited = waited_for(desk, chain_id)
    assert asked
    assert awaited
    assert (asked.minute - later.minute, awaited.minute - later.minute) == (10, 20)
    sound(desk)


def test_a_yes_that_is_taken_back_asks_again_and_leaves_the_event_as_it_is(desk: Desk) -> None:
    chain_id = report(desk, FETCH, mailing())
    turn(desk, chain_id, 9)
    mail = step(desk, chain_id)
    undo = desk.scheduler.approve(mail).undo
    desk.scheduler.act(mail, "undo", undo=undo)
    assert waited_for(desk, chain_id) == (at(9, 11), at(9, 21))
    undo = desk.scheduler.approve(mail).undo
    assert send(desk, "e1") == 1
    desk.scheduler.act(mail, "undo", undo=undo)
    assert waited_for(desk, chain_id) == (at(9, 11), None)
    desk.scheduler.approve(mail)
    assert starts(desk, 9, 2) == ["Report: mail"]
    sound(desk)


def test_a_hard_deadline_ends_both(desk: Desk) -> None:
    mail: Any = {**mailing(), "deadline": "5 min", "deadline_type": "hard"}
    chain_id = report(desk, FETCH, mail)
    turn(desk, chain_id, 9)
    desk.clock.at = at(9, 7)
    desk.expire()
    assert desk.runs(step(desk, chain_id)) == {9: EXPIRED, 10: WAITING}
    assert (send(desk, "e1"), waited_for(desk, chain_id)) == (0, (None, None))
    sound(desk)


def test_a_step_that_asks_may_wait_for_an_event_later_and_asks_on_without_it(desk: Desk) -> None:
    mail: Any = {name: value for name, value in mailing().items() if name != "wait_for"}
    chain_id = report(desk, FETCH, mail)
    assert starts(desk, 9, 0) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    desk.scheduler.reschedule(step(desk, chain_id), wait_for={"event": "ready", "timeout": "20 min"})
    desk.nothing_due(9, 1)
    assert waited_for(desk, chain_id) == (at(9, 11), at(9, 21))
    desk.scheduler.reschedule(step(desk, chain_id), remove=["wait_for"])
    desk.nothing_due(9, 2)
    assert waited_for(desk, chain_id)[1] is None
    desk.scheduler.reject(chain_id)
    assert desk.runs(step(desk, chain_id)) == {9: SKIPPED, 10: WAITING}
    sound(desk)


ASKS: Any = {"question": "Mail it?", "by": "10 min"}


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_question_that_is_added_to_a_step_holds_for_each_later_generation(desk: Desk, answer: str) -> None:
    chain_id = report(desk, FETCH, MAIL)
    mail = step(desk, chain_id)
    view = desk.scheduler.reschedule(mail, approval=ASKS)
    assert (view.record.run.state, waited_for(desk, chain_id)) == (WAITING, (None, None)), "it is asked at its turn"
    for hour in (9, 10, 11):
        assert starts(desk, hour, 0) == ["Report: fetch"]
        desk.nothing_due(hour, 1)
        assert waited_for(desk, chain_id) == (at(hour, 11), None)
        if answer == "approve":
            desk.scheduler.approve(mail)
            assert starts(desk, hour, 2) == ["Report: mail"]
        else:
            desk.scheduler.reject(mail)
        assert desk.runs(mail)[hour] is (SUCCEEDED if answer == "approve" else SKIPPED)
    sound(desk)


def test_a_step_that_is_ready_leaves_the_queue_and_asks(desk: Desk) -> None:
    chain_id = report(desk, FETCH, MAIL)
    assert starts(desk, 9, 0) == ["Report: fetch"]
    assert [run.task_id for run in desk.store.claims.make_ready(limit=9)] == [step(desk, chain_id)]
    desk.scheduler.reschedule(step(desk, chain_id), approval=ASKS)
    desk.nothing_due(9, 1)
    assert waited_for(desk, chain_id) == (at(9, 11), None)
    sound(desk)


def test_a_step_that_waits_for_its_event_is_asked_for_as_well(desk: Desk) -> None:
    mail: Any = {name: value for name, value in mailing().items() if name != "approval"}
    chain_id = report(desk, FETCH, mail)
    assert starts(desk, 9, 0) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    desk.clock.at = at(9, 2)
    undo = desk.scheduler.reschedule(step(desk, chain_id), approval=ASKS).undo
    desk.nothing_due(9, 2)
    assert waited_for(desk, chain_id) == (at(9, 12), at(9, 21)), "the question counts from when it is asked"
    desk.scheduler.act(step(desk, chain_id), "undo", undo=undo)
    desk.nothing_due(9, 2)
    assert waited_for(desk, chain_id) == (None, at(9, 21))
    desk.scheduler.reschedule(step(desk, chain_id), approval={"question": "Sure?", "by": "1 hour"})
    desk.nothing_due(9, 3)
    assert waited_for(desk, chain_id) == (at(10, 3), at(9, 21)), "nothing is left of the first question"
    [message] = [each for each in desk.scheduler.inbox.unread() if each.state is WAITING]
    assert message.text == "Sure?"
    sound(desk)


@pytest.mark.parametrize("asked", [True, False])
def test_the_undo_of_an_added_question_withdraws_it_and_lets_the_step_go(desk: Desk, *, asked: bool) -> None:
    chain_id = report(desk, FETCH, MAIL)
    assert starts(desk, 9, 0) == ["Report: fetch"]
    undo = desk.scheduler.reschedule(step(desk, chain_id), approval=ASKS).undo
    if asked:
        desk.nothing_due(9, 0)
        assert waited_for(desk, chain_id) == (at(9, 10), None)
    desk.scheduler.act(step(desk, chain_id), "undo", undo=undo)
    assert waited_for(desk, chain_id) == (None, None)
    assert starts(desk, 9, 1) == ["Report: mail"]
    assert (starts(desk, 10, 0), starts(desk, 10, 1)) == (["Report: fetch"], ["Report: mail"])
    sound(desk)


def test_a_step_gets_an_event_and_a_question_by_one_change_and_keeps_what_it_has(desk: Desk) -> None:
    chain_id = report(desk, FETCH, MAIL)
    mail = step(desk, chain_id)
    desk.scheduler.reschedule(mail, approval=ASKS, wait_for={"event": "ready", "timeout": "20 min"})
    for hour in (9, 10):
        turn(desk, chain_id, hour)
        desk.scheduler.approve(mail)
        assert send(desk, f"e{hour}") == 1
        assert starts(desk, hour, 2) == ["Report: mail"]
    with pytest.raises(Refused, match="has its question already, which only the user answers"):
        desk.scheduler.reschedule(mail, approval={"question": "Other?"})
    with pytest.raises(InvalidArgument, match=r"approval\.by: a task that repeats asks before each"):
        desk.scheduler.reschedule(step(desk, chain_id, "fetch"), approval={"by": "17:00"})
    sound(desk)
