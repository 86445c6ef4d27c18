"""Preflight: a run that misses what it needs is blocked without a failed attempt, notifies once, and continues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Context, Handlers, handler, reminder
from duetime.scheduler.handlers.contract.preflight import preflight_wait
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from pydantic import BaseModel

from tests.builders import TENANT, Clock, added
from tests.flow.waiting import eventually

Check = Callable[[Context], str | None]
MISSING = "no certificate in /etc/bank"


class Bank:
    """A worker whose action needs something that may be missing."""

    def __init__(self, store: Store, clock: Clock, check: Check) -> None:
        @handler("transfer", preflight=check)
        def transfer(_ctx: Context) -> Done:
            """Transfer money."""
            return Done("transferred")

        self.store, self.clock = store, clock
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.worker = Worker(store, self.queue, Handlers([transfer, reminder]), WorkerOptions("w", threads=1))
        self.task_id = added(store, action="transfer", payload={}, deliver_to=("desktop",)).task.id
        self.worker.start()

    def run(self) -> Run:
        return self.store.tasks.get(TENANT, self.task_id).run

    def attempt(self) -> Run:
        """Go to when the run is due, and wait until it was attempted."""
        before = self.run()
        self.clock.at = max(self.clock.at, before.wake_at or self.clock.at)

        def attempted() -> bool:
            Dispatcher(self.store, self.queue).step()
            run = self.run()
            return run.attempt > before.attempt and run.state in {State.SUSPENDED, State.SUCCEEDED, State.RETRYING}

        eventually(attempted, "an attempt")
        return self.run()

    def messages(self) -> list[str]:
        """Return what the user was told, after every reminder of it has run."""

        def quiet() -> bool:
            Dispatcher(self.store, self.queue).step()
            found = self.store.tasks.page(TENANT, TaskFilter(action="reminder"), limit=99)[0]
            return all(each.run.state is State.SUCCEEDED for each in found)

        eventually(quiet, "the reminders")
        return [message.text for message in reversed(self.store.inbox.unread(TENANT, "alice", limit=99))]


def test_a_blocked_run_notifies_once_counts_no_failure_and_continues_when_it_is_fixed(
    store: Store, clock: Clock
) -> None:
    missing = [MISSING, MISSING, MISSING]
    bank = Bank(store, clock, lambda _ctx: missing.pop() if missing else None)
    began = clock()
    waits = []
    for _ in range(3):
        run = bank.attempt()
        assert (run.state, run.failures, run.summary) == (State.SUSPENDED, 0, f"blocked: {MISSING}")
        assert run.wake_at is not None
        waits.append(run.wake_at - began)
        assert [text for text in bank.messages() if MISSING in text] == [
            f"Call John waits, and continues when this is fixed: {MISSING}"
        ]
    assert waits == [timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=40)]
    assert bank.attempt().state is State.SUCCEEDED
    bank.worker.stop(timedelta(0))
    [last] = bank.messages()
    assert "transferred" in last, "the message about what was missing is read"
    assert [attempt.outcome for attempt in store.history.attempts(TENANT, bank.task_id)] == ["wait"] * 3 + ["done"]


def test_a_fault_that_may_pass_is_waited_out_without_a_word(store: Store, clock: Clock) -> None:
    faults: list[Exception] = [ConnectionError("no route")]

    def check(_ctx: Context) -> str | None:
        if faults:
            raise faults.pop()
        return None

    bank = Bank(store, clock, check)
    run = bank.attempt()
    assert (run.state, run.failures, run.summary) == (State.SUSPENDED, 0, "not ready: ConnectionError: no route")
    assert bank.messages() == []
    assert bank.attempt().state is State.SUCCEEDED
    bank.worker.stop(timedelta(0))


class Unusual(BaseException):
    """An exception that is no Exception."""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, Unusual])
def test_a_check_that_raises_no_exception_but_an_exit_is_waited_out_and_keeps_no_thread(
    store: Store, clock: Clock, kind: type[BaseException]
) -> None:
    faults = [kind("the share is not mounted")]

    def check(_ctx: Context) -> str | None:
        if faults:
            raise faults.pop()
        return None

    bank = Bank(store, clock, check)
    run = bank.attempt()
    said = f"not ready: {kind.__name__}: the share is not mounted"
    assert (run.state, run.failures, run.summary) == (State.SUSPENDED, 0, said)
    assert bank.attempt().state is State.SUCCEEDED
    bank.worker.stop(timedelta(0))


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (lambda: True, "bool"),
        (lambda: False, "bool"),
        (lambda: {"a": 1}, "dict"),
        (lambda: (text for text in ["x"]), "generator"),
        (lambda: later(Context.for_test()), "coroutine"),
    ],
)
def test_a_check_that_returns_no_text_blocks_the_run_and_says_so(returned: Callable[[], Any], problem: str) -> None:
    declared: Any = handler("transfer", preflight=lambda _ctx: returned())(lambda _ctx: Done())
    found = preflight_wait(declared, Context.for_test(), {}, Context.for_test().now())
    assert found is not None
    assert found.reason == (
        f"blocked: the preflight of transfer returned {problem}; it must return a text that says what is missing, "
        "or None"
    )


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_a_check_that_returns_no_words_misses_nothing(nothing: str | None) -> None:
    declared: Any = handler("transfer", preflight=lambda _ctx: nothing)(lambda _ctx: Done())
    assert preflight_wait(declared, Context.for_test(), {}, Context.for_test().now()) is None


def test_an_invalid_argument_of_the_check_itself_is_a_fault_and_that_of_the_payload_is_left_to_the_run() -> None:
    def check(_ctx: Context, _payload: Transfer) -> str | None:
        raise InvalidArguments([InvalidArgument("when", "is not a time")])

    declared: Any = handler("transfer", payload=Transfer, preflight=check)(lambda _ctx, _payload: Done())
    now = Context.for_test().now()
    found = preflight_wait(declared, Context.for_test(), {"amount": 7}, now)
    assert found is not None
    assert (found.reason or "").startswith("not ready: InvalidArguments: when")
    assert preflight_wait(declared, Context.for_test(), {"amount": "much"}, now) is None


def test_a_secret_that_cannot_be_read_blocks_a_run(store: Store, clock: Clock) -> None:
    def check(_ctx: Context) -> str | None:
        raise SecretUnavailable("crm", "there is none of this name")

    bank = Bank(store, clock, check)
    assert bank.attempt().summary == "blocked: secret 'crm': there is none of this name"
    bank.worker.stop(timedelta(0))


class Transfer(BaseModel):
    amount: int


def of_both(_ctx: Context, payload: Any) -> str | None:
    amount = payload.amount if isinstance(payload, Transfer) else payload["amount"]
    return f"{amount} is too much"


def of_context(ctx: Context) -> str | None:
    return f"not on {ctx.worker}"


@pytest.mark.parametrize(("check", "said"), [(of_both, "7 is too much"), (of_context, "not on test")])
@pytest.mark.parametrize("model", [Transfer, None])
def test_a_check_takes_the_context_and_the_payload_if_it_wants_it(
    check: Check, said: str, model: type[BaseModel] | None
) -> None:
    def transfer(_ctx: Context, _payload: Any) -> Done:
        return Done()

    declared: Any = handler("transfer", payload=model, preflight=check)(transfer)
    found = preflight_wait(declared, Context.for_test(), {"amount": 7}, Context.for_test().now())
    assert found is not None
    assert said in (found.reason or "")


async def later(_ctx: Context) -> str | None:
    return None


@pytest.mark.parametrize("wrong", [later, lambda: None, lambda _ctx, _payload, _more: None])
def test_a_check_of_the_wrong_form_is_refused_when_the_handler_is_declared(wrong: Check) -> None:
    example = r"\(ctx\) or \(ctx, payload\) .* as in def ready\(ctx: Context, payload: Transfer\) -> str \| None"
    with pytest.raises(HandlerError, match=f"preflight must be a plain def of {example}"):

        @handler("transfer", payload=Transfer, preflight=wrong)
        def transfer(_ctx: Context, _payload: Transfer) -> Done:
            """Transfer money."""
            return Done()


def test_a_number_is_no_retry_policy_which_its_author_learns_at_once() -> None:
    with pytest.raises(HandlerError, match="retry must be a RetryPolicy"):
        handler("transfer", retry=3)(lambda _ctx: Done())  # type: ignore[call-overload]  # what somebody could write
