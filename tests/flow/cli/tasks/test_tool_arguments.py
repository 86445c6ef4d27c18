"""A command takes every argument of its tool; `--retry` is read from text."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.corrected_example import corrected
from duetime.scheduler.intake.repeat_policy import policy_of as policy_of_series
from duetime.scheduler.request import RETRY_ACCEPTED, Request
from duetime.server.cli.formats.contract import policy_of
from duetime.server.cli.formats.option_values import read_approval
from duetime.server.cli.verbs import duetime_command
from duetime.server.words.command_words import COMMAND_WORDS
from duetime.tools.registration import definitions
from duetime.tools.schedule_task import REMINDER

TOOLS = {tool.name: tool for tool in definitions(REMINDER)}
VERBS = {
    "schedule_task": "schedule",
    "list_tasks": "list",
    "get_task": "show",
    "reschedule_task": "reschedule",
    "cancel_task": "cancel",
}
OTHERWISE = {"labels": "label", "needs": "needs", "idempotency_key": "key"}
"""The options of other names than their arguments."""

ALWAYS = {"keep_unread"}
"""Arguments that a command needs no option for: it reads without marking anything as read."""


def taken(verb: str) -> set[str]:
    command: Any = duetime_command().commands[verb]
    return {each.name for each in command.loaded.params}


@pytest.mark.parametrize("tool", VERBS)
def test_a_command_takes_every_argument_of_its_tool(tool: str) -> None:
    arguments = {OTHERWISE.get(name, name) for name in TOOLS[tool].read().table}
    assert arguments - taken(VERBS[tool]) - ALWAYS == set()


@pytest.mark.parametrize("tool", ["schedule_task", "reschedule_task"])
def test_an_error_about_an_argument_names_the_option(tool: str) -> None:
    command: Any = duetime_command().commands[VERBS[tool]]
    options = {word for each in command.loaded.params for word in (*each.opts, each.metavar)}
    named = {COMMAND_WORDS.argument(name) for name in TOOLS[tool].read().table}
    assert named - options <= {"TITLE", "ID"}


@pytest.mark.parametrize(
    ("given", "attempts", "first_s", "longest_s"),
    [
        (["5"], 5, 1, 3600),
        (["max_attempts=3", "backoff_seconds=60"], 3, 60, 3600),
        (["max-attempts=3", "max-backoff-seconds=120"], 3, 1, 120),
        (["3 times, 5 minutes apart"], 4, 300, 600),
        (["max_attempts=3", "backoff=5 minutes"], 3, 300, 3600),
        (["3 times", "backoff=5 minutes"], 4, 300, 3600),
    ],
)
def test_retries_are_a_number_or_named_numbers(given: list[str], attempts: int, first_s: int, longest_s: int) -> None:
    policy = policy_of(given)
    assert policy is not None
    spans = (policy.backoff.total_seconds(), policy.max_backoff.total_seconds())
    assert (policy.max_attempts, *spans) == (attempts, first_s, longest_s)


@pytest.mark.parametrize(
    ("given", "problem", "example"),
    [
        ("tries=5", "it has no member 'tries'", "max_attempts=5"),
        ("0", "max_attempts: 0 is out of range; a whole number from 1 to 100 is accepted", "max_attempts=5"),
        ("often", "'often' is not understood", "max_attempts=5"),
        ("nonsense and words", "'nonsense words' is not understood", "max_attempts=5"),
        ("3 times, mondays", "'mondays' is not understood", "max_attempts=4"),
        ("backoff_seconds=1e3", "'1e3' is not a length of time", "max_attempts=5"),
    ],
)
def test_retries_that_cannot_be_read_are_refused_with_what_can(given: str, problem: str, example: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        policy_of([given])
    assert caught.value.text_in(COMMAND_WORDS) == (
        f"--retry: {problem}. Accepted: {RETRY_ACCEPTED}. Example: --retry {example}"
    )


@pytest.mark.parametrize(
    ("passed", "typed"),
    [
        ("max_letters=100", "--max 100"),
        ("max_letters=null", "without --max"),
        ("to='1 day later'", "--to '1 day later'"),
        (
            "change='move', to='1 day later' or change='cancel', to=null",
            "duetime bulk move --to '1 day later' or duetime bulk cancel, without --to",
        ),
    ],
)
def test_an_example_of_many_tasks_can_be_typed(passed: str, typed: str) -> None:
    assert COMMAND_WORDS.example(passed) == typed


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            Request("A", repeat="daily at 9", repeat_policy={"except": "fridays"}),
            ("--repeat-policy except: 'fridays'", "--repeat 'daily at 9 except friday', without --repeat-policy"),
        ),
        (
            Request("A", repeat="daily at 9", repeat_policy={"exclude": "2026-12-24"}),
            ("--repeat-policy exclude: there is no 'exclude'", "--repeat-policy except=2026-12-24"),
        ),
    ],
    ids=["value", "name"],
)
def test_a_wrong_part_of_an_option_is_named_and_corrected_as_it_is_typed(asked: Request, said: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        policy_of_series(asked, date(2026, 11, 24))
    text = corrected(caught.value, asked).text_in(COMMAND_WORDS)
    assert text.startswith(said[0])
    assert text.endswith(f" Example: {said[1]}")


@pytest.mark.parametrize(
    ("given", "approval"),
    [
        (["yes"], True),
        (["Required"], True),
        (["no"], False),
        (["none"], False),
        (["yes", "by=2 hours"], {"by": "2 hours"}),
        (["by=2 hours", "yes"], {"by": "2 hours"}),
        (["Pay?", "by=2 hours"], {"question": "Pay?", "by": "2 hours"}),
        ([], None),
    ],
)
def test_an_approval_of_one_word_is_the_one_that_a_tool_takes(given: list[str], approval: Any) -> None:
    assert read_approval(given) == approval
