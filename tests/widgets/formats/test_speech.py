"""Speech of a task: one or two sentences, without ids and symbols, with times as people say them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView
from duetime.widgets.formats.speech import FIRST_SENTENCES, speech, with_speech
from duetime.widgets.formats.spoken_words import number, ordinal, spoken_time, spoken_title, spoken_year
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.vocabulary import STATE_LABELS
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Clock
from tests.widgets.sample import NOW, a_task, deadline, stamp, weekly

MONDAY = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)  # 8 in the morning in Edmonton
ZONE = "America/Edmonton"


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (timedelta(hours=1), "today at nine in the morning"),
        (timedelta(hours=25, minutes=30), "tomorrow at half past nine in the morning"),
        (timedelta(hours=-16), "yesterday at four in the afternoon"),
        (timedelta(hours=4), "today at noon"),
        (timedelta(hours=16), "tomorrow at midnight"),
        (timedelta(hours=13, minutes=45), "today at quarter to ten in the evening"),
        (timedelta(hours=14, minutes=5), "today at ten oh five at night"),
        (timedelta(days=3, minutes=15), "on Thursday at quarter past eight in the morning"),
        (timedelta(days=20, minutes=42), "on Sunday, December the thirteenth at eight forty two in the morning"),
        (timedelta(days=67), "on Friday, January the twenty ninth twenty twenty seven at eight in the morning"),
        (timedelta(days=-7), "on Monday, November the sixteenth at eight in the morning"),
    ],
)
def test_a_time_is_said_as_people_say_it(away: timedelta, said: str) -> None:
    assert spoken_time(MONDAY + away, ZONE, MONDAY) == said


def test_days_and_years_are_said_in_words() -> None:
    assert [ordinal(day) for day in (1, 12, 20, 21, 30, 31)] == [
        "first", "twelfth", "twentieth", "twenty first", "thirtieth", "thirty first",
    ]  # fmt: skip
    assert [spoken_year(year) for year in (2007, 2030, 2061, 1999)] == [
        "2007",
        "twenty thirty",
        "twenty sixty one",
        "1999",
    ]
    assert [number(count) for count in (0, 40, 99, 100)] == ["zero", "forty", "ninety nine", "100"]


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Call John", "Call John"),
        ("Send R&D report #4 (50% off)!", "Send R and D report 4 50 percent off"),
        ("Fix t_7k3m9qx2w4hb now", "Fix now"),
        ("** 🎉 **", "Your task"),
        ("Zoë’s birthday", "Zoë’s birthday"),
        ("Retry 7k3m9qx2w4hb", "Retry"),
    ],
)
def test_a_title_is_said_without_symbols_and_ids(title: str, said: str) -> None:
    assert spoken_title(title) == said


@given(st.text(max_size=300))
def test_any_title_can_be_said(title: str) -> None:
    said = spoken_title(title)
    assert 0 < len(said) <= 80
    assert not re.search(r"[<>{}\[\]|\\/#*_`~^$&%@+=]", said)


@pytest.fixture
def scheduler() -> Scheduler:
    store: Store = open_store("sqlite://", clock=Clock(MONDAY))
    return Scheduler(store, Planner(Handlers.load(entry_points=False), ZONE))


def said(view: TaskView, **run: Any) -> str:
    record = replace(view.record, run=replace(view.record.run, **run))
    return speech(task_payload(replace(view, record=record)))


def test_a_task_is_said_in_one_or_two_sentences(scheduler: Scheduler) -> None:
    once = scheduler.schedule("Call John", when="tomorrow 9am")
    assert said(once) == "Call John is scheduled for tomorrow at nine in the morning."
    often = scheduler.schedule("Stand-up", repeat="every weekday at 9:15", when="tomorrow 9:15")
    assert said(often) == "Stand-up is scheduled for tomorrow at quarter past nine in the morning. It repeats."
    due = scheduler.schedule("Pay", when="tomorrow 9am", deadline="friday 17:00")
    assert said(due).endswith(" It has to be finished by Friday at five in the afternoon.")


def test_there_is_a_sentence_for_each_look_of_the_vocabulary() -> None:
    assert FIRST_SENTENCES.keys() == STATE_LABELS.keys()


@pytest.mark.parametrize("state", [*State])
def test_every_state_is_said_in_at_most_two_sentences_without_symbols(scheduler: Scheduler, state: State) -> None:
    view = scheduler.schedule("Call John", when="tomorrow 9am")
    text = said(view, state=state, ended_at=MONDAY if state.value in {"succeeded", "failed"} else None)
    assert 1 <= text.count(".") <= 2
    assert re.fullmatch(r"[A-Za-z ,.]+", text), text


IN_AN_HOUR = NOW + timedelta(hours=1)  # 5 in the afternoon in Denver
AN_HOUR_AGO = NOW - timedelta(hours=1)


def spoken(**parts: Any) -> str:
    """Return the sentences of the payload of a sample, whose time is Tuesday at nine in the morning."""
    return speech(TaskPayload.model_validate(a_task(title="Pay", **parts)))


def asked(title: str | None = "Pay 3 bills, now?", ends: bool = True) -> dict[str, Any]:
    waits = {"kind": "approval", "title": title, "until": stamp(IN_AN_HOUR) if ends else None}
    return {"state": "waiting", "waits": [{name: part for name, part in waits.items() if part is not None}]}


def event(said: str) -> dict[str, Any]:
    wait = {"kind": "event", "event": "order.paid, order.gift", "until": stamp(IN_AN_HOUR)}
    return {"state": "waiting", "waiting_for": [said], "waits": [wait]}


def after(*titles: str, more: bool = False) -> dict[str, Any]:
    waits = [{"kind": "task", "task": "t_7k3m9qx2w4hb", "title": title} for title in titles]
    return {"state": "waiting", "waits": waits + [{"kind": "task"}] * more}


def chain(state: str, done: int, *failed: str, ended: bool = False, **parts: Any) -> dict[str, Any]:
    shown = {"id": "c_7k3m9qx2w4hb", "title": "Pay", "done": done, "of": 3, "failed": list(failed) or None}
    last = {"last_run": {"state": state, "ended": stamp(AN_HOUR_AGO)}} if ended else {}
    return {"state": state, "action": "chain", "chain": shown, **last, **parts}


def outcome(state: str = "succeeded", **parts: Any) -> dict[str, Any]:
    return {"last_run": {"state": state, "ended": stamp(AN_HOUR_AGO), **parts}}


DUE = "Tuesday at nine in the morning"
APPROVAL = "Pay is waiting for approval."
TODAY = "today at three in the afternoon"
FIVE = "today at five in the afternoon"
COMING = f"Pay is scheduled for {DUE}."
PAID = "Pay is waiting for the event order.paid or order.gift."
BLOCKED = "Pay is blocked, and continues once its requirements are met."
NAMED_QUESTION = f"{APPROVAL} The question is, Pay 3 bills, now, and it has to be answered by {FIVE}."
SENTENCES: list[tuple[dict[str, Any], str]] = [
    (asked(), NAMED_QUESTION),
    (asked(None), f"{APPROVAL} It has to be answered by {FIVE}."),
    (asked("{}", ends=False), APPROVAL),
    (
        event("the event 'order.paid' or 'order.gift', until 5, then it expires"),
        f"{PAID} It waits until {FIVE}.",
    ),
    (
        event("the event 'order.paid' or 'order.gift', or 5 at the latest"),
        f"{PAID} It starts at the latest {FIVE}.",
    ),
    (after("Fetch it"), "Pay is waiting for Fetch it, which has to end first."),
    (after("Fetch it", "Sign it"), "Pay is waiting for two other tasks."),
    (after("Fetch it", more=True), "Pay is waiting for other tasks."),
    ({"state": "waiting"}, "Pay is waiting, and continues by itself."),
    (
        {"state": "suspended", "waits": [{"kind": "step", "until": stamp(IN_AN_HOUR)}]},
        f"Pay is waiting, and continues by itself {FIVE}.",
    ),
    (
        {"state": "retrying", "waits": [{"kind": "attempt", "until": stamp(IN_AN_HOUR), "after": "503"}]},
        f"Pay failed and will be tried again {FIVE}.",
    ),
    (
        {"blocked": True, "waits": [{"kind": "blocked", "after": "secret 'crm': there is none of this name"}]},
        f"{BLOCKED} It says, secret crm, there is none of this name.",
    ),
    (
        {"state": "ready", "waits": [{"kind": "pool", "pool": "gpu"}]},
        "Pay is ready to start. It waits for capacity that others use.",
    ),
    ({"state": "running", "progress": {"part": 0.4}}, "Pay is running now. It is forty percent done."),
    ({"state": "running", "progress": {"part": 0, "unknown": True, "text": "2 looks"}}, "Pay is running now."),
    ({"paused": True}, "Pay is paused."),
    (
        {"paused": True, "paused_until": stamp(IN_AN_HOUR)},
        f"Pay is paused until {FIVE}. It is due on {DUE}.",
    ),
    (
        {"state": "succeeded", "action": "webhook", **outcome(unverified="no id")},
        f"Pay was done {TODAY}. Its result is not what was expected.",
    ),
    ({"repeat": weekly(), **outcome("failed")}, f"{COMING} Its last run failed {TODAY}."),
    (
        {"repeat": weekly(), **outcome(unverified="no id")},
        f"{COMING} The result of its last run is not what was expected.",
    ),
    ({"repeat": {**weekly(), "approval": {}}}, f"{COMING} It repeats, and asks for approval before each run."),
    (
        {"repeat": {**weekly(), "wait_for": {"event": "paid"}}},
        f"{COMING} It repeats, and waits for an event before each run.",
    ),
    ({"deadline": deadline(IN_AN_HOUR), "repeat": weekly()}, f"{COMING} It has to be finished by {FIVE}."),
    (
        {"relative_deadline": {"text": "2 h after it can start", "type": "hard", "after": "2 h"}},
        f"{COMING} It has to be finished within 2 h after it can start.",
    ),
    (chain("scheduled", 0), f"{COMING} It has three steps."),
    (chain("running", 1), "Pay is running now. One of its three steps is done."),
    (
        chain("running", 0, "fetch_it"),
        "Pay is running now. None of its three steps are done, and the step fetch it failed.",
    ),
    (chain("failed", 1, "a", "b", ended=True), f"Pay failed {TODAY}. One of its three steps was done, and two failed."),
    (
        chain("failed", 2, "mail", ended=True),
        f"Pay failed {TODAY}. Two of its three steps were done, and the step mail failed.",
    ),
    (chain("succeeded", 3, ended=True), f"Pay was done {TODAY}."),
    (chain("waiting", 0, waits=asked()["waits"]), NAMED_QUESTION),
]


@pytest.mark.parametrize(("parts", "said"), SENTENCES)
def test_a_task_says_what_it_waits_for_how_far_it_is_and_what_went_wrong(parts: dict[str, Any], said: str) -> None:
    assert spoken(**parts) == said
    assert re.fullmatch(r"[A-Za-z23 ,.]+", said)


def test_programs_get_the_sentences_and_models_do_not(scheduler: Scheduler) -> None:
    payload = task_payload(scheduler.schedule("Call John", when="tomorrow 9am"))
    assert "speech" not in as_json(payload)
    assert as_json(with_speech(payload))["speech"].startswith("Call John is scheduled for tomorrow")
