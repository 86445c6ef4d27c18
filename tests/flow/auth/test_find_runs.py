"""`find_runs`: shown to administrators alone, who see their own tenant; operators see all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.runs import RunFilter
from duetime.tools.admin.find_runs import FIND_RUNS

from tests.flow.auth.conftest import Site, serving

pytestmark = pytest.mark.anyio
ADMIN = ("tasks", "admin:read")
CHARS_PER_TOKEN = 4


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys") as found:
        yield found


async def tools(site: Site, token: str) -> list[str]:
    listed = (await site.modern(token, "tools/list")).json()["result"]["tools"]
    return [tool["name"] for tool in listed]


async def cancelled(site: Site, token: str, title: str) -> None:
    made = await site.call(token, "schedule_task", title=title, when="in 2 hours")
    await site.call(token, "cancel_task", task_id=made["structuredContent"]["id"])


async def found(site: Site, token: str, **arguments: object) -> list[str]:
    answer: dict[str, Any] = await site.call(token, "find_runs", **arguments)
    assert not answer.get("isError"), answer
    return [run["title"] for run in answer["structuredContent"]["runs"]]


async def test_only_administrators_are_shown_it_and_may_call_it(site: Site) -> None:
    ordinary, admin = site.key(), site.key(scopes=ADMIN)
    assert "find_runs" not in await tools(site, ordinary)
    assert (await tools(site, admin))[-1] == "find_runs"
    refused = await site.call(ordinary, "find_runs")
    assert refused["isError"]
    assert "admin:read" in refused["content"][0]["text"]
    assert len(json.dumps(refused)) < 1_024


async def test_an_administrator_finds_the_runs_of_the_own_tenant_alone(site: Site) -> None:
    await cancelled(site, site.key("acme", "ann"), "Ours")
    await cancelled(site, site.key("globex", "bob"), "Theirs")
    admin = site.key("acme", "boss", scopes=ADMIN)
    assert await found(site, admin, state="cancelled") == ["Ours"]
    assert await found(site, admin, text="theirs") == []
    assert await found(site, admin, actor="ann") == ["Ours"]
    for other in ("globex", "*"):
        refused = await site.call(admin, "find_runs", tenant=other)
        assert refused["isError"]
        assert "operator" in refused["content"][0]["text"]


async def test_an_operator_finds_the_runs_of_all_tenants_and_counts_them(site: Site) -> None:
    await cancelled(site, site.key("acme", "ann"), "Ours")
    await cancelled(site, site.key("globex", "bob"), "Theirs")
    operator = site.key("local", "root", scopes=ADMIN)
    assert sorted(await found(site, operator, tenant="*")) == ["Ours", "Theirs"]
    counted = await site.call(operator, "find_runs", tenant="*", count_by="tenant")
    assert counted["structuredContent"]["counts"] == {"acme": 1, "globex": 1}


def reads(site: Site, tenant: str) -> list[tuple[str, str | None, str | None]]:
    """Return who read a tenant's rows as one of another tenant: user, tenant, and what."""
    page = site.app.store.audit.page(tenant, AuditFilter(kind="other_tenant_read", surface="mcp"), limit=9)
    return [(entry.actor, entry.actor_tenant, entry.subject) for entry in page.entries]


@pytest.mark.parametrize(
    "asked",
    [{}, {"event": "any"}, {"count_by": "state"}, {"count_by": "day"}, {"event": "any", "count_by": "state"}],
)
async def test_a_read_of_another_tenant_is_in_its_audit_log_once(site: Site, asked: dict[str, str]) -> None:
    await cancelled(site, site.key("acme", "ann"), "Ours")
    operator = site.key("local", "root", scopes=ADMIN)
    await site.call(operator, "find_runs", tenant="acme", **asked)
    assert reads(site, "acme") == [("root", "local", None)]
    await site.call(operator, "find_runs", tenant="*", **asked)
    assert reads(site, "local") == [("root", None, "*")]


async def test_a_read_of_a_tenant_that_nobody_knows_begins_no_log_of_its_own(site: Site) -> None:
    operator = site.key("local", "root", scopes=ADMIN)
    await site.call(operator, "find_runs", tenant="ghost")
    [read] = site.app.store.audit.page("local", AuditFilter(kind="other_tenant_read"), limit=9).entries
    assert (read.actor, read.actor_tenant, read.detail) == ("root", None, {"tenants": "ghost"})
    assert reads(site, "ghost") == []


async def test_a_read_of_the_own_tenant_and_one_that_is_refused_are_in_no_log(site: Site) -> None:
    admin, operator = site.key("acme", "boss", scopes=ADMIN), site.key("local", "root", scopes=ADMIN)
    await site.call(operator, "find_runs")
    await site.call(operator, "find_runs", tenant="local")
    for other in ("local", "*"):
        assert (await site.call(admin, "find_runs", tenant=other))["isError"]
    assert (await site.call(operator, "find_runs", tenant=" acme"))["isError"]
    assert (reads(site, "acme"), reads(site, "local")) == ([], [])


