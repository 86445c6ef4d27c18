"""Ids of tasks are short, and those of runs and events sort by time."""

from __future__ import annotations

from duetime.scheduler import ids


def test_a_new_id_is_short_and_new() -> None:
    made = {ids.new_task_id() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(set(one[2:]) <= set(ids.ALPHABET) and len(one) == 14 and one.startswith("t_") for one in made)


def test_a_further_id_shares_the_beginning_of_the_first_and_is_as_long() -> None:
    first = ids.new_task_id()
    beside = {ids.new_task_id(first) for _ in range(1_000)}
    assert len(beside) == 1_000
    assert all(one[:4] == first[:4] and len(one) == 14 and set(one[2:]) <= set(ids.ALPHABET) for one in beside)
    assert len({one[4:6] for one in beside}) > 100, "the rest is random"


def test_other_ids_sort_by_when_they_were_made() -> None:
    first = ids.new_id("r")
    while (second := ids.new_id("r"))[:11] == first[:11]:
        pass
    assert first < second
    assert len(first) == 22
