"""Remedies of errors: data below, and a sentence in the syntax of each front end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from duetime.scheduler import remedies
from duetime.scheduler.errors import MAX_REFUSAL_BYTES, Refused, StaleRevision, TaskNotFound
from duetime.scheduler.remedies import PLAIN_WORDS, ErrorWords, Remedy
from duetime.server.python.words import METHOD_SENTENCES
from duetime.server.words.command_words import COMMAND_SENTENCES, COMMAND_WORDS
from duetime.server.words.rest_words import REST_SENTENCES, REST_WORDS
from duetime.tools.registration import definitions
from duetime.tools.schedule_task import REMINDER
from duetime.widgets.tool_words import TOOL_SENTENCES, TOOL_WORDS

ROOT = Path(__file__).resolve().parents[4]
TOOL = re.compile("|".join(tool.name for tool in definitions(REMINDER)))
COMMAND = re.compile(r"`duetime |(?<!-)--\w")
SAMPLES: tuple[Remedy, ...] = (
    remedies.Resume("t_1"),
    remedies.Cancel("t_1"),
    remedies.ScheduleAnother(),
    remedies.Inspect("t_1"),
    remedies.ListAll(),
    remedies.RepeatAtRevision("t_1", 7),
    remedies.UseNewKey("t_1"),
    remedies.UseNewKeyForChange(),
    remedies.MoveDeadline("t_1"),
    remedies.MoveEarlier("t_1"),
    remedies.RunAgain("t_1"),
    remedies.GiveRule("t_1"),
    remedies.RaiseMaxRuns("t_1", 3),
    remedies.SplitCall("t_1"),
    remedies.UndoMany("u_b1"),
    remedies.UndoLater("t_1", "u_3"),
    remedies.RunFailedSteps("c_1"),
    remedies.ListKeys(),
    remedies.CreateKey(),
    remedies.ListSecrets(),
    remedies.ListWorkers(),
    remedies.ListChains(),
    remedies.SetShadow(),
)


def test_every_remedy_has_a_sentence_in_each_front_end() -> None:
    kinds = set(get_args(Remedy))

    assert {type(sample) for sample in SAMPLES} == kinds
    assert set(TOOL_SENTENCES) == kinds
    assert set(COMMAND_SENTENCES) == kinds
    assert set(METHOD_SENTENCES) == kinds
    assert set(REST_SENTENCES) == kinds


@pytest.mark.parametrize("remedy", SAMPLES, ids=lambda remedy: type(remedy).__name__)
def test_a_remedy_names_what_its_reader_can_call_and_nothing_else(remedy: Remedy) -> None:
    called, typed, plain, sent = (
        words.remedy(remedy) for words in (TOOL_WORDS, COMMAND_WORDS, PLAIN_WORDS, REST_WORDS)
    )

    assert not COMMAND.search(called)
    assert not TOOL.search(typed)
    assert not TOOL.search(plain)
    assert not COMMAND.search(plain)
    assert not TOOL.search(sent)
    assert not COMMAND.search(sent)
    assert "{" not in called + typed + plain + sent


def test_the_scheduler_names_no_tool() -> None:
    named = {
        str(path.relative_to(ROOT)): found[0]
        for path in sorted((ROOT / "scheduler").rglob("*.py"))
        if (found := TOOL.search(path.read_text("utf-8").replace("def send_event(", "")))  # a method too
    }

    assert named == {}


@pytest.mark.parametrize("words", [PLAIN_WORDS, TOOL_WORDS, COMMAND_WORDS], ids=lambda words: type(words).__name__)
def test_a_long_refusal_keeps_its_remedy_and_its_bound(words: ErrorWords) -> None:
    for error in (
        *(Refused("é" * 2000, argument="pause", remedy=remedy) for remedy in SAMPLES),
        Refused("x", remedy=remedies.Resume("t" * 2000)),
        StaleRevision("t_1", 1, 2, ["x" * 300] * 30),
        TaskNotFound("x" * 300),
    ):
        said = error.text_in(words)
        assert len(said.encode()) <= MAX_REFUSAL_BYTES
        assert error.remedy is not None
        assert said.endswith((words.remedy(error.remedy), "…"))


def test_the_same_refusal_is_said_as_a_call_and_as_a_command() -> None:
    refused = Refused("t_1 is paused already.", argument="pause", remedy=remedies.Resume("t_1"))

    assert refused.text_in(TOOL_WORDS) == "pause: t_1 is paused already. Resume it with reschedule_task(pause=false)."
    assert (
        refused.text_in(COMMAND_WORDS)
        == "--pause: t_1 is paused already. Resume it with `duetime reschedule t_1 --resume`."
    )
    assert str(refused) == "pause: t_1 is paused already. Resume it."
