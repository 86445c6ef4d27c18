"""Signals, and waits for one: what a task or a handler waits for, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from duetime.scheduler.task import Json

SIGNAL_KEPT: Final = timedelta(days=7)
"""Time for which a received signal is kept: the longest lookback, and as long a repeated id is known."""

MAX_SIGNALS_KEPT = 10_000
"""Signals that are kept for one tenant; beyond this number the oldest are deleted, a few hundred at a time."""

MAX_EVENTS_AWAITED = 5
"""Events of which a wait ends by any."""

MAX_WAITS_OPEN = 10_000
"""Waits that a tenant may have for one name, as one transaction compares a signal with all of them."""


class OnTimeout(StrEnum):
    """The effect on a run whose signal has not come in time."""

    EXPIRE = "expire"
    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class SignalWait:
    """A wait for a signal with this name, whose data have the members of `match`, sent from `since` to `until`.

    `at_once`: the signal starts the run before its time, which is `until`. One of the `others` ends it as well; these
    have its end.
    """

    name: str
    match: Mapping[str, Json]
    since: datetime
    until: datetime
    on_timeout: OnTimeout = OnTimeout.EXPIRE
    at_once: bool = False
    others: tuple[SignalWait, ...] = ()

    @property
    def all(self) -> tuple[SignalWait, ...]:
        """The wait and the others, each by itself."""
        return (replace(self, others=()), *self.others)

    @property
    def event_names(self) -> str:
        """The names of what is waited for, as sentences have them."""
        return " or ".join(dict.fromkeys(repr(each.name) for each in self.all))


@dataclass(frozen=True, slots=True)
class ReceivedSignal:
    """An event that was sent to a tenant, at `at` once it is stored; a second one with the same id is the same."""

    name: str
    id: str
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as the process of a handler gets it."""
        return {"name": self.name, "id": self.id, "data": dict(self.data), "at": self.at and self.at.isoformat()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        at = given["at"]
        return cls(given["name"], given["id"], given["data"], datetime.fromisoformat(at) if at else None)


@dataclass(frozen=True, slots=True)
class ArrivedSignal(ReceivedSignal):
    """An event that was stored, as a handler reads it."""

    at: datetime = field(kw_only=True)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(given["name"], given["id"], given["data"], at=datetime.fromisoformat(given["at"]))


@dataclass(frozen=True, slots=True)
class SentSignal:
    """The answer to a sent signal: how many tasks it let continue, and for how many others it was one of several waits.

    `repeated`: its id was known, nothing was done, and the counts are those of the first time.
    """

    signal: ReceivedSignal
    freed: int
    matched: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class KeptWait:
    """A wait as stored. `closed_at` is when the `signal` came, or when it was too late for one."""

    wait: SignalWait
    closed_at: datetime | None = None
    signal: ReceivedSignal | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def timed_out(self) -> bool:
        return self.closed_at is not None and self.signal is None
