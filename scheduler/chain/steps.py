"""The steps of a chain as a caller gives them: read, checked, and ordered so that each follows its upstreams."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final, NamedTuple

from duetime.scheduler.chain.step_parts import (
    STEP_PARTS,
    TEXTS,
    is_text,
    listed_texts,
    meant_part,
    meant_value,
    renamed_part,
)
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.request import ScheduleArguments

MAX_STEPS: Final = 50
"""Steps of one chain, as one call makes it."""

MAX_TASKS_SPAWNED: Final = 200
"""Tasks that one run spawns."""

MAX_STEP_NAME_CHARS: Final = 40
_NAME: Final = re.compile(rf"(?!t_)[A-Za-z0-9][A-Za-z0-9_.-]{{0,{MAX_STEP_NAME_CHARS - 1}}}")
_NAMES: Final = f"up to {MAX_STEP_NAME_CHARS} letters, digits, '_', '-' and '.', and no id of a task"
_UNNAMED: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_OUTSIDE: Final = re.compile(r"t_|c_[0-9a-z]{12}$")
_EXAMPLE: Final = (
    "[{'name': 'fetch', 'action': 'webhook', 'payload': {'url': 'https://example.com'}}, "
    "{'name': 'report', 'after': ['fetch']}]"
)
_MAX_PATH_STEPS: Final = 12
_MAX_EXAMPLE_BYTES: Final = 400


class StepList(NamedTuple):
    """A list of steps: the name that its errors have, the number of its first item there, and its length at most."""

    name: str
    first: int
    most: int

    @property
    def example(self) -> str:
        return f"{self.name}={_EXAMPLE}"


CHAIN_STEPS: Final = StepList("steps", 1, MAX_STEPS)
SPAWNED_TASKS: Final = StepList("spawn", 0, MAX_TASKS_SPAWNED)
"""A program writes it, where lists count from 0."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One step: its name, what it comes after (names of steps, and ids of tasks), and the arguments of its task."""

    name: str
    after: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    of: StepList = CHAIN_STEPS

    def place(self, argument: str) -> str:
        """Return how an error names an argument of this step."""
        return f"{self.of.name}.{self.name}.{argument}"


class ReadSteps(NamedTuple):
    """Steps with a name, each behind those that it comes after unless these form a cycle; and all problems.

    Parts of a `wrong` form were left out, by the name of their step.
    """

    steps: Sequence[StepRequest]
    problems: Sequence[InvalidArgument]
    wrong: Mapping[str, Collection[str]]

    def apart_from_wrong(self, found: Sequence[InvalidArgument]) -> list[InvalidArgument]:
        """Return problems of the steps, each once, without those that follow from a part that was left out."""
        left_out = {(name, part) for name, parts in self.wrong.items() for part in (*parts, "when", "payload")}
        kept = [each for each in found if tuple(each.argument.split(".")[1:3]) not in left_out]
        return list({(each.argument, each.problem): each for each in kept}.values())


def steps_in_order(given: Any, of: StepList = CHAIN_STEPS) -> Sequence[StepRequest]:
    """Read steps; each comes behind those that it comes after. Raises InvalidArgument(s) with every problem."""
    steps, problems, _ = read_steps(given, of)
    if problems:
        raise problems[0] if len(problems) == 1 else InvalidArguments(problems)
    return steps


