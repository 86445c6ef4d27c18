"""Dependencies: a task that comes after others waits until each of them has ended; and it may wait for a signal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from duetime.scheduler.records import NewTask
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.task import Json, State, record
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import SignalWait

MAX_UPSTREAMS: Final = 50
"""Tasks and chains that one call names for a task to come after."""

MAX_UPSTREAMS_FOLLOWED: Final = 500
"""Tasks that one task comes after, with the steps of chains."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A task that another one comes after, and the JSON Schema that its result has to meet."""

    upstream_id: str
    after_failure: AfterFailure = AfterFailure.FAIL
    valid_output: Mapping[str, Json] | None = None


class StartConditions(TypedDict, total=False):
    """Conditions for the first run of a new task: the ends of other tasks, an approval, a signal."""

    after: Sequence[Dependency]
    approval: Approval | None
    wait: SignalWait | None


@record(frozen=True, slots=True)
class DependentTask(NewTask):
    """A new task that waits for others, for an approval or for a signal; its run has to be stored as waiting."""

    after: tuple[Dependency, ...] = ()
    approval: Approval | None = None
    wait: SignalWait | None = None


def upstreams_within(items: Iterable[NewTask]) -> set[str]:
    """Return the tasks that some of these new ones come after."""
    return {each.upstream_id for item in items if isinstance(item, DependentTask) for each in item.after}


class Upstream(NamedTuple):
    """A task that others come after: its title, the state of its run, and whether they still wait for it.

    Of a step that was found by the id of its chain: that, and whether no other step of it comes after this one.
    """

    task_id: str
    title: str
    state: State
    is_open: bool = True
    chain_id: str | None = None
    is_last: bool = True


class RunWaits(NamedTuple):
    """The upstreams of a waiting run, the oldest first, and whether a question or an event may be open as well."""

    upstreams: Sequence[Upstream] = ()
    others: bool = True


Upstreams = Mapping[str, Upstream]
"""Tasks that another one is to come after, by id."""
