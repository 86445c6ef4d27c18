"""The checks of `duetime doctor`: each reports a finding, and the remedy when something is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from platform import python_version

from duetime.scheduler.audit.entry import AuditEntry
from duetime.scheduler.errors import DuetimeError, InvalidSetting, SchemaTooNew, StoreUnavailable, StoreUnwritable
from duetime.scheduler.events import EventFilter
from duetime.scheduler.nodes.ipc import ANSWER_TIMEOUT_S, RunnerClient
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.queue.reports import sum_thread_use
from duetime.scheduler.rules.time import times
from duetime.scheduler.store import Store
from duetime.server.doctor.channels import channel_checks, deliveries_check, opened
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.doctor.database import (
    RUNNER_ADVICE,
    backlog_check,
    indexes_check,
    rows_check,
    schema_check,
    search_check,
)
from duetime.server.doctor.deep import audit_checks, integrity_checks
from duetime.server.doctor.distributed import (
    actions_check,
    keys_of_members,
    namespace_check,
    queue_check,
    redis_check,
    skew_check,
    worker_actions,
    workers_check,
)
from duetime.server.doctor.retention import retention_check
from duetime.server.doctor.secrets import secrets_check
from duetime.server.settings.handlers import load_handlers
from duetime.server.settings.layers import config_path
from duetime.server.settings.masks import masked
from duetime.server.settings.model import Settings
from duetime.server.settings.options import rules_of_audit
from duetime.server.settings.work import default_database_url
from duetime.server.setup import background_service
from duetime.server.setup.invocation import Invocation
from duetime.version import __version__

LOW_DISK_BYTES = 100 * 1024 * 1024
CLOCK_TOLERANCE = timedelta(seconds=2)


def examine(
    settings: Settings,
    invocation: Invocation,
    *,
    config: Path | None = None,
    send_test: bool = False,
    deep: bool = False,
    send_again: AuditEntry | None = None,
    running: Store | None = None,
) -> list[Check]:
    """Look at everything; `config` is the file that the command line named, if any.

    Deliveries that were given up for a channel, the subject of `send_again`, become due.

    `running` is the store of a process that serves: it has the keys of its start, whatever their file has now.
    """
    return [
        _configuration(settings, config),
        *_database(settings, running, deep=deep, send_again=send_again),
        _zone(settings),
        _handlers(settings),
        *channel_checks(settings, send_test=send_test),
        _service(invocation, shared=settings.distributed),
    ]


def misconfigured(error: InvalidSetting) -> Check:
    """Return the only check of a wrong configuration: nothing else can be trusted then."""
    return Check("configuration", CheckVerdict.WRONG, str(error), "Correct it, then run `duetime doctor` again.")


def _configuration(settings: Settings, config: Path | None) -> Check:
    path = config_path(config)
    changed = sum(settings.origin(name) != "default" for name in Settings.model_fields)
    text = f"{path or 'no file'}, {changed} settings changed; duetime {__version__}, Python {python_version()}"
    return Check("configuration", CheckVerdict.OK, text)


def _database(
    settings: Settings, running: Store | None, *, deep: bool, send_again: AuditEntry | None = None
) -> Iterator[Check]:
    if settings.distributed:
        yield redis_check(settings)
    path = settings.sqlite_path
    if path is not None:
        yield _disk(path)
        if not path.exists():
            yield _missing(settings, path)
            return
    try:
        store = opened(settings)
    except DuetimeError as error:
        yield Check("database", CheckVerdict.WRONG, _cause(settings, error), _remedy(error))
        return
    try:
        yield from _rows(settings, store, running or store, deep=deep, send_again=send_again)
        yield from _processes(settings, store)
    finally:
        store.close()


def _rows(
    settings: Settings, store: Store, running: Store, *, deep: bool, send_again: AuditEntry | None
) -> Iterator[Check]:
    """Check what is stored."""
    yield _safely("database", partial(schema_check, masked(settings.database_url)), store)
    yield _safely("clock", _clock, store)
    yield _safely("rows", partial(rows_check, deep=deep), store)
    if settings.sqlite_path is None:
        yield _safely("indexes", indexes_check, store)
    yield _safely("search", search_check, store)
    yield _safely("backlog", backlog_check, store)
    yield _safely("deliveries", partial(deliveries_check, settings=settings, send_again=send_again), store)
    yield _safely("secrets", partial(secrets_check, partial(keys_of_members, settings)), running)
    yield _safely("retention", partial(retention_check, settings=settings), store)
    if deep:
        yield from integrity_checks(store)
        yield from audit_checks(store, rules_of_audit(settings))


def _processes(settings: Settings, store: Store) -> Iterator[Check]:
    """Check what runs the tasks, here or on many machines."""
    if not settings.distributed:
        yield _safely("runner", _runner, store)
        yield _safely("actions", partial(actions_check, _actions, external=settings.external_actions), store)
        yield from _load(store)
        return
    yield _safely("namespace", partial(namespace_check, settings), store)
    yield _safely("queue", partial(queue_check, settings), store)
    yield _safely("clock skew", skew_check, store)
    yield _safely("workers", workers_check, store)
    yield _safely("actions", partial(actions_check, worker_actions, external=settings.external_actions), store)


def _disk(path: Path) -> Check:
    directory = path.parent if path.parent.is_dir() else _nearest_directory(path.parent)
    blocked = next((each for each in (directory, path) if each.exists() and not os.access(each, os.W_OK)), None)
    if blocked is not None:
        return Check(
            "disk", CheckVerdict.WRONG, f"{blocked} cannot be written.", "Change its permissions or its owner."
        )
    free = shutil.disk_usage(directory).free
    text = f"{free // 1024**2} MiB free at {directory}"
    if free < LOW_DISK_BYTES:
        return Check("disk", CheckVerdict.WRONG, text, "Free some space: a full disk refuses every new task.")
    return Check("disk", CheckVerdict.OK, text)


def _missing(settings: Settings, path: Path) -> Check:
    if path.parent.is_dir() or settings.database_url == default_database_url():
        return Check("database", CheckVerdict.NOTE, f"{path} does not exist yet; the first start creates it.")
    text = f"the directory {path.parent} does not exist."
    return Check("database", CheckVerdict.WRONG, text, f"Create it, or correct {settings.origin('database_url')}.")


def _nearest_directory(path: Path) -> Path:
    return next(parent for parent in path.absolute().parents if parent.is_dir())


def _cause(settings: Settings, error: DuetimeError) -> str:
    """Return the driver's own words of a server that cannot be used, with its address."""
    cause = error.__cause__
    if settings.sqlite_path is not None or cause is None or isinstance(error, InvalidSetting):
        return str(error)
    return f"{masked(settings.database_url)}: {' '.join(str(getattr(cause, 'orig', cause)).split())}"