async def test_an_answer_is_frugal_and_leads_on(site: Site) -> None:
    ours, admin = site.key(), site.key(scopes=ADMIN)
    for number in range(3):
        await cancelled(site, ours, f"Report {number}")
    first = await site.call(admin, "find_runs", limit=2)
    assert len(json.dumps(first)) < 1_600
    cursor = first["structuredContent"]["cursor"]
    assert await found(site, admin, limit=2, cursor=cursor) == ["Report 0"]


async def test_an_answer_without_a_run_says_that_those_to_come_are_left_out(site: Site) -> None:
    admin = site.key(scopes=ADMIN)
    left_out = "No run matches. Runs that are to come are left out: state='scheduled' finds them."
    for given, said in (({}, left_out), ({"count_by": "state"}, left_out), ({"state": "failed"}, "No run matches.")):
        answer = await site.call(admin, "find_runs", **given)
        assert answer["content"][0]["text"] == said


async def test_every_filter_of_the_history_is_an_argument(site: Site) -> None:
    of_other_names = {"states": "state", "standing": "state", "or_begun": "until", "unpaused": "state"} | {
        "tier": "priority",
        "started_before": "until",
    }
    filters = {of_other_names.get(each.name, each.name) for each in dataclasses.fields(RunFilter)}
    assert filters <= set(FIND_RUNS.read().table)
    await cancelled(site, site.key(), "Report")
    admin = site.key(scopes=ADMIN)
    for given in ({"pool": "gpu"}, {"min_delay": "1 min"}, {"min_duration": 1}, {"pool": "gpu", "min_units": 5}):
        assert await found(site, admin, **given) == []
    assert await found(site, admin, title="REP") == ["Report"]
    assert await found(site, admin, error="rep") == []


async def test_it_answers_by_event_as_well_of_the_own_tenant_alone(site: Site) -> None:
    for tenant in ("acme", "globex"):
        await cancelled(site, site.key(tenant, "ann"), f"Report of {tenant}")
    admin = site.key("acme", "boss", scopes=ADMIN)
    answer = (await site.call(admin, "find_runs", event="any", actor="ann"))["structuredContent"]
    assert [event["kind"] for event in answer["events"]] == ["cancelled", "created"]
    assert {event["title"] for event in answer["events"]} == {"Report of acme"}
    for given in (
        {"event": "created", "priority": "high"},
        {"event": "any", "worker": "w1"},
        {"event": "any", "error": "x"},
        {"event": "any", "title": "globex"},
        {"event": "any", "via": "rest"},
        {"event": "any", "min_duration": "1 s"},
    ):
        assert (await site.call(admin, "find_runs", **given))["structuredContent"]["events"] == []
    for given in ({"title": "of ACME"}, {"via": "mcp"}):
        met = (await site.call(admin, "find_runs", event="any", **given))["structuredContent"]["events"]
        assert [event["kind"] for event in met] == ["cancelled", "created"]
    counted = await site.call(admin, "find_runs", event="any", count_by="state", label="none")
    assert counted["content"][0]["text"] == "No event matches."
    by_day = await site.call(admin, "find_runs", event="created", count_by="day")
    assert by_day["structuredContent"]["buckets"][0]["counts"] == {"created": 1}
    for wrong in (
        {"event": "none"},
        {"event": "any", "pool": "gpu"},
        {"via": "mcp"},
        {"event": "any", "tenant": "globex"},
    ):
        assert (await site.call(admin, "find_runs", **wrong))["isError"], wrong


async def test_every_filter_of_events_is_an_argument() -> None:
    of_other_names = {"kind": "event", "tier": "priority"}
    filters = {of_other_names.get(each.name, each.name) for each in dataclasses.fields(EventFilter)}
    assert filters <= set(FIND_RUNS.read().table)


async def test_runs_are_counted_by_time(site: Site) -> None:
    await cancelled(site, site.key(), "Report")
    counted = await site.call(site.key(scopes=ADMIN), "find_runs", count_by="day", state="cancelled")
    [bucket] = counted["structuredContent"]["buckets"]
    assert bucket["counts"] == {"cancelled": 1}
    assert counted["content"][0]["text"].endswith("1 cancelled")


def test_its_definition_costs_an_administrator_at_most_600_tokens() -> None:
    read = {"name": FIND_RUNS.name, "description": FIND_RUNS.about, "inputSchema": FIND_RUNS.read().schema()}
    assert len(json.dumps(read, separators=(",", ":"))) / CHARS_PER_TOKEN <= 600
