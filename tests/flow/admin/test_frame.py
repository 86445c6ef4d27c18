"""The frame of the admin page: who gets in, what a form has to prove, and what every answer forbids a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from duetime.scheduler.principal import Principal, Scope
from duetime.server.admin import answers, routes
from duetime.server.admin.access.sessions import (
    IDLE_LIFETIME_S,
    LIFETIME_S,
    SEEN_INTERVAL_S,
    AdminSession,
    Seal,
    Sessions,
)
from duetime.server.admin.answers import Moved, get, post
from duetime.server.admin.page_request import Visit
from duetime.server.admin.site import SAID_COOKIE, path_of

from tests.flow.admin.conftest import ORIGIN, Admin, Open, found_token

pytestmark = pytest.mark.anyio

SCRIPT = "<script>alert(1)</script>"


def rename(visit: Visit) -> Moved:
    """Change something, as a page does."""
    visit.scheduler.schedule(visit.form.get("title", ""), by=visit.acting_in("acme"), when="in 1 hour")
    return Moved(visit.url("/"), f"Scheduled {visit.form.get('title')}.")


def shared(visit: Visit) -> answers.Page:
    return answers.Page("problem.html", "Shared", {"sentence": "of all tenants", "status": 200})


@pytest.fixture(autouse=True)
def further_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a page that changes something, and one for operators."""
    more = (post("/schedule", rename), get("/shared", shared, operators=True))
    monkeypatch.setattr(routes, "PAGE_ROUTES", (more, *routes.PAGE_ROUTES))


async def test_without_auth_the_local_user_is_in_at_once(admin_page: Open) -> None:
    page = await (await admin_page()).get("")
    assert page.status_code == 200
    assert "operator" in page.text


