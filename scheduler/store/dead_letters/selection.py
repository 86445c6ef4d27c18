"""Selects dead letters by a filter, and reads them with their attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from duetime.scheduler.history.dead_letters import MAX_LETTERS_COUNTED, DeadLetter, DeadLetterFilter, LetterState
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import ATTEMPT_FIELDS, DEAD_LETTER
from duetime.scheduler.store.schema.tables.dead_letters import dead_letters
from duetime.scheduler.store.schema.tables.tasks import attempts, labels, tasks
from duetime.scheduler.store.text_index.text_search import Condition, has_text, titled_by_reading
from duetime.scheduler.task import Attempt
from sqlalchemy import Connection, ScalarSelect, Select, and_, exists, func, or_, select

LETTER_KEY = (dead_letters.c.at, dead_letters.c.run_id)
_origin = dead_letters.alias("origin")
_replay = dead_letters.c.replayed_as
_STATES: dict[LetterState, Condition] = {
    LetterState.OPEN: dead_letters.c.closed_at.is_(None),
    LetterState.REPLAYED: and_(dead_letters.c.closed_at.is_not(None), _replay.is_not(None)),
    LetterState.DISCARDED: and_(dead_letters.c.closed_at.is_not(None), _replay.is_(None)),
}


def _of_task(condition: Condition) -> Condition:
    return exists().where(tasks.c.id == dead_letters.c.task_id, condition)


def _labelled(label: str) -> Condition:
    named = (labels.c.tenant == dead_letters.c.tenant, labels.c.label == label)
    return exists().where(*named, labels.c.task_id == dead_letters.c.task_id)


_MEANINGS: dict[str, Callable[[Any], Condition]] = {
    "state": lambda state: _STATES[state],
    "task_id": lambda task_id: dead_letters.c.task_id == task_id,
    "action": lambda action: _of_task(tasks.c.action == action),
    "label": _labelled,
    "text": lambda words: or_(has_text(dead_letters.c.reason, words), _of_task(titled_by_reading(words))),
    "since": lambda instant: dead_letters.c.at >= instant,
    "until": lambda instant: dead_letters.c.at < instant,
}


def matching(tenant: str | None, where: DeadLetterFilter, below: int | None = None) -> list[Condition]:
    """Return the conditions of a filter, for one tenant or for all; with `below` of runs with fewer replays alone."""
    found = [] if tenant is None else [dead_letters.c.tenant == tenant]
    found += [] if below is None else [_replayed_below(below)]
    given = ((meaning, getattr(where, name)) for name, meaning in _MEANINGS.items())
    return [*found, *(meaning(value) for meaning, value in given if value is not None)]


def counted(tenant: str | None, where: DeadLetterFilter, below: int | None = None) -> ScalarSelect[int]:
    """Return a statement for the number of letters that match, up to MAX_LETTERS_COUNTED."""
    some = select(dead_letters.c.run_id).where(*matching(tenant, where, below)).limit(MAX_LETTERS_COUNTED).subquery()
    return select(func.count()).select_from(some).scalar_subquery()


def _replayed_below(number: int) -> Condition:
    """Whether fewer replays than this led to the run."""
    return ~exists().where(_origin.c.replayed_as == dead_letters.c.run_id, _origin.c.replay_number >= number)


def open_runs(connection: Connection, tenant: str, task_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the runs with an open letter of these tasks, by task."""
    of_them = (dead_letters.c.tenant == tenant, dead_letters.c.task_id.in_(list(task_ids)), _STATES[LetterState.OPEN])
    found: dict[str, set[str]] = {}
    for task_id, run_id in connection.execute(select(dead_letters.c.task_id, dead_letters.c.run_id).where(*of_them)):
        found.setdefault(task_id, set()).add(run_id)
    return {task_id: frozenset(run_ids) for task_id, run_ids in found.items()}


def replays(connection: Connection, run_ids: Iterable[str]) -> dict[str, int]:
    """Return how many replays led to each of these runs, without those of none."""
    statement = select(dead_letters.c.replayed_as, dead_letters.c.replay_number)
    found = connection.execute(statement.where(dead_letters.c.replayed_as.in_(list(run_ids)))).all()
    return {run_id: number or 0 for run_id, number in found}


def read(connection: Connection, statement: Select[Any]) -> list[DeadLetter]:
    """Return the letters of a statement over the columns of a letter, with what their tasks say."""
    letters = unreadable.values(connection, statement, DeadLetter, DEAD_LETTER)
    run_ids = [letter.run_id for letter, _ in letters]
    tried = _attempts(connection, run_ids)
    again, deliveries = (
        replays(connection, run_ids),
        _titles_and_actions(connection, [letter.task_id for letter, _ in letters]),
    )
    return [
        replace(
            letter,
            attempts=tuple(tried[letter.run_id]),
            reason="; ".join((letter.reason, *damage)),
            replays=again.get(letter.run_id, 0),
            title=deliveries.get(letter.task_id, ("", ""))[0],
            action=deliveries.get(letter.task_id, ("", ""))[1],
        )
        for letter, damage in letters
    ]


def _attempts(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[Attempt]]:
    tried: dict[str, list[Attempt]] = {run_id: [] for run_id in run_ids}
    every = select(*ATTEMPT_FIELDS).where(attempts.c.run_id.in_(run_ids)).order_by(attempts.c.number)
    for attempt, _ in unreadable.values(connection, every, Attempt, ATTEMPT_FIELDS):
        tried[attempt.run_id].append(attempt)
    return tried


def _titles_and_actions(connection: Connection, task_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    statement = select(tasks.c.id, tasks.c.title, tasks.c.action).where(tasks.c.id.in_(task_ids))
    rows = unreadable.rows(connection, statement)
    return {row.id: (row.title, row.action) for row in rows}
