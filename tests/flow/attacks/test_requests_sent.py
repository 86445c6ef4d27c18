"""Attacks by what Duetime sends: addresses that lead inside, in every spelling; and forged signatures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from duetime.scheduler.delivery.channel import ChannelError
from duetime.scheduler.delivery.webhook import WebhookChannel, WebhookTarget
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.outbound.headers import header_problems
from duetime.scheduler.outbound.signature import Signer
from duetime.scheduler.task import InboxMessage, Run, State
from standardwebhooks import Webhook, WebhookVerificationError

from tests.flow.attacks import hostile
from tests.flow.attacks.target import Target, under_attack
from tests.flow.auth.conftest import bearer
from tests.flow.delivery.receiver import Answer, Server, serving
from tests.flow.waiting import eventually

pytestmark = pytest.mark.anyio

PUBLIC = "93.184.216.34"
INSIDE = {
    "inside.example.com": ["127.0.0.1"],
    "both.example.com": [PUBLIC, "127.0.0.1"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "nat64.example.com": ["64:ff9b::7f00:1"],
    "zone.example.com": ["fe80::1%lo"],
    "private.example.com": ["10.0.0.1"],
    "meta.example.com": ["169.254.169.254"],
    "v6.example.com": ["fd00:ec2::254"],
    "none.example.com": ["0.0.0.0"],
}
"""Names of an attacker's zone, and what they resolve to."""

MORE = (
    "http://127.0.0.1.:80/", "http://0177.0.0.01/", "http://0x7f.0x0.0x0.0x1/", "http://017700000001/", "http://127.00.1/",
    "http://[0:0:0:0:0:ffff:7f00:1]/", "http://[::ffff:0:7f00:1]/", "http://[::1%25eth0]/", "http://[fe80::1%25eth0]/",
    "http://[::ffff:169.254.169.254]/", "http://[2002:a9fe:a9fe::]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[::%31]/",
    "http://0xa9fea9fe/", "http://2852039166/", "http://0251.0376.0251.0376/", "http://169.254.43518/",
    "http://127.0.0.1:65536/", "http://127.0.0.1:-1/", "http://127.0.0.1:08/", "https://127.0.0.1:6379/",
    "http://localhost%00.example.com/", "http://localhost%2e/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "http://loc\u00adalhost/",
    "HTTP://LocalHost/", "http:localhost", "http:/localhost/", "ws://127.0.0.1/", "ldap://127.0.0.1/", "tftp://127.0.0.1/",
    "http://user@localhost/", "http://:@localhost/", "http://example.com:80@localhost/", "http://[::1]@example.com/",
    *(f"http://{name}/" for name in INSIDE),
)  # fmt: skip


class Network:
    """A network on which nothing is sent: it knows who was asked for, and where a connection was tried."""

    def __init__(self) -> None:
        self.connected: list[str] = []
        self.resolved: list[str] = []
        self.turns: dict[str, list[list[str]]] = {}

    def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        self.resolved.append(host)
        turns = self.turns.get(host)
        found = turns.pop(0) if turns else INSIDE.get(host, [PUBLIC])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    def connect_tcp(self, address: str, *_: Any, **__: Any) -> httpcore2.NetworkStream:
        self.connected.append(address)
        raise httpcore2.ConnectError("nobody listens")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    monkeypatch.setattr(socket, "getaddrinfo", made.getaddrinfo)
    monkeypatch.setattr(httpcore2, "SyncBackend", lambda: made)
    return made


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Target]:
    """Serve a target that runs what is due, and takes plain http: only where an address leads is at stake."""
    async with under_attack(tmp_path, handlers=[reminder], webhook_allow_http=True, yield_to_load=False) as target:
        yield target


def tried(run: Run) -> bool:
    return run.attempt > 0 and run.state is not State.RUNNING


async def ended(target: Target, task_id: str) -> Run:
    """Wait for the first attempt to end; return the run."""

    def run() -> Run:
        return target.site.app.store.tasks.get("globex", task_id).run

    await asyncio.to_thread(eventually, lambda: tried(run()), "the run to end")
    return run()


async def test_no_spelling_of_an_address_leads_inside(running: Target, network: Network) -> None:
    """Each is refused when it is scheduled, by MCP as by REST, or fails before anything is connected to."""
    mine = await running.site.call(
        running.key, "schedule_task", title="m", when="in 9 hours", action="webhook", payload={"url": "https://e.com/"}
    )
    taken: dict[str, str] = {}
    for url in dict.fromkeys([*hostile.URLS, *MORE]):
        payload = {"url": url, "method": "GET"}
        asked = {"title": "x", "when": "now", "action": "webhook", "payload": payload}
        made = await running.site.call(running.key, "schedule_task", **asked)
        changed = await running.site.call(
            running.key, "reschedule_task", task_id=mine["structuredContent"]["id"], payload=payload
        )
        posted = await running.site.http.post(
            "/v1/tasks", json={**asked, "when": "in 9 hours"}, headers=bearer(running.key)
        )
        refused = bool(made.get("isError"))
        assert (bool(changed.get("isError")), posted.status_code >= 400) == (refused, refused), url
        if not refused:
            taken[url] = made["structuredContent"]["id"]
        else:
            assert "payload.url" in str(made["content"]), url
    for url, task_id in taken.items():
        run = await ended(running, task_id)
        assert run.state is not State.SUCCEEDED, url
    named = [url for url in taken if any(name in url for name in INSIDE)]
    assert len(named) == len(INSIDE)
    for url in named:
        assert "not public" in str((await ended(running, taken[url])).error), url
    assert set(network.connected) <= {PUBLIC}
    await running.survives()


