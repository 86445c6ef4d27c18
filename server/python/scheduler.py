"""The scheduler of a program: the service, whose arguments are checked and whose errors name methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.handlers import Plugin
from duetime.scheduler.service.scheduler import Scheduler as Service
from duetime.server.app import Role, build
from duetime.server.python.calls import check_opening, checked
from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings


class ProgramScheduler:
    """Schedule, read and change tasks. Thread-safe; `Scheduler.open()` is all the set-up there is.

    Methods raise the errors of `duetime.errors`. InvalidArgument(s) is for what cannot be understood, TaskNotFound for
    an unknown id, and StaleRevision for an old revision. Refused means that the task's state does not allow it,
    StoreUnavailable that nothing could be stored.
    """

    def __init__(self, service: Service, *, owner: str = "Scheduler", policies: PolicyRegistry | None = None) -> None:
        self.service = service
        self._policies = policies
        self.owner = owner

    @classmethod
    @contextmanager
    def open(
        cls, settings: Settings | None = None, *, handlers: Sequence[Plugin] = (), run: bool = True
    ) -> Iterator[Self]:
        """Open the scheduler of `settings` (by default those of the environment) for the time of the block.

        With `run`, this process also runs what is due, unless another one does (of a shared installation it is one
        worker of many). It knows `handlers` in addition to the configured ones.
        """
        check_opening("Scheduler", settings=settings, handlers=handlers, run=run)
        role = Role.WORK if run else Role.SERVE
        with build(settings or load_settings(), handlers=handlers, role=role) as app:
            if run:
                app.start()
            yield cls(app.scheduler, policies=app.registry.policies)

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that a task may need; templates are left out."""
        return self.service.pools

    @property
    def policies(self) -> PolicyRegistry:
        """The policy, with its `set`, `roll_back` and `history`; a scheduler that was opened has it."""
        assert self._policies is not None
        return self._policies

    @property
    def zone(self) -> str | None:
        """The IANA zone of wall times when a caller names none, None when every caller has to name one."""
        return self.service.zone

    schedule = checked(Service.schedule)
    submit = checked(Service.submit)
    schedule_many = checked(Service.schedule_many)
    reschedule = checked(Service.reschedule)
    cancel = checked(Service.cancel)
    approve = checked(Service.approve)
    reject = checked(Service.reject)
    change_many = checked(Service.change_many)
    send_event = checked(Service.send_event)
    make_fire_address = checked(Service.make_fire_address)
    revoke_fire_address = checked(Service.revoke_fire_address)
    act = checked(Service.act)
    mark_read = checked(Service.mark_read)
    get = checked(Service.get)
    wait = checked(Service.wait)
    find = checked(Service.find)
    titles = checked(Service.titles)
    explain = checked(Service.explain)
    list = checked(Service.list)
    history = checked(Service.history)
    event_counts = checked(Service.event_counts)
    event_buckets = checked(Service.event_buckets)
    runs = checked(Service.runs)
    run_counts = checked(Service.run_counts)
    run_buckets = checked(Service.run_buckets)
    costs = checked(Service.costs)
    report = checked(Service.report)
    decisions = checked(Service.decisions)
    decision = checked(Service.decision)
    attempts = checked(Service.attempts)
    audit = checked(Service.audit)
    run_log = checked(Service.run_log)
    dead_letters = checked(Service.dead_letters)
    dead_letter = checked(Service.dead_letter)
    replay = checked(Service.replay)
    discard = checked(Service.discard)
    inbox = checked(Service.inbox)
    unread_count = checked(Service.unread_count)
    quiet_count = checked(Service.quiet_count)
    held = checked(Service.held)
    quiet_hours = checked(Service.quiet_hours)
    set_quiet_hours = checked(Service.set_quiet_hours)
    clear_quiet_hours = checked(Service.clear_quiet_hours)
    now = checked(Service.now)
