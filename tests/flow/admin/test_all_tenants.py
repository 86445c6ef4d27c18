"""`*` in the field of the tenant stands for all of them on every page, as on the command line and over REST."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.scheduler.audit.entry import AuditFilter
from duetime.server.admin.routes import PAGE_ROUTES

from tests.flow.admin.conftest import Admin, Open
from tests.flow.auth.conftest import bearer

pytestmark = pytest.mark.anyio

PAGES = [each.path for of in PAGE_ROUTES for each in of if each.method == "GET" and "{" not in each.path]
OF_REST = {
    "/runs": ("/v1/runs?tenant=*&limit=100", "runs", "id"),
    "/dead": ("/v1/dead_letters?tenant=*&limit=100", "dead_letters", "run_id"),
}
"""Pages with a list over REST: its path, the name of its rows, and what names a row."""


@pytest.fixture
async def house(tmp_path: Path, day_of_two: bytes, admin_page: Open) -> Admin:
    """Serve two tenants, and log an operator of a third one in."""
    (tmp_path / "duetime.db").write_bytes(day_of_two)
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin", tenant="house")
    return admin


async def shown(admin: Admin, path: str, tenant: str) -> str:
    """Return what a page shows, without what differs from one request to the next."""
    page = await admin.get(f"{path if path != '/' else ''}?tenant={tenant}")
    assert page.status_code == 200, page.text
    text = page.text.replace('value="*" maxlength', 'value="" maxlength').replace(' class="set"', "")
    text = re.sub(r"in \d+ ms<", "in some ms<", text)
    text = re.sub(r"tenant=(%2A|\*)?(&amp;)?", "", text)
    text = re.sub(r'<input type="hidden" name="tenant" value="\*?">', "", text)
    return " ".join(text.split()).replace("?&", "?").replace('?"', '"')


@pytest.mark.parametrize("path", PAGES)
async def test_a_star_in_the_field_of_the_tenant_shows_what_the_empty_field_does(house: Admin, path: str) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False):
        empty, star = await shown(house, path, ""), await shown(house, path, "*")
    assert star == empty
    read = house.site.app.store.audit.page("house", AuditFilter(kind="other_tenant_read"), limit=9).entries
    of_all = not path.startswith("/audit")  # without a tenant these show the operator's own, whose reads are no entries
    assert [(each.subject, each.detail) for each in read] == [(path, {"tenants": "*"})] * of_all
    assert "*" not in {head.tenant for head in house.site.app.store.audit_chain.heads(None)}
    assert not house.site.app.store.audit.page("*", AuditFilter(), limit=9).entries


async def test_a_star_shows_what_rest_answers_for_all_tenants(house: Admin) -> None:
    token = house.site.key("house", scopes=("tasks", "admin"))

    async def asked(path: str) -> Any:
        return (await house.http.get(path, headers=bearer(token))).json()

    async def saved(path: str, rows: str) -> Any:
        return json.loads((await house.get(f"{path}?tenant=*&format=json")).text)[rows]

    for page, (path, rows, name) in OF_REST.items():
        found = (await asked(path))[rows]
        assert {row["tenant"] for row in found} == {"acme", "globex"}
        assert {row[name] for row in found} == {row[name] for row in await saved(page, rows)}
    costs = await asked("/v1/costs?tenant=*&group=tenant&since=30d")
    assert f"{costs['total']} {costs['currency']}" in (await house.get("/cost?tenant=*")).text
    by_tenant = await asked("/v1/costs?group=tenant&since=30d")
    assert {each["key"] for each in by_tenant["costs"]} == {"acme", "globex"}, "an operator's are of all tenants"
    assert (by_tenant["costs"], by_tenant["total"]) == (costs["costs"], costs["total"])
    of_acme = bearer(house.site.key("acme", scopes=("tasks", "admin")))
    own = (await house.http.get("/v1/costs?group=tenant&since=30d", headers=of_acme)).json()
    assert own["costs"] == [each for each in costs["costs"] if each["key"] == "acme"]
    assert (await house.http.get("/v1/costs?group=tenant&tenant=*", headers=of_acme)).status_code == 403
    letters = (await asked(OF_REST["/dead"][0]))["dead_letters"]
    overview = " ".join((await house.get("?tenant=*")).text.split())
    assert re.search(rf"<b>{len(letters)}</b><small>dead letters?</small>", overview)
    assert "Oldest" in overview
