"""What a caller asks for when scheduling, before anything is understood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, TypedDict

from duetime.scheduler.task import Json, RetryPolicy


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one schedule call; docs/tools.md says what each accepts.

    A naive datetime is a wall time in `timezone`; a timedelta counts from now, but for `deadline` from when a run is
    due. A number as `estimate` counts seconds. `needs` are units by pool. `raw` are the arguments as an agent sent
    them: given without an `idempotency_key`, a repeat of the same call within 60 s returns the first task.
    """

    title: str
    when: str | datetime | timedelta | None = None
    timezone: str | None = None
    repeat: str | None = None
    until: str | datetime | None = None
    max_runs: int | None = None
    action: str = "reminder"
    payload: Mapping[str, Json] = field(default_factory=dict)
    priority: str | None = None
    deadline: str | datetime | timedelta | None = None
    deadline_type: str | None = None
    estimate: str | float | timedelta | None = None
    needs: Mapping[str, Json] | None = None
    idempotency_key: str | None = None
    retry: RetryPolicy | None = None
    deliver_to: Sequence[str] = ()
    labels: Sequence[str] = ()
    dry_run: bool = False
    raw: Mapping[str, Json] | None = None

    def content(self) -> dict[str, Json]:
        """Return what identifies the request for idempotency: the arguments as sent, less the key and the dry run."""
        given = dict(self.raw) if self.raw is not None else self._given()
        for name in ("idempotency_key", "dry_run"):
            given.pop(name, None)
        return dict(json.loads(json.dumps(given, default=str, sort_keys=True)))

    def _given(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "raw"}
        return {name: value for name, value in values.items() if value not in (None, "", (), {}, [])}


class ScheduleArguments(TypedDict, total=False):
    """The keyword arguments of `Scheduler.schedule`: the fields of `Request` but the title."""

    when: str | datetime | timedelta | None
    timezone: str | None
    repeat: str | None
    until: str | datetime | None
    max_runs: int | None
    action: str
    payload: Mapping[str, Json]
    priority: str | None
    deadline: str | datetime | timedelta | None
    deadline_type: str | None
    estimate: str | float | timedelta | None
    needs: Mapping[str, Json] | None
    idempotency_key: str | None
    retry: RetryPolicy | None
    deliver_to: Sequence[str]
    labels: Sequence[str]
    dry_run: bool
    raw: Mapping[str, Json] | None


class RescheduleArguments(TypedDict, total=False):
    """The keyword arguments of `Scheduler.reschedule`: the fields of `Reschedule`."""

    title: str | None
    when: str | datetime | timedelta | None
    timezone: str | None
    repeat: str | None
    until: str | datetime | None
    payload: Mapping[str, Json] | None
    priority: str | None
    deadline: str | datetime | timedelta | None
    deadline_type: str | None
    estimate: str | float | timedelta | None
    needs: Mapping[str, Json] | None
    pause: bool | None
    skip_next: bool


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The arguments of one reschedule call: what is given changes, what is None stays."""

    title: str | None = None
    when: str | datetime | timedelta | None = None
    timezone: str | None = None
    repeat: str | None = None
    until: str | datetime | None = None
    payload: Mapping[str, Json] | None = None
    priority: str | None = None
    deadline: str | datetime | timedelta | None = None
    deadline_type: str | None = None
    estimate: str | float | timedelta | None = None
    needs: Mapping[str, Json] | None = None
    pause: bool | None = None
    skip_next: bool = False
