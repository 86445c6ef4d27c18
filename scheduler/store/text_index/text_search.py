"""Finds tasks and events by a part of their text, on both databases.

A rare text is looked up in an index of trigrams; a common one is found soon by reading in the order of the list. No
planner can say which of the two a text is, so the index is asked for its first matches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.store.schema.rows import folded
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.text_index import sqlite_index
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Text,
    any_,
    func,
    literal,
    select,
    text,
    true,
)

Condition = ColumnElement[bool]

MAX_INDEXED_MATCHES = 2_000
"""Matches up to which all are looked up and sorted."""

MAX_COMMON_MATCHES = 20_000
"""Matches up to which common words are looked up as well, when they are not found soon."""

MAX_EVENTS_OF_MATCHES = 5_000
"""Events of the tasks that match, up to which all are looked up and sorted."""

MAX_UNINDEXED_EVENTS = 20_000
"""Events behind SQLite's index that a search still reads; with more, it reads every row as without an index."""

MAX_TRIGRAMS = 24
"""Trigrams of a text that are looked up in SQLite; its matches are compared with the whole text anyway."""

MAX_TERMS = 500
"""Trigrams that begin with one or two characters, up to which all are looked up in SQLite."""

MAX_ROWS_SAMPLED = 20_000
"""Titles, and newest events, in which one or two characters are looked for first: common ones are found by reading."""

MAX_SAMPLE_MATCHES = 2_000
"""Matches among them from which such a word is common."""

ESCAPE = "/"
_LAST_CHARACTER = "\U0010ffff"
_WORD = re.compile(r"[^\W_]{3}")
_ASCII_WORD = re.compile(r"[^\W_]{3}", re.ASCII)
"""Without three letters or digits in a row, PostgreSQL's index has no trigram to look up, and reads all of itself."""

_TITLES_MATCH = text(
    """SELECT CASE WHEN instr(tasks.title_folded, :whole) > 0 THEN events.task_id END
    FROM (SELECT rowid AS id FROM search_titles WHERE search_titles MATCH :words LIMIT :most) AS found
    CROSS JOIN events ON events.id = found.id CROSS JOIN tasks ON tasks.id = events.task_id"""
)
_TITLE_TERMS = text("SELECT term FROM search_title_terms WHERE term >= :words AND term < :beyond LIMIT :most")
_REASON_TERMS = text("SELECT term FROM search_reason_terms WHERE term >= :words AND term < :beyond LIMIT :most")
_SAMPLE = "SELECT count(*) FROM (SELECT 1 FROM ({rows} LIMIT :rows) WHERE instr(words, :words) > 0 LIMIT :most)"
_TITLE_SAMPLE = text(_SAMPLE.format(rows="SELECT title_folded AS words FROM tasks"))
_REASON_SAMPLE = text(_SAMPLE.format(rows="SELECT lower(reason) AS words FROM events ORDER BY id DESC"))
_REASONS_MATCH = text("SELECT rowid FROM search_reasons WHERE search_reasons MATCH :words LIMIT :most")
_TITLE_INDEX = "tasks_title_trigrams"
_IS_USABLE = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


@dataclass(frozen=True, slots=True)
class Matches:
    """Ids that an index gives for a text. When not `complete`, there are more.

    Each of these tasks has the text in its title; an event may lack it.
    """

    ids: Sequence[Any]
    complete: bool

    def __add__(self, other: Matches) -> Matches:
        ids = list(dict.fromkeys((*self.ids, *other.ids)))
        return Matches(ids, self.complete and other.complete)


_UNKNOWN = Matches((), complete=False)


def titled(words: str) -> Condition:
    """Whether a task's title has these words, without regard to case."""
    return tasks.c.title_folded.contains(folded(words), autoescape=True)


def titled_by_reading(words: str) -> Condition:
    """Express `titled` in a form that no index serves."""
    return unindexed(tasks.c.title_folded).contains(folded(words), autoescape=True)


def unindexed(column: ColumnElement[str]) -> ColumnElement[str]:
    """Return the column in a form that no index serves, where a planner would choose a worse one than the ids'."""
    return column.concat("")


def gives_reason(words: str) -> Condition:
    """Whether an event's reason has these words; the database folds the case of both."""
    return has_text(events.c.reason, words)


def has_text(column: ColumnElement[str], words: str) -> Condition:
    """Whether a column has these words; the database folds the case of both."""
    return func.lower(column).like(func.lower(literal(f"%{escaped(words)}%")), escape=ESCAPE)


