"""The payload of a watch: where it looks, what ends it, how often, and until when."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from duetime.scheduler.access.secret import places_of_references
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.http_request import HttpRequest
from duetime.scheduler.handlers.watch.expression import WATCH_EXAMPLE, Expression, condition, parsed
from duetime.scheduler.outbound.headers import MAX_HEADERS
from duetime.scheduler.outbound.url_policy import WebhookOptions
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.rules.time import times
from pydantic import BaseModel, Field, field_validator

MIN_EVERY: Final = timedelta(seconds=1)
MAX_EVERY: Final = timedelta(days=30)
MAX_UNTIL: Final = timedelta(days=366)
DEFAULT_EVERY: Final = "5 min"
DEFAULT_UNTIL: Final = "7 days"
MAX_WATCH_MESSAGE_CHARS: Final = 500
_UNTIL_ACCEPTED: Final = "a duration of at most 366 days, or a time: 'friday 18:00', '2026-12-24T18:00+01:00'"
_UNTIL_EXAMPLE: Final = "7 days"


class WatchPayload(BaseModel):
    """A look at `url`, or by the `check` of a plug-in, and its end: a `condition` that is met, or a `changed` value.

    `changed` is true for all of the value, or the JMESPath of a part of it.
    """

    url: str | None = Field(default=None, description="a public https URL", examples=["https://example.com/order/7"])
    condition: str | None = Field(default=None, description="JMESPath over the answer", examples=[WATCH_EXAMPLE])
    changed: bool | str | None = Field(default=None, description="true, or JMESPath", examples=["price"])
    every: str = Field(default=DEFAULT_EVERY, description="a duration of at least a minute", examples=["15 min"])
    until: str = Field(default=DEFAULT_UNTIL, description=_UNTIL_ACCEPTED, examples=[_UNTIL_EXAMPLE])
    message: str | None = Field(
        default=None, max_length=MAX_WATCH_MESSAGE_CHARS, description="what the user is told then"
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_HEADERS,
        description=f"at most {MAX_HEADERS} names and values; `secret:name` for a secret",
    )
    method: Literal["GET", "POST"] = Field(default="GET", description="GET or POST")
    body: Any = Field(default=None, description="JSON, or text; not with GET")
    check: str | None = Field(default=None, max_length=64, description="the name of a plug-in check, in place of a url")
    arguments: dict[str, Any] = Field(default_factory=dict, description="an object for the check")

    @field_validator("changed", mode="before")
    @classmethod
    def _as_flag(cls, given: object) -> object:
        """Read "true" as true: a client that writes every value as text means the flag, not a field of this name."""
        return {"true": True, "false": False}.get(given.lower(), given) if isinstance(given, str) else given

    @property
    def request(self) -> HttpRequest:
        """The request of one look."""
        return HttpRequest(self.method, self.url or "", self.headers, self.body)

    @property
    def expression(self) -> Expression | None:
        """The expression that selects the value, None for all of it. Raises `InvalidArgument`."""
        if self.condition is not None:
            return parsed("payload.condition", self.condition)
        return parsed("payload.changed", self.changed) if isinstance(self.changed, str) else None

    @property
    def interval(self) -> timedelta:
        """The time between two looks; raises `InvalidArgument`."""
        return times.parse_duration(self.every, argument="payload.every")

    def end(self, began: datetime) -> datetime:
        """Return when it expires; raises `InvalidArgument`."""
        span = _until(self.until)
        return span if isinstance(span, datetime) else began + span


def problems(payload: WatchPayload, options: WebhookOptions, checks: Collection[str]) -> Iterator[InvalidArgument]:
    """Yield what is wrong with a payload beyond its types."""
    yield from _source_problems(payload, options, checks)
    yield from _end_problems(payload)
    yield from _pace_problems(payload)


def _source_problems(
    payload: WatchPayload, options: WebhookOptions, checks: Collection[str]
) -> Iterator[InvalidArgument]:
    known = f"; checks: {', '.join(sorted(checks))}" if checks else ""
    if (payload.url is None) == (payload.check is None):
        text = "it is required" if payload.url is None else "it cannot be combined with a check; give one of them"
        example = _example("url") if payload.url is None else "check=null"
        yield InvalidArgument("payload.url", text, accepted=f"a url or a check{known}", example=example)
    elif payload.url is not None:
        yield from payload.request.problems(options)
    elif payload.check not in checks:
        accepted = ", ".join(sorted(checks)) or "a url; there are no checks here"
        near = nearest_name(str(payload.check), sorted(checks)) or next(iter(sorted(checks)), "")
        example = f"check={near!r}" if near else f"url={_example('url')!r}, check=null"
        yield InvalidArgument(
            "payload.check", f"there is no check {payload.check!r}", accepted=accepted, example=example
        )
    for place in places_of_references("payload.arguments", payload.arguments):
        yield InvalidArgument(place, "it names a secret, which a check reads by itself", accepted="the name, as text")


def _end_problems(payload: WatchPayload) -> Iterator[InvalidArgument]:
    if (payload.condition is None) == (not payload.changed):
        text = "it is required, or `changed`" if payload.condition is None else "it cannot be combined with `changed`"
        accepted = "one of the two: condition (JMESPath) or changed (true, or JMESPath)"
        example = WATCH_EXAMPLE if payload.condition is None else "changed=null"
        yield InvalidArgument("payload.condition", text, accepted=accepted, example=example)
        return
    try:
        _ = payload.expression if payload.condition is None else condition("payload.condition", payload.condition)
    except InvalidArgument as problem:
        yield problem


def _pace_problems(payload: WatchPayload) -> Iterator[InvalidArgument]:
    try:
        every, until = payload.interval, _until(payload.until)
    except InvalidArgument as problem:
        yield problem
        return
    if not MIN_EVERY <= every <= MAX_EVERY:
        text, accepted = f"{payload.every!r} is out of range", "1 second to 30 days"
        yield InvalidArgument(
            "payload.every", text, accepted=accepted, example=_length_within(every, MIN_EVERY, MAX_EVERY)
        )
    if isinstance(until, timedelta) and not every <= until <= MAX_UNTIL:
        text = f"{payload.until!r} is {'too long' if until > MAX_UNTIL else 'shorter than `every`'}"
        nearest = _length_within(until, min(max(every, MIN_EVERY), MAX_EVERY), MAX_UNTIL)
        yield InvalidArgument("payload.until", text, accepted=_UNTIL_ACCEPTED, example=nearest)


def _length_within(given: timedelta, least: timedelta, most: timedelta) -> str:
    return times.length(min(max(given, least), most))


def _until(text: str) -> timedelta | datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return _duration(text)
    if instant.utcoffset() is None:
        raise InvalidArgument(
            "payload.until", f"{text!r} has no offset", accepted=_UNTIL_ACCEPTED, example=f"{text.strip()}+00:00"
        )
    return instant


def _duration(text: str) -> timedelta:
    try:
        return times.parse_duration(text, argument="payload.until")
    except InvalidArgument as error:
        raise InvalidArgument(
            "payload.until", error.problem, accepted=_UNTIL_ACCEPTED, example=_UNTIL_EXAMPLE
        ) from None


def _example(name: str) -> str:
    return str((WatchPayload.model_fields[name].examples or [""])[0])
