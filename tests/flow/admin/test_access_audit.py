"""The audit of the admin page: who came in, who was turned away, and what operators read of other tenants."""

from __future__ import annotations

from html import unescape
from http import HTTPStatus

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter
from duetime.scheduler.principal import Principal
from duetime.server.admin import routes
from duetime.server.admin.access.access_audit import MAX_REFUSALS_PER_MINUTE
from duetime.server.admin.answers import Page, get
from duetime.server.admin.page_request import Visit

from tests.flow.admin.conftest import ORIGIN, Admin, Open

pytestmark = pytest.mark.anyio


def entries(admin: Admin, tenant: str, kind: str | None = None) -> list[AuditEntry]:
    """Return the audit log of a tenant, oldest first."""
    found = admin.site.app.store.audit.page(tenant, AuditFilter(kind=kind), limit=1_000).entries
    return list(reversed(found))


async def test_a_copy_of_the_cookie_is_worthless_after_the_log_out(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    [stolen] = [each for each in admin.http.cookies.jar if each.name == "duetime_admin"]
    assert (await admin.post("/logout")).status_code == HTTPStatus.SEE_OTHER
    admin.http.cookies.set("duetime_admin", stolen.value or "", domain=stolen.domain, path="/")
    assert (await admin.get("")).headers["location"] == "/admin/login"
    assert (await admin.get("/live")).status_code == HTTPStatus.UNAUTHORIZED


def known(admin: Admin, tenant: str) -> None:
    """Let a tenant have a task."""
    admin.site.app.scheduler.schedule("Call John", by=Principal(tenant, "ann"), when="in 1 hour")


async def test_the_log_out_of_one_session_ends_no_other_one_of_the_same_key(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    key = await admin.enter("admin")
    await admin.post("/logout")
    await admin.log_in(key)
    assert (await admin.get("")).status_code == HTTPStatus.OK


async def test_logins_and_log_outs_are_recorded_with_their_key_and_address(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    key = await admin.enter("admin:read")
    await admin.post("/logout")
    came, left = entries(admin, "acme")
    assert (came.kind, left.kind) == ("logged_in", "logged_out")
    assert {each.subject for each in (came, left)} == {key.split("_")[1]}
    assert {(each.actor, each.via) for each in (came, left)} == {("ann", "admin 127.0.0.1")}


async def test_a_refused_login_is_recorded_with_the_tenant_whose_key_was_tried(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    narrow = admin.site.key("acme", scopes=("tasks",))
    for key in ("nonsense", narrow):
        await admin.log_in(key)
    [unknown], [known] = entries(admin, "house"), entries(admin, "acme")
    assert (unknown.kind, unknown.actor, unknown.subject) == ("login_refused", "unknown", None)
    assert (known.subject, known.reason) == (narrow.split("_")[1], "its key lacks admin:read")
    assert narrow not in repr(known)
    assert "nonsense" not in repr(unknown)


async def test_a_flood_of_refused_logins_fills_no_database(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    for _ in range(MAX_REFUSALS_PER_MINUTE + 5):
        await admin.log_in("nonsense")
    assert len(entries(admin, "local")) == MAX_REFUSALS_PER_MINUTE


async def test_a_read_of_another_tenant_is_in_the_log_of_that_tenant(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    known(admin, "acme")
    await admin.enter("admin:read", tenant="house", user="root")
    for _ in range(2):
        await admin.get("/runs?tenant=acme&q=invoice")
    await admin.get("/schedules?tenant=acme", **{"X-Duetime-Live": "1"})
    await admin.get("/runs?tenant=house")
    [read] = entries(admin, "acme")
    assert (read.kind, read.actor, read.actor_tenant, read.subject) == ("other_tenant_read", "root", "house", "/runs")
    assert entries(admin, "house", "other_tenant_read") == []
    await admin.get("/runs")
    [of_all] = entries(admin, "house", "other_tenant_read")
    assert of_all.detail == {"tenants": "*"}


@pytest.mark.parametrize("name", ["%20", "acme%0A", "%00", "a%00b", "x" * 300])
@pytest.mark.parametrize("path", ["", "/runs", "/nowhere"])
async def test_a_tenant_that_cannot_exist_is_refused_and_gets_no_chain(
    admin_page: Open, migrated_postgres_url: str, path: str, name: str
) -> None:
    admin = await admin_page(database_url=migrated_postgres_url)
    answer = await admin.get(f"{path}?tenant={name}")
    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert "1 to 200 printable characters" in answer.text
    assert f"/admin?tenant={name}" not in answer.text
    assert chains(admin) == set()


@pytest.mark.parametrize("path", ["/pools/%00", "/pools/a%00b", "/runs/%00"])
async def test_an_address_with_a_character_that_no_name_has_leads_nowhere(
    admin_page: Open, migrated_postgres_url: str, path: str
) -> None:
    admin = await admin_page(database_url=migrated_postgres_url)
    assert (await admin.get(path)).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("path", ["", "/runs", "/runs?format=csv", "/audit", "/audit/verify", "/cost", "/schedules"])
async def test_a_tenant_that_nobody_knows_is_not_found_and_gets_no_chain(admin_page: Open, path: str) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin:read", tenant="house", user="root")
    answer = await admin.get(f"{path}{'&' if '?' in path else '?'}tenant=ghost")
    assert answer.status_code == HTTPStatus.NOT_FOUND
    assert "tenant: there is no 'ghost'" in unescape(answer.text)
    assert '<input name="tenant" value="ghost"' in answer.text, "to be corrected"
    assert "tenant=ghost" not in answer.text, "no link leads on with it"
    assert chains(admin) == {"house"}


@pytest.mark.parametrize("known_by", ["a task", "a key"])
async def test_a_tenant_with_a_task_or_a_key_is_shown_though_nothing_ran_yet(admin_page: Open, known_by: str) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    if known_by == "a task":
        known(admin, "acme")
    else:
        admin.site.key("acme", scopes=("tasks",))
    await admin.enter("admin:read", tenant="house", user="root")
    assert (await admin.get("/runs?tenant=acme")).status_code == HTTPStatus.OK


def chains(admin: Admin) -> set[str]:
    """Return the tenants that have a chain once all is sealed."""
    chain = admin.site.app.store.audit_chain
    while chain.seal():
        pass
    return {head.tenant for head in chain.heads()}


async def test_each_file_of_an_export_is_in_the_log_of_its_tenant(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    known(admin, "acme")
    await admin.enter("admin:read", tenant="house", user="root")
    for path in ("/runs?tenant=acme&format=csv", "/audit?tenant=acme&format=json", "/runs?tenant=acme&format=xml"):
        await admin.get(path)
    await admin.http.head("/admin/runs?tenant=acme&format=csv")  # sends no row
    files = [(each.actor, each.actor_tenant, each.subject) for each in entries(admin, "acme", "exported")]
    assert files == [("root", "house", "runs.csv"), ("root", "house", "audit.json")]
    await admin.get("/runs?format=csv")
    [of_all] = entries(admin, "house", "exported")
    assert (of_all.subject, of_all.detail) == ("runs.csv", {"tenants": "*"})


async def test_a_file_of_the_audit_is_in_the_log_of_the_tenant_that_it_shows(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin:read", tenant="house", user="root")
    await admin.get("/audit?format=csv")
    [of_own] = entries(admin, "house", "exported")
    assert (of_own.subject, of_own.detail) == ("audit.csv", None)
    assert entries(admin, "house", "other_tenant_read") == []


async def test_a_run_of_another_tenant_is_recorded_although_its_address_names_none(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    view = admin.site.app.scheduler.schedule("Call John", by=Principal("acme", "ann"), when="in 1 hour")
    await admin.enter("admin:read", tenant="house")
    assert (await admin.get(f"/runs/{view.record.run.id}")).status_code == HTTPStatus.OK
    assert [each.subject for each in entries(admin, "acme")] == [f"/runs/{view.record.run.id}"]


async def test_a_tenants_administrator_who_reads_his_own_is_not_recorded(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin:read")
    await admin.get("/runs?tenant=globex")
    assert entries(admin, "acme", "other_tenant_read") == []
    assert entries(admin, "globex") == []


def broken(visit: Visit) -> Page:
    return Page("problem.html", f"of {visit.tenant}")


def failing(visit: Visit) -> Page:
    raise ZeroDivisionError(visit.path)


@pytest.mark.parametrize("path", ["/broken", "/failing"])
async def test_a_page_that_fails_still_answers_behind_its_headers(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(
        routes, "PAGE_ROUTES", ((get("/broken", broken), get("/failing", failing)), *routes.PAGE_ROUTES)
    )
    answer = await (await admin_page()).get(path)
    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert "Traceback" not in answer.text
    assert "sentence" not in answer.text


async def test_a_log_out_by_a_foreign_page_is_refused_behind_the_headers(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin")
    refused = await admin.http.post("/admin/logout", data={"csrf_token": "0"}, headers={"Origin": ORIGIN})
    assert refused.status_code == HTTPStatus.FORBIDDEN
    assert "frame-ancestors 'none'" in refused.headers["content-security-policy"]
    assert (await admin.get("")).status_code == HTTPStatus.OK
