"""A rule of retention: which rows may be deleted once they are old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path

from duetime.scheduler.task import State

MIN_AGE = timedelta(days=1)
"""Nothing younger is deleted: subscribers, undo and repeated calls still need it."""

MIN_USAGE_AGE = timedelta(days=40)
"""Budgets of a month are counted from the recorded use."""


class RetentionKind(StrEnum):
    """A kind of rows that rules name. A task goes with all that it has, a run with its attempts; its events stay."""

    TASKS = "tasks"
    RUNS = "runs"
    EVENTS = "events"
    ATTEMPTS = "attempts"
    TRACEBACKS = "tracebacks"
    LOGS = "logs"
    INBOX = "inbox"
    DELIVERIES = "deliveries"
    DEAD_LETTERS = "dead_letters"
    USAGE = "usage"


WITH_STATES = frozenset({RetentionKind.TASKS, RetentionKind.RUNS, RetentionKind.INBOX})
"""The kinds that a rule can limit to states."""

WITH_UNREAD = frozenset({RetentionKind.TASKS, RetentionKind.RUNS, RetentionKind.INBOX})
"""The kinds of which rows with an unread message stay, unless the rule says otherwise."""


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Rows of a kind may go once they are older than `age`; None keeps them for ever, which is of use for one tenant.

    `states` are those in which a task or a run ended; none means all. A rule with a `tenant` replaces the rules without
    one for it. `unread` lets go of messages that nobody has read as well. A former rule deleted `until` a day, in UTC.
    """

    kind: RetentionKind
    age: timedelta | None
    states: tuple[State, ...] = ()
    tenant: str | None = None
    unread: bool = False
    until: date | None = None


@dataclass(frozen=True, slots=True)
class ScopedRule:
    """A rule that deletes, and the tenants that it does not concern, because they have rules of their own."""

    rule: RetentionRule
    age: timedelta
    except_tenants: tuple[str, ...] = ()


def scoped_rules(rules: Sequence[RetentionRule], kind: RetentionKind) -> list[ScopedRule]:
    """Return the rules of a kind that delete something, each with the tenants that it leaves to others."""
    of_kind = [rule for rule in rules if rule.kind is kind]
    named = tuple(sorted({rule.tenant for rule in of_kind if rule.tenant is not None}))
    return [
        ScopedRule(rule, rule.age, () if rule.tenant is not None else named) for rule in of_kind if rule.age is not None
    ]


def least_age_of_events(rules: Sequence[RetentionRule], tenant: str, day: date) -> timedelta:
    """Return the age from which the rules of a day let events of a tenant go; the longest of all where they keep them.

    Former rules count by themselves: a rule of today replaces none of them.
    """
    today = [rule for rule in rules if rule.until is None]
    former = [rule for rule in rules if rule.until is not None and day <= rule.until]
    return min(_least_age_of_events(today, tenant), _least_age_of_events(former, tenant))


def _least_age_of_events(rules: Sequence[RetentionRule], tenant: str) -> timedelta:
    scopes = [scope for kind in (RetentionKind.TASKS, RetentionKind.EVENTS) for scope in scoped_rules(rules, kind)]
    of_tenant = (scope for scope in scopes if scope.rule.tenant in {None, tenant})
    return min((scope.age for scope in of_tenant if tenant not in scope.except_tenants), default=timedelta.max)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """All rules of an installation, and the folder in which rows are kept before they are deleted; None keeps none."""

    rules: tuple[RetentionRule, ...] = ()
    archive: Path | None = None


KEEP_ALL = RetentionPolicy()
