"""Adds up counts of minutes to the hours and days of a zone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.store.database.dialects import StoreDialect
from sqlalchemy import ColumnElement

QUARTER_OF_HOUR_S = 900
"""Every zone is a number of quarters of an hour away from UTC, so these add up to its hours and days."""

Counted = Counter[tuple[Any, ...]]


def minute_of(at: ColumnElement[Any], width: BucketWidth, dialect: StoreDialect) -> Any:
    """Return the minute since 1970, or the first one of a quarter of an hour, by which to count for this width."""
    minute = dialect.minutes(at)
    length = 1 if width is BucketWidth.MINUTE else QUARTER_OF_HOUR_S // 60
    return minute - minute % length


def spread(counted: Counted, width: BucketWidth, zone: str) -> list[tuple[datetime, Counter[str]]]:
    """Add up counts by minute and word to the buckets of a zone, oldest first."""
    home = zones.load(zone)
    found: dict[datetime, Counter[str]] = {}
    for (minute, word), count in counted.items():
        start = _start((EPOCH + timedelta(minutes=int(minute))).astimezone(home), width)
        found.setdefault(start.astimezone(UTC), Counter())[str(word)] += count
    return sorted(found.items(), key=lambda bucket: bucket[0])


def _start(at: datetime, width: BucketWidth) -> datetime:
    if width is BucketWidth.DAY:
        return at.replace(hour=0, minute=0, fold=0)
    return at.replace(minute=0) if width is BucketWidth.HOUR else at
