"""Many processes on one PostgreSQL database: what one of them schedules, cancels or hands back, others act upon."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import anyio
import pytest
from duetime import Scheduler
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.handlers import Context, Handler, handler
from duetime.scheduler.nodes import heartbeat
from duetime.scheduler.outcomes import Done, Yielded
from duetime.scheduler.queue import QueueTaken
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.run_records import Start
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskView
from duetime.scheduler.worker import watchdog
from duetime.server import distributed
from duetime.server.app import App, Role
from duetime.server.cli.pools import show_stats
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.rest.resources.stats import read_stats, stats_json
from duetime.server.transport import serve_http
from mcp.server.subscriptions import ResourceUpdated, ServerEvent

from tests.flow.breaking import Breaking
from tests.flow.installation import Installation
from tests.flow.waiting import eventually

pytestmark = pytest.mark.postgres


class Gate:
    """A handler that runs until it is let go, and says by which member."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.starts: list[str] = []

    def handler(self, member: str) -> Handler:
        @handler("gate", time_limit=60)
        def gate(ctx: Context) -> Done | Yielded:
            self.starts.append(member)
            while not self.open.wait(0.005) and not ctx.should_yield():
                pass
            return Done(member) if self.open.is_set() else Yielded()

        return gate


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def installation(migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> Iterator[Installation]:
    with Installation(migrated_postgres_url, Breaking(), monkeypatch, threads=2, lease_seconds=300).closing() as made:
        yield made
        gate.open.set()


def state(app: App, view: TaskView) -> State:
    return app.scheduler.get(view.record.task.id).record.run.state


def test_a_task_that_a_server_schedules_runs_on_a_worker_and_not_on_the_server(
    installation: Installation, gate: Gate
) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    worker = installation.member(Role.WORK, handlers=[gate.handler("worker")])
    gate.open.set()
    view = server.scheduler.schedule("Now", action="gate")
    eventually(lambda: state(server, view) is State.SUCCEEDED, "it ran")
    assert gate.starts == ["worker"]
    (row,) = server.store.workers.all()
    assert (row.threads, row.state) == (2, "running")
    worker.close()
    assert server.store.workers.all() == [], "it ended in order"


def test_the_traceback_of_a_remote_attempt_is_read_on_the_server(installation: Installation) -> None:
    @handler("bills")
    def bills(_ctx: Context) -> Done:
        raise LookupError("no such customer")

    server = installation.member(Role.SERVE, handlers=[bills])
    installation.member(Role.WORK, handlers=[bills])
    view = server.scheduler.schedule("Now", action="bills")
    eventually(lambda: state(server, view) is State.RETRYING, "it failed")
    failed = server.scheduler.get(view.record.task.id).failed_attempt
    assert failed is not None
    assert failed.traceback is not None
    assert failed.traceback.endswith("LookupError: no such customer")
    first, *_ = server.scheduler.past.attempts(view.record.task.id)  # on a busy machine the next one runs by now
    assert first.traceback == failed.traceback


def test_a_run_due_while_no_worker_is_up_says_that_it_waits_for_one(installation: Installation, gate: Gate) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    view = server.scheduler.schedule("Now", action="gate")
    eventually(lambda: installation.queue.explain(view.record.run.id) is not None, "it is in the queue")

    def waits() -> tuple[str, ...]:
        return server.scheduler.get(view.record.task.id).waiting_for

    assert waits() == ("a worker: none is running, so start one with `duetime worker`",)
    server.store.workers.beat(WorkerProcess("w_1", "host", 1, 2, server.store.now(), actions=("gate",)))
    assert waits() == ("a free worker thread: it is next for its tier and needs",)
    server.store.workers.beat(
        WorkerProcess("w_1", "host", 1, 2, server.store.now(), state="draining", actions=("gate",))
    )
    assert "none is running" in waits()[0], "one that takes nothing more does not count"
    server.store.workers.drain("w_1", DrainMode.FINISH, AuditEntry("local", AuditKind.WORKER_DRAINED, "ann", "cli"))
    assert waits()[0].startswith("a worker: all were drained, so resume them with `duetime workers resume --all`")


def test_a_server_without_any_worker_seals_the_events(installation: Installation) -> None:
    server = installation.member(Role.SERVE)
    server.scheduler.schedule("Call John", when="in 1 hour")
    eventually(server.store.audit_chain.heads, "the chain")


def test_a_run_that_a_silent_worker_has_taken_promises_no_start(
    installation: Installation, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    server.store.workers.beat(WorkerProcess("w_dead", "host", 1, 2, server.store.now(), actions=("gate",)))
    view = server.scheduler.schedule("Now", action="gate")
    eventually(lambda: installation.queue.take("w_dead", 1, 30_000).grants, "it is taken")
    promised = ("worker w_dead, which has taken it and is about to start it",)
    assert server.scheduler.get(view.record.task.id).waiting_for == promised
    monkeypatch.setattr(heartbeat, "WORKER_ALIVE_FOR", timedelta(0))
    taken, no_worker = server.scheduler.get(view.record.task.id).waiting_for
    assert taken.startswith("worker w_dead, which has taken it and has been silent for ")
    assert "the run is free for other workers when its lease expires, in " in taken
    assert no_worker == "a worker: none is running, so start one with `duetime worker`"


def test_a_server_that_starts_without_a_worker_says_so_in_its_log_and_in_its_statistics(
    installation: Installation, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server = installation.member(Role.SERVE, start=False)
    serve_http.start(server)
    nothing = "nothing starts, and no channel is notified, until"
    assert [each for each in caplog.messages if nothing in each] == [f"no worker is running: {nothing} there is one"]
    found = stats_json(*read_stats(server.remote_queue, server.backlog))
    show_stats(found, "UTC", server.store.now(), as_json=False)
    assert nothing in " ".join(capsys.readouterr().out.split())


def test_a_server_ends_attempts_of_dead_workers_and_says_before_that_they_are_silent(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = installation.member(Role.SERVE, start=False)
    view = server.scheduler.schedule("Orphan", when="now")
    view = a_dead_worker_holds(server, view)
    assert server.ready(verbose=True).splitlines()[:2] == [
        "ok",
        "no worker is running: nothing starts, and no channel is notified, until there is one",
    ]
    assert server.ready() == "ok"
    first, *_ = server.scheduler.get(view.record.task.id).waiting_for
    assert first.startswith("the end of attempt 1 of 5: its worker w_dead is gone, and its lease has expired")
    monkeypatch.setattr(heartbeat, "WORKER_ALIVE_FOR", timedelta(0))
    server.store.workers.beat(WorkerProcess("w_dead", "host", 1, 2, server.store.now()))
    _, (first, *_) = server.scheduler.explain(view.record.task.id)
    assert first.startswith("the end of attempt 1 of 5: its worker w_dead has been silent for ")
    assert "1 is not running any more" in server.scheduler.tasks.list(TaskFilter()).overdue
    server.start()
    eventually(lambda: state(server, view) is not State.RUNNING, "the server ended the attempt")
    (crashed,) = server.scheduler.past.attempts(view.record.task.id)
    assert crashed.outcome == "crashed"


def a_dead_worker_holds(server: App, view: TaskView) -> TaskView:
    """Claim a run for a worker that has no process, under a lease that has expired."""
    claims, run = server.store.claims, view.record.run
    claims.make_ready(limit=10)
    (claim,) = claims.start([Start(run.id)], worker="w_dead", epoch=None, lease=timedelta(0))
    assert claim.run.id == run.id
    return view


def test_a_command_that_only_schedules_lets_others_dispatch_it_at_once(
    installation: Installation, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "duetime.scheduler.dispatch.dispatcher.MAX_DISPATCH_SLEEP_S", 3600.0
    )  # nobody looks unless told to
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    command = installation.member(Role.SERVE, start=False, handlers=[gate.handler("command")])
    gate.open.set()
    view = command.scheduler.schedule("Now", action="gate")
    eventually(lambda: state(command, view) is State.SUCCEEDED, "it ran")
    assert installation.channel.told[0] == "due"


@pytest.mark.parametrize("started", [True, False], ids=["a server", "a command that only schedules"])
def test_a_run_that_an_event_releases_starts_at_once_though_no_worker_sent_it(
    installation: Installation, gate: Gate, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    monkeypatch.setattr("duetime.scheduler.dispatch.dispatcher.MAX_DISPATCH_SLEEP_S", 3600.0)
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    sender = installation.member(Role.SERVE, start=started, handlers=[gate.handler("sender")])
    gate.open.set()
    view = sender.scheduler.schedule("Ship", action="gate", wait_for={"event": "order.paid"})
    assert sender.scheduler.signals.send("order.paid").freed == 1
    eventually(lambda: state(sender, view) is State.SUCCEEDED, "it ran")


def test_a_running_task_that_another_process_cancels_is_stopped_at_once(installation: Installation, gate: Gate) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    view = server.scheduler.schedule("Long", action="gate")
    eventually(lambda: gate.starts, "it runs")
    server.scheduler.cancel(view.record.task.id)
    eventually(lambda: state(server, view) is State.CANCELLED, "it was cancelled")  # renewals are minutes apart


def test_a_run_that_a_stopping_worker_hands_back_runs_on_another_one(
    installation: Installation, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.dispatch.dispatcher.MAX_DISPATCH_SLEEP_S", 3600.0)
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    first = installation.member(Role.WORK, handlers=[gate.handler("first")])
    view = server.scheduler.schedule("Long", action="gate")
    eventually(lambda: gate.starts == ["first"], "it runs")
    installation.member(Role.WORK, handlers=[gate.handler("second")])
    stopping = threading.Thread(target=first.runner.stop, args=(timedelta(0),))
    stopping.start()
    eventually(lambda: "second" in gate.starts, "it runs elsewhere")
    gate.open.set()
    stopping.join()
    eventually(lambda: state(server, view) is State.SUCCEEDED, "it ended")
    assert gate.starts == ["first", "second"]


def test_scheduling_goes_on_while_the_queue_is_away_and_what_fell_due_runs_when_it_is_back(
    installation: Installation, gate: Gate
) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    gate.open.set()
    installation.queue.away = True
    views = [server.scheduler.schedule(f"During {n}", action="gate") for n in range(5)]
    eventually(lambda: server.ready().startswith("ok, but Redis is unreachable"), "it is noticed")
    eventually(lambda: {state(server, view) for view in views} == {State.READY}, "they are due")
    installation.queue.away = False
    eventually(lambda: {state(server, view) for view in views} == {State.SUCCEEDED}, "they ran")
    eventually(lambda: server.ready() == "ok", "it is well again")
    assert len(gate.starts) == 5


def test_a_server_with_nothing_to_do_says_that_the_queue_is_away_and_that_it_is_back(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.dispatch.rebuild.IDLE_PROBE_DELAY_S", 0.05)
    server = installation.member(Role.SERVE)
    assert server.ready() == "ok"
    installation.queue.away = True
    eventually(lambda: server.ready().startswith("ok, but Redis is unreachable"), "it is noticed")
    installation.queue.away = False
    eventually(lambda: server.ready() == "ok", "it is well again")


def test_a_process_does_not_start_on_the_queue_of_another_database_and_leaves_it_when_it_is_taken(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.dispatch.rebuild.QUEUE_CLAIM_INTERVAL_S", 0.05)
    taken: list[str] = []

    def claim() -> None:
        if taken:
            raise QueueTaken("redis_namespace: in use by another database")

    installation.claim = claim
    server = installation.member(Role.SERVE)
    taken.append("by another")
    with pytest.raises(InvalidSetting, match="in use by another database"):
        installation.member(Role.WORK)
    eventually(lambda: "by another database: tasks are stored" in server.ready(), "who had started uses it no more")
    taken.clear()
    eventually(lambda: server.ready() == "ok", "it is well again")


def test_a_queue_that_loses_everything_loses_no_run_and_doubles_none(installation: Installation, gate: Gate) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    views = [server.scheduler.schedule(f"Task {n}", action="gate") for n in range(8)]
    eventually(lambda: len(gate.starts) == 4, "all threads are busy")
    installation.queue.lose_everything()
    gate.open.set()
    eventually(lambda: {state(server, view) for view in views} == {State.SUCCEEDED}, "all ran")
    assert len(gate.starts) == 8
    eventually(lambda: installation.queue.stats().leased == 0, "nothing is left behind")


def test_a_program_that_opens_the_scheduler_is_a_worker_unless_it_only_schedules(
    installation: Installation, gate: Gate
) -> None:
    gate.open.set()
    with Scheduler.open(installation.settings, handlers=[gate.handler("reader")], run=False) as reader:
        view = reader.schedule("Now", action="gate")
        with Scheduler.open(installation.settings, handlers=[gate.handler("program")]):
            eventually(lambda: reader.get(view.record.task.id).record.run.state is State.SUCCEEDED, "it ran")
    assert gate.starts == ["program"]


def test_a_worker_that_loses_its_threads_shows_them_and_asks_for_a_new_process(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, exhausted = threading.Event(), threading.Event()
    monkeypatch.setattr(watchdog, "TIME_LIMIT_GRACE_S", 0.01)
    monkeypatch.setattr(heartbeat, "WORKER_HEARTBEAT_INTERVAL_S", 0.01)

    @handler("block", time_limit=0.01)
    def block(_ctx: Context) -> Done:
        go.wait(60)
        return Done()

    app = installation.member(Role.WORK, handlers=[block], exhausted=exhausted.set)
    for name in ("one", "two"):
        app.scheduler.schedule(name, when="now", action="block")
    assert exhausted.wait(60)
    eventually(lambda: app.store.workers.all()[0].lost_threads == 2, "both lost threads in the worker's row")
    go.set()


def test_two_workers_share_what_is_due_and_no_run_starts_twice(installation: Installation, gate: Gate) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    for name in ("first", "second"):
        installation.member(Role.WORK, handlers=[gate.handler(name)])
    views = [server.scheduler.schedule(f"Task {n}", action="gate") for n in range(4)]
    eventually(lambda: len(gate.starts) == 4, "all four threads are busy")
    assert sorted(gate.starts) == ["first", "first", "second", "second"]
    gate.open.set()
    eventually(lambda: {state(server, view) for view in views} == {State.SUCCEEDED}, "all ran")


@pytest.mark.anyio
async def test_subscribers_of_one_server_hear_of_what_another_process_does(
    installation: Installation, gate: Gate
) -> None:
    server = installation.member(Role.SERVE, handlers=[gate.handler("server")])
    other = installation.member(Role.SERVE, handlers=[gate.handler("other")])
    installation.member(Role.WORK, handlers=[gate.handler("worker")])
    gate.open.set()
    changes = Subscriptions(lambda: server.store.history, interval=0.02)
    heard: list[ServerEvent] = []
    async with changes.serving():
        leave = changes.subscribe(heard.append)
        view = await anyio.to_thread.run_sync(lambda: other.scheduler.schedule("Elsewhere", action="gate"))
        wanted = {f"duetime://tasks/{view.record.task.id}", "duetime://inbox"}
        await anyio.to_thread.run_sync(lambda: eventually(lambda: wanted <= uris(heard), "it is told"))
        leave()


def uris(heard: list[ServerEvent]) -> set[str]:
    return {str(event.uri) for event in heard if isinstance(event, ResourceUpdated)}


def test_without_the_client_for_redis_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duetime.scheduler.queue.redis.queue", None)
    with pytest.raises(InvalidSetting, match=r"redis_url: .* pip install '\.\[redis\]'"):
        distributed.connected("redis://:hunter2@localhost", "duetime", "1/2/public")
