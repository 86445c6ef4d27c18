"""Secrets, checks, addresses and channels that a task names are there before each run, or the run is blocked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.delivery import Channels
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Handlers, WatchCheck, WebhookOptions, reminder, watch, watch_check, webhook
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import InboxMessage, Notify, Run, State
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests import blank
from tests.builders import TENANT, Clock, added
from tests.canary import CANARY, KEY
from tests.flow.delivery.receiver import Answer, Server, serving
from tests.flow.waiting import eventually

ALICE = Principal(TENANT, "alice")
OPEN: dict[str, Any] = {"allow_http": True, "allow_private": True}
STORED_BY = "an administrator stores it with `duetime secrets set crm`"
BLOCKED, GOES_ON = State.SUSPENDED, State.SUCCEEDED


class Team:
    """A channel that people read."""

    name = "team"

    def send(self, message: InboxMessage, *, key: str) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.answers.append(Answer(200, body=b"done"))
    yield from serving(server)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF", secret_keys=[read_key(KEY)])
    opened.secrets.set(TENANT, "crm", CANARY, by="ann")
    yield opened
    opened.close()


@watch_check("stock")
def stock(_ctx: object, _arguments: object) -> int:
    """Return what there is."""
    return 0


class House:
    """A worker with settings that change between two starts of it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)

    def attempt(
        self, task_id: str, *, policy: dict[str, Any] = OPEN, checks: tuple[WatchCheck, ...] = (), team: bool = True
    ) -> Run:
        """Attempt the task once when it is due, in a process with these settings."""
        handlers = house_handlers(policy, checks)
        channels = Channels([Team()] if team else [])
        options = WorkerOptions("w", threads=1, reached=channels.reached)
        worker = Worker(self.store, self.queue, handlers, options)
        worker.start()
        before = self.run(task_id)
        self.clock.at = max(self.clock.at, before.wake_at or self.clock.at)

        def attempted() -> bool:
            Dispatcher(self.store, self.queue).step()
            run = self.run(task_id)
            return run.attempt > before.attempt and run.state not in {State.READY, State.RUNNING}

        eventually(attempted, "an attempt")
        eventually(self._told, "the reminders")
        worker.stop(timedelta(0))
        return self.run(task_id)

    def run(self, task_id: str) -> Run:
        return self.store.tasks.get(TENANT, task_id).run

    def told(self) -> list[str]:
        """Return what the user was told of blocked runs."""
        texts = [message.text for message in self.store.inbox.unread(TENANT, "alice", limit=99)]
        return [text for text in texts if "continues when this is fixed" in text]

    def _told(self) -> bool:
        Dispatcher(self.store, self.queue).step()
        found = self.store.tasks.page(TENANT, TaskFilter(action="reminder"), limit=99)[0]
        return all(each.run.state in {State.SUCCEEDED, BLOCKED} for each in found)


def house_handlers(policy: dict[str, Any], checks: tuple[WatchCheck, ...]) -> Handlers:
    options = WebhookOptions(**policy)
    return Handlers([reminder, webhook(options), watch(options, checks)], webhooks=options)


@pytest.fixture
def house(store: Store, clock: Clock) -> House:
    return House(store, clock)


def a_request(store: Store, server: Server, action: str, **more: Any) -> str:
    headers = {"Authorization": "Bearer secret:crm"}
    own: dict[str, dict[str, Any]] = {"webhook": {"body": {}}, "watch": {"condition": "@ == 'done'"}}
    checked = house_handlers(OPEN, (stock,))[action].check(
        {"url": server.url(), "headers": headers, **own[action], **more}
    )
    return added(store, action=action, payload=checked).task.id


@pytest.mark.parametrize("action", ["webhook", "watch"])
def test_a_deleted_secret_blocks_the_run_which_notifies_once_and_continues_when_it_is_back(
    house: House, store: Store, server: Server, action: str
) -> None:
    task_id = a_request(store, server, action)
    store.secrets.remove(TENANT, "crm")
    for _ in range(2):
        run = house.attempt(task_id)
        assert (run.state, run.failures) == (BLOCKED, 0)
        assert (
            run.summary
            == "blocked: secret 'crm': this tenant has none; an administrator stores it with `duetime secrets set crm`"
        )
    assert len(house.told()) == 1
    assert server.received == []
    store.secrets.set(TENANT, "crm", CANARY, by="ann")
    assert house.attempt(task_id).state is GOES_ON
    assert len(server.received) == 1


