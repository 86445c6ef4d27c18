"""Names the tasks that ended with the one that they come after."""

from __future__ import annotations

from collections.abc import Collection

from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import Store
from duetime.scheduler.translatable import NoteKind, Translatable

_MAX_NAMED_TASKS = 5


def waiting_for(store: Store, tenant: str, task_id: str) -> frozenset[str]:
    """Return the ids of the tasks that wait for one, directly or behind others."""
    return frozenset(each.task_id for each in store.dependencies.waiters(tenant, task_id))


def ended_note(store: Store, tenant: str, task_ids: Collection[str]) -> tuple[str, ...]:
    """Name those of these tasks that have ended; an undo of what ended them lets them wait again."""
    found = store.dependencies.known(tenant, sorted(task_ids)) if task_ids else {}
    ended = [each for each, known in found.items() if known.state in TERMINAL]
    more = f" and {len(ended) - _MAX_NAMED_TASKS} more" if len(ended) > _MAX_NAMED_TASKS else ""
    text = f"what comes after it ended too: {', '.join(ended[:_MAX_NAMED_TASKS])}{more}"
    return (Translatable.of(NoteKind.OTHERS_ENDED, text, count=f"{len(ended)}"),) if ended else ()
