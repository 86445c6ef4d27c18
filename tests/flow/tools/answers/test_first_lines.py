"""The first two lines of every answer can be read out to a person: no ids, no quotations, no names of tools."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime import Context, handler
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Handlers, reminder
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.records import Change
from duetime.scheduler.rules.settlement import words_and_note
from duetime.scheduler.rules.states import BLOCKED_PREFIX
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.tools.registration import definitions
from duetime.tools.schedule_task import REMINDER
from duetime.widgets.formats.speech import speech
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.summary import away, look
from duetime.widgets.text.task_text import task_text
from duetime.widgets.vocabulary import STATE_LABELS, look_of, word_of

from tests.flow.tools.calls import Ask, asked_of, settled

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
NEW_YORK = "America/New_York"
TITLE = "t_title «obey» \"me\" 'now'"
TOOLS = [tool.name for tool in definitions(REMINDER)]


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@handler("render")
def render(_ctx: Context) -> Done:
    return Done()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ask(store: Store) -> Ask:
    return asked_of(Scheduler(store, Planner(Handlers([reminder, render]), NEW_YORK)))


def assert_speakable(text: str) -> None:
    lines = text.splitlines()[:2]
    assert len(lines) == 2, text
    for line in lines:
        assert re.search(r"\b[a-z]_[0-9a-z]{6,}|[«»\"'_`=/]", line) is None, line
        assert not any(tool in line for tool in TOOLS), line
        assert (line[0].isupper() or line[0].isdigit(), line[-1]) == (True, "."), line


def test_every_answer_begins_with_two_lines_that_can_be_read_out(ask: Ask, store: Store, clock: Clock) -> None:
    series: dict[str, Any] = {"title": TITLE, "repeat": "every weekday at 9:00", "payload": {"message": "«obey»"}}
    _, made = ask("schedule_task", **series)
    _, other = ask("schedule_task", title=TITLE, when="in 1 minute", action="render", labels=["t_label"])
    named = {"task_id": made["id"]}
    texts = [
        ask("list_tasks")[0],
        ask("schedule_task", **series)[0],
        ask("schedule_task", **series, dry_run=True)[0],
        ask("reschedule_task", **named, pause=True)[0],
        ask("reschedule_task", **named, pause=False)[0],
        ask("reschedule_task", **named, skip_next=True)[0],
        ask("act_on_task", **named, action="run_now")[0],
    ]
    clock.now += timedelta(minutes=2)
    texts.append(ask("get_task", task_id=other["id"])[0])
    settled(store, clock.now, Failed("t_reason «obey»"))
    texts += [
        ask("get_task", task_id=other["id"], history=True)[0],
        ask("get_task", **named)[0],
        ask("list_tasks", state="failed")[0],
        ask("list_tasks", query="none has this")[0],
        ask("list_tasks", before="next week")[0],
        ask("cancel_task", **named)[0],
        ask("act_on_task", **named, action="undo")[0],
    ]

    for text in texts:
        assert_speakable(text)


def test_an_empty_list_can_be_read_out_too(ask: Ask) -> None:
    assert_speakable(ask("list_tasks")[0])


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", ["reminder", "render"])
def test_the_first_line_has_the_word_of_the_state(ask: Ask, store: Store, state: State, action: str) -> None:
    _, made = ask("schedule_task", title="Call", when="in 1 hour", action=action)
    payload = TaskPayload.model_validate({**made, "state": state, "last_run": {"state": state, "ended": made["now"]}})

    first = task_text(payload).splitlines()[0]
    assert word_of(look(payload)) in first.lower()
    assert look(payload) in STATE_LABELS


def test_a_look_is_the_state_unless_something_stands_before_it() -> None:
    late: dict[str, Any] = {"late": timedelta(minutes=2)}
    assert look_of(State.SCHEDULED, "reminder", late=timedelta(0)) == "scheduled"
    assert look_of(State.SCHEDULED, "reminder", **late) == "overdue"
    assert look_of(State.READY, "reminder", **late) == "ready"
    assert look_of(State.READY, "reminder", **late, paused=True) == "paused"
    assert look_of(State.RUNNING, "reminder", **late, stopping=True, paused=True) == "stopping"
    assert look_of(State.RUNNING, "reminder", **late, paused=True, damaged=True) == "damaged"
    assert look_of(State.SUCCEEDED, "reminder", **late, paused=True) == "reminded"
    assert look_of(State.SUCCEEDED, "render", **late) == "succeeded"


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(0), "now"),
        (timedelta(seconds=1), "in 1 second"),
        (timedelta(minutes=59, seconds=29), "in 59 minutes"),
        (timedelta(minutes=60), "in 1 hour"),
        (timedelta(minutes=90), "in 90 minutes"),
        (timedelta(minutes=119, seconds=29), "in 119 minutes"),
        (timedelta(hours=2, minutes=30), "in 3 hours"),
        (timedelta(hours=2, minutes=29), "in 2 hours"),
        (timedelta(hours=-40), "yesterday"),
        (timedelta(hours=35), "in 35 hours"),
        (timedelta(hours=64), "in 3 days"),
        (timedelta(minutes=-5), "5 minutes ago"),
    ],
)
def test_distances_are_one_rounded_number(span: timedelta, said: str) -> None:
    assert away(NOW + span, NOW, "America/Denver") == said


def test_a_time_on_the_next_day_is_tomorrow() -> None:
    morning = NOW - timedelta(hours=9)
    assert away(morning + timedelta(hours=36), morning, "America/Denver") == "tomorrow"


# --- outcomes ---------------------------------------------------------------------------------------------------------


def after(ask: Ask, store: Store, clock: Clock, outcome: Outcome, **task: Any) -> tuple[str, dict[str, Any]]:
    _, made = ask("schedule_task", **{"title": "Call", "when": "in 1 minute", **task})
    clock.now += timedelta(minutes=5)
    settled(store, clock.now, outcome)
    return ask("get_task", task_id=made["id"])


def test_an_ended_task_says_when_and_names_the_call_that_runs_it_again(ask: Ask, store: Store, clock: Clock) -> None:
    text, task = after(ask, store, clock, Failed("no such host"), action="render")

    assert text.splitlines()[0] == "The task failed Sat 21 Nov 2026 18:05 New York time, now."
    assert "Last run failed «no such host», delivered to inbox." in text
    assert f'reschedule_task(task_id="{task["id"]}", when="now") runs it again' in text
    assert ask("reschedule_task", task_id=task["id"], when="now")[1]["state"] == "scheduled"


@pytest.mark.parametrize(
    ("late", "said"), [(0, "It is due now."), (5, "Its time was Sat 21 Nov 2026 18:05 New York time, ")]
)
def test_a_task_that_is_ready_says_when_it_was_due_or_that_it_is_due_now(
    ask: Ask, store: Store, clock: Clock, late: int, said: str
) -> None:
    _, made = ask("schedule_task", title="Call", action="render", when="in 5 minutes")
    clock.now += timedelta(minutes=5)
    store.claims.make_ready(limit=1)
    clock.now += timedelta(seconds=late)
    text, _ = ask("get_task", task_id=made["id"])
    assert text.startswith(f"The task is ready to start. {said}"), text


def test_a_task_that_may_not_start_before_its_time_says_so(ask: Ask) -> None:
    text, _ = ask("schedule_task", title="Call", when="in 5 minutes", approval=True)
    first = text.splitlines()[0]
    time = "Sat 21 Nov 2026 18:05 New York time, in 5 minutes"
    assert first == f"The reminder is waiting for the user's answer. It starts no earlier than {time}."


def test_a_snoozed_outcome_comes_before_the_next_run_of_its_series(ask: Ask, store: Store, clock: Clock) -> None:
    _, made = ask("schedule_task", title="Stand up", repeat="every day at 00:30", timezone="UTC")
    clock.now = NOW + timedelta(minutes=90)
    settled(store, clock.now, Done())
    said, _ = ask("act_on_task", task_id=made["id"], action="snooze", minutes=10)
    assert said.splitlines()[0] == (
        "The reminder comes again Sun 22 Nov 2026 00:40 UTC, in 10 minutes. "
        "The reminder is scheduled for Mon 23 Nov 2026 00:30 UTC, in 24 hours."
    )
    [row] = ask("list_tasks")[1]["tasks"]
    assert row["when"] == "2026-11-22T00:40:00Z", "the list has it where it comes next"
    rows = ask("list_tasks", before="tuesday")[1]["tasks"]
    assert [each["when"] for each in rows][:2] == ["2026-11-22T00:40:00Z", "2026-11-23T00:30:00Z"]
    _, payload = ask("get_task", task_id=made["id"])
    assert speech(TaskPayload.model_validate(payload)).endswith(
        ". It comes again today at twelve forty in the morning."
    )


def test_a_run_next_to_its_series_is_said_before_the_next_run_of_that(ask: Ask) -> None:
    _, made = ask("schedule_task", title="Stand up", repeat="every day at 00:30", timezone="UTC")
    series = "The reminder is scheduled for Sun 22 Nov 2026 00:30 UTC, in 90 minutes."
    said, payload = ask("act_on_task", task_id=made["id"], action="run_now")
    assert said.splitlines()[0] == f"An extra run of the reminder is due now. {series}"
    assert speech(TaskPayload.model_validate(payload)).endswith(". An extra run of it is due now.")
    assert ask("get_task", task_id=made["id"])[0].startswith("An extra run of the reminder is due now. ")
    assert (payload["extra_run"]["state"], payload["extra_run"]["when"]["relative"]) == ("scheduled", "now")
    assert payload["when"]["utc"] == "2026-11-22T00:30:00Z", "the time of its series stays as it is"
    assert "warnings" not in payload, "no note says again when it comes"
    _, other = ask("schedule_task", title="Lunch", when="in 30 minutes")
    text, page = ask("list_tasks")
    rows = [(row["id"], row["state"], row["when"]) for row in page["tasks"]]
    assert rows == [
        (made["id"], "scheduled", "2026-11-21T23:00:00Z"),
        (other["id"], "scheduled", "2026-11-21T23:30:00Z"),
    ]
    assert "Sat 21 Nov 23:00 «Stand up» (repeats; its own next time Sun 22 Nov 00:30)" in text
    said, payload = ask("reschedule_task", task_id=made["id"], pause=True)
    assert "is due now" not in said
    assert "extra_run" not in payload


def test_an_extra_run_that_is_under_way_is_what_a_task_does_now(ask: Ask, store: Store) -> None:
    _, made = ask("schedule_task", title="Stand up", repeat="every day at 00:30", timezone="UTC")
    ask("act_on_task", task_id=made["id"], action="run_now")
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=9)]
    store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
    said, payload = ask("get_task", task_id=made["id"])
    assert said.startswith("An extra run of the reminder is running now. The reminder is scheduled for")
    assert (payload["state"], payload["extra_run"]["state"]) == ("scheduled", "running")
    assert speech(TaskPayload.model_validate(payload)).endswith(". An extra run of it is running now.")
    text, page = ask("list_tasks")
    assert [(row["state"], row["when"]) for row in page["tasks"]] == [("running", "2026-11-21T23:00:00Z")]
    assert "23:00 running «Stand up»" in text
    text, page = ask("list_tasks", state="scheduled")
    assert [(row["state"], row["when"]) for row in page["tasks"]] == [("scheduled", "2026-11-22T00:30:00Z")]
    assert "running" not in text
    for given in ({"state": "running"}, {"state": "running", "before": "tomorrow"}):
        text, page = ask("list_tasks", **given)
        assert text.startswith("1 running.\n")
        assert [(row["state"], row["when"]) for row in page["tasks"]] == [("running", "2026-11-21T23:00:00Z")]
    own = replace(store.tasks.get("local", made["id"]).run, summary=f"{BLOCKED_PREFIX}secret 'crm'")
    store.tasks.change("local", made["id"], actor="w", kind=EventKind.RUN_NOW, decide=lambda it: Change(it.task, own))
    for given, shown in (({}, ("scheduled", True)), ({"state": "running"}, ("running", None))):
        _, page = ask("list_tasks", **given)
        assert [(row["state"], row.get("blocked")) for row in page["tasks"]] == [shown]


def test_the_deadline_of_an_extra_run_is_its_own_or_none(ask: Ask) -> None:
    args = {"repeat": "every day at 00:30", "timezone": "UTC", "deadline": "2 hours"}
    _, made = ask("schedule_task", title="Report", **args)
    _, payload = ask("act_on_task", task_id=made["id"], action="run_now")
    assert payload["deadline"] == made["deadline"]
    assert payload["extra_run"]["deadline"]["utc"] == "2026-11-22T01:00:00Z"
    [row] = ask("list_tasks")[1]["tasks"]
    assert row["deadline"] == "2026-11-22T01:00:00Z"


def test_a_snoozed_outcome_does_not_come_before_the_end_of_a_pause(ask: Ask, store: Store, clock: Clock) -> None:
    _, made = ask("schedule_task", title="Stand up", repeat="every day at 00:30", timezone="UTC")
    clock.now = NOW + timedelta(minutes=90)
    settled(store, clock.now, Done())
    ask("act_on_task", task_id=made["id"], action="snooze", minutes=10)
    said, payload = ask("reschedule_task", task_id=made["id"], pause_until="today 15:00")
    assert said.startswith("The reminder comes again Sun 22 Nov 2026 15:00 UTC, in 15 hours. The reminder is paused")
    assert speech(TaskPayload.model_validate(payload)).endswith(" It comes again today at three in the afternoon.")
    said, payload = ask("reschedule_task", task_id=made["id"], pause=True)
    assert "comes again" not in said + speech(TaskPayload.model_validate(payload))


def test_a_message_is_not_repeated_as_the_outcome_of_its_reminder(ask: Ask, store: Store, clock: Clock) -> None:
    text, task = after(ask, store, clock, Done("Bring  coffee"), payload={"message": "Bring coffee"})

    assert text.splitlines()[0].startswith("The user was reminded Sat 21 Nov 2026 18:05")
    assert text.count("Bring coffee") == 1
    assert "summary" not in task["last_run"]


def test_a_quotation_of_a_message_has_the_users_words_only(ask: Ask, store: Store, clock: Clock) -> None:
    after(ask, store, clock, Done("Bring coffee (two cups)"))
    text, page = ask("list_tasks")

    due = "(late: was due Sat 21 Nov 2026 18:01 America/New_York)"
    assert f"«Call»: «Bring coffee (two cups)» {due} t_" in text
    assert (page["unread"][0]["text"], page["unread"][0]["note"]) == ("Bring coffee (two cups)", due)


@pytest.mark.parametrize(
    "text",
    ["Tea (2 earlier occurrences missed) ", "Tea (late: was due obey me now)", "(1 earlier occurrence missed) Tea", ""],
)
def test_only_our_own_note_at_the_end_is_taken_for_one(text: str) -> None:
    assert words_and_note(text) == (text, "")


def test_the_wait_between_attempts_reads_as_a_sentence(ask: Ask, store: Store, clock: Clock) -> None:
    text, _ = after(ask, store, clock, Retry("no such host", timedelta(hours=2)), action="render")
    assert re.search(r"Waiting for attempt 2.* in 2 h.*, after: «no such host»\.", text)


def test_a_retry_that_is_ready_says_which_attempt_it_is(ask: Ask, store: Store, clock: Clock) -> None:
    _, task = after(ask, store, clock, Retry("no such host", timedelta(hours=2)), action="render")
    clock.now += timedelta(hours=2)
    store.claims.make_ready(limit=1)
    said, _ = ask("get_task", task_id=task["id"])
    row = next(line for line in ask("list_tasks")[0].splitlines() if line.startswith(task["id"]))

    assert said.startswith(
        "The task is ready to start its next attempt. Its first was due Sat 21 Nov 2026 18:01 New York"
    )
    assert re.search(r"render «Call», America/New_York, attempt 2 of \d\.", said)
    assert re.search(r" ready, attempt 2 of \d, «Call»", row)


def test_a_history_that_only_the_user_sees_leaves_its_outcomes_unread(ask: Ask, store: Store, clock: Clock) -> None:
    _, task = after(ask, store, clock, Done("Bring coffee"))
    named = {"task_id": task["id"], "history": True}

    assert len(ask("get_task", **named, keep_unread=True)[1]["unread"]) == 1
    assert ask("list_tasks")[1]["unread_count"] == 1
    ask("get_task", **named)
    assert "unread" not in ask("list_tasks")[1]


def test_a_run_says_how_far_it_is_while_it_goes_on(ask: Ask, store: Store, clock: Clock) -> None:
    _, made = ask("schedule_task", title="Render", action="render", when="in 1 minute")
    clock.now += timedelta(minutes=1)
    [claim] = store.claims.start(
        [Start(run.run_id) for run in store.claims.make_ready(limit=9)],
        worker="w",
        epoch=None,
        lease=timedelta(seconds=30),
    )
    store.claims.progress(claim.run.id, claim.run.attempt, {"fraction": 0.4, "text": "frame 40"})

    assert ask("get_task", task_id=made["id"])[1]["progress"] == {"part": 0.4, "text": "frame 40"}


def test_the_reason_for_which_a_reminder_did_not_come_is_a_quotation(ask: Ask, store: Store, clock: Clock) -> None:
    text, _ = after(ask, store, clock, Failed("obey me"), action="render")
    assert "obey me" not in "".join(text.splitlines()[:2])
    assert "«obey me»" in text
