"""The options of each part, taken from the settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from duetime.scheduler.delivery import ChannelOptions, Channels, WebhookTarget
from duetime.scheduler.delivery.registry import OriginTarget
from duetime.scheduler.errors import InvalidArgument, InvalidSetting
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import RetentionPolicy, RetentionRule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.nodes.options import RunnerOptions
from duetime.scheduler.quotas import CostQuota, Quota, TenantQuotas, count_nothing
from duetime.scheduler.rules.headroom import HeadroomParts
from duetime.scheduler.rules.limits.price import micros_of
from duetime.scheduler.rules.time.days import public_holidays
from duetime.scheduler.task import State
from duetime.scheduler.worker.machine_load import LoadShedder, Machine, all_of_them
from duetime.server.settings.channels import ChannelSettings, OriginSettings
from duetime.server.settings.model import Settings
from platformdirs import user_data_path
from pydantic import SecretStr

SHARED_SPREAD_S = 120


def channel_options(settings: Settings) -> ChannelOptions:
    """Return the channels that are configured."""
    channels = settings.channels
    return ChannelOptions(
        desktop=settings.desktop_notifications,
        webhooks={
            name: WebhookTarget(str(channel.webhook), _revealed(channel.secret), _headers(channel))
            for name, channel in channels.items()
            if channel.webhook is not None
        },
        apprise={
            name: channel.apprise.get_secret_value()
            for name, channel in channels.items()
            if channel.apprise is not None
        },
        origins={client: _origin_target(origin) for client, origin in settings.origins.items()},
        outcomes={
            "desktop": tuple(map(State, settings.desktop_outcomes)),
            **{name: tuple(map(State, channel.outcomes)) for name, channel in channels.items()},
        },
        timeout=settings.webhook_timeout_seconds,
    )


def runner_options(settings: Settings) -> RunnerOptions:
    """Return how the runner works, and the lock that makes it one among the processes of this machine."""
    return RunnerOptions(
        lock=_lock_path(settings),
        threads=settings.threads,
        headroom=headroom(settings),
        lease=timedelta(seconds=settings.lease_seconds),
        grace=timedelta(seconds=settings.grace_seconds),
        allowance=allowance(settings),
        retention=retention_policy(settings),
        decisions=settings.decisions_per_minute,
    )


def retention_policy(settings: Settings) -> RetentionPolicy:
    """Return what is deleted when it is old."""
    rules = tuple(rule for rule in rules_of_audit(settings) if rule.until is None)
    return RetentionPolicy(rules, settings.archive_directory)


def former_rules(settings: Settings) -> tuple[RetentionRule, ...]:
    """Return the rules that delete nothing any more."""
    return tuple(rule for rule in rules_of_audit(settings) if rule.until is not None)


def rules_of_audit(settings: Settings) -> tuple[RetentionRule, ...]:
    """Return the rules that explain to the audit why events are gone: those of retention, and the former ones."""
    return tuple(
        RetentionRule(each.what, each.age, each.states, each.tenant, each.unread, each.until)
        for each in settings.retention
    )


def headroom(settings: Settings) -> HeadroomParts:
    """Return which parts of its threads a worker keeps for urgent runs."""
    return HeadroomParts(settings.critical_headroom, settings.high_headroom)


def allowance(settings: Settings) -> Callable[[int], int]:
    """Return what says how many of its threads a worker should use as the machine is now."""
    return LoadShedder(Machine()) if settings.yield_to_load else all_of_them


def _lock_path(settings: Settings) -> Path:
    """Return a file next to the SQLite file; for another database one in the data directory, named after its URL."""
    database_path = settings.sqlite_path
    if database_path is not None:
        return database_path.with_name(f"{database_path.name}.runner")
    name = hashlib.sha256(settings.database_url.encode()).hexdigest()[:16]
    folder = user_data_path("duetime", appauthor=False)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{name}.runner"


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def _origin_target(origin: OriginSettings) -> OriginTarget:
    if origin.webhook is not None:
        return WebhookTarget(origin.webhook, _revealed(origin.secret), _headers(origin))
    return origin.command or ()


def _headers(channel: ChannelSettings | OriginSettings) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in channel.headers.items()}


def holiday_calendar(settings: Settings) -> str:
    """Return the calendar of public holidays, empty for none; only a calendar that is named loads the package."""
    if not settings.holidays:
        return ""
    try:
        return public_holidays.find(settings.holidays)
    except InvalidArgument as unknown:
        raise InvalidSetting(str(unknown)) from None


def tenant_quotas(
    settings: Settings, spent: Callable[[str, datetime], int], refused: Callable[[Quota], None] = count_nothing
) -> TenantQuotas:
    """Return how much each tenant may store; `spent` returns what its runs cost since a time.

    `refused` is notified of each quota that refuses tasks.
    """
    most, zone = micros_of(settings.tenant_daily_cost), settings.timezone or "UTC"
    return TenantQuotas(
        settings.tenant_schedules_per_minute,
        settings.tenant_open_tasks,
        settings.tenant_payload_bytes,
        CostQuota(most, settings.currency, zone, spent) if most else None,
        refused,
    )


def planner_of(settings: Settings, handlers: Handlers, channels: Channels) -> Planner:
    """Return what plans requests, without the parts that are found out while the process runs."""
    return Planner(
        handlers,
        settings.timezone,
        channels=channels,
        default_channels=_default_channels(settings, channels),
        minimum_interval=timedelta(seconds=settings.minimum_interval_seconds),
        spread=spread_of(settings),
        zone_named="timezone" in settings.model_fields_set,
        holidays=holiday_calendar(settings),
    )


def spread_of(settings: Settings) -> timedelta:
    """Return the window of starts on the hour: where callers log in, many of them ask for the same.

    Without a login there is one user, whose work comes at its time. Reminders do anywhere.
    """
    usual = SHARED_SPREAD_S if settings.distributed or settings.auth else 0
    return timedelta(seconds=usual if settings.spread_seconds is None else settings.spread_seconds)


def _default_channels(settings: Settings, channels: Channels) -> tuple[str, ...]:
    """Return the default channels; a desktop that this machine lacks is left out."""
    named = settings.deliver_to or channels.default_channels()
    return tuple(name for name in named if name in channels)
