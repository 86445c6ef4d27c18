"""Approvals of recurring tasks: each occurrence asks when it is due, and has its own answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

APPROVE, REJECT = ApprovalAnswer
TENANT = "local"
BOB = Principal(TENANT, "bob")


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def payroll(desk: Desk, *, by: str | None = None, default: str = "reject", **more: Any) -> str:
    """Schedule an hourly task that asks before each run; its first one is due at 9."""
    asks: Any = {"question": "Pay?", "default": default} | ({"by": by} if by else {})
    return desk.scheduler.schedule("Payroll", repeat="every hour at :00", approval=asks, **more).record.task.id


def asked(desk: Desk, hour: int, minute: int = 0) -> bool:
    """Look for due runs at a time, and return whether something is asked."""
    assert desk.start(hour, minute) == [], "nothing goes that was not approved"
    return any(message.state is State.WAITING for message in desk.scheduler.inbox.unread())


def answer(desk: Desk, task_id: str, given: ApprovalAnswer, **more: Any) -> TaskView:
    verb = desk.scheduler.approve if given is APPROVE else desk.scheduler.reject
    return verb(task_id, by=BOB, **more)


def told(desk: Desk, task_id: str, kind: EventKind) -> list[Event]:
    return list(reversed(desk.scheduler.past.events(EventFilter(task_id=task_id, kind=kind)).events))


def reasons(desk: Desk, task_id: str, kind: EventKind) -> list[str | None]:
    return [event.reason for event in told(desk, task_id, kind)]


def state(desk: Desk, task_id: str) -> State:
    return desk.scheduler.get(task_id).record.run.state


def sound(desk: Desk) -> None:
    assert_sound(desk.store)


def test_each_occurrence_asks_when_it_is_due_and_runs_when_it_is_approved(desk: Desk) -> None:
    task_id = payroll(desk)
    assert (state(desk, task_id), asked(desk, 8, 59)) == (State.SCHEDULED, False)
    for hour in (9, 10):
        assert asked(desk, hour), hour
        assert state(desk, task_id) is State.WAITING
        assert desk.store.claims.next_times().wake_at is None, "it holds nothing, and no timer looks at it"
        desk.clock.at = at(hour, 5)
        assert answer(desk, task_id, APPROVE, reason="checked").record.run.state is State.SCHEDULED
        [claim] = desk.start(hour, 5)
        assert (claim.run.scheduled_for, claim.run.number) == (at(hour), hour - 8), "it keeps its place in the series"
        desk.end([claim])
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SUCCEEDED, 11: State.SCHEDULED}
    approved = told(desk, task_id, EventKind.APPROVED)
    assert [(event.actor, event.reason) for event in approved] == [("bob", "checked")] * 2
    assert len({event.run_id for event in approved}) == 2, "who decided is in the history of each run"
    assert [event.to_state for event in told(desk, task_id, EventKind.ASKED)] == [State.WAITING] * 2
    sound(desk)


def test_a_no_skips_the_occurrence_and_the_series_goes_on(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    view = answer(desk, task_id, REJECT, reason="no money")
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SCHEDULED}
    assert view.record.run.scheduled_for == at(10)
    [rejected] = told(desk, task_id, EventKind.REJECTED)
    assert (rejected.actor, rejected.reason, rejected.to_state) == ("bob", "no money", State.SKIPPED)
    assert not asked(desk, 9, 30), "the inbox has no question any more"
    assert asked(desk, 10)
    sound(desk)


def test_the_same_no_once_more_changes_nothing_and_a_yes_after_it_is_refused(desk: Desk) -> None:
    task_id = payroll(desk)
    with pytest.raises(Refused, match="is not waiting for approval"):
        answer(desk, task_id, REJECT)
    assert asked(desk, 9)
    stands = answer(desk, task_id, REJECT).record
    assert answer(desk, task_id, REJECT).record == stands
    with pytest.raises(Refused, match="is not waiting for approval"):
        answer(desk, task_id, APPROVE)
    desk.clock.at = at(9, 30)
    with pytest.raises(Refused, match="is not waiting for approval"):
        answer(desk, task_id, REJECT)


def test_a_rejected_occurrence_uses_up_no_number_and_the_last_one_ends_the_task(desk: Desk) -> None:
    task_id = payroll(desk, max_runs=1, until=at(10, 30))
    assert asked(desk, 9)
    answer(desk, task_id, REJECT)
    assert asked(desk, 10), "none has run yet"
    answer(desk, task_id, REJECT)
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.CANCELLED}
    sound(desk)


@pytest.mark.parametrize(("default", "follows"), [("approve", State.SCHEDULED), ("reject", State.SKIPPED)])
def test_the_default_decides_about_each_occurrence_at_its_own_deadline(
    desk: Desk, default: str, follows: State
) -> None:
    task_id = payroll(desk, by="10 min", default=default)
    for hour in (9, 10):
        assert asked(desk, hour)
        desk.clock.at = at(hour, 9)
        assert desk.store.approvals.expire(limit=9) == []
        desk.clock.at = at(hour, 10)
        assert desk.store.approvals.expire(limit=9) == [task_id]
        assert desk.runs(task_id)[hour] is follows
        messages = [message.text for message in desk.scheduler.inbox.unread()]
        if follows is State.SKIPPED:
            said = f"nobody answered until Mon 23 Nov 2026 {hour:02}:10 UTC"
            assert messages[0] == f"it did not run: {said}"
            assert told(desk, task_id, EventKind.REJECTED)[-1].actor == "duetime"
            desk.scheduler.inbox_changes.mark_read(task_id=task_id)
        else:
            assert messages == []
            desk.end(desk.start(hour, 10))
            desk.scheduler.inbox_changes.mark_read(task_id=task_id)
    sound(desk)


def test_a_task_that_notifies_nobody_still_asks_and_reports_no_default(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min", notify="never")
    assert asked(desk, 9)
    desk.clock.at = at(9, 10)
    assert desk.store.approvals.expire(limit=9) == [task_id]
    assert desk.scheduler.inbox.unread() == []


def test_an_occurrence_that_falls_due_while_a_question_is_open_is_skipped_and_says_so(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    assert asked(desk, 10, 30), "the question of 9 is still the only one"
    assert len(desk.scheduler.inbox.unread()) == 1
    desk.clock.at = at(10, 40)
    run_id = desk.scheduler.get(task_id).record.run.id
    answer(desk, task_id, REJECT)
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SKIPPED, 11: State.SCHEDULED}
    assert reasons(desk, task_id, EventKind.SKIPPED) == [f"run {run_id} waited for an answer"]
    sound(desk)


def test_a_late_yes_runs_it_and_the_occurrences_since_are_skipped_at_its_end(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    desk.clock.at = at(10, 40)
    run_id = answer(desk, task_id, APPROVE).record.run.id
    desk.end(desk.start(10, 40))
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SKIPPED, 11: State.SCHEDULED}
    assert reasons(desk, task_id, EventKind.SKIPPED) == [f"run {run_id} was still open"]
    sound(desk)


def test_a_buffered_occurrence_asks_when_the_one_before_it_is_answered(desk: Desk) -> None:
    task_id = payroll(desk, repeat_policy={"overlap": "buffer_one"})
    assert asked(desk, 9)
    desk.clock.at = at(10, 40)
    answer(desk, task_id, REJECT)
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SCHEDULED}
    assert asked(desk, 10, 40)
    sound(desk)


def test_the_next_occurrence_takes_the_place_of_an_open_question_where_the_policy_says_so(desk: Desk) -> None:
    task_id = payroll(desk, repeat_policy={"overlap": "cancel_other"})
    assert asked(desk, 9)
    desk.clock.at = at(10)
    assert desk.store.series.overtake(limit=9).tasks == [task_id]
    assert desk.scheduler.inbox.unread() == [], "the old question is withdrawn"
    assert asked(desk, 10)
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.WAITING}
    sound(desk)


def test_a_series_asks_one_question_at_a_time(desk: Desk) -> None:
    with pytest.raises(DuetimeError, match="asks before each run"):
        payroll(desk, repeat_policy={"overlap": "allow_all"})
    task_id = payroll(desk)
    with pytest.raises(DuetimeError, match="asks before each run"):
        desk.scheduler.reschedule(task_id, repeat_policy={"overlap": "allow_all"})


def test_a_cancel_closes_the_question_and_its_undo_asks_it_again(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min")
    assert asked(desk, 9)
    desk.clock.at = at(9, 1)
    desk.scheduler.cancel(task_id)
    assert (state(desk, task_id), desk.scheduler.inbox.unread()) == (State.CANCELLED, [])
    desk.scheduler.act(task_id, "undo")
    assert (state(desk, task_id), len(desk.scheduler.inbox.unread())) == (State.WAITING, 1)
    [open_one] = desk.store.approvals.open_of(TENANT, [desk.scheduler.get(task_id).record.run.id]).values()
    assert open_one.ends_at == at(9, 10), "until the same time as before"
    answer(desk, task_id, APPROVE)
    desk.end(desk.start(9, 2))
    assert desk.scheduler.get(task_id).record.run.scheduled_for == at(10)
    sound(desk)


def test_a_yes_stands_when_a_cancel_after_it_is_undone(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    answer(desk, task_id, APPROVE)
    desk.scheduler.cancel(task_id)
    desk.scheduler.act(task_id, "undo")
    assert len(desk.start(9)) == 1


def test_an_undone_no_asks_again_for_the_same_occurrence(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min")
    assert asked(desk, 9)
    undo = answer(desk, task_id, REJECT).undo
    desk.clock.at = at(9, 0) + timedelta(seconds=20)
    view = desk.scheduler.act(task_id, "undo", undo=undo)
    assert (view.record.run.state, view.record.run.scheduled_for) == (State.WAITING, at(9))
    [open_one] = desk.store.approvals.open_of(TENANT, [view.record.run.id]).values()
    assert (open_one.question, open_one.ends_at) == ("Pay?", at(9, 10))
    assert len(desk.scheduler.inbox.unread()) == 1
    answer(desk, task_id, APPROVE)
    [claim] = desk.start(9, 1)
    assert (claim.run.scheduled_for, claim.run.number) == (at(9), 1)
    sound(desk)


def test_a_skip_of_an_open_question_withdraws_it_and_its_undo_asks_again(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    assert (desk.scheduler.inbox.unread(), desk.runs(task_id)) == ([], {9: State.SKIPPED, 10: State.SCHEDULED})
    view = desk.scheduler.act(task_id, "undo", undo=undo)
    assert (view.record.run.state, len(desk.scheduler.inbox.unread())) == (State.WAITING, 1)
    sound(desk)


def test_a_skip_of_what_was_approved_keeps_its_yes_when_it_is_undone(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    answer(desk, task_id, APPROVE)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert [claim.run.scheduled_for for claim in desk.start(9)] == [at(9)]


def test_a_move_of_what_was_approved_keeps_its_yes_when_it_is_undone(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    answer(desk, task_id, APPROVE)
    undo = desk.scheduler.reschedule(task_id, when="at 9:30").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert [claim.run.scheduled_for for claim in desk.start(9)] == [at(9)]


def test_an_undone_move_keeps_the_yes_also_of_what_was_skipped_once_and_came_back(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    answer(desk, task_id, APPROVE)
    undo = desk.scheduler.reschedule(task_id, when="at 9:30").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert [claim.run.scheduled_for for claim in desk.start(9)] == [at(9)]


def test_an_undone_no_asks_again_also_where_the_next_run_is_approved_already(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    desk.clock.at = at(9, 59) + timedelta(seconds=55)
    undo = answer(desk, task_id, REJECT).undo
    assert asked(desk, 10)
    answer(desk, task_id, APPROVE)
    view = desk.scheduler.act(task_id, "undo", undo=undo)
    assert (view.record.run.state, view.record.run.scheduled_for) == (State.WAITING, at(9))
    assert desk.start(10) == []
    sound(desk)


def test_a_pause_holds_the_question_its_deadline_and_what_was_approved(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min")
    assert asked(desk, 9)
    desk.scheduler.reschedule(task_id, pause=True)
    desk.clock.at = at(9, 30)
    assert desk.store.approvals.expire(limit=9) == [], "nobody decides during a pause"
    assert answer(desk, task_id, APPROVE).record.run.state is State.SCHEDULED
    assert desk.start(9, 31) == []
    desk.scheduler.reschedule(task_id, pause=False)
    assert [claim.run.scheduled_for for claim in desk.start(9, 32)] == [at(9)]
    sound(desk)


def test_a_paused_series_asks_nothing_and_a_question_stays_open_over_a_pause(desk: Desk) -> None:
    task_id = payroll(desk)
    desk.scheduler.reschedule(task_id, pause=True)
    assert not asked(desk, 9)
    desk.scheduler.reschedule(task_id, pause=False)
    assert asked(desk, 10)
    desk.scheduler.reschedule(task_id, pause=True)
    desk.scheduler.reschedule(task_id, pause=False)
    assert (state(desk, task_id), len(desk.scheduler.inbox.unread())) == (State.WAITING, 1)
    sound(desk)


@on_each_database
def test_nothing_runs_around_the_question_of_a_series(desk: Desk) -> None:
    task_id = payroll(desk)
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.act(task_id, "run_now")
    assert asked(desk, 9)
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.act(task_id, "run_now")
    answer(desk, task_id, APPROVE)
    desk.end(desk.start(9), Failed("no bank"))
    with pytest.raises(Refused, match="asks before each of its runs"):
        desk.scheduler.act(task_id, "snooze", minutes=5)


def test_a_bulk_replay_refuses_a_series_that_asks_and_changes_the_others(desk: Desk) -> None:
    asking, other = payroll(desk), desk.hourly()
    desk.end(desk.start(9), Failed("no bank"))
    answer(desk, asking, APPROVE)
    desk.end(desk.start(9, 1), Failed("no bank"))
    found = desk.scheduler.bulk.change("replay", [asking, other])
    became = {each.record.task.id: each.why or each.became for each in found.outcomes}
    assert "asks before each of its runs" in became[asking]
    assert became[other] is Became.CHANGED


def test_a_fire_address_starts_nothing_of_a_series_that_asks(desk: Desk) -> None:
    task_id = payroll(desk)
    made = desk.scheduler.addresses.make(task_id)
    address = desk.scheduler.addresses.find(made.path.rpartition("/")[2])
    for ask in (False, True):
        assert asked(desk, 9) if ask else True
        with pytest.raises(Refused, match="asks before each of its runs"):
            desk.scheduler.addresses.fire(address, {})
    assert desk.scheduler.get(task_id).record.side_runs == ()
    sound(desk)


def test_a_pause_that_ends_by_itself_lets_go_what_was_approved_and_keeps_what_asks(desk: Desk) -> None:
    for given in (APPROVE, None):
        task_id = payroll(desk)
        assert asked(desk, 9)
        desk.scheduler.reschedule(task_id, pause_until="at 9:30")
        if given:
            answer(desk, task_id, given)
        desk.clock.at = at(9, 30)
        desk.store.series.end_pauses(limit=9)
        assert [claim.run.scheduled_for for claim in desk.start(9, 30)] == ([at(9)] if given else [])
        assert state(desk, task_id) is (State.RUNNING if given else State.WAITING)
        desk.clock.at = MORNING


WITHDRAWN = "its question is withdrawn; it asks again Mon 23 Nov 2026 09:40"


@pytest.mark.parametrize("by_snooze", [False, True])
@pytest.mark.parametrize("default", ["approve", "reject"])
def test_a_moved_occurrence_asks_at_its_new_time_also_where_it_was_asked_for_before(
    desk: Desk, default: str, *, by_snooze: bool
) -> None:
    task_id = payroll(desk, by="10 min", default=default)
    desk.scheduler.reschedule(task_id, when="at 9:20")
    assert not asked(desk, 9)
    assert asked(desk, 9, 20)
    if by_snooze:
        view = desk.scheduler.act(task_id, "snooze", until="at 9:40")
    else:
        assert WITHDRAWN in desk.scheduler.reschedule(task_id, when="at 9:40", dry_run=True).warnings
        assert asked(desk, 9, 20), "a dry run withdraws nothing"
        view = desk.scheduler.reschedule(task_id, when="at 9:40")
    assert (view.record.run.state, view.warnings.count(WITHDRAWN)) == (State.SCHEDULED, 1)
    desk.clock.at = at(9, 39)
    assert desk.store.approvals.expire(limit=9) == [], "its old end has passed, and decides nothing"
    assert not asked(desk, 9, 39)
    assert asked(desk, 9, 40)
    desk.clock.at = at(9, 49)
    assert desk.store.approvals.expire(limit=9) == []
    answer(desk, task_id, APPROVE)
    [claim] = desk.start(9, 49)
    assert claim.run.scheduled_for == at(9, 40)
    desk.end([claim])
    assert desk.scheduler.get(task_id).record.run.scheduled_for == at(10)
    sound(desk)


def test_the_move_of_an_occurrence_that_was_approved_keeps_the_yes(desk: Desk) -> None:
    task_id = payroll(desk)
    assert asked(desk, 9)
    answer(desk, task_id, APPROVE)
    assert desk.scheduler.reschedule(task_id, when="at 9:40").record.run.state is State.SCHEDULED
    [claim] = desk.start(9, 40)
    desk.end([claim])
    sound(desk)


@pytest.mark.parametrize("of_many", [False, True])
def test_the_undo_of_a_move_after_which_it_was_asked_for_withdraws_the_question(desk: Desk, *, of_many: bool) -> None:
    task_id = payroll(desk, by="4 s")
    if of_many:
        token = desk.scheduler.bulk.change("move", [task_id], to="now").undo
    else:
        token = desk.scheduler.reschedule(task_id, when="now").undo
    assert asked(desk, 8)
    assert token is not None
    if of_many:
        desk.scheduler.bulk.change("undo", undo=token)
    else:
        desk.scheduler.act(task_id, "undo", undo=token)
    assert (state(desk, task_id), desk.scheduler.inbox.unread()) == (State.SCHEDULED, [])
    desk.clock.at = at(8, 10)
    assert desk.store.approvals.expire(limit=9) == []
    assert asked(desk, 9), "the occurrence of 9 is not lost"
    sound(desk)


@on_each_database
@pytest.mark.parametrize("to", ["at 9:30", "now"])
def test_the_undo_of_a_move_asks_again_until_the_same_time_what_the_move_withdrew(desk: Desk, to: str) -> None:
    task_id = payroll(desk, by="10 min")
    assert asked(desk, 9)
    [first] = desk.scheduler.inbox.unread()
    desk.clock.at = at(9, 1)
    token = desk.scheduler.reschedule(task_id, when=to).undo
    assert desk.scheduler.inbox.unread() == []
    assert asked(desk, 9, 1) == (to == "now")
    assert desk.scheduler.act(task_id, "undo", undo=token).record.run.state is State.WAITING
    [again] = desk.scheduler.inbox.unread()
    assert again.text == first.text
    desk.clock.at = at(9, 9)
    assert desk.store.approvals.expire(limit=9) == []
    desk.clock.at = at(9, 10)
    assert desk.store.approvals.expire(limit=9) == [task_id]
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SCHEDULED}
    sound(desk)


def test_the_undo_of_a_move_asks_again_until_the_same_time_though_it_was_approved_at_the_other_one(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min")
    assert asked(desk, 9)
    desk.clock.at = at(9, 1)
    token = desk.scheduler.reschedule(task_id, when="now").undo
    assert asked(desk, 9, 1)
    answer(desk, task_id, APPROVE)
    desk.scheduler.act(task_id, "undo", undo=token)
    desk.clock.at = at(9, 10)
    assert desk.store.approvals.expire(limit=9) == [task_id]
    sound(desk)


def test_a_hard_deadline_counts_from_its_time_and_ends_the_question(desk: Desk) -> None:
    task_id = payroll(desk, deadline="30 min", deadline_type="hard")
    assert asked(desk, 9)
    desk.clock.at = at(9, 31)
    desk.expire()
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.SCHEDULED}
    assert [message.state for message in desk.scheduler.inbox.unread()] == [State.EXPIRED]
    sound(desk)


@on_each_database
def test_a_one_shot_with_approval_that_recurs_from_now_on_asks_before_each_run(desk: Desk) -> None:
    asks: Any = {"question": "Pay?"}
    task_id = desk.scheduler.schedule("Payroll", when="at 9:00", approval=asks).record.task.id
    answer(desk, task_id, APPROVE)
    desk.scheduler.reschedule(task_id, repeat="every hour at :00")
    desk.end(desk.start(9))
    assert asked(desk, 10)
    assert state(desk, task_id) is State.WAITING


@on_each_database
def test_two_processes_that_look_at_once_ask_once(desk: Desk) -> None:
    payroll(desk)
    desk.clock.at = at(9)
    for _ in range(2):
        assert desk.store.claims.make_ready(limit=9) == []
    assert len(desk.scheduler.inbox.unread()) == 1


def test_a_watcher_of_a_task_is_notified_when_it_asks(desk: Desk) -> None:
    heard: list[str] = []
    desk.store.commits.listen(heard.extend)
    task_id = payroll(desk)
    assert asked(desk, 9)
    assert heard == [task_id]


@pytest.mark.parametrize("by", ["17:00", "2026-12-24", "tomorrow"])
def test_an_instant_is_no_end_for_many_questions(desk: Desk, by: str) -> None:
    with pytest.raises(DuetimeError, match=r"approval\.by: a task that repeats asks before each"):
        payroll(desk, by=by)


def test_a_run_that_was_approved_and_moved_runs_after_a_pause_over_its_new_time(desk: Desk) -> None:
    task_id = payroll(desk)
    desk.nothing_due(9)
    desk.scheduler.approve(task_id)
    desk.scheduler.reschedule(task_id, when="9:30")
    assert "asks the user" not in str(desk.scheduler.explain(task_id)[1])
    desk.scheduler.reschedule(task_id, pause=True)
    desk.nothing_due(9, 35)
    desk.scheduler.reschedule(task_id, pause=False)
    [claim] = desk.start(9, 40)
    assert (claim.run.scheduled_for, claim.run.number) == (at(9, 30), 1)


def test_a_question_that_comes_back_after_its_time_is_asked_for_as_long_as_at_first(desk: Desk) -> None:
    task_id = payroll(desk, by="10 min")
    desk.nothing_due(9)
    for second, until in ((0, at(9, 10)), (50, at(9, 10)), (80, at(9, 20) + timedelta(seconds=20))):
        desk.clock.at = at(9, 9) + timedelta(seconds=second - second % 30)
        desk.scheduler.cancel(task_id)
        desk.clock.at = at(9, 9) + timedelta(seconds=second)
        desk.scheduler.act(task_id, "undo")
        run_id = desk.scheduler.get(task_id).record.run.id
        [approval] = desk.store.approvals.open_of("local", [run_id]).values()
        assert approval.ends_at == until


@on_each_database
def test_the_undo_of_a_recurrence_asks_again_until_the_same_time(desk: Desk) -> None:
    asks: Any = {"question": "Pay?", "by": "2 hours"}
    task_id = desk.scheduler.schedule("Payroll", when="in 1 hour", approval=asks).record.task.id
    before = desk.scheduler.get(task_id).waiting_for
    changed = desk.scheduler.reschedule(task_id, repeat="hourly")
    assert (changed.record.run.state, desk.scheduler.inbox.unread()) == (State.SCHEDULED, [])
    desk.scheduler.act(task_id, "undo", undo=changed.undo)
    assert (state(desk, task_id), desk.scheduler.get(task_id).waiting_for) == (State.WAITING, before)
    assert [message.text for message in desk.scheduler.inbox.unread()] == ["Pay?"]
    assert not desk.start(9), "it was not approved"
    sound(desk)
