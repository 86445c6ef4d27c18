"""Contracts of outcomes: a result that is not what was expected leaves its run unverified, and every reader is told."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Context, Handlers, WebhookOptions, handler
from duetime.scheduler.handlers.contract.expectation import Expectations, check_expect
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, Json, State
from duetime.scheduler.views import TaskView
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.widgets.payload import list_payload, task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import TENANT, Clock
from tests.flow.delivery.receiver import Answer, Server, serving
from tests.flow.waiting import eventually

ALICE = Principal(TENANT, "alice")
LOCAL = WebhookOptions(allow_http=True, allow_private=True)
ORDER: dict[str, Json] = {"order_id": "o_7", "lines": 3}


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


class Team:
    """A channel that reaches nobody."""

    name = "team"

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Orders:
    """A scheduler and a worker whose handler returns one outcome."""

    def __init__(self, store: Store, clock: Clock, outcome: Outcome) -> None:
        @handler("order")
        def order(_ctx: Context) -> Outcome:
            return outcome

        handlers = Handlers([order], webhooks=LOCAL)
        self.store, self.clock = store, clock
        self.scheduler = Scheduler(store, Planner(handlers, "UTC", Channels([Team()])))
        self.queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        self.worker = Worker(store, self.queue, handlers, WorkerOptions("w", threads=1))

    def run(self, **arguments: Any) -> TaskView:
        """Schedule an order, run it, and return what became of it."""
        task = self.scheduler.schedule("Order", action="order", by=ALICE, **arguments).record
        self.worker.start()
        self.store.claims.make_ready(limit=1)
        self.queue.put([Entry(task.run.id, self.clock().timestamp() * 1000)])
        eventually(lambda: self.view(task.task.id).record.run.ended_at, "the run to end")
        self.worker.stop(timedelta(0))
        return self.view(task.task.id)

    def view(self, task_id: str) -> TaskView:
        return self.scheduler.get(task_id, by=ALICE)


def test_a_result_without_the_expected_field_is_an_unverified_success_and_says_so(store: Store, clock: Clock) -> None:
    view = Orders(store, clock, Done("ordered", {"lines": 3})).run(expect={"field": "order_id"})
    run = view.record.run
    assert (run.state, run.summary, run.unverified) == (State.SUCCEEDED, "ordered", "the result has no `order_id`")
    payload = task_payload(view)
    assert payload.last_run is not None
    assert payload.last_run.unverified == "the result has no `order_id`"
    assert "Unverified: «the result has no `order_id`»." in task_text(payload)
    [message] = store.inbox.unread(TENANT, "alice")
    assert message.text == "ordered (unverified: the result has no `order_id`)"


def test_a_list_marks_what_is_unverified(store: Store, clock: Clock) -> None:
    orders = Orders(store, clock, Done("ordered", {}))
    orders.run(expect={"field": "order_id"})
    page = orders.scheduler.tasks.list(by=ALICE)
    [row] = list_payload(page).tasks
    assert row.last_run is not None
    assert row.last_run.unverified == "the result has no `order_id`"
    assert "(unverified: «the result has no `order_id`»)" in list_text(page)


def test_a_result_that_is_as_expected_is_an_ordinary_success(store: Store, clock: Clock) -> None:
    view = Orders(store, clock, Done("ordered", ORDER)).run(expect={"field": "order_id"})
    assert (view.record.run.state, view.record.run.unverified) == (State.SUCCEEDED, None)
    assert "nverified" not in task_text(task_payload(view))


@pytest.mark.parametrize(
    ("outcome", "expect", "delivered"),
    [
        (Done("ordered", {}), {"field": "order_id"}, ["team"]),
        (Done("ordered", {}, quiet=True), {"field": "order_id"}, ["team"]),
        (Failed("sold out"), {}, ["team"]),
        (Done("ordered", ORDER), {"field": "order_id"}, []),
    ],
)
@pytest.mark.parametrize("notify", ["never", "failure", "always"])
def test_a_channel_receives_failures_and_unverified_results(
    store: Store, clock: Clock, *, outcome: Outcome, expect: Mapping[str, Any], delivered: list[str], notify: str
) -> None:
    Orders(store, clock, outcome).run(expect=expect, on_failure={"notify": "team"}, notify=notify)
    assert [each.channel for each, *_ in store.deliveries.due(limit=9)] == delivered
    told = {"never": 0, "failure": len(delivered), "always": 1}[notify]
    assert len(store.inbox.unread(TENANT, "alice")) == told


SCHEMA = {"type": "object", "required": ["order_id"], "properties": {"lines": {"minimum": 1}}}


@pytest.mark.parametrize(
    ("expect", "result", "miss"),
    [
        ({"field": "order_id"}, ORDER, ""),
        ({"field": "lines > `2`"}, ORDER, ""),
        ({"field": "lines > `3`"}, ORDER, "the result has no lines > `3`"),
        ({"field": "length(lines)"}, ORDER, "`length(lines)`: In function length(), invalid type"),
        ({"field": "order_id"}, None, "the result has no `order_id`"),
        ({"schema": SCHEMA}, ORDER, ""),
        ({"schema": SCHEMA}, {"lines": 1}, "result: 'order_id' is a required property"),
        ({"schema": SCHEMA}, {"order_id": 1, "lines": 0}, "result.lines: 0 is less than the minimum of 1"),
        ({"field": "lines", "schema": SCHEMA}, {"order_id": 1}, "the result has no `lines`"),
    ],
)
def test_fields_and_schemas_are_compared_with_the_result(expect: dict[str, Any], result: Json, miss: str) -> None:
    for name, value in expect.items():
        check_expect(name, value, LOCAL)
    found = Expectations(LOCAL).unmet(expect, result)
    assert found.startswith(miss)
    assert bool(found) == bool(miss)


def test_an_expectation_that_fails_in_an_unforeseen_way_is_unmet() -> None:
    found = Expectations(LOCAL).unmet({"schema": {"type": "no type"}}, ORDER)
    assert found == "it cannot be checked (UnknownType)"


def test_an_expected_address_has_to_answer(server: Server) -> None:
    expect = {"url": server.url()}
    assert Expectations(LOCAL).unmet(expect, None) == ""
    server.answers = [Answer(404)]
    assert Expectations(LOCAL).unmet(expect, None) == "GET 127.0.0.1 answered 404"
    closed = Expectations(LOCAL, resolve=lambda *_: [])
    assert "127.0.0.1 has no address" in closed.unmet(expect, None)
    assert "not public" in Expectations(WebhookOptions(allow_http=True)).unmet(expect, None)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"expect": {"fields": "a"}}, "expect: it has no member 'fields'; did you mean field. Accepted: an object of"),
        ({"expect": {"field": "a <"}}, "expect.field: 'a <' cannot be parsed"),
        ({"expect": {"field": 3}}, "expect.field: a number is not text"),
        ({"expect": {"schema": {"type": "list"}}}, "expect.schema: $.type: 'list' is not valid"),
        (
            {"expect": {"schema": {"$ref": "https://example.com/s"}}},
            "expect.schema: it has '$ref', which is not supported",
        ),
        ({"expect": {"schema": {"items": [{"pattern": "(a+)+"}]}}}, "expect.schema: it has 'pattern'"),
        ({"expect": {"schema": {"const": "x" * 9_000}}}, "expect.schema: it is too large"),
        ({"expect": {"url": "ftp://example.com"}}, "expect.url: the scheme 'ftp' is not permitted"),
        ({"on_failure": {"call": "x"}}, "on_failure: it has no member 'call'"),
        ({"on_failure": {"notify": "nobody"}}, "on_failure.notify: "),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused_when_it_is_made(
    store: Store, arguments: dict[str, Any], problem: str
) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", Channels([Team()])))
    hook = {"url": "https://example.com/hook"}
    with pytest.raises(InvalidArgument) as refused:
        scheduler.schedule("Order", when="now", action="webhook", payload=hook, **arguments)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    ("channels", "name", "accepted"),
    [
        (Channels([Team()]), "sales", "team"),
        (Channels([Team()]), "inbox", "team"),
        (Channels(), "team", "no channel, since only the inbox is configured, which has every outcome"),
        (Channels(), "inbox", "no channel, since only the inbox is configured, which has every outcome"),
    ],
)
def test_a_channel_that_cannot_be_told_of_a_failure_is_refused_with_those_that_can(
    store: Store, channels: Channels, name: str, accepted: str
) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels))
    with pytest.raises(InvalidArgument) as refused:
        scheduler.schedule("Call", when="in 2 hours", on_failure={"notify": name})
    assert refused.value.accepted == accepted
    argument, _, example = refused.value.example.partition("=")
    assert scheduler.schedule("Call", when="in 2 hours", **{argument: ast.literal_eval(example)}).created
