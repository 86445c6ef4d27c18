"""Dead letters by tool: what a run was given, how often it was tried and why it failed; and another payload for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.dead_letters import MAX_REPLAYS, DeadLetterFilter
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.service.letters.letter_call import USUAL_LETTERS_COUNT
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of, settled

URL = "https://example.com/orders"
HOOK: Mapping[str, Any] = {"url": URL, "headers": {"Authorization": "Bearer abcdefgh12345678"}, "body": "order 7"}
MASKED: Mapping[str, Any] = {"url": URL, "headers": {"Authorization": "***"}, "body": "order 7"}


STEP: Mapping[str, Any] = {"action": "webhook", "payload": {"url": URL}}


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(
        store,
        Planner(Handlers.load(entry_points=False), "UTC", channels=Channels(), upstreams=store.dependencies.known),
    )


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def failed(ask: Ask, store: Store, clock: Clock, **payload: Any) -> str:
    _, made = ask("schedule_task", title="Push to the CRM", action="webhook", when="now", payload={**HOOK, **payload})
    settled(store, clock(), Failed("404 Not Found"))
    return str(made["id"])


def test_the_history_of_a_failed_task_shows_its_letter_and_no_other_answer_does(
    ask: Ask, store: Store, clock: Clock
) -> None:
    task_id = failed(ask, store, clock)
    text, shown = ask("get_task", task_id=task_id, history=True)
    letter = shown["letter"]
    assert (letter["state"], letter["attempts"], letter["reason"]) == ("open", 1, "404 Not Found")
    assert {name: letter["payload"][name] for name in MASKED} == MASKED
    assert "Dead letter r_" in text
    assert "(open) since 2026-11-" in text
    assert "1 attempt, «404 Not Found». Its payload: «" in text
    assert "abcdefgh12345678" not in text
    for answer in (ask("get_task", task_id=task_id)[1], ask("schedule_task", title="x", when="in 1 hour")[1]):
        assert "letter" not in answer
    ask("change_tasks", change="discard", task_ids=[task_id], reason="sent by hand")
    assert ask("get_task", task_id=task_id, history=True)[1]["letter"]["state"] == "discarded"


def test_a_long_payload_is_cut_for_a_model_and_whole_for_a_card(ask: Ask, store: Store, clock: Clock) -> None:
    task_id = failed(ask, store, clock, body="x" * 5_000)
    cut = ask("get_task", task_id=task_id, history=True)[1]["letter"]
    assert (cut["cut"], len(cut["payload"])) == (True, 1_200)
    whole = ask("get_task", task_id=task_id, history=True, keep_unread=True)[1]["letter"]
    assert ("cut" in whole, len(whole["payload"]["body"])) == (False, 5_000)


def test_a_payload_that_is_edited_as_it_is_shown_keeps_its_secrets(ask: Ask, store: Store, clock: Clock) -> None:
    task_id = failed(ask, store, clock)
    edited = {**MASKED, "body": "order 8"}
    _, again = ask("reschedule_task", task_id=task_id, payload=edited, when="now")
    stored = store.tasks.get("local", task_id).task.payload
    assert (stored["headers"], stored["body"]) == (HOOK["headers"], "order 8")
    assert store.dead_letters.get("local", store.tasks.get("local", task_id).run.repeats or "").replayed_as
    ask("act_on_task", task_id=task_id, action="undo", undo=again["undo"])
    assert store.tasks.get("local", task_id).task.payload["body"] == "order 7"
    _, shown = ask("get_task", task_id=task_id, history=True)
    assert shown["letter"]["state"] == "open"


def test_a_replay_with_another_payload_keeps_the_secrets_that_it_shows(
    ask: Ask, store: Store, clock: Clock, scheduler: Scheduler
) -> None:
    task_id = failed(ask, store, clock)
    run_id = store.tasks.get("local", task_id).run.id
    scheduler.letters.replay([run_id], payload={**MASKED, "body": "order 9"})
    stored = store.tasks.get("local", task_id).task.payload
    assert (stored["headers"], stored["body"]) == (HOOK["headers"], "order 9")


def test_a_discard_refuses_what_has_never_failed_and_counts_once_what_is_done(
    ask: Ask, store: Store, clock: Clock
) -> None:
    well = ask("schedule_task", title="Ping", action="webhook", when="now", payload={"url": URL})[1]["id"]
    settled(store, clock(), Done("200"))
    task_id = failed(ask, store, clock)
    said = {"change": "discard", "task_ids": [well, task_id]}
    text, done = ask("change_tasks", **said, reason="sent by hand")
    rows = {row["id"]: row for row in done["tasks"]}
    assert (rows[well]["became"], rows[well]["why"]) == ("refused", f"{well} has not failed.")
    assert text.startswith("Discarded the dead letters of 1 task; 1 refused it.")
    again = ask("change_tasks", change="discard", task_ids=[task_id], reason="once more")[1]
    assert (again["bulk"]["unchanged"], again["tasks"][0]["became"]) == (1, "unchanged")
    assert ask("change_tasks", change="discard", task_ids=[well], dry_run=True)[1]["bulk"]["refused"] == 1


def test_a_discard_of_a_chain_means_the_steps_that_failed_by_themselves(
    scheduler: Scheduler, ask: Ask, store: Store, clock: Clock
) -> None:
    steps = [{"name": "push", **STEP}, {"name": "tell", "after": ["push"], **STEP}]
    chain = ask("schedule_task", title="Sync", steps=steps)[1]
    push, tell = (step["id"] for step in chain["chain"]["steps"])
    settled(store, clock(), Failed("404 Not Found"))
    alone = ask("change_tasks", change="discard", task_ids=[tell], dry_run=True)[1]
    assert alone["tasks"][0]["why"] == f"{tell} left no dead letter: a task before it failed."
    done = ask("change_tasks", change="discard", task_ids=[chain["id"]], reason="too late")[1]
    assert [row["id"] for row in done["tasks"]] == [push]
    ask("change_tasks", change="replay", task_ids=[chain["id"]])
    with pytest.raises(Refused, match=r"no step of c_.* has failed"):
        scheduler.bulk.change("discard", [chain["id"]], reason="too late")


def test_a_replay_of_a_chain_without_a_failed_step_is_refused_once_and_a_repeated_one_is_not(
    scheduler: Scheduler, ask: Ask, store: Store, clock: Clock
) -> None:
    chain = ask("schedule_task", title="Sync", steps=[{"name": "push", **STEP}, {"name": "tell", **STEP}])[1]
    with pytest.raises(Refused, match=r"no step of c_.* has failed"):
        scheduler.bulk.change("replay", [chain["id"]])
    settled(store, clock(), Failed("404 Not Found"))
    done = [ask("change_tasks", change="replay", task_ids=[chain["id"]])[1] for _ in range(2)]
    assert [[each["bulk"]["changed"], "refused" in each["bulk"]] for each in done] == [[2, False]] * 2


@pytest.fixture
def series(ask: Ask, store: Store, clock: Clock) -> str:
    """Return a series whose first run failed and whose second succeeded, so that its letter is open."""
    given: Mapping[str, Any] = {"when": "in 1 hour", "repeat": "every hour", "payload": {"url": URL}}
    made = ask("schedule_task", title="Import", action="webhook", **given)[1]
    for outcome in (Failed("404 Not Found"), Done("200")):
        clock.forward(hours=1)
        settled(store, clock(), outcome)
    return str(made["id"])


def test_a_series_that_went_on_after_a_failure_is_found_by_its_open_letter(ask: Ask, series: str) -> None:
    assert [row["id"] for row in ask("list_tasks", state="dead_letter")[1]["tasks"]] == [series]
    assert ask("list_tasks", state="failed")[1]["tasks"] == []
    assert ask("get_task", task_id=series, history=True)[1]["letter"]["reason"] == "404 Not Found"
    ask("change_tasks", change="discard", task_ids=[series], reason="by hand")
    assert ask("list_tasks", state="dead_letter")[1]["tasks"] == []


@pytest.mark.parametrize("which", [{"expect": 1}, {"expect": 1, "action": "webhook"}, {"task_ids": "it"}])
def test_a_replay_runs_the_run_of_an_open_letter_again(
    ask: Ask, store: Store, clock: Clock, series: str, which: Mapping[str, Any]
) -> None:
    asked = {**which, "task_ids": [series]} if "task_ids" in which else which
    text, done = ask("change_tasks", change="replay", **asked)
    assert done["bulk"]["changed"] == 1, text
    [again] = store.tasks.get("local", series).side_runs
    [letter] = store.dead_letters.page("local", DeadLetterFilter(state=None), limit=9)[0]
    assert (letter.replayed_as, again.repeats) == (again.id, letter.run_id)
    assert done["tasks"][0]["was"] == utc(clock() - timedelta(hours=1))
    ask("change_tasks", change="undo", undo=done["bulk"]["undo"])
    assert store.dead_letters.page("local", limit=9)[0][0].run_id == letter.run_id


@pytest.mark.parametrize("which", [{}, {"action": "webhook"}, {"state": "open"}])
def test_a_discard_by_any_filter_means_the_open_letters(ask: Ask, series: str, which: Mapping[str, Any]) -> None:
    seen = ask("change_tasks", change="discard", reason="by hand", **which)[1]
    assert (seen["bulk"]["changed"], [row["id"] for row in seen["tasks"]]) == (1, [series])
    assert ask("change_tasks", change="discard", reason="by hand", expect=1, **which)[1]["bulk"]["changed"] == 1


def test_the_newest_open_letter_is_shown_before_a_newer_closed_one(
    ask: Ask, store: Store, clock: Clock, scheduler: Scheduler, series: str
) -> None:
    clock.forward(hours=1)
    settled(store, clock(), Failed("500 Oops"))
    assert ask("get_task", task_id=series, history=True)[1]["letter"]["reason"] == "500 Oops"
    newest = store.dead_letters.page("local", limit=9)[0][0]
    scheduler.letters.discard([newest.run_id], reason="by hand")
    assert ask("get_task", task_id=series, history=True)[1]["letter"]["reason"] == "404 Not Found"


def test_a_series_that_has_ended_well_refuses_a_replay_with_the_reason(ask: Ask, store: Store, clock: Clock) -> None:
    given: Mapping[str, Any] = {"when": "in 1 hour", "repeat": "every hour", "max_runs": 2, "payload": {"url": URL}}
    task_id = ask("schedule_task", title="Import", action="webhook", **given)[1]["id"]
    for outcome in (Failed("404 Not Found"), Done("200")):
        clock.forward(hours=1)
        settled(store, clock(), outcome)
    [row] = ask("change_tasks", change="replay")[1]["tasks"]
    assert (row["id"], row["became"]) == (task_id, "refused")
    assert f"{task_id} has ended, and its last run succeeded." in row["why"]


def test_a_replay_by_filter_takes_the_oldest_up_to_its_maximum_and_says_how_many_are_left(
    ask: Ask, store: Store, clock: Clock
) -> None:
    ids = []
    for _ in range(3):
        ids.append(failed(ask, store, clock))
        clock.forward(minutes=2)
    seen, found = ask("change_tasks", change="replay", max_letters=2)
    assert "This would replay 2 tasks; 1 more matches, left to another call." in seen
    assert {row["id"] for row in found["tasks"]} == set(ids[:2])
    text, done = ask("change_tasks", change="replay", max_letters=2, expect=found["bulk"]["expect"])
    assert text.startswith("Replayed 2 tasks; 1 more matches, left to another call.")
    assert (done["bulk"]["changed"], done["bulk"]["left"]) == (2, 1)
    text, rest = ask("change_tasks", change="replay")
    assert [row["id"] for row in rest["tasks"]] == ids[2:]
    assert "left" not in rest["bulk"]
    again = ask("change_tasks", change="replay", task_ids=ids[2:])[1]
    assert again["bulk"]["changed"] == 1


def test_a_replay_by_filter_has_the_usual_maximum_of_dead_letters(
    scheduler: Scheduler, ask: Ask, store: Store, clock: Clock
) -> None:
    for _ in range(USUAL_LETTERS_COUNT + 1):
        scheduler.schedule("Push", action="webhook", payload=dict(STEP["payload"]), when="now")
    for _ in range(2):
        settled(store, clock(), Failed("404 Not Found"))
    found = ask("change_tasks", change="replay")[1]["bulk"]
    assert (found["expect"], found["left"]) == (USUAL_LETTERS_COUNT, 1)


def test_a_run_that_was_replayed_too_often_takes_no_place_of_a_replay(ask: Ask, store: Store, clock: Clock) -> None:
    spent = failed(ask, store, clock)
    for _ in range(MAX_REPLAYS):
        clock.forward(minutes=2)
        ask("change_tasks", change="replay", task_ids=[spent])
        settled(store, clock(), Failed("404 Not Found"))
    clock.forward(minutes=2)
    fresh = failed(ask, store, clock)
    done = ask("change_tasks", change="replay", max_letters=1)[1]
    rows = {row["id"]: row for row in done["tasks"]}
    assert (rows[spent]["became"], "became" in rows[fresh], done["bulk"].get("left")) == ("refused", False, None)


def test_only_a_replay_takes_a_maximum(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidArgument, match=r"max_letters: only a replay takes it.* Example: max_letters=null"):
        scheduler.bulk.change("cancel", max_letters=3)
    with pytest.raises(InvalidArgument, match="max_letters: out of range"):
        scheduler.bulk.change("replay", max_letters=0)


def test_a_replay_by_filter_starts_no_second_run_next_to_one_that_has_begun(
    ask: Ask, store: Store, clock: Clock, series: str
) -> None:
    clock.forward(hours=1)
    settled(store, clock(), Retry("busy"))
    [row] = ask("change_tasks", change="replay")[1]["tasks"]
    assert row["became"] == "refused"
    assert "has a run that is retrying" in row["why"]
    assert "name its id to replay it anyway" in row["why"]
    assert ask("change_tasks", change="replay", task_ids=[series])[1]["bulk"]["changed"] == 1
