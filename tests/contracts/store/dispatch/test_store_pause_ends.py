"""Pauses that end at a time: the tasks go on by themselves, as after a resume by hand."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.tables.tasks import tasks as task_table
from duetime.scheduler.task import State, Task
from duetime.scheduler.views import TaskRecord, TaskView
from duetime.widgets.bulk.payload import bulk_payload
from duetime.widgets.bulk.text import bulk_text
from duetime.widgets.formats.speech import speech
from duetime.widgets.payload import task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.summary import first_sentence
from sqlalchemy import update

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def ended(desk: Desk, hour: int, minute: int = 0) -> list[str]:
    """Let the timer look at a time, as the dispatcher does; return the tasks that go on."""
    desk.clock.at = at(hour, minute)
    due = desk.store.claims.next_times().resume_at
    resumed = desk.store.series.end_pauses(limit=9)
    assert bool(resumed) == (due is not None and due <= desk.clock.at)
    return resumed


def call_at(desk: Desk, when: str, **more: Any) -> str:
    return desk.scheduler.schedule("Call John", when=when, **more).record.task.id


def paused(desk: Desk, task_id: str, until: str | None = "11:00") -> TaskView:
    return desk.scheduler.reschedule(task_id, pause=True, pause_until=until)


def task_of(desk: Desk, task_id: str) -> Task:
    return desk.store.tasks.get(LOCAL.tenant, task_id).task


def record_of(desk: Desk, task_id: str) -> TaskRecord:
    return desk.store.tasks.get(LOCAL.tenant, task_id)


def state_of(desk: Desk, task_id: str) -> tuple[bool, datetime | None]:
    task = task_of(desk, task_id)
    return task.paused, task.paused_until


def last_event(desk: Desk, task_id: str) -> tuple[EventKind, str, str | None]:
    event = desk.scheduler.past.events(EventFilter(task_id=task_id)).events[0]
    return event.kind, event.actor, event.reason


# -- the end


def test_a_task_goes_on_at_the_end_of_its_pause_and_the_history_says_who_resumed_it(desk: Desk) -> None:
    task_id = call_at(desk, "10:00")
    assert paused(desk, task_id).record.task.paused_until == at(11)
    assert ended(desk, 10, 59) == []
    assert desk.start(10, 59) == []
    assert ended(desk, 11) == [task_id]
    assert state_of(desk, task_id) == (False, None)
    assert last_event(desk, task_id) == (EventKind.RESUMED, "duetime", "its pause is over")
    assert [claim.task.id for claim in desk.start(11)] == [task_id], "a run that fell due in the pause runs at once"
    assert ended(desk, 12) == []


def test_a_series_goes_on_with_its_next_occurrence_as_after_a_resume_by_hand(desk: Desk) -> None:
    task_id = desk.hourly()
    paused(desk, task_id, "11:30")
    assert ended(desk, 11, 30) == [task_id]
    assert desk.runs(task_id) == {9: State.SKIPPED, 12: State.SCHEDULED}


def test_an_occurrence_at_the_very_end_of_a_pause_runs_however_late_the_end_is_noticed(desk: Desk) -> None:
    before, at_its_end = desk.hourly(), desk.hourly()
    for task_id, until in ((before, "11:00"), (at_its_end, "9:00")):
        view = paused(desk, task_id, until)
        assert view.upcoming[0].instant == view.record.task.paused_until
        assert desk.scheduler.get(task_id).upcoming[0].instant == view.record.task.paused_until
    assert ended(desk, 9, 1) == [at_its_end]
    assert [claim.run.scheduled_for for claim in desk.start(9, 1)] == [at(9)]
    assert ended(desk, 11, 1) == [before]
    assert desk.runs(before) == {9: State.SKIPPED, 11: State.SCHEDULED}


def test_a_series_that_catches_up_runs_what_its_policy_says(desk: Desk) -> None:
    task_id = desk.hourly(coalesce="latest")
    paused(desk, task_id, "11:30")
    assert ended(desk, 11, 30) == [task_id]
    assert [claim.run.scheduled_for for claim in desk.start(11, 30)] == [at(11)]


@on_each_database
def test_a_series_ends_of_which_every_occurrence_passed_during_the_pause(desk: Desk) -> None:
    task_id = desk.hourly(max_runs=1)
    desk.scheduler.reschedule(task_id, until="9:30")
    paused(desk, task_id)
    assert ended(desk, 11) == [task_id]
    assert desk.runs(task_id) == {9: State.SKIPPED}
    assert state_of(desk, task_id) == (False, None)
    assert ended(desk, 12) == [], "nothing is left to look at"


def test_a_run_whose_hard_deadline_passed_expires_then(desk: Desk) -> None:
    task_id = call_at(desk, "10:00", deadline="10:30", deadline_type="hard")
    paused(desk, task_id)
    assert ended(desk, 11) == [task_id]
    desk.store.claims.expire(limit=9)
    assert record_of(desk, task_id).run.state is State.EXPIRED


def test_a_pause_of_a_task_that_has_ended_since_only_ends(desk: Desk) -> None:
    task_id = call_at(desk, "9:00")
    claims = desk.start(9)
    paused(desk, task_id)
    desk.end(claims)
    assert ended(desk, 11) == [task_id]
    assert (record_of(desk, task_id).run.state, state_of(desk, task_id)) == (State.SUCCEEDED, (False, None))


def test_a_cancelled_task_stays_cancelled_when_its_pause_is_over(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    paused(desk, task_id)
    desk.scheduler.cancel(task_id)
    assert ended(desk, 11) == [task_id]
    assert record_of(desk, task_id).run.state is State.CANCELLED


def test_a_task_that_fails_too_often_is_not_resumed_by_the_end_of_an_older_pause(desk: Desk) -> None:
    task_id = desk.hourly(pause_after=1)
    claims = desk.start(9)
    paused(desk, task_id)
    desk.end_anew(claims, Failed("no such file"))
    assert state_of(desk, task_id) == (True, None)
    assert ended(desk, 11) == []


# -- changes of the end


@on_each_database
def test_pausing_again_changes_the_end_and_a_resume_by_hand_clears_it(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    paused(desk, task_id)
    paused(desk, task_id, "11:30")
    assert state_of(desk, task_id) == (True, at(11, 30))
    desk.scheduler.reschedule(task_id, pause_until="11:45")
    assert state_of(desk, task_id) == (True, at(11, 45))
    paused(desk, task_id, None)
    assert state_of(desk, task_id) == (True, None), "a pause without an end replaces one that has an end"
    paused(desk, task_id)
    desk.scheduler.reschedule(task_id, pause=False)
    assert state_of(desk, task_id) == (False, None)
    assert ended(desk, 12) == []


def test_the_same_end_again_changes_nothing(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    first = paused(desk, task_id)
    again = paused(desk, task_id)
    assert again.record.task.revision == first.record.task.revision
    assert again.undo is None


def test_a_pause_is_undone_exactly_and_so_are_a_new_end_and_a_resume(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    before = record_of(desk, task_id)
    desk.scheduler.act(task_id, "undo", undo=paused(desk, task_id).undo)
    assert record_of(desk, task_id).run == before.run
    assert state_of(desk, task_id) == (False, None)
    paused(desk, task_id)
    desk.scheduler.act(task_id, "undo", undo=paused(desk, task_id, "11:30").undo)
    assert state_of(desk, task_id) == (True, at(11))
    desk.scheduler.act(task_id, "undo", undo=desk.scheduler.reschedule(task_id, pause=False).undo)
    assert state_of(desk, task_id) == (True, at(11)), "the end is back"
    assert ended(desk, 11) == [task_id]


def test_a_paused_task_is_not_run_now_and_keeps_the_end_of_its_pause(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    paused(desk, task_id)
    before = state_of(desk, task_id)
    with pytest.raises(Refused, match=r"is paused\. Resume it"):
        desk.scheduler.act(task_id, "run_now")
    assert state_of(desk, task_id) == before


@pytest.mark.parametrize("words", ["until 11:00", "for 3 hours", "in 3 hours", "3 hours", "2026-11-23T11:00"])
def test_the_end_is_said_as_people_say_it(desk: Desk, words: str) -> None:
    task_id = call_at(desk, "12:00")
    assert desk.scheduler.reschedule(task_id, pause_until=words).record.task.paused_until == at(11)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"pause_until": "yesterday"}, "in the past"),
        ({"pause_until": "now"}, "the pause would end now"),
        ({"pause_until": "11:00", "pause": False}, "pause=false resumes the task"),
    ],
)
def test_a_pause_that_cannot_be_is_refused_with_an_example_of_one(
    desk: Desk, given: dict[str, Any], problem: str
) -> None:
    task_id = call_at(desk, "12:00")
    with pytest.raises(InvalidArgument, match=problem) as refused:
        desk.scheduler.reschedule(task_id, **given)
    assert refused.value.example
    assert state_of(desk, task_id) == (False, None)


# -- the timer


def test_a_look_resumes_so_many_and_the_earliest_first(desk: Desk) -> None:
    late, early = (call_at(desk, "12:00", labels=[name]) for name in ("late", "early"))
    paused(desk, late, "11:00")
    paused(desk, early, "10:00")
    desk.clock.at = at(11)
    assert [desk.store.series.end_pauses(limit=1) for _ in range(3)] == [[early], [late], []]


@on_each_database
def test_two_dispatchers_resume_each_task_once(desk: Desk, url: str) -> None:
    ids = {call_at(desk, f"12:{minute:02}") for minute in range(8)}
    for task_id in ids:
        paused(desk, task_id)
    desk.clock.at = at(11)
    other = open_store(url, clock=desk.clock, synchronous="OFF")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda store: store.series.end_pauses(limit=9), (desk.store, other)))
    other.close()
    assert sorted(itertools.chain(*found)) == sorted(ids)
    resumed = desk.scheduler.past.events(EventFilter(kind=EventKind.RESUMED)).events
    assert sorted(event.task_id for event in resumed) == sorted(ids)


@on_each_database
def test_an_end_that_an_older_version_left_behind_is_cleared(desk: Desk) -> None:
    task_id = call_at(desk, "12:00")
    paused(desk, task_id)
    by_the_older = update(task_table).where(task_table.c.id == task_id).values(paused=False)
    desk.store._database.write(lambda connection: connection.execute(by_the_older))
    assert ended(desk, 11) == [task_id]
    assert state_of(desk, task_id) == (False, None)


# -- many at once


@on_each_database
def test_everything_is_paused_until_a_time_by_one_call_that_says_how_many_first(desk: Desk) -> None:
    ids = [call_at(desk, "12:00"), desk.hourly()]
    endless, other = call_at(desk, "12:10"), call_at(desk, "12:20")
    paused(desk, endless, None)
    paused(desk, other, "10:00")
    preview = desk.scheduler.bulk.change("pause", to="until 11:00")
    assert (preview.dry_run, preview.counts[Became.CHANGED]) == (True, 3)
    assert "This would pause 3 tasks until Mon 23 Nov 2026 11:00 UTC." in bulk_text(preview)
    done = desk.scheduler.bulk.change("pause", to="until 11:00", expect=3)
    assert bulk_text(done).startswith("Paused 3 tasks until Mon 23 Nov 2026 11:00 UTC.")
    assert bulk_payload(done).bulk.paused_until == "2026-11-23T11:00:00Z"
    assert state_of(desk, endless) == (True, None), "somebody paused it without an end"
    assert set(ended(desk, 11)) == {*ids, other}


def test_the_undo_of_a_pause_of_many_brings_the_ends_of_before_back(desk: Desk) -> None:
    free, other = call_at(desk, "12:00"), call_at(desk, "12:20")
    paused(desk, other, "10:00")
    done = desk.scheduler.bulk.change("pause", to="11:00", expect=2)
    desk.scheduler.bulk.change("undo", undo=done.undo)
    assert (state_of(desk, free), state_of(desk, other)) == ((False, None), (True, at(10)))


def test_the_same_pause_of_many_again_changes_nothing(desk: Desk) -> None:
    call_at(desk, "12:00")
    first = desk.scheduler.bulk.change("pause", to="in 3 hours", expect=1, idempotency_key="fair")
    desk.clock.forward(minutes=5)
    again = desk.scheduler.bulk.change("pause", to="in 3 hours", expect=1, idempotency_key="fair")
    assert (again.repeated, again.paused_until) == (True, first.paused_until)


@pytest.mark.parametrize(("change", "to"), [("pause", "yesterday"), ("resume", "11:00"), ("move", None)])
def test_a_time_that_a_change_of_many_cannot_have_is_refused(desk: Desk, change: Any, to: str | None) -> None:
    call_at(desk, "12:00")
    with pytest.raises(InvalidArgument) as refused:
        desk.scheduler.bulk.change(change, to=to, expect=1)
    assert (refused.value.argument, bool(refused.value.example)) == ("to", True)


def test_a_chain_is_paused_until_a_time_as_a_whole(desk: Desk) -> None:
    steps: list[StepArguments] = [{"name": "a"}, {"name": "b", "after": ["a"]}]
    view = desk.scheduler.schedule("Onboard", when="10:00", steps=steps)
    assert view.chain
    desk.scheduler.reschedule(view.chain.id, pause_until="11:00")
    ids = [step.task_id for step in view.chain.steps]
    assert [state_of(desk, task_id) for task_id in ids] == [(True, at(11))] * 2
    assert set(ended(desk, 11)) == set(ids)
    assert [claim.task.id for claim in desk.start(11)] == ids[:1]


# -- what is shown


def test_answers_lists_and_voices_say_until_when_a_task_is_paused(desk: Desk) -> None:
    view = paused(desk, call_at(desk, "12:00"))
    payload = task_payload(view)
    assert payload.paused_until == "2026-11-23T11:00:00Z"
    assert first_sentence(payload).startswith("The reminder is paused until Mon 23 Nov 2026 11:00 UTC, in 3 hours.")
    assert speech(payload) == "Call John is paused until today at eleven in the morning. It is due today at noon."
    assert payload.waiting_for == ("paused until Mon 23 Nov 2026 11:00 UTC (in 3 h)",)
    _, reasons = desk.scheduler.explain(view.record.task.id)
    assert "paused until Mon 23 Nov 2026 11:00 UTC (in 3 h)" in reasons
    assert "paused until Mon 23 Nov 11:00," in list_text(desk.scheduler.tasks.list())
    assert payload.waits
    assert payload.waits[0].until == "2026-11-23T11:00:00Z"


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_resume_of_a_task_that_has_ended_is_refused_and_says_how_it_runs_again(
    desk: Desk, *, cancelled: bool
) -> None:
    task_id = call_at(desk, "9:00")
    if cancelled:
        desk.scheduler.cancel(task_id)
    else:
        desk.end(desk.start(9))
    remedy = remedies.ScheduleAnother() if cancelled else remedies.RunAgain(task_id)
    for paused in (False, True):
        with pytest.raises(Refused, match="has already ended") as refused:
            desk.scheduler.reschedule(task_id, pause=paused)
        assert (refused.value.argument, refused.value.remedy) == ("pause", remedy)
    [outcome] = desk.scheduler.bulk.change("resume", [task_id]).outcomes
    assert (outcome.became, "has already ended" in str(outcome.why)) == (Became.REFUSED, True)
    assert desk.scheduler.reschedule(task_id, title="Call Jane", pause=False).record.task.title == "Call Jane"
    if not cancelled:
        again = desk.scheduler.reschedule(task_id, when="now", pause=False).record
        assert (again.run.state, again.task.paused) == (State.SCHEDULED, False)


def test_a_resume_of_a_task_that_ended_during_its_pause_says_that_it_has_ended(desk: Desk) -> None:
    task_id = call_at(desk, "9:00")
    running = desk.start(9)
    paused(desk, task_id, None)
    desk.end(running)
    view = desk.scheduler.reschedule(task_id, pause=False)
    assert view.record.task.paused is False
    assert "it has ended (succeeded): it starts once it is given a time" in view.warnings
    with pytest.raises(Refused, match="has already ended"):
        desk.scheduler.reschedule(task_id, pause=False)


def test_a_resume_of_a_task_that_was_cancelled_during_its_pause_is_refused_and_changes_nothing(desk: Desk) -> None:
    task_id = call_at(desk, "9:00")
    paused(desk, task_id, None)
    cancelled = desk.scheduler.cancel(task_id)
    with pytest.raises(Refused, match="has already ended"):
        desk.scheduler.reschedule(task_id, pause=False)
    result = desk.scheduler.bulk.change("resume", [task_id])
    assert ([each.became for each in result.outcomes], result.undo) == ([Became.REFUSED], None)
    assert desk.scheduler.get(task_id).record.task == cancelled.record.task
    back = desk.scheduler.act(task_id, "undo", undo=cancelled.undo).record
    assert (back.run.state, back.task.paused) == (State.SCHEDULED, True)
    assert desk.scheduler.reschedule(task_id, pause=False).record.task.paused is False


def test_a_task_that_was_done_although_it_was_to_stop_is_resumed_and_runs_again(desk: Desk) -> None:
    task_id = call_at(desk, "9:00")
    running = desk.start(9)
    desk.scheduler.cancel(task_id)
    paused(desk, task_id, None)
    desk.end_anew(running, Done("called"))
    with pytest.raises(Refused, match="paused"):
        desk.scheduler.act(task_id, "run_now")
    assert desk.scheduler.reschedule(task_id, pause=False).record.task.paused is False
    with pytest.raises(Refused, match="has already ended") as refused:
        desk.scheduler.reschedule(task_id, pause=True)
    assert refused.value.remedy == remedies.RunAgain(task_id)
    assert desk.scheduler.act(task_id, "run_now").record.run.state is State.SCHEDULED


@pytest.mark.parametrize("with_others", [True, False])
def test_a_resume_of_a_chain_also_resumes_a_step_that_ended_during_its_pause(desk: Desk, *, with_others: bool) -> None:
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain_id = desk.scheduler.schedule("Report", repeat="every hour at :00", steps=steps).record.task.id
    running = desk.start(9)
    desk.scheduler.reschedule(chain_id, pause=True)
    desk.end(running)
    desk.nothing_due(9, 10)
    if with_others:
        desk.scheduler.bulk.change("resume", [chain_id])
    else:
        desk.scheduler.reschedule(chain_id, pause=False)
    for hour in (9, 10, 10):
        desk.end(desk.start(hour, 20))
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(11)
