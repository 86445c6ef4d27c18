"""The settings of one external action: its runs are executed elsewhere, by workers that claim them over MCP."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

MIN_EXTERNAL_LEASE: Final = timedelta(seconds=5)
MAX_EXTERNAL_LEASE: Final = timedelta(hours=1)
MAX_EXTERNAL_TIME_LIMIT: Final = timedelta(days=1)


def _length(value: Any) -> Any:
    """Read a length of time: words, as `10 min`, or seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return timedelta(seconds=value) if isinstance(value, int | float) else parse_exact(value)
    except (Misread, Unknown, OverflowError, ValueError):
        raise ValueError("it must be a length of time, as '10 min', or seconds") from None


def _between(least: timedelta, most: timedelta, bounds: str) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if not least <= value <= most:
            raise ValueError(f"it must be from {bounds}")
        return value

    return AfterValidator(check)


def _schema(value: dict[str, Any]) -> dict[str, Any]:
    from duetime.scheduler.handlers.contract.external_action import (  # noqa: PLC0415 - few have one
        check_payload_schema,
    )

    try:
        check_payload_schema(value)
    except InvalidArgument as problem:
        raise ValueError(str(problem)) from None
    return value


ExternalLease = Annotated[
    timedelta, BeforeValidator(_length), _between(MIN_EXTERNAL_LEASE, MAX_EXTERNAL_LEASE, "5 s to 1 hour")
]
ExternalTimeLimit = Annotated[
    timedelta, BeforeValidator(_length), _between(timedelta(seconds=1), MAX_EXTERNAL_TIME_LIMIT, "1 s to 1 day")
]
ExternalPayloadSchema = Annotated[dict[str, Any], AfterValidator(_schema)]
ExternalActionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
ExternalNeed = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,99}$")]


class ExternalActionSettings(BaseModel):
    """An action whose runs agents elsewhere claim and execute over MCP, with keys of the scope `worker`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)] = Field(
        description="what the action does, for callers and workers", examples=["Transcribes an audio file"]
    )
    payload: ExternalPayloadSchema | None = Field(
        default=None,
        description="the JSON Schema of its payloads, which each call is checked by; without one any object is taken",
        examples=['{required = ["url"], properties = {url = {type = "string"}}}'],
    )
    needs: dict[ExternalNeed, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict,
        description="the units of pools that a claimed run holds; a task may give other amounts and more pools",
        examples=["{gpu = 1}"],
    )
    time_limit: ExternalTimeLimit = Field(
        default=timedelta(minutes=10),
        description="how long one attempt may take, from the claim on",
        examples=['"10 min"'],
    )
    lease: ExternalLease = Field(
        default=timedelta(seconds=60),
        description="how long a claim lives without a heartbeat before the run is tried again",
        examples=['"60 s"'],
    )
