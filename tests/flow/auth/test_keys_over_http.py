"""API keys over HTTP: a right one is its principal, any other is refused in the protocol's own words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventFilter
from duetime.server.auth.key_format import KeyText

from tests.flow.auth.conftest import Site, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys") as found:
        yield found


async def test_a_call_acts_in_the_name_of_its_key(site: Site) -> None:
    key = site.key("acme", "ann")
    made = await site.call(key, "schedule_task", title="Call John", when="in 2 hours")
    task_id = made["structuredContent"]["id"]
    task = site.app.store.tasks.get("acme", task_id).task
    assert (task.tenant, task.owner) == ("acme", "ann")
    [event] = site.app.store.history.events("acme", EventFilter(task_id=task_id), limit=5).events
    assert event.actor == "ann"


async def test_a_call_without_a_token_is_told_what_is_missing(site: Site) -> None:
    answer = await site.modern(None, "tools/list")
    assert answer.status_code == 401
    assert answer.json() == {"error": "invalid_token", "error_description": "Authentication required"}
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer error="invalid_token"')
    assert 'scope="tasks"' in challenge
    assert "resource_metadata" not in challenge  # there is no authorization server


def wrong_tokens() -> list[str]:
    key = KeyText("7k3m9qx2w4hb", "9d4c" * 16)  # one text: the names of tests are equal in all processes
    return [
        "",
        " ",
        "null",
        "dt_",
        key.text,
        key.text.upper(),
        f"dt_{key.id}_",
        f"dt_{key.id}_{'0' * 64}",
        "x" * 60_000,
        "dt_" + "x" * 60_000,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
        "' OR 1=1 --",
        "dt_%00_%00",
        "../../etc/passwd",
    ]


@pytest.mark.parametrize("token", wrong_tokens())
async def test_a_wrong_token_is_refused_in_few_bytes_and_nothing_is_stored(site: Site, token: str) -> None:
    for method in ("tools/list", "resources/list", "tools/call", "no/such", "subscriptions/listen"):
        answer = await site.modern(token, method, name="schedule_task", arguments={"title": "x", "when": "now"})
        assert answer.status_code == 401
        assert len(answer.content) < 1024
        assert token.strip()[3:] not in answer.text or len(token) < 5
    assert site.app.store.history.latest() == 0


@pytest.mark.parametrize(
    "header",
    [b"Bearer \xff\xfe", "Bearer dt_ä".encode(), b"Basic YW5uOmFubg==", b"bearer", b"Bearer\tx", b"\x80"],
)
async def test_a_header_that_is_no_bearer_token_is_refused(site: Site, header: bytes) -> None:
    answer = await site.http.post("/mcp", json={}, headers=[(b"authorization", header)])
    assert answer.status_code == 401


async def test_a_right_id_with_a_wrong_secret_is_refused(site: Site) -> None:
    right = site.key()
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")
    assert (await site.modern(wrong, "tools/list")).status_code == 401
    assert (await site.modern(right, "tools/list")).status_code == 200


async def test_a_key_that_is_revoked_or_expired_is_refused_at_the_next_call(site: Site) -> None:
    revoked, of_tenant, expired = site.key(), site.key("globex"), site.key(validity=timedelta())
    for key in (revoked, of_tenant):
        assert (await site.modern(key, "tools/list")).status_code == 200
    site.app.store.api_keys.revoke(revoked.split("_")[1])
    site.app.store.api_keys.revoke_tenant("globex")
    for key in (revoked, of_tenant, expired):
        assert (await site.modern(key, "tools/list")).status_code == 401


async def test_a_key_without_the_scope_is_told_which_it_needs(site: Site) -> None:
    answer = await site.modern(site.key(scopes=("worker", "admin:read", "admin")), "tools/list")
    assert answer.status_code == 403
    assert answer.json()["error"] == "insufficient_scope"
    assert 'scope="tasks"' in answer.headers["www-authenticate"]


async def test_the_use_of_a_key_is_noted(site: Site) -> None:
    key = site.key()
    await site.modern(key, "tools/list")
    [stored] = site.app.store.api_keys.all()
    assert stored.last_used_at is not None


async def test_a_key_is_in_no_log_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    key = site.key()
    caplog.set_level("DEBUG")
    await site.call(key, "list_tasks")
    site.app.store.api_keys.revoke(key.split("_")[1])
    await site.modern(key, "tools/list")
    assert key.split("_")[2] not in caplog.text
    assert "which is revoked" in caplog.text


async def test_without_a_database_nobody_is_refused_as_if_the_key_were_wrong(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = site.key()

    def away(key_id: str) -> None:
        raise StoreUnavailable("the database is locked")

    monkeypatch.setattr(site.app.store.api_keys, "find", away)
    answer = await site.modern(key, "tools/list")
    assert (answer.status_code, answer.text) == (503, "Tokens cannot be verified now. Try again later.")
    problem = await site.http.get("/v1/tasks", headers={"Authorization": f"Bearer {key}"})
    assert problem.json()["code"] == "service_unavailable"
    assert (answer.headers["retry-after"], problem.headers["retry-after"]) == ("5", "5")
    assert caplog.text.count("cannot verify a token") < 2


async def test_a_use_that_cannot_be_noted_refuses_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    key = site.key()

    def full(key: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(site.app.store.api_keys, "note_use", full)
    assert (await site.modern(key, "tools/list")).status_code == 200


async def test_supervisors_need_no_key(site: Site) -> None:
    assert (await site.http.get("/livez")).text == "ok"
    assert (await site.http.get("/readyz")).status_code == 200


async def test_a_request_under_another_name_of_the_server_is_refused(site: Site) -> None:
    answer = await site.post(site.key(), {}, Host="evil.example.com")
    assert answer.status_code == 421


async def test_a_page_of_another_origin_is_refused(site: Site) -> None:
    answer = await site.post(site.key(), {}, Origin="https://evil.example.com")
    assert answer.status_code == 403


async def test_the_public_name_of_the_server_is_its_own(tmp_path: Path) -> None:
    public = "https://duetime.example.com"
    async with serving(tmp_path, auth="keys", public_url=public, allowed_hosts="server-1") as site:
        key = site.key()
        for host in ("duetime.example.com", "duetime.example.com:443", "server-1:8787", "127.0.0.1:8787"):
            answer = await site.http.get("/mcp", headers={"Host": host, "Authorization": f"Bearer {key}"})
            assert answer.status_code != 421, host
