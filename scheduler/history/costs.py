"""The words of costs: by what they are added up, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class CostGroup(StrEnum):
    """By what costs are added up. A run of a task with two labels counts for both, one without any for `""`."""

    DAY = "day"
    ACTION = "action"
    TENANT = "tenant"
    TIER = "tier"
    POOL = "pool"
    TASK = "task"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class CostLine:
    """The cost of one group: `key` is a date, or the name or id of what they are added up by; empty without a label.

    A task has its `title`, unless it cannot be read.
    """

    key: str
    cost: Decimal
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of attempts that ended from `since` on and before `until`; days are those of `zone`.

    Days are in their order, other groups the most costly first. `total` is of all runs, each once: of thousands of
    groups, the least costly ones have no line.
    """

    group: CostGroup
    since: datetime
    until: datetime
    currency: str
    zone: str
    total: Decimal
    lines: tuple[CostLine, ...] = ()