async def test_with_keys_nobody_is_in_without_one_and_the_login_leads_back(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    turned_away = await admin.get("/shared?tenant=acme")
    assert turned_away.status_code == 303
    assert turned_away.headers["location"] == "/admin/login?next=/admin/shared%3Ftenant%3Dacme"
    key, _ = (admin.site.key(of, "root", scopes=("admin:read",)) for of in ("local", "acme"))
    back = await admin.log_in(key, "/admin/shared?tenant=acme")
    assert back.headers["location"] == "/admin/shared?tenant=acme"
    assert (await admin.get("/shared?tenant=acme")).status_code == 200


async def test_the_first_page_has_one_address(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    assert (await admin.get("/")).headers["location"] == "/admin"
    key = admin.site.key("local", "root", scopes=("admin:read",))
    assert (await admin.log_in(key, "/admin/")).headers["location"] == "/admin"


async def test_a_form_that_is_sent_after_the_session_leads_to_the_login_and_back(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    sent = {"Origin": ORIGIN, "Referer": f"{ORIGIN}/admin/policy"}
    answer = await admin.http.post("/admin/policy", data={"do": "make"}, headers=sent)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/login?next=/admin/policy&unsent=1")
    login = await admin.http.get(answer.headers["location"])
    assert "nothing was done. Log in, and send the form again" in login.text
    assert 'name="next" value="/admin/policy"' in login.text


async def unsent(admin: Admin, site: str = "same-origin", **typed: str) -> str:
    """Send a form without a session and log in; return what the next page shows of it to a browser without scripts."""
    headers = {"Origin": ORIGIN, "Sec-Fetch-Site": site, "Referer": f"{ORIGIN}/admin/runs"}
    form = {"shown": "3", "csrf_token": "of-a-session-before", **typed}
    sent = await admin.http.post("/admin/runs/r_1/cancel", data=form, headers=headers)
    assert sent.headers["location"] == "/admin/login?next=/admin/runs&unsent=1"
    await admin.enter()
    page, again = (await admin.get("/runs")).text, (await admin.get("/runs")).text
    assert "<noscript>" not in again
    return page.partition("<noscript>")[2].partition("</noscript>")[0]


async def test_input_typed_after_the_session_can_be_sent_again_without_scripts(admin_page: Open) -> None:
    shown = await unsent(await admin_page(auth=("keys",)), reason="it <ran> away")
    assert 'action="/admin/runs/r_1/cancel"' in shown
    assert 'name="reason" value="it &lt;ran&gt; away"' in shown
    assert 'name="shown" value="3"' in shown
    assert re.search(r'name="csrf_token" value="\w+"', shown)
    assert "of-a-session-before" not in shown


@pytest.mark.parametrize(
    ("site", "typed"),
    [("cross-site", "it ran away"), ("same-origin", ""), ("same-origin", "x" * 4_000)],
    ids=["a page of another site sent it", "nothing was typed", "no cookie has room for it"],
)
async def test_no_other_form_is_kept_over_a_login(admin_page: Open, site: str, typed: str) -> None:
    assert not await unsent(await admin_page(auth=("keys",)), site, reason=typed)


@pytest.mark.parametrize("wrong", ["", "dt_unknown", "dt_0000000000cg_" + "0" * 64, SCRIPT, "é" * 50])
async def test_a_wrong_key_begins_no_session_and_is_not_repeated(admin_page: Open, wrong: str) -> None:
    admin = await admin_page(auth=("keys",))
    refused = await admin.log_in(wrong)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers
    assert not wrong or wrong not in refused.text


async def test_a_key_without_an_admin_scope_is_told_what_it_lacks(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    refused = await admin.log_in(admin.site.key(scopes=("tasks", "worker")))
    assert refused.status_code == 403
    assert "admin:read" in refused.text
    assert "set-cookie" not in refused.headers


async def test_a_revoked_key_ends_its_sessions_at_the_next_request(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    key = await admin.enter("admin")
    assert (await admin.get("")).status_code == 200
    admin.site.app.store.api_keys.revoke(key.split("_")[1])
    assert (await admin.get("")).status_code == 303
    assert (await admin.get("/live")).status_code == 401
    assert (await admin.get("", **{"X-Duetime-Live": "1"})).status_code == 401


async def test_a_logout_ends_the_session(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    answer = await admin.post("/logout")
    assert answer.headers["location"] == "/admin/login"
    assert (await admin.get("")).status_code == 303


async def test_a_forged_or_foreign_cookie_is_no_session(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    [cookie] = [each for each in admin.http.cookies.jar if each.name == "duetime_admin"]
    right = cookie.value or ""
    forged = Sessions(Seal(lambda: b"guessed"), lambda: 1e9).new(tenant="acme", user="ann", scopes=("admin",))
    for value in (
        "",
        "x",
        right[:-2],
        f"A{right}",
        Seal(lambda: b"guessed").close("session", vars_of(forged)),
    ):
        admin.http.cookies.set("duetime_admin", value, domain=cookie.domain, path="/")
        assert (await admin.get("")).status_code == 303


def test_a_value_sealed_for_one_purpose_is_invalid_for_another() -> None:
    seal = Seal(lambda: b"a key of the store")
    session = vars_of(Sessions(seal, lambda: 1e9).new(tenant="acme", user="ann", scopes=("admin",)))
    assert seal.open("session", seal.close("session", session)) == {**session, "scopes": ["admin"]}
    assert seal.open("session", seal.close("said", session)) is None
    assert seal.token("csrf", "s1") != seal.token("session", "s1")


@pytest.mark.parametrize(("public_url", "secure"), [(None, False), ("https://duetime.example.com", True)])
async def test_no_script_reads_a_cookie_no_other_site_sends_it_and_it_goes_over_tls_alone_where_there_is_tls(
    admin_page: Open, public_url: str | None, secure: bool
) -> None:
    admin = await admin_page(auth=("keys",), **({"public_url": public_url} if public_url else {}))
    entered = await admin.log_in(admin.site.key(scopes=("admin",)))
    [cookie] = [parts(each) for each in entered.headers.get_list("set-cookie")]
    assert cookie[0].startswith("__Host-duetime_admin=" if secure else "duetime_admin=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {*cookie}
    assert ("Secure" in cookie) is secure
    assert not any(part.lower().startswith("domain=") for part in cookie)


async def test_no_script_reads_what_a_page_says_after_a_change(admin_page: Open) -> None:
    admin = await admin_page()
    changed = await admin.post("/schedule", title="Call John")
    [said] = [parts(each) for each in changed.headers.get_list("set-cookie") if each.startswith(SAID_COOKIE)]
    assert {"HttpOnly", "SameSite=strict", "Path=/admin"} <= {*said}


def parts(cookie: str) -> list[str]:
    return [part.strip() for part in cookie.split(";")]


def vars_of(session: AdminSession) -> dict[str, object]:
    return {name: getattr(session, name) for name in session.__dataclass_fields__}


# --- forms


async def test_a_form_of_the_page_is_accepted_and_its_sentence_shown_once(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    done = await admin.post("/schedule", title="Call John")
    assert done.status_code == 303
    renewed = await admin.get("", **{"HX-Request": "true"})  # another tab, which takes the content alone
    assert "Scheduled Call John." not in renewed.text
    assert "Scheduled Call John." in (await admin.get("")).text
    assert "Scheduled Call John." not in (await admin.get("")).text


@pytest.mark.parametrize("auth", [(), ("keys",)])
@pytest.mark.parametrize(
    ("origin", "keeps_token"),
    [(ORIGIN, False), ("https://evil.example", True), ("null", True), (None, True), ("http://127.0.0.1:9", True)],
)
async def test_a_form_that_another_page_sends_changes_nothing(
    admin_page: Open, auth: tuple[str, ...], origin: str | None, *, keeps_token: bool
) -> None:
    admin = await admin_page(auth=auth)
    if auth:
        await admin.enter("admin")
    token = await csrf_token(admin) if keeps_token else "0" * 64
    headers = {"Origin": origin} if origin is not None else {}
    sent = await admin.http.post("/admin/schedule", data={"csrf_token": token, "title": "Evil"}, headers=headers)
    assert sent.status_code == 403
    assert nothing_is_stored(admin)


async def csrf_token(admin: Admin) -> str:
    found = found_token((await admin.get("")).text)
    assert found
    return found


async def test_the_token_of_one_session_is_worthless_in_another(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    stolen = await csrf_token(admin)
    await admin.enter("admin", user="bob")
    sent = await admin.http.post(
        "/admin/schedule", data={"csrf_token": stolen, "title": "Evil"}, headers={"Origin": ORIGIN}
    )
    assert sent.status_code == 403
    assert nothing_is_stored(admin)


async def test_a_reader_is_refused_when_trying_to_change(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin:read")
    refused = await admin.post("/schedule", title="Mine")
    assert refused.status_code == 403
    assert "scope admin" in refused.text
    assert nothing_is_stored(admin)


async def test_pages_of_what_all_tenants_share_are_for_operators(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin", tenant="acme")
    assert (await admin.get("/shared")).status_code == 403
    await admin.enter("admin:read", tenant="house")
    assert (await admin.get("/shared")).status_code == 200


def nothing_is_stored(admin: Admin) -> bool:
    by = Principal("acme", "ann", frozenset({Scope.TASKS}))
    return not admin.site.app.scheduler.tasks.list(by=by).views and not admin.site.app.scheduler.tasks.list().views


# --- every answer


@pytest.mark.parametrize("path", ["", "/nothing", "/login", "/static/admin.css", "/live"])
async def test_every_answer_forbids_scripts_frames_and_guesses(admin_page: Open, path: str) -> None:
    admin = await admin_page(auth=("keys",))
    answer = await admin.get(path)
    policy = answer.headers["content-security-policy"]
    assert {"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} <= {
        part.strip() for part in policy.split(";")
    }
    assert "unsafe" not in policy
    expected = {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }
    assert {name: answer.headers.get(name) for name in expected} == expected
    assert ("immutable" if "static" in path else "no-store") in answer.headers["cache-control"]


@pytest.mark.parametrize("is_in", [False, True])
@pytest.mark.parametrize(
    "path", ["", "/", "/runs?q=tea", "/runs?format=csv", "/nothing", "/login", "/static/admin.css"]
)
async def test_an_answer_to_head_has_the_headers_of_that_to_get_and_no_body(
    admin_page: Open, path: str, *, is_in: bool
) -> None:
    admin = await admin_page(**({} if is_in else {"auth": ("keys",)}))
    whole, head = [await admin.http.request(method, f"/admin{path}") for method in ("GET", "HEAD")]
    assert (head.status_code, head.content) == (whole.status_code, b"")
    unlike = {"set-cookie", "content-length"}
    assert {name: head.headers[name] for name in head.headers.keys() - unlike} == {
        name: whole.headers[name] for name in whole.headers.keys() - unlike
    }


async def test_a_value_written_into_a_page_is_text(admin_page: Open) -> None:
    admin = await admin_page()
    missing = await admin.get(f"/{SCRIPT}?q={SCRIPT}&tenant={SCRIPT}")
    assert missing.status_code == 404
    assert "<script>alert" not in missing.text


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example",
        "/admin/\\evil.example",
        "//evil.example",
        "/admin\\@evil",
        "/administrator",
        "/mcp",
        "/admin/\n",
        "",
    ],
)
def test_a_login_leads_nowhere_else(wanted: str) -> None:
    assert path_of({"next": wanted}, "next") == "/admin"


# --- lifetimes


def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
    now = [0.0]
    sessions = Sessions(Seal(lambda: b"key"), lambda: now[0])
    session = sessions.new(key_id="k")
    cookie = sessions.write(session)
    now[0] = IDLE_LIFETIME_S
    assert sessions.read(cookie) == session
    now[0] += 1
    assert sessions.read(cookie) is None
    now[0] = 0
    while now[0] + SEEN_INTERVAL_S <= LIFETIME_S:
        now[0] += SEEN_INTERVAL_S
        session = sessions.seen(session) or session
    assert sessions.read(sessions.write(session)) is not None
    now[0] = LIFETIME_S + 1
    assert sessions.read(sessions.write(session)) is None


async def test_an_automatic_request_of_a_page_keeps_no_session_alive(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    assert "set-cookie" not in (await admin.get("", **{"X-Duetime-Live": "1"})).headers


@pytest.mark.parametrize("path", ["/login", "/schedule"])
async def test_a_form_that_is_too_long_is_refused_while_it_arrives(admin_page: Open, path: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"a" * 65_536

    admin = await admin_page(auth=("keys",))
    answer = await admin.http.post(f"/admin{path}", content=endless(), headers={"Origin": ORIGIN})
    assert answer.status_code == 413
    assert "1048576 bytes" in answer.text
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
