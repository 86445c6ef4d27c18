"""A change of what a task waits for before its first start: dependencies, an event, and the question to the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

from duetime.scheduler.chain.dependency import Dependency, RunWaits
from duetime.scheduler.records import Change
from duetime.scheduler.task import Json
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import SignalWait


@dataclass(frozen=True, slots=True)
class NewLinks:
    """The waits of a task after a change; None keeps a part as it is. `no_wait` removes the wait for an event."""

    after: tuple[Dependency, ...] | None = None
    wait: SignalWait | None = None
    no_wait: bool = False
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """A task as it is after a change, and what its run `waits` for if it does.

    `repeated`: its key had named a change before, and nothing was written now.
    """

    record: TaskRecord
    waits: RunWaits | None = None
    repeated: bool = False


class LinkLocks(NamedTuple):
    """The locks that a change of links takes first: the rows of these tasks, and the names of these events."""

    task_ids: tuple[str, ...]
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelinkedChange(Change):
    """A change by which a task waits for `links` from now on, or again for what it waited for `before`."""

    links: NewLinks | None = None
    before: Mapping[str, Json] | None = None

    @classmethod
    def of(cls, change: Change, links: NewLinks) -> Self:
        """Return a change with new links."""
        return cls(**{each.name: getattr(change, each.name) for each in fields(Change)}, links=links)
