"""Waits that end without what they were for, as answers say it: why, what it does to the task, what can be undone."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.outcomes import Failed, Outcome, Wait
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView
from duetime.widgets.formats.speech import speech
from duetime.widgets.payload import task_words
from duetime.widgets.schema.task import TaskPayload

from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of
from tests.virtual import VirtualRunner

STEPS = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
PAID = {"event": "paid", "timeout": "1 hour"}


@handler("look")
def look(ctx: Context) -> Outcome:
    """Look for an event, and give up without one."""
    if ctx.checkpoint_state is None:
        return Wait(event="seen", checkpoint=1)
    return Failed("nothing was seen", expired=True)


@pytest.fixture
def runner(store: Store, clock: Clock) -> VirtualRunner:
    return VirtualRunner(store, clock, Handlers.load(added=[look]), "UTC", {})


@pytest.fixture
def ask(runner: VirtualRunner) -> Ask:
    return asked_of(runner.scheduler)


def passed(runner: VirtualRunner, clock: Clock, **span: int) -> None:
    """Let time pass, with all that runs and ends in it."""
    clock.forward(**span)
    runner.dispatch()
    while claims := runner.take(9):
        for claim in claims:
            runner.end(claim, runner.attempt(claim))
        runner.dispatch()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"wait_for": PAID}, "no event came in time"),
        ({"wait_for": PAID, "deadline": "in 5 hours", "deadline_type": "hard"}, "no event came in time"),
        ({"wait_for": PAID, "deadline": "in 30 min", "deadline_type": "soft"}, "no event came in time"),
        (
            {"wait_for": {"event": "paid"}, "deadline": "in 1 hour", "deadline_type": "hard"},
            "its deadline could no longer be met",
        ),
    ],
)
def test_an_expired_task_says_what_ran_out(
    ask: Ask, runner: VirtualRunner, clock: Clock, given: dict[str, Any], why: str
) -> None:
    task_id = ask("schedule_task", title="Ship", **given)[1]["id"]
    passed(runner, clock, hours=2)
    text, found = ask("get_task", task_id=task_id)
    assert f": {why}." in text.splitlines()[0]
    assert f", because {why}." in speech(TaskPayload(**found))


def test_a_run_that_gave_up_after_it_had_begun_says_that_its_time_was_up(
    ask: Ask, runner: VirtualRunner, clock: Clock
) -> None:
    task_id = ask("schedule_task", title="Look", action="look")[1]["id"]
    passed(runner, clock, minutes=1)
    passed(runner, clock, days=31)
    assert ": its time was up." in ask("get_task", task_id=task_id)[0].splitlines()[0]


@pytest.mark.parametrize("steps", [None, STEPS])
def test_an_occurrence_that_no_event_let_go_is_the_last_run_and_a_message(
    ask: Ask, runner: VirtualRunner, clock: Clock, steps: list[dict[str, Any]] | None
) -> None:
    parts: dict[str, Any] = {"steps": steps} if steps else {}
    wait = {**PAID, "on_timeout": "skip"}
    task_id = ask("schedule_task", title="Ship", repeat="every day at 13:00", wait_for=wait, **parts)[1]["id"]
    passed(runner, clock, hours=2)
    ask("send_event", name="paid")
    passed(runner, clock, minutes=1)
    assert "Last run succeeded" in ask("get_task", task_id=task_id)[0] or steps
    ask("get_task", task_id=task_id, history=True)
    passed(runner, clock, days=1)
    passed(runner, clock, hours=2)
    assert "Last run skipped «it did not run: no event 'paid' came in time»" in ask("get_task", task_id=task_id)[0]
    assert "skipped: «it did not run: no event 'paid' came in time»" in ask("list_tasks")[0]


@pytest.mark.parametrize("notify", ["failure", "never"])
def test_a_skip_that_nobody_wants_to_know_of_is_read_already(
    ask: Ask, runner: VirtualRunner, clock: Clock, notify: str
) -> None:
    wait = {**PAID, "on_timeout": "skip"}
    ask("schedule_task", title="Ship", action="look", wait_for=wait, notify=notify)
    passed(runner, clock, hours=2)
    assert "unread" not in ask("list_tasks")[0].lower()


def test_a_chain_that_recurs_says_what_each_generation_waits_for(ask: Ask) -> None:
    daily = {"repeat": "every day at 13:00", "steps": STEPS}
    text, found = ask("schedule_task", title="Books", wait_for=PAID, **daily)
    said = "Each generation waits for the event 'paid', for 1 h at most, then it expires."
    assert said in text
    assert said in ask("get_task", task_id=found["id"])[0]
    own = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "wait_for": PAID}]
    text, _ = ask("schedule_task", title="Load", repeat="every day at 13:00", steps=own)
    assert "Step load waits each time for the event 'paid', for 1 h at most, then it expires." in text


def test_a_wait_that_ends_before_its_task_is_due_is_noted(ask: Ask) -> None:
    def noted(**given: Any) -> bool:
        text, _ = ask("schedule_task", title=f"Ship {given}"[:80], when="tomorrow 9:00", **given)
        return "the timeout counts from now: without the event it " in text

    assert noted(wait_for=PAID)
    assert noted(wait_for={**PAID, "on_timeout": "skip"})
    assert noted(wait_for=PAID, steps=STEPS)
    assert not noted(wait_for={**PAID, "on_timeout": "run"}), "it runs at its time all the same"
    assert not noted(wait_for={**PAID, "timeout": "3 days"})
    assert not noted(wait_for={"event": "paid", "or_when": True})
    made = ask("schedule_task", title="Thank", when="tomorrow 9:00")[1]["id"]
    changed, _ = ask("reschedule_task", task_id=made, wait_for=PAID)
    assert "the timeout counts from now: without the event it expires Tue 24 Nov 2026 13:00" in changed
    assert "the timeout counts" not in ask("reschedule_task", task_id=made, wait_for={**PAID, "timeout": "3 days"})[0]


@pytest.mark.parametrize(
    ("match", "member"),
    [
        ({"id": {"gt": 7}}, "id"),
        ({"id": {"$in": [7, 8]}}, "id"),
        ({"state": ["paid", "waived"]}, "state"),
        ({"order": {"total": {"gte": 1, "lte": 9}}}, "order.total"),
        ({"order.id": 7, "by": {"name": "Ann"}}, None),
        ({"gt": 7, "note": {}}, None),
    ],
)
def test_a_match_that_looks_like_a_comparison_is_noted(ask: Ask, match: dict[str, Any], member: str | None) -> None:
    said = "match compares values for equality"
    noted = f"{said}, so {member!r} has to be exactly this"
    wait = {"event": "paid", "match": match}
    text, found = ask("schedule_task", title="Ship", wait_for=wait)
    several, _ = ask("schedule_task", title="Send", wait_for={"any": [{"event": "waived"}, wait]})
    plain = ask("schedule_task", title="Pack", wait_for=PAID)[1]["id"]
    changed, _ = ask("reschedule_task", task_id=plain, wait_for=wait)
    steps, _ = ask("schedule_task", title="Books", steps=[{"name": "fetch", "wait_for": wait}])
    series, _ = ask("schedule_task", title="Daily", repeat="every day at 13:00", wait_for=wait)
    for answer in (text, several, changed, steps, series):
        assert (noted in answer) == (member is not None), answer
        assert member or said not in answer
    assert found["id"]


def test_a_task_that_was_cancelled_with_another_offers_no_undo_and_says_why(ask: Ask, runner: VirtualRunner) -> None:
    first = ask("schedule_task", title="Fetch", when="tomorrow")[1]["id"]
    second = ask("schedule_task", title="Load", after=[first])[1]["id"]
    token = ask("cancel_task", task_id=first)[1]["undo"]
    assert "undo" not in ask("get_task", task_id=second)[1]
    with pytest.raises(Refused, match=rf"not cancelled itself: it did not run: {first} \(Fetch\) was cancelled\."):
        runner.scheduler.act(second, "undo")
    ask("act_on_task", task_id=first, action="undo", undo=token)


def test_a_chain_that_was_cancelled_as_nobody_answered_says_so(ask: Ask, runner: VirtualRunner, clock: Clock) -> None:
    asks = {"question": "Go?", "by": "1 hour"}
    chain_id = ask("schedule_task", title="Books", when="in 3 hours", steps=STEPS, approval=asks)[1]["id"]
    passed(runner, clock, hours=2)
    text, _ = ask("get_task", task_id=chain_id)
    assert "Last run cancelled «nobody answered until Tue 24 Nov 2026 13:00 UTC»" in text


def test_a_cancel_of_a_run_that_has_begun_says_that_it_stays(ask: Ask, runner: VirtualRunner, clock: Clock) -> None:
    final = "its run has begun, so the cancel cannot be undone"
    task_id = ask("schedule_task", title="Look", action="look")[1]["id"]
    passed(runner, clock, minutes=1)
    text, found = ask("cancel_task", task_id=task_id)
    assert final in text
    assert "undo" not in found
    later = ask("schedule_task", title="Look later", action="look", when="tomorrow")[1]["id"]
    assert final not in ask("cancel_task", task_id=later)[0]


def test_a_pause_that_outlasts_the_hard_deadline_is_noted(ask: Ask) -> None:
    bound = {"when": "tomorrow 9:00", "deadline": "tomorrow 12:00", "deadline_type": "hard"}
    task_id = ask("schedule_task", title="File", **bound)[1]["id"]
    note = "its hard deadline Wed 25 Nov 2026 12:00 passes first: it expires when the pause ends"
    assert note in ask("reschedule_task", task_id=task_id, pause_until="friday")[0]
    assert note not in ask("reschedule_task", task_id=task_id, pause_until="tomorrow 10:00")[0]


def test_a_pause_of_a_chain_that_outlasts_the_hard_deadline_of_a_step_is_noted_with_its_name(ask: Ask) -> None:
    bound = {"when": "tomorrow 9:00", "deadline": "tomorrow 12:00", "deadline_type": "hard"}
    chain_id = ask("schedule_task", title="Books", steps=[{"name": "a"}, {"name": "b", "after": ["a"]}], **bound)[1][
        "id"
    ]
    note = "b: its hard deadline Wed 25 Nov 2026 12:00 passes first: it expires when the pause ends"
    assert note in ask("reschedule_task", task_id=chain_id, pause_until="friday", dry_run=True)[0]
    assert note not in ask("reschedule_task", task_id=chain_id, pause_until="tomorrow 10:00")[0]
    assert note in ask("reschedule_task", task_id=chain_id, pause_until="friday")[0]


def test_a_paused_step_keeps_its_name_as_it_is(ask: Ask) -> None:
    found = ask("schedule_task", title="Books", when="tomorrow", steps=[{"name": "a"}, {"name": "b"}])[1]
    steps = {step["name"]: step["id"] for step in found["chain"]["steps"]}
    ask("reschedule_task", task_id=steps["b"], pause=True)
    assert "Step b: paused: " in ask("get_task", task_id=found["id"])[0]
    ask("reschedule_task", task_id=found["id"], pause=True)
    assert "Paused: " in ask("get_task", task_id=found["id"])[0]


def test_a_retry_policy_is_said_in_a_clause_where_the_caller_gave_one(ask: Ask) -> None:
    text, _ = ask("schedule_task", title="Load", action="look", retry={"max_attempts": 4, "backoff_seconds": 3600})
    assert "it is tried again up to 3 times, about 1 h apart" in text
    assert "tried again" not in ask("schedule_task", title="Fetch", action="look")[0]


def test_the_notes_on_waits_retries_and_pauses_have_kinds_for_cards(runner: VirtualRunner) -> None:
    def kinds(view: TaskView) -> list[dict[str, Any]]:
        return list((task_words(view).sentences or {}).values())

    schedule: Any = runner.scheduler.schedule
    early = {"kind": "early_end", "at": "2026-11-24T13:00:00+00:00"}
    assert early in kinds(schedule("Ship", when="tomorrow 9:00", wait_for=PAID))
    assert early in kinds(schedule("Ships", when="tomorrow 9:00", wait_for=PAID, steps=STEPS))
    tries = kinds(schedule("Load", action="look", retry={"max_attempts": 4, "backoff_seconds": 3600}))
    assert tries == [{"kind": "retried", "count": "4", "pause": "1 h"}]
    assert kinds(schedule("Fetch", action="look", retry={"max_attempts": 1})) == [{"kind": "not_retried"}]

    bound = schedule("File", when="tomorrow 9:00", deadline="2026-11-25T12:00:00Z", deadline_type="hard")
    paused = runner.scheduler.reschedule(bound.record.task.id, pause_until="friday")
    assert {"kind": "deadline_in_pause", "deadline": "2026-11-25T12:00:00+00:00"} in kinds(paused)

    daily = {"repeat": "every day at 13:00", "wait_for": PAID}
    assert {"kind": "event_each_time", "event": "paid"} in kinds(schedule("Books", **daily))
    assert {"kind": "event_each_time", "event": "paid"} in kinds(schedule("Chain", **daily, steps=STEPS))
    own: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "wait_for": PAID}]
    chain = schedule("Own", repeat="every day at 13:00", steps=own)
    assert kinds(chain) == [{"kind": "step_event_each_time", "step": "load", "event": "paid"}]
