"""Parts of many tasks: what is related shares one, in the order of the tasks, and none is lost."""

from __future__ import annotations

import random

import pytest
from duetime.scheduler.calls.bulk_parts import parts


@pytest.mark.parametrize(
    ("related", "found"),
    [
        ([], [["a", "b"], ["c", "d"], ["e"]]),
        ([("a", "e")], [["a", "e"], ["b", "c"], ["d"]]),
        ([("a", "chain"), ("c", "chain"), ("e", "chain")], [["a", "c", "e"], ["b", "d"]]),
        ([("a", "x"), ("x", "y"), ("y", "d")], [["a", "d"], ["b", "c"], ["e"]]),
    ],
)
def test_related_tasks_share_a_part(related: list[tuple[str, str]], found: list[list[str]]) -> None:
    assert parts(["a", "b", "c", "d", "e"], related, 2) == found


@pytest.mark.parametrize("seed", range(50))
def test_each_task_is_in_one_part_and_only_related_tasks_make_it_large(seed: int) -> None:
    draw = random.Random(seed)
    ids = [f"t{number}" for number in range(draw.randint(1, 40))]
    pairs = [(draw.choice(ids), draw.choice(ids)) for _ in range(draw.randint(0, 25))]
    found = parts(ids, pairs, 5)
    assert sorted(task_id for part in found for task_id in part) == sorted(ids)
    place = {task_id: number for number, part in enumerate(found) for task_id in part}
    assert all(place[one] == place[other] for one, other in pairs)
    for part in found:
        assert len(part) <= 5 or len(parts(part, pairs, 1)) == 1
