"""A run reads a secret when it needs it, and what it reports holds no value, however the value gets there."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from duetime.scheduler.access.secret import SecretUnavailable, read_key
from duetime.scheduler.events import EventFilter
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait, Yielded
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import Attempt, RetryPolicy, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.server.telemetry.run_log import log_runs

from tests import blank
from tests.builders import NOON, TENANT, Clock, added
from tests.canary import CANARY, KEY, OTHER_KEY, shown_in
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers

NOON_MS = NOON.timestamp() * 1000
ENDED = {State.SUCCEEDED, State.FAILED, State.RETRYING, State.SUSPENDED}
Run = Callable[[Handler], tuple[TaskRecord, Attempt]]


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF", secret_keys=[read_key(KEY)])
    opened.secrets.set(TENANT, "crm", CANARY, by="ann")
    opened.secrets.set("globex", "theirs", CANARY, by="bob")
    yield opened
    opened.close()


@pytest.fixture
def run(store: Store) -> Iterator[Run]:
    """Run a handler once, in a worker, and return how that ended."""
    workers = list[Worker]()

    def ran(item: Handler) -> tuple[TaskRecord, Attempt]:
        queue = MemoryQueue(lambda: NOON_MS)
        record = added(store, action=item.name, payload={}, retry=RetryPolicy(max_attempts=3))
        store.claims.make_ready(limit=1)
        queue.put([Entry(record.run.id, NOON_MS)])
        options, told = WorkerOptions("w", threads=1), RunNotifier(subscribers=(log_runs,))
        workers.append(Worker(store, queue, Handlers([item]), options, notifier=told))
        workers[-1].start()

        def found() -> TaskRecord:
            return store.tasks.get(TENANT, record.task.id)

        def ended() -> bool:
            run = found().last_run or found().run
            return run.state in ENDED

        eventually(ended, "the attempt to end")
        [attempt] = store.history.attempts(TENANT, record.task.id)
        return found(), attempt

    yield ran
    for worker in workers:
        worker.stop(grace=RetryPolicy().backoff)


def raised(ctx: Context) -> Outcome:
    raise LookupError(f"no customer with {ctx.secret('crm')}")


def raised_far_behind(ctx: Context) -> Outcome:
    """Put the value where the reason is cut."""
    raise LookupError("x" * 480 + ctx.secret("crm"))


def returned(ctx: Context) -> Outcome:
    value = ctx.secret("crm")
    return Done(f"signed in with {value}", {"headers": {value: ["Bearer " + value, quote(value, safe="")]}})


def failed(ctx: Context) -> Outcome:
    value = ctx.secret("crm")
    return Failed(f"refused {value}", {"base64": base64.b64encode(value.encode()).decode()})


def tried(ctx: Context) -> Outcome:
    value = ctx.secret("crm")
    return Retry(f"{value} is busy", result=[value])


def waited(ctx: Context) -> Outcome:
    return Yielded(reason=f"gave way with {ctx.secret('crm')}")


def progressed(ctx: Context) -> Outcome:
    ctx.progress(1.0, "x" * 190 + ctx.secret("crm"))
    return Done()


WAYS = [raised, raised_far_behind, returned, failed, tried, waited, progressed]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_report_of_a_run_has_a_mask_in_place_of_a_secret(
    run: Run, store: Store, caplog: pytest.LogCaptureFixture, way: Callable[[Context], Outcome]
) -> None:
    record, attempt = run(handler("leaks")(way))
    events = store.history.events(TENANT, EventFilter(), limit=50)
    inbox = store.inbox.unread(TENANT, record.task.owner)
    everything = repr((record, attempt, events, inbox)) + caplog.text
    assert shown_in(everything) == []
    assert CANARY[:9] not in everything
    assert "***" in everything


def test_an_async_handler_is_masked_too(run: Run) -> None:
    @handler("leaks")
    async def leaks(ctx: Context) -> Done:
        raise LookupError(ctx.secret("crm"))

    _, attempt = run(leaks)
    assert attempt.reason == "LookupError: ***"
    assert shown_in(attempt.traceback or "") == []


def test_a_handler_in_a_process_of_its_own_reads_a_secret_and_is_masked(run: Run) -> None:
    record, attempt = run(isolated_handlers.signs_in)
    assert (attempt.reason, record.run.result) == ("LookupError: *** of 21", None)
    assert shown_in(attempt.traceback or "") == []


def test_a_checkpoint_with_a_secret_is_refused_as_it_would_be_stored(run: Run) -> None:
    @handler("leaks")
    def leaks(ctx: Context) -> Done:
        ctx.checkpoint({"token": ctx.secret("crm")})
        return Done()

    @handler("leaks-later")
    def leaks_later(ctx: Context) -> Wait:
        return Wait(RetryPolicy().backoff, checkpoint=[ctx.secret("crm")])

    for item in (leaks, leaks_later):
        record, attempt = run(item)
        assert "checkpoint: holds the value of a secret" in (attempt.reason or "")
        assert record.run.checkpoint is None


@pytest.mark.parametrize("name", ["theirs", "cmr", "not a name"])
def test_a_secret_that_the_tenant_does_not_have_fails_the_run_and_is_named(run: Run, name: str) -> None:
    @handler("signs-in")
    def signs_in(ctx: Context) -> Done:
        return Done(ctx.secret(name))

    record, attempt = run(signs_in)
    assert record.run.state is State.FAILED
    assert attempt.reason == f"secret {name!r}: this tenant has no secret of that name (crm)"


def test_after_a_lost_key_only_tasks_that_need_a_secret_fail(run: Run, store: Store, tmp_path: Path) -> None:
    other = open_store(f"sqlite:///{tmp_path}/duetime.db", secret_keys=[read_key(OTHER_KEY)])
    store.secrets = other.secrets

    @handler("signs-in")
    def signs_in(ctx: Context) -> Done:
        return Done(ctx.secret("crm"))

    @handler("counts")
    def counts(_ctx: Context) -> Done:
        return Done("counted")

    record, attempt = run(signs_in)
    assert record.run.state is State.FAILED
    assert (attempt.reason or "").startswith("secret 'crm': no key of this process can decrypt it; add the key")
    assert run(counts)[0].run.state is State.SUCCEEDED
    other.close()


def test_a_handler_may_go_on_without_a_secret(run: Run) -> None:
    @handler("signs-in")
    def signs_in(ctx: Context) -> Done:
        try:
            return Done(ctx.secret("optional"))
        except SecretUnavailable as error:
            return Done(f"without {error.name}")

    assert run(signs_in)[0].run.summary == "without optional"


def test_no_run_can_guess_a_secret_of_another_by_what_is_masked(run: Run, store: Store) -> None:
    store.secrets.set(TENANT, "guessed", "swordfish", by="ann")

    @handler("reads")
    def reads(ctx: Context) -> Done:
        return Done(f"{len(ctx.secret('guessed'))} characters")

    @handler("guesses")
    def guesses(_ctx: Context) -> Done:
        return Done("is it swordfish?")

    run(reads)
    assert run(guesses)[0].run.summary == "is it swordfish?"


def test_log_lines_are_masked_whichever_thread_writes_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from duetime.server.runtime.logs import ForPeople, JsonLines

    written = {JsonLines: StringIO(), ForPeople: StringIO()}
    log = logging.getLogger("shop")
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(log, "handlers", [])
    for kind, stream in written.items():
        log.addHandler(logging.StreamHandler(stream))
        log.handlers[-1].setFormatter(kind())

    @handler("logs")
    def logs(ctx: Context) -> Done:
        value = ctx.secret("crm")

        def write() -> None:
            log.warning("signed in by %s%s%s", value, "x" * 3_980, value, extra={"token": value})
            log.error("no customer", exc_info=LookupError(value))

        for work in (write, threading.Thread(target=write).start):
            work()
        return Done()

    run(logs)
    texts = [stream.getvalue() for stream in written.values()]
    eventually(lambda: all(text.getvalue().count("no customer") == 2 for text in written.values()), "both threads")
    assert all("***" in text for text in texts)
    assert [shown_in(stream.getvalue()) for stream in written.values()] == [[], []]
    assert CANARY[:9] not in "".join(stream.getvalue() for stream in written.values())


def test_a_secret_of_several_lines_is_masked_line_by_line(run: Run, store: Store) -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
    store.secrets.set(TENANT, "pem", key, by="ann")

    @handler("leaks")
    def leaks(ctx: Context) -> Done:
        parts: list[Any] = ctx.secret("pem").splitlines()
        return Done(parts[1], parts)

    record, _ = run(leaks)
    assert (record.run.summary, record.run.result) == ("***", ["***"] * 4)
