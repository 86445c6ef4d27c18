"""Subscribers of either era, on every transport, are told when a task changes, whichever process changed it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from mcp.server.subscriptions import ResourcesListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceUpdatedNotification

from tests import forked
from tests.flow.protocol.serve_process import ServerLog

pytestmark = [
    pytest.mark.anyio,
    # The SDK's client warns about every call that the newest era does not have; clients of the era before make them.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

PROGRAM = Path(__file__).with_name("served_process.py")
TIMEOUT_S = 120
Connect = Callable[[], MCPServer[None] | StdioServerParameters | str]


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'duetime.db'}"


@pytest.fixture
def elsewhere(database: str) -> Iterator[Scheduler]:
    """Give a scheduler that shares the database and nothing else, like one of another process."""
    store = open_store(database, synchronous="OFF")
    yield Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    store.close()


@pytest.fixture(params=["in memory", "stdio", "http"])
def connect(request: pytest.FixtureRequest, database: str) -> Iterator[Connect]:
    """Give what a client connects to."""
    if request.param == "in memory":
        store = open_store(database, synchronous="OFF")
        changes = Subscriptions(lambda: store.history, interval=0.05)
        scheduler = Scheduler(
            store, Planner(Handlers.load(entry_points=False), "UTC"), notices=ChangeNotices(on_change=changes.touched)
        )
        yield lambda: make_server(lambda: scheduler, changes)
        store.close()
    elif request.param == "stdio":
        program, *arguments = forked.command(str(PROGRAM), "stdio", database)
        yield lambda: StdioServerParameters(command=program, args=arguments)
    else:
        with forked.popen(
            [sys.executable, str(PROGRAM), "http", database], stdout=DEVNULL, stderr=PIPE, text=True
        ) as process:
            log = ServerLog(process.stderr)
            yield lambda: log.address
            process.kill()
            log.rest()


class Heard:
    """The addresses that a client was told of."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._news = anyio.Event()

    def add(self, uri: str) -> None:
        self.uris.append(uri)
        self._news.set()
        self._news = anyio.Event()

    async def until(self, uri: str) -> None:
        with anyio.fail_after(TIMEOUT_S):
            while uri not in self.uris:
                await self._news.wait()


