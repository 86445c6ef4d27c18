"""Claims: runs that may start, the worker that started each, and the leases that show it is alive.

Each call handles a batch in one transaction, because every run passes here. A power cut may undo steps that are
repeated after it; it has stopped the workers too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, Final

from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.run_records import (
    Claim,
    Expired,
    NextTimes,
    ReadyRun,
    RunningRun,
    Settlement,
    Start,
    StartTerms,
    Verdict,
)
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame, Only, collect
from duetime.scheduler.store.dispatch import expire, leases, recover, timers
from duetime.scheduler.store.dispatch.due_runs import DueRuns
from duetime.scheduler.store.dispatch.recover import LostAttempts
from duetime.scheduler.store.dispatch.starts import Starts
from duetime.scheduler.store.forms import Forms
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.statements import ready_runs, repair, settle
from duetime.scheduler.store.statements.endings.conclusions import Conclude
from duetime.scheduler.task import Json
from sqlalchemy import Connection, Update

OnReady = Callable[[Sequence[ReadyRun]], None]
_SETTLED: Final = Verdict.SETTLED
_NOT_RECOVERED: Final = Blame("run", "cannot end its lost attempt, which is tried again")
_NOT_FAILED: Final = Blame("run", "it is damaged, but cannot end as failed")
_NOT_EXPIRED: Final = Blame("run", "its deadline has passed, but it cannot expire", runs)
_NOT_RELAXED: Final = Blame("run", "its deadline has passed, but it cannot get a new place", runs)


class Claims:
    """The only way to start and end runs. `on_settings` is called with the revision of the settings."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime],
        forms: Forms,
        commits: Commits,
        *,
        on_settings: Callable[[int], None] = lambda _: None,
        pools: Callable[[], Mapping[str, Pool]] = dict,
    ) -> None:
        self._database = database
        self._commits = commits
        self._now = now
        self._forms = forms
        self._due_runs = DueRuns(database, now, forms.move_to_ready, commits)
        self._starts = Starts(database, now, forms, self._fail)
        self._on_settings = on_settings
        self._pools = pools

    def next_times(self) -> NextTimes:
        """Return when the next run is due, and when the next deadline timer fires.

        Runs of paused tasks are left out until a resume. Calls `on_settings` with the revision, read along.
        """
        times = self._database.look(timers.next_times)
        self._on_settings(times.settings_revision)
        return times

    def make_ready(
        self, *, limit: int, epoch: int | None = None, ahead: timedelta = timedelta(0), on_ready: OnReady | None = None
    ) -> list[ReadyRun]:
        """Make at most `limit` runs ready, in order of time: those due, and first attempts due within `ahead`.

        A run made ready early has its time as `first_ready_at` and must not start before that. Raises `RunnerReplaced`
        when `epoch` is not the newest. A run that is asked for, or needs an event, waits for that instead. Waits begin
        in another transaction, which may fail; before it, `on_ready` is called with the ready runs.
        """
        found: list[ReadyRun] = []
        for ready, held in self._due_runs.make_ready(limit, epoch, ahead):
            found += ready
            if on_ready:
                on_ready(ready)
            self._commits.notify(held.approval_tasks)
            self._due_runs.begin_waits(held.awaited, ahead)
        return found

    def note_paused(self, *, limit: int) -> int:
        """Remove at most `limit` overdue runs of paused tasks from the timers until a resume; return how many."""
        if not self._database.look(lambda each: ready_runs.overdue_paused(each, 1, self._now())):
            return 0
        return self._database.write(lambda each: ready_runs.note_paused(each, limit, self._now()), durable=False)

    def ready(self, *, limit: int, after: str | None = None) -> list[ReadyRun]:
        """Return ready runs by id, after the id `after`, for a rebuild of the queue."""
        found, unreadable = self._ready(limit, after)
        if unreadable:
            self._fail(unreadable)
            found, _ = self._ready(limit, after)
        return found

    def _ready(self, limit: int, after: str | None) -> tuple[list[ReadyRun], list[str]]:
        return self._database.read(lambda connection: ready_runs.ready(connection, limit, after, self._now()))

    def fail_damaged(self) -> list[str]:
        """End as failed the open runs that no timer, queue or lease can find, and return them."""
        found = self._database.look(repair.unfound)

        def work(only: Only) -> list[Expired]:
            wanted = sorted(only or found)
            return self._commits.write(lambda connection: repair.end_unfound(connection, wanted, self._now()))

        ended = collect(self._database, work, lambda _: found, _NOT_FAILED) if found else []
        return [run.run_id for run in ended]

    def _fail(self, run_ids: Sequence[str]) -> None:
        """End those of the runs that are damaged, and ready or running, as failed."""
        self._commits.write(lambda connection: repair.end(connection, run_ids, self._now(), only=repair.CLAIMABLE))

    def never_started(self, run_ids: Sequence[str]) -> int:
        """Return how many of these runs are ready for their first attempt."""
        return self._database.look(lambda connection: ready_runs.never_started(connection, run_ids))

    def running(self, *, limit: int, after: str | None = None) -> list[RunningRun]:
        """Return running runs by id, after the id `after`; a rebuilt queue leases them again."""
        return self._database.look(lambda connection: ready_runs.running(connection, limit, after))

    def start(
        self,
        starts: Sequence[Start],
        *,
        worker: str,
        epoch: int | None,
        lease: timedelta,
        actions: Collection[str] | None = None,
    ) -> list[Claim]:
        """Start the runs that are still ready as their next attempts, for `worker`, and store their reservations.

        A run is left out when it is no longer ready, its task is paused, or it is to be cancelled. It is left out too
        when its hard deadline cannot be met, or its action is not among `actions`. The same holds when the queue
        reserved less than its task needs now. Raises `RunnerReplaced` when `epoch` is not the newest.
        Raises `StartsUnknown` when the database went away before it was known which of them are stored.
        """
        return self._starts.start(starts, StartTerms(worker, epoch, lease, actions))

    def stored_starts(self, starts: Sequence[Start], *, worker: str) -> list[Claim]:
        """Return the claims of those starts that are stored although `worker` was not answered."""
        return self._starts.stored(starts, worker)

    def expire(self, *, limit: int, conclude: Conclude | None = None, held: bool = False) -> list[Expired]:
        """End at most `limit` waiting runs whose hard deadline cannot be met, or those `held` up by their series.

        Any number of processes may call. Paused tasks are left alone. `conclude` adds message, deliveries and next run.
        """

        def work(only: Only) -> list[Expired]:
            return self._commits.write(lambda each: expire.expire(each, only, limit, conclude, self._now(), held=held))

        lost = partial(expire.lost, limit=limit, now=self._now(), held=held)
        return collect(self._database, work, lost, _NOT_EXPIRED) if not held or self._database.look(lost) else []

    def relax(self, *, limit: int) -> list[ReadyRun]:
        """Mark at most `limit` soft runs as past `drop_at`; return the ready ones, whose key must change."""

        def work(only: Only) -> list[ReadyRun]:
            return self._database.write(lambda each: expire.relax(each, only, limit, self._now()), durable=False)

        late = partial(expire.late, limit=limit, now=self._now())
        return collect(self._database, work, late, _NOT_RELAXED)

    def redate(self, drops: Mapping[str, datetime]) -> None:
        """Set a new `drop_at` for these runs where the old one is still ahead, after a better estimate."""
        self._database.write(lambda connection: expire.redate(connection, drops), durable=False)

    def renew(self, run_ids: Sequence[str], *, worker: str, lease: timedelta) -> set[str]:
        """Renew the leases of runs; return the runs to stop, as `unwanted` does."""
        until = self._now() + lease
        work = partial(leases.renew, run_ids=run_ids, worker=worker, until=until)
        return self._database.write(work, durable=False) if run_ids else set()

    def unwanted(self, run_ids: Sequence[str], *, worker: str) -> set[str]:
        """Return the runs to stop: a cancel was requested, or another worker owns them."""
        return self._database.look(partial(leases.unwanted, run_ids=run_ids, worker=worker)) if run_ids else set()

    def settle(self, settlements: Sequence[Settlement], *, again: bool = False) -> list[Verdict]:
        """Store the ends of attempts with all their consequences; return one verdict per settlement, in order.

        With `again`, an earlier call may have stored some, and these are settled too.
        """
        tried = self._database.attempt(lambda each: self._forms.settle_at_once(each, settlements, self._now()))
        ended = tried.result or set()
        left = [each for n, each in enumerate(settlements) if n not in ended]
        rest = iter(self._settled(left, may_be_stored=tried.may_be_stored, again=again) if left else ())
        return [_SETTLED if n in ended else next(rest) for n in range(len(settlements))]

    def _settled(self, settlements: Sequence[Settlement], *, may_be_stored: bool, again: bool) -> list[Verdict]:
        def work(connection: Connection) -> list[Verdict]:
            return settle.settle(connection, settlements, self._now(), may_be_stored=again or may_be_stored)

        def stored(connection: Connection, verdicts: Sequence[Verdict]) -> bool:
            ended = {end.run_id for end, verdict in zip(settlements, verdicts, strict=True) if verdict is _SETTLED}
            return ended <= commit_check.settled(connection, settlements)

        return self._commits.write(work, may_be_stored=may_be_stored, stored=stored)

    def progress(self, run_id: str, attempt: int, value: Json) -> bool:
        """Store the progress of a running attempt; False when the run is not running this attempt."""
        return self._keep(leases.PROGRESS, run_id, attempt, value)

    def checkpoint(self, run_id: str, attempt: int, state: Json) -> bool:
        """Store the state that the next attempt starts from; False as for `progress`."""
        return self._keep(leases.CHECKPOINT, run_id, attempt, state)

    def _keep(self, statement: Update, run_id: str, attempt: int, value: Json) -> bool:
        parameters = {"run_id": run_id, "fence": attempt, "value": value}
        return self._database.write(lambda connection: connection.execute(statement, parameters).rowcount) == 1

    def announce_end(self, run_ids: Sequence[str], *, worker: str) -> None:
        """Note that `worker` ends in order, before it hands back these runs: whoever recovers them counts no crash."""
        if run_ids:
            work = partial(leases.announce_end, run_ids=run_ids, worker=worker)
            self._database.write(work, durable=False)

    def recover(self, *, epoch: int, conclude: Conclude | None = None) -> int:
        """End the attempts that older runners left running; return how many. Each that fails holds up none.

        A run starts again at once, is cancelled if that was requested, and fails with a dead letter after its third
        crash. An attempt whose worker had announced its end is no crash. `conclude` may add what the store cannot
        derive: the message, the deliveries and the next occurrence.
        """
        how: dict[str, Any] = {"epoch": epoch, "conclude": conclude, "pools": self._pools()}

        def end(only: Only) -> LostAttempts:
            return self._commits.write(lambda each: recover.recover(each, only, now=self._now(), **how))

        orphans = partial(recover.orphans, epoch=epoch)
        return sum(len(ended) for ended in row_by_row.each(self._database, end, orphans, _NOT_RECOVERED))

    def restart_delays(self, back: timedelta | None = None) -> list[str]:
        """Let retries, waits for a duration and deliveries end `back` earlier; return the runs that wait.

        Without `back`, only those of attempts that ended in the future. Only a process that starts runs may call this.
        """
        return self._database.write(lambda each: recover.restart_delays(each, self._now(), back=back), durable=False)

    def lapsed(self, before: datetime) -> dict[str, datetime]:
        """Return by run the ends of all leases that expired before `before`."""
        return self._database.look(lambda connection: recover.lapsed(connection, before))

    def recover_lapsed(
        self,
        *,
        epoch: int | None,
        held: Collection[str],
        before: datetime,
        conclude: Conclude | None = None,
        only: Collection[str] | None = None,
    ) -> LostAttempts:
        """End the attempts whose lease expired before `before` and that no worker holds, as `recover` does.

        With `only`, just these. Returns them by run. `held` are the runs of the caller, read after `before`. Any number
        of processes may call this at once. Raises `RunnerReplaced` when `epoch` is not the newest.
        """
        lost = set(self.lapsed(before) if only is None else only).difference(held)
        if not lost:
            return {}
        how: dict[str, Any] = {"epoch": epoch, "before": before, "conclude": conclude, "pools": self._pools()}

        def end(only: Only) -> LostAttempts:
            return self._commits.write(lambda each: recover.recover_lapsed(each, only or lost, now=self._now(), **how))

        ended = row_by_row.each(self._database, end, lambda _: sorted(lost), _NOT_RECOVERED)
        return dict(chain.from_iterable(tokens.items() for tokens in ended))
