"""Ids of tasks survive people and models: a typing error is noticed, never taken for another task."""

from __future__ import annotations

from duetime.scheduler import ids
from hypothesis import assume, given
from hypothesis import strategies as st

letters = st.sampled_from(ids.ALPHABET)
places = st.integers(min_value=2, max_value=13)


def test_a_new_id_is_valid_short_and_new() -> None:
    made = {ids.new_task_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(ids.is_valid(one) and len(one) == 14 and one.startswith("t_") for one in made)


@given(places, letters)
def test_one_wrong_letter_is_noticed(place: int, letter: str) -> None:
    right = ids.new_task_id()
    wrong = right[:place] + letter + right[place + 1 :]
    assert ids.is_valid(wrong) == (wrong == right)


@given(places, places)
def test_two_swapped_letters_are_noticed(one: int, other: int) -> None:
    right = list(ids.new_task_id())
    assume(right[one] != right[other])
    right[one], right[other] = right[other], right[one]
    assert not ids.is_valid("".join(right))


@given(st.text(max_size=20))
def test_no_other_text_is_an_id_by_accident(text: str) -> None:
    assume(len(text) != 14)
    assert not ids.is_valid(text)
    assert not ids.is_valid(f"t_{text}")


def test_other_ids_sort_by_when_they_were_made() -> None:
    first = ids.new_id("r")
    while (second := ids.new_id("r"))[:11] == first[:11]:
        pass
    assert first < second
    assert len(first) == 22