def read_steps(given: Any, of: StepList = CHAIN_STEPS) -> ReadSteps:
    """Read steps, and what is wrong with their form. Raises InvalidArgument for what is no list of so many."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InvalidArgument(of.name, "it is not a list", accepted="a list of objects", example=of.example)
    if len(given) > of.most:
        raise _too_many(len(given), of)
    steps, problems, wrong = list[StepRequest](), list[InvalidArgument](), dict[str, Collection[str]]()
    renamed = _renamed(given, of)
    for number, each in enumerate(given, start=of.first):
        found = list(_problems_of(each, of, number, renamed))
        problems += found
        if isinstance(each, Mapping) and _is_name(each.get("name")):
            parts = {problem.argument.rpartition(".")[2] for problem in found}
            steps.append(_step({name: value for name, value in each.items() if name not in parts}, of))
            wrong |= {steps[-1].name: parts} if parts else {}
    if len(steps) == len(given):  # what has no right name may be what others come after
        problems += _problems_of_names(steps, of)
    try:
        return ReadSteps(_ordered(steps, of), problems, wrong)
    except InvalidArgument as cycle:
        return ReadSteps(steps, [*problems, cycle], wrong)


def _too_many(count: int, of: StepList) -> InvalidArgument:
    problem, accepted = f"{count} steps are too many", f"at most {of.most}"
    if of is not CHAIN_STEPS:
        return InvalidArgument(of.name, problem, accepted=accepted)
    accepted = f"{accepted} in a call; the others in another one, whose `after` has the id of this chain"
    return InvalidArgument(of.name, problem, accepted=accepted)


def _given(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a step without those that a strict client leaves empty."""
    known = {name: value for name, value in step.items() if value is not None and value not in ("", {}, [])}
    lists = {name: listed_texts(value) for name, value in known.items() if STEP_PARTS.get(name) == TEXTS}
    return {**known, **lists}


def _problems_of(given: Any, of: StepList, number: int, renamed: str) -> Iterator[InvalidArgument]:
    """Yield what is wrong with the form of a step; `renamed` is an example with names for all, if it is short."""
    place = f"{of.name}[{number}]"
    if not isinstance(given, Mapping):
        yield InvalidArgument(place, "it is not an object", accepted="an object with a name", example=of.example)
        return
    known = _given(given)
    yield from filter(None, (_wrong(of, place, name, known) for name in known))
    name = known.get("name")
    example = renamed or _meant_name(name, number)
    if name is None and all(name in STEP_PARTS or meant_part(str(name)) != "name" for name in known):
        yield InvalidArgument(f"{place}.name", "it is missing", accepted=_NAMES, example=example)
    elif is_text(name) and not _is_name(name):
        problem = f"{str(name)[:MAX_STEP_NAME_CHARS]!r} cannot name a step"
        yield InvalidArgument(f"{place}.name", problem, accepted=_NAMES, example=example)


def _is_name(name: Any) -> bool:
    return is_text(name) and _NAME.fullmatch(name) is not None


def _renamed(steps: Sequence[Any], of: StepList) -> str:
    """Return the steps with a name for each, under which the others name it; empty where that is long."""
    if not all(isinstance(each, Mapping) for each in steps):
        return ""
    names = [_meant_name(each.get("name"), number) for number, each in enumerate(steps, start=of.first)]
    meant = {each["name"]: name for each, name in zip(steps, names, strict=True) if is_text(each.get("name"))}
    shown = [_with_names(each, name, meant) for each, name in zip(steps, names, strict=True)]
    example = f"{of.name}={shown!r}"
    return example if len(example.encode("utf-8", "replace")) <= _MAX_EXAMPLE_BYTES else ""


def _with_names(step: Mapping[str, Any], name: str, meant: Mapping[str, str]) -> dict[str, Any]:
    after = listed_texts(step.get("after"))
    named = {"after": [meant.get(each, each) for each in after]} if after and STEP_PARTS["after"][1](after) else {}
    return {"name": name, **{part: value for part, value in step.items() if part != "name"}, **named}


def _meant_name(name: Any, number: int) -> str:
    """Return the name of a step that a text most likely means: `import-a` of `import a`; else its number."""
    plain = _UNNAMED.sub("-", name.strip() if is_text(name) else "").strip("-_.")[:MAX_STEP_NAME_CHARS].strip("-_.")
    return plain if _NAME.fullmatch(plain) else f"step-{number}"


def _step(given: Mapping[str, Any], of: StepList) -> StepRequest:
    known = _given(given)
    rest = {key: value for key, value in known.items() if key not in ("name", "after")}
    return StepRequest(known["name"], tuple(dict.fromkeys(known.get("after", ()))), rest, of)


