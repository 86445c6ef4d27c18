"""Reads the arguments of a request by the tables of the tools: from its path, its query, its headers and its body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any, Final

from duetime.scheduler.errors import DuetimeError, InvalidArgument, InvalidArguments
from duetime.scheduler.outbound.headers import JSON_MEDIA_TYPE
from duetime.scheduler.task import Json
from duetime.server.rest.conformance import misfit
from duetime.server.rest.operation import Operation
from duetime.server.rest.problem import ForeignTag, Malformed, Unfit
from duetime.tools.arguments.arguments import ActionOfTask, Argument, Arguments, no_task
from duetime.tools.arguments.strict_json import GivenTwice, NestedTooDeeply, strict_json
from starlette.datastructures import Headers

KEY_HEADER: Final = "Idempotency-Key"
CONDITION_HEADER: Final = "If-Match"

_REPEATED_WITH_CARE: Final = frozenset({"POST", "PATCH"})
"""Methods of which RFC 9110 does not say that a repeated request does nothing more."""

KEY_PATTERN: Final = r"^[!-~]{1,200}$"

_ENTITY_TAG = re.compile(r'"(0|[1-9][0-9]{0,8})"')
"""A tag as this server gives it."""

_TAG_LIST = re.compile(r'[ \t,]*(?:W/)?"[^"\s]*"(?:[ \t]*,[ \t,]*(?:W/)?"[^"\s]*")*[ \t,]*')
"""Tags as RFC 9110 has them."""

_WHOLE = re.compile(r"-?[0-9]{1,100}")


@dataclass(frozen=True, slots=True)
class ObjectList:
    """The kind of a list of objects, each with arguments of its own."""

    each: Arguments
    most: int

    @property
    def accepted(self) -> str:
        return f"a list of 1 to {self.most} objects"

    def of_list(self) -> dict[str, Any]:
        """Return the schema of the list without that of what is in it."""
        return {"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": self.most}

    def schema(self) -> dict[str, Any]:
        return {**self.of_list(), "items": self.each.schema()}

    def read(self, given: Json) -> Json:
        return given


@dataclass(slots=True)
class ReadArguments:
    """The arguments of one request: those that are right, and what is wrong with the others.

    Some are `unfit`: they are not as the document says. The `problems` of others no schema can say.
    """

    values: dict[str, Any] = field(default_factory=dict)
    unfit: list[InvalidArgument] = field(default_factory=list)
    problems: list[InvalidArgument] = field(default_factory=list)

    def read(self, table: Arguments, given: Mapping[str, Json], action_of: ActionOfTask = no_task) -> None:
        """Read what one part of the request gives; a missing argument that another name was meant for is no problem."""
        unknown = table.unknown_names(given)
        for argument in table.table.values():
            if argument.name in given:
                self._read_one(argument, given, action_of)
            elif argument.required and argument.name not in unknown.arguments:
                self.unfit.append(argument.problem("it is missing"))
        self.unfit += table.misnamed(unknown, given)

    def _read_one(self, argument: Argument, given: Mapping[str, Json], action_of: ActionOfTask) -> None:
        value = given[argument.name]
        many = argument.kind if isinstance(argument.kind, ObjectList) else None
        wrong = misfit(value, many.of_list() if many else argument.kind.schema())
        if wrong is not None:
            self.unfit.append(argument.problem(wrong, value, action=argument.action_in(given, action_of)))
        elif many:
            self._read_each(argument.name, many, value)
        else:
            self._read_value(argument, value)

    def _read_each(self, name: str, many: ObjectList, values: Any) -> None:
        """Read each object of a list; its problems name its place."""
        self.values[name] = read = list[dict[str, Any]]()
        for place, given in enumerate(values):
            found = ReadArguments()
            found.read(many.each, given)
            read.append(found.values)
            self.unfit += [problem.at(f"{name}[{place}]") for problem in found.unfit]
            self.problems += [problem.at(f"{name}[{place}]") for problem in found.problems]

    def _read_value(self, argument: Argument, value: Json) -> None:
        try:
            self.values[argument.name] = argument.kind.read(value)
        except ValueError as error:
            self.problems.append(argument.problem(str(error), value))

    def error(self, others: Iterable[InvalidArgument] = ()) -> DuetimeError | None:
        """Return all problems as one error, together with the `others`; None when there is none."""
        named = {problem.argument.partition(".")[0] for problem in (*self.unfit, *self.problems)}
        found = [*self.unfit, *self.problems, *(each for each in others if each.argument not in named)]
        if self.unfit:
            return Unfit(found)
        return InvalidArguments(found) if len(found) > 1 else next(iter(found), None)


def read_query(table: Arguments, pairs: Iterable[tuple[str, str]], found: ReadArguments) -> None:
    """Read the query, whose values are texts; a name that comes twice is refused."""
    given: dict[str, Json] = {}
    for name, text in pairs:
        if name in given:
            found.unfit.append(InvalidArgument(name[:60], "it is given twice"))
        argument = table.table.get(name)
        given[name] = _typed(text, argument.kind.schema().get("type")) if argument else text
    found.read(table, given)


def _typed(text: str, wanted: str | None) -> Json:
    """Return a text as the value that it writes, as it is where it writes none."""
    if wanted == "integer" and _WHOLE.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if wanted == "boolean" else text


def read_body(operation: Operation, headers: Headers, body: bytes) -> Mapping[str, Json]:
    """Return the object in the body of a request. Raises Malformed for any other body."""
    if operation.body is None:
        if body:
            raise Malformed("this request has no body.")
        return {}
    if not body and not any(argument.required for argument in operation.body):
        return {}
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_MEDIA_TYPE:
        raise Malformed(
            f"the body has to be {JSON_MEDIA_TYPE}.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, argument="Content-Type"
        )
    found = json_of(body)
    if not isinstance(found, dict):
        raise Malformed("the body is not a JSON object.")
    return found


def json_of(body: bytes) -> Any:
    """Return the JSON of a body.

    Raises Malformed for what is none or has too many levels, and for an object that names a member twice.
    """
    try:
        return strict_json(body)
    except GivenTwice as twice:
        raise Malformed(f"the body is not clear: {twice}.") from None
    except NestedTooDeeply as deep:
        raise Malformed(f"the body cannot be read: {deep}.") from None
    except JSONDecodeError as wrong:
        place = f"line {wrong.lineno}, column {wrong.colno}"
        raise Malformed(f"the body is not JSON at {place}: {wrong.msg[:1].lower()}{wrong.msg[1:]}.") from None
    except UnicodeDecodeError as wrong:
        raise Malformed(f"the body is not JSON: byte {wrong.start + 1} is not UTF-8.") from None
    except ValueError as wrong:
        raise Malformed(f"the body is not JSON: {wrong}.") from None


def read_condition(operation: Operation, headers: Headers) -> tuple[int, ...]:
    """Return the revisions that If-Match names, one of which the present one has to be; none without a condition.

    Raises ForeignTag for what is no list of tags, and where nothing ever has any of them.
    """
    given = ", ".join(headers.getlist(CONDITION_HEADER)).strip()
    if not operation.conditional or CONDITION_HEADER not in headers or given == "*":
        return ()
    strong = re.sub(r'W/"[^"]*"', "", given) if _TAG_LIST.fullmatch(given) else ""
    found = tuple(int(tag) for tag in _ENTITY_TAG.findall(strong))
    if not found:
        raise ForeignTag('nothing has such a tag; expected one as ETag gives it, such as "3", or *.', CONDITION_HEADER)
    return found


def read_key(operation: Operation, headers: Headers, repeatable: str) -> str | None:
    """Return the idempotency key of its header, None without one.

    Raises Malformed, also where a repeated request would do something twice all the same. `repeatable` says which
    requests take a key.
    """
    given = headers.getlist(KEY_HEADER)
    if not given or not (operation.repeatable or operation.method in _REPEATED_WITH_CARE):
        return None
    if not operation.repeatable:
        raise Malformed(
            f"this request takes no key, which would not make a repeat harmless. {repeatable}", argument=KEY_HEADER
        )
    if len(given) > 1 or not re.fullmatch(KEY_PATTERN, given[0]):
        raise Malformed("expected one key of 1 to 200 visible ASCII characters.", argument=KEY_HEADER)
    return given[0]
