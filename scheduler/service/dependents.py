"""Names the tasks that ended with the one that they come after, or that began without it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from duetime.scheduler.rules.changes import UNDO_GRACE
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store import Store
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import UNDO_WINDOW, TaskView

_MAX_NAMED_TASKS = 5


def waiting_for(store: Store, tenant: str, task_id: str) -> frozenset[str]:
    """Return the ids of the tasks that wait for one, directly or behind others."""
    return frozenset(each.task_id for each in store.dependencies.waiters(tenant, task_id))


def ended_note(store: Store, tenant: str, task_ids: Collection[str]) -> tuple[str, ...]:
    """Name those of these tasks that have ended; an undo of what ended them lets them wait again."""
    found = store.dependencies.known(tenant, sorted(task_ids)) if task_ids else {}
    ended = [each for each, known in found.items() if known.state in TERMINAL]
    text = f"what comes after it ended too: {_named(ended)}"
    return (Translatable.of(NoteKind.OTHERS_ENDED, text, count=f"{len(ended)}"),) if ended else ()


def with_begun(store: Store, view: TaskView) -> TaskView:
    """Return a task whose cancel was taken back with a note on what after it had begun by then."""
    task = view.record.task
    begun = store.dependencies.begun_since(task.tenant, task.id, store.now() - UNDO_WINDOW - UNDO_GRACE)
    text = f"what had begun does not wait again: {_named(begun)}"
    note = (Translatable.of(NoteKind.OTHERS_BEGAN, text, count=f"{len(begun)}"),) if begun else ()
    return replace(view, warnings=(*view.warnings, *note))


def _named(task_ids: Sequence[str]) -> str:
    more = f" and {len(task_ids) - _MAX_NAMED_TASKS} more" if len(task_ids) > _MAX_NAMED_TASKS else ""
    return f"{', '.join(task_ids[:_MAX_NAMED_TASKS])}{more}"
