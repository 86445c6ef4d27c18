"""Arguments that tools accept and refuse, before anything is understood."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from duetime.scheduler.errors import MAX_PROBLEMS, MAX_REFUSAL_BYTES, InvalidArguments
from duetime.scheduler.task import Json
from duetime.tools.arguments.arguments import Argument, Arguments
from duetime.tools.arguments.choices import Choice, Choices
from duetime.tools.arguments.time_text import Length
from duetime.tools.arguments.types import ArgumentType, Flag, Object, Text, Texts, Whole, shown
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

MEMBERS = Object({"max_attempts": Whole(1, 100)})


@pytest.mark.parametrize(
    ("kind", "given_", "read"),
    [
        (Text(), "null", "null"),
        (Whole(1, 100), "20", 20),
        (Whole(1, 100), 20.0, 20),
        (Flag(), "True", True),
        (Choice(("snooze", "undo")), " SNOOZE ", "snooze"),
        (Choice(("snooze", "run_now")), "Run now", "run_now"),
        (Choice(("soft", "soft-linear")), "soft_linear", "soft-linear"),
        (Object(), '{"message": "Hi"}', {"message": "Hi"}),
        (MEMBERS, '{"max_attempts": "3"}', {"max_attempts": 3}),
        (Texts(), '["a", "b"]', ["a", "b"]),
        (MEMBERS, {"max_attempts": 0}, {}),
        (Texts(), "phone", ["phone"]),
        (Choices(("payload", "needs")), "NEEDS", ["needs"]),
    ],
)
def test_an_argument_with_only_one_meaning_is_accepted(kind: ArgumentType, given_: Json, read: object) -> None:
    assert kind.read(given_) == read


@pytest.mark.parametrize(
    ("kind", "given_", "problem"),
    [
        (Text(), 5, "a number is not text"),
        (Text(5), "x" * 6, "it has 6 characters, the limit is 5"),
        (Text(), "a\x00b", "it contains the character U+0000, which is not text"),
        (Text(), "half \ud83d", "it contains the character U+D83D, which is not text"),
        (Whole(1, 100), True, "true or false is not a whole number"),
        (Whole(1, 100), 1.5, "1.5 is not a whole number"),
        (Whole(1, 100), float("nan"), "nan is not a whole number"),
        (Whole(1, 100), float("inf"), "inf is not a whole number"),
        (Whole(1, 100), 0, "0 is out of range"),
        (Whole(1, 100), -7.0, "-7 is out of range"),
        (Length(), -5, "-5 is out of range"),
        pytest.param(Whole(1, 100), 10**5000, "it is out of range", id="5001 digits"),
        (Whole(1, 100), "1e3", "'1e3' is not a whole number"),
        (Flag(), 1, "a number is neither true nor false"),
        (Choice(("a", "b")), "c", "'c' is not one of them"),
        (Choice(("a", "b")), ["a"], "a list is not text"),
        (Object(), "[1]", "text is not an object"),
        (Object(), "{'message': 'Hi'}", "text is not an object"),
        pytest.param(Object(), "[" * 100_000, "text is not an object", id="deep"),
        (MEMBERS, {"tries": 3}, "it has no member 'tries'"),
        (MEMBERS, {"max_attempts": 101}, "max_attempts: 101 is out of range; a whole number from 1 to 100 is accepted"),
        (Texts(), "a, b", "several in one text could mean several things"),
        (Texts(), [1], "a number is not text"),
        (Texts(2), ["a", "b", "c"], "it has 3 items, the limit is 2"),
        (Choices(("payload", "needs")), ["title"], "'title' is not one of them"),
        (Texts(), {"a": 1}, "an object is not a list of texts"),
    ],
)
def test_everything_else_is_refused_without_repeating_it(kind: ArgumentType, given_: Json, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        kind.read(given_)


def table(*arguments: Argument) -> Arguments:
    return Arguments("schedule_task", arguments)


TITLE = Argument("title", Text(), "", "title='Call John'", required=True)
WHEN = Argument("when", Text())
RUNS = Argument("max_runs", Whole(1))


def sentences(arguments: Arguments, given_: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in arguments.read(given_)[1]]


def test_a_missing_argument_is_asked_for_with_an_example() -> None:
    assert sentences(table(TITLE), {}) == ["title: it is missing. Accepted: text. Example: title='Call John'"]


@pytest.mark.parametrize(
    ("wrong", "example"),
    [
        ("linear", "soft-linear"),
        ("softlinear", "soft-linear"),
        ("hard!", "hard"),
        ("strict", "soft"),
        (["hard"], "soft"),
    ],
)
def test_a_word_that_is_no_choice_gets_the_nearest_as_its_example_or_the_usual_one(wrong: object, example: str) -> None:
    kinds = Argument("kind", Choice(("hard", "soft", "soft-linear")), "", "kind='soft'")
    (said,) = sentences(table(kinds), {"kind": wrong})
    assert said.endswith(f"Accepted: hard, soft, soft-linear. Example: kind={example!r}")


def test_null_and_an_empty_text_stand_for_an_argument_that_is_absent() -> None:
    assert table(TITLE, WHEN).read({"title": "x", "when": None}) == ({"title": "x"}, [])
    assert table(TITLE, WHEN).read({"title": "x", "when": ""}) == ({"title": "x"}, [])


def test_an_empty_text_is_no_title() -> None:
    values, problems = table(TITLE).read({"title": ""})

    assert values == {"title": ""}
    assert problems == []  # the service says that a title needs a visible character


@pytest.mark.parametrize(
    ("wrong", "right", "value"),
    [
        ("whem", "when", "'1'"),
        ("When", "when", "'1'"),
        ("maxRuns", "max_runs", "1"),
        ("max-runs", "max_runs", "1"),
        ("at", "when", "'1'"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_one_that_was_meant(wrong: str, right: str, value: str) -> None:
    said = sentences(table(TITLE, WHEN, RUNS), {"title": "x", wrong: "1"})

    assert said == [
        (
            f"{wrong}: schedule_task has no such argument; did you mean {right}. Accepted: title, when, max_runs. "
            f"Example: {right}={value}"
        )
    ]


def test_a_missing_argument_with_a_slip_in_its_name_is_one_problem() -> None:
    said = sentences(table(TITLE, WHEN), {"titel": "Call John"})

    assert said == [
        (
            "titel: schedule_task has no such argument; did you mean title. Accepted: title, when. "
            "Example: title='Call John'"
        )
    ]


@pytest.mark.parametrize("unlike", ["zzz", "sort", "dead_line"])
def test_an_unknown_argument_like_no_other_is_refused_without_a_guess(unlike: str) -> None:
    said = sentences(table(TITLE, WHEN, Argument("cursor", Text())), {"title": "x", unlike: 1})

    assert said == [
        f"{unlike}: schedule_task has no such argument. Accepted: title, when, cursor. Example: {unlike}=null"
    ]


def test_a_thousand_unknown_arguments_get_a_short_answer() -> None:
    _values, problems = table(TITLE).read({"title": "x", **{f"a{i}" * 50: i for i in range(1_000)}})
    said = str(InvalidArguments(problems))

    assert len(said.encode()) <= MAX_REFUSAL_BYTES
    assert said.endswith(f"and {1_000 - MAX_PROBLEMS} more")


@given(st.text())
def test_a_quoted_text_can_be_sent_and_stays_on_one_short_line(text: str) -> None:
    quoted = shown(text)

    quoted.encode()
    assert "\n" not in quoted
    assert len(quoted) <= 43


@examples(30)
@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)))
def test_any_arguments_are_read_or_refused(given_: dict[str, Any]) -> None:
    values, problems = table(TITLE, WHEN, RUNS, Argument("payload", Object()), Argument("labels", Texts())).read(given_)

    assert set(values) <= {"title", "when", "max_runs", "payload", "labels"}
    for problem in problems:
        json.dumps(str(problem), ensure_ascii=False).encode()