@asynccontextmanager
async def legacy(connect: Connect, *uris: str) -> AsyncIterator[tuple[Client, Heard]]:
    heard = Heard()

    async def handle(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.add(message.params.uri)

    async with Client(connect(), mode="legacy", message_handler=handle) as client:
        for uri in uris:
            await client.subscribe_resource(uri)
        yield client, heard


@asynccontextmanager
async def modern(connect: Connect, *uris: str) -> AsyncIterator[tuple[Client, Heard]]:
    heard = Heard()
    async with (
        Client(connect(), mode="2026-07-28") as client,
        client.listen(resource_subscriptions=uris) as events,
        anyio.create_task_group() as group,
    ):

        async def collect() -> None:
            async for event in events:
                heard.add(getattr(event, "uri", ""))

        group.start_soon(collect)
        yield client, heard
        group.cancel_scope.cancel()


@pytest.fixture(params=[legacy, modern], ids=["2025-11-25", "2026-07-28"])
def subscribed(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_a_change_in_this_process_is_told(elsewhere: Scheduler, connect: Connect, subscribed: Any) -> None:
    task_id = elsewhere.schedule("Call John", when="in 2 hours").record.task.id
    uri = f"duetime://tasks/{task_id}"

    async with subscribed(connect, uri) as (client, heard):
        moved = await client.call_tool("reschedule_task", {"task_id": task_id, "when": "in 3 hours"})
        assert not moved.is_error
        await heard.until(uri)


async def test_a_change_in_another_process_is_told(elsewhere: Scheduler, connect: Connect, subscribed: Any) -> None:
    task_id = elsewhere.schedule("Call John", when="in 2 hours").record.task.id
    other = elsewhere.schedule("Call Jane", when="in 2 hours").record.task.id

    async with subscribed(connect, f"duetime://tasks/{task_id}", "duetime://inbox") as (_, heard):
        elsewhere.cancel(other)
        elsewhere.cancel(task_id)
        await heard.until(f"duetime://tasks/{task_id}")
        await heard.until("duetime://inbox")

    assert f"duetime://tasks/{other}" not in heard.uris


async def test_an_approval_is_told_where_it_is_asked_and_where_it_is_answered(
    elsewhere: Scheduler, connect: Connect, subscribed: Any
) -> None:
    task_id = elsewhere.schedule("Pay 90 EUR", when="in 2 hours", approval=True).record.task.id
    async with subscribed(connect, f"duetime://tasks/{task_id}", "duetime://inbox") as (client, heard):
        elsewhere.approve(task_id)
        await heard.until(f"duetime://tasks/{task_id}")
        await heard.until("duetime://inbox")
        heard.uris.clear()
        elsewhere.schedule("Pay 20 EUR", when="in 2 hours", approval=True)
        await heard.until("duetime://inbox")
        inbox = await client.read_resource("duetime://inbox")
    assert "Pay 20 EUR" in inbox.contents[0].text


async def test_an_event_that_is_sent_is_told_to_who_looks_at_the_task_that_waited(
    elsewhere: Scheduler, connect: Connect, subscribed: Any
) -> None:
    waits: Any = {"event": "paid", "timeout": "2 days"}
    task_id = elsewhere.schedule("Ship", when="in 2 hours", wait_for=waits).record.task.id
    async with subscribed(connect, f"duetime://tasks/{task_id}") as (_, heard):
        elsewhere.signals.send("paid")
        await heard.until(f"duetime://tasks/{task_id}")


async def test_a_chain_is_told_of_when_one_of_its_steps_has_changed(
    elsewhere: Scheduler, connect: Connect, subscribed: Any
) -> None:
    steps: Any = [{"name": "fetch", "when": "in 1 hour"}, {"name": "report", "after": ["fetch"], "when": "in 1 hour"}]
    chain = elsewhere.schedule("Book", steps=steps).chain
    other = elsewhere.schedule("Other", steps=steps).chain
    assert chain
    assert other
    async with subscribed(connect, f"duetime://tasks/{chain.id}", f"duetime://tasks/{other.id}") as (client, heard):
        elsewhere.reschedule(chain.steps[0].task_id, when="in 3 hours")
        await heard.until(f"duetime://tasks/{chain.id}")
        read = await client.read_resource(f"duetime://tasks/{chain.id}")
    assert '"chain"' in read.contents[0].text
    assert f"duetime://tasks/{other.id}" not in heard.uris


async def test_a_new_and_an_ended_task_change_the_list_of_open_tasks(elsewhere: Scheduler, connect: Connect) -> None:
    async with Client(connect(), mode="2026-07-28") as client, client.listen(resources_list_changed=True) as events:
        news = events.__aiter__()
        task_id = elsewhere.schedule("Call John", when="in 2 hours").record.task.id
        with anyio.fail_after(TIMEOUT_S):
            assert isinstance(await news.__anext__(), ResourcesListChanged)
        elsewhere.cancel(task_id)
        with anyio.fail_after(TIMEOUT_S):
            assert isinstance(await news.__anext__(), ResourcesListChanged)


async def test_a_subscriber_that_left_is_forgotten_and_its_polling_stops(database: str) -> None:
    store = open_store(database, synchronous="OFF")
    changes = Subscriptions(lambda: store.history)
    server = make_server(lambda: Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), changes)
    for subscribe in (legacy, modern):
        async with subscribe(lambda: server, "duetime://inbox"):
            assert changes.wanted
        assert not changes.wanted
    async with legacy(lambda: server, "duetime://inbox") as (client, _):
        await client.unsubscribe_resource("duetime://inbox")
        assert not changes.wanted
    store.close()


@pytest.mark.parametrize("uri", ["duetime://tasks/" + "x" * 900_000, "duetime://tasks/t_<b>", "https://example.com"])
async def test_an_address_that_no_task_can_have_is_refused(database: str, subscribed: Any, uri: str) -> None:
    with served(database) as (changes, connect):
        async with subscribed(connect) as (client, _):
            with pytest.raises(MCPError, match="duetime://inbox or duetime://tasks/<task_id>") as refused:
                await subscribe_too(client, subscribed, uri)
        assert len(str(refused.value)) < 1024
        assert not changes._sessions


@pytest.mark.parametrize(
    ("bound", "message"), [("SESSION", "at most 3 addresses"), ("SERVER", "3 subscriptions already")]
)
async def test_subscriptions_have_a_bound(
    database: str, subscribed: Any, bound: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"duetime.server.protocol.subscription_limits.MAX_{bound}_ADDRESSES", 3)
    uris = [f"duetime://tasks/t_{number:012}" for number in range(4)]
    with served(database) as (_, connect):
        for _again in range(2):  # what left is counted no more
            async with subscribed(connect, *uris[:3]) as (client, _):
                with pytest.raises(MCPError, match=message):
                    await subscribe_too(client, subscribed, *uris)
        async with legacy(connect, *uris[:3]) as (client, _):
            await client.subscribe_resource(uris[0])  # once more is the same one
            await client.unsubscribe_resource(uris[0])
            await client.subscribe_resource(uris[3])


@contextmanager
def served(database: str) -> Iterator[tuple[Subscriptions, Connect]]:
    """Give a server of this process that all clients share, and its subscriptions."""
    store = open_store(database, synchronous="OFF")
    changes = Subscriptions(lambda: store.history)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    server = make_server(lambda: scheduler, changes)
    yield changes, lambda: server
    store.close()


async def subscribe_too(client: Client, subscribed: Any, *uris: str) -> None:
    if subscribed is legacy:
        for uri in uris:
            await client.subscribe_resource(uri)
    else:
        async with client.listen(resource_subscriptions=uris):
            pass


class Scripted:
    """A history that answers what the test says, and counts the looks."""

    def __init__(self, *answers: list[Event] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    def latest(self) -> int:
        return 10

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.asked.append(event_id)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer[:limit]

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(task_ids, "local")

    def chains(self, task_ids: Collection[str]) -> Mapping[str, str]:
        assert task_ids
        return {}


def event(number: int, task_id: str, kind: EventKind = EventKind.RESCHEDULED, tenant: str = "local") -> Event:
    return Event(number, tenant, task_id, None, 1, datetime.fromisoformat("2026-11-21T23:00Z"), kind, "local")


async def told(
    history: Scripted, *uris: str, expect: str, touch: Callable[[Subscriptions], None] | None = None
) -> list[str]:
    changes = Subscriptions(lambda: history, interval=0.01)
    heard = Heard()
    leave = changes.subscribe(lambda found: heard.add(getattr(found, "uri", "")))
    async with changes.serving():
        if touch is not None:
            touch(changes)
        await heard.until(expect)
    leave()
    return heard.uris


async def test_a_task_that_changed_often_is_told_once_a_look() -> None:
    history = Scripted([event(11, "t_a"), event(12, "t_b"), event(13, "t_a")], [event(14, "t_end")])

    assert await told(history, expect="duetime://tasks/t_end") == [
        "duetime://tasks/t_a",
        "duetime://tasks/t_b",
        "duetime://tasks/t_end",
    ]
    assert history.asked[:2] == [10, 13]


async def test_the_list_is_told_of_once_a_look_and_not_when_a_task_only_moves() -> None:
    made = [event(number, f"t_{number}", EventKind.CREATED) for number in (11, 12)]
    history = Scripted([event(10, "t_moved")], made, [event(13, "t_of_another", EventKind.CREATED, "acme")])
    changes = Subscriptions(lambda: history, interval=0.01)
    heard = Heard()
    leave = changes.subscribe(lambda found: heard.add(type(found).__name__))
    async with changes.serving():
        await heard.until("ResourcesListChanged")
        changes.tools_changed()
        await heard.until("ToolsListChanged")
    leave()
    kinds = ["ResourceUpdated", "ResourceUpdated", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged"]
    assert heard.uris == kinds, "the moved task and two new ones, their list once, and the tools"


class Session:
    """A session that takes notifications, never reads them, or is gone."""

    def __init__(self, heard: Heard, *, reads: bool = True, gone: bool = False) -> None:
        self.heard = heard
        self.reads = reads
        self.gone = gone

    async def send_resource_updated(self, uri: str) -> None:
        if self.gone:
            raise anyio.BrokenResourceError
        if not self.reads:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()  # the others are under way by now
        self.heard.add(uri)


async def test_a_session_that_does_not_read_or_is_gone_keeps_the_news_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duetime.server.protocol.subscriptions.NOTIFICATION_TIMEOUT_S", 0.01)
    scripted = Scripted([event(11, "t_a")], [event(12, "t_b")])
    changes, heard = Subscriptions(lambda: scripted, interval=0.01), Heard()
    sessions: Any = [Session(heard, reads=False), Session(heard, gone=True), Session(heard)]
    for uri in ("duetime://tasks/t_a", "duetime://tasks/t_b"):
        changes._sessions["local", uri] = dict(enumerate(sessions))
    changes._tail.begin(10)
    async with changes.serving():
        await heard.until("duetime://tasks/t_b")
    assert heard.uris == ["duetime://tasks/t_a", "duetime://tasks/t_b"]


async def test_a_database_that_fails_for_a_while_is_asked_again() -> None:
    history = Scripted(StoreUnavailable("locked"), RuntimeError("defect"), [event(11, "t_a")])

    assert await told(history, expect="duetime://tasks/t_a") == ["duetime://tasks/t_a"]
    assert history.asked[:3] == [10, 10, 10]


class FailsOnce(Scripted):
    """A history whose first answer to one question is a failure."""

    def __init__(self, question: str, failure: Exception, *answers: list[Event] | Exception) -> None:
        super().__init__(*answers)
        self.failures = {question: failure}

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]:
        self._fail("tenants")
        return super().tenants(task_ids)

    def chains(self, task_ids: Collection[str]) -> Mapping[str, str]:
        self._fail("chains")
        return super().chains(task_ids)

    def _fail(self, question: str) -> None:
        if question in self.failures:
            raise self.failures.pop(question)


@pytest.mark.parametrize("failure", [StoreUnavailable("locked"), RuntimeError("defect")], ids=["outage", "defect"])
async def test_a_change_whose_addresses_could_not_be_read_is_told_at_the_next_look(failure: Exception) -> None:
    once = [event(11, "t_a")]
    history = FailsOnce("chains", failure, once, once, [event(12, "t_end")])

    heard = await told(history, expect="duetime://tasks/t_end")

    assert heard == ["duetime://tasks/t_a", "duetime://tasks/t_end"]
    assert history.asked[:3] == [10, 10, 11]


async def test_a_read_outcome_whose_owner_could_not_be_read_is_told_at_the_next_look() -> None:
    history = FailsOnce("tenants", StoreUnavailable("locked"))

    heard = await told(history, expect="duetime://inbox", touch=lambda changes: changes.touched(["t_read"]))

    assert heard == ["duetime://tasks/t_read", "duetime://inbox"]


async def test_a_look_goes_on_behind_the_last_event_though_an_earlier_one_has_a_greater_id() -> None:
    """A long transaction of PostgreSQL has a small id for an event that others are read before."""
    history = Scripted([event(12, "t_quick"), event(11, "t_long")], [event(13, "t_end")])

    await told(history, expect="duetime://tasks/t_end")

    assert history.asked[:2] == [10, 11]


async def test_other_tenants_are_never_heard_of() -> None:
    history = Scripted([event(11, "t_theirs", tenant="other"), event(12, "t_ours")])

    assert await told(history, expect="duetime://tasks/t_ours") == ["duetime://tasks/t_ours"]


async def test_each_subscriber_receives_changes_of_its_own_tenant_whatever_it_names() -> None:
    ended = event(11, "t_a", EventKind.SUCCEEDED, tenant="acme")
    history = Scripted([ended, event(12, "t_b", tenant="globex")], [event(13, "t_end", tenant="globex")])
    callers = [Principal("acme"), Principal("globex")]
    changes = Subscriptions(lambda: history, caller=lambda: callers[0], interval=0.01)
    ours, theirs, session = Heard(), Heard(), Heard()
    leave_ours = changes.subscribe(lambda found: ours.add(getattr(found, "uri", "")))
    callers.reverse()
    leave_theirs = changes.subscribe(lambda found: theirs.add(getattr(found, "uri", "")))
    subscriber: Any = Session(session)
    for uri in ("duetime://tasks/t_a", "duetime://tasks/t_b", "duetime://inbox"):
        changes._sessions["globex", uri] = {1: subscriber}
    async with changes.serving():
        await theirs.until("duetime://tasks/t_end")
    leave_ours()
    leave_theirs()
    assert ours.uris == ["duetime://tasks/t_a", "duetime://inbox"]
    assert theirs.uris == ["duetime://tasks/t_b", "duetime://tasks/t_end"]
    assert session.uris == ["duetime://tasks/t_b"]


async def test_a_stream_is_told_nothing_after_its_token_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.protocol.subscriber_tokens.TOKEN_CHECK_INTERVAL_S", 0)
    history = Scripted([event(11, "t_a")], [event(12, "t_b")])
    tokens = [lambda: True, lambda: False]
    changes = Subscriptions(lambda: history, validity=lambda: tokens[0], interval=0.01)
    ours, ended = Heard(), Heard()
    leave_ours = changes.subscribe(lambda found: ours.add(getattr(found, "uri", "")))
    tokens.reverse()
    leave_ended = changes.subscribe(lambda found: ended.add(getattr(found, "uri", "")))
    async with changes.serving():
        await ours.until("duetime://tasks/t_b")
    leave_ours()
    leave_ended()
    assert ended.uris == []
    assert not changes.wanted


async def test_an_outcome_that_was_read_changes_the_inbox_without_an_event() -> None:
    heard = await told(Scripted(), expect="duetime://inbox", touch=lambda changes: changes.touched(["t_read"]))

    assert heard == ["duetime://tasks/t_read", "duetime://inbox"]


async def test_an_outcome_reaches_the_inbox() -> None:
    history = Scripted([event(11, "t_a", EventKind.SUCCEEDED)])

    assert await told(history, expect="duetime://inbox") == ["duetime://tasks/t_a", "duetime://inbox"]
