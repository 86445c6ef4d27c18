"""Counts modules, rooms, floors, arrows and circles of the product, today or at a revision.

    python .ci/structure.py [REVISION ...]

A room is a folder with modules, an arrow an import from one room by another one, however many imports it stands for.
Floors are the rooms on the longest way down the arrows, those of a circle as one. A circle has modules that import each
other. Imports for the type checker and late ones count too: a reader follows them.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath

TOPS = ("server", "scheduler", "tools", "widgets")
Arrows = Mapping[str, set[str]]


def sources(revision: str) -> dict[str, str]:
    """Return the text of each module by its name, `scheduler.store.tasks`."""
    archive = subprocess.run(["git", "archive", revision, *TOPS], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = {PurePosixPath(each.name): files.extractfile(each) for each in files if each.name.endswith(".py")}
        kept = {path: text for path, text in found.items() if text and path.parent.name != "versions"}
        return {".".join(path.with_suffix("").parts): text.read().decode() for path, text in kept.items()}


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(name: str, modules: Mapping[str, str]) -> str:
    """Return the module of an imported name; empty where it is not of the product."""
    name = name.removeprefix("duetime.")
    while name:
        found = next((each for each in (name, f"{name}.__init__") if each in modules), "")
        if found:
            return found
        name = name.rpartition(".")[0]
    return ""


def rings(arrows: Arrows) -> list[set[str]]:
    """Return the sets of those that reach each other, one or more in each."""

    @cache
    def reached(start: str) -> frozenset[str]:
        seen, ahead = set[str](), [start]
        while ahead:
            new = arrows.get(ahead.pop(), set()) - seen
            seen |= new
            ahead += new
        return frozenset(seen)

    found = {frozenset({one} | {other for other in reached(one) if one in reached(other)}) for one in arrows}
    return [set(ring) for ring in found]


def floors(arrows: Arrows) -> int:
    home = {one: index for index, ring in enumerate(rings(arrows)) for one in ring}
    below: dict[int, set[int]] = {}
    for one, others in arrows.items():
        below.setdefault(home[one], set()).update(home[other] for other in others if home[other] != home[one])

    @cache
    def height(index: int) -> int:
        return 1 + max((height(each) for each in below[index]), default=0)

    return max(map(height, below))


def row(revision: str) -> str:
    modules = sources(revision)
    rooms: dict[str, set[str]] = {name.rpartition(".")[0]: set() for name in modules}
    arrows: dict[str, set[str]] = {name: set() for name in modules}
    for name, text in modules.items():
        arrows[name] = {module_of(each, modules) for each in imported(text)} - {"", name}
        rooms[name.rpartition(".")[0]] |= {other.rpartition(".")[0] for other in arrows[name]}
    rooms = {room: others - {room} for room, others in rooms.items()}
    named = {name for name in modules if not name.endswith("__init__")}
    largest = max(sum(name.rpartition(".")[0] == room for name in named) for room in rooms)
    between = sum(map(len, rooms.values()))
    circles = sum(len(ring) > 1 for ring in rings(arrows))
    return (
        f"| `{revision}` | {len(named)} | {len(rooms)} | {largest} | {floors(rooms)} | {between} "
        f"| {between / len(rooms):.1f} | {floors(arrows)} | {circles} |"
    )


def main() -> None:
    head = ["revision", "modules", "rooms", "modules in the largest", "floors of rooms", "arrows", "arrows a room"]
    head += ["floors of modules", "circles of modules"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *map(row, sys.argv[1:] or ["HEAD"])]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
