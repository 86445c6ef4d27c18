"""Tasks get other links until they have started: no cycle, an exact undo, and urgency at once."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments, Refused
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

SCHEDULED, WAITING, READY = State.SCHEDULED, State.WAITING, State.READY


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def task(desk: Desk, title: str = "Fetch", **more: Any) -> str:
    return desk.scheduler.schedule(title, **{"when": "in 1 hour", **more}).record.task.id


def change(desk: Desk, task_id: str, **given: Any) -> str:
    """Change a task, and return the token of the undo."""
    undo = desk.scheduler.reschedule(task_id, **given).undo
    assert undo
    return undo


def state(desk: Desk, task_id: str) -> State:
    return desk.scheduler.get(task_id).record.run.state


def undo(desk: Desk, task_id: str, token: str) -> None:
    desk.scheduler.act(task_id, "undo", undo=token)


def waits(desk: Desk, task_id: str) -> Any:
    """Return all that a task waits for, and how its run stands."""
    found, run = desk.store.dependencies.upstreams("local", task_id), desk.scheduler.get(task_id).record.run
    wait = desk.store.signals.open_of("local", [task_id]).get(task_id)
    known = (run.state, run.scheduled_for, run.wake_at, run.deadline, run.drop_at, wait and wait.wait.all)
    asked = desk.store.approvals.open_of("local", [run.id])
    kept = desk.store.signals.wait_of_run("local", task_id, run.id)
    return [each.task_id for each in found], kept, known, bool(asked)


def test_an_edge_that_is_added_later_holds_the_task_until_the_other_has_succeeded(desk: Desk) -> None:
    fetch, load = task(desk), task(desk, "Load")
    view = desk.scheduler.reschedule(load, after=[fetch])
    assert view.record.run.state is WAITING
    assert view.waiting_for == (f"{fetch} «Fetch», which is scheduled",)
    [claim] = desk.start(9)
    assert claim.task.id == fetch
    desk.end([claim], Done("done", result={"rows": 3}))
    assert state(desk, load) is SCHEDULED
    assert desk.store.dependencies.results("local", load) == {fetch: {"rows": 3}}


def test_an_edge_that_is_removed_lets_the_task_go(desk: Desk) -> None:
    first, second = task(desk), task(desk, "Look")
    load = task(desk, "Load", after=[first, second])
    change(desk, load, after=[second])
    assert waits(desk, load)[0] == [second]
    assert state(desk, load) is WAITING
    change(desk, load, remove=["after"])
    assert (state(desk, load), waits(desk, load)[0]) == (SCHEDULED, [])
    assert {claim.task.id for claim in desk.start(9)} == {first, second, load}


def test_an_edge_that_stays_keeps_its_end_while_the_other_task_goes_on(desk: Desk) -> None:
    fetch, other = task(desk, when=None, repeat="every day at 9:00"), task(desk, "Other", when="in 9 hours")
    load = task(desk, "Load", after=[fetch, other])
    desk.end(desk.start(9))
    assert state(desk, fetch) is SCHEDULED
    change(desk, load, after=[fetch])
    assert state(desk, load) is SCHEDULED


def test_an_edge_to_what_has_succeeded_holds_nothing_and_one_to_what_has_failed_is_refused(desk: Desk) -> None:
    fetch, lost = task(desk), task(desk, "Lost")
    load = task(desk, "Load", when="in 3 hours")
    claims = {claim.task.id: claim for claim in desk.start(9)}
    desk.end([claims[fetch]])
    desk.end([claims[lost]], Failed("no rows"))
    change(desk, load, after=[fetch])
    assert desk.scheduler.get(load).record.run.scheduled_for == at(11)
    assert state(desk, load) is SCHEDULED
    with pytest.raises((InvalidArgument, InvalidArguments), match="has failed already, so this would never run"):
        desk.scheduler.reschedule(load, after=[lost])
    change(desk, load, after=[lost], after_failure="run_anyway")
    assert state(desk, load) is SCHEDULED


def test_a_cycle_is_refused_with_its_path_and_nothing_of_it_is_stored(desk: Desk) -> None:
    first = task(desk, "First")
    second = task(desk, "Second", after=[first])
    third = task(desk, "Third", after=[second])
    for dry_run in (True, False):
        said = f"after: {first} would come after itself: {first} -> {third} -> {second} -> {first}"
        with pytest.raises(InvalidArgument, match=said):
            desk.scheduler.reschedule(first, after=[third], dry_run=dry_run)
        with pytest.raises((InvalidArgument, InvalidArguments), match=f"{first} -> {first}"):
            desk.scheduler.reschedule(first, after=[first], dry_run=dry_run)
    assert waits(desk, first)[0] == []
    change(desk, third, after=[first])
    change(desk, second, remove=["after"])
    change(desk, first, after=[second])
    assert [state(desk, each) for each in (first, second, third)] == [WAITING, SCHEDULED, WAITING]


@pytest.mark.parametrize("length", [2, 3])
def test_an_undo_that_would_close_a_cycle_is_refused_with_its_path(desk: Desk, length: int) -> None:
    above, other = task(desk, "Above", when="in 2 hours"), task(desk, "Other", when="in 2 hours")
    below = task(desk, "Below", after=[above])
    token = change(desk, below, after=[other])
    between = [below] if length == 2 else [task(desk, "Between", after=[below]), below]
    change(desk, above, after=[between[0]])
    path = " -> ".join([below, above, *between])
    with pytest.raises(Refused, match=f"{below} would come after itself: {path}, so that change stays"):
        undo(desk, below, token)
    assert (waits(desk, below)[0], waits(desk, above)[0]) == ([other], [between[0]])


def test_a_cycle_is_refused_although_a_task_of_it_has_ended_and_may_run_again(desk: Desk) -> None:
    first = task(desk, "First")
    second = task(desk, "Second", after=[first])
    third = task(desk, "Third", when="in 9 hours", after=[second])
    desk.end(desk.start(9))
    desk.end(desk.start(10))
    desk.scheduler.reschedule(first, when="in 5 hours")
    with pytest.raises(InvalidArgument, match=f"{first} -> {third} -> {second} -> {first}"):
        desk.scheduler.reschedule(first, after=[third])


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"after": True}),
    ({}, {"wait_for": {"event": "paid", "timeout": "2 days"}}),
    ({}, {"approval": {"question": "Go?", "by": "30 min"}}),
    ({"after": True}, {"remove": ["after"]}),
    ({"wait_for": {"event": "paid", "match": {"id": 7}}}, {"remove": ["wait_for"]}),
    ({"wait_for": {"event": "paid"}}, {"wait_for": {"any": [{"event": "paid"}, {"event": "waived"}]}}),
    ({"after": True}, {"wait_for": {"event": "paid"}, "approval": True, "priority": "high", "when": "in 3 hours"}),
    ({"wait_for": {"any": [{"event": "paid"}, {"event": "waived"}]}, "after": True}, {"remove": ["wait_for", "after"]}),
    ({"deadline": "2 hours"}, {"after": True}),
    ({"wait_for": {"event": "paid", "or_when": True}}, {"after": True, "remove": ["wait_for"]}),
]


@on_each_database
@pytest.mark.parametrize(("made", "given"), CHANGES, ids=lambda each: str(sorted(each)))
def test_an_undo_brings_back_exactly_what_was_waited_for(desk: Desk, made: Any, given: Any) -> None:
    fetch, other = task(desk), task(desk, "Other")
    load = task(desk, "Load", **{**made, **({"after": [fetch]} if "after" in made else {})})
    before = waits(desk, load)
    token = change(desk, load, **{**given, **({"after": [other]} if "after" in given else {})})
    assert waits(desk, load) != before
    undo(desk, load, token)
    assert waits(desk, load) == before
    assert desk.scheduler.inbox.unread() == []


def test_the_undo_finds_tasks_that_ended_or_came_since(desk: Desk) -> None:
    fetch = task(desk, when="now")
    load, ship = task(desk, "Load", after=[fetch]), task(desk, "Ship", wait_for={"event": "paid"})
    of_load, of_ship = change(desk, load, remove=["after"]), change(desk, ship, remove=["wait_for"])
    desk.end(desk.start(8))
    desk.scheduler.signals.send("paid", {"id": 7})
    undo(desk, load, of_load)
    undo(desk, ship, of_ship)
    assert (state(desk, load), state(desk, ship)) == (SCHEDULED, SCHEDULED)
    kept = desk.store.signals.wait_of_run("local", ship, desk.scheduler.get(ship).record.run.id)
    assert kept
    assert kept.signal
    assert kept.signal.data == {"id": 7}


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_task_that_waits_for_others_becomes_no_series_unless_it_stops_waiting(desk: Desk, *, dry_run: bool) -> None:
    fetch = task(desk)
    load = task(desk, "Load", after=[fetch])
    with pytest.raises(InvalidArgument, match="repeat: a task that repeats cannot come after others") as refused:
        desk.scheduler.reschedule(load, repeat="daily at 9:00", dry_run=dry_run)
    assert "Accepted: a chain with repeat: its after holds back" in str(refused.value)
    assert str(refused.value).endswith("Example: repeat='daily at 9:00', remove=['after']")
    found = desk.scheduler.reschedule(load, repeat="daily at 9:00", remove=["after"]).record
    assert (found.run.state, found.run.scheduled_for, bool(found.task.repeat)) == (SCHEDULED, at(9), True)
    assert desk.store.dependencies.upstreams("local", load) == []


def test_a_step_of_a_chain_that_runs_once_becomes_no_series(desk: Desk) -> None:
    chain = desk.scheduler.schedule(
        "Report", when="in 1 hour", steps=[{"name": "load"}, {"name": "mail", "after": ["load"]}]
    ).chain
    assert chain
    for step in chain.steps:
        with pytest.raises(InvalidArgument, match="repeat: this chain runs once, and stays so") as refused:
            desk.scheduler.reschedule(step.task_id, repeat="daily at 9:00")
        assert str(refused.value).endswith("Example: repeat='never'")
        desk.scheduler.reschedule(step.task_id, repeat="never")


@pytest.mark.parametrize("came", [False, True])
def test_an_undo_of_no_upstream_leaves_an_occurrence_to_wait_for_its_event(desk: Desk, came: bool) -> None:
    wait: Any = {"wait_for": {"event": "go", "timeout": "2 hours"}, "approval": {"question": "Load?"}}
    steps: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], **wait}]
    chain = desk.scheduler.schedule("Books", repeat="daily at 9:00", steps=steps).chain
    assert chain
    load = chain.steps[1].task_id
    desk.end(desk.start(9))
    desk.nothing_due(9, 1)
    before = waits(desk, load)
    assert before[1].is_open
    token = change(desk, load, remove=["after"])
    if came:
        desk.scheduler.signals.send("go")
    undo(desk, load, token)
    upstreams, kept, known, is_asked = waits(desk, load)
    assert (upstreams, kept.wait, known, is_asked) == (before[0], before[1].wait, *before[2:])
    assert kept.is_open is not came


def test_a_change_of_what_has_started_or_ended_or_repeats_is_refused(desk: Desk) -> None:
    fetch, other, series = task(desk), task(desk, "Other", when="in 5 hours"), task(desk, "Series", repeat="daily")
    claims = desk.start(9)
    with pytest.raises(Refused, match="has already started, and what it waited for before that stays"):
        desk.scheduler.reschedule(fetch, after=[other])
    desk.end(claims)
    with pytest.raises(Refused, match="has already ended"):
        desk.scheduler.reschedule(fetch, wait_for={"event": "paid"})
    with pytest.raises(InvalidArgument, match="after: what a task that repeats waits for cannot be changed") as refused:
        desk.scheduler.reschedule(series, after=[other])
    assert refused.value.example == "title='Series', after=null"
    with pytest.raises(InvalidArgument, match=r"^valid_output: what a task that repeats waits for cannot be changed"):
        desk.scheduler.reschedule(series, valid_output={"type": "object"})
    with pytest.raises(InvalidArgument, match=r"^after_failure: what a task that repeats waits for cannot be changed"):
        desk.scheduler.reschedule(series, after_failure="skip")
    assert desk.scheduler.reschedule(series, title="Series", after=None).warnings == (NOTHING_CHANGED,)
    with pytest.raises((InvalidArgument, InvalidArguments), match="after_failure: it is for the tasks in after"):
        desk.scheduler.reschedule(other, after_failure="skip")


def test_a_question_is_added_once_and_no_change_goes_around_it(desk: Desk) -> None:
    mail = task(desk, "Mail")
    change(desk, mail, approval={"question": "Mail it?"})
    assert [message.text for message in desk.scheduler.inbox.unread()] == ["Mail it?"]
    with pytest.raises(Refused, match="has its question already, which only the user answers"):
        desk.scheduler.reschedule(mail, approval={"question": "Mail it?", "by": "1 min", "default": "approve"})
    with pytest.raises(DuetimeError, match="'approval' cannot be removed"):
        desk.scheduler.reschedule(mail, remove=["approval"])
    change(desk, mail, wait_for={"event": "paid"})
    desk.scheduler.signals.send("paid")
    assert (state(desk, mail), desk.start(9)) == (WAITING, [])
    desk.scheduler.approve(mail)
    assert len(desk.start(9, 1)) == 1


@on_each_database
def test_a_ready_run_that_gets_a_question_is_asked_for_once(desk: Desk) -> None:
    mail = task(desk, "Mail")
    desk.clock.at = at(9)
    assert len(desk.store.claims.make_ready(limit=9)) == 1
    change(desk, mail, approval={"question": "Mail it?"})
    assert (state(desk, mail), desk.start(9, 1)) == (WAITING, [])
    desk.scheduler.approve(mail)
    assert len(desk.start(9, 2)) == 1


def test_a_ready_run_leaves_the_queue_and_waits(desk: Desk) -> None:
    fetch, load = task(desk, when="in 2 hours"), task(desk, "Load")
    desk.clock.at = at(9)
    [ready] = desk.store.claims.make_ready(limit=9)
    recalled: list[str] = []
    scheduler = Scheduler(desk.store, desk.scheduler._planner, notices=ChangeNotices(recall=recalled.extend))
    token = scheduler.reschedule(load, after=[fetch]).undo
    assert (state(desk, load), recalled) == (WAITING, [ready.run_id])
    scheduler.act(load, "undo", undo=token)
    assert state(desk, load) is SCHEDULED
    assert [claim.task.id for claim in desk.start(9)] == [load]


@on_each_database
def test_urgency_is_inherited_at_once_and_given_up_with_the_edge(desk: Desk) -> None:
    fetch, load = task(desk), task(desk, "Load", priority="critical", deadline="2 hours")
    desk.scheduler.reschedule(fetch, when="in 30 min")
    desk.clock.at = at(8, 30)
    ready = {each.task_id: each.run_id for each in desk.store.claims.make_ready(limit=9)}
    rescored: list[str] = []
    desk.store.commits.listen(rescored=rescored.extend)
    token = change(desk, load, after=[fetch])
    assert rescored == [ready[fetch]]
    assert {each.task_id for each in desk.store.dependencies.waiters("local", fetch)} == {load}
    rescored.clear()
    undo(desk, load, token)
    assert rescored == [ready[fetch]]
    assert not desk.store.dependencies.waiters("local", fetch)


def test_the_same_edges_once_more_change_nothing_and_a_dry_run_stores_nothing(desk: Desk) -> None:
    fetch = task(desk)
    load = task(desk, "Load", after=[fetch])
    assert desk.scheduler.reschedule(load, after=[fetch]).undo is None
    before = waits(desk, load)
    assert desk.scheduler.reschedule(load, remove=["after"], dry_run=True).record.run.state is SCHEDULED
    assert waits(desk, load) == before


@on_each_database
def test_the_history_says_what_was_waited_for_and_what_is(desk: Desk) -> None:
    fetch, load = task(desk), task(desk, "Load")
    change(desk, load, after=[fetch], wait_for={"event": "paid"})
    [told] = [
        each for each in desk.scheduler.past.events(EventFilter(task_id=load)).events if each.after and each.before
    ]
    assert told.after is not None
    assert told.before is not None
    assert (told.before["after"], told.after["after"]) == (None, [fetch])
    assert (told.before["wait_for"], told.after["wait_for"]) == (None, "paid")


def test_the_history_of_a_step_names_the_steps_of_its_chain(desk: Desk) -> None:
    other = task(desk)
    steps: Any = [{"name": "a"}, {"name": "b", "after": ["a"]}, {"name": "c"}]
    view = desk.scheduler.schedule("Report", when="in 1 hour", steps=steps)
    assert view.chain
    [second] = [each.task_id for each in view.chain.steps if each.name == "b"]
    token = change(desk, second, after=["c", other])
    undo(desk, second, token)
    found = [
        each for each in desk.scheduler.past.events(EventFilter(task_id=second)).events if each.after and each.before
    ]
    sides = [(each.before and each.before["after"], each.after and each.after["after"]) for each in found]
    assert sides == [(["c", other], ["a"]), (["a"], ["c", other])]


def test_a_step_of_a_chain_gets_another_edge_and_a_chain_may_stand_in_after(desk: Desk) -> None:
    chain_id = task(desk, "Report", steps=[{"name": "a"}, {"name": "b"}])
    first, second = desk.scheduler.ends.tasks_of(chain_id)
    change(desk, second, after=[first])
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    assert {step.name: step.after for step in chain.steps} == {"a": (), "b": ("a",)}
    mail = task(desk, "Mail")
    change(desk, mail, after=[chain_id])
    with pytest.raises(InvalidArgument, match=f"{first} -> {mail} -> {first}"):
        desk.scheduler.reschedule(first, after=[mail])


def test_a_step_comes_after_others_of_its_chain_by_their_names(desk: Desk) -> None:
    chain_id = task(desk, "Report", steps=[{"name": "a"}, {"name": "b"}, {"name": "c"}])
    first, second, third = desk.scheduler.ends.tasks_of(chain_id)
    other = task(desk)
    tried = desk.scheduler.reschedule(third, after=["a", "b", other], dry_run=True)
    assert tried.record.run.state is WAITING
    change(desk, third, after=["a", "b", other])
    assert {each.task_id for each in desk.store.dependencies.upstreams("local", third)} == {first, second, other}
    with pytest.raises(InvalidArgument, match=f"{first} -> {third} -> {first}"):
        desk.scheduler.reschedule(first, after=["c"])
    with pytest.raises(InvalidArgument, match="would come after itself"):
        desk.scheduler.reschedule(third, after=["c"])


def test_a_name_that_is_no_step_is_refused_with_those_that_are(desk: Desk) -> None:
    chain_id, alone = task(desk, "Report", steps=[{"name": "fetch"}, {"name": "load"}]), task(desk)
    load = desk.scheduler.ends.tasks_of(chain_id)[1]
    for dry_run in (True, False):
        with pytest.raises(InvalidArgument, match=r"no step 'fecth'; did you mean fetch.*\(fetch, load\).*\['fetch'\]"):
            desk.scheduler.reschedule(load, after=["fecth"], dry_run=dry_run)
    with pytest.raises(InvalidArgument, match="there is no task 'fetch'"):
        desk.scheduler.reschedule(alone, after=["fetch"])


@on_each_database
@pytest.mark.parametrize("ready", [False, True])
def test_an_undone_removal_brings_back_the_due_time_and_no_deadline_ends_what_waits(desk: Desk, ready: bool) -> None:
    fetch = task(desk, when="in 3 hours")
    load = task(desk, "Load", when="in 5 minutes", after=[fetch], deadline="1 hour", deadline_type="hard")
    before = desk.scheduler.get(load).record.run
    desk.clock.at = at(8, 30)
    token = change(desk, load, remove=["after"])
    assert desk.scheduler.get(load).record.run.scheduled_for == at(8, 30)
    if ready:
        assert desk.store.claims.make_ready(limit=9)
    undo(desk, load, token)
    assert desk.scheduler.get(load).record.run == before


@on_each_database
def test_an_undone_edge_to_what_has_ended_brings_back_the_due_time(desk: Desk) -> None:
    fetch, load = task(desk), task(desk, "Load", when="in 5 minutes", deadline="2 hours", deadline_type="hard")
    desk.scheduler.reschedule(load, pause=True)
    desk.end(desk.start(9))
    before = desk.scheduler.get(load).record.run
    token = change(desk, load, after=[fetch])
    assert desk.scheduler.get(load).record.run.scheduled_for == at(9)
    undo(desk, load, token)
    found = desk.scheduler.get(load).record.run
    times = [(run.scheduled_for, run.deadline, run.drop_at) for run in (before, found)]
    assert (times[0], found.state) == (times[1], SCHEDULED)


@on_each_database
@pytest.mark.parametrize("ends", ["not yet", "well", "badly"])
def test_an_edge_that_an_undo_brings_back_waits_for_what_was_run_again_since(desk: Desk, ends: str) -> None:
    above, other = task(desk, when="8:30"), task(desk, when="18:00")
    below = task(desk, "Load", when="9:00", after=[above, other])
    desk.end(desk.start(8, 30))
    token = change(desk, below, after=[other])
    desk.scheduler.reschedule(above, when="now")
    if ends != "not yet":
        desk.end(desk.start(8, 30), Done("fetched") if ends == "well" else Failed("no rows"))
    undo(desk, below, token)
    if ends == "badly":
        assert state(desk, below) is State.FAILED
    else:
        assert [above in str(desk.scheduler.explain(below)[1])] == [ends == "not yet"]


def test_an_edge_to_a_series_that_an_undo_brings_back_keeps_the_end_that_it_had(desk: Desk) -> None:
    above, other = task(desk, when=None, repeat="every hour at :30"), task(desk, when="18:00")
    below = task(desk, "Load", when="9:00", after=[above, other])
    desk.end(desk.start(8, 30))
    token = change(desk, below, after=[other])
    desk.scheduler.act(above, "run_now")
    undo(desk, below, token)
    assert above not in str(desk.scheduler.explain(below)[1])
