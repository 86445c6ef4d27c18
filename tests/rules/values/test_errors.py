"""The longest refusal, whatever was sent: 12 problems and "and N more", and 1 KiB in all."""

from __future__ import annotations

import re

import pytest
from duetime.scheduler.errors import (
    MAX_PROBLEMS,
    MAX_REFUSAL_BYTES,
    DuetimeError,
    IdempotencyConflict,
    InvalidArgument,
    InvalidArguments,
    Refused,
    StaleRevision,
    StoreUnavailable,
    TaskNotFound,
    cut_to_bytes,
    listed,
)
from hypothesis import given
from hypothesis import strategies as st

ANY = st.text(max_size=12) | st.builds(lambda part, times: part * times, st.text(max_size=12), st.integers(0, 400))
"""Short texts, and long ones of any alphabet."""

PROBLEMS = st.builds(
    lambda argument, problem, accepted, example: InvalidArgument(argument, problem, accepted=accepted, example=example),
    *(ANY, ANY, ANY, ANY),
)


def size(error: DuetimeError) -> int:
    return len(str(error).encode())


def wrong(number: int, *, accepted: str = "", example: str = "") -> InvalidArgument:
    return InvalidArgument(f"argument_{number}", "is wrong", accepted=accepted, example=example)


@given(st.lists(PROBLEMS, min_size=1, max_size=30))
def test_a_refusal_has_at_most_1_kib_and_names_every_problem(problems: list[InvalidArgument]) -> None:
    said = InvalidArguments(problems)

    assert 0 < size(said) <= MAX_REFUSAL_BYTES
    assert said.problems == tuple(problems)
    assert all(size(problem) <= MAX_REFUSAL_BYTES for problem in problems)


@given(ANY, st.dictionaries(ANY, st.tuples(ANY, ANY), max_size=20), st.lists(st.tuples(ANY, ANY), max_size=3))
def test_every_other_error_is_as_short(
    text: str, differences: dict[str, tuple[str, str]], near: list[tuple[str, str]]
) -> None:
    said = [
        *(kind(text) for kind in (Refused, StoreUnavailable, DuetimeError)),
        TaskNotFound(text, near),
        IdempotencyConflict(text, "t_1", differences),
        StaleRevision("t_1", 1, 2, list(differences)),
    ]

    assert [size(error) for error in said if size(error) > MAX_REFUSAL_BYTES] == []


@pytest.mark.parametrize("count", [2, MAX_PROBLEMS])
def test_twelve_problems_are_told_all(count: int) -> None:
    lines = str(InvalidArguments([wrong(number) for number in range(count)])).splitlines()

    assert lines == [f"argument_{number}: is wrong." for number in range(count)]


def test_of_more_than_twelve_problems_the_first_are_told_and_the_others_counted() -> None:
    lines = str(InvalidArguments([wrong(number) for number in range(MAX_PROBLEMS + 30)])).splitlines()

    assert len(lines) == MAX_PROBLEMS + 1
    assert lines[-2:] == ["argument_11: is wrong.", "and 30 more"]


def test_problems_that_do_not_fit_with_all_details_are_told_with_fewer() -> None:
    said = str(InvalidArguments([wrong(n, accepted="x, " * 60, example="y" * 20) for n in range(6)]))

    assert [line.partition(":")[0] for line in said.splitlines()] == [f"argument_{number}" for number in range(6)]
    assert "Accepted" not in said
    assert said.count("Example: ") == 6


def test_problems_that_do_not_even_fit_alone_are_counted() -> None:
    lines = str(InvalidArguments([InvalidArgument(f"a{n}", "x" * 300) for n in range(9)])).splitlines()

    assert [line[:2] for line in lines[:-1]] == ["a0", "a1", "a2"]
    assert lines[-1] == "and 6 more"


def test_a_long_list_of_what_is_accepted_is_cut_and_a_long_example_left_out() -> None:
    said = str(wrong(1, accepted=", ".join(f"pool-{number}" for number in range(500)), example="z" * 700))

    assert re.fullmatch(r"argument_1: is wrong\. Accepted: pool-0, pool-1, .*…\.", said)
    assert len(said) > 500


def test_a_stale_revision_ends_with_what_to_do_however_much_was_changed() -> None:
    said = str(StaleRevision("t_1", 1, 40, [f"rescheduled by alice (when {'x' * 90})" for _ in range(39)]))

    assert said.endswith("; and 36 more. Read it and repeat the call for revision 40.")


@given(st.text(), st.integers(3, 40))
def test_a_cut_text_fits_can_be_sent_and_is_the_beginning_of_the_whole(text: str, limit: int) -> None:
    short = cut_to_bytes(text, limit)

    assert len(short.encode()) <= limit
    whole = text.encode("utf-8", "replace").decode()
    assert short == whole or (short.endswith("…") and whole.startswith(short.removesuffix("…")))


@given(st.lists(ANY, max_size=30), st.integers(60, 400))
def test_a_list_counts_what_it_leaves_out(parts: list[str], limit: int) -> None:
    said = listed(parts, "\x00", limit)

    assert len(said.encode()) <= limit
    left_out = re.search(r"and ([0-9]+) more\Z", said)
    assert left_out is not None or len(parts) <= MAX_PROBLEMS
