"""Webhooks that name secrets: the receiver gets the value, and nothing that is kept or shown has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from duetime import testing
from duetime.scheduler.access.secret import SecretUnavailable, read_key, resolved
from duetime.scheduler.delivery import ChannelError, WebhookTarget
from duetime.scheduler.delivery.apprise import AppriseChannel
from duetime.scheduler.delivery.webhook import WebhookChannel
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Context, Handlers, Link, WebhookOptions, run_handler, webhook
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.access.cipher import Cipher
from duetime.scheduler.store.access.secrets import Secrets
from duetime.scheduler.task import InboxMessage, State
from duetime.scheduler.translatable import NoteKind, Translatable
from standardwebhooks import Webhook

from tests.canary import CANARY, KEY, shown_in
from tests.flow.delivery.receiver import Answer, Server, serving

SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VALUES = {"crm": CANARY, "signing": SIGNING, "umlaut": "Müller und Söhne", "lines": "one line\r\nX-Other: two"}
HEADERS = {"Authorization": "Bearer secret:crm", "X-Plain": "secrets: none", "X-Two": "secret:crm secret:crm"}
ANN, BOB = Principal("acme", "ann"), Principal("globex", "bob")
MESSAGE = InboxMessage(
    "m_1", "acme", "ann", "t_1", "r_1", "Call John", "Done.", State.SUCCEEDED, datetime(2026, 11, 24, tzinfo=UTC)
)


def value(name: str, _host: str | None = None) -> str:
    if name not in VALUES:
        raise SecretUnavailable(name, "there is none")
    return VALUES[name]


def reveal(text: str) -> str:
    return resolved(text, value)


CTX = Context.for_test(run_id="r_1", link=Link(secret=value))


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


def options(**given: Any) -> WebhookOptions:
    return WebhookOptions(allow_http=True, allow_private=True, **given)


def call(server: Server, ctx: Context = CTX, **payload: Any) -> Outcome:
    chosen = webhook(options(secret=payload.pop("signed_by", None), reveal=reveal, timeout=2.0))
    return run_handler(chosen, ctx, chosen.check({"url": server.url(), **payload}))


def test_a_header_is_sent_with_the_value_of_the_secret_that_it_names(server: Server) -> None:
    call(server, headers=HEADERS)
    (received,) = server.received
    assert received.headers["authorization"] == f"Bearer {CANARY}"
    assert received.headers["x-two"] == f"{CANARY} {CANARY}"
    assert received.headers["x-plain"] == "secrets: none"


def test_the_host_of_the_request_is_asked_for(server: Server) -> None:
    asked = list[tuple[str, str | None]]()

    def noted(name: str, host: str | None) -> str:
        asked.append((name, host))
        return CANARY

    call(server, Context.for_test(link=Link(secret=noted)), headers={"X-Key": "secret:crm"})
    assert asked == [("crm", "127.0.0.1")]


def drip(file: Any) -> None:
    file.write(b"x")


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_receiver_that_echoes_the_headers_shows_no_value(server: Server, status: int) -> None:
    server.answers = [Answer(status, body=json.dumps({"headers": {"Authorization": f"Bearer {CANARY}"}}).encode())]
    outcome = call(server, headers=HEADERS)
    assert isinstance(outcome, {200: Done, 400: Failed, 500: Retry}[status])
    assert shown_in(repr(outcome)) == []
    assert isinstance(outcome, Done | Failed | Retry)
    assert outcome.result == {"status": status, "body": '{"headers": {"Authorization": "Bearer ***"}}'}


def test_an_echo_where_the_excerpt_is_cut_shows_no_part_of_a_value(server: Server) -> None:
    server.answers = [Answer(500, body=b"x" * 1990 + CANARY.encode())]
    assert CANARY[:6] not in repr(call(server, headers=HEADERS))


def test_without_an_answer_the_reason_shows_no_value(server: Server) -> None:
    server.shutdown()
    server.server_close()
    outcome = call(server, headers=HEADERS)
    assert isinstance(outcome, Retry)
    assert shown_in(repr(outcome)) == []


@pytest.mark.parametrize("name", ["umlaut", "lines"])
def test_a_value_that_no_header_can_have_fails_the_run_without_showing_it(server: Server, name: str) -> None:
    outcome = call(server, headers={"X-Key": f"secret:{name}"})
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith(f"secret {name!r}: it cannot be sent in a header")
    assert server.received == []
    assert VALUES[name][:9] not in outcome.reason


def test_a_secret_that_is_gone_fails_the_run_and_nothing_is_sent(server: Server) -> None:
    assert call(server, headers={"X-Key": "secret:gone"}) == Failed("secret 'gone': there is none")
    assert server.received == []


def test_the_signing_secret_may_be_named(server: Server) -> None:
    call(server, body=[1], signed_by="secret:signing")
    (received,) = server.received
    assert Webhook(SIGNING).verify(received.body, received.headers) == [1]
    assert call(server, body=[1], signed_by="secret:crm") == Failed(
        "secret 'crm': it cannot sign, as it is not `whsec_` and 24 bytes in base64"
    )


@pytest.mark.parametrize("text", ["secret:", "secret:a/b", "Bearer secret:ü"])
def test_a_reference_that_names_nothing_is_refused_when_it_is_scheduled(text: str) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments), match=r"payload\.headers\.X-Key"):
        webhook(options()).check({"url": "https://example.com", "headers": {"X-Key": text}})


# --- when it is scheduled -------------------------------------------------------------------------------------------

Schedule = Callable[..., Any]


@pytest.fixture
def schedule(store: Store) -> Schedule:
    secrets = Secrets(store._database, store.now, Cipher([read_key(KEY)]))
    for tenant, name, hosts in (
        ("acme", "crm", ()), ("acme", "mail", ("api.example.com",)), ("globex", "theirs", ()),
    ):  # fmt: skip
        secrets.set(tenant, name, CANARY, by="ann", hosts=hosts)
    planner = Planner(Handlers.load(entry_points=False), "UTC", secrets=store.secrets.hosts)
    service = Scheduler(store, planner)

    def scheduled(secret: str, url: str = "https://example.com/hook", by: Principal = ANN, **more: Any) -> Any:
        payload: dict[str, Any] = {"url": url, "headers": {"Authorization": f"Bearer secret:{secret}"}}
        return service.schedule("Send orders", when="in 2 hours", action="webhook", payload=payload, by=by, **more)

    scheduled.service = service  # type: ignore[attr-defined]  # for the one test that changes a task
    return scheduled


def test_a_task_keeps_the_name_and_not_the_value(schedule: Schedule, store: Store) -> None:
    task = schedule("crm").record.task
    assert task.payload["headers"] == {"Authorization": "Bearer secret:crm"}
    assert shown_in(repr(store.tasks.get("acme", task.id))) == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_unknown_name_is_refused_with_those_of_the_tenant(schedule: Schedule, dry_run: bool) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments)) as refused:
        schedule("theirs", dry_run=dry_run)
    assert "payload.headers.Authorization: this tenant has no secret 'theirs'. Accepted: crm, mail." in str(
        refused.value
    )
    with pytest.raises((InvalidArgument, InvalidArguments), match="Accepted: theirs"):
        schedule("crm", by=BOB)


def test_a_secret_for_other_hosts_is_refused(schedule: Schedule) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments), match=r"'mail' may not be sent to example\.com"):
        schedule("mail")
    schedule("mail", url="https://API.example.com/hook")


def test_a_change_of_the_payload_is_checked_as_well(schedule: Schedule) -> None:
    task = schedule("crm").record.task
    headers = {"headers": {"X-Key": "secret:theirs"}, "url": "https://example.com"}
    with pytest.raises((InvalidArgument, InvalidArguments), match="no secret 'theirs'"):
        schedule.service.reschedule(task.id, payload=headers, by=ANN)  # type: ignore[attr-defined]  # see above


# --- channels -------------------------------------------------------------------------------------------------------


def channel(server: Server, **target: Any) -> WebhookChannel:
    return WebhookChannel("team", WebhookTarget(server.url(), **target), reveal=reveal, timeout=2.0)


def test_a_channel_sends_the_headers_and_signs_by_the_secret_of_its_settings(server: Server) -> None:
    channel(server, secret="secret:signing", headers={"Authorization": "Bearer secret:crm"}).send(MESSAGE, key="r_1")
    (received,) = server.received
    assert received.headers["authorization"] == f"Bearer {CANARY}"
    assert Webhook(SIGNING).verify(received.body, received.headers)["type"] == "task.succeeded"


def test_a_delivery_fails_for_good_without_its_secret_and_names_it(server: Server) -> None:
    with pytest.raises(ChannelError, match=r"^secret 'gone': there is none$") as failed:
        channel(server, headers={"X-Key": "secret:gone"}).send(MESSAGE, key="r_1")
    assert failed.value.permanent
    with pytest.raises(ChannelError, match=r"^secret 'gone': there is none$"):
        AppriseChannel("team", "secret:gone", reveal).send(MESSAGE, key="r_1")
    with pytest.raises(ChannelError, match="not shown, it is a secret") as unknown:
        AppriseChannel("team", "secret:crm", reveal).send(MESSAGE, key="r_1")
    assert shown_in(str(unknown.value)) == []


def test_a_task_for_a_channel_whose_secret_is_gone_is_stored_with_a_warning() -> None:
    said = "every message to webhook:team fails, as a secret that it needs is not set: `duetime doctor` says which"
    team = {"webhook": "https://example.com", "secret": SIGNING, "headers": {"X-Key": "secret:team-token"}}
    given: dict[str, Any] = {"when": "in 2 hours", "deliver_to": ["team"]}
    with testing.open_scheduler(channels={"team": team}, secret_keys=KEY) as scheduler:
        steps: Any = [{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]
        for more in ({}, {"dry_run": True}, {"steps": steps}):
            warnings = scheduler.schedule("Report", **given, **more).warnings
            assert list(warnings).count(said) == 1
            [kind] = [each for each in warnings if isinstance(each, Translatable) and each == said]
            assert (kind.kind, kind.values) == (NoteKind.UNDELIVERABLE, {"channel": "webhook:team"})
        assert said not in scheduler.schedule("Report", when="in 3 hours").warnings
        task_id = scheduler.schedule("Other", when="in 2 hours", on_failure={"notify": "team"}).record.task.id
        assert said in scheduler.reschedule(task_id, deliver_to=["team"]).warnings
        assert said not in scheduler.reschedule(task_id, title="Third").warnings
        scheduler.service._store.secrets.set("local", "team-token", CANARY, by="ann")
        assert said not in scheduler.schedule("Report again", **given).warnings


def test_a_delivery_without_an_answer_shows_no_value(server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(ChannelError) as failed:
        channel(server, headers={"X-Key": "secret:crm"}).send(MESSAGE, key="r_1")
    assert shown_in(str(failed.value)) == []


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"url": "https://example.com/hook?key=secret:stripe"}, "payload.url"),
        ({"url": "https://example.com/secret:stripe/hook"}, "payload.url"),
        ({"url": "https://example.com", "body": "x", "headers": {"X": "secret:stripe"}}, None),
        ({"url": "https://example.com", "body": {"a": [{"token": "secret:stripe"}]}}, "payload.body.a[0].token"),
        ({"url": "https://example.com", "body": ["secret:stripe "]}, "payload.body[0]"),
        ({"url": "https://example.com", "body": {"text": "the secret:stripe is safe, the secret: too"}}, None),
        ({"url": "https://example.com", "body": '{"text": "secret:stripe"}'}, None),
    ],
)
def test_a_secret_that_would_not_be_read_is_refused_where_it_stands(payload: dict[str, Any], place: str | None) -> None:
    """Rather than sent as these words."""
    if place is None:
        assert webhook().check(payload).items() >= payload.items()
        return
    with pytest.raises(InvalidArguments, match="secrets are read in headers only") as refused:
        webhook().check(payload)
    assert [problem.argument for problem in refused.value.problems] == [place]
    assert "payload.headers" in str(refused.value)
