"""Notes of a transaction for its commit: tasks whose runs continue by it, runs that need a new place, and ended runs.

Statements take these notes deep down, and `Commits.write` notifies with them. A transaction without them must
take none: they would be lost, and the runs would wait for the next repair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from duetime.scheduler.run_records import EndedRun
from sqlalchemy import Connection

_INFO: Final = "duetime_commit_notes"


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """Ids of `freed` tasks, and of `rescored` ready runs for which other tasks wait now than before.

    `ended` are runs that ended, but by no attempt.
    """

    freed: list[str] = field(default_factory=list)
    rescored: list[str] = field(default_factory=list)
    ended: list[EndedRun] = field(default_factory=list)


@contextmanager
def collected(connection: Connection) -> Iterator[CommitNotes]:
    """Collect the notes of a transaction while the block runs."""
    info, notes = connection.info, CommitNotes()  # asked for once: a connection that was lost has none
    info[_INFO] = notes
    try:
        yield notes
    finally:
        del info[_INFO]


def notes_of(connection: Connection) -> CommitNotes:
    """Return the notes of the transaction under way. Raises LookupError where nothing collects them."""
    notes: CommitNotes | None = connection.info.get(_INFO)
    if notes is None:
        raise LookupError("this transaction notifies nobody; run it in Commits.write")
    return notes


def note_ends(connection: Connection, ends: Iterable[EndedRun]) -> None:
    """Note runs that ended by no attempt; where nothing collects notes, nobody is notified of them."""
    notes: CommitNotes | None = connection.info.get(_INFO)
    if notes is not None:
        notes.ended.extend(ends)