def escaped(words: str) -> str:
    """Return words as they stand in a pattern of LIKE with this `ESCAPE`."""
    return "".join(ESCAPE + each if each in f"%_{ESCAPE}" else each for each in words)


def among(connection: Connection, column: ColumnElement[Any], ids: Sequence[Any]) -> Condition:
    """Whether the column is one of `ids`, given as one parameter."""
    if dialect_of(connection).has_arrays:
        return column == any_(literal(list(ids), ARRAY(_type_of(column))))
    each = func.json_each(literal(json.dumps(list(ids)))).table_valued("value")
    return column.in_(select(each.c.value))


def _type_of(column: ColumnElement[Any]) -> BigInteger | Text:
    return BigInteger() if column is events.c.id else Text()


def in_set_of(connection: Connection, column: ColumnElement[Any], ids: Sequence[Any]) -> Condition:
    """Whether the column is one of `ids`, where they are compared with many rows: the database makes a set of them.

    By an index it would read all of them for each range of runs. PostgreSQL's planner weighs each id of a list, again
    for each range. A subquery spares it that; with IS TRUE around it, it stays a set and becomes no join.
    """
    if dialect_of(connection).has_arrays:
        return unindexed(column).in_(select(func.unnest(literal(list(ids), ARRAY(_type_of(column)))))).is_(true())
    return among(connection, unindexed(column), ids)


def matching_tasks(connection: Connection, tenant: str, words: str, most: int | None = None) -> Matches:
    """Return the tasks whose title has these words: of all tenants, or of one where no index can tell.

    Titles alone are read in an eighth of the time that a list takes for as many rows. PostgreSQL compares them by
    another collation than that of its index, so it has no title to copy: that saves a third of the time.
    """
    most = most or MAX_INDEXED_MATCHES
    on_server = dialect_of(connection).has_trigram_indexes
    title = tasks.c.title_folded.collate("C") if on_server else unindexed(tasks.c.title_folded)
    read = select(tasks.c.id).where(tasks.c.tenant == tenant, title.contains(folded(words), autoescape=True))
    return _indexed_tasks(connection, words, most) or first(connection, read, most)


def rare_titles(connection: Connection, words: str) -> Matches:
    """Return the tasks whose title has these words, of all tenants; incomplete when no index can tell."""
    return _indexed_tasks(connection, words, MAX_INDEXED_MATCHES) or _UNKNOWN


def rare_words(connection: Connection, words: str) -> tuple[Matches, Matches]:
    """Return the tasks whose title has these words, and events of which some give them as a reason, of all tenants.

    Both are incomplete when no index can tell.
    """
    titles = rare_titles(connection, words)
    if not titles.complete:
        return titles, _UNKNOWN
    return titles, _indexed_reasons(connection, words, MAX_INDEXED_MATCHES) or _UNKNOWN


def rare_matches(connection: Connection, words: str) -> tuple[Matches, Matches]:
    """Return what `rare_words` does; the tasks are incomplete as well when they have many events."""
    titles, reasons = rare_words(connection, words)
    if not (titles.complete and reasons.complete):
        return titles, reasons
    of_tasks = among(connection, events.c.task_id, titles.ids)
    return Matches(titles.ids, has_at_most(connection, of_tasks, MAX_EVENTS_OF_MATCHES)), reasons


def common_matches(connection: Connection, tenant: str, words: str) -> tuple[Condition | None, Matches]:
    """Return a condition for events of titles with common words, None for too many, and reasons as `rare_matches`."""
    having = (events.c.tenant == tenant, events.c.reason.is_not(None), has_text(unindexed(events.c.reason), words))
    read = select(events.c.id).where(*having)
    reasons = _indexed_reasons(connection, words, MAX_COMMON_MATCHES) or first(connection, read, MAX_COMMON_MATCHES)
    return _of_common_titles(connection, tenant, words), reasons


def _of_common_titles(connection: Connection, tenant: str, words: str) -> Condition | None:
    """Leave the ids to PostgreSQL: to read so many and send them back takes longer than all else."""
    if dialect_of(connection).has_trigram_indexes and _has_index(connection, _TITLE_INDEX, words):
        ids = select(tasks.c.id).where(titled(words)).scalar_subquery()
        of_tasks = events.c.task_id == any_(func.array(ids, type_=ARRAY(Text())))
        return of_tasks if has_at_most(connection, titled(words), MAX_COMMON_MATCHES) else None
    found = matching_tasks(connection, tenant, words, MAX_COMMON_MATCHES)
    return among(connection, events.c.task_id, found.ids) if found.complete else None


