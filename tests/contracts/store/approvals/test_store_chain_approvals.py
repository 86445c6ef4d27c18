"""Chains that recur and ask: each generation asks again, a no leaves out that generation alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.actions import change_token
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView
from duetime.widgets.payload import task_payload

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

BOB = Principal("local", "bob")
FIRST, LAST = {"name": "fetch"}, {"name": "mail", "after": ["fetch"]}
ASKING_LAST = {**LAST, "approval": {"question": "Mail it?", "by": "10 min"}}
SCHEDULED, WAITING, SKIPPED = State.SCHEDULED, State.WAITING, State.SKIPPED


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def report(desk: Desk, *steps: Any, **more: Any) -> str:
    """Schedule an hourly chain of two steps, which asks before each generation; its first one is due at 9."""
    asks: Any = {"approval": {"question": "Report?"}} if not steps else {}
    asked: list[StepArguments] = list(steps) or [FIRST, LAST]  # type: ignore[list-item]  # plain
    view = desk.scheduler.schedule("Report", repeat="every hour at :00", steps=asked, **{**asks, **more})
    return view.record.task.id


def states(desk: Desk, chain_id: str) -> list[State]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def step(desk: Desk, chain_id: str, name: str) -> str:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return next(each.task_id for each in chain.steps if each.name == name)


def questions(desk: Desk) -> list[str]:
    return [message.text for message in desk.scheduler.inbox.unread() if message.state is WAITING]


def ended(desk: Desk, claims: list[Claim]) -> list[str]:
    """End what has started; return the titles of the steps."""
    desk.end(claims)
    return [claim.task.title for claim in claims]


def due(view: TaskView) -> tuple[int, int]:
    return view.record.run.scheduled_for.hour, view.record.run.number


def sound(desk: Desk) -> None:
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0


@on_each_database
def test_each_generation_asks_when_it_is_due_and_goes_when_it_is_approved_as_a_whole(desk: Desk) -> None:
    chain_id = report(desk, FIRST, {"name": "look"}, {**LAST, "after": ["fetch", "look"]}, approval="Report?")
    for hour in (9, 10, 11):
        assert (states(desk, chain_id), questions(desk)) == ([SCHEDULED, SCHEDULED, WAITING], [])
        assert desk.start(hour) == [], "nothing goes that was not approved"
        assert (states(desk, chain_id), questions(desk)) == ([WAITING] * 3, ["Report?"] * 2)
        assert desk.store.claims.next_times().wake_at is None, "it holds nothing, and no timer looks at it"
        desk.clock.at = at(hour, 5)
        view = desk.scheduler.approve(chain_id, by=BOB, reason="checked")
        assert (view.waiting_for, states(desk, chain_id), questions(desk)) == ((), [SCHEDULED, SCHEDULED, WAITING], [])
        first = desk.start(hour, 5)
        assert [claim.run.scheduled_for for claim in first] == [at(hour)] * 2, "they keep their time"
        assert len(ended(desk, first)) == 2
        assert ended(desk, desk.start(hour, 6)) == ["Report: mail"]
        assert due(desk.scheduler.get(chain_id)) == (hour + 1, hour - 7)
        desk.scheduler.inbox_changes.mark_read()
    told = desk.scheduler.past.events(
        EventFilter(task_id=step(desk, chain_id, "fetch"), kind=EventKind.APPROVED)
    ).events
    assert [(event.actor, event.reason) for event in told] == [("bob", "checked")] * 3
    sound(desk)


def test_a_step_that_is_run_now_goes_on_by_its_yes_although_the_step_before_it_is_still_to_come(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST)
    mail = step(desk, chain_id, "mail")
    desk.scheduler.act(mail, "run_now")
    desk.nothing_due(8)
    assert questions(desk) == ["Mail it?"]
    desk.scheduler.approve(mail)
    assert ended(desk, desk.start(8, 1)) == ["Report: mail"]
    assert ended(desk, desk.start(9)) == ["Report: fetch"]
    assert due(desk.scheduler.get(chain_id)) == (10, 2)
    sound(desk)


def test_a_step_that_was_run_now_and_ended_with_the_one_before_it_asks_again_when_its_turn_comes(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST)
    fetch, mail = step(desk, chain_id, "fetch"), step(desk, chain_id, "mail")
    desk.scheduler.act(mail, "run_now")
    desk.nothing_due(8)
    cancelled = desk.scheduler.cancel(fetch)
    desk.scheduler.act(fetch, "undo", undo=cancelled.undo)
    assert (states(desk, chain_id), questions(desk)) == ([SCHEDULED, WAITING], [])
    assert ended(desk, desk.start(9)) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    assert questions(desk) == ["Mail it?"]
    sound(desk)


def test_a_no_skips_that_generation_alone_and_uses_up_no_number(desk: Desk) -> None:
    chain_id = report(desk, max_runs=1)
    for hour in (9, 10):
        assert desk.start(hour) == []
        view = desk.scheduler.reject(chain_id, by=BOB, reason="no money")
        assert (view.record.run.state, due(view)) == (SCHEDULED, (hour + 1, 1))
        assert view.warnings == ("this generation was skipped, which cannot be undone; the chain goes on",)
        assert (states(desk, chain_id), questions(desk)) == ([SCHEDULED, WAITING], [])
        assert desk.scheduler.reject(chain_id, by=BOB).record.run.scheduled_for == at(hour + 1), "the same click twice"
    assert desk.runs(step(desk, chain_id, "fetch")) == {9: SKIPPED, 10: SKIPPED, 11: SCHEDULED}
    assert desk.runs(step(desk, chain_id, "mail")) == {9: SKIPPED, 10: SKIPPED, 11: WAITING}
    assert desk.start(11) == []
    desk.scheduler.approve(chain_id)
    for _ in "ab":
        ended(desk, desk.start(11, 1))
    assert states(desk, chain_id) == [State.SUCCEEDED] * 2, "one that has run is enough"
    sound(desk)


def test_a_no_to_the_last_generation_ends_the_chain_as_skipped(desk: Desk) -> None:
    chain_id = report(desk, until=at(9, 30))
    assert desk.start(9) == []
    view = desk.scheduler.reject(chain_id)
    assert (states(desk, chain_id), view.warnings) == ([SKIPPED, SKIPPED], ())
    sound(desk)


@pytest.mark.parametrize("default", ["approve", "reject"])
def test_the_default_decides_about_each_generation_at_its_own_deadline(desk: Desk, default: str) -> None:
    asks: Any = {"question": "Report?", "by": "10 min", "default": default}
    chain_id = report(desk, FIRST, LAST, approval=asks)
    for hour in (9, 10):
        assert desk.start(hour) == []
        then = "it goes" if default == "approve" else "else this run is skipped"
        [waits] = desk.scheduler.get(chain_id).waiting_for
        assert waits.startswith(f"approval of «Report?» by the user until Mon 23 Nov 2026 {hour:02}:10 (in 10 min), ")
        assert then.removeprefix("it ") in waits
        desk.clock.at = at(hour, 9)
        assert desk.store.approvals.expire(limit=9) == []
        desk.clock.at = at(hour, 10)
        assert desk.store.approvals.expire(limit=9) == [step(desk, chain_id, "fetch")]
        if default == "approve":
            assert [ended(desk, desk.start(hour, 10)) for _ in "ab"] == [["Report: fetch"], ["Report: mail"]]
        else:
            said = f"it did not run: nobody answered until Mon 23 Nov 2026 {hour:02}:10 UTC"
            assert [(each.text, each.state) for each in desk.scheduler.inbox.unread()] == [(said, SKIPPED)]
        desk.scheduler.inbox_changes.mark_read()
        assert due(desk.scheduler.get(chain_id))[0] == hour + 1
    sound(desk)


def test_a_step_asks_when_its_turn_comes_in_each_generation(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST)
    for hour in (9, 10):
        assert ended(desk, desk.start(hour)) == ["Report: fetch"]
        assert desk.start(hour, 2) == []
        [waits] = desk.scheduler.get(chain_id).waiting_for
        assert "«Mail it?»" in waits
        assert f"{hour:02}:12" in waits, "by is counted from when it was asked"
        desk.clock.at = at(hour, 5)
        desk.scheduler.approve(chain_id)
        assert ended(desk, desk.start(hour, 5)) == ["Report: mail"]
        assert due(desk.scheduler.get(chain_id)) == (hour + 1, hour - 7)
    sound(desk)


def test_a_generation_of_which_one_step_ran_and_another_was_rejected_was_no_skipped_one(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST)
    ended(desk, desk.start(9))
    assert desk.start(9, 2) == []
    desk.clock.at = at(9, 5)
    desk.scheduler.reject(chain_id)
    last = task_payload(desk.scheduler.get(chain_id)).last_run
    assert last
    assert last.state is State.SUCCEEDED


def test_a_generation_of_which_every_step_was_rejected_was_skipped(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST, approval={"question": "Report?"})
    for hour in (9, 10):
        assert desk.start(hour) == []
        desk.scheduler.reject(chain_id)
        last = task_payload(desk.scheduler.get(chain_id)).last_run
        assert last
        assert last.state is SKIPPED


def test_a_no_to_a_later_step_ends_a_generation_that_counts(desk: Desk) -> None:
    chain_id = report(desk, FIRST, ASKING_LAST, max_runs=2)
    ended(desk, desk.start(9))
    assert desk.start(9, 2) == []
    assert due(desk.scheduler.reject(chain_id)) == (10, 2)
    sound(desk)


def test_an_occurrence_that_falls_due_while_a_question_is_open_is_left_out(desk: Desk) -> None:
    chain_id = report(desk)
    for minute in (9 * 60, 10 * 60 + 30, 11 * 60 + 30):
        assert desk.start(*divmod(minute, 60)) == []
        assert questions(desk) == ["Report?"], "the question of 9 is still the only one"
    assert due(desk.scheduler.reject(chain_id))[0] == 12
    sound(desk)


def test_two_questions_of_one_chain_are_answered_by_step_and_a_no_leaves_the_other_branch_alone(desk: Desk) -> None:
    steps = ({"name": "a", "approval": "Go a?"}, {"name": "b", "approval": "Go b?"}, {"name": "c", "after": ["a"]})
    chain_id = report(desk, *steps)
    assert desk.start(9) == []
    with pytest.raises(Refused, match="more than one question"):
        desk.scheduler.approve(chain_id)
    desk.scheduler.reject(step(desk, chain_id, "a"))
    assert states(desk, chain_id) == [SKIPPED, WAITING, SKIPPED]
    desk.scheduler.approve(step(desk, chain_id, "b"))
    assert ended(desk, desk.start(9, 1)) == ["Report: b"]
    assert due(desk.scheduler.get(chain_id)) == (10, 2)
    sound(desk)


def test_a_cancel_withdraws_the_question_and_ends_the_series_and_its_undo_asks_again(desk: Desk) -> None:
    chain_id = report(desk, FIRST, LAST, approval={"question": "Report?", "by": "10 min"})
    assert desk.start(9) == []
    desk.clock.at = at(9, 1)
    undo = desk.scheduler.cancel(chain_id).undo
    assert (states(desk, chain_id), questions(desk)) == ([State.CANCELLED] * 2, [])
    desk.scheduler.act(chain_id, "undo", undo=undo)
    assert (states(desk, chain_id), questions(desk)) == ([WAITING, WAITING], ["Report?"])
    desk.scheduler.approve(chain_id)
    assert [ended(desk, desk.start(9, 2)) for _ in "ab"] == [["Report: fetch"], ["Report: mail"]]
    assert due(desk.scheduler.get(chain_id)) == (10, 2)
    sound(desk)


def test_a_pause_holds_the_question_and_a_paused_chain_asks_nothing(desk: Desk) -> None:
    chain_id = report(desk, FIRST, LAST, approval={"question": "Report?", "by": "10 min"})
    desk.scheduler.reschedule(chain_id, pause=True)
    assert (desk.start(9), questions(desk)) == ([], [])
    desk.scheduler.reschedule(chain_id, pause=False)
    assert (desk.start(9, 1), questions(desk)) == ([], ["Report?"])
    desk.scheduler.reschedule(chain_id, pause=True)
    desk.clock.at = at(9, 30)
    assert desk.store.approvals.expire(limit=9) == [], "nobody decides during a pause"
    desk.scheduler.approve(chain_id)
    assert desk.start(9, 31) == []
    desk.scheduler.reschedule(chain_id, pause=False)
    assert ended(desk, desk.start(9, 32)) == ["Report: fetch"]
    sound(desk)


@pytest.mark.parametrize("steps", [(), ({**FIRST, "approval": {"question": "Report?", "by": "4 s"}}, LAST)])
def test_the_undo_of_a_move_after_which_it_was_asked_for_withdraws_the_question(
    desk: Desk, steps: tuple[Any, ...]
) -> None:
    chain_id = report(desk, *steps)
    token = desk.scheduler.reschedule(chain_id, when="now").undo
    assert desk.start(8) == []
    assert questions(desk) == ["Report?"]
    assert token is not None
    desk.scheduler.bulk.change("undo", undo=token)
    assert (states(desk, chain_id), questions(desk)) == ([SCHEDULED, WAITING], [])
    desk.clock.at = at(8, 10)
    assert desk.store.approvals.expire(limit=9) == []
    assert desk.start(8, 59) == []
    assert questions(desk) == []
    assert desk.start(9) == []
    assert questions(desk) == ["Report?"], "the generation of 9 is not lost"
    sound(desk)


def test_the_move_of_a_generation_that_was_asked_for_withdraws_the_question_and_its_undo_asks_again(desk: Desk) -> None:
    chain_id = report(desk, {**FIRST, "approval": {"question": "Report?", "by": "10 min"}}, LAST)
    assert desk.start(9) == []
    for _ in range(2):
        assert questions(desk) == ["Report?"]
        moved = desk.scheduler.reschedule(chain_id, when="at 9:40")
        assert "fetch: its question is withdrawn; it asks again Mon 23 Nov 2026 09:40" in moved.warnings
        assert (states(desk, chain_id), questions(desk)) == ([SCHEDULED, WAITING], [])
        desk.scheduler.act(chain_id, "undo", undo=moved.undo)
        assert states(desk, chain_id) == [WAITING, WAITING]
    desk.scheduler.reschedule(chain_id, when="at 9:40")
    desk.clock.at = at(9, 39)
    assert desk.store.approvals.expire(limit=9) == []
    assert desk.start(9, 40) == []
    assert questions(desk) == ["Report?"]
    sound(desk)


def test_nothing_runs_around_the_question(desk: Desk) -> None:
    chain_id = report(desk)
    fetch = step(desk, chain_id, "fetch")
    desk.scheduler.act(fetch, "run_now")
    assert (desk.start(8, 1), questions(desk)) == ([], ["Report?"]), "it is asked for now"
    with pytest.raises(Refused, match="needs an approval first"):
        desk.scheduler.act(fetch, "run_now")
    desk.scheduler.reject(chain_id)
    assert due(desk.scheduler.get(chain_id))[0] == 9 or due(desk.scheduler.get(chain_id))[0] == 10
    sound(desk)


def test_a_hard_deadline_counts_from_its_time_and_ends_the_question(desk: Desk) -> None:
    steps = ({**FIRST, "deadline": "30 min", "deadline_type": "hard", "approval": "Report?"}, LAST)
    chain_id = report(desk, *steps)
    assert desk.start(9) == []
    desk.clock.at = at(9, 31)
    desk.expire()
    assert desk.runs(step(desk, chain_id, "fetch")) == {9: State.EXPIRED, 10: SCHEDULED}
    assert questions(desk) == []
    sound(desk)


@pytest.mark.parametrize("by", ["17:00", "tomorrow"])
def test_an_instant_is_no_end_for_the_questions_of_many_generations(desk: Desk, by: str) -> None:
    with pytest.raises(DuetimeError, match=r"approval\.by: a task that repeats asks before each"):
        report(desk, FIRST, LAST, approval={"by": by})
    with pytest.raises(DuetimeError, match=r"steps\.fetch\.approval\.by: a task that repeats asks before each"):
        report(desk, {**FIRST, "approval": {"by": by}}, LAST)


def test_it_says_what_it_will_ask_before_it_is_due(desk: Desk) -> None:
    chain_id = report(desk)
    assert desk.scheduler.explain(chain_id)[1] == [
        "fetch: its time: Mon 23 Nov 2026 09:00 UTC (in 1 h); then it asks the user"
    ]
    assert desk.scheduler.get(chain_id).record.run.scheduled_for - MORNING == timedelta(hours=1)


@pytest.mark.parametrize("whole", [True, False])
def test_an_undo_of_a_no_to_a_step_of_a_series_is_refused_since_its_generation_is_over(desk: Desk, whole: bool) -> None:
    chain_id = report(desk) if whole else report(desk, FIRST, ASKING_LAST)
    if not whole:
        desk.end(desk.start(9))
    asked = step(desk, chain_id, "fetch" if whole else "mail")
    desk.nothing_due(9, 1)
    rejected = desk.scheduler.reject(chain_id if whole else asked)
    assert rejected.undo is None
    before = desk.store.tasks.get("local", asked)
    for token in (None, change_token(before.task)):
        with pytest.raises(Refused) as refused:
            desk.scheduler.act(asked, "undo", undo=token)
        assert "A no to a step of a chain that recurs cannot be undone." in str(refused.value)
    assert desk.store.tasks.get("local", asked) == before
    sound(desk)


def test_a_chain_names_what_a_later_step_asks_already_with_its_limit(desk: Desk) -> None:
    asks = {"question": "Publish?", "by": "2 minutes"}
    steps: Any = [
        {"name": "a", "approval": {"question": "Pay?", "by": "5 minutes"}},
        {"name": "b", "after": ["a"], "approval": asks},
    ]
    chain_id = desk.scheduler.schedule("Report", when="in 1 hour", steps=steps).record.task.id
    view = desk.scheduler.get(chain_id)
    assert [(each.title, each.until and each.until - view.now) for each in view.waits] == [
        ("Pay?", timedelta(minutes=5)),
        ("Publish?", timedelta(minutes=2)),
    ]
    _, reasons = desk.scheduler.explain(chain_id)
    assert reasons[-1].startswith("b: approval of «Publish?» by the user until ")


def test_a_rejected_generation_is_the_last_run_of_its_chain_and_of_the_step_that_asked(desk: Desk) -> None:
    chain_id = report(desk)
    for hour, last in ((9, SKIPPED), (10, State.SUCCEEDED), (11, SKIPPED)):
        desk.nothing_due(hour)
        if last is SKIPPED:
            desk.scheduler.reject(chain_id, by=BOB, reason="no rows")
        else:
            desk.scheduler.approve(chain_id, by=BOB)
            for _ in ("fetch", "mail"):
                desk.end(desk.start(hour, 1))
        for shown in (chain_id, step(desk, chain_id, "fetch")):
            found = task_payload(desk.scheduler.get(shown)).last_run
            said = (found.state, found.summary) if found else None
            ended = (last, "imported" if shown != chain_id else None)
            assert said == ((last, "bob rejected it: no rows") if last is SKIPPED else ended)


def test_a_chain_shows_the_step_that_failed_and_not_the_one_that_was_skipped_for_it(desk: Desk) -> None:
    chain_id = report(desk, FIRST, {**ASKING_LAST, "after_failure": "skip"})
    desk.nothing_due(8, 30)
    desk.end(desk.start(9), Failed("no rows"))
    assert due(desk.scheduler.get(chain_id)) == (10, 2)
    found = task_payload(desk.scheduler.get(chain_id)).last_run
    assert found
    assert (found.state, found.summary) == (State.FAILED, "fetch failed: no rows")


def test_a_step_that_is_run_again_asks_at_once_and_when_it_is_moved_at_its_new_time(desk: Desk) -> None:
    chain_id = report(desk, {**FIRST, "approval": {"question": "Fetch?", "by": "30 min"}}, LAST)
    fetch = step(desk, chain_id, "fetch")
    desk.nothing_due(9)
    desk.scheduler.approve(fetch, by=BOB)
    desk.end(desk.start(9, 1))
    assert [claim.task.title for claim in desk.start(9, 2)] == ["Report: mail"]
    desk.scheduler.inbox_changes.mark_read()
    assert (desk.scheduler.reschedule(fetch, when="now").record.run.state, questions(desk)) == (WAITING, ["Fetch?"])
    view = desk.scheduler.reschedule(fetch, when="9:40")
    assert (view.record.run.state, questions(desk)) == (SCHEDULED, [])
    assert "its question is withdrawn; it asks again Mon 23 Nov 2026 09:40" in view.warnings
    desk.nothing_due(9, 40)
    assert questions(desk) == ["Fetch?"]
    desk.scheduler.approve(fetch, by=BOB)
    assert [claim.run.scheduled_for for claim in desk.start(9, 45)] == [at(9, 40)]
    sound(desk)
