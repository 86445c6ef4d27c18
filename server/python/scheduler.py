"""The scheduler of a program: the service, whose arguments are checked and whose errors name methods."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from duetime.scheduler.dispatch.policy_registry import PolicyRegistry
from duetime.scheduler.foresight.readers.decision_reader import DecisionReader
from duetime.scheduler.foresight.readers.inbox import InboxReader
from duetime.scheduler.foresight.readers.past_reader import PastReader
from duetime.scheduler.foresight.readers.report_reader import ReportReader
from duetime.scheduler.foresight.readers.task_reader import TaskReader
from duetime.scheduler.handlers import Plugin
from duetime.scheduler.runtime.print_capture import capture_prints_of_program
from duetime.scheduler.service.bulk.bulk_changes import BulkService
from duetime.scheduler.service.fire_addresses import FireAddressService
from duetime.scheduler.service.inbox import InboxService
from duetime.scheduler.service.letters.dead_letters import DeadLetterService
from duetime.scheduler.service.quiet_hours import QuietHoursService
from duetime.scheduler.service.scheduler import Scheduler as Service
from duetime.scheduler.service.signals import SignalService
from duetime.scheduler.service.task_creator import TaskCreator
from duetime.server.app import Role, build
from duetime.server.python.calls import ServicePart, check_opening
from duetime.server.python.open_block import OpenBlock, SchedulerClosed
from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings

_whole = ServicePart(lambda service: service)
_task_creator = ServicePart(lambda service: service.task_creator)
_bulk = ServicePart(lambda service: service.bulk)
_signals = ServicePart(lambda service: service.signals)
_addresses = ServicePart(lambda service: service.addresses)
_inbox = ServicePart(lambda service: service.inbox)
_inbox_changes = ServicePart(lambda service: service.inbox_changes)
_tasks = ServicePart(lambda service: service.tasks)
_past = ServicePart(lambda service: service.past)
_reports = ServicePart(lambda service: service.reports)
_decisions = ServicePart(lambda service: service.decisions)
_letters = ServicePart(lambda service: service.letters)
_quiet_hours = ServicePart(lambda service: service.quiet_hours)


class ProgramScheduler:
    """Schedule, read and change tasks. Thread-safe; `Scheduler.open()` is all the set-up there is.

    Methods raise the errors of `duetime.errors`. InvalidArgument(s) is for what cannot be understood, TaskNotFound for
    an unknown id, and StaleRevision for an old revision. Refused means that the task's state does not allow it,
    StoreUnavailable that nothing could be stored.
    """

    def __init__(
        self, service: Service | None = None, *, owner: str = "Scheduler", policies: PolicyRegistry | None = None
    ) -> None:
        if service is None:
            raise TypeError("Scheduler() opens nothing; write `with Scheduler.open() as scheduler:`")
        self._service: Service | None = service
        self._policies = policies
        self.owner = owner

    @classmethod
    def open(
        cls,
        settings: Settings | None = None,
        *,
        handlers: Sequence[Plugin] = (),
        run: bool = True,
        entry_points: bool = True,
    ) -> OpenBlock[Self]:
        """Open the scheduler of `settings` (by default those of the environment) for the time of the block.

        With `run`, this process also runs what is due, unless another one does (of a shared installation it is one
        worker of many). It has `handlers` in addition to the configured ones and, with `entry_points`, to those of
        installed packages.
        """
        return OpenBlock("Scheduler", cls._opened(settings, handlers, run=run, entry_points=entry_points))

    @classmethod
    @contextmanager
    def _opened(
        cls, settings: Settings | None, handlers: Sequence[Plugin], *, run: bool, entry_points: bool
    ) -> Iterator[Self]:
        check_opening("Scheduler", settings=settings, handlers=handlers, run=run, entry_points=entry_points)
        role, read = Role.WORK if run else Role.SERVE, settings or load_settings()
        app, opened_by = build(read, handlers=handlers, role=role, entry_points=entry_points), os.getpid()
        opened = cls(app.scheduler, policies=app.registry.policies)
        try:
            if run and read.capture_prints and "capture_prints" in read.model_fields_set:
                capture_prints_of_program()  # by default its stdout is its own
            if run:
                app.start()
            yield opened
        finally:
            opened._service = None
            if os.getpid() == opened_by:  # a child that was forked since leaves the work of its parent alone
                app.close()

    @property
    def service(self) -> Service:
        """The service behind it. Raises SchedulerClosed after the block."""
        if self._service is None:
            raise SchedulerClosed(self.owner)
        return self._service

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools that a task may need; templates are left out."""
        return self.service.pools

    @property
    def policies(self) -> PolicyRegistry:
        """The policy, with its `set`, `roll_back` and `history`; a scheduler that was opened has it."""
        if self._service is None or self._policies is None:
            raise SchedulerClosed(self.owner)
        return self._policies

    @property
    def zone(self) -> str | None:
        """The IANA zone of wall times when a caller names none, None when every caller has to name one."""
        return self.service.zone

    schedule = _whole.checked(Service.schedule)
    submit = _whole.checked(Service.submit)
    schedule_many = _task_creator.checked(TaskCreator.create_many, "schedule_many")
    reschedule = _whole.checked(Service.reschedule)
    cancel = _whole.checked(Service.cancel)
    approve = _whole.checked(Service.approve)
    reject = _whole.checked(Service.reject)
    change_many = _bulk.checked(BulkService.change, "change_many")
    send_event = _signals.checked(SignalService.send, "send_event")
    make_fire_address = _addresses.checked(FireAddressService.make, "make_fire_address")
    revoke_fire_address = _addresses.checked(FireAddressService.revoke, "revoke_fire_address")
    act = _whole.checked(Service.act)
    mark_read = _inbox_changes.checked(InboxService.mark_read)
    get = _whole.checked(Service.get)
    wait = _whole.checked(Service.wait)
    find = _tasks.checked(TaskReader.find)
    titles = _tasks.checked(TaskReader.titles)
    explain = _whole.checked(Service.explain)
    list = _tasks.checked(TaskReader.list)
    history = _past.checked(PastReader.events, "history")
    event_counts = _past.checked(PastReader.event_counts)
    event_buckets = _past.checked(PastReader.event_buckets)
    runs = _past.checked(PastReader.runs)
    run_counts = _past.checked(PastReader.run_counts)
    run_buckets = _past.checked(PastReader.run_buckets)
    costs = _reports.checked(ReportReader.costs)
    report = _reports.checked(ReportReader.work, "report")
    decisions = _decisions.checked(DecisionReader.page, "decisions")
    decision = _decisions.checked(DecisionReader.get, "decision")
    attempts = _past.checked(PastReader.attempts)
    audit = _past.checked(PastReader.audit)
    run_log = _past.checked(PastReader.run_log)
    dead_letters = _letters.checked(DeadLetterService.page, "dead_letters")
    dead_letter = _letters.checked(DeadLetterService.get, "dead_letter")
    replay = _letters.checked(DeadLetterService.replay)
    discard = _letters.checked(DeadLetterService.discard)
    inbox = _inbox.checked(InboxReader.unread, "inbox")
    unread_count = _inbox.checked(InboxReader.unread_count)
    quiet_count = _inbox.checked(InboxReader.quiet_count)
    held = _inbox.checked(InboxReader.held)
    quiet_hours = _quiet_hours.checked(QuietHoursService.read, "quiet_hours")
    set_quiet_hours = _quiet_hours.checked(QuietHoursService.set, "set_quiet_hours")
    clear_quiet_hours = _quiet_hours.checked(QuietHoursService.clear, "clear_quiet_hours")
    now = _whole.checked(Service.now)
