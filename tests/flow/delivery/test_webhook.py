"""Webhooks, against a real server on this machine: what is sent, what answers mean, and where requests may not go."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from duetime.scheduler.delivery import ChannelError, WebhookTarget
from duetime.scheduler.delivery.webhook import WebhookChannel
from duetime.scheduler.errors import InvalidArguments, InvalidSetting
from duetime.scheduler.handlers import Context, Handler, Link, WebhookOptions, run_handler, webhook
from duetime.scheduler.outbound.client import GuardedClient
from duetime.scheduler.outbound.reply import Blocked, Unreachable
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.task import InboxMessage, Json, State
from standardwebhooks import Webhook

from tests.flow.delivery.receiver import Answer, Server, serving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
CTX = Context.for_test(run_id="r_1", task_id="t_1", title="Call John")
PUBLIC = "93.184.216.34"


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


def local(*_: Any) -> Sequence[str]:
    return ["127.0.0.1"]


def permissive(**options: Any) -> WebhookOptions:
    return replace(WebhookOptions(allow_http=True, allow_private=True, secret=SECRET), **options)


def call(payload: dict[str, Any], *, of: Handler | None = None, ctx: Context = CTX) -> Outcome:
    chosen = of or webhook(permissive())
    return run_handler(chosen, ctx, chosen.check(payload))


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_a_post_carries_its_json_signed_by_standard_webhooks(server: Server) -> None:
    outcome = call({"url": server.url(), "body": {"greeting": "héllo"}})
    assert outcome == Done("POST 127.0.0.1 answered 200 OK", {"status": 200, "body": "ok"})
    (received,) = server.received
    assert (received.method, received.path) == ("POST", "/hook")
    assert received.headers["content-type"] == "application/json"
    assert received.headers["webhook-id"] == "r_1"
    assert received.headers["idempotency-key"] == "r_1"
    assert Webhook(SECRET).verify(received.body, received.headers) == {"greeting": "héllo"}


def test_the_id_is_the_same_in_every_attempt_and_the_time_is_not(server: Server) -> None:
    for attempt in (1, 2):
        moment = datetime.now(UTC) + timedelta(seconds=9 * attempt)
        ctx = Context.for_test(
            run_id="r_9", attempt=attempt, link=Link(now=partial(datetime.fromtimestamp, moment.timestamp(), UTC))
        )
        call({"url": server.url()}, ctx=ctx)
    first, second = (received.headers for received in server.received)
    assert first["webhook-id"] == second["webhook-id"] == first["idempotency-key"] == "r_9"
    assert int(second["webhook-timestamp"]) >= int(first["webhook-timestamp"]) + 9


def test_a_natural_key_is_sent_as_a_header_can_have_it_and_the_id_stays_that_of_the_run(server: Server) -> None:
    call({"url": server.url()}, ctx=Context.for_test(run_id="r_9", natural_key="t1:Zürich 5%:2026-11-24T09:00Z"))
    (received,) = server.received
    assert received.headers["idempotency-key"] == "t1:Z%C3%BCrich 5%25:2026-11-24T09:00Z"
    assert received.headers["webhook-id"] == "r_9"


def test_while_rotating_both_secrets_verify(server: Server) -> None:
    call({"url": server.url(), "body": [1]}, of=webhook(permissive(secret=f"{SECRET} {OLD_SECRET}")))
    (received,) = server.received
    for secret in (SECRET, OLD_SECRET):
        assert Webhook(secret).verify(received.body, received.headers) == [1]


def test_without_a_secret_there_is_an_id_but_no_signature(server: Server) -> None:
    call({"url": server.url()}, of=webhook(permissive(secret=None)))
    (received,) = server.received
    assert received.headers["webhook-id"] == "r_1"
    assert "webhook-signature" not in received.headers


@pytest.mark.parametrize("secret", ["whsec_", "whsec_c2hvcnQ=", "not base64 !", "whsec_****"])
def test_a_secret_that_is_none_is_refused_without_showing_it(secret: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        webhook(WebhookOptions(secret=secret))
    assert "whsec_ and 24 or more bytes" in str(refused.value)
    assert "c2hvcnQ" not in str(refused.value)
    assert "whsec_c" not in repr(WebhookOptions(secret=secret))


def test_put_sends_text_as_it_is_and_the_users_own_headers(server: Server) -> None:
    headers = {"X-Source": "chat", "CONTENT-TYPE": "text/csv"}
    call({"url": server.url(), "method": "put", "body": "a,b", "headers": headers})
    (received,) = server.received
    assert (received.method, received.body) == ("PUT", b"a,b")
    assert received.headers["x-source"] == "chat"
    assert received.headers["content-type"] == "text/csv"


def test_get_sends_no_body(server: Server) -> None:
    call({"url": server.url(path="/hook?a=1%202"), "method": "GET"})
    (received,) = server.received
    assert (received.method, received.path, received.body) == ("GET", "/hook?a=1%202", b"")
    assert "content-type" not in received.headers
    assert "content-length" not in received.headers


def test_proxies_of_the_environment_are_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert isinstance(call({"url": server.url()}), Done)


# --- what answers mean ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_done(server: Server, status: int) -> None:
    server.answers = [Answer(status, body=b"")]
    outcome = call({"url": server.url()})
    assert isinstance(outcome, Done)
    assert outcome.result == {"status": status, "body": ""}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_a_temporary_failure_is_tried_again(server: Server, status: int) -> None:
    server.answers = [Answer(status, body=b"try later")]
    outcome = call({"url": server.url()})
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith(f"POST 127.0.0.1 answered {status}")
    assert outcome.result == {"status": status, "body": "try later"}
    assert outcome.after is None


@pytest.mark.parametrize("status", [300, 304, 400, 401, 403, 404, 410, 422])
def test_a_permanent_failure_fails_with_the_answer_of_the_server(server: Server, status: int) -> None:
    server.answers = [Answer(status, body=b"" if status == 304 else b"no such hook\x00")]
    outcome = call({"url": server.url()})
    assert isinstance(outcome, Failed)
    assert outcome.result == {"status": status, "body": "" if status == 304 else "no such hook\ufffd"}


def test_retry_after_in_seconds_and_as_a_date_is_honoured(server: Server) -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    server.answers = [
        Answer(429, {"Retry-After": "7"}),
        Answer(503, {"Retry-After": "Sat, 21 Nov 2026 12:00:30 GMT"}),
    ]
    ctx = Context.for_test(link=Link(now=lambda: now))
    waits = [outcome.after for _ in range(2) if isinstance(outcome := call({"url": server.url()}, ctx=ctx), Retry)]
    assert waits == [timedelta(seconds=7), timedelta(seconds=30)]


def test_nobody_listening_is_tried_again() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        outcome = call({"url": f"http://127.0.0.1:{probe.getsockname()[1]}/"})
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("127.0.0.1: ConnectError")


def test_a_name_that_does_not_resolve_is_tried_again() -> None:
    def nothing(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(8, "unknown")

    outcome = call({"url": "https://nowhere.example"}, of=webhook(resolve=nothing))
    assert outcome == Retry("nowhere.example: ConnectError: the host name cannot be resolved (gaierror)")


def test_a_server_that_drips_is_left_at_the_time_limit(server: Server) -> None:
    left = threading.Event()

    def drip(file: Any) -> None:
        try:
            for _ in range(3_000):
                file.write(b".")
                left.wait(0.02)
        except OSError:
            left.set()
            raise

    server.answers = [Answer(write=drip)]
    outcome = call({"url": server.url()}, of=webhook(permissive(timeout=0.2)))
    assert isinstance(outcome, Retry)
    assert "in time" in outcome.reason or "Timeout" in outcome.reason
    assert left.wait(60)


def test_an_answer_is_read_to_64_kib_and_kept_as_an_excerpt(server: Server) -> None:
    def flood(file: Any) -> None:
        for _ in range(2000):
            file.write(b"x" * 65_536)

    server.answers = [Answer(write=flood), Answer(write=flood)]
    reply = GuardedClient(permissive()).send("GET", server.url(), headers={})
    assert len(reply.body) == 65_536
    outcome = call({"url": server.url()})
    assert isinstance(outcome, Done)
    result: Any = outcome.result
    assert len(result["body"]) == 2000


# --- where requests may not go --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com", "ftp://example.com", "file:///etc/passwd", "example.com", "//example.com", "https://"),
        *("https://example.com:0", "https://example.com:-1", "https://example.com:65536", "https://example.com:99999"),
        *("https://user:pw@example.com", "https://example.com@evil.example", "https://exa mple.com", "https://[::1"),
        *("https://127.0.0.1", "https://localhost", "https://LOCALHOST.", "https://a.localhost", "https://[::1]/"),
        *("https://10.0.0.1", "https://192.168.1.1:8443/x", "https://100.64.0.1", "https://169.254.169.254/latest"),
        *("https://192.0.0.192", "https://168.63.129.16", "https://[64:ff9b::a00:1]", "https://[2002:7f00:1::]"),
        *(
            "https://224.0.0.1",
            "https://[ff0e::1]",
            "https://0.0.0.0",
            "https://[::ffff:127.0.0.1]",
            "https://[fe80::1]",
        ),
        *("https://2130706433", "https://0x7f.1", "https://0177.0.0.1", "https://127.1", "https://%31%32%37.0.0.1"),
        *("https://①②⑦.0.0.1", "https://example.com\\@127.0.0.1", "https://exa\nmple.com", "https://" + "a" * 2050),
        "https://127。0。0。1",
        "https://xn-xn--//",
    ],
)
def test_a_url_that_leads_astray_is_refused_when_it_is_scheduled(url: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        webhook().check({"url": url})
    assert [problem.argument for problem in refused.value.problems] == ["payload.url"]
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "url", ["https://example.com", "https://example.com:8443/a?b#c", "https://1.1.1.1", "https://bücher.example/ä"]
)
def test_a_public_https_url_is_taken_without_asking_a_name_server(url: str) -> None:
    def never(host: str, port: int) -> Sequence[str]:
        raise AssertionError

    assert webhook(resolve=never).check({"url": url})["url"] == url


@pytest.mark.parametrize("options", [{"allow_private": True}, {"allow_http": True}, {"allow_hosts": ("127.0.0.1",)}])
def test_each_permission_covers_only_its_own_part(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        webhook(WebhookOptions(**options)).check({"url": "http://127.0.0.1"})


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://[fd00:ec2::254]", "http://168.63.129.16"])
def test_metadata_services_stay_out_of_reach_whatever_is_permitted(url: str) -> None:
    with pytest.raises(InvalidArguments):
        webhook(permissive(allow_hosts=("169.254.169.254", "fd00:ec2::254", "168.63.129.16"))).check({"url": url})


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["10.0.0.1", PUBLIC], ["::1"], ["64:ff9b::7f00:1"], ["fe80::1%lo"]],
)
def test_a_name_is_refused_when_any_of_its_addresses_is_not_public(server: Server, answers: list[str]) -> None:
    of = webhook(WebhookOptions(allow_http=True), resolve=lambda _host, _port: answers)
    outcome = call({"url": server.url("innocent.example")}, of=of)
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("innocent.example leads to an address that is not public")
    assert not any(answer in outcome.reason for answer in answers)
    assert server.received == []


def test_a_named_host_may_be_private_and_no_other(server: Server) -> None:
    of = webhook(WebhookOptions(allow_http=True, allow_hosts=("Inside.Example",)), resolve=local)
    assert isinstance(call({"url": server.url("inside.example")}, of=of), Done)
    assert isinstance(call({"url": server.url("outside.example")}, of=of), Failed)
    assert len(server.received) == 1


def test_the_connection_goes_to_the_address_that_was_checked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers differently the second time (DNS rebinding) is never asked a second time."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "rebind.example":
            return real(host, *args, **kwargs)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    assert isinstance(call({"url": server.url("rebind.example")}), Done)
    assert asked == ["rebind.example"]
    assert server.received[0].headers["host"] == f"rebind.example:{server.port}"


def test_a_name_that_turned_private_since_it_was_scheduled_is_refused_when_sent(server: Server) -> None:
    answers = [PUBLIC]
    of = webhook(WebhookOptions(allow_http=True), resolve=lambda _host, _port: answers)
    payload = of.check({"url": server.url("turns.example")})
    answers[0] = "127.0.0.1"
    assert isinstance(run_handler(of, CTX, payload), Failed)
    assert server.received == []


def test_the_next_address_is_tried_when_one_does_not_answer(server: Server) -> None:
    of = webhook(permissive(), resolve=lambda _host, _port: ["127.0.0.9", "127.0.0.1"])
    assert isinstance(call({"url": server.url("two.example")}, of=of), Done)


def test_an_ipv6_literal_is_reached_with_its_brackets() -> None:
    try:
        six = Server("::1", socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    for server in serving(six):
        assert isinstance(call({"url": server.url("[::1]")}), Done)
        assert server.received[0].headers["host"] == f"[::1]:{server.port}"


# --- redirects ------------------------------------------------------------------------------------------------------


def redirect(url: str, status: int = 302) -> Answer:
    return Answer(status, {"Location": url}, b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_get_follows_a_redirect(server: Server, status: int) -> None:
    server.answers = [redirect("/there", status)]
    assert isinstance(call({"url": server.url(), "method": "GET"}), Done)
    assert [received.path for received in server.received] == ["/hook", "/there"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_other_method_follows_one(server: Server, method: str, status: int) -> None:
    server.answers = [redirect("/there", status)]
    outcome = call({"url": server.url(), "method": method})
    assert outcome == Failed(f"127.0.0.1 answered with a redirect ({status}), which {method} does not follow")
    assert len(server.received) == 1


@pytest.mark.parametrize(("redirects", "kind"), [(3, Done), (4, Failed)])
def test_at_most_three_redirects_are_followed(server: Server, redirects: int, kind: type[Outcome]) -> None:
    server.answers = [redirect("/again")] * redirects
    assert isinstance(call({"url": server.url(), "method": "GET"}), kind)
    assert len(server.received) == 4


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest",
        "http://b.example:{port}/",
        "file:///etc/passwd",
        "http://[bad",
        "http://2130706433/",
    ],
)
def test_every_redirect_is_checked_as_the_first_address_was(server: Server, target: str) -> None:
    server.answers = [redirect(target.format(port=server.port))]
    of = webhook(WebhookOptions(allow_http=True, allow_hosts=("a.example",)), resolve=local)
    outcome = call({"url": server.url("a.example"), "method": "GET"}, of=of)
    assert isinstance(outcome, Failed)
    assert len(server.received) == 1


def test_headers_do_not_follow_to_another_origin(server: Server) -> None:
    server.answers = [redirect(server.url("b.example"))]
    headers = {"Authorization": "Bearer x"}
    call({"url": server.url("a.example"), "method": "GET", "headers": headers}, of=webhook(permissive(), resolve=local))
    first, second = server.received
    assert first.headers["authorization"] == "Bearer x"
    assert {"authorization", "webhook-signature", "idempotency-key"}.isdisjoint(second.headers)
    assert second.headers["host"] == f"b.example:{server.port}"


# --- headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "webhook-id", "Webhook-Signature", "WEBHOOK-TIMESTAMP", "Idempotency-Key", "Content-Length"),
        *("Transfer-Encoding", "Connection", "Upgrade", "Proxy-Authorization", "Expect", "TE", "Trailer"),
        *("X-A\r\nHost", "X A", "X:A", "", "Ä", "X-A\x00"),
    ],
)
def test_a_header_that_is_ours_or_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidArguments, match="payload"):
        webhook().check({"url": "https://example.com", "headers": {name: "x"}})


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\nb", "a\rb", "ä", "\x00", "x" * 4097])
def test_a_header_value_that_breaks_out_is_refused(value: str) -> None:
    with pytest.raises(InvalidArguments):
        webhook().check({"url": "https://example.com", "headers": {"X-A": value}})


def test_all_mistakes_of_a_webhook_are_reported_together() -> None:
    payload: dict[str, Json] = {"url": "http://example.com", "method": "GET", "body": 1, "headers": {"Host": "x"}}
    with pytest.raises(InvalidArguments) as refused:
        webhook().check(payload)
    places = [problem.argument for problem in refused.value.problems]
    assert places == ["payload.url", "payload.body", "payload.headers.Host"]


# --- TLS ------------------------------------------------------------------------------------------------------------


def certificate(directory: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Server, ssl.SSLContext, list[str | None]]]:
    pem = certificate(tmp_path, "hook.example")
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    server = Server()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    for running in serving(server):
        yield running, ssl.create_default_context(cafile=str(pem)), names


def test_tls_is_checked_against_the_name_while_the_connection_goes_to_the_address(
    secure: tuple[Server, ssl.SSLContext, list[str | None]],
) -> None:
    server, tls, names = secure
    client = GuardedClient(WebhookOptions(allow_private=True), resolve=local, tls=tls)
    reply = client.send("GET", f"https://hook.example:{server.port}/", headers={})
    assert reply.status == 200
    assert names == ["hook.example"]
    assert server.received[0].headers["host"] == f"hook.example:{server.port}"
    with pytest.raises(Unreachable, match=r"other\.example"):
        client.send("GET", f"https://other.example:{server.port}/", headers={})


def test_a_certificate_that_nobody_vouches_for_is_not_accepted(
    secure: tuple[Server, ssl.SSLContext, list[str | None]],
) -> None:
    server, _, _ = secure
    client = GuardedClient(WebhookOptions(allow_private=True), resolve=local)
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        client.send("GET", f"https://hook.example:{server.port}/", headers={})


def test_a_redirect_from_https_to_http_is_refused(secure: tuple[Server, ssl.SSLContext, list[str | None]]) -> None:
    server, tls, _ = secure
    server.answers = [redirect("http://hook.example/")]
    client = GuardedClient(WebhookOptions(allow_private=True), resolve=local, tls=tls)
    with pytest.raises(Blocked, match="'http' is not permitted"):
        client.send("GET", f"https://hook.example:{server.port}/", headers={})


# --- the channel ----------------------------------------------------------------------------------------------------

MESSAGE = InboxMessage(
    id="m_1",
    tenant="local",
    user="local",
    task_id="t_1",
    run_id="r_1",
    title="Call John",
    text="Bring the contract",
    state=State.SUCCEEDED,
    created_at=datetime(2026, 11, 21, 12, tzinfo=UTC),
)


def channel(server: Server) -> WebhookChannel:
    return WebhookChannel("team", WebhookTarget(server.url(), SECRET))


def test_an_outcome_is_posted_signed_and_unlike_the_tasks_own_call(server: Server) -> None:
    channel(server).send(MESSAGE, key="r_1")
    (received,) = server.received
    event = Webhook(SECRET).verify(received.body, received.headers)
    assert event["type"] == "task.succeeded"
    assert event["timestamp"] == "2026-11-21T12:00:00Z"
    assert event["data"]["title"] == "Call John"
    assert event["data"]["text"] == "Bring the contract"
    assert received.headers["webhook-id"] == received.headers["idempotency-key"] == "r_1-outcome"
    assert json.loads(received.body)["data"]["run_id"] == "r_1"


@pytest.mark.parametrize(
    ("answer", "permanent", "wait"),
    [
        (Answer(503, {"Retry-After": "9"}), False, timedelta(seconds=9)),
        (Answer(429), False, None),
        (Answer(404), True, None),
        (redirect("/there"), True, None),
    ],
)
def test_a_refusal_says_whether_it_may_pass(
    server: Server, answer: Answer, permanent: bool, wait: timedelta | None
) -> None:
    server.answers = [answer]
    with pytest.raises(ChannelError) as refused:
        channel(server).send(MESSAGE, key="r_1")
    assert (refused.value.permanent, refused.value.retry_after) == (permanent, wait)
    assert len(server.received) == 1
