"""Titles, payloads and results hold only what every database, host and reader can take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.sanitize import MAX_JSON_BYTES, check_json, check_text, clean_text
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    TEXT
    | st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "title", ["Call John", "Zürich 🏔️", "שלום", "日本語のタスク", "a" * 200, "👩‍👩‍👧 picnic", "\u0645\u06cc\u200c\u062e"]
)
def test_a_title_in_any_language_is_taken_as_it_is(title: str) -> None:
    assert check_text("title", title) == title


def test_blanks_around_a_title_are_dropped() -> None:
    assert check_text("title", "  Call John \u3000") == "Call John"


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("pay \u202egnp.exe", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u2066b", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("a\u200fb", "U+200F RIGHT-TO-LEFT MARK"),
        ("nul\x00", "U+0000 NULL"),
        ("two\nlines", "U+000A LINE FEED"),
        ("\x1b[31mred", "U+001B ESCAPE"),
        ("c1\x85", "U+0085 CONTROL CHARACTER"),
        ("lone \ud800", "U+D800 LONE SURROGATE"),
        ("tag \U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
        ("non \ufffe", "U+FFFE NONCHARACTER"),
        ("non \ufdd0", "U+FDD0 NONCHARACTER"),
        ("bom \ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("line \u2028", "U+2028 LINE SEPARATOR"),
    ],
)
def test_a_hidden_character_is_refused_by_name(title: str, named: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_text("title", title)
    assert refused.value.argument == "title"
    assert named in str(refused.value)


INVISIBLE = ["", "   ", "\u200b\u200d", "\u00ad", "\u0301", "\u3164", "\u115f", "\u1160", "\uffa0", "\u2800 "]


@pytest.mark.parametrize("title", INVISIBLE)
def test_a_title_that_nobody_can_see_is_refused(title: str) -> None:
    with pytest.raises(InvalidArgument, match="no visible character"):
        check_text("title", title)


def test_a_title_that_is_too_long_is_refused_with_its_length_and_not_shown() -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_text("title", "x" * 201)
    assert str(refused.value) == "title: it has 201 characters. Accepted: at most 200."


@pytest.mark.parametrize("value", [None, 5, True, ["a"], {"a": 1}])
def test_a_title_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="expected text, got"):
        check_text("title", value)


def test_line_ends_are_permitted_where_lines_are() -> None:
    assert check_text("note", "one\n\ttwo", lines=True) == "one\n\ttwo"


@given(st.text(st.characters(), max_size=300))
def test_cleaned_text_can_always_be_stored_and_passes_the_check(text: str) -> None:
    cleaned = clean_text(text, 100)
    assert len(cleaned) <= 100
    cleaned.encode("utf-8")
    assert check_text("text", f"x{cleaned}", limit=101, lines=True)


@given(st.text(max_size=100))
def test_cleaning_is_done_once_and_for_all(text: str) -> None:
    assert clean_text(clean_text(text, 50), 50) == clean_text(text, 50)


@given(JSON)
def test_plain_json_is_taken(value: Any) -> None:
    check_json("payload", value)
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "place", "problem"),
    [
        ({"a": "x\x00"}, "payload.a", "U+0000 NULL"),
        ({"a": ["x", "\udfff"]}, "payload.a[1]", "U+DFFF LONE SURROGATE"),
        ({"\x00": 1}, "a key of payload", "U+0000 NULL"),
        ({"a": float("nan")}, "payload.a", "is nan"),
        ({"a": float("inf")}, "payload.a", "is inf"),
        ({"a": 2**63}, "payload.a", "too large a number"),
        ({"a": 10**5000}, "payload.a", "too large a number"),
        ({"a": {1, 2}}, "payload.a", "is set"),
        ({1: "a"}, "payload", "a key that is a number"),
    ],
)
def test_a_value_that_a_database_would_change_or_refuse_is_named_with_its_place(
    value: Any, place: str, problem: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_json("payload", value)
    assert refused.value.argument == place
    assert problem in refused.value.problem


def test_depth_is_counted_from_the_value_itself() -> None:
    check_json("payload", nested(32))
    with pytest.raises(InvalidArgument, match="nested too deep"):
        check_json("payload", nested(33))


def test_a_value_that_holds_itself_is_refused_and_does_not_hang() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgument, match="nested too deep"):
        check_json("payload", loop)


def test_a_small_value_that_unfolds_to_a_huge_one_is_refused_soon() -> None:
    value: Any = [0]
    for _ in range(30):
        value = [value, value]
    with pytest.raises(InvalidArgument, match="too large"):
        check_json("payload", value)


@pytest.mark.parametrize("character", ['"', "\\", "a"])
def test_plain_text_at_the_bound_is_measured_as_it_is_written(character: str) -> None:
    """Quotes and backslashes take two bytes each."""
    fits = (MAX_JSON_BYTES - len('{"a":""}')) // len(json.dumps(character)[1:-1])
    check_json("payload", {"a": character * fits})
    with pytest.raises(InvalidArgument, match="at most 65,536 bytes"):
        check_json("payload", {"a": character * (fits + 1)})


def test_size_is_counted_in_bytes_of_compact_json() -> None:
    fits = {"a": "é" * ((MAX_JSON_BYTES - 8) // 2)}
    check_json("payload", fits)
    with pytest.raises(InvalidArgument, match="at most 65,536 bytes"):
        check_json("payload", {"a": "é" * (MAX_JSON_BYTES // 2)})
