"""Chains that are changed as a whole: what all steps can have is given to all, in one transaction with one undo."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.calls.bulk_change import Became
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import DuetimeError, InvalidArgument, Refused, StoreUnavailable, TaskNotFound
from duetime.scheduler.events import OF_CHAIN, EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.pause import with_later_generations
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules import changes
from duetime.scheduler.service.bulk import bulk_targets
from duetime.scheduler.service.chains import chain_changes
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, Notify, RetryPolicy, State, Task, Tier
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.widgets.history import changes_of, history_payload

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

SCHEDULED, WAITING = State.SCHEDULED, State.WAITING
THREE: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"]},
    {"name": "mail", "after": ["load"]},
]


class Team:
    """Somebody who is told."""

    name = "team"

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Forget the message."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    handlers, channels = Handlers.load(entry_points=False), Channels([Team()])
    planner = Planner(handlers, "UTC", channels=channels, upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def report(desk: Desk, **more: Any) -> str:
    title = more.pop("title", "Report")
    return desk.scheduler.schedule(title, **{"when": "in 1 hour", "steps": THREE, **more}).record.task.id


def tasks(desk: Desk, chain_id: str) -> dict[str, Task]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return {step.name: desk.scheduler.get(step.task_id).record.task for step in chain.steps}


def states(desk: Desk, chain_id: str) -> list[State]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def terms(desk: Desk, chain_id: str) -> list[Any]:
    return [
        (task.priority, task.labels, task.notify, task.retry, task.deadline, task.expect, task.anchor)
        for task in tasks(desk, chain_id).values()
    ]


CHANGES: list[tuple[dict[str, Any], str, list[Any]]] = [
    ({"labels": ["q3"]}, "labels", [("q3",)] * 3),
    ({"priority": "high"}, "priority", [Tier.HIGH] * 3),
    ({"notify": "failure"}, "notify", [Notify.FAILURE] * 3),
    ({"deliver_to": ["team"]}, "deliver_to", [("team",)] * 3),
    ({"retry": RetryPolicy(max_attempts=2)}, "retry", [RetryPolicy(max_attempts=2)] * 3),
    ({"on_failure": {"tier": "high"}}, "on_failure", [{"tier": "high"}] * 3),
    ({"deadline": "2 hours"}, "deadline", [None, None, "2 hours"]),
    ({"remove": ["labels"]}, "labels", [()] * 3),
]


@on_each_database
@pytest.mark.parametrize(("given", "field", "expected"), CHANGES, ids=lambda each: str(each)[:24])
def test_a_change_that_suits_all_steps_is_given_to_all_and_taken_back_by_one_undo(
    desk: Desk, given: dict[str, Any], field: str, expected: list[Any]
) -> None:
    chain_id = report(desk, labels=["old"])
    before = terms(desk, chain_id)
    tried = desk.scheduler.reschedule(chain_id, **given, dry_run=True)
    assert (terms(desk, chain_id), tried.undo) == (before, None)
    changed = desk.scheduler.reschedule(chain_id, **given)
    assert [getattr(task, field) for task in tasks(desk, chain_id).values()] == expected
    assert changed.warnings == ()
    desk.scheduler.act(chain_id, "undo", undo=changed.undo)
    assert terms(desk, chain_id) == before
    assert states(desk, chain_id) == [SCHEDULED, WAITING, WAITING]


@on_each_database
def test_one_call_moves_a_chain_and_changes_it(desk: Desk) -> None:
    chain_id = report(desk)
    changed = desk.scheduler.reschedule(chain_id, when="in 3 hours", priority="high", labels=["late"])
    assert changed.record.run.scheduled_for == at(11)
    assert {(task.priority, task.labels) for task in tasks(desk, chain_id).values()} == {(Tier.HIGH, ("late",))}
    [entry] = desk.scheduler.past.audit(limit=1).entries
    assert (entry.kind, entry.detail and entry.detail["change"]) == (AuditKind.TASKS_CHANGED, "reschedule")
    desk.scheduler.bulk.change("undo", undo=changed.undo)
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(9)
    assert {(task.priority, task.labels) for task in tasks(desk, chain_id).values()} == {(Tier.NORMAL, ())}


@on_each_database
def test_a_deadline_is_read_in_the_zone_of_the_call(desk: Desk) -> None:
    chain_id = report(desk)
    desk.scheduler.reschedule(chain_id, deadline="today 17:00", timezone="America/Denver")
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    last = desk.scheduler.get(chain.steps[-1].task_id).record
    assert (last.run.deadline, last.task.timezone) == (at(17) + timedelta(hours=7), "UTC")


@on_each_database
def test_the_steps_that_a_change_leaves_as_they_are_are_named_with_the_reason(desk: Desk) -> None:
    chain_id = report(desk)
    desk.start(9)
    changed = desk.scheduler.reschedule(chain_id, priority="high")
    [said] = changed.warnings
    assert said.startswith("not changed: fetch (")
    assert isinstance(said, Translatable)
    assert (said.kind, said.values["steps"]) == (NoteKind.NOT_CHANGED, "fetch")
    assert "has already started" in said
    assert [task.priority for task in tasks(desk, chain_id).values()] == [Tier.NORMAL, Tier.HIGH, Tier.HIGH]
    assert desk.scheduler.reschedule(chain_id, labels=["x"]).warnings == (), "a label is for what runs, too"


def test_a_change_that_no_step_takes_is_refused_and_one_that_changes_nothing_says_so(desk: Desk) -> None:
    chain_id = report(desk, priority="high")
    same = desk.scheduler.reschedule(chain_id, priority="high")
    assert (same.warnings, same.undo) == (("it already has these values; nothing was changed",), None)
    for dry_run in (True, False):
        with pytest.raises(DuetimeError, match="priority: there is no 'hihg'"):
            desk.scheduler.reschedule(chain_id, priority="hihg", dry_run=dry_run)  # type: ignore[arg-type]  # wrong
        with pytest.raises(DuetimeError, match="deadline: "):
            desk.scheduler.reschedule(chain_id, deadline="yesterdaz", dry_run=dry_run)
    desk.scheduler.cancel(chain_id)
    with pytest.raises(Refused, match=f"all steps of {chain_id} have ended"):
        desk.scheduler.reschedule(chain_id, labels=["x"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"payload": {"message": "x"}}, r"payload: each step has its own.*payload with the id of a step.*task_id='t_"),
        ({"needs": {"gpu": 1}}, "needs: each step has its own"),
        ({"estimate": "5 min"}, "estimate: each step has its own"),
        ({"remove": ["payload"]}, "payload: each step has its own"),
        (
            {"repeat": "daily"},
            r"repeat: this chain runs once, and stays so.*repeat of a new chain that is scheduled with its steps\.$",
        ),
        ({"until": "in 3 hours"}, r"until: this chain runs once, and stays so.*with its steps\.$"),
        ({"remove": ["max_runs"]}, r"max_runs: this chain runs once, and stays so.*with its steps\.$"),
        ({"skip_next": True}, r"skip_next: this chain runs once\. Accepted: `when`"),
        ({"pause": True, "labels": ["x"]}, "pause: a chain is paused, skipped or changed.*Example: pause=true"),
        ({"pause": False, "title": "x"}, "pause: a chain is paused, skipped or changed.*Example: pause=false"),
        ({"pause_until": "friday", "title": "x"}, r"Example: pause_until='friday'\.?$"),
        ({"timezone": "Asia/Tokyo"}, "when: it is missing"),
        ({}, "nothing to change was given"),
    ],
)
def test_a_change_that_suits_no_whole_chain_is_refused_with_the_way_that_works(
    desk: Desk, given: Any, said: str
) -> None:
    chain_id = report(desk)
    with pytest.raises(InvalidArgument, match=said):
        desk.scheduler.reschedule(chain_id, **given)


@on_each_database
def test_a_chain_that_recurs_has_the_change_in_its_later_generations_too(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    desk.end(desk.start(9))
    desk.start(9, 1)
    changed = desk.scheduler.reschedule(chain_id, priority="high", labels=["x"])
    assert changed.warnings == ()
    assert {(task.priority, task.labels) for task in tasks(desk, chain_id).values()} == {(Tier.HIGH, ("x",))}
    desk.scheduler.act(chain_id, "undo", undo=changed.undo)
    assert {(task.priority, task.labels) for task in tasks(desk, chain_id).values()} == {(Tier.NORMAL, ())}
    assert states(desk, chain_id) == [State.SUCCEEDED, State.RUNNING, WAITING]


def test_many_tasks_are_changed_with_a_whole_chain_among_them_and_one_undo_takes_it_back(desk: Desk) -> None:
    chain_id, alone = report(desk), desk.scheduler.schedule("Alone", when="in 2 hours").record.task.id
    ids = [chain_id, alone]
    for change in ("cancel", "pause"):
        before = [*states(desk, chain_id), desk.scheduler.get(alone).record.run.state]
        tried = desk.scheduler.bulk.change(change, ids, dry_run=True)
        assert tried.counts == {Became.CHANGED: 4}
        assert [*states(desk, chain_id), desk.scheduler.get(alone).record.run.state] == before
        done = desk.scheduler.bulk.change(change, ids)
        assert done.counts == {Became.CHANGED: 4}
        assert {each.record.task.paused or each.record.run.state is State.CANCELLED for each in done.outcomes} == {True}
        desk.scheduler.bulk.change("undo", undo=done.undo)
        assert [*states(desk, chain_id), desk.scheduler.get(alone).record.run.state] == before
    desk.scheduler.reschedule(chain_id, pause=True)
    assert desk.scheduler.bulk.change("resume", [chain_id]).counts == {Became.CHANGED: 3}
    assert not desk.scheduler.get(chain_id).record.task.paused


@pytest.mark.parametrize("to", ["1 day later", "tomorrow", "tomorrow 9:00"])
def test_a_chain_that_is_moved_among_others_keeps_the_distances_of_its_steps(desk: Desk, to: str) -> None:
    steps: list[StepArguments] = [*THREE[:2], {**THREE[2], "when": "in 4 hours"}]
    chain_id = report(desk, steps=steps)
    alone = desk.scheduler.schedule("Alone", when="in 1 hour").record.task.id
    tried = desk.scheduler.bulk.change("move", [alone, chain_id], to=to, dry_run=True)
    done = desk.scheduler.bulk.change("move", [alone, chain_id], to=to)
    for each_call in (tried, done):
        hours = {(each.record.run.scheduled_for - at(0)).total_seconds() / 3600 for each in each_call.outcomes}
        assert hours == {24 + 9, 24 + 12}
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    assert [step.due - timedelta(days=1) for step in chain.steps] == [at(9), at(9), at(12)]
    desk.scheduler.bulk.change("undo", undo=done.undo)
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(9)


@pytest.mark.parametrize("way", ["reschedule", "move"])
def test_a_chain_moves_to_the_time_that_is_asked_for_after_its_first_step_was_moved_alone(desk: Desk, way: str) -> None:
    chain_id = report(desk)
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    desk.scheduler.reschedule(chain.steps[0].task_id, when="in 4 hours")
    if way == "move":
        desk.scheduler.bulk.change("move", [chain_id], to="15:00")
    else:
        desk.scheduler.reschedule(chain_id, when="15:00")
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(15)


@pytest.mark.parametrize("named", [True, False])
def test_a_move_that_the_deadline_of_a_last_step_refuses_leaves_the_whole_chain(desk: Desk, *, named: bool) -> None:
    chain_id = report(desk, deadline="12:00", deadline_type="hard")
    alone = desk.scheduler.schedule("Alone", when="in 1 hour").record.task.id
    call: dict[str, Any] = {"task_ids": [chain_id, alone]} if named else {"expect": 4}
    for dry_run in (True, False):
        done = desk.scheduler.bulk.change("move", to="1 day later", dry_run=dry_run, **call)
        assert done.counts == {Became.CHANGED: 1, Became.REFUSED: 3}
        whys = {each.record.task.title: each.why or "" for each in done.outcomes}
        assert re.search(r"deadline: .* is before the run is due.*together with a later deadline", whys["Report: mail"])
        assert whys["Report: fetch"].startswith("its chain moves as a whole, and «Report: mail» refuses: deadline: ")
        assert not [why for why in whys.values() if "Example" in why], "deadline is no argument of this call"
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(9)
    assert desk.scheduler.get(alone).record.run.scheduled_for == at(9) + timedelta(days=1)


def test_ended_steps_of_a_chain_are_left_out_and_a_chain_that_is_over_is_refused(desk: Desk) -> None:
    chain_id = report(desk)
    desk.end(desk.start(9))
    assert desk.scheduler.bulk.change("cancel", [chain_id]).counts == {Became.CHANGED: 2}
    over = desk.scheduler.bulk.change("pause", [chain_id])
    assert (over.counts, states(desk, chain_id)[0]) == ({Became.REFUSED: 3}, State.SUCCEEDED)
    with pytest.raises(TaskNotFound, match="task_ids: no task 'c_nothing'"):
        desk.scheduler.bulk.change("cancel", ["c_nothing"])


def test_a_chain_is_replayed_from_the_step_that_failed(desk: Desk) -> None:
    chain_id = report(desk, retry=RetryPolicy(max_attempts=1))
    desk.end(desk.start(9), Failed("no rows"))
    assert set(states(desk, chain_id)) == {State.FAILED}
    done = desk.scheduler.bulk.change("replay", [desk.scheduler.ends.tasks_of(chain_id)[0]])
    assert states(desk, chain_id) == [SCHEDULED, WAITING, WAITING]
    desk.scheduler.bulk.change("undo", undo=done.undo)


def test_a_repeated_call_for_a_chain_changes_nothing_more(desk: Desk) -> None:
    chain_id = report(desk)
    for repeated in (False, True):
        done = desk.scheduler.bulk.change("move", [chain_id], to="1 day later", idempotency_key="later")
        assert (done.repeated, done.counts[Became.CHANGED]) == (repeated, 3)
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(9) + timedelta(days=1)


def test_a_chain_gets_another_title_with_the_steps_that_have_theirs_from_it(desk: Desk) -> None:
    chain_id = report(desk, steps=[*THREE[:2], {**THREE[2], "title": "Mail it"}])
    tried = desk.scheduler.reschedule(chain_id, title="Sales", dry_run=True)
    before = [desk.scheduler.get(chain_id).record.task.title, *titles(desk, chain_id)]
    changed = desk.scheduler.reschedule(chain_id, title="Sales")
    assert tried.record.task.title == changed.record.task.title == "Sales"
    assert titles(desk, chain_id) == ["Sales: fetch", "Sales: load", "Mail it"]
    [entry] = desk.scheduler.past.audit(limit=1).entries
    assert entry.detail
    assert (entry.detail["chain"], entry.detail["title"]) == (chain_id, "Sales")
    desk.scheduler.act(chain_id, "undo", undo=changed.undo)
    assert [desk.scheduler.get(chain_id).record.task.title, *titles(desk, chain_id)] == before


def test_a_title_that_no_step_has_is_changed_and_taken_back_too(desk: Desk) -> None:
    chain_id = report(desk, steps=[{**step, "title": "Own"} for step in THREE])
    changed = desk.scheduler.reschedule(chain_id, title="Sales")
    assert (changed.record.task.title, changed.warnings) == ("Sales", ())
    for _ in range(2):  # a repeat is answered as the first one
        assert desk.scheduler.act(chain_id, "undo", undo=changed.undo).record.task.title == "Report"


def test_the_undo_of_a_title_is_refused_where_the_chain_has_another_one_since(desk: Desk) -> None:
    chain_id = report(desk, steps=[{**step, "title": "Own"} for step in THREE])
    first = desk.scheduler.reschedule(chain_id, title="Sales")
    desk.scheduler.reschedule(chain_id, title="Prices")
    with pytest.raises(Refused, match="was changed again since"):
        desk.scheduler.act(chain_id, "undo", undo=first.undo)
    assert desk.scheduler.get(chain_id).record.task.title == "Prices"


@on_each_database
def test_a_generation_that_has_not_begun_moves_to_the_first_time_of_a_new_rule(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    changed = desk.scheduler.reschedule(chain_id, repeat="every hour at :30")
    assert due(desk, chain_id) == [at(8, 30)] * 3
    desk.scheduler.act(chain_id, "undo", undo=changed.undo)
    assert due(desk, chain_id) == [at(9)] * 3
    desk.scheduler.reschedule(chain_id, repeat="every hour at :30")
    run_all(desk, 8, 30)
    assert due(desk, chain_id) == [at(9, 30)] * 3


def test_a_generation_in_progress_stays_and_the_next_one_follows_the_new_rule(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    desk.end(desk.start(9))
    changed = desk.scheduler.reschedule(chain_id, repeat="every hour at :30")
    assert (changed.warnings, due(desk, chain_id)) == ((), [at(9)] * 3)
    run_all(desk, 9, 1, steps=2)
    assert due(desk, chain_id) == [at(9, 30)] * 3


@on_each_database
@pytest.mark.parametrize("given", [{"repeat": "never"}, {"max_runs": 1}, {"until": "today 9:30"}])
def test_a_chain_that_recurs_gets_an_end_and_its_undo_lets_it_go_on(desk: Desk, given: Any) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    again = report(desk, title="Again", when=None, repeat="every hour at :00")
    undo = [desk.scheduler.reschedule(each, **given).undo for each in (chain_id, again)][1]
    desk.scheduler.act(again, "undo", undo=undo)
    run_all(desk, 9, 0)
    assert states(desk, chain_id) == [State.SUCCEEDED] * 3
    assert due(desk, again) == [at(10)] * 3


@on_each_database
def test_the_history_of_a_chain_has_what_changed_of_the_chain_itself(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    desk.scheduler.reschedule(chain_id, repeat="every hour at :30", max_runs=3)
    view = desk.scheduler.reschedule(chain_id, title="Figures", max_runs=4)
    assert view.undo
    desk.scheduler.bulk.change("undo", undo=view.undo)
    events = desk.scheduler.past.events(EventFilter(task_id=tasks(desk, chain_id)["fetch"].id)).events
    told = [changes_of(event, "UTC") for event in reversed(events) if OF_CHAIN in (event.after or {})]
    assert told == [
        {"repeat": ("every hour at :00", "every hour at :30"), "max_runs": ("", "3")},
        {"title": ("Report", "Figures"), "max_runs": ("3", "4")},
        {"title": ("Figures", "Report"), "max_runs": ("4", "3")},
    ]
    past = history_payload([], events, "UTC", steps={events[0].task_id: "fetch"})
    assert {part.step for part in past.events if part.changes and "max_runs" in part.changes} == {None}
    assert_sound(desk.store)


def test_the_undo_of_a_change_of_the_chain_alone_is_in_its_history(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00")
    view = desk.scheduler.reschedule(chain_id, max_runs=5)
    assert view.undo
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    events = desk.scheduler.past.events(EventFilter(task_id=chain_id)).events
    assert changes_of(events[0], "UTC") == {"max_runs": ("5", "")}


def test_the_undo_of_the_end_of_a_series_lets_a_chain_go_on_that_has_ended_since(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", steps=THREE[:1])
    desk.clock.at = at(8, 55)
    view = desk.scheduler.reschedule(chain_id, repeat="never")
    desk.end(desk.start(9))
    assert states(desk, chain_id) == [State.SUCCEEDED]
    assert view.undo
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    assert states(desk, chain_id) == [SCHEDULED]
    assert len(desk.start(10)) == 1


@pytest.mark.parametrize(("change", "more"), [("replay", {}), ("move", {"to": "10:00"})])
def test_a_failed_step_and_those_that_ended_with_it_go_on_together(desk: Desk, change: Any, more: Any) -> None:
    first = desk.scheduler.schedule("First", when="9:00", retry=RetryPolicy(max_attempts=1)).record.task.id
    second = desk.scheduler.schedule("Second", when="9:00", after=[first]).record.task.id
    desk.end(desk.start(9), Failed("no rows"))
    desk.scheduler.bulk.change(change, [first, second], **more)
    assert [desk.scheduler.get(each).record.run.state for each in (first, second)] == [SCHEDULED, WAITING]
    assert_sound(desk.store)


def test_a_resume_of_a_task_that_was_cancelled_during_its_pause_is_refused(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Report", when="10:00").record.task.id
    desk.scheduler.reschedule(task_id, pause=True)
    desk.scheduler.cancel(task_id)
    done = desk.scheduler.bulk.change("resume", [task_id])
    assert (done.undo, [each.became for each in done.outcomes]) == (None, [Became.REFUSED])
    found = desk.scheduler.get(task_id).record
    assert (found.run.state, found.task.paused) == (State.CANCELLED, True)


def test_an_end_that_no_generation_could_keep_is_refused(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", max_runs=5)
    run_all(desk, 9, 0)
    for given, said in (
        ({"max_runs": 1}, "max_runs: generation 2 is there already"),
        ({"until": "today 9:59"}, "until: .* is before the next occurrence"),
        ({"repeat": "sometimes"}, "repeat: "),
        ({"repeat": "daily", "when": "tomorrow"}, "when: a new rule has its times"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            desk.scheduler.reschedule(chain_id, **given)
    assert desk.scheduler.reschedule(chain_id, remove=["max_runs"]).record.task.max_runs is None


def titles(desk: Desk, chain_id: str) -> list[str]:
    return [task.title for task in tasks(desk, chain_id).values()]


def due(desk: Desk, chain_id: str) -> list[Any]:
    return [desk.scheduler.get(each).record.run.scheduled_for for each in desk.scheduler.ends.tasks_of(chain_id)]


def run_all(desk: Desk, hour: int, minute: int, steps: int = 3) -> None:
    for later in range(steps):
        desk.end(desk.start(hour, minute + later))


KNOWN_BY: list[dict[str, Any]] = [{"idempotency_key": "back"}, {"raw": {"action": "undo", "undo": "it"}}]
ASKING: list[StepArguments] = [{"name": name, "approval": "Go?"} for name in ("fetch", "load", "mail")]


@pytest.mark.parametrize("known_by", KNOWN_BY)
def test_a_repeated_undo_of_a_cancel_says_so_and_takes_nothing_back_again(desk: Desk, known_by: Any) -> None:
    chain_id = report(desk)
    undo = desk.scheduler.cancel(chain_id).undo
    first = desk.scheduler.act(chain_id, "undo", undo=undo, **known_by)
    desk.scheduler.cancel(chain_id)
    again = desk.scheduler.act(chain_id, "undo", undo=undo, **known_by)
    assert (first.warnings, again.warnings) == ((), (REPEATED_CALL,))
    assert states(desk, chain_id) == [State.CANCELLED] * 3
    with pytest.raises(Refused, match="this change was taken back already"):
        desk.scheduler.act(chain_id, "undo", undo=undo, idempotency_key="another")


@pytest.mark.parametrize("known_by", KNOWN_BY)
def test_a_repeated_undo_of_a_no_says_so_and_asks_for_nothing_again(desk: Desk, known_by: Any) -> None:
    chain_id = report(desk, steps=ASKING)
    undo = desk.scheduler.reject(chain_id).undo
    first = desk.scheduler.act(chain_id, "undo", undo=undo, **known_by)
    assert (first.warnings, states(desk, chain_id)) == ((), [WAITING] * 3)
    desk.scheduler.reject(chain_id)
    again = desk.scheduler.act(chain_id, "undo", undo=undo, **known_by)
    assert (again.warnings, states(desk, chain_id)) == ((REPEATED_CALL,), [State.CANCELLED] * 3)
    with pytest.raises(Refused, match=f"takes nothing of {chain_id} back: it is of something else, was used, or is"):
        desk.scheduler.act(chain_id, "undo", undo=undo, idempotency_key="another")


@on_each_database
@pytest.mark.parametrize("problem", [Refused("it stays."), StoreUnavailable("the database is away.")])
def test_the_undo_of_a_no_asks_again_for_every_step_or_for_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, problem: DuetimeError
) -> None:
    chain_id = report(desk, steps=ASKING)
    undo = desk.scheduler.reject(chain_id).undo
    undo_cancel, calls = changes.undo_cancel, list[int]()

    def fails_at_the_third(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise problem
        return undo_cancel(*arguments)

    monkeypatch.setattr(changes, "undo_cancel", fails_at_the_third)
    with pytest.raises(type(problem), match=str(problem)):
        desk.scheduler.act(chain_id, "undo", undo=undo, idempotency_key="back")
    assert states(desk, chain_id) == [State.CANCELLED] * 3

    assert desk.scheduler.act(chain_id, "undo", undo=undo, idempotency_key="back").warnings == ()
    assert states(desk, chain_id) == [WAITING] * 3
    assert [message.text for message in desk.scheduler.inbox.unread() if message.state is WAITING] == ["Go?"] * 3


PAUSES: dict[str, Callable[[Desk, str], object]] = {
    "by its id": lambda desk, chain_id: desk.scheduler.reschedule(chain_id, pause=True),
    "among others": lambda desk, chain_id: desk.scheduler.bulk.change("pause", [chain_id]),
    "until a time": lambda desk, chain_id: desk.scheduler.reschedule(chain_id, pause_until="11:30"),
}


@pytest.mark.parametrize("pause", PAUSES.values(), ids=PAUSES)
def test_a_chain_that_is_paused_at_its_last_step_begins_no_next_generation(
    desk: Desk, pause: Callable[[Desk, str], object]
) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", steps=THREE[:2])
    desk.end(desk.start(9))
    claims = desk.start(9, 1)
    pause(desk, chain_id)
    desk.end(claims)
    desk.nothing_due(10)
    assert desk.scheduler.get(chain_id).record.task.paused

    desk.scheduler.reschedule(chain_id, pause=False)
    assert [claim.task.title for claim in desk.start(10, 1)] == ["Report: fetch"]


@pytest.mark.parametrize("pause", PAUSES.values(), ids=PAUSES)
def test_a_step_that_ends_while_its_chain_is_paused_is_held_from_the_next_generation_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, pause: Callable[[Desk, str], object]
) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", steps=THREE[:2])
    claims = desk.start(9)

    def read_before_the_end(*arguments: Any) -> Any:
        decision = with_later_generations(*arguments)
        desk.end(claims)
        return decision

    for module in (bulk_targets, chain_changes):
        monkeypatch.setattr(module, "with_later_generations", read_before_the_end)
    pause(desk, chain_id)
    assert {name: task.paused for name, task in tasks(desk, chain_id).items()} == {"fetch": True, "load": True}


def test_the_undo_of_such_a_pause_lets_the_next_generation_begin(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", steps=THREE[:2])
    desk.end(desk.start(9))
    claims = desk.start(9, 1)
    view = desk.scheduler.reschedule(chain_id, pause=True)
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    desk.end(claims)
    assert [claim.task.title for claim in desk.start(10)] == ["Report: fetch"]


def test_a_pause_of_everything_holds_the_next_generation_of_a_chain_and_its_resume_lets_it_begin(desk: Desk) -> None:
    chain_id = report(desk, when=None, repeat="every hour at :00", steps=THREE[:2])
    desk.end(desk.start(9))
    claims = desk.start(9, 1)
    assert desk.scheduler.bulk.change("pause", expect=2).counts == {Became.CHANGED: 2}
    assert {task.paused for task in tasks(desk, chain_id).values()} == {True}
    assert desk.scheduler.bulk.change("resume", expect=2).counts == {Became.CHANGED: 2}
    assert {task.paused for task in tasks(desk, chain_id).values()} == {False}
    desk.scheduler.bulk.change("pause", expect=2)
    desk.end(claims)
    desk.nothing_due(10)
