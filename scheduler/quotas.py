"""Quotas of each tenant: tasks scheduled in a minute, open tasks, their size, and the cost of a day.

They are read in the transaction that stores a task. No other call of the tenant stores one in it, so they hold over all
processes. The cost of runs is read before: it grows when attempts end, and not by calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Protocol

from duetime.scheduler.errors import Refused
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.rules.limits.price import amount_of, money
from duetime.scheduler.rules.limits.windows import window_ends, window_start
from duetime.scheduler.rules.sanitize import json_bytes
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.task import Task

SCHEDULE_WINDOW = timedelta(minutes=1)


class Quota(StrEnum):
    """The name of a quota: that of its setting."""

    DAILY_COST = "tenant_daily_cost"
    OPEN_TASKS = "tenant_open_tasks"
    PAYLOAD_BYTES = "tenant_payload_bytes"
    SCHEDULES_PER_MINUTE = "tenant_schedules_per_minute"


def count_nothing(_quota: Quota) -> None:
    """Count no refusal."""


class RateReached(Refused):
    """The tenant did as much as it may in some time; the same call is right in `wait_s` seconds."""

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class TaskCounts(Protocol):
    """The tasks of a tenant, as far as quotas go."""

    def is_made(self, key: IdempotencyKey) -> bool: ...

    def created_before_last(self, count: int) -> datetime | None: ...

    def has_open(self, count: int) -> bool: ...

    def payload_bytes(self) -> int: ...

    def next_due(self) -> datetime | None: ...


class NewPayload(Protocol):
    """A task that is about to be stored, as far as quotas go."""

    @property
    def key(self) -> IdempotencyKey | None: ...

    @property
    def task(self) -> Task: ...


@dataclass(frozen=True, slots=True)
class CostQuota:
    """The most that runs of a tenant may cost in a day of `zone`, in millionths of the currency.

    `spent` returns their cost since a time, which has to be fast: each call that schedules reads it.
    """

    most: int
    currency: str
    zone: str
    spent: Callable[[str, datetime], int]

    def today(self, tenant: str, now: datetime) -> int:
        """Return what the tenant's runs have cost today, in millionths."""
        return self.spent(tenant, window_start("day", zones.load(self.zone), now))

    def check(self, cost: int, now: datetime) -> None:
        """Raise RateReached until the day ends, when the tenant's runs have cost as much as they may."""
        if cost < self.most:
            return
        wait = window_ends("day", zones.load(self.zone), now, 1)[0] - now
        raise RateReached(
            f"tenant_daily_cost: the runs of this tenant may cost {money(amount_of(self.most))} {self.currency} a day, "
            f"and they cost {money(amount_of(cost))} today. Nothing was stored; repeat the call in "
            f"{times.rough_length(wait)}, when the day ends in {self.zone}.",
            wait_s=wait.total_seconds(),
        )


