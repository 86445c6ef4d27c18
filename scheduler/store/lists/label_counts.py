"""Counts by label: rows are grouped by the list of labels that their task has, and the lists are taken apart here.

A join with the labels would read those of every task that has one. A list is looked up by the task's key, like its
action.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from duetime.scheduler.store.lists.time_buckets import Counted
from duetime.scheduler.store.schema.tables.tasks import tasks
from sqlalchemy import Text, cast

LABELS_OF_TASK: Final = cast(tasks.c.labels, Text())
"""The labels of a task as JSON text."""


def by_label(counted: Counted) -> Counter[str]:
    """Return counts by label of counts by such a text; a damaged one counts for no label."""
    found: Counter[str] = Counter()
    for (stored,), count in counted.items():
        for label in labels_in(stored):
            found[label] += count
    return found


def labels_in(stored: Any) -> frozenset[str]:
    """Return the labels in such a text, none of a damaged one."""
    try:
        read = json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return frozenset()
    return frozenset(label for label in read if isinstance(label, str)) if isinstance(read, list) else frozenset()
