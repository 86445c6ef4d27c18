"""Values with fields that a program makes and passes: a request, a filter. Each field is read as an argument is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, replace
from operator import attrgetter
from typing import Any

from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import named

NO_TYPES: frozenset[type] = frozenset()


class ValueKind:
    """The kind of a dataclass, whose fields `arguments` read; a field that is None stands for its default.

    `as_is` names exact types that the service reads itself, by field. Most values are of one, and they pass quickly,
    by the types of all fields together: this is the way of thousands of requests.
    """

    def __init__(
        self, kind: type[Any], arguments: Mapping[str, Argument], as_is: Mapping[str, frozenset[type]] | None = None
    ) -> None:
        self.kind = kind
        self.accepted = f"a {kind.__name__}"
        self._arguments = arguments
        self._made = {item.name: item for item in fields(kind)}
        self._values_of = attrgetter(*self._made)
        self._compared = [(name, item.default, _taken(item, as_is or {})) for name, item in self._made.items()]
        self._plain_shapes: set[tuple[type, ...]] = set()

    def schema(self) -> dict[str, Any]:
        """Return nothing: no model sees these arguments."""
        return {}

    def read(self, given: Any, place: int | None = None) -> Any:
        """Return `given` with every field read; `place` is where it stands in a list of requests.

        Raises ValueError for another type, and InvalidArguments for its fields.
        """
        if not isinstance(given, self.kind):
            raise ValueError(f"{named(given)} is not {self.accepted}")  # noqa: TRY004 - one family for all kinds
        values = self._values_of(given)
        shape = tuple(map(type, values))
        if shape in self._plain_shapes:
            return given
        other = [
            (name, value)
            for (name, default, as_is), value in zip(self._compared, values, strict=True)
            if value is not default and type(value) not in as_is
        ]
        if other:
            return self._changed(given, other, place)
        if all(kind in as_is for kind, (_, _, as_is) in zip(shape, self._compared, strict=True)):
            self._plain_shapes.add(shape)
        return given

    def _changed(self, given: Any, other: Iterable[tuple[str, Any]], place: int | None) -> Any:
        read: dict[str, Any] = {}
        where = "" if place is None else f"requests[{place}]."
        problems: list[InvalidArgument] = []
        for name, value in other:
            argument = self._arguments[name]
            try:
                read[name] = _default(self._made[name]) if value is None else argument.kind.read(value)
            except InvalidArgument as problem:
                problems.append(problem)
            except ValueError as error:
                wrong = argument.problem(str(error), value)
                problems.append(
                    InvalidArgument(where + name, wrong.problem, accepted=wrong.accepted, example=wrong.example)
                )
        if problems:
            raise InvalidArguments(problems)
        return replace(given, **read) if any(read[name] is not value for name, value in other) else given


def _taken(item: Field[Any], as_is: Mapping[str, frozenset[type]]) -> frozenset[type]:
    absent = frozenset({type(None)}) if item.default is None else NO_TYPES
    return as_is.get(item.name, NO_TYPES) | absent


def _default(item: Field[Any]) -> Any:
    if item.default is MISSING and item.default_factory is MISSING:
        raise ValueError("it is missing")
    return item.default if item.default_factory is MISSING else item.default_factory()
