"""Ids of tasks survive people and models: a typing error is noticed, never taken for another task."""

from __future__ import annotations

from unittest.mock import patch

from duetime.scheduler import ids
from hypothesis import assume, given
from hypothesis import strategies as st

bits = st.integers(min_value=0, max_value=2**55 - 1)
places = st.integers(min_value=0, max_value=10)


def task_id(number: int) -> str:
    """Return the id that is made when chance gives this number."""
    with patch("secrets.randbits", return_value=number):
        return ids.new_task_id()


def differing(one: str, other: str) -> list[int]:
    return [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


def test_a_new_id_is_short_and_new() -> None:
    made = {ids.new_task_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(set(one[2:]) <= set(ids.ALPHABET) and len(one) == 14 and one.startswith("t_") for one in made)


@given(bits, places, st.integers(min_value=1, max_value=31))
def test_one_wrong_letter_makes_no_other_id(number: int, place: int, change: int) -> None:
    assert differing(task_id(number), task_id(number ^ change << 5 * place))[-1] == 13


@given(bits, places, places)
def test_two_swapped_letters_make_no_other_id(number: int, one: int, other: int) -> None:
    change = (number >> 5 * one ^ number >> 5 * other) & 31
    assume(one != other and change)
    assert differing(task_id(number), task_id(number ^ change << 5 * one ^ change << 5 * other))[-1] == 13


@given(bits, places)
def test_a_letter_swapped_with_the_check_letter_makes_no_other_id(number: int, place: int) -> None:
    letters = list(task_id(number))
    change = ids.ALPHABET.index(letters[12 - place]) ^ ids.ALPHABET.index(letters[13])
    assume(change)
    letters[12 - place], letters[13] = letters[13], letters[12 - place]
    assert task_id(number ^ change << 5 * place) != "".join(letters)


def test_other_ids_sort_by_when_they_were_made() -> None:
    first = ids.new_id("r")
    while (second := ids.new_id("r"))[:11] == first[:11]:
        pass
    assert first < second
    assert len(first) == 22
