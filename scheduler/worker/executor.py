"""One attempt, from its claim to its result: a pipeline of named steps (`Executor.run`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from duetime.scheduler.errors import DuetimeError, StoreUnavailable
from duetime.scheduler.handlers import Context, Handler, Handlers, Link, explain, run_handler, tracebacks
from duetime.scheduler.handlers.contract.expectation import Expectations
from duetime.scheduler.handlers.contract.preflight import alert_of, blocked_wait, is_blocked, preflight_wait
from duetime.scheduler.handlers.process import HandlerProcess
from duetime.scheduler.outcomes import Done, Outcome, Retry, Wait, Yielded
from duetime.scheduler.rules.settlement import AttemptResult, StoppedByRequest, Unverified
from duetime.scheduler.runtime.attempt_context import attempt_context
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.interrupt import CancelRequested, Interrupt, ReservationLost, TimeLimitReached
from duetime.scheduler.runtime.notices import AttemptBroken
from duetime.scheduler.runtime.secret_mask import learn_secret, secrets_masked
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json, Notify, Task
from duetime.scheduler.waits.approval import as_answer
from duetime.scheduler.waits.signal import KeptWait
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.threads.store_wait import StoreWait

GIVEN_BACK_STOPPED: Final = Yielded(reason="the worker stopped")
GIVEN_BACK_UNRESERVED: Final = Yielded(reason="its pool reservation was lost")
GIVEN_BACK_NO_DATABASE: Final = Yielded(reason="handed back: the database could not be reached")
GIVEN_BACK_UNKNOWN: Final = Yielded(reason="handed back: the database went away while it was started")
GIVEN_BACK_LATE: Final = Yielded(reason="handed back: earlier runs on this worker took longer than expected")

UNCHECKED: Final = "the worker stopped before the check had ended"

T = TypeVar("T")

ReachedChannels = Callable[[Sequence[str]], tuple[str, ...]]

log = logging.getLogger(__name__)


class Executor:
    """Runs claims with the handlers of this process; `started` is called when the time limit of an attempt begins.

    `reached` returns those of a task's channels that there are.
    """

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        loop: EventLoop,
        reached: ReachedChannels,
        *,
        started: Callable[[ActiveRun, timedelta], None],
        store_wait: StoreWait | None = None,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._expectations = Expectations(handlers.webhooks)
        self._loop = loop
        self._started = started
        self._reached = reached
        self._store_wait = store_wait or StoreWait()

    def run(self, held: ActiveRun) -> AttemptResult:
        """Take an attempt through its steps on this thread, and return its result. Never raises."""
        try:
            handler = self._resolve_handler(held)
            self._start_time_limit(handler, held)
            with secrets_masked():
                result = self._check_needs(handler, held) or self._call_handler(handler, held)
                result = self._verify_result(result, held)
        except BaseException as error:  # noqa: BLE001 - else the run stays `running`, and its thread counts as busy
            result = self.failed(held, error)
        return self._heed_cancel(result, held)

    def _resolve_handler(self, held: ActiveRun) -> Handler:
        return self._handlers[held.claim.task.action]  # the claimer starts known actions only

    def _start_time_limit(self, handler: Handler, held: ActiveRun) -> None:
        self._started(held, handler.time_limit)

    def _check_needs(self, handler: Handler, held: ActiveRun) -> AttemptResult | None:
        """Return a wait if what the run needs is missing; notify its user once if it is missing for good.

        The message is read once nothing is missing. A run is handed back, and checked again, where the database stayed
        away from either.
        """
        run = held.claim.run
        since = run.started_at or self._store.now()
        wait = self._unreached(held.claim.task, since) or self._lacking(handler, held, since)
        was_blocked = bool(run.summary) and is_blocked(run.summary)
        if wait is None:
            read = partial(self._store.blocked.read_alert, run.tenant, run.id)
            return self._store_message(held, read) if was_blocked else None
        if not is_blocked(wait.reason) or (was_blocked and run.attempt > 1):  # a first one was in the answer to a call
            return wait
        return self._alert(held, wait.reason) or wait

    def _call_handler(self, handler: Handler, held: ActiveRun) -> AttemptResult:
        """Return the outcome of the handler, or the result that stands for its exception or interrupt."""
        held.usage.begin()
        try:
            with held.handling(), attempt_context(held.name, held.log.keep):
                return _reached(self._call(handler, held), held)
        except Interrupt as why:
            held.traceback = held.traceback or tracebacks.of_interrupt(why, handler.fn)
            return _reached(_interrupted(why, handler), held)
        except BaseException as error:  # noqa: BLE001 - a worker thread survives whatever a handler raises
            held.traceback = tracebacks.of_error(error, handler.fn)
            return Retry(explain(error))
        finally:
            held.usage.end()

    def _verify_result(self, result: AttemptResult, held: ActiveRun) -> AttemptResult:
        """Compare the result of a success with what its task expects."""
        expect = held.claim.task.expect
        if not isinstance(result, Done) or not expect:
            return result
        held.unchecked = _unverified(result, UNCHECKED)  # from here on no time limit applies
        miss = self._expectations.unmet(expect, result.result)
        return _unverified(result, miss) if miss else result

    def _heed_cancel(self, result: AttemptResult, held: ActiveRun) -> AttemptResult:
        """Replace any result but a success by a cancel, if one was requested."""
        return StoppedByRequest() if held.cancelled and not isinstance(result, Done) else result

    def _unreached(self, task: Task, since: datetime) -> Wait | None:
        """Block a run whose task delivers to a channel that does not exist any more."""
        reached = self._reached(task.deliver_to)
        if len(reached) == len(task.deliver_to) or task.notify is Notify.NEVER:
            return None
        gone = [name for name in task.deliver_to if name not in reached]
        return blocked_wait(f"channel {gone[0]!r} is no longer configured", self._store.now() - since)

    def _lacking(self, handler: Handler, held: ActiveRun, since: datetime) -> Wait | None:
        if handler.preflight is None:
            return None
        context = self._context(held, lambda call: call())
        with attempt_context(held.name, held.log.keep):
            return preflight_wait(handler, context, held.claim.task.payload, since)

    def _alert(self, held: ActiveRun, reason: str) -> AttemptResult | None:
        """Notify the user."""
        claim, tasks = held.claim, self._store.tasks
        alert = alert_of(claim, reason, self._store.now(), self._reached(claim.task.deliver_to))
        return self._store_message(held, lambda: tasks.add(alert.task, alert.run, actor=alert.actor, key=alert.key))

    def _store_message(self, held: ActiveRun, write: Callable[[], object]) -> AttemptResult | None:
        """Store what the user is to know; a run is handed back if the database stayed away until it had to end."""
        try:
            self._store_wait.call(held, write)
        except StoreUnavailable:
            return GIVEN_BACK_NO_DATABASE
        except DuetimeError as error:
            log.warning("run %s: its user could not be notified that it is blocked: %s", held.run_id, error)
        return None

    def failed(self, held: ActiveRun, error: BaseException) -> AttemptResult:
        """Return the result of an attempt that failed outside its handler, and report why."""
        held.notifier.noticed(AttemptBroken(held.run_id, held.action, error))
        return held.unchecked or Retry(explain(error))

    def unstopped(self, held: ActiveRun) -> AttemptResult:
        """Return the result of an attempt whose handler did not stop at its time limit."""
        handler = self._resolve_handler(held)
        limit, thread = handler.time_limit, held.thread
        held.traceback = tracebacks.of_thread(thread.ident if thread else None, handler.fn)
        if held.cancelled:
            return StoppedByRequest()
        return _reached(Retry(f"{_over(limit)}, and its thread did not stop"), held)

    def _call(self, handler: Handler, held: ActiveRun) -> Outcome:
        if handler.isolation == "process":
            return self._call_process(handler, held)
        context, payload = self._context(held, held.call.shield), held.claim.task.payload

        def on_the_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
            return held.call.wait_for(coroutine, self._loop.loop)

        keep = held.keep_traceback
        if handler.is_async:
            return run_handler(handler, context, payload, wait_for=on_the_loop, on_error=keep)
        return held.call.call(lambda: run_handler(handler, context, payload, on_error=keep))

    def _call_process(self, handler: Handler, held: ActiveRun) -> Outcome:
        process = HandlerProcess(handler, self._context(held, lambda call: call()), held.claim.task.payload)
        held.kill = process.kill
        try:
            process.assign()
            outcome = held.call.hand_on(process.run, process.interrupt)
        finally:
            held.kill = None
            process.close()
            held.traceback = process.traceback
        if outcome is None and held.call.pending is not None:
            raise held.call.pending
        return outcome or Retry(f"its handler process {process.end} before it returned")

    def _context(self, held: ActiveRun, guard: Callable[[Callable[[], bool]], bool]) -> Context:
        claim, link = held.claim, self._link(held, guard)
        made = Context.of(claim.task, claim.run, worker=claim.worker, needs=claim.reserved, link=link)
        if held.trace is None or not held.trace.traceparent:
            return made
        return replace(made, traceparent=held.trace.traceparent, tracestate=held.trace.tracestate or None)

    def _link(self, held: ActiveRun, guard: Callable[[Callable[[], bool]], bool]) -> Link:
        claims, run_id, attempt = self._store.claims, held.run_id, held.claim.run.attempt
        tenant, task_id, run = held.claim.task.tenant, held.claim.task.id, held.claim.run

        def wait(call: Callable[[], T]) -> T:
            return self._store_wait.call(held, call)

        def save(state: Json) -> bool:
            return held.progressed(written=guard(lambda: wait(lambda: claims.checkpoint(run_id, attempt, state))))

        def secret(name: str, host: str | None) -> str:
            return learn_secret(wait(lambda: self._store.secrets.value(tenant, name, host)))

        def report(value: Json) -> bool:
            return held.progressed(written=guard(lambda: wait(lambda: claims.progress(run_id, attempt, value))))

        def awaited() -> KeptWait | None:
            return wait(lambda: self._store.signals.wait_of_run(tenant, task_id, run_id))

        return Link(
            save=save,
            report=report,
            use=held.usage.use,
            busy=held.usage.busy,
            cancelled=lambda: held.cancelled or held.timed_out,
            should_yield=held.should_yield,
            now=self._store.now,
            secret=secret,
            inputs=lambda: wait(lambda: self._store.dependencies.results(tenant, task_id, run)),
            approval=lambda: as_answer(wait(lambda: self._store.approvals.answered(tenant, run_id))),
            event=lambda: _event_of(awaited()),
            event_timed_out=lambda: _is_timed_out(awaited()),
        )


def _unverified(result: Done, miss: str) -> Unverified:
    return Unverified(result.summary, result.result, result.quiet, result.spawn, miss)


def _event_of(wait: KeptWait | None) -> dict[str, Any] | None:
    return wait.signal.to_json() if wait and wait.signal else None


def _is_timed_out(wait: KeptWait | None) -> bool:
    return wait is not None and wait.timed_out


def _interrupted(why: Interrupt, handler: Handler) -> AttemptResult:
    if isinstance(why, CancelRequested):
        return StoppedByRequest()
    if isinstance(why, TimeLimitReached):
        return Retry(_over(handler.time_limit))
    return GIVEN_BACK_UNRESERVED if isinstance(why, ReservationLost) else GIVEN_BACK_STOPPED


def _reached(result: AttemptResult, held: ActiveRun) -> AttemptResult:
    """Hand a run back that failed while the database was away: an outage is no failure of the run."""
    failed = isinstance(result, Retry) and held.traceback is not None
    return GIVEN_BACK_NO_DATABASE if failed and held.store_away else result


def _over(time_limit: timedelta) -> str:
    return f"time limit of {time_limit.total_seconds():g} s"
