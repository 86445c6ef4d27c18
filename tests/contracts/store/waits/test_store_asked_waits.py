"""Runs that ask for approval and wait for an event: both at once, in any order, each decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

TENANT = "local"
SCHEDULED, WAITING, SKIPPED, CANCELLED = State.SCHEDULED, State.WAITING, State.SKIPPED, State.CANCELLED
BOTH = frozenset({"approval", "event"})
ASKED, AWAITED, NOTHING = frozenset({"approval"}), frozenset({"event"}), frozenset[str]()


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def payroll(desk: Desk, **more: Any) -> str:
    """Schedule an hourly task of which each run asks, for 10 minutes, and waits for `ready`, for 20 minutes."""
    asks = {"question": "Pay?", "by": "10 min", "default": more.pop("default", "reject")}
    wait = {"event": "ready", "timeout": "20 min"}
    wait |= {name: more.pop(name) for name in ("lookback", "on_timeout", "timeout") if name in more}
    rule = {"repeat": "every hour at :00", "approval": asks, "wait_for": wait}
    return desk.scheduler.schedule("Payroll", **{**rule, **more}).record.task.id


def current(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def open_waits(desk: Desk, task_id: str) -> frozenset[str]:
    """Return what the current run waits for, as the store has it; it is what the inbox and `explain` say as well."""
    run = current(desk, task_id)
    asked = desk.store.approvals.open_of(TENANT, [run.id])
    awaited = desk.store.signals.open_of(TENANT, [run.id, task_id])
    found = (ASKED if asked else NOTHING) | (AWAITED if awaited else NOTHING)
    assert (run.state is WAITING) == bool(found)
    inbox = [each for each in desk.scheduler.inbox.unread() if each.task_id == task_id and each.state is WAITING]
    assert len(inbox) == len(asked), "the inbox has the question as long as it is open"
    if found:
        said = "; ".join(desk.scheduler.explain(task_id)[1])
        assert ("approval of " in said, "the event " in said) == ("approval" in found, "event" in found), said
    return found


def due(desk: Desk, task_id: str, hour: int, minute: int = 0) -> frozenset[str]:
    """Look for due runs at a time; return what the task waits for by now."""
    assert desk.start(hour, minute) == [], "nothing goes before its answer and its event"
    return open_waits(desk, task_id)


def send(desk: Desk, event_id: str) -> int:
    return desk.scheduler.signals.send("ready", {"n": 1}, event_id=event_id).freed


def starts(desk: Desk, hour: int, minute: int) -> list[int]:
    return [claim.run.scheduled_for.hour for claim in desk.start(hour, minute)]


def asked_until(desk: Desk, task_id: str) -> Any:
    [approval] = desk.store.approvals.open_of(TENANT, [current(desk, task_id).id]).values()
    return approval.ends_at


def awaited_until(desk: Desk, task_id: str) -> Any:
    wait = desk.store.signals.wait_of_run(TENANT, task_id, current(desk, task_id).id)
    assert wait
    assert wait.is_open
    return wait.wait.until


def kinds(desk: Desk, task_id: str, run_id: str) -> list[EventKind]:
    """Return the kinds of the events of a run, each of which begins where the one before it has left the run."""
    events = [each for each in desk.scheduler.past.events(EventFilter(task_id=task_id)).events if each.run_id == run_id]
    moves = [(each.from_state, each.to_state) for each in reversed(events) if each.to_state]
    assert [begins for begins, _ in moves[1:]] == [ends for _, ends in moves[:-1]]
    return [event.kind for event in reversed(events)]


def sound(desk: Desk) -> None:
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0


def test_a_single_task_asks_and_waits_from_the_call_on_and_goes_after_both(desk: Desk) -> None:
    for first in ("yes", "event"):
        desk.clock.forward(minutes=1)
        wait: Any = {"event": "ready"}
        asks: Any = {"question": "Pay?"}
        task_id = desk.scheduler.schedule("Pay", when="at 9:00", approval=asks, wait_for=wait).record.task.id
        assert open_waits(desk, task_id) == BOTH
        if first == "yes":
            desk.scheduler.approve(task_id)
            assert open_waits(desk, task_id) == AWAITED
            assert send(desk, first) == 1
        else:
            assert send(desk, first) == 0
            assert open_waits(desk, task_id) == ASKED
            desk.scheduler.approve(task_id)
        assert current(desk, task_id).state is SCHEDULED
    assert len(desk.start(9)) == 2


@on_each_database
@pytest.mark.parametrize("first", ["yes", "event"])
def test_each_run_asks_and_waits_when_it_is_due_and_goes_after_both_in_any_order(desk: Desk, first: str) -> None:
    task_id = payroll(desk)
    assert current(desk, task_id).state is SCHEDULED
    for hour in (9, 10):
        assert due(desk, task_id, hour) == BOTH
        run_id = current(desk, task_id).id
        assert (asked_until(desk, task_id), awaited_until(desk, task_id)) == (at(hour, 10), at(hour, 20))
        desk.clock.at = at(hour, 5)
        if first == "yes":
            assert desk.scheduler.approve(task_id).record.run.state is WAITING
            assert due(desk, task_id, hour, 5) == AWAITED
            assert send(desk, f"e{hour}") == 1
        else:
            assert send(desk, f"e{hour}") == 0
            assert due(desk, task_id, hour, 5) == ASKED
            desk.scheduler.approve(task_id)
        [claim] = desk.start(hour, 6)
        assert (claim.run.scheduled_for, claim.run.number) == (at(hour), hour - 8), "it keeps its place in the series"
        desk.end([claim])
        goes = EventKind.UNBLOCKED, EventKind.READY, EventKind.STARTED, EventKind.SUCCEEDED
        came = [] if first == "yes" else [EventKind.WAIT_ENDED]
        begun = EventKind.WAIT_BEGAN, EventKind.ASKED, *came, EventKind.APPROVED
        assert tuple(kinds(desk, task_id, run_id))[-7 - len(came) :] == (*begun, *goes), "the history has both"
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SUCCEEDED, 11: SCHEDULED}
    sound(desk)


def test_an_event_that_came_before_counts_and_the_question_is_asked_all_the_same(desk: Desk) -> None:
    task_id = payroll(desk, lookback="1 hour")
    assert send(desk, "early") == 0
    assert due(desk, task_id, 9) == ASKED
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 1) == [9]
    sound(desk)


@pytest.mark.parametrize(("lot", "ends"), [("expire", State.EXPIRED), ("skip", SKIPPED)])
@pytest.mark.parametrize("answered", [True, False])
def test_a_timeout_ends_the_run_whatever_was_answered_and_withdraws_the_question(
    desk: Desk, lot: str, ends: State, *, answered: bool
) -> None:
    task_id = payroll(desk, on_timeout=lot, timeout="5 min")
    assert due(desk, task_id, 9) == BOTH
    if answered:
        desk.scheduler.approve(task_id)
    desk.clock.at = at(9, 5)
    assert desk.store.signals.end_late(limit=9) == [task_id]
    assert desk.runs(task_id) == {9: ends, 10: SCHEDULED}
    assert not [each for each in desk.scheduler.inbox.unread() if each.state is WAITING]
    assert due(desk, task_id, 10) == BOTH, "the series goes on"
    sound(desk)


def test_a_run_that_may_go_without_its_event_waits_for_the_answer_alone_then(desk: Desk) -> None:
    task_id = payroll(desk, on_timeout="run", timeout="5 min")
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 5)
    desk.store.signals.end_late(limit=9)
    assert due(desk, task_id, 9, 5) == ASKED
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 6) == [9]
    sound(desk)


def test_a_no_skips_the_run_ends_its_wait_and_its_undo_brings_back_both_until_the_same_times(desk: Desk) -> None:
    task_id = payroll(desk, max_runs=2)
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 1)
    undo = desk.scheduler.reject(task_id).undo
    assert desk.runs(task_id) == {9: SKIPPED, 10: SCHEDULED}
    assert (send(desk, "e1"), current(desk, task_id).number) == (0, 1), "nothing waits, and no number is used up"
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 9, 1) == ASKED, "the event that came in between counts"
    assert asked_until(desk, task_id) == at(9, 10)
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 2) == [9]
    sound(desk)


@pytest.mark.parametrize(("default", "left"), [("approve", AWAITED), ("reject", NOTHING)])
def test_the_default_answers_at_its_deadline_while_the_event_is_awaited(
    desk: Desk, default: str, left: frozenset[str]
) -> None:
    task_id = payroll(desk, default=default)
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 10)
    assert desk.store.approvals.expire(limit=9) == [task_id]
    assert open_waits(desk, task_id) == left
    assert desk.runs(task_id)[9] is (WAITING if left else SKIPPED)
    assert send(desk, "e1") == len(left)
    sound(desk)


def test_a_skip_withdraws_both_and_its_undo_asks_and_waits_until_the_same_times(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 1)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    assert (desk.scheduler.inbox.unread(), send(desk, "e0"), desk.runs(task_id)) == ([], 0, {9: SKIPPED, 10: SCHEDULED})
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 9, 1) == ASKED
    assert asked_until(desk, task_id) == at(9, 10)
    sound(desk)


def test_an_undone_skip_keeps_the_yes_and_waits_for_the_event_until_the_same_time(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.approve(task_id)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 9) == AWAITED
    assert awaited_until(desk, task_id) == at(9, 20)
    assert send(desk, "e1") == 1
    assert starts(desk, 9, 1) == [9]
    sound(desk)


def test_an_undone_skip_that_finds_the_next_question_open_asks_for_the_run_that_came_back(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 59) + timedelta(seconds=50)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    assert due(desk, task_id, 10) == BOTH
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 10) == BOTH
    assert current(desk, task_id).scheduled_for == at(9)
    assert asked_until(desk, task_id) == at(10, 10), "its time has passed: it is asked for as long once more"
    assert awaited_until(desk, task_id) == at(9, 20)
    sound(desk)


def test_nothing_runs_around_both(desk: Desk) -> None:
    task_id = payroll(desk)
    for hour, waits in ((8, NOTHING), (9, BOTH)):
        assert due(desk, task_id, hour) == waits
        with pytest.raises(Refused, match="asks before each of its runs"):
            desk.scheduler.act(task_id, "run_now")
    desk.scheduler.approve(task_id)
    with pytest.raises(Refused, match="approved by local with its current payload"):
        desk.scheduler.reschedule(task_id, payload={"message": "other"})
    sound(desk)


def test_a_call_of_its_fire_address_stands_for_the_event_and_for_no_answer(desk: Desk) -> None:
    task_id = payroll(desk)
    address = desk.scheduler.addresses.find(desk.scheduler.addresses.make(task_id).path.rpartition("/")[2])
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.addresses.fire(address)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.addresses.fire(address)
    assert open_waits(desk, task_id) == ASKED
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.addresses.fire(address)
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 1) == [9]
    sound(desk)


def test_a_snooze_moves_it_to_its_new_time_where_it_asks_and_waits_from_then_on(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.act(task_id, "snooze", minutes=30)
    assert open_waits(desk, task_id) == NOTHING
    assert current(desk, task_id).state is SCHEDULED
    assert due(desk, task_id, 9, 30) == BOTH
    assert (asked_until(desk, task_id), awaited_until(desk, task_id)) == (at(9, 40), at(9, 50))
    sound(desk)


def test_an_undone_snooze_asks_and_waits_until_the_same_times_as_before(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    undo = desk.scheduler.act(task_id, "snooze", minutes=30).undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 9, 1) == BOTH
    assert (asked_until(desk, task_id), awaited_until(desk, task_id)) == (at(9, 10), at(9, 20))
    sound(desk)


def test_a_moved_run_keeps_the_yes_and_the_event_that_it_had(desk: Desk) -> None:
    for given, left in (("yes", AWAITED), ("event", ASKED)):
        task_id = payroll(desk)
        assert due(desk, task_id, 9) == BOTH
        _ = desk.scheduler.approve(task_id) if given == "yes" else send(desk, f"e-{task_id}")
        desk.scheduler.reschedule(task_id, when="at 9:30")
        assert due(desk, task_id, 9, 30) == left
        sound(desk)
        desk.scheduler.cancel(task_id)
        desk.clock.at = MORNING


def test_a_pause_holds_both_and_their_ends(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.reschedule(task_id, pause=True)
    desk.clock.at = at(9, 30)
    assert (desk.store.approvals.expire(limit=9), desk.store.signals.end_late(limit=9)) == ([], [])
    assert send(desk, "e1") == 0
    desk.scheduler.approve(task_id)
    assert desk.start(9, 31) == []
    desk.scheduler.reschedule(task_id, pause=False)
    assert starts(desk, 9, 32) == [9]
    sound(desk)


def test_a_paused_series_asks_nothing_and_waits_for_nothing(desk: Desk) -> None:
    task_id = payroll(desk)
    desk.scheduler.reschedule(task_id, pause=True)
    assert due(desk, task_id, 9) == NOTHING
    desk.scheduler.reschedule(task_id, pause=False)
    assert due(desk, task_id, 10) == BOTH
    sound(desk)


def test_a_cancel_withdraws_both_and_its_undo_asks_and_waits_until_the_same_times(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 1)
    desk.scheduler.cancel(task_id)
    assert (desk.scheduler.inbox.unread(), send(desk, "none")) == ([], 0)
    desk.scheduler.act(task_id, "undo")
    assert due(desk, task_id, 9, 1) == ASKED, "the event that came in between counts"
    assert asked_until(desk, task_id) == at(9, 10)
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 2) == [9]
    sound(desk)


def test_an_undone_cancel_keeps_the_yes(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.approve(task_id)
    desk.scheduler.cancel(task_id)
    desk.scheduler.act(task_id, "undo")
    assert due(desk, task_id, 9, 1) == AWAITED
    assert awaited_until(desk, task_id) == at(9, 20)
    sound(desk)


@pytest.mark.parametrize("came", [True, False])
def test_a_yes_that_is_taken_back_asks_again_and_leaves_the_event_as_it_is(desk: Desk, *, came: bool) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    undo = desk.scheduler.approve(task_id).undo
    assert send(desk, "e1") == 1 if came else True
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert due(desk, task_id, 9, 1) == (ASKED if came else BOTH)
    assert asked_until(desk, task_id) == at(9, 10)
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 2) == ([9] if came else [])
    sound(desk)


def test_the_next_occurrence_takes_the_place_of_one_that_waits_where_the_policy_says_so(desk: Desk) -> None:
    task_id = payroll(desk, repeat_policy={"overlap": "cancel_other"})
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(10)
    assert desk.store.series.overtake(limit=9).tasks == [task_id]
    assert desk.scheduler.inbox.unread() == []
    assert due(desk, task_id, 10) == BOTH
    assert desk.runs(task_id) == {9: CANCELLED, 10: WAITING}
    sound(desk)


def test_a_hard_deadline_ends_both(desk: Desk) -> None:
    task_id = payroll(desk, deadline="5 min", deadline_type="hard")
    assert due(desk, task_id, 9) == BOTH
    desk.clock.at = at(9, 6)
    desk.expire()
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: SCHEDULED}
    assert send(desk, "e1") == 0
    assert not [each for each in desk.scheduler.inbox.unread() if each.state is WAITING]
    sound(desk)


def test_a_run_that_failed_is_followed_by_one_that_asks_and_waits(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    send(desk, "e1")
    desk.scheduler.approve(task_id)
    desk.end(desk.start(9, 1), Failed("no money"))
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.act(task_id, "run_now")
    assert due(desk, task_id, 10) == BOTH
    sound(desk)


def test_a_series_that_asks_may_wait_for_an_event_later_and_the_other_way_round(desk: Desk) -> None:
    task_id = payroll(desk, wait_for=None)
    assert due(desk, task_id, 9) == ASKED
    desk.clock.at = at(9, 1)
    desk.scheduler.reschedule(task_id, wait_for={"event": "ready", "timeout": "20 min"})
    assert due(desk, task_id, 9, 1) == BOTH
    assert (asked_until(desk, task_id), awaited_until(desk, task_id)) == (at(9, 10), at(9, 20))
    desk.scheduler.reschedule(task_id, remove=["wait_for"])
    assert due(desk, task_id, 9, 2) == ASKED
    desk.scheduler.approve(task_id)
    assert starts(desk, 9, 3) == [9]
    sound(desk)


def test_another_event_is_awaited_by_a_run_that_waits_and_a_yes_to_it_stays(desk: Desk) -> None:
    task_id = payroll(desk)
    assert due(desk, task_id, 9) == BOTH
    desk.scheduler.approve(task_id)
    desk.scheduler.reschedule(task_id, wait_for={"event": "other", "timeout": "20 min"})
    assert due(desk, task_id, 9, 1) == AWAITED
    assert send(desk, "e1") == 0
    assert desk.scheduler.signals.send("other").freed == 1
    assert starts(desk, 9, 2) == [9]
    sound(desk)


def test_one_run_at_a_time_asks_and_waits(desk: Desk) -> None:
    with pytest.raises(DuetimeError, match="one question at a time"):
        payroll(desk, repeat_policy={"overlap": "allow_all"})


def test_it_says_before_it_is_due_that_it_will_ask_and_wait(desk: Desk) -> None:
    task_id = payroll(desk)
    said = "then it asks the user, and waits for the event 'ready', for 20 min at most, then it expires"
    assert desk.scheduler.explain(task_id)[1] == (f"its time: Mon 23 Nov 2026 09:00 UTC (in 1 h); {said}",)


@pytest.mark.parametrize("waits", [True, False])
def test_a_question_that_is_added_to_a_series_is_asked_before_each_run_from_now_on(desk: Desk, *, waits: bool) -> None:
    task_id = payroll(desk, approval=None, **({} if waits else {"wait_for": None}))
    assert desk.start(9) == [] if waits else len(desk.store.claims.make_ready(limit=9)) == 0
    desk.clock.at = at(9, 1)
    undo = desk.scheduler.reschedule(task_id, approval={"question": "Pay?", "by": "10 min"}).undo
    assert due(desk, task_id, 9, 1) == (BOTH if waits else ASKED)
    assert asked_until(desk, task_id) == at(9, 11), "it counts from when it is asked"
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert open_waits(desk, task_id) == NOTHING
    if waits:
        assert due(desk, task_id, 9, 1) == AWAITED
        assert send(desk, "e1") == 1
    assert starts(desk, 9, 2) == [9], "nothing is asked any more"
    sound(desk)


def test_a_question_that_is_added_while_a_run_goes_is_asked_before_the_next_one(desk: Desk) -> None:
    task_id = payroll(desk, approval=None, wait_for=None)
    claims = desk.start(9)
    desk.scheduler.reschedule(task_id, approval={"question": "Pay?"})
    desk.end_anew(claims, Done("paid"))
    assert due(desk, task_id, 10) == ASKED
    with pytest.raises(Refused, match="has its question already, which only the user answers"):
        desk.scheduler.reschedule(task_id, approval={"question": "Other?"})
    desk.scheduler.reject(task_id)
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: SKIPPED, 11: SCHEDULED}
    sound(desk)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("comes", [True, False])
def test_the_history_says_how_a_wait_ended_while_the_question_stays_open(
    desk: Desk, *, comes: bool, repeats: bool
) -> None:
    wait = {"event": "ready", "timeout": "65 min", "on_timeout": "run"}
    task_id = payroll(desk, on_timeout="run", timeout="5 min")
    if not repeats:
        task_id = desk.scheduler.schedule("Payroll", when="10:00", approval="Pay?", wait_for=wait).record.task.id
    desk.nothing_due(9)
    if comes:
        send(desk, "e1")
    desk.clock.at = at(9, 6)
    desk.store.signals.end_late(limit=9)
    assert open_waits(desk, task_id) == ASKED
    found = desk.store.history.events(TENANT, EventFilter(task_id=task_id, kind=EventKind.WAIT_ENDED), limit=9).events
    said = "the event 'ready' came (e1)" if comes else "no event 'ready' came in time"
    assert [(event.reason, event.run_id) for event in found] == [(said, current(desk, task_id).id)]
