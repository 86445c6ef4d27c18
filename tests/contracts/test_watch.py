"""Watches, against a real server on this machine and an injected clock: looks, ends, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import HandlerError, InvalidArguments
from duetime.scheduler.handlers import (
    Context,
    Handler,
    Handlers,
    Link,
    WatchCheck,
    WebhookOptions,
    run_handler,
    watch,
    watch_check,
)
from duetime.scheduler.handlers.watch.expression import WATCH_EXAMPLE
from duetime.scheduler.outcomes import Done, Failed, Outcome, Wait
from duetime.scheduler.runtime.interrupt import TimeLimitReached

from tests.builders import NOON, Clock
from tests.flow.delivery.receiver import Answer, Server, serving

SHIPPED = "status == 'shipped'"
OPTIONS = WebhookOptions(allow_http=True, allow_private=True)


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


@dataclass
class Watched:
    """One watch, look by look, as a worker makes them: the clock goes on to the time that it waited for."""

    payload: Mapping[str, Any]
    handler: Handler = field(default_factory=lambda: watch(OPTIONS))
    clock: Clock = field(default_factory=Clock)
    state: Any = None
    progress: Any = None

    def look(self) -> Outcome:
        link = Link(now=self.clock, report=self._reported, secret=lambda name, _: f"value-of-{name}")
        ctx = Context.for_test(run_id="r_1", checkpoint_state=self.state, link=link, timezone="America/Denver")
        outcome = run_handler(self.handler, ctx, self.handler.check(self.payload))
        if isinstance(outcome, Wait):
            assert isinstance(outcome.until, timedelta)
            self.clock.at += outcome.until
            self.state = json.loads(json.dumps(outcome.checkpoint))
        return outcome

    def looks(self, most: int = 9_999) -> list[Outcome]:
        """Look until the watch has ended."""
        outcomes = [self.look()]
        while isinstance(outcomes[-1], Wait) and len(outcomes) < most:
            outcomes.append(self.look())
        return outcomes

    def _reported(self, value: Any) -> bool:
        self.progress = value
        return True


def answers(server: Server, *documents: object) -> None:
    server.answers = [Answer(body=json.dumps(each).encode()) for each in documents]


def refused(payload: Mapping[str, Any], handler: Handler | None = None) -> str:
    with pytest.raises(InvalidArguments) as problem:
        (handler or watch()).check(payload)
    return str(problem.value)


# --- the four outcomes ----------------------------------------------------------------------------------------------


def test_a_condition_that_holds_at_the_third_look_ends_it_with_the_value(server: Server) -> None:
    answers(server, {"status": "packed"}, {"status": "packed"}, {"status": "shipped"})
    watched = Watched({"url": server.url(), "condition": SHIPPED})
    *waits, end = watched.looks()
    assert [type(each) for each in waits] == [Wait, Wait]
    assert [each.reason for each in waits if isinstance(each, Wait)] == ["not met yet: packed"] * 2
    said = "127.0.0.1: status == 'shipped' holds (shipped)"
    assert end == Done(said, {"outcome": "met", "value": "shipped", "looks": 3})
    assert watched.clock() == NOON + timedelta(minutes=10)


def test_the_user_is_told_the_message_of_the_watch(server: Server) -> None:
    answers(server, {"price": 89.5})
    end = Watched({"url": server.url(), "condition": "price < `90`", "message": "The coat is on sale"}).look()
    assert isinstance(end, Done)
    assert end.summary == "The coat is on sale (89.5)"


def test_a_changed_value_ends_it_with_the_old_and_the_new_one(server: Server) -> None:
    answers(server, {"price": 41, "seen": 1}, {"price": 41, "seen": 2}, {"price": 42, "seen": 3})
    *_, end = Watched({"url": server.url(), "changed": "price"}).looks()
    assert end == Done("127.0.0.1 changed (41 -> 42)", {"outcome": "changed", "old": 41, "new": 42, "looks": 3})


def test_a_page_of_text_is_compared_as_a_whole_even_beyond_what_is_kept_of_it(server: Server) -> None:
    page = "x" * 5_000
    server.answers = [Answer(body=f"{page}{end}".encode()) for end in ("a", "a", "b")]
    *waits, end = Watched({"url": server.url(), "changed": True}).looks()
    assert len(waits) == 2
    assert isinstance(end, Done)
    assert isinstance(end.result, Mapping)
    assert len(str(end.result["old"])) == 500


def test_a_text_answer_is_the_document_of_the_condition(server: Server) -> None:
    server.answers = [Answer(body=b"sold out"), Answer(body=b"3 in stock")]
    *_, end = Watched({"url": server.url(), "condition": "contains(@, 'in stock')"}).looks()
    assert isinstance(end, Done)
    assert end.result == {"outcome": "met", "value": "3 in stock", "looks": 2}


def test_a_look_that_finds_nothing_says_so(server: Server) -> None:
    answers(server, {}, {"status": "shipped"})
    first, *_ = Watched({"url": server.url(), "condition": SHIPPED}).looks()
    assert isinstance(first, Wait)
    assert first.reason == "not met yet: nothing was found"


def test_it_looks_a_last_time_when_its_time_is_over_and_then_has_expired(server: Server) -> None:
    answers(server, *[{"status": "packed"}] * 4)
    watched = Watched({"url": server.url(), "condition": SHIPPED, "every": "4 min", "until": "10 min"})
    *waits, end = watched.looks()
    assert (len(waits), watched.clock()) == (3, NOON + timedelta(minutes=10))
    said = "not met yet: packed; expired after 10 min and 4 looks"
    assert end == Failed(said, {"outcome": "expired", "value": "packed", "looks": 4}, expired=True)


def test_an_expiry_may_be_an_instant(server: Server) -> None:
    watched = Watched({"url": server.url(), "condition": "@ == 'no'", "until": "2026-11-24T12:07+00:00"})
    watched.looks()
    assert watched.clock() == NOON + timedelta(minutes=7)


@pytest.mark.parametrize("status", [404, 410, 401])
def test_a_lasting_error_fails_it_at_the_third_look_in_a_row(server: Server, status: int) -> None:
    server.answers = [Answer(status) for _ in range(3)]
    *waits, end = Watched({"url": server.url(), "condition": SHIPPED}).looks()
    assert len(waits) == 2
    assert isinstance(end, Failed)
    assert end.reason.startswith(f"GET 127.0.0.1 answered {status}")
    assert end.result == {"outcome": "failed", "status": status, "looks": 3}


def test_transient_errors_are_looked_at_ten_times_at_growing_distances(server: Server) -> None:
    server.answers = [Answer(503) for _ in range(10)]
    watched = Watched({"url": server.url(), "condition": SHIPPED})
    pauses = [outcome.until for outcome in watched.looks() if isinstance(outcome, Wait)]
    assert len(pauses) == 9
    minutes = [pause / timedelta(minutes=1) for pause in pauses if isinstance(pause, timedelta)]
    assert all(5 <= each <= min(5 * 2**n, 60) for n, each in enumerate(minutes))
    assert max(minutes) > 30


def test_an_answer_ends_a_row_of_errors(server: Server) -> None:
    failing = [Answer(404), Answer(404), Answer(body=b'{"status": "packed"}')]
    server.answers = [*failing, *failing, Answer(body=b'{"status": "shipped"}')]
    *_, end = Watched({"url": server.url(), "condition": SHIPPED}).looks()
    assert isinstance(end, Done)


def test_a_server_that_names_a_time_is_left_alone_until_then(server: Server) -> None:
    server.answers = [Answer(429, {"Retry-After": "3600"})]
    wait = Watched({"url": server.url(), "condition": SHIPPED}).look()
    assert isinstance(wait, Wait)
    assert wait.until == timedelta(hours=1)


def test_an_answer_that_the_expression_does_not_fit_is_named(server: Server) -> None:
    wait = Watched({"url": server.url(), "condition": "contains(items, 'x')"})
    answers(server, {"other": 1}, {"other": 1}, {"other": 1})
    *_, end = wait.looks()
    assert isinstance(end, Failed)
    assert "`contains(items, 'x')`: In function contains(), invalid type" in end.reason


def test_too_large_an_answer_is_no_value(server: Server) -> None:
    server.answers = [Answer(body=b"x" * (1024 * 1024 + 1))]
    wait = Watched({"url": server.url(), "changed": True}).look()
    assert isinstance(wait, Wait)
    assert wait.reason == "the answer is larger than 1 MiB"


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "application/problem+JSON"])
def test_half_a_json_document_is_no_value_and_no_text(server: Server, media_type: str) -> None:
    half = Answer(headers={"Content-Type": media_type}, body=b'{"status": "ship')
    server.answers = [half, half, half]
    *_, end = Watched({"url": server.url(), "condition": SHIPPED}).looks()
    assert isinstance(end, Failed)
    assert end.reason == "the answer says that it is JSON, and is not; 3 looks in a row found no value"


def test_an_address_that_redirects_to_itself_fails_it_at_once(server: Server) -> None:
    server.answers = [Answer(302, {"Location": server.url()}) for _ in range(4)]
    end = Watched({"url": server.url(), "condition": SHIPPED}).look()
    assert isinstance(end, Failed)
    assert end.reason == "127.0.0.1 redirected more than 3 times; use the final address"


# --- what is sent and kept ------------------------------------------------------------------------------------------


def test_headers_carry_secrets_and_no_value_of_one_is_kept(server: Server) -> None:
    from duetime.scheduler.runtime.secret_mask import learn_secret, secrets_masked

    answers(server, {"token": "value-of-key"})
    payload = {"url": server.url(), "condition": "token == 'x'", "headers": {"X-Key": "secret:key"}}
    watched = Watched(payload)
    with secrets_masked():
        learn_secret("value-of-key")
        wait = watched.look()
    assert server.received[0].headers["x-key"] == "value-of-key"
    assert "value-of-key" not in repr(wait)


def test_a_search_is_posted_with_its_body(server: Server) -> None:
    answers(server, {"total": 3})
    Watched({"url": server.url(), "method": "POST", "body": {"q": "flat"}, "condition": "total > `0`"}).look()
    [received] = server.received
    assert (received.method, received.body) == ("POST", b'{"q":"flat"}')


def test_progress_says_how_often_it_has_looked_at_what(server: Server) -> None:
    watched = Watched({"url": server.url(), "condition": SHIPPED, "until": "50 min"})
    answers(server, *[{"status": "packed"}] * 6)
    watched.looks(most=6)
    assert watched.progress == {"fraction": None, "text": "6 looks at 127.0.0.1"}


def test_an_address_that_is_not_public_fails_it_at_once() -> None:
    handler = watch(resolve=lambda *_: ["10.0.0.1"])
    end = Watched({"url": "https://inside.example.com", "condition": SHIPPED}, handler).look()
    assert isinstance(end, Failed)
    assert "leads to an address that is not public" in end.reason


# --- what is refused when it is scheduled ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"condition": "price < 100"}, "'price < 100' cannot be parsed (invalid token: Parse error at column 8"),
        ({"condition": "a["}, "cannot be parsed"),
        ({"condition": ""}, "cannot be parsed"),
        ({"condition": 'status == "shipped"'}, "compares with a field named 'shipped'; a text stands in single quotes"),
        ({"condition": "status == shipped"}, "not true where nothing is there. Example: status == 'shipped'"),
        ({"condition": "status != 'open'"}, "not true where nothing is there. Example: status && status != 'open'"),
        ({"condition": "!done"}, "'!done' is already true for an empty answer (null)"),
        ({"condition": "`true`"}, "is already true for an empty answer"),
        ({"condition": "has(a)"}, "there is no function has(); there are abs, avg, ceil, contains"),
        ({"condition": "!" * 499 + "a"}, "it is nested too deeply"),
        ({"condition": "a" * 501}, "it has 501 characters, the limit is 500"),
        ({"changed": "a["}, "payload.changed: 'a[' cannot be parsed"),
        ({}, "payload.condition: it is required, or `changed`"),
        ({"changed": False}, "payload.condition: it is required, or `changed`"),
        ({"condition": "a", "changed": True}, "payload.condition: it cannot be combined with `changed`"),
        ({"condition": "a", "every": "0.5 s"}, "payload.every: '0.5 s' is out of range. Accepted: 1 second to 30 days"),
        ({"condition": "a", "every": "often"}, "payload.every: 'often' is not a duration"),
        ({"condition": "a", "until": "2 years"}, "payload.until: months and years have no fixed length"),
        ({"condition": "a", "until": "400 days"}, "payload.until: '400 days' is too long"),
        ({"condition": "a", "until": "2 min"}, "payload.until: '2 min' is shorter than `every`"),
        ({"condition": "a", "until": "2026-11-24T09:00"}, "has no offset"),
        ({"condition": "a", "url": "http://example.com"}, "payload.url: the scheme 'http' is not permitted"),
        ({"condition": "a", "url": "https://10.0.0.1/"}, "payload.url: the address is not public"),
        ({"condition": "a", "check": "stock"}, "payload.url: it cannot be combined with a check"),
        ({"condition": "a", "url": None}, "payload.url: it is required"),
        ({"condition": "a", "url": None, "check": "stock"}, "payload.check: there is no check 'stock'"),
        ({"condition": "a", "body": {}}, "payload.body: a GET request has no body"),
    ],
)
def test_a_payload_that_cannot_work_is_refused_with_its_place(payload: dict[str, Any], problem: str) -> None:
    said = refused({"url": "https://example.com/order/7", **payload})
    assert problem in said


def test_an_expression_that_cannot_be_parsed_is_answered_with_one_that_can() -> None:
    said = refused({"url": "https://example.com", "condition": "price < 100"})
    assert said.endswith("Example: price < `100`")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("status is shipped", "status == 'shipped'"),
        ("status = shipped", "status == 'shipped'"),
        ("$.order.status == 'shipped'", "order.status == 'shipped'"),
        ("when the price drops below 50 euros", "price < `50`"),
        ("price over 99.5", "price > `99.5`"),
        ("the temperature reaches at least -4", "temperature > `-4`"),
        ("shipped[", "shipped"),
        ("!!!", WATCH_EXAMPLE),
        ("has(a)", WATCH_EXAMPLE),
    ],
)
def test_a_condition_that_cannot_be_read_is_answered_with_one_made_of_it(said: str, meant: str) -> None:
    assert refused({"url": "https://example.com", "condition": said}).endswith(f"Example: {meant}")
    watch().check({"url": "https://example.com", "condition": meant})


def test_a_part_that_cannot_be_read_is_answered_with_its_name() -> None:
    assert refused({"url": "https://example.com", "changed": "the price of it"}).endswith("Example: price")


def test_a_flag_that_a_client_wrote_as_text_is_the_flag() -> None:
    stored = watch().check({"url": "https://example.com", "changed": "true"})
    assert (stored["changed"], stored["every"], stored["until"]) == (True, "5 min", "7 days")


# --- checks of plug-ins ---------------------------------------------------------------------------------------------


def test_a_check_reads_the_value_and_the_watch_decides() -> None:
    levels = [3, 2, 0]

    @watch_check("stock")
    def stock(ctx: Context, arguments: Mapping[str, Any]) -> int:
        return levels.pop(0) * int(arguments["boxes"])

    payload = {"check": "stock", "arguments": {"boxes": 10}, "condition": "@ < `5`"}
    *waits, end = Watched(payload, watch(checks=[stock])).looks()
    assert [each.reason for each in waits if isinstance(each, Wait)] == ["not met yet: 30", "not met yet: 20"]
    assert end == Done("stock: @ < `5` holds (0)", {"outcome": "met", "value": 0, "looks": 3})


def test_a_check_that_raises_is_a_look_without_a_value() -> None:
    @watch_check("stock")
    def stock(ctx: Context, arguments: Mapping[str, Any]) -> int:
        raise ConnectionError("no answer")

    handler = watch(checks=[stock])
    wait, *_, end = Watched({"check": "stock", "changed": True}, handler).looks()
    assert isinstance(wait, Wait)
    assert wait.reason == "check stock: ConnectionError: no answer"
    assert isinstance(end, Failed)
    assert end.reason.endswith("; 10 looks in a row found no value")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SystemExit("no share"), "SystemExit: no share"), (TimeLimitReached(), "it reached the time limit of a look")],
)
def test_a_check_that_exits_or_hangs_is_a_look_without_a_value_and_a_good_look_ends_their_row(
    error: BaseException, reason: str
) -> None:
    looks: list[bool] = []

    @watch_check("stock")
    def stock(_ctx: Context, arguments: dict[str, Any]) -> int:
        looks.append(True)
        if len(looks) % arguments["good"]:
            raise error
        return 1

    handler = watch(checks=[stock])
    watched = Watched({"check": "stock", "condition": "@ > `1`", "arguments": {"good": 10}}, handler)
    outcomes = [watched.look() for _ in range(30)]
    assert all(isinstance(outcome, Wait) for outcome in outcomes)
    assert isinstance(outcomes[0], Wait)
    assert outcomes[0].reason == f"check stock: {reason}"
    looks[:] = []
    end = Watched({"check": "stock", "changed": True, "arguments": {"good": 99}}, handler).looks()[-1]
    assert isinstance(end, Failed)
    assert end.reason == f"check stock: {reason}; 10 looks in a row found no value"


def test_a_check_that_returns_no_json_fails_the_watch() -> None:
    @watch_check("stock")
    def stock(ctx: Context, arguments: Mapping[str, Any]) -> Any:
        return {NOON}

    end = Watched({"check": "stock", "changed": True}, watch(checks=[stock])).look()
    assert isinstance(end, Failed)
    assert end.reason.startswith("check stock: ")


def test_a_check_of_the_wrong_form_is_refused_when_it_is_declared() -> None:
    async def later(ctx: Context, arguments: Mapping[str, Any]) -> int:
        return 1

    for wrong in (later, lambda _ctx: 1):
        with pytest.raises(HandlerError, match="plain def of"):
            watch_check("stock")(wrong)  # type: ignore[arg-type]  # that is what is refused
    one, other = (WatchCheck("stock", lambda _ctx, _arguments: 1) for _ in range(2))
    with pytest.raises(HandlerError, match="two watch checks are named 'stock'"):
        Handlers.load(entry_points=False, added=[one, other])
    assert "watch" in Handlers.load(entry_points=False, added=[one])


def test_a_look_after_an_unreadable_checkpoint_starts_over(server: Server) -> None:
    answers(server, {"price": 1})
    watched = Watched({"url": server.url(), "changed": "price"}, state={"looks": "many"})
    assert isinstance(watched.look(), Wait)
    assert datetime.fromisoformat(watched.state["began"]) == NOON