async def test_a_name_that_changes_between_two_looks_gains_nothing(running: Target, network: Network) -> None:
    """It is public when it is first asked for; each attempt connects to what it has checked, and looks once."""
    network.turns["rebind.example.com"] = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]
    payload = {"url": "http://rebind.example.com/", "method": "GET"}
    once = {"max_attempts": 1}  # a further attempt would look once more
    for title in ("first", "second"):
        made = await running.site.call(
            running.key, "schedule_task", title=title, when="now", action="webhook", payload=payload, retry=once
        )
        await ended(running, made["structuredContent"]["id"])
    assert network.connected == [PUBLIC]
    assert network.resolved.count("rebind.example.com") == 2
    await running.survives()


@pytest.fixture
def trap() -> Iterator[Server]:
    yield from serving(Server())


async def test_no_redirect_leads_inside(tmp_path: Path, trap: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is allowed to be private answers with redirects to what is not."""
    system = socket.getaddrinfo

    def local(host: Any, *args: Any, **kwargs: Any) -> Any:
        return system("127.0.0.1" if str(host).endswith(".example.com") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", local)
    inside = (
        f"http://127.0.0.1:{trap.port}/stolen", f"http://other.example.com:{trap.port}/stolen",
        f"//[::1]:{trap.port}/stolen",
        f"http://0x7f000001:{trap.port}/stolen", f"http://allowed.example.com@127.0.0.1:{trap.port}/stolen",
        "http://169.254.169.254/latest", "file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL", "http://[",
        f"http://localhost:{trap.port}/stolen", "http://2852039166/", "\\\\127.0.0.1\\stolen",
    )  # fmt: skip
    options = {"webhook_allow_http": True, "webhook_allow_hosts": ["allowed.example.com"], "yield_to_load": False}
    async with under_attack(tmp_path, handlers=[reminder], **options) as target:
        for location in inside:
            trap.answers = [Answer(302, {"location": location})]
            payload = {"url": f"http://allowed.example.com:{trap.port}/start", "method": "GET"}
            made = await target.site.call(
                target.key, "schedule_task", title=f"x {location!r}", when="now", action="webhook", payload=payload
            )
            run = await ended(target, made["structuredContent"]["id"])
            assert run.state is State.FAILED, (location, run.error)
        await target.survives()
    assert {each.path for each in trap.received} == {"/start"}
    assert len(trap.received) == len(inside)


async def test_a_channel_of_the_settings_reaches_no_metadata_and_follows_nothing(trap: Server) -> None:
    """An administrator may name a private address, and still none that hands out credentials."""
    told = InboxMessage("m_1", "acme", "ann", "t_1", "r_1", "x", "y", State.FAILED, datetime.now(UTC))
    for url in ("http://169.254.169.254/", "http://2852039166/", "http://[fd00:ec2::254]/", "http://[fe80::1%25lo]/",
                "http://[::ffff:a9fe:a9fe]/", "http://u:p@127.0.0.1/", "gopher://127.0.0.1/"):  # fmt: skip
        with pytest.raises(ChannelError) as refused:
            WebhookChannel("x", WebhookTarget(url)).send(told, key="r_1")
        assert refused.value.permanent, url
    trap.answers = [Answer(307, {"location": trap.url(path="/elsewhere")})]
    with pytest.raises(ChannelError):
        WebhookChannel("x", WebhookTarget(trap.url())).send(told, key="r_1")
    assert [each.path for each in trap.received] == ["/hook"]


def test_no_header_of_a_user_takes_the_place_of_one_that_duetime_sets() -> None:
    """Each would move the end of a request, the host that it names, or its signature."""
    ours = ("Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade",
            "Expect", "Idempotency-Key", "Proxy-Authorization", "Proxy-Connection", "Webhook-Id", "Webhook-Signature",
            "Webhook-Timestamp")  # fmt: skip
    for name in (*ours, *map(str.lower, ours), *map(str.upper, ours)):
        assert [str(each) for each in header_problems("payload.headers", name, "x")], name
    for value in ("x\r\nHost: inside", "x\nY: 1", "x\0", "ä", "x" * 5000):
        assert [str(each) for each in header_problems("payload.headers", "X-Source", value)], value
    assert not [*header_problems("payload.headers", "X-Source", "duetime")]


def test_a_signature_covers_all_that_a_thief_could_change_and_gets_old() -> None:
    """A receiver that verifies by Standard Webhooks refuses each forgery, and what is sent again later."""
    secret, other = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
    body, now = '{"n":1}', datetime.now(UTC)
    right = Signer(secret).headers("r_1", now, body)
    assert Webhook(secret).verify(body, right) == {"n": 1}
    old = Signer(secret).headers("r_1", now - timedelta(minutes=6), body)
    forged: list[tuple[str, dict[str, str]]] = [
        ('{"n":2}', right),
        (body, right | {"webhook-id": "r_2"}),
        (body, right | {"webhook-timestamp": str(int(right["webhook-timestamp"]) + 1)}),
        (body, old),
        (body, old | {"webhook-timestamp": right["webhook-timestamp"]}),
        (body, Signer(secret).headers("r_1", now + timedelta(minutes=6), body)),
        (body, Signer(other).headers("r_1", now, body)),
        (body, right | {"webhook-signature": right["webhook-signature"].replace("v1,", "v2,")}),
        (body, right | {"webhook-signature": "v1,"}),
        (body, {name: value for name, value in right.items() if name != "webhook-signature"}),
    ]
    for text, headers in forged:
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(text, headers)
