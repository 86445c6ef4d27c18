"""The `expect` of a task: a field that its result has, a schema that the result meets, an address that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.access.secret import url_names_secret
from duetime.scheduler.chain.result_schema import form_problem, mismatch
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.watch.expression import NotEvaluated, holds, parsed
from duetime.scheduler.outbound.reply import Resolver, SendError, system_resolver
from duetime.scheduler.outbound.url_policy import WebhookOptions, check_url
from duetime.scheduler.rules.sanitize import check_json, clean_text, kind_of
from duetime.scheduler.task import Json

if TYPE_CHECKING:
    from duetime.scheduler.outbound.client import GuardedClient

FIELD: Final = "field"
SCHEMA: Final = "schema"
URL: Final = "url"
EXPECT_MEMBERS: Final = (FIELD, SCHEMA, URL)
EXPECT_EXAMPLE: Final = '{"field": "order_id"}'
_URL_EXAMPLE: Final = "https://example.com/health"
EXPECTED_URL_EXAMPLE: Final = f"{{'url': {_URL_EXAMPLE!r}}}"
MAX_EXPECT_REASON_CHARS: Final = 300
MAX_RESULT_SCHEMA_BYTES: Final = 8 * 1024
MAX_RESULT_SCHEMA_LEVELS: Final = 16
_REFUSED: Final = ("$ref", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties")
"""Keywords that can make a small schema endless: references and regular expressions."""


def check_expect(name: str, value: Any, options: WebhookOptions, *, of_result: bool = True) -> None:
    """Raise `InvalidArgument` unless a member can be checked; without a result only an address can."""
    if name in (FIELD, SCHEMA) and not of_result:
        accepted, example = "an action that returns a result; `url` alone", f"expect={{'url': {_URL_EXAMPLE!r}}}"
        raise InvalidArgument(f"expect.{name}", "a reminder has no result", accepted=accepted, example=example)
    place = f"expect.{name}"
    if name in (FIELD, URL) and not isinstance(value, str):
        raise InvalidArgument(
            place,
            f"{kind_of(value)} is not text",
            accepted="text",
            example="order_id" if name == FIELD else _URL_EXAMPLE,
        )
    if name == FIELD:
        parsed(place, value)
    elif name == SCHEMA:
        check_schema(place, value)
    else:
        check_url(place, value, options)
        if url_names_secret(value):
            raise InvalidArgument(
                place,
                "it names a secret, and secrets are not read here",
                accepted="an address without one",
                example=_URL_EXAMPLE,
            )


def check_schema(argument: str, schema: Json) -> None:
    """Raise `InvalidArgument` unless it is a schema that can be checked in bounded time."""
    check_json(argument, schema, max_bytes=MAX_RESULT_SCHEMA_BYTES, max_depth=MAX_RESULT_SCHEMA_LEVELS)
    if not isinstance(schema, Mapping):
        raise _no_schema(argument, f"{kind_of(schema)} is not an object")
    refused = next((name for name in _keywords(schema) if name in _REFUSED), None)
    if refused is not None:
        raise _no_schema(argument, f"it has {refused!r}, which is not supported")
    if problem := form_problem(schema):
        raise _no_schema(argument, clean_text(problem, MAX_EXPECT_REASON_CHARS, lines=False))


def _no_schema(argument: str, problem: str) -> InvalidArgument:
    accepted = f"a JSON Schema of at most {MAX_RESULT_SCHEMA_BYTES:,} bytes, without references and regular expressions"
    return InvalidArgument(argument, problem, accepted=accepted, example='{"required": ["order_id"]}')


def _keywords(schema: Json) -> Iterator[str]:
    pending: list[Any] = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            yield from item
            pending += item.values()
        elif isinstance(item, Sequence) and not isinstance(item, str):
            pending += item


class Expectations:
    """Compares results with what was expected of them; thread-safe. Never raises."""

    def __init__(self, options: WebhookOptions, *, resolve: Resolver = system_resolver) -> None:
        self._options = options
        self._resolve = resolve

    @cached_property
    def _client(self) -> GuardedClient:
        """The client, loaded when the first address is asked."""
        client: GuardedClient = import_module("duetime.scheduler.outbound.client").GuardedClient(
            self._options, resolve=self._resolve
        )
        return client

    def unmet(self, expect: Mapping[str, Any], result: Json) -> str:
        """Say what of `expect` a result does not meet; empty when it meets all."""
        try:
            found = next(filter(None, self._misses(expect, result)), "")
        except Exception as error:  # noqa: BLE001 - what was stored by a version that accepts more, for example
            found = f"it cannot be checked ({type(error).__name__})"
        return clean_text(found, MAX_EXPECT_REASON_CHARS, lines=False)

    def _misses(self, expect: Mapping[str, Any], result: Json) -> Iterator[str]:
        checks: Mapping[str, Callable[[Any, Json], str]] = {FIELD: _missing, SCHEMA: _differing, URL: self._silent}
        for name, check in checks.items():
            if name in expect:
                yield check(expect[name], result)

    def _silent(self, url: str, _result: Json) -> str:
        try:
            reply = self._client.send("GET", url, headers={})
        except SendError as error:
            return str(error)
        answered = HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES
        host = check_url("expect.url", url, self._options).host
        return "" if answered else f"GET {host} answered {reply.status}"


def _differing(schema: Mapping[str, Any], result: Json) -> str:
    """Say where a result does not meet a schema first; empty when it meets it."""
    return (mismatch(schema, result) or "").replace("$", "result", 1)


def _missing(field: str, result: Json) -> str:
    expression = parsed("expect.field", field)
    try:
        return "" if holds(expression.value(result)) else f"the result has no {expression.quoted}"
    except NotEvaluated as error:
        return str(error)
