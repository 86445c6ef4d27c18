"""The runs that a form of the admin page picked, and what one change does to their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from duetime.scheduler.calls.bulk_change import Became, BulkResult, BulkVerb, TaskOutcome
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.history.run_detail import RunDetail
from duetime.scheduler.intake.changes.actions import RUN_NOW, decide_action
from duetime.scheduler.records import Change
from duetime.scheduler.service.bulk.bulk_call import token_of_key
from duetime.scheduler.views import TaskRecord
from duetime.server.admin.answers import MAX_PROBLEMS_SHOWN
from duetime.server.admin.failures import ONCE, RunIsOver, check_still_open, unknown
from duetime.server.admin.page_request import Visit

CHANGES: Final[Mapping[str, str]] = {
    BulkVerb.CANCEL: "Cancelled",
    BulkVerb.PAUSE: "Paused",
    BulkVerb.RESUME: "Resumed",
    RUN_NOW: "Started",
}
"""The changes of a form, and the word for each when it is done."""


@dataclass(frozen=True, slots=True)
class PickedChange:
    """One change of many as a form sends it: `to` is the end of a pause, `once` names the form."""

    change: str
    picked: Sequence[str]
    to: str | None = None
    reason: str | None = None
    once: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str], picked: Sequence[str]) -> PickedChange:
        """Read an address or a form. Raises InvalidArgument for a change that there is not."""
        change = values.get("change", "")
        if change not in CHANGES:
            raise unknown("change", change, CHANGES)
        to = values.get("to", "").strip() if change == BulkVerb.PAUSE else ""
        reason = values.get("reason", "").strip()
        return cls(change, list(dict.fromkeys(picked)), to or None, reason or None, values.get(ONCE, ""))

    def key(self, part: str) -> str | None:
        """Return the idempotency key of a part of the change."""
        return f"admin-{self.once}-{part}" if self.once else None


@dataclass(slots=True)
class ManyChanged:
    """The result of one change of many: tasks by what became of them, or would; `was` are changed ones before it.

    `undo` takes it back: a token and its tenant for each call; `tenants` has that of each, also of one that is only
    tried. `final` says why some of it stays.
    """

    changed: list[TaskRecord] = field(default_factory=list)
    was: list[TaskRecord] = field(default_factory=list)
    same_count: int = 0
    problems: list[str] = field(default_factory=list)
    final: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    tenants: list[str] = field(default_factory=list)
    is_taken_back: bool = False

    def add(self, result: BulkResult, before: Mapping[str, TaskRecord], tenant: str) -> None:
        """Add what a call did to the tasks of one tenant."""
        for each in result.outcomes:
            after = _paused(each, result.paused_until) if result.dry_run and result.paused_until else each
            self.add_one(after, before.get(each.record.task.id, each.record))
        self.final += filter(None, map(result.why_final, result.outcomes))
        self.undo += [f"{result.undo} {tenant}"] if result.undo else []
        self.tenants.append(tenant)
        self.is_taken_back |= result.taken_back

    def add_one(self, outcome: TaskOutcome, before: TaskRecord) -> None:
        if outcome.became is Became.CHANGED:
            self.changed.append(outcome.record)
            self.was.append(before)
        elif outcome.became is Became.REFUSED:
            self.problems.append(outcome.why or "")
        else:
            self.same_count += 1

    @property
    def states(self) -> str:
        """The number of tasks in each state that are changed, as words."""
        counts = Counter("paused" if each.task.paused else each.run.state.value for each in self.was)
        return ", ".join(f"{count:,} {state}" for state, count in counts.most_common())

    @property
    def same(self) -> str:
        """The number of tasks that are so already."""
        return f"{self.same_count:,} {'was' if self.same_count == 1 else 'were'} so already." if self.same_count else ""

    @property
    def refused(self) -> str:
        """The number of tasks that cannot be changed, and why the first of them cannot."""
        return f"{len(self.problems):,} refused: {_first(self.problems)}" if self.problems else ""

    @property
    def stays(self) -> str:
        """The number of tasks that no undo brings back, and why."""
        return f"{len(self.final):,} cannot be undone: {_first(self.final)}." if self.final else ""


def _paused(outcome: TaskOutcome, until: datetime) -> TaskOutcome:
    """Return the outcome of a dry run, whose tasks are as they are now, with the end of the pause that was tried."""
    record = outcome.record
    return replace(outcome, record=replace(record, task=replace(record.task, paused=True, paused_until=until)))


def _first(sentences: Collection[str]) -> str:
    return " ".join([*dict.fromkeys(sentences)][:MAX_PROBLEMS_SHOWN])


def changed_by(visit: Visit, asked: PickedChange, *, dry_run: bool = False) -> ManyChanged:
    """Change the tasks of the picked runs, or with `dry_run` only find out what that would do."""
    done = ManyChanged()
    found = _found(visit, asked, done)
    if asked.change == RUN_NOW:
        for each in found:
            _start(visit, asked, each, done, dry_run=dry_run)
        return done
    parts: dict[tuple[str, str], list[RunDetail]] = {}
    for each in found:
        zone = each.record.task.timezone if asked.to else ""  # the end of a pause counts in the zone of each task
        parts.setdefault((each.run.tenant, zone), []).append(each)
    for (_, zone), part in parts.items():
        _change(visit, asked, part, done, zone=zone, dry_run=dry_run)
    return done


def _change(
    visit: Visit, asked: PickedChange, part: Sequence[RunDetail], done: ManyChanged, *, zone: str, dry_run: bool
) -> None:
    """Change the tasks of runs of one tenant. A form that is sent again means those of its first time.

    Their runs may be over by then: an undo of a cancel gives each task another run.
    """
    tenant, key = part[0].run.tenant, None if dry_run else asked.key(zone or "all")
    is_repeat = key is not None and bool(visit.store.batches.stored(tenant, token_of_key(key)))
    records = {each.record.task.id: each.record for each in part if is_repeat or each.is_current}
    if records:
        result = visit.scheduler.bulk.change(
            BulkVerb(asked.change),
            list(records),
            to=asked.to,
            timezone=zone or None,
            reason=asked.reason,
            dry_run=dry_run,
            idempotency_key=key,
            raw={"change": asked.change, "pick": [*asked.picked], "to": [asked.to, zone], "reason": asked.reason},
            by=visit.acting_in(tenant),
        )
        done.add(result, records, tenant)
        records = {each.record.task.id: each.record for each in result.outcomes}
    stale = [each.record.task for each in part if not each.is_current]
    done.problems += [str(RunIsOver(task.title)) for task in stale if task.id not in records]


def _found(visit: Visit, asked: PickedChange, done: ManyChanged) -> list[RunDetail]:
    """Return the picked runs that there are; a start is of those that stand for their task. The others are problems."""
    found = []
    for each in asked.picked:
        run_id, _, shown_open = each.partition(" ")
        try:
            detail = visit.run(run_id)
            if asked.change == RUN_NOW:
                if not detail.is_current:
                    raise RunIsOver(detail.record.task.title)
                check_still_open(detail, shown_open=bool(shown_open))
        except DuetimeError as error:
            done.problems.append(str(error))
            continue
        found.append(detail)
    return found


def _start(visit: Visit, asked: PickedChange, found: RunDetail, done: ManyChanged, *, dry_run: bool) -> None:
    """Run one task now, or find out whether that can be."""
    task, record = found.record.task, found.record
    try:
        if dry_run:
            change = decide_action(RUN_NOW, visit.now)[1](record)
            same = change == Change(record.task, record.run)
        else:
            by, key = visit.acting_in(found.run.tenant), asked.key(task.id)
            record = visit.scheduler.act(task.id, "run_now", idempotency_key=key, by=by).record
            same = record.task.revision == task.revision
    except DuetimeError as error:
        done.problems.append(str(error))
        return
    outcome = TaskOutcome(record, Became.UNCHANGED if same else Became.CHANGED)
    done.add_one(outcome, found.record)
