"""A change of many tasks that stopped between two of its transactions: what it had done, and how that is taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from duetime.scheduler import remedies
from duetime.scheduler.calls.bulk_change import Became, TaskOutcome
from duetime.scheduler.errors import StoreUnavailable


class ChangeCutOff(StoreUnavailable):
    """The database failed after `changed` tasks had the change of a call; `undo` is the token that takes it back.

    A repeat with the same idempotency key does the rest.
    """

    def __init__(self, error: StoreUnavailable, changed: int, undo: str) -> None:
        self.changed = changed
        self.undo = undo
        super().__init__(f"{_said(changed)}. Then: {error}", remedy=remedies.UndoMany(undo))


@contextmanager
def report_partial_change(done: Sequence[TaskOutcome], undo: str) -> Iterator[None]:
    """Run a further transaction of a call; its error has the number of tasks that are changed, and the token.

    Raises `ChangeCutOff` in place of StoreUnavailable. Any other error gets a note.
    """
    changed = sum(each.became is Became.CHANGED for each in done)
    try:
        yield
    except StoreUnavailable as error:
        if not changed:
            raise
        raise ChangeCutOff(error, changed, undo) from error
    except BaseException as error:
        if changed:
            error.add_note(f"{_said(changed)}; the undo token {undo!r} takes that back.")
        raise


def _said(changed: int) -> str:
    return f"{changed} {'task is' if changed == 1 else 'tasks are'} changed already"
