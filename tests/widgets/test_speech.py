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
from duetime.widgets.formats.speech import (
    FIRST_SENTENCES,
    ordinal,
    speech,
    spoken_time,
    spoken_title,
    spoken_year,
    with_speech,
)
from duetime.widgets.payload import as_json, task_payload
from duetime.widgets.vocabulary import WORDS
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import Clock

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
    assert [spoken_year(year) for year in (2007, 2030, 2061, 1999)] == ["2007", "twenty thirty", "twenty 61", "1999"]


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Call John", "Call John"),
        ("Send R&D report #4 (50% off)!", "Send R and D report 4 50 percent off"),
        ("Fix t_7k3m9qx2w4hb now", "Fix t now"),
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
    assert FIRST_SENTENCES.keys() == WORDS.keys()


@pytest.mark.parametrize("state", [*State])
def test_every_state_is_said_in_at_most_two_sentences_without_symbols(scheduler: Scheduler, state: State) -> None:
    view = scheduler.schedule("Call John", when="tomorrow 9am")
    text = said(view, state=state, ended_at=MONDAY if state.value in {"succeeded", "failed"} else None)
    assert 1 <= text.count(".") <= 2
    assert re.fullmatch(r"[A-Za-z ,.]+", text), text


def test_programs_get_the_sentences_and_models_do_not(scheduler: Scheduler) -> None:
    payload = task_payload(scheduler.schedule("Call John", when="tomorrow 9am"))
    assert "speech" not in as_json(payload)
    assert as_json(with_speech(payload))["speech"].startswith("Call John is scheduled for tomorrow")