@dataclass(frozen=True, slots=True)
class TenantQuotas:
    """The quotas of every tenant; 0 or None sets none. `refused` is notified of each quota that refuses tasks."""

    schedules_per_minute: int = 0
    open_tasks: int = 0
    payload_bytes: int = 0
    daily_cost: CostQuota | None = None
    refused: Callable[[Quota], None] = field(default=count_nothing, compare=False)

    def admission(
        self, tenant: str, payloads: Sequence[NewPayload], now: datetime
    ) -> Callable[[TaskCounts], None] | None:
        """Return what raises Refused unless the tenant may store these tasks, None without any quota.

        A repeated call, which stores none, always may.
        """
        if not (self.schedules_per_minute or self.open_tasks or self.payload_bytes or self.daily_cost):
            return None
        cost = self.daily_cost.today(tenant, now) if self.daily_cost else 0
        return partial(self._check, payloads, now, cost)

    def check_change(
        self,
        tasks: TaskCounts,
        opened: int,
        new_bytes: int,
        now: datetime,
        dry_run: bool,
    ) -> None:
        """Check a change like `check_growth`; the refusals of a dry run are not counted."""
        quotas = replace(self, refused=count_nothing) if dry_run else self
        quotas.check_growth(tasks, opened, new_bytes, now)

    def check_growth(self, tasks: TaskCounts, opened: int, new_bytes: int, now: datetime) -> None:
        """Raise Refused unless the tenant may have so many more open tasks, and bytes of payload."""
        if opened and self.open_tasks:
            with self._counted(Quota.OPEN_TASKS):
                self._check_open(tasks, opened, now)
        if new_bytes and self.payload_bytes:
            with self._counted(Quota.PAYLOAD_BYTES):
                self._check_bytes(tasks, new_bytes, now)

    def rehearsal(
        self, tenant: str, payloads: Sequence[NewPayload], now: datetime
    ) -> Callable[[TaskCounts], None] | None:
        """Return the admission of a dry run, which stores nothing: its refusals are not counted."""
        return replace(self, refused=count_nothing).admission(tenant, payloads, now)

    def _check(self, payloads: Sequence[NewPayload], now: datetime, cost: int, tasks: TaskCounts) -> None:
        new = [each for each in payloads if each.key is None or not tasks.is_made(each.key)]
        if new and self.daily_cost:
            with self._counted(Quota.DAILY_COST):
                self.daily_cost.check(cost, now)
        self.check_growth(tasks, len(new), sum(json_bytes(each.task.payload) for each in new), now)
        if new and self.schedules_per_minute:
            with self._counted(Quota.SCHEDULES_PER_MINUTE):
                self._check_rate(tasks, len(new), now)

    @contextmanager
    def _counted(self, quota: Quota) -> Iterator[None]:
        try:
            yield
        except Refused:
            self.refused(quota)
            raise

    def _check_open(self, tasks: TaskCounts, count: int, now: datetime) -> None:
        most = self.open_tasks
        text = f"tenant_open_tasks: this tenant may have {most:,} open tasks. Nothing was stored; "
        if count > most:
            raise Refused(f"{text}schedule fewer at once.")
        if tasks.has_open(most - count + 1):
            raise Refused(f"{text}{_room(tasks, now)}")

    def _check_bytes(self, tasks: TaskCounts, new_bytes: int, now: datetime) -> None:
        most = self.payload_bytes
        text = f"tenant_payload_bytes: the payloads of this tenant's open tasks may have {most:,} bytes together. "
        if new_bytes > most:
            raise Refused(f"{text}Nothing was stored; these alone have {new_bytes:,}: make them smaller.")
        used = tasks.payload_bytes()
        if used + new_bytes > most:
            raise Refused(
                f"{text}They have {used:,}, and this adds {new_bytes:,}. Nothing was stored; {_room(tasks, now)}"
            )

    def _check_rate(self, tasks: TaskCounts, count: int, now: datetime) -> None:
        most = self.schedules_per_minute
        text = f"tenant_schedules_per_minute: this tenant may schedule {most:,} tasks a minute. Nothing was stored; "
        if count > most:
            raise Refused(f"{text}schedule fewer at once.")
        last = tasks.created_before_last(most - count)
        wait = last + SCHEDULE_WINDOW - now if last is not None else timedelta()
        if wait > timedelta():
            raise RateReached(f"{text}repeat the call in {times.rough_length(wait)}.", wait_s=wait.total_seconds())


def _room(tasks: TaskCounts, now: datetime) -> str:
    """Say what makes room among the open tasks, and when the first of them is due to end."""
    due = tasks.next_due()
    if due is None:
        return "no open task ends by itself at a known time, so cancel one."
    when = "is due now" if due <= now else f"is due in {times.rough_length(due - now)}"
    return f"there is room when a task has ended or is cancelled, and the next one {when}."


NO_QUOTAS = TenantQuotas()