@pytest.mark.parametrize("action", ["webhook", "watch"])
def test_an_address_that_the_settings_refuse_by_now_blocks_the_run(
    house: House, store: Store, server: Server, action: str
) -> None:
    task_id = a_request(store, server, action)
    run = house.attempt(task_id, policy={})
    assert (run.state, run.failures) == (BLOCKED, 0)
    assert run.summary == f"blocked: requests to {server.url()} are refused now: the scheme 'http' is not permitted"
    assert len(house.told()) == 1
    assert house.attempt(task_id).state is GOES_ON


def test_a_signature_without_its_secret_blocks_the_run(house: House, store: Store, server: Server) -> None:
    def reveal(_text: str) -> str:
        return store.secrets.value(TENANT, "signing")

    task_id = a_request(store, server, "webhook")
    signed = {**OPEN, "secret": "secret:signing", "reveal": reveal}
    run = house.attempt(task_id, policy=signed)
    assert run.state is BLOCKED
    assert "secret 'signing'" in (run.summary or "")
    store.secrets.set(TENANT, "signing", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", by="ann")
    assert house.attempt(task_id, policy=signed).state is GOES_ON


def test_a_watch_whose_check_is_not_installed_is_blocked(house: House, store: Store) -> None:
    payload = house_handlers({}, (stock,))["watch"].check({"check": "stock", "condition": "@ == `0`"})
    task_id = added(store, action="watch", payload=payload).task.id
    run = house.attempt(task_id)
    assert (run.state, run.summary) == (BLOCKED, "blocked: no check 'stock' is installed; there are none")
    assert house.attempt(task_id, checks=(stock,)).state is GOES_ON


def test_a_blocked_watch_ends_at_its_expiry(house: House, store: Store, server: Server, clock: Clock) -> None:
    task_id = a_request(store, server, "watch", until=(clock() + timedelta(hours=1)).isoformat())
    store.secrets.remove(TENANT, "crm")
    assert house.attempt(task_id).state is BLOCKED
    clock.forward(hours=2)
    assert house.attempt(task_id).result == {"outcome": "expired", "value": None, "looks": 1}


@pytest.mark.parametrize("notify", [Notify.ALWAYS, Notify.FAILURE])
def test_a_channel_that_is_gone_blocks_any_run_and_the_user_is_told_in_the_inbox(
    house: House, store: Store, notify: Notify
) -> None:
    task_id = added(store, payload={}, deliver_to=("team", "desktop"), notify=notify).task.id
    run = house.attempt(task_id, team=False)
    assert (run.state, run.failures) == (BLOCKED, 0)
    assert run.summary == "blocked: channel 'team' is no longer configured"
    assert len(house.told()) == 1
    alerts = store.tasks.page(TENANT, TaskFilter(query="Blocked:"), limit=9)[0]
    assert [each.task.deliver_to for each in alerts] == [("desktop",)]
    assert house.attempt(task_id).state is GOES_ON


@pytest.mark.parametrize(
    ("deliver_to", "notify"), [(("desktop", "origin:claude"), Notify.ALWAYS), (("team",), Notify.NEVER)]
)
def test_a_desktop_and_a_conversation_come_and_go_and_who_wants_no_word_needs_no_channel(
    house: House, store: Store, deliver_to: tuple[str, ...], notify: Notify
) -> None:
    task_id = added(store, payload={}, deliver_to=deliver_to, notify=notify).task.id
    assert house.attempt(task_id, team=False).state is GOES_ON


def test_nothing_of_this_is_asked_of_anybody_when_a_task_is_scheduled(store: Store, server: Server) -> None:
    looked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        looked.append(host)
        return []

    options = WebhookOptions(**OPEN)
    handlers = Handlers([reminder, webhook(options, resolve=resolve), watch(options, resolve=resolve)])
    scheduler = Scheduler(store, Planner(handlers, "UTC", secrets=store.secrets.hosts))
    view = scheduler.schedule(
        "Ping",
        action="webhook",
        when="in 1 hour",
        payload={"url": server.url(), "headers": {"X": "secret:crm"}},
        by=ALICE,
    )
    assert (view.warnings, looked, server.received) == ((), [], [])
