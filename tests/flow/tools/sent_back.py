"""The examples of a refusal, as a model sends them back: in the same call, in place of the arguments that they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

_EXAMPLE = re.compile(r" Example: (.*)")
_EITHER = re.compile(r" or (?=[a-z_]+(?:\.|=|\())")
_CALL = re.compile(r"([a-z_]+)\((.*)\)")
_PART = re.compile(r"([a-z_]+)((?:\.[\w-]+|\[\d+\])+)=(.*)")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_WORDS = {"true": True, "false": False, "null": None}

Call = tuple[str, dict[str, Any]]


def corrections(tool: str, given: Mapping[str, Any], said: str) -> list[Call]:
    """Return the calls that a refusal shows: all its problems corrected, once by each example of those that have two.

    Raises ValueError for a problem without an example.
    """
    problems = [(line.partition(":")[0], _examples(line)) for line in said.splitlines()]
    return [
        _corrected(tool, given, problems, which) for which in reversed(range(max(len(each) for _, each in problems)))
    ]


def _corrected(tool: str, given: Mapping[str, Any], problems: list[tuple[str, list[str]]], which: int) -> Call:
    call = tool, dict(given)
    for place, examples in problems:
        call = sent_back(*call, examples[min(which, len(examples) - 1)], refused=re.split(r"[.\[]", place)[0])
    return call


def _examples(problem: str) -> list[str]:
    found = _EXAMPLE.search(problem)
    if found is None:
        raise ValueError(f"no example: {problem}")
    return _EITHER.split(found[1])


def sent_back(tool: str, given: Mapping[str, Any], example: str, *, refused: str) -> Call:
    """Return the call with an example in place of the argument that was `refused`.

    Raises ValueError for an example that names no argument.
    """
    other = _CALL.fullmatch(example)
    if other:
        return other[1], {**_keywords(other[2]), **({"task_id": given["task_id"]} if "task_id" in given else {})}
    part = _PART.fullmatch(example)
    named = {part[1]: _with_part(given.get(part[1]), part[2], _value(part[3]))} if part else _keywords(example)
    rest = {name: value for name, value in given.items() if name != refused}
    return tool, {name: value for name, value in {**rest, **named}.items() if value is not None}


def _keywords(text: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except SyntaxError:
        raise ValueError(f"no argument can be read from: {text}") from None
    if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ValueError(f"no argument is named by: {text}")
    return {str(keyword.arg): _read(keyword.value) for keyword in call.keywords}


def _value(text: str) -> Any:
    return _read(ast.parse(text, mode="eval").body)


def _read(node: ast.expr) -> Any:
    """Read a value, in which true, false and null are those of JSON."""

    class Words(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return ast.Constant(_WORDS[name.id])

    return ast.literal_eval(Words().visit(node))


def _with_part(whole: Any, path: str, value: Any) -> Any:
    found = deepcopy(whole)
    place: Any = found
    *way, last = list(_keys(path))
    for key in way:
        place = _at(place, key)
    if isinstance(place, list):
        last = place.index(_at(place, last))
    place[last] = value
    return found


def _at(place: Any, key: str | int) -> Any:
    """Return what is at a key; a step is found by its name."""
    if isinstance(place, list) and isinstance(key, str):
        return next(each for each in place if each.get("name") == key)
    return place[key - 1 if isinstance(place, list) and isinstance(key, int) else key]


def _keys(path: str) -> Iterator[str | int]:
    for name, number in _STEP.findall(path):
        yield name or int(number)
