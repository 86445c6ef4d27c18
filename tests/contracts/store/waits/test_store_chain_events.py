"""Chains that recur and wait for events: a step waits for its own in each generation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.invariants import assert_sound

FETCH: StepArguments = {"name": "fetch"}
MAIL: StepArguments = {"name": "mail", "after": ["fetch"]}
READY = {"event": "ready", "timeout": "20 min"}
SCHEDULED, WAITING, SUCCEEDED = State.SCHEDULED, State.WAITING, State.SUCCEEDED
EXPIRED, SKIPPED, CANCELLED = State.EXPIRED, State.SKIPPED, State.CANCELLED


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def report(desk: Desk, *steps: StepArguments, **more: Any) -> str:
    """Schedule an hourly chain; its first generation is due at 9."""
    return desk.scheduler.schedule("Report", repeat="every hour at :00", steps=list(steps), **more).record.task.id


def waiting_mail(**more: Any) -> StepArguments:
    return {**MAIL, "wait_for": {**READY, **more}}


def states(desk: Desk, chain_id: str) -> list[State]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def step(desk: Desk, chain_id: str, name: str) -> str:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return next(each.task_id for each in chain.steps if each.name == name)


def current(desk: Desk, chain_id: str, name: str) -> Run:
    return desk.scheduler.get(step(desk, chain_id, name)).record.run


def starts(desk: Desk, hour: int, minute: int = 0) -> list[str]:
    """Start and end what may run; return the titles of the steps."""
    claims = desk.start(hour, minute)
    desk.end(claims)
    return [claim.task.title for claim in claims]


def send(desk: Desk, hour: int, minute: int, **data: Any) -> int:
    desk.clock.at = at(hour, minute)
    return desk.scheduler.signals.send("ready", data).freed


def too_late(desk: Desk, hour: int, minute: int) -> list[str]:
    desk.clock.at = at(hour, minute)
    return desk.store.signals.end_late(limit=9)


def span(desk: Desk, chain_id: str, name: str) -> tuple[datetime, datetime]:
    """Return from when to when the event of a step is awaited."""
    run = current(desk, chain_id, name)
    kept = desk.store.signals.wait_of_run("local", run.task_id, run.id)
    assert kept
    assert kept.is_open
    return kept.wait.since, kept.wait.until


def sound(desk: Desk) -> None:
    assert_sound(desk.store)
    assert desk.store.dependencies.repair(limit=99) == 0


def test_a_step_waits_for_an_event_of_its_own_in_each_generation(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    for hour in (9, 10, 11):
        assert states(desk, chain_id) == [SCHEDULED, WAITING]
        assert starts(desk, hour) == ["Report: fetch"]
        desk.nothing_due(hour, 2)
        assert states(desk, chain_id) == [SUCCEEDED, WAITING]
        assert span(desk, chain_id, "mail") == (at(hour), at(hour, 22)), "its time to wait begins with its turn"
        [waits] = desk.scheduler.get(chain_id).waiting_for
        assert "the event 'ready'" in waits
        assert send(desk, hour, 5) == 1
        assert starts(desk, hour, 5) == ["Report: mail"]
        assert current(desk, chain_id, "fetch").number == hour - 7
    sound(desk)


def test_an_event_that_comes_while_the_step_before_it_runs_counts_in_that_generation_alone(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    claims = desk.start(9)
    assert send(desk, 9, 1) == 0, "nothing waits yet"
    desk.clock.at = at(9, 10)
    desk.end(claims)
    assert current(desk, chain_id, "mail").scheduled_for == at(9, 10), "its turn has come"
    desk.nothing_due(9, 12)
    assert starts(desk, 9, 12) == ["Report: mail"]
    assert starts(desk, 10) == ["Report: fetch"]
    desk.nothing_due(10, 1)
    desk.nothing_due(10, 1)
    assert states(desk, chain_id) == [SUCCEEDED, WAITING], "that event was of the generation before"
    sound(desk)


def test_the_first_steps_wait_for_the_event_of_the_chain_and_one_event_lets_all_of_them_go(desk: Desk) -> None:
    look: StepArguments = {"name": "look"}
    chain_id = report(desk, FETCH, look, {**MAIL, "after": ["fetch", "look"]}, wait_for=READY)
    for hour in (9, 10):
        desk.nothing_due(hour)
        assert states(desk, chain_id) == [WAITING] * 3
        assert send(desk, hour, 3) == 2
        assert set(starts(desk, hour, 3)) == {"Report: fetch", "Report: look"}
        assert starts(desk, hour, 3) == ["Report: mail"]
    sound(desk)


@pytest.mark.parametrize(("then", "ends"), [(None, EXPIRED), ("skip", SKIPPED), ("run", SUCCEEDED)])
def test_a_timeout_ends_that_generation_alone(desk: Desk, then: str | None, ends: State) -> None:
    chain_id = report(desk, FETCH, waiting_mail(**({"on_timeout": then} if then else {})))
    for hour in (9, 10):
        assert starts(desk, hour) == ["Report: fetch"]
        desk.nothing_due(hour, 2)
        mail = step(desk, chain_id, "mail")
        assert too_late(desk, hour, 21) == []
        assert too_late(desk, hour, 22) == [mail]
        if then == "run":
            assert starts(desk, hour, 22) == ["Report: mail"]
        else:
            desk.nothing_due(hour, 22)
        assert states(desk, chain_id) == [SCHEDULED, WAITING], "the next generation is there"
        assert desk.runs(mail)[hour] is ends
    sound(desk)


def test_a_step_that_comes_after_one_that_waited_in_vain_ends_with_it(desk: Desk) -> None:
    chain_id = report(desk, {**FETCH, "wait_for": READY}, MAIL)
    desk.nothing_due(9)
    assert too_late(desk, 9, 20) == [step(desk, chain_id, "fetch")]
    assert desk.runs(step(desk, chain_id, "mail")) == {9: State.FAILED, 10: WAITING}
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    sound(desk)


def test_a_step_waits_for_no_event_once_the_step_before_it_has_failed(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    desk.end(desk.start(9), Failed("no rows"))
    assert desk.runs(step(desk, chain_id, "mail"))[9] is State.FAILED
    assert send(desk, 9, 5) == 0
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    sound(desk)


def test_a_cancel_ends_the_wait_and_the_series_and_its_undo_waits_again(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 2)
    view = desk.scheduler.cancel(chain_id)
    assert states(desk, chain_id) == [SUCCEEDED, CANCELLED]
    assert send(desk, 9, 3) == 0
    assert view.undo
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    desk.nothing_due(9, 4)
    assert starts(desk, 9, 4) == ["Report: mail"], "the event that has come since lets it go"
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    sound(desk)


def test_run_now_starts_a_step_without_its_event(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 2)
    desk.scheduler.act(step(desk, chain_id, "mail"), "run_now")
    assert starts(desk, 9, 3) == ["Report: mail"]
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    sound(desk)


def test_a_pause_holds_the_wait_and_a_paused_chain_begins_none(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 2)
    desk.scheduler.reschedule(chain_id, pause=True)
    assert send(desk, 9, 5) == 1
    desk.nothing_due(9, 5)
    desk.scheduler.reschedule(chain_id, pause=False)
    assert starts(desk, 9, 6) == ["Report: mail"]
    desk.scheduler.reschedule(chain_id, pause=True)
    desk.nothing_due(10)
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    sound(desk)


def test_another_event_of_a_step_holds_for_the_generation_that_waits_and_none_lets_it_go(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    mail = step(desk, chain_id, "mail")
    desk.scheduler.reschedule(mail, wait_for={"event": "done", "timeout": "1 hour"})
    assert states(desk, chain_id) == [SCHEDULED, WAITING], "it waits for the step before it"
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 2)
    assert span(desk, chain_id, "mail") == (at(9), at(10, 2))
    desk.scheduler.reschedule(mail, wait_for={"event": "ready", "timeout": "1 hour"})
    desk.nothing_due(9, 3)
    assert send(desk, 9, 4) == 1
    assert starts(desk, 9, 4) == ["Report: mail"]
    desk.scheduler.reschedule(mail, remove=["wait_for"])
    assert [starts(desk, 10), starts(desk, 10)] == [["Report: fetch"], ["Report: mail"]]
    sound(desk)


def test_a_step_that_is_to_wait_from_now_on_does_so_in_each_generation(desk: Desk) -> None:
    chain_id = report(desk, FETCH, MAIL)
    mail = step(desk, chain_id, "mail")
    tried = desk.scheduler.reschedule(mail, wait_for=READY, dry_run=True)
    assert tried.record.task.asks is not None
    desk.scheduler.reschedule(mail, wait_for=READY)
    for hour in (9, 10):
        assert states(desk, chain_id) == [SCHEDULED, WAITING]
        assert starts(desk, hour) == ["Report: fetch"]
        desk.nothing_due(hour, 2)
        assert send(desk, hour, 5) == 1
        assert starts(desk, hour, 5) == ["Report: mail"]
    sound(desk)


@on_each_database
def test_a_step_whose_turn_has_come_waits_at_once_when_it_is_told_to(desk: Desk) -> None:
    chain_id = report(desk, FETCH, MAIL)
    assert starts(desk, 9) == ["Report: fetch"]
    assert [run.task_id for run in desk.store.claims.make_ready(limit=9)] == [step(desk, chain_id, "mail")]
    desk.scheduler.reschedule(step(desk, chain_id, "mail"), wait_for=READY)
    desk.nothing_due(9, 1)
    assert states(desk, chain_id) == [SUCCEEDED, WAITING]
    assert send(desk, 9, 2) == 1
    assert starts(desk, 9, 2) == ["Report: mail"]
    sound(desk)


def test_a_moved_generation_waits_at_its_new_time(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    desk.scheduler.reschedule(chain_id, when="9:30")
    assert states(desk, chain_id) == [SCHEDULED, WAITING], "it waits for the step before it"
    assert send(desk, 8, 59) == 0, "before its generation was due"
    desk.nothing_due(9, 29)
    assert starts(desk, 9, 30) == ["Report: fetch"]
    desk.nothing_due(9, 31)
    assert send(desk, 9, 32) == 1
    assert starts(desk, 9, 32) == ["Report: mail"]
    assert current(desk, chain_id, "fetch").scheduled_for == at(10)
    sound(desk)


@on_each_database
@pytest.mark.parametrize("looked", [False, True], ids=["at once", "when it waits for the other one"])
def test_an_undone_change_of_the_event_of_a_step_waits_for_the_old_one_again(desk: Desk, *, looked: bool) -> None:
    chain_id = report(desk, FETCH, waiting_mail())
    mail = step(desk, chain_id, "mail")
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 2)
    view = desk.scheduler.reschedule(mail, wait_for={"event": "done"})
    if looked:
        desk.nothing_due(9, 2)
    assert view.undo
    desk.scheduler.act(mail, "undo", undo=view.undo)
    desk.nothing_due(9, 2)
    assert states(desk, chain_id) == [SUCCEEDED, WAITING]
    assert send(desk, 9, 5) == 1
    assert starts(desk, 9, 5) == ["Report: mail"]
    sound(desk)


def test_a_failed_step_that_runs_again_lets_the_step_behind_it_wait(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail(), max_runs=1)
    desk.end(desk.start(9), Failed("no rows"))
    assert states(desk, chain_id) == [State.FAILED, State.FAILED]
    desk.scheduler.act(step(desk, chain_id, "fetch"), "run_now")
    assert starts(desk, 9, 5) == ["Report: fetch"]
    desk.nothing_due(9, 6)
    assert send(desk, 9, 7) == 1
    assert starts(desk, 9, 7) == ["Report: mail"]
    assert states(desk, chain_id) == [SUCCEEDED, SUCCEEDED]
    sound(desk)


def turn(desk: Desk, **wait: Any) -> tuple[str, str]:
    """Return a chain whose step `mail` waits for its event since 9:01, and that step."""
    chain_id = report(desk, FETCH, waiting_mail(**wait))
    assert starts(desk, 9) == ["Report: fetch"]
    desk.nothing_due(9, 1)
    return chain_id, step(desk, chain_id, "mail")


@pytest.mark.parametrize("repeats", [True, False], ids=["each run", "each generation"])
def test_the_undo_of_a_wait_that_has_begun_lets_the_run_go(desk: Desk, *, repeats: bool) -> None:
    if repeats:
        task_id = desk.scheduler.schedule("Report: mail", repeat="every hour at :00").record.task.id
        desk.clock.at = at(9)
    else:
        chain_id = report(desk, FETCH, MAIL)
        task_id = step(desk, chain_id, "mail")
        assert starts(desk, 9) == ["Report: fetch"]
    view = desk.scheduler.reschedule(task_id, wait_for=READY)
    desk.nothing_due(9)
    assert view.undo
    desk.scheduler.act(task_id, "undo", undo=view.undo)
    assert starts(desk, 9) == ["Report: mail"]
    assert send(desk, 9, 2) == 0
    sound(desk)


@on_each_database
def test_a_step_that_is_moved_while_it_waits_does_so_from_its_new_time(desk: Desk) -> None:
    chain_id, mail = turn(desk)
    assert desk.scheduler.act(mail, "snooze", minutes=30).record.run.state is SCHEDULED
    assert too_late(desk, 9, 23) == []
    desk.nothing_due(9, 32)
    assert span(desk, chain_id, "mail")[1] == at(9, 52)
    desk.scheduler.reschedule(mail, when="9:40", wait_for={"event": "done", "timeout": "1 hour"})
    desk.nothing_due(9, 40)
    assert span(desk, chain_id, "mail")[1] == at(10, 40)
    desk.scheduler.reschedule(mail, when="9:45", remove=["wait_for"])
    assert starts(desk, 9, 45) == ["Report: mail"]
    sound(desk)


def test_a_step_that_comes_after_another_task_since_waits_for_its_event_in_its_turn(desk: Desk) -> None:
    chain_id, mail = turn(desk)
    other = desk.scheduler.schedule("Other", when="9:30").record.task.id
    desk.scheduler.reschedule(mail, after=[other])
    assert too_late(desk, 9, 21) == [], "its turn has not come"
    assert starts(desk, 9, 30) == ["Other"]
    desk.nothing_due(9, 31)
    assert span(desk, chain_id, "mail") == (at(9), at(9, 51))
    sound(desk)


def test_an_undone_cancel_waits_until_the_same_time(desk: Desk) -> None:
    chain_id, mail = turn(desk)
    desk.clock.at = at(9, 15)
    view = desk.scheduler.cancel(mail)
    assert view.undo
    desk.scheduler.act(mail, "undo", undo=view.undo)
    desk.nothing_due(9, 16)
    assert span(desk, chain_id, "mail")[1] == at(9, 21)
    sound(desk)


def test_a_step_that_runs_again_waits_for_an_event_since_its_generation_was_due(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail(), max_runs=1)
    desk.end(desk.start(9), Failed("no rows"))
    assert send(desk, 9, 10) == 0
    desk.clock.at = at(9, 30)
    desk.scheduler.act(step(desk, chain_id, "fetch"), "run_now")
    assert starts(desk, 9, 30) == ["Report: fetch"]
    desk.nothing_due(9, 31)
    assert starts(desk, 9, 31) == ["Report: mail"]
    sound(desk)


def test_the_answer_to_a_change_says_until_when_the_event_is_awaited(desk: Desk) -> None:
    _, mail = turn(desk)
    said = "the event 'ready', until Mon 23 Nov 2026 09:21 (in 20 min), then it expires"
    assert desk.scheduler.reschedule(mail, labels=["x"]).waiting_for == (said,)


@pytest.mark.parametrize("given", [{"repeat": "every hour at :30"}, {"max_runs": 3}, {"until": "2026-12-01"}])
def test_a_step_gets_no_rule_of_its_own(desk: Desk, given: Any) -> None:
    chain_id = report(desk, FETCH, MAIL)
    with pytest.raises(DuetimeError, match=f"with the id of the chain.*{chain_id}"):
        desk.scheduler.reschedule(step(desk, chain_id, "mail"), **given)


def test_a_wait_that_a_step_cannot_repeat_is_refused_by_its_name(desk: Desk) -> None:
    said = "starts each run at its time, and waits for the event from then on"
    mail = waiting_mail(or_when=True)
    with pytest.raises(DuetimeError, match=rf"steps\.mail\.wait_for.*{said}"):
        report(desk, FETCH, mail)
    assert desk.scheduler.tasks.list().views == ()


def test_it_says_what_it_will_wait_for_before_it_is_due(desk: Desk) -> None:
    chain_id = report(desk, FETCH, waiting_mail(on_timeout="skip"))
    then = "for the event 'ready', for 20 min at most, then it is skipped"
    said = "the event 'ready', from its turn on for 20 min at most, then it is skipped"
    assert desk.scheduler.get(step(desk, chain_id, "mail")).waiting_for[1:] == (said,)
    root = report(desk, FETCH, MAIL, wait_for={**READY, "on_timeout": "skip"})
    assert desk.scheduler.explain(root)[1] == [f"fetch: its time: Mon 23 Nov 2026 09:00 UTC (in 1 h); then {then}"]
    kinds = [each.kind for each in desk.scheduler.past.events(EventFilter(task_id=step(desk, chain_id, "mail"))).events]
    assert kinds == [EventKind.CREATED]
