"""The context of a handler: the facts about its run, and the calls that it may make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, Final, Self

from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.rules.limits.pool_spec import MAX_POOL_UNITS, UNITS_ACCEPTED
from duetime.scheduler.rules.sanitize import check_json, clean_text
from duetime.scheduler.rules.series.natural_key import key_of_run
from duetime.scheduler.runtime.secret_mask import learn_secret, masked, masked_json
from duetime.scheduler.task import Json, Run, Task
from duetime.scheduler.waits.approval import ReceivedAnswer
from duetime.scheduler.waits.signal import ArrivedSignal

PROGRESS_PACE: Final = timedelta(milliseconds=200)
BUSY_PAUSE: Final = timedelta(seconds=1)
"""Shortest wait of a run that found a pool too busy and got no time to wait."""

NOTHING: Final[Mapping[str, int]] = {}


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _ignored(_: Json) -> None:
    return None


def _uncounted(_pool: str, _amount: float) -> None:
    return None


def _no() -> bool:
    return False


def _no_inputs() -> Mapping[str, Json]:
    return {}


def _no_answer() -> None:
    return None


def _no_event() -> Mapping[str, Any] | None:
    return None


def _no_secret(name: str, _host: str | None) -> str:
    raise SecretUnavailable(name, "this context has none; a test gives Link(secret=...)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The connection of a context to its worker; every callable may be called from any thread.

    `save` and `report` return False when the attempt no longer owns its run, so that nothing was written. `use` counts
    units of a pool, `busy` records for how many milliseconds it was too busy. `secret` reads a secret of the task's
    tenant, or raises `SecretUnavailable`.
    """

    save: Callable[[Json], bool | None] = _ignored
    report: Callable[[Json], bool | None] = _ignored
    use: Callable[[str, float], None] = _uncounted
    busy: Callable[[str, float], None] = _uncounted
    cancelled: Callable[[], bool] = _no
    should_yield: Callable[[], bool] = _no
    now: Callable[[], datetime] = _utc_now
    secret: Callable[[str, str | None], str] = _no_secret
    inputs: Callable[[], Mapping[str, Json]] = _no_inputs
    approval: Callable[[], Mapping[str, Json] | None] = _no_answer
    event: Callable[[], Mapping[str, Any] | None] = _no_event
    event_timed_out: Callable[[], bool] = _no


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One attempt of one run, for its handler.

    `scheduled_for` and `deadline` are aware and in UTC; `deadline` is None where the task has none. `attempt` counts
    from 1. `needs` are the reserved units of each pool. `checkpoint_state` is the latest checkpoint of an earlier
    attempt, None at first. Progress is stored at most once in `pace`. `traceparent` is the trace of the attempt, for
    requests to other services, with `tracestate` where it has one; None where nothing is traced. `timezone` is the
    task's, for times that users read. Work that the run which it `repeats` did not complete is done again.
    `natural_key` is that of the task's template, None without one.
    """

    task_id: str
    run_id: str
    title: str
    scheduled_for: datetime
    attempt: int
    worker: str
    deadline: datetime | None = None
    labels: tuple[str, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    checkpoint_state: Any = None
    link: Link = Link()
    pace: timedelta = timedelta(0)
    traceparent: str | None = None
    tracestate: str | None = None
    repeats: str | None = None
    natural_key: str | None = None
    timezone: str = "UTC"
    _reported: list[datetime] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        task: Task,
        run: Run,
        *,
        worker: str,
        link: Link,
        needs: Mapping[str, int] = NOTHING,
        traceparent: str | None = None,
    ) -> Self:
        """Build the context of a claimed run."""
        return cls(
            task_id=task.id,
            run_id=run.id,
            repeats=run.repeats,
            natural_key=key_of_run(task, run),
            title=task.title,
            scheduled_for=run.scheduled_for,
            deadline=run.deadline,
            attempt=run.attempt,
            worker=worker,
            labels=task.labels,
            needs=needs,
            checkpoint_state=run.checkpoint,
            link=link,
            pace=PROGRESS_PACE,
            traceparent=traceparent,
            timezone=task.timezone,
        )

    @classmethod
    def for_test(cls, *, link: Link | None = None, **facts: Any) -> Self:
        """Build a context without a worker, for the test of a handler; `facts` replaces any field."""
        example: dict[str, Any] = {
            "task_id": "t_test",
            "run_id": "r_test",
            "title": "Test",
            "scheduled_for": datetime(2026, 1, 1, tzinfo=UTC),
            "attempt": 1,
            "worker": "test",
        }
        return cls(**(example | facts), link=link or Link())

    @property
    def idempotency_key(self) -> str:
        """The same text for every attempt of this run, and of later ones that do again what it did not complete.

        By a template of the task it is the same for all runs of one occurrence. Send it with every external effect, so
        that repeats are recognised.
        """
        return self.natural_key or self.repeats or self.run_id

    @property
    def cancelled(self) -> bool:
        """Whether a cancel was requested, or the attempt lost its run: stop soon, and return anything."""
        return self.link.cancelled()

    def should_yield(self) -> bool:
        """Whether a more urgent run needs the thread, or the process stops: checkpoint, and return `Yielded` soon."""
        return self.link.should_yield()

    def now(self) -> datetime:
        """Return the time, aware and in UTC; use it instead of the system's clock, so that tests can set it."""
        return self.link.now()

    def secret(self, name: str, *, host: str | None = None) -> str:
        """Return the value of a secret of the task's tenant; with a `host`, only if it may be sent there.

        Read it just before it is used, in each attempt: it is masked in all that this attempt reports, and no
        checkpoint takes it. Raises `SecretUnavailable`, which fails the run unless the handler catches it.
        """
        return learn_secret(self.link.secret(name, host))

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The results of the tasks that this one comes after, by id and by name of step; None where one has none.

        Each look reads them from the database. A task that was cancelled before it started has no entry.
        """
        return self.link.inputs()

    @property
    def approval(self) -> ReceivedAnswer | None:
        """The answer to what this run asked last by `Wait(approval=...)`; None before.

        Its `answer` is `approve` or `reject`, and `approved` whether it is the first. `by` is the user, or `duetime`
        for the default answer. `reason` is None without one. Each look reads it from the database.
        """
        found = self.link.approval()
        return None if found is None else ReceivedAnswer.from_json(found)

    @property
    def event(self) -> ArrivedSignal | None:
        """The event that this run waited for last, with its `name`, `id`, `data` and `at`; None when none came in time.

        Each look reads it from the database.
        """
        found = self.link.event()
        return None if found is None else ArrivedSignal.from_json(found)

    @property
    def event_timed_out(self) -> bool:
        """Whether the event that this run waited for last has not come in time; False before a run waits for one."""
        return self.link.event_timed_out()

    def checkpoint(self, state: Json) -> bool:
        """Save `state` (JSON of at most 64 KiB) for the next attempt; False when this attempt lost its run.

        Raises `InvalidArgument` when `state` is not JSON, too large, or holds a secret.
        """
        check_checkpoint("checkpoint", state)
        return self.link.save(state) is not False

    def progress(self, fraction: float | None, text: str = "") -> bool:
        """Report progress, 0.0 to 1.0, None if unknown; only the latest is kept. False when this attempt lost its run.

        Call it as often as you like: a report within 0.2 s of the last one is dropped, except 1.0.
        """
        if fraction is not None and not _is_part(fraction):
            given = f"{str(fraction)[:40]!r} is not a fraction of the work"
            raise InvalidArgument("fraction", given, accepted="0.0 to 1.0", example="0.5")
        if fraction != 1 and not self._is_time():
            return True
        message = clean_text(masked(text), 200, lines=False)
        return (
            self.link.report({"fraction": None if fraction is None else float(fraction), "text": message}) is not False
        )

    def use(self, pool: str, units: float) -> None:
        """Count `units` that were really used of a pool that this run needs, in addition to earlier calls.

        At the end the sum replaces the reservation: unused units are free at once, and extra units are missing in the
        next window. Without a call, the whole reservation counts as used, unless the attempt ends by `throttled`.
        Raises `InvalidArgument` for a pool that the run does not need, and for an amount that none has.
        """
        self._check_need(pool)
        if not 0 <= units <= MAX_POOL_UNITS:
            raise InvalidArgument("units", f"{units} is not an amount", accepted=UNITS_ACCEPTED, example="1200")
        self.link.use(pool, float(units))

    def throttled(self, pool: str, retry_after: timedelta | None = None, *, checkpoint: Json = None) -> Wait:
        """Report that a pool's provider was too busy (HTTP 429), and return the outcome to return; it is no failure.

        Nothing that needs the pool starts before `retry_after` has passed, and then less of it runs at once for a
        while. `return ctx.throttled("openai", timedelta(seconds=5))`. Raises `InvalidArgument` as `use` does.
        """
        self._check_need(pool)
        pause = BUSY_PAUSE if retry_after is None else retry_after
        if pause < timedelta(0):
            given = f"{pause.total_seconds():g} s is in the past"
            raise InvalidArgument("retry_after", given, accepted="a timedelta from 0", example="timedelta(seconds=5)")
        self.link.busy(pool, 0.0 if retry_after is None else pause.total_seconds() * 1000)
        return Wait(pause, f"{pool} is busy", checkpoint)

    def _check_need(self, pool: str) -> None:
        if pool not in self.needs:
            known = ", ".join(sorted(self.needs)) or "nothing"
            raise InvalidArgument(
                "pool",
                f"this run does not need {pool!r}; it has reserved {known}",
                accepted="a pool in the needs of the handler or the task",
                example=f"@handler(..., needs={{{pool!r}: 1}})",
            )

    def _is_time(self) -> bool:
        """Whether the last report is old enough: each one is a database write."""
        now = self.now()
        if self._reported and timedelta(0) <= now - self._reported[-1] < self.pace:
            return False
        self._reported[:] = [now]
        return True


def _is_part(fraction: Any) -> bool:
    return isinstance(fraction, Real) and 0 <= float(fraction) <= 1


def check_checkpoint(place: str, state: Json) -> None:
    """Raise InvalidArgument unless a checkpoint can be stored, which its database keeps as it is."""
    check_json(place, state)
    if masked_json(state) != state:
        raise InvalidArgument(
            place, "holds the value of a secret", accepted="the name of the secret; `ctx.secret` reads it again"
        )
