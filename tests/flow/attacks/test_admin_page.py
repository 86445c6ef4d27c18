"""Attacks on the admin page: each field of each page, foreign forms, forged cookies, and texts that would be markup."""

from __future__ import annotations

import base64
import json
import re

import pytest

from tests.flow.admin.conftest import ORIGIN, Admin
from tests.flow.attacks import hostile
from tests.flow.attacks.target import CANARY, Target

pytestmark = pytest.mark.anyio

PAGES = ("", "/runs", "/dead", "/cost", "/schedules", "/timeline", "/pools", "/workers", "/login", "/nothing")
QUERIES = (
    ("/runs", "q"), ("/runs", "state"), ("/runs", "priority"), ("/runs", "since"), ("/runs", "until"),
    ("/runs", "cursor"), ("/runs", "task"), ("/runs", "tenant"), ("/runs", "format"), ("/runs", "label"),
    ("/dead", "q"), ("/dead", "state"), ("/dead", "since"), ("/dead", "close"), ("/dead", "pick"), ("/dead", "cursor"),
    ("/schedules", "q"), ("/schedules", "cursor"), ("/schedules", "format"), ("/timeline", "window"),
    ("/timeline", "by"), ("/timeline", "until"), ("", "tenant"), ("/login", "next"),
    ("/cost", "by"), ("/cost", "since"),
)  # fmt: skip


async def entered(target: Target) -> Admin:
    """Log in as an administrator of tenant B."""
    admin = Admin(target.site)
    assert (await admin.log_in(target.admin_key)).status_code == 303
    return admin


@pytest.mark.random_walk
async def test_no_query_of_a_page_breaks_anything(target: Target) -> None:
    await entered(target)
    for path, name in QUERIES:
        for value in hostile.values(path, name):
            if isinstance(value, str) and len(value) < 20_000:
                sent = {name: value.encode("utf-8", "replace")}
                answer = await target.attack("GET", f"/admin{path}", token=None, params=sent)
                if answer is not None and hostile.MARKUP in answer.text:
                    target.wrong.append(f"{path} {name}: not escaped")
    await target.survives()


@pytest.mark.random_walk
async def test_no_field_of_a_form_breaks_anything(target: Target) -> None:
    admin = await entered(target)
    token = await admin.token()
    made = await target.site.call(target.key, "schedule_task", title="mine", when="in 1 hour")
    task_id = made["structuredContent"]["id"]
    run_id = target.site.app.store.tasks.get("globex", task_id).run.id
    forms = (
        (f"/runs/{run_id}/cancel", "reason"), (f"/runs/{run_id}/reschedule", "when"),
        (f"/runs/{run_id}/pause", "pause"),
        ("/dead/close", "close"), ("/dead/close", "most"), ("/dead/close", "after"), ("/dead/close", "since"),
        ("/runs/change", "change"), ("/runs/change", "after"), (f"/runs/{target.run_id}/cancel", "reason"),
        (f"/schedules/{target.task_id}/pause", "pause"), ("/pools", "spec"), ("/pools/gpu", "spec"),
    )  # fmt: skip
    for path, name in forms:
        for value in hostile.values(path, name):
            if isinstance(value, str):
                sent = {"csrf_token": token, "pick": target.run_id, name: value.encode("utf-8", "replace")}
                answer = await target.attack("POST", f"/admin{path}", token=None, data=sent, headers={"Origin": ORIGIN})
                if answer is not None and answer.status_code == 303:
                    assert answer.headers["location"].startswith("/admin")
    await target.survives()


@pytest.mark.parametrize("path", ["/login", "/logout", "/runs/change", "/dead/close", "/pools", "/schedules/x/pause"])
async def test_a_foreign_form_is_refused(target: Target, path: str) -> None:
    admin = await entered(target)
    token = await admin.token()
    right = {"Origin": ORIGIN}
    for headers, fields in (
        ({}, {"csrf_token": token}),
        ({"Origin": "https://evil.example"}, {"csrf_token": token}),
        ({"Origin": "null"}, {"csrf_token": token}),
        ({**right, "Sec-Fetch-Site": "cross-site"}, {"csrf_token": token}),
        (right, {}),
        (right, {"csrf_token": "x" * 64}),
        (right, {"csrf_token": "\u0661"}),
        (right, {"csrf_token": token[:-1]}),
    ):
        await target.attack("POST", f"/admin{path}", token=None, data=fields, headers=headers, refused=True)
    await target.survives()


