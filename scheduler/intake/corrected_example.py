"""Examples as a caller can send them back: that of a part of an argument becomes the whole argument, as it was sent."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, overload

from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.rules.redact import redacted_json

MAX_WHOLE_BYTES: Final = 220
"""Longest argument that an example repeats; of a longer one it shows the part alone, by its path."""

_PARTS: Final = re.compile(r"[^.\[\]]+")
_NUMBER: Final = re.compile(r"\.(\d+)\b")
_EITHER: Final = re.compile(r" or (?=[a-z_]+=)")
_NAMED: Final = re.compile(r"[a-z_]+=|[\[{]")
_EXCEPT: Final = re.compile(r"(?:^|(?<=, ))except=")
"""A member with a name that Python has as a word of its own."""

_STEPS: Final = "steps"
_DRY_RUN: Final = "dry_run"
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_MAX_TRIALS: Final = 4  # calls until the examples of a refusal are accepted together

Path = tuple[str, ...]
P = ParamSpec("P")
T = TypeVar("T")


@overload
def corrected(error: InvalidArgument, asked: object) -> InvalidArgument: ...
@overload
def corrected(error: InvalidArguments, asked: object) -> InvalidArguments: ...
def corrected(error: InvalidArgument | InvalidArguments, asked: object) -> InvalidArgument | InvalidArguments:
    """Return an error about a call with examples that name whole arguments; `asked` has these as its attributes."""
    call = _CorrectedCall(asked)
    if isinstance(error, InvalidArguments):
        return InvalidArguments([call.corrected(problem) for problem in error.problems])
    return call.corrected(error)


def corrects_examples(decide: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a decision show examples that can be sent back in what was asked, its second argument."""

    @wraps(decide)
    def decided(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return decide(*args, **kwargs)
        except (InvalidArgument, InvalidArguments) as error:
            raise corrected(error, args[1]) from None

    return decided


def with_accepted_examples(
    error: InvalidArgument | InvalidArguments, given: Mapping[str, Any], attempt: Callable[[Mapping[str, Any]], object]
) -> InvalidArgument | InvalidArguments:
    """Return an error whose examples are accepted when they are sent back together, in place of what was `given`.

    `attempt` raises what is wrong with a call. Mistakes of the corrected call are reported as well: an argument with
    two has an example with both corrections. An error that no trial ends stays as it is.
    """
    problems = _apart(error.problems if isinstance(error, InvalidArguments) else [error], given)
    for _ in range(_MAX_TRIALS):
        sent = _sent_back(given, problems, 0)
        again = _problems_of(attempt, sent)
        if again is None:
            return error
        if not again:
            several = max(len(_alternatives(each)) for each in problems)
            refused = {at for at in range(1, several) if _problems_of(attempt, _sent_back(given, problems, at)) != []}
            problems = [_as_accepted(_without(each, refused), sent or {}) for each in problems]
            return problems[0] if len(problems) == 1 else InvalidArguments(problems)
        for new in again:
            at = next((at for at, each in enumerate(problems) if each.argument == new.argument), len(problems))
            problems[at : at + 1] = [_joined(problems[at], new) if at < len(problems) else new]
    return error


def _as_accepted(problem: InvalidArgument, sent: Mapping[str, Any]) -> InvalidArgument:
    """Return a problem whose example has what all of them together correct in the arguments that it names."""
    named = _named(problem, 0)
    accepted = {name: sent.get(name) for name in named}
    return problem if accepted == named or len(_alternatives(problem)) > 1 else _with_example(problem, accepted)


def _apart(problems: Sequence[InvalidArgument], given: Mapping[str, Any]) -> list[InvalidArgument]:
    """Return problems with examples that repeat nothing of an argument that another of them corrects.

    Of several, one without an example is tried without its argument.
    """
    roots = [_root(each) for each in problems]
    bare = {each for each in problems if not each.example and each.argument in given and len(problems) > 1}
    problems = [_with_example(each, {each.argument: None}) if each in bare else each for each in problems]
    found = []
    for each, root in zip(problems, roots, strict=True):
        named = _named(each, 0)
        others = {name for name in roots if name != root and name in named and named[name] == given.get(name)}
        own = {name: value for name, value in named.items() if name not in others}
        found.append(_with_example(each, own) if others and own and len(_alternatives(each)) == 1 else each)
    return found


def _root(problem: InvalidArgument) -> str:
    """Return the whole argument that a problem is about, or about a part of."""
    return next(iter(_PARTS.findall(problem.argument)), problem.argument)


def _joined(known: InvalidArgument, new: InvalidArgument) -> InvalidArgument:
    """Return a problem without the example that is refused, or, where it was the only one, with both corrections."""
    if len(_alternatives(known)) > 1:
        return _without(known, {0})
    named = {**_named(known, 0), **_named(new, 0)}
    return _with_example(known, named) if named else known


def _problems_of(
    attempt: Callable[[Mapping[str, Any]], object], call: Mapping[str, Any] | None
) -> list[InvalidArgument] | None:
    """Return what is wrong with a call, None where it cannot be tried, or is refused for another reason."""
    if call is None:
        return None
    try:
        attempt({**call, _DRY_RUN: True})
    except (InvalidArgument, InvalidArguments) as wrong:
        return list(wrong.problems) if isinstance(wrong, InvalidArguments) else [wrong]
    except DuetimeError:
        return None
    return []


def _sent_back(given: Mapping[str, Any], problems: Sequence[InvalidArgument], which: int) -> dict[str, Any] | None:
    """Return a call with these examples in place of what is wrong; None for an example that names no argument."""
    call = dict(given)
    for problem in problems:
        named = _named(problem, which)
        if not named:
            return None
        for name in (problem.argument, _root(problem)):  # an unknown name may have a point, or be one
            call.pop(name, None)
        call |= named
    return {name: value for name, value in call.items() if value is not None}


def _alternatives(problem: InvalidArgument) -> list[str]:
    return _EITHER.split(problem.as_passed(problem.example))


def _named(problem: InvalidArgument, which: int) -> dict[str, Any]:
    found = _alternatives(problem)
    return keywords(found[min(which, len(found) - 1)]) if problem.example else {}


def _without(problem: InvalidArgument, refused: set[int]) -> InvalidArgument:
    """Return a problem without the alternatives that are refused."""
    found = _alternatives(problem)
    kept = [one for at, one in enumerate(found) if at not in refused]
    shown = problem.example if len(kept) == len(found) else " or ".join(kept)
    return InvalidArgument(problem.argument, problem.problem, accepted=problem.accepted, example=shown)


def _with_example(problem: InvalidArgument, named: Mapping[str, Any]) -> InvalidArgument:
    shown = ", ".join(f"{name}={_in_words(value)}" for name, value in named.items())
    return InvalidArgument(problem.argument, problem.problem, accepted=problem.accepted, example=shown)


class _CorrectedCall:
    """A call that is corrected problem by problem: an example has what those before it correct in its argument."""

    def __init__(self, asked: object) -> None:
        self._asked = asked
        self._arguments: dict[str, Any] = {}

    def corrected(self, problem: InvalidArgument) -> InvalidArgument:
        path = tuple(_PARTS.findall(problem.argument))
        whole = keywords(problem.example).get(problem.argument) if len(path) == 1 else None
        if isinstance(whole, Mapping):  # what is wrong with its parts is corrected in this one
            self._arguments[problem.argument] = whole
        if len(path) < 2 or not problem.example or not hasattr(self._asked, path[0]):  # noqa: PLR2004 - a part of one
            return problem
        try:
            examples = [self._shown(one, path) for one in reversed(_readings(problem.example))]
        except (TypeError, RecursionError):  # a program sent what is no JSON
            return problem
        shown = " or ".join(reversed(examples))
        return InvalidArgument(problem.argument, problem.problem, accepted=problem.accepted, example=shown)

    def _shown(self, example: str, path: Path) -> str:
        """Show the values of an example in the argument of which the path names a part."""
        values = {_place_of(name, path, self._asked): value for name, value in keywords(example).items()}
        values = values or {path: _value(example)}
        if (path[0],) in values:
            self._arguments[path[0]] = values[path[0],]
            return example  # it is the whole argument already
        whole = {place[0]: self._arguments.get(place[0], _sent(place[0], self._asked)) for place in values}
        for place, value in values.items():
            whole[place[0]] = _with(whole[place[0]], place[1:], value, first=int(place[0] == _STEPS))
        self._arguments |= whole
        return _written({name: None if value == {} else value for name, value in whole.items()}, values)


def _written(whole: Mapping[str, Any], values: Mapping[Path, Any]) -> str:
    """Write whole arguments, or the parts alone where these are too long, or have something secret in them."""
    if redacted_json(whole) == whole and len(repr(whole).encode("utf-8", "replace")) <= MAX_WHOLE_BYTES:
        values = {(name,): value for name, value in whole.items()}
    names = {place: _NUMBER.sub(r"[\1]", ".".join(place)) for place in values}
    return ", ".join(f"{names[place]}={_in_words(value)}" for place, value in values.items())


def _in_words(value: Any) -> str:
    """Write a value as it is sent: what JSON names otherwise than Python, by the words of JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name!r}: {_in_words(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_in_words, value))}]"
    return repr(value)


def _place_of(name: str, path: Path, asked: object) -> Path:
    """Return the place of an argument that an example names: on the way to what is wrong, or next to it."""
    on_way = [number for number, part in enumerate(path) if part == name]
    if on_way:
        return path[: on_way[-1] + 1]
    if name == _DRY_RUN:
        return (name,)
    outer = path[:2] if path[0] == _STEPS else ()
    return (*outer, name) if hasattr(asked, name) else (*path[:-1], name)


def _sent(name: str, asked: object) -> Any:
    """Return what was sent as an argument of several parts; the question of an approval may stand alone."""
    given = getattr(asked, name)
    if name == "approval" and isinstance(given, str):
        return {"question": given}
    several = isinstance(given, Mapping) or (isinstance(given, Sequence) and not isinstance(given, str))
    return _plain(given) if several else {}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, str):
        return str(value)
    return [_plain(part) for part in value] if isinstance(value, Sequence) else value


def _with(whole: Any, path: Path, value: Any, *, first: int = 0) -> Any:
    """Return a value with another one at a path, or without what is there; its items count from `first`."""
    if not path:
        return value
    if isinstance(whole, list):
        return [
            _with(item, path[1:], value) if _is_meant(item, number, path[0]) else item
            for number, item in enumerate(whole, start=first)
        ]
    parts = {**(whole if isinstance(whole, dict) else {})}
    parts[path[0]] = _with(parts.get(path[0]), path[1:], value)
    return {name: part for name, part in parts.items() if part is not None}


def _is_meant(item: Any, number: int, part: str) -> bool:
    """Whether a part of a path means this item of a list: by its number, or a step by its name."""
    return part == (item.get("name") if isinstance(item, dict) and not part.isdigit() else str(number))


def keywords(example: str) -> dict[str, Any]:
    """Read an example as keyword arguments, with the words of JSON in it; none where it is a value."""
    try:
        call = ast.parse(f"f({_EXCEPT.sub('except_=', example)})", mode="eval").body
        keywords = call.keywords if isinstance(call, ast.Call) else []
        return {str(each.arg).removesuffix("_"): ast.literal_eval(_Words().visit(each.value)) for each in keywords}
    except (SyntaxError, ValueError):
        return {}


def _readings(example: str) -> list[str]:
    """Return the alternatives of an example: assignments, or bare values."""
    return _EITHER.split(example) if _NAMED.match(example) else example.split(" or ")


def _value(example: str) -> Any:
    """Read a value; what is none in Python is text."""
    try:
        return ast.literal_eval(_Words().visit(ast.parse(example, mode="eval").body))
    except (SyntaxError, ValueError):
        return example


class _Words(ast.NodeTransformer):
    """Reads the words of JSON."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_JSON_WORDS[node.id]) if node.id in _JSON_WORDS else node