def _indexed_tasks(connection: Connection, words: str, most: int) -> Matches | None:
    """Return the tasks of all tenants whose title has these words; None where no index can tell."""
    if dialect_of(connection).has_trigram_indexes:
        return _by_trigrams(connection, _TITLE_INDEX, select(tasks.c.id).where(titled(words)), words, most)
    recent = select(events.c.task_id).where(_of_titled_task(words))
    return _by_index(connection, (_TITLES_MATCH, _TITLE_TERMS, _TITLE_SAMPLE), folded(words), recent, most)


def _of_titled_task(words: str) -> Condition:
    """Whether the task of an event has these words in its title: SQLite would begin a join with all titles."""
    having = select(titled(words)).where(tasks.c.id == events.c.task_id)
    return having.correlate(events).scalar_subquery().is_(True)


def _indexed_reasons(connection: Connection, words: str, most: int) -> Matches | None:
    having = select(events.c.id).where(gives_reason(words))
    if dialect_of(connection).has_trigram_indexes:
        return _by_trigrams(connection, "events_reason_trigrams", having, words, most)
    return _by_index(connection, (_REASONS_MATCH, _REASON_TERMS, _REASON_SAMPLE), _lower(words), having, most)


def first(connection: Connection, statement: Select[Any], most: int) -> Matches:
    """Return the first ids that a statement finds, up to `most`."""
    found = connection.execute(statement.limit(most + 1)).scalars().all()
    return Matches(found, len(found) <= most)


def has_at_most(connection: Connection, condition: Condition, most: int) -> bool:
    """Whether at most so many rows meet a condition; an index that has its columns is all that is read."""
    counted = select(func.count()).select_from(select(literal(1)).where(condition).limit(most + 1).subquery())
    return connection.execute(counted).scalar_one() <= most


def _by_trigrams(connection: Connection, index: str, statement: Select[Any], words: str, most: int) -> Matches | None:
    return first(connection, statement, most) if _has_index(connection, index, words) else None


def _has_index(connection: Connection, index: str, words: str) -> bool:
    """Whether PostgreSQL has the index, and finds three letters in a row."""
    if not connection.execute(_IS_USABLE, {"name": index}).scalar():
        return False
    if _ASCII_WORD.search(words):
        return True
    word = _WORD.search(words)
    return word is not None and trigrams.knows_letters(connection, word[0])


def _by_index(
    connection: Connection, indexed: tuple[Any, Any, Any], words: str, recent: Select[Any], most: int
) -> Matches | None:
    """Look in SQLite's index, by its statements for matches, trigrams and a sample, and read the events behind it."""
    position = sqlite_index.position(connection)
    if position is None or position.newest - position.event_id > MAX_UNINDEXED_EVENTS:
        return None
    matches, terms, sample = indexed
    pattern = _all_trigrams(words) or _any_trigram(connection, terms, sample, words)
    if pattern is None:
        return _UNKNOWN
    values = {"words": pattern, "whole": words, "most": most + 1}
    found = connection.execute(matches, values).scalars().all() if pattern else []
    behind = first(connection, recent.where(events.c.id > position.event_id), most)
    return Matches([one for one in found if one is not None], len(found) <= most) + behind


def _all_trigrams(words: str) -> str:
    """Return the trigrams of a text as SQLite's index is asked for them, empty without any."""
    each = dict.fromkeys(words[at : at + 3] for at in range(len(words) - 2))
    return " AND ".join(_quoted(list(each)[:MAX_TRIGRAMS]))


def _any_trigram(connection: Connection, terms: Any, sample: Any, words: str) -> str | None:
    """Return the trigrams that begin with one or two characters, empty without any; None when these are common.

    SQLite counts the rows of each trigram that it lists: 24 ms for a million.
    """
    parameters = {"words": words, "rows": MAX_ROWS_SAMPLED, "most": MAX_SAMPLE_MATCHES}
    if connection.execute(sample, parameters).scalar_one() == MAX_SAMPLE_MATCHES:
        return None
    bounds = {"words": words, "beyond": words + _LAST_CHARACTER, "most": MAX_TERMS + 1}
    found = connection.execute(terms, bounds).scalars().all()
    return " OR ".join(_quoted(found)) if len(found) <= MAX_TERMS else None


def _quoted(trigrams_found: Sequence[str]) -> list[str]:
    return ['"{}"'.format(trigram.replace('"', '""')) for trigram in trigrams_found]


def _lower(words: str) -> str:
    """Fold the case as SQLite's lower() does: of ASCII alone."""
    return words.encode().lower().decode()