async def test_nobody_without_a_session_does_anything(target: Target) -> None:
    for path in PAGES:
        answer = await target.attack("POST", f"/admin{path}", token=None, data={"x": "y"}, headers={"Origin": ORIGIN})
        assert answer is not None, path
        to_login = answer.headers.get("location", "").startswith("/admin/login?")
        assert answer.status_code in {401, 404, 405} or (answer.status_code == 303 and to_login), (
            path,
            answer.status_code,
        )
    await target.attack("POST", "/admin/logout", token=None, data={}, headers={"Origin": ORIGIN}, refused=True)
    await target.survives()


async def test_a_forged_cookie_is_nobody(target: Target) -> None:
    claims = {
        "id": "x",
        "begun_at": 1,
        "seen_at": 1,
        "key_id": "",
        "tenant": "acme",
        "user": "ann",
        "scopes": ["admin"],
    }
    body = json.dumps(claims).encode()
    forged = [base64.urlsafe_b64encode(seal + body).decode() for seal in (b"", b"\0" * 32, b"x" * 32)]
    for cookie in [*forged, "", "x", "A" * 4_000, "%00", "=" * 100, '"', "..", "null", "\u0661".encode().hex()]:
        for path in PAGES[:-2]:
            answer = await target.attack(
                "GET", f"/admin{path}", token=None, headers={"Cookie": f"duetime_admin={cookie}"}
            )
            assert answer is not None
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/admin/login")
    await target.survives()


async def test_the_login_leads_to_no_other_site(target: Target) -> None:
    for wanted in (
        "https://evil.example/", "//evil.example", "/\\evil.example", "/admin\\@evil.example", "/admin@evil.example",
        "/adminevil", "javascript:alert(1)", "/admin/\r\nSet-Cookie: x=1", "\t//evil.example",
        "/admin/../..//evil.example",
        "/admin/..//evil.example", "%2f%2fevil.example", "/admin/\u2028", "///evil.example", "/\t/evil.example",
    ):  # fmt: skip
        answer = await Admin(target.site).log_in(target.admin_key, wanted)
        location = answer.headers["location"]
        assert location == "/admin" or re.match(r"/admin/\.\.", location), wanted
        assert "x" not in answer.cookies
    await target.survives()


async def test_texts_are_no_markup_on_any_page(target: Target) -> None:
    """Whatever a caller writes is shown as text: titles, labels, reasons; in each page and each export."""
    for number, text in enumerate((hostile.MARKUP, "{{7*7}} {% raw %}", "=HYPERLINK(1)", "+1", "@SUM(1)", "-1")):
        made = await target.site.call(
            target.key,
            "schedule_task",
            title=text,
            when="in 1 hour",
            labels=[f"l{number}<b>"],
            payload={"message": text},
        )
        task_id = made["structuredContent"]["id"]
        await target.site.call(target.key, "cancel_task", task_id=task_id, reason=text)
        await target.site.call(target.key, "schedule_task", title=text, repeat="every day at 9:00")
    await entered(target)
    seen = []
    for path in ("", "/runs?state=cancelled", "/runs?state=to_come", "/schedules", "/timeline", "/pools", "/workers"):
        answer = await target.attack("GET", f"/admin{path}", token=None)
        assert answer is not None
        seen.append(answer.text)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        for opening in ("<script>alert", "<img src=x", "<svg/onload", "0<b>", ">49 "):
            assert opening not in answer.text, (path, opening)
    assert any("&lt;script&gt;alert" in page for page in seen)
    table = await target.attack("GET", "/admin/runs?state=cancelled&format=csv", token=None)
    assert table is not None
    assert not re.search(r"(^|,|\")[=+@-][A-Z(]", table.text, re.MULTILINE)
    assert CANARY not in "".join(seen)
    await target.survives()
