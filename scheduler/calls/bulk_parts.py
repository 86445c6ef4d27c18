"""Parts of the tasks of one call that can be tried one after the other: what belongs together stays in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def parts(task_ids: Sequence[str], related: Iterable[tuple[str, str]], size: int) -> list[list[str]]:
    """Return the tasks in parts of `size`, in their order; those that are `related` share one, which may be larger.

    Related are pairs of tasks, or of a task and anything else that it shares with another one.
    """
    found = list[list[str]]()
    for group in _groups(task_ids, related):
        if found and len(found[-1]) + len(group) <= size:
            found[-1] += group
        else:
            found.append(group)
    return found


def _groups(task_ids: Sequence[str], related: Iterable[tuple[str, str]]) -> list[list[str]]:
    root: dict[str, str] = {}

    def of(name: str) -> str:
        above = root.setdefault(name, name)
        while above != root[above]:
            above = root[above]
        root[name] = above
        return above

    for one, other in related:
        root[of(one)] = of(other)
    groups: dict[str, list[str]] = {}
    for task_id in task_ids:
        groups.setdefault(of(task_id), []).append(task_id)
    return list(groups.values())
