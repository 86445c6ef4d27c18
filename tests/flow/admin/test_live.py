"""Live pages: a page is notified of changes of its tenant, and a failure of one look does not end that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.principal import Principal
from duetime.server.admin.live import LiveFeed, LiveMark
from starlette.requests import Request
from starlette.responses import StreamingResponse

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
CHANGED = "event: changed\ndata:\n\n"


class Log:
    """Events that come one a look, or failures; then the stored ones."""

    def __init__(self, *answers: Event | Exception) -> None:
        self.answers = list(answers)
        self.rows: list[Event] = []
        self.asked: list[int] = []

    def latest(self) -> int:
        return max((each.id for each in self.rows), default=10)

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.asked.append(event_id)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return [answer] if answer else [each for each in self.rows if each.id > event_id][:limit]


async def looked(log: Log) -> None:
    """Wait until a look has begun and ended."""
    begun = len(log.asked)
    async with asyncio.timeout(PATIENCE_S):
        while len(log.asked) < begun + 2:  # noqa: ASYNC110 - the looks are on a thread, which sets no event
            await asyncio.sleep(0)


def event(number: int, tenant: str) -> Event:
    at = datetime(2026, 11, 23, 15, tzinfo=UTC)
    return Event(number, tenant, "t_a", None, 1, at, EventKind.RESCHEDULED, "local")


async def opened(feed: LiveFeed, tenant: str = "acme", since: str = "") -> AsyncGenerator[str]:
    """Return the texts of the stream of a page that just opened, behind its first sign of life."""
    query = f"since={since}".encode()
    answer = await feed.serve(Request({"type": "http", "method": "GET", "tenant": tenant, "query_string": query}))
    assert isinstance(answer, StreamingResponse)
    unread: Any = answer.body_iterator
    texts: AsyncGenerator[str] = unread
    assert await anext(texts) == ": still here\n\n"
    return texts


def feed_of(log: Log) -> LiveFeed:
    visitors: Any = SimpleNamespace(find=lambda request: (None, Principal(request.scope["tenant"])))
    store: Any = SimpleNamespace(history=log)
    return LiveFeed(lambda: store, visitors, interval_s=0.0)


async def test_an_answer_to_head_has_the_headers_of_a_stream_and_opens_none() -> None:
    feed = feed_of(log := Log())
    answer = await feed.serve(Request({"type": "http", "method": "HEAD", "tenant": "acme", "query_string": b"since=3"}))
    assert isinstance(answer, StreamingResponse)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert await anext(aiter(answer.body_iterator), None) is None
    assert log.asked == []


@pytest.mark.parametrize("failure", [StoreUnavailable("locked"), RuntimeError("defect")], ids=["outage", "defect"])
async def test_a_page_is_notified_of_what_follows_a_failed_look(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(failure, event(11, "acme"))
    texts = await opened(feed_of(log))

    async with asyncio.timeout(PATIENCE_S):
        assert await anext(texts) == CHANGED

    assert log.asked[:2] == [10, 10]
    assert str(failure) in caplog.text


async def test_a_page_is_notified_of_its_own_tenant_alone() -> None:
    log = Log()
    feed = feed_of(log)
    texts = await opened(feed)
    others = await opened(feed, "globex")
    log.answers.append(event(11, "globex"))  # both are open: a look before that would tell the first alone

    async with asyncio.timeout(PATIENCE_S):
        assert await anext(others) == CHANGED

    assert "acme" not in {watcher.tenant for watcher in feed._watchers if watcher.changed.is_set()}
    await texts.aclose()


async def test_a_change_while_the_one_before_is_sent_is_another_one() -> None:
    log = Log()
    texts = await opened(feed_of(log))
    for number in (11, 12):
        log.answers.append(event(number, "acme"))
        async with asyncio.timeout(PATIENCE_S):
            assert await anext(texts) == CHANGED
    log.answers.append(event(13, "acme"))
    await looked(log)  # the text before is still on its way
    async with asyncio.timeout(PATIENCE_S):
        assert await anext(texts) == CHANGED


def shared_feed(log: Log) -> tuple[Any, Any, LiveFeed]:
    """Return what tenants share, the store that has it, and a feed; `house` is the operator."""
    shared = SimpleNamespace(pools=1, policy=0, shadow=None, workers=[])
    store = SimpleNamespace(
        history=log,
        pools=SimpleNamespace(revision=lambda: shared.pools),
        policies=SimpleNamespace(version=lambda: shared.policy, shadow=SimpleNamespace(get=lambda: shared.shadow)),
        workers=SimpleNamespace(all=lambda: shared.workers),
    )
    visitors: Any = SimpleNamespace(find=lambda request: (None, principal(request.scope["tenant"])))
    open_store: Any = store
    return shared, store, LiveFeed(lambda: open_store, visitors, interval_s=0.0)


def principal(tenant: str) -> Principal:
    return Principal(tenant, operator=tenant == "house")


@pytest.mark.parametrize(("tenant", "changed"), [("acme", True), ("house", True), ("globex", False)])
@pytest.mark.parametrize("others", [False, True], ids=["first page", "next page"])
async def test_an_event_between_the_answer_and_the_stream_of_a_page_is_not_missed(
    tenant: str, changed: bool, others: bool
) -> None:
    log = Log()
    _, store, feed = shared_feed(log)
    watched = await opened(feed, "initech") if others else None
    mark = LiveMark.of(store, principal(tenant))
    while others and not log.asked:  # noqa: ASYNC110 - the looks are on a thread, which sets no event
        await asyncio.sleep(0)
    log.rows.append(event(11, "acme"))
    texts = await opened(feed, tenant, str(mark))
    first = asyncio.ensure_future(anext(texts))
    if changed:
        async with asyncio.timeout(PATIENCE_S):
            assert await first == CHANGED
    else:
        await looked(log)
        assert not first.done()
        first.cancel()
    if watched:
        await watched.aclose()


async def test_a_change_of_a_pool_between_the_answer_and_the_stream_of_a_page_is_not_missed() -> None:
    log = Log()
    shared, store, feed = shared_feed(log)
    mark = LiveMark.of(store, principal("house"))
    shared.pools = 2
    texts = await opened(feed, "house", str(mark))
    async with asyncio.timeout(PATIENCE_S):
        assert await anext(texts) == CHANGED
    await texts.aclose()


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("10.ab", LiveMark(10, "ab")),
        ("10", LiveMark(10)),
        ("", None),
        ("-1.", None),
        ("9" * 40, None),
        ("\u0661\u0660.", None),
    ],
)
def test_a_mark_that_no_page_carries_is_left_out(text: str, mark: LiveMark | None) -> None:
    assert LiveMark.read(text) == mark


async def test_pages_of_an_operator_are_notified_of_what_tenants_share() -> None:
    log = Log()
    shared, _, feed = shared_feed(log)
    texts, others = await opened(feed, "house"), await opened(feed, "acme")
    worker = SimpleNamespace(id="w_1", drain=None)
    async with asyncio.timeout(PATIENCE_S):
        for name, value in (
            ("pools", 2),
            ("policy", 1),
            ("shadow", SimpleNamespace(at=datetime(2026, 11, 23, tzinfo=UTC))),
            ("workers", [worker]),
            ("workers", [SimpleNamespace(id="w_1", drain="finish")]),
        ):
            await looked(log)
            setattr(shared, name, value)
            assert await anext(texts) == CHANGED, name
    assert "acme" not in {watcher.tenant for watcher in feed._watchers if watcher.changed.is_set()}
    await texts.aclose()
    await others.aclose()
