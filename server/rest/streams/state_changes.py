"""Changes of what has no events: pools and workers, which operators see, and messages in the inbox of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.nodes.heartbeat import state_of
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, Json, State
from duetime.widgets.formats.rows import present

POOL, WORKER, INBOX = "pool", "worker", "inbox"
_NAMED_BY: Final = {POOL: "pool", WORKER: "worker_id"}

_WAITING: Final = frozenset({State.WAITING, State.SUSPENDED})
_ASKING: Final = frozenset({EventKind.ASKED, EventKind.UNDONE})
"""Kinds of events that may bring a question to a run which waits already; an undo takes its answer back."""

NamedState = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change that has no event. It is behind the event `place`.

    `owner` is the tenant and the user whose inbox it is of; without one it is for operators.
    """

    kind: str
    data: Mapping[str, Json]
    place: int
    owner: tuple[str, str] | None = None

    def concerns(self, reader: Principal) -> bool:
        """Whether a reader of a stream may see it."""
        if self.owner is None:
            return reader.may_read_all_of(None)
        return self.owner == (reader.tenant, reader.user)


class StateWatch:
    """Compares pools and workers with those of the last look, and finds the messages that came with events."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._seen: Mapping[str, NamedState] | None = None

    def begin(self) -> None:
        """Know the pools and workers of now, unless an earlier operator listens already."""
        if self._seen is None:
            self._seen = _installation(self._store())

    def end(self) -> None:
        """Forget them: no operator listens."""
        self._seen = None

    def look(self, events: Sequence[Event], place: int) -> list[StateChange]:
        """Return what has changed since the last look, and the messages of these events."""
        messages = _messages(self._store(), events)
        before, now = self._seen, _installation(self._store()) if self._seen is not None else None
        found = [_arrival(message, place) for message in messages]
        if before is not None and now is not None:
            found += _changes(before, now, place)
        if before is not None and self._seen is before:  # else operators came or left during the look
            self._seen = now
        return found


def _messages(store: Store, events: Sequence[Event]) -> list[InboxMessage]:
    """Return the outcomes of runs that have ended, and the questions that came with these events."""
    ended = {event.run_id for event in events if event.run_id and event.to_state in TERMINAL}
    asked = {event.run_id for event in events if event.run_id and _may_ask(event)}
    found = store.inbox.of_runs(sorted(ended | asked)) if ended or asked else []
    return [each for each in found if each.run_id in (asked if each.state is State.WAITING else ended)]


def _may_ask(event: Event) -> bool:
    """Whether an open question of the run came with the event: it began to wait, or asks although it waited before.

    Other changes of a run that waits leave its question as it is.
    """
    return event.to_state in _WAITING or event.kind in _ASKING or "asks" in (event.after or {})


def _installation(store: Store) -> Mapping[str, NamedState]:
    now = store.now()
    pools: NamedState = {pool.name: {"revision": pool.revision} for pool in store.pools.all()}
    workers: NamedState = {
        worker.id: present({"state": state_of(worker, now), "drain": worker.drain}) for worker in store.workers.all()
    }
    return {POOL: pools, WORKER: workers}


def _changes(before: Mapping[str, NamedState], now: Mapping[str, NamedState], place: int) -> Iterator[StateChange]:
    for kind, rows in now.items():
        for name in sorted({*before[kind], *rows}):
            if before[kind].get(name) != rows.get(name):
                yield StateChange(kind, {_NAMED_BY[kind]: name, **rows.get(name, {"removed": True})}, place)


def _arrival(message: InboxMessage, place: int) -> StateChange:
    data: dict[str, Json] = {"message_id": message.id, "task_id": message.task_id, "run_id": message.run_id}
    return StateChange(INBOX, {**data, "state": message.state.value}, place, (message.tenant, message.user))
