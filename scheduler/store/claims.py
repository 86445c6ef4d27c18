"""Claims: which runs may start, who has started them, and that they are still alive.

All are batches of one transaction each, because this is what happens for every run. What a power cut may take back is
made again after it: it stopped the workers too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.records import Claim, Expired, NextTimes, ReadyRun, RunningRun, Settlement, Start, Verdict
from duetime.scheduler.store.database.database import Database, Tried
from duetime.scheduler.store.database.unreadable import PROBLEMS, Unreadable
from duetime.scheduler.store.postgres import settle as postgres_settle
from duetime.scheduler.store.postgres import start as postgres_start
from duetime.scheduler.store.schema.tables import runs
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.statements import expire, ready_runs, recover, settle, start
from duetime.scheduler.store.statements.recover import Conclude
from duetime.scheduler.task import Json, State
from sqlalchemy import Connection, Update, bindparam, false, select, update

_MOST_EXAMINED = 5_000
"""Runs of each kind that are read to find those that cannot be."""

_MINE = (
    runs.c.id.in_(bindparam("run_ids", expanding=True)),
    runs.c.state == State.RUNNING,
    runs.c.worker == bindparam("of_worker"),
)
_RENEW = update(runs).where(*_MINE).values(lease_until=bindparam("until"))
_STILL_MINE = select(runs.c.id).where(*_MINE, runs.c.cancel_requested == false())


def _while_running(**values: object) -> Update:
    fenced = (runs.c.id == bindparam("run_id"), runs.c.attempt == bindparam("fence"), runs.c.state == State.RUNNING)
    return update(runs).where(*fenced).values(**values)


_PROGRESS = _while_running(progress=bindparam("value"))
_CHECKPOINT = _while_running(checkpoint=bindparam("value"))


def _unwanted(connection: Connection, mine: Mapping[str, Any]) -> set[str]:
    return set(mine["run_ids"]).difference(connection.execute(_STILL_MINE, mine).scalars())


class Claims:
    """The one door through which runs start and end. `seen` is told the revision of the pools now and then."""

    def __init__(
        self, database: Database, now: Callable[[], datetime], *, seen: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._now = now
        self._seen = seen

    def next_wake(self) -> datetime | None:
        """Return when the next run has to be made ready, expired or relaxed; None when none does.

        Those of paused tasks wait until they are resumed.
        """
        return self.next_times().first()

    def next_times(self) -> NextTimes:
        """Return what `next_wake` is the earlier one of: when a run is due, and when a deadline's timer fires.

        `seen` is told the revision of the pools, which comes with it.
        """
        times = self._database.look(expire.next_times)
        self._seen(times.pools)
        return times

    def make_ready(self, *, limit: int, epoch: int | None = None, ahead: timedelta = timedelta(0)) -> list[ReadyRun]:
        """Move at most `limit` runs to ready that are due, or will be for the first time within `ahead`; in that order.

        One that is early has its time as `first_ready_at`, before which it must not start. Raises `RunnerReplaced` when
        `epoch` is not the newest.
        """

        def work(connection: Connection) -> list[ReadyRun]:
            now = self._now()
            of_postgres = connection.dialect.name == "postgresql"
            move = postgres_start.move_to_ready if of_postgres else start.move_to_ready
            return start.make_ready(connection, limit, epoch, now, now + ahead, move=move)

        return self._database.write(work, durable=False, stored=commit_check.made_ready)

    def note_paused(self, *, limit: int) -> int:
        """Leave at most `limit` overdue runs of paused tasks out of the timers until those go on; returns how many."""
        return self._database.write(
            lambda connection: ready_runs.note_paused(connection, limit, self._now()), durable=False
        )

    def ready(self, *, limit: int, after: str | None = None) -> list[ReadyRun]:
        """Return runs in state ready by id, behind the id `after`: what a queue is rebuilt from."""
        return self._database.read(lambda connection: ready_runs.ready(connection, limit, after, self._now()))

    def running(self, *, limit: int, after: str | None = None) -> list[RunningRun]:
        """Return runs in state running by id, behind the id `after`: what a queue that lost everything takes over."""
        return self._database.read(lambda connection: ready_runs.running(connection, limit, after))

    def unreadable(self) -> list[str]:
        """Return the runs that this version cannot read, of those that are due, ready or running: thousands at most."""

        def work(connection: Connection) -> list[str]:
            now = self._now()
            start.look_at_due(connection, _MOST_EXAMINED, now)
            ready_runs.ready(connection, _MOST_EXAMINED, None, now)
            ready_runs.running(connection, _MOST_EXAMINED, None)
            return [str(run_id) for run_id in Unreadable.of(connection).ids(runs.name)]

        return self._database.read(work)

    def start(
        self,
        starts: Sequence[Start],
        *,
        worker: str,
        epoch: int | None,
        lease: timedelta,
        actions: Collection[str] | None = None,
    ) -> list[Claim]:
        """Start the runs that are still ready, for `worker`, as their next attempt, with what is reserved for them.

        Those that are no longer ready, whose task is paused, that shall be cancelled or whose hard deadline cannot be
        met any more are left out, those that a queue leased with less than their task needs by now, and those of other
        actions than `actions`, where these are given. Raises `RunnerReplaced` when `epoch` is not the newest.
        """
        how: dict[str, Any] = {"worker": worker, "epoch": epoch, "lease": lease, "actions": actions}
        tried = self._tried(starts, how)
        claims = tried.result or []
        started = {claim.run.id for claim in claims}
        left = [wish for wish in starts if wish.run_id not in started]
        doubtful = tried.unanswered or bool(claims)  # nobody else knows of what has started
        if claims and not left:
            return claims

        def work(connection: Connection) -> list[Claim]:
            form = postgres_start.start if connection.dialect.name == "postgresql" else start.start
            return form(connection, left, now=self._now(), again=doubtful, **how)

        stored = commit_check.started
        return claims + self._database.write(work, durable=False, stored=stored, doubtful=doubtful)

    def ready_actions(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return the actions of those of the runs that are ready."""
        return self._database.read(lambda connection: start.ready_actions(connection, run_ids)) if run_ids else {}

    def _tried(self, starts: Sequence[Start], how: Mapping[str, Any]) -> Tried[list[Claim]]:
        """Start runs by one round trip, if there are tokens by which to know again what was started."""
        if not starts or how["epoch"] is not None or not all(wish.token for wish in starts):
            return Tried()
        try:
            return self._database.attempt(
                lambda connection: postgres_start.at_once(connection, starts, now=self._now(), **how)
            )
        except PROBLEMS:  # one of them cannot be read; what has started is known again by its token
            return Tried(unanswered=True)

    def expire(self, *, limit: int, conclude: Conclude | None = None) -> list[Expired]:
        """End at most `limit` runs whose hard deadline cannot be met any more, wherever they wait; any number may call.

        Runs of paused tasks are left alone. `conclude` may add the message, the deliveries and the next occurrence.
        """
        return self._database.write(lambda connection: expire.expire(connection, limit, conclude, self._now()))

    def relax(self, *, limit: int) -> list[ReadyRun]:
        """Take note that at most `limit` soft runs are past `drop_at`; returns those that are ready, to be re-keyed."""
        return self._database.write(lambda connection: expire.relax(connection, limit, self._now()), durable=False)

    def redate(self, drops: Mapping[str, datetime]) -> None:
        """Set the `drop_at` of these runs, where one is still ahead: how long they take is known better by now."""
        self._database.write(lambda connection: expire.redate(connection, drops), durable=False)

    def renew(self, run_ids: Sequence[str], *, worker: str, lease: timedelta) -> set[str]:
        """Say that the runs are alive; returns those to stop, as `unwanted` does."""
        mine = {"run_ids": list(run_ids), "of_worker": worker}

        def work(connection: Connection) -> set[str]:
            connection.execute(_RENEW, {**mine, "until": self._now() + lease})
            return _unwanted(connection, mine)

        return self._database.write(work, durable=False) if run_ids else set()

    def unwanted(self, run_ids: Sequence[str], *, worker: str) -> set[str]:
        """Return which of the runs to stop: cancelled by someone, or no longer this worker's."""
        mine = {"run_ids": list(run_ids), "of_worker": worker}
        return self._database.read(lambda connection: _unwanted(connection, mine)) if run_ids else set()

    def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Store how attempts ended and all that follows from it; one verdict for each settlement, in order."""
        tried = self._database.attempt(lambda connection: postgres_settle.settle(connection, settlements, self._now()))
        ended = tried.result or set()
        left = [each for n, each in enumerate(settlements) if n not in ended]
        rest = iter(self._settled(left, doubtful=tried.unanswered))
        return [Verdict.SETTLED if n in ended else next(rest) for n in range(len(settlements))]

    def _settled(self, settlements: Sequence[Settlement], *, doubtful: bool) -> list[Verdict]:
        if not settlements:
            return []
        return self._database.write(
            lambda connection: settle.settle(connection, settlements, self._now()), doubtful=doubtful
        )

    def progress(self, run_id: str, attempt: int, value: Json) -> bool:
        """Keep the last progress of a running attempt; False when it is not running, or not that attempt."""
        return self._keep(_PROGRESS, run_id, attempt, value)

    def checkpoint(self, run_id: str, attempt: int, state: Json) -> bool:
        """Keep the state that the run's next attempt starts from; False as for `progress`."""
        return self._keep(_CHECKPOINT, run_id, attempt, state)

    def _keep(self, statement: Update, run_id: str, attempt: int, value: Json) -> bool:
        parameters = {"run_id": run_id, "fence": attempt, "value": value}
        return self._database.write(lambda connection: connection.execute(statement, parameters).rowcount) == 1

    def recover(self, *, epoch: int, conclude: Conclude | None = None) -> int:
        """End the attempts that older runners left running; returns how many.

        A run is tried again at once, is cancelled when that was asked for, and fails with a dead letter when its
        process died for the third time. `conclude` may add to such an end what the store cannot know: the message, the
        deliveries and the next occurrence.
        """
        return self._database.write(lambda connection: len(recover.recover(connection, epoch, conclude, self._now())))

    def retry_from_now(self) -> list[str]:
        """Let runs whose last attempt ended in the future wait as long as they should, from now on; returns them.

        For the one process that starts runs, after the clock that it and the others go by was set back.
        """
        return self._database.write(lambda connection: recover.retry_from_now(connection, self._now()), durable=False)

    def lapsed(self, before: datetime) -> dict[str, datetime]:
        """Return the ends of all leases that were over `before`, by run."""
        return self._database.look(lambda connection: recover.lapsed(connection, before))

    def recover_lapsed(
        self,
        *,
        epoch: int | None,
        held: Collection[str],
        before: datetime,
        conclude: Conclude | None = None,
        only: Collection[str] | None = None,
    ) -> dict[str, str]:
        """End the attempts whose lease was over `before` and that nobody has in hand, as `recover` does.

        With `only`, no others than these. Returns by run what proves its lease in the queue, '' where it has none.
        `held` are the runs that the caller has in hand, read after `before`: what was claimed since has a newer lease.
        Any number of processes may do this at once: each run is recovered by one. Raises `RunnerReplaced` when `epoch`
        is not the newest and there is something to end.
        """
        orphans = set(self.lapsed(before) if only is None else only).difference(held)
        if not orphans:
            return {}
        return self._database.write(
            lambda connection: recover.recover_lapsed(
                connection, orphans, epoch=epoch, before=before, conclude=conclude, now=self._now()
            )
        )