def _remedy(error: DuetimeError) -> str:
    remedies: dict[type[DuetimeError], str] = {
        SchemaTooNew: "Upgrade this Duetime: git pull, and pip install ., in its checkout",
        StoreUnwritable: "",  # its sentence says what to do
        StoreUnavailable: "Check database_url with `duetime config`, and that the database is running.",
    }
    return next((remedy for kind, remedy in remedies.items() if isinstance(error, kind)), "")


def _safely(name: str, look: Callable[[Store], Check], store: Store) -> Check:
    try:
        return look(store)
    except DuetimeError as error:
        return Check(name, CheckVerdict.WRONG, str(error), _remedy(error))


def _clock(store: Store) -> Check:
    now = store.now()
    newest = next(iter(store.history.events(LOCAL.tenant, EventFilter(), limit=1).events), None)
    if newest is not None and newest.at > now + CLOCK_TOLERANCE:
        text = f"it is {now:%Y-%m-%d %H:%M:%S} UTC, but an event was recorded at {newest.at:%Y-%m-%d %H:%M:%S} UTC."
        return Check("clock", CheckVerdict.WRONG, text, "Synchronize the machine's clock with NTP.")
    return Check("clock", CheckVerdict.OK, f"{now:%Y-%m-%d %H:%M:%S} UTC")


def _runner(store: Store) -> Check:
    current = store.runners.current()
    if current is not None and RunnerClient(store).wake(ANSWER_TIMEOUT_S):
        text = f"process {current.pid} has been running tasks since {current.started_at:%Y-%m-%d %H:%M} UTC"
        return Check("runner", CheckVerdict.OK, text)
    due = min((each.since for each in store.backlog.waiting(store.now()).values()), default=None)
    if due is not None:
        return Check(
            "runner",
            CheckVerdict.WRONG,
            f"tasks have been due since {due:%Y-%m-%d %H:%M} UTC, and no process is running them.",
            RUNNER_ADVICE,
        )
    return Check("runner", CheckVerdict.NOTE, "no process is running tasks.", RUNNER_ADVICE)


def _load(store: Store) -> Iterator[Check]:
    """Look whether threads of the process that runs tasks are withheld; no check where none is."""
    stats = RemoteQueue(RunnerClient(store).ask).stats()
    threads = sum_thread_use(stats.threads.values()) if stats else None
    if threads is not None and threads.withheld:
        text = f"{threads.withheld} of {threads.total} threads wait while the machine is short of memory or CPU."
        advice = "Stop other programs, or set yield_to_load to false, so that all threads start runs."
        yield Check("load", CheckVerdict.NOTE, text, advice)


def _actions(store: Store) -> frozenset[str] | None:
    return RemoteQueue(RunnerClient(store).ask).actions()


def _zone(settings: Settings) -> Check:
    if settings.timezone is None:
        text = "the system's time zone is unknown, so wall times without a zone are refused."
        return Check("zone", CheckVerdict.WRONG, text, "Set DUETIME_TIMEZONE, for example to Europe/Berlin.")
    now = times.describe(datetime.now(UTC), settings.timezone)
    return Check("zone", CheckVerdict.OK, f"{settings.timezone}, where it is {now} ({settings.origin('timezone')})")


def _handlers(settings: Settings) -> Check:
    try:
        found = load_handlers(settings)
    except DuetimeError as error:
        lacking = isinstance(error.__cause__, ModuleNotFoundError)
        where = f"Modules are searched in: {os.pathsep.join(sys.path[:3])} ..." if lacking else ""
        return Check("handlers", CheckVerdict.WRONG, str(error).removeprefix("handlers: "), where)
    checks = f"; checks of watches: {', '.join(sorted(found.checks))}" if found.checks else ""
    elsewhere = f"; executed elsewhere: {', '.join(sorted(found.external))}" if found.external else ""
    return Check("handlers", CheckVerdict.OK, f"{len(found)} actions: {', '.join(sorted(found))}{elsewhere}{checks}")


def _service(invocation: Invocation, *, shared: bool) -> Check:
    plan = background_service.plan(invocation)
    if plan is None:
        return Check(
            "service",
            CheckVerdict.NOTE,
            "this machine has neither systemd nor launchd.",
            "See `duetime service install`.",
        )
    state = background_service.status(plan)
    if state == "running":
        return Check("service", CheckVerdict.OK, f"runs ({plan.manager})")
    if shared:
        return Check("service", CheckVerdict.NOTE, f"{state}; workers run due tasks, here or elsewhere")
    text = f"{state}: reminders fire only while a chat client or `duetime serve` runs."
    return Check("service", CheckVerdict.NOTE, text, "`duetime service install` sets it up.")
