"""A method of the service as a program calls it: its arguments are read first, and its errors speak of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args, get_type_hints

from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.service.scheduler import Scheduler as Service
from duetime.server.python.arguments import OPENING, SPECIAL_ARGUMENTS, USUAL
from duetime.server.python.words import MethodWords
from duetime.tools.arguments.arguments import Argument, Arguments, action_of

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

RAW = "raw"
"""Is for front ends, which pass the arguments of an agent on; no error offers it to a program."""


class Front(Protocol):
    """A scheduler of programs: the service behind it, and the name of its class, in which errors speak."""

    @property
    def service(self) -> Service: ...

    @property
    def owner(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of one method: those that may be given by position, the reading of all, and what errors offer."""

    method: str
    positional: tuple[str, ...]
    first: str
    arguments: Arguments
    offered: Arguments

    @classmethod
    def of(cls, method: Callable[..., Any], name: str | None = None) -> Signature:
        name = name or method.__name__
        parameters = list(signature(method).parameters.values())[1:]
        named = [each for each in parameters if each.kind is not Parameter.VAR_KEYWORD]
        needed = [each.name for each in named if each.default is Parameter.empty]
        names = [*(each.name for each in named), *names_of_rest(method)]
        arguments = [_argument(name, each, required=each in needed) for each in names]
        return cls(
            name,
            tuple(each.name for each in named if each.kind is Parameter.POSITIONAL_OR_KEYWORD),
            needed[0] if needed else "",
            Arguments(name, arguments),
            Arguments(name, [each for each in arguments if each.name != RAW]),
        )

    def read(
        self, args: tuple[Any, ...], given: Mapping[str, Any], service: Service | None = None
    ) -> Mapping[str, Any] | None:
        """Return the values of a call by name, None for a call that Python itself refuses.

        Raises InvalidArgument(s) for every value that is not of its kind, and for names that there are not.
        """
        placed = dict(zip(self.positional, args, strict=False))
        if len(args) > len(self.positional) or not placed.keys().isdisjoint(given):
            return None
        values: dict[str, Any] = {}
        problems: list[InvalidArgument] = []
        call = placed | dict(given)
        for name, value in call.items():
            argument = self.arguments.table.get(name)
            if argument is None or (value is None and not argument.required):
                continue
            try:
                values[name] = argument.kind.read(value)
            except InvalidArgument as problem:
                problems.append(problem)
            except InvalidArguments as several:
                problems.extend(several.problems)
            except ValueError as error:
                action = argument.action_in(call, lambda: _action_of(call, service))
                problems.append(
                    argument.problem("it is missing" if value is None else str(error), value, action=action)
                )
        problems += self.offered.unknown({name: value for name, value in given.items() if name != RAW})
        if problems:
            raise problems[0] if len(problems) == 1 else InvalidArguments(problems)
        return values

    def words(self, owner: str) -> MethodWords:
        """Return the words in which errors of the method are written."""
        return MethodWords(owner, self.method, self.arguments.table.keys(), self.first)


def _action_of(call: Mapping[str, Any], service: Service | None) -> str | None:
    by = call.get("by", LOCAL)
    return action_of(service, call.get("task_id"), by) if service and isinstance(by, Principal) else None


def names_of_rest(method: Callable[..., Any]) -> list[str]:
    """Return the names that a method takes as `**arguments: Unpack[...]`."""
    rest = [each.name for each in signature(method).parameters.values() if each.kind is Parameter.VAR_KEYWORD]
    return [name for each in rest for name in get_args(get_type_hints(method)[each])[0].__annotations__]


def _argument(method: str, name: str, *, required: bool) -> Argument:
    known = SPECIAL_ARGUMENTS.get(f"{method}.{name}") or USUAL[name]
    return replace(known, required=required)


class ServicePart(Generic[C]):
    """A part of the service, or the whole, whose methods programs call."""

    def __init__(self, part: Callable[[Service], C]) -> None:
        self._part = part

    def checked(
        self, method: Callable[Concatenate[C, P], T], name: str | None = None
    ) -> Callable[Concatenate[Front, P], T]:
        """Return a method of the part for a front: arguments are read, and errors are in the words of the front.

        Programs call it by `name`, by default as the part does.
        """
        expected, part = Signature.of(method, name), self._part
        by_name: Callable[..., T] = method

        def called(front: Front, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                values, owner = expected.read(args, kwargs, front.service), part(front.service)
                return method(owner, *args, **kwargs) if values is None else by_name(owner, **values)
            except DuetimeError as error:
                error.args = (error.text_in(expected.words(front.owner)),)
                raise
            except TypeError as error:  # Python names the part, where it refuses a call
                error.args = (str(error).replace(f"{method.__qualname__}()", f"{front.owner}.{expected.method}()", 1),)
                raise

        update_wrapper(called, method)
        called.__name__ = expected.method
        return called


def check_opening(owner: str, **given: Any) -> None:
    """Check the arguments with which a scheduler is opened. Raises InvalidArgument(s) in the words of `owner`."""
    arguments = Arguments("open", OPENING)
    expected = Signature("open", (), "", arguments, arguments)
    try:
        expected.read((), given)
    except DuetimeError as error:
        error.args = (error.text_in(expected.words(owner)),)
        raise
