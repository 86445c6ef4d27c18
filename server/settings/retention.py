"""The settings of retention: what is deleted when it is old, and where it is kept before."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

from duetime.scheduler.history.retention import (
    MIN_AGE,
    MIN_USAGE_AGE,
    WITH_STATES,
    WITH_UNREAD,
    RetentionKind,
)
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.task import State
from duetime.server.settings.checks import comma_separated
from duetime.server.settings.masks import masked
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

FOREVER = "forever"
MAX_AGE = timedelta(days=36_500)


def _age(value: Any) -> Any:
    """Read `90 days`; `forever` is None."""
    if not isinstance(value, str):
        return value
    if value == FOREVER:
        return None
    from duetime.scheduler.rules.time.durations import parse_exact  # noqa: PLC0415 - only where there is a rule
    from duetime.scheduler.rules.time.tokens import Misread, Unknown  # noqa: PLC0415 - as above

    try:
        age = parse_exact(value)
    except (Misread, Unknown):
        raise ValueError("no length of days or weeks, as '90 days'") from None
    if not MIN_AGE <= age <= MAX_AGE:
        raise ValueError(f"not between 1 day and {MAX_AGE.days:,} days; for example '90 days'")
    return age


def _ended(state: State) -> State:
    if state not in TERMINAL:
        raise ValueError(f"{state} is not a state in which a run ends ({', '.join(sorted(TERMINAL))})")
    return state


EndState = Annotated[State, AfterValidator(_ended)]


class RetentionRuleSettings(BaseModel):
    """One rule: what may be deleted, and how old it has to be."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: RetentionKind = Field(description="the kind of rows", examples=["tasks"])
    age: Annotated[Annotated[timedelta, Field(ge=MIN_AGE, le=MAX_AGE)] | None, BeforeValidator(_age)] = Field(
        description="how old they have to be, in days or weeks; `forever` keeps them", examples=["90 days"]
    )
    states: Annotated[tuple[EndState, ...], BeforeValidator(comma_separated)] = Field(
        default=(), description="only what ended in one of these states", examples=['["succeeded", "cancelled"]']
    )
    tenant: str | None = Field(
        default=None, min_length=1, max_length=200, description="only rows of this tenant", examples=["acme"]
    )
    unread: bool = Field(default=False, description="also what has a message that nobody has read", examples=["true"])
    until: date | None = Field(
        default=None,
        description="the last day, in UTC, of a former rule: it deletes nothing, and `audit verify` accepts what it "
        "deleted until then",
        examples=["2026-03-31"],
    )

    @model_validator(mode="after")
    def _fits(self) -> RetentionRuleSettings:
        if self.states and self.what not in WITH_STATES:
            raise ValueError(f"{self.what} have no states; leave `states` out")
        if self.unread and self.what not in WITH_UNREAD:
            raise ValueError(f"{self.what} have no unread messages; leave `unread` out")
        if self.what is RetentionKind.USAGE and self.age is not None and self.age < MIN_USAGE_AGE:
            raise ValueError(f"the budgets of a month need the usage of {MIN_USAGE_AGE.days} days")
        return self


@masked.register
def _(value: RetentionRuleSettings) -> str:
    age = FOREVER if value.age is None else f"{value.age / timedelta(days=1):g} days"
    return f"{value.what} ({age})" if value.until is None else f"{value.what} ({age} until {value.until})"


def _folder(path: Path) -> Path:
    if not path.expanduser().is_absolute():
        raise ValueError("it must be an absolute path")
    return path.expanduser()


class RetentionSettings(BaseModel):
    """The part of the settings about retention."""

    retention: list[RetentionRuleSettings] = Field(
        default_factory=list,
        description="rules by which old rows are deleted, one TOML table `[[retention]]` each: see "
        "[Retention](operations.md#retention). Without one, tasks and their history are kept for ever",
        examples=['[{"what": "tasks", "age": "90 days"}]'],
    )
    archive_directory: Annotated[Path, AfterValidator(_folder)] | None = Field(
        default=None,
        description="the folder in which `retention` writes rows as JSON lines before it deletes them; without it they "
        "are only deleted",
        examples=["/var/lib/duetime/archive"],
    )