def _wrong(of: StepList, place: str, name: Any, step: Mapping[str, Any]) -> InvalidArgument | None:
    """Return what is wrong with a member of a step: it is unknown, or of the wrong kind."""
    value = step[name]
    if name not in STEP_PARTS:
        meant = None if name in ScheduleArguments.__annotations__ else meant_part(str(name), value)
        unknown = f"a step has no such part{_hint(of, name, meant)}"
        example = renamed_part(str(name), meant, step)
        return InvalidArgument(f"{place}.{str(name)[:40]}", unknown, accepted=", ".join(STEP_PARTS), example=example)
    accepted, fits = STEP_PARTS[name]
    if fits(value):
        return None
    example = f"{name}={meant_value(name, value)}"
    return InvalidArgument(f"{place}.{name}", "it is of another kind", accepted=accepted, example=example)


def _hint(of: StepList, name: Any, meant: str | None) -> str:
    """Say whose part it is, or which one may be meant."""
    if name in ScheduleArguments.__annotations__:
        return "; the whole chain has it" if of is CHAIN_STEPS else ""
    return f"; did you mean {meant}" if meant else ""


def _problems_of_names(steps: Sequence[StepRequest], of: StepList) -> list[InvalidArgument]:
    names = [step.name for step in steps]
    problems = [
        InvalidArgument(
            f"{of.name}[{number}].name",
            f"two steps are named {name}",
            accepted="a name of its own for each step",
            example=f"{name}-{number}",
        )
        for number, name in enumerate(names, start=of.first)
        if name in names[: number - of.first]
    ]
    for step in steps:
        problems += [_unknown(step, name, steps) for name in step.after if name not in names and not is_outside(name)]
    return problems


def is_outside(name: str) -> bool:
    """Whether what a step comes after is named by an id, and not as a step of its chain."""
    return _OUTSIDE.match(name) is not None


def no_such_step(name: str, names: Sequence[str]) -> InvalidArgument:
    """Return how to name a step of a chain that has these."""
    near = nearest_name(name[:MAX_STEP_NAME_CHARS], names)
    guess = f"; did you mean {near}" if near else ""
    accepted = f"names of its steps ({', '.join(names[:_MAX_PATH_STEPS])}) or ids of tasks and chains"
    problem = f"its chain has no step {name[:MAX_STEP_NAME_CHARS]!r}{guess}"
    return InvalidArgument("after", problem, accepted=accepted, example=f"after=['{near or names[0]}']")


def _unknown(step: StepRequest, name: str, steps: Sequence[StepRequest]) -> InvalidArgument:
    names = list(dict.fromkeys(other.name for other in steps if other.name not in _downstream(step.name, steps)))
    near = nearest_name(name[:MAX_STEP_NAME_CHARS], names)
    guess = f"; did you mean {near}" if near else ""
    problem = f"{step.name} -> {name[:MAX_STEP_NAME_CHARS]}: there is no such step{guess}"
    among = f"names of steps ({', '.join(names[:_MAX_PATH_STEPS])}) or " if names else ""
    example = f"after=['{near or names[0]}']" if names else "after=[]"
    return InvalidArgument(step.place("after"), problem, accepted=f"{among}ids of tasks and chains", example=example)


def _downstream(name: str, steps: Sequence[StepRequest]) -> set[str]:
    """Return the step and all that come after it, which it cannot come after."""
    found, reached = {name}, 0
    while len(found) > reached:
        reached = len(found)
        found |= {step.name for step in steps if found & set(step.after)}
    return found


def _ordered(steps: Sequence[StepRequest], of: StepList) -> list[StepRequest]:
    by_name = {step.name: step for step in steps}
    above = {step.name: [name for name in step.after if name in by_name] for step in steps}
    try:
        order = list(TopologicalSorter(above).static_order())
    except CycleError as cycle:
        path = list(reversed(cycle.args[1]))
        last, first = list(pairwise(path))[-1]
        raise InvalidArgument(
            f"{of.name}.{last}.after",
            f"a step would come after itself: {_path(path)}",
            accepted="steps without a cycle",
            example=repr([name for name in by_name[last].after if name != first]),
        ) from None
    return [by_name[name] for name in order]


def _path(names: Sequence[str]) -> str:
    shown = names if len(names) <= _MAX_PATH_STEPS else [*names[: _MAX_PATH_STEPS - 1], "…", names[-1]]
    return " -> ".join(shown)
