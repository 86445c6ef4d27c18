"""`/metrics`: who may read it, what it says of an installation, and what it never says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import Quota
from duetime.scheduler.request import Request
from duetime.scheduler.task import State
from duetime.server.app import build
from duetime.server.telemetry.metrics.metrics import Metrics
from prometheus_client.parser import text_string_to_metric_families

from tests.flow.auth.conftest import Serve, Site, bearer
from tests.flow.test_app import settings
from tests.flow.waiting import eventually

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
CANARY = "canary4711"
REFUSALS = "duetime_refusals_total"


Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Samples:
    """Read a scrape as Prometheus does."""
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


async def scraped(site: Site) -> Samples:
    return read((await site.http.get("/metrics")).text)


async def test_every_call_of_a_tool_is_counted_with_its_outcome(serve: Serve) -> None:
    site = await serve()
    await site.call(None, "schedule_task", title="Stretch", when="in 2 hours")
    await site.call(None, "get_task", task_id="t_000000000000")
    found = await scraped(site)
    assert value(found, "duetime_tool_calls_total", tool="schedule_task", outcome="ok") == 1
    assert value(found, "duetime_tool_calls_total", tool="get_task", outcome="not_found") == 1
    assert value(found, "duetime_refusals_total", reason="not_found") == 1
    assert value(found, "duetime_tool_call_duration_seconds_count", tool="schedule_task") == 1


async def test_every_request_of_the_rest_api_is_counted_with_its_status(serve: Serve) -> None:
    site = await serve()
    await site.http.post("/v1/tasks", json={"title": "Stretch", "when": "in 2 hours"})
    await site.http.get("/v1/tasks/t_000000000000")
    await site.http.get("/v1/nothing")
    found = await scraped(site)
    assert value(found, "duetime_rest_requests_total", operation="schedule_task", status="201") == 1
    assert value(found, "duetime_rest_requests_total", operation="get_task", status="404") == 1
    assert value(found, "duetime_rest_request_duration_seconds_count", operation="schedule_task") == 1


async def test_a_refused_request_of_the_rest_api_is_counted_by_the_code_of_its_problem(serve: Serve) -> None:
    site = await serve()
    await site.http.get("/v1/tasks/t_000000000000")
    await site.http.post("/v1/tasks", json={"title": "Stretch", "when": f"{CANARY} o'clock"})
    await site.http.post("/v1/tasks", content=b"{")
    await site.http.post(f"/v1/fire/{CANARY}")
    found = await scraped(site)
    reasons = {dict(labels)["reason"]: count for (name, labels), count in found.items() if name == REFUSALS}
    assert reasons == {"not_found": 2, "invalid_argument": 1, "malformed": 1}


async def test_a_request_that_is_refused_before_it_is_served_is_counted_by_its_code(serve: Serve) -> None:
    site = await serve(auth="keys", tenant_calls_per_minute=2)
    operator = bearer(site.key("local", "ops", scopes=("admin:read",)))
    await site.http.get("/metrics", headers=operator)
    key, reader = site.key("acme", "ann"), site.key("globex", "bob", scopes=("admin:read",))
    for _ in range(3):
        await site.modern(key, "tools/list")
    await site.http.get("/v1/tasks", headers=bearer(key))
    await site.modern("dt_7k3m9qx2w4hb_" + "0" * 64, "tools/list")
    await site.modern(reader, "tools/list")
    lines = (await site.http.get("/metrics", headers=operator)).text.splitlines()
    counted = {line for line in lines if line.startswith("duetime_refusals_total{")}
    assert counted == {
        'duetime_refusals_total{reason="too_many_calls"} 2.0',
        'duetime_refusals_total{reason="invalid_token"} 1.0',
        'duetime_refusals_total{reason="insufficient_scope"} 1.0',
    }


async def test_a_stream_that_is_refused_is_counted_as_a_request(serve: Serve) -> None:
    site = await serve()
    await site.http.get("/metrics")
    await site.http.get("/v1/changes?seconds=nonsense")
    text = (await site.http.get("/metrics")).text
    assert 'duetime_rest_requests_total{operation="stream_changes",status="400"} 1.0' in text


async def test_tasks_that_a_quota_keeps_out_are_counted_by_the_quota_whoever_schedules_them(serve: Serve) -> None:
    site = await serve(tenant_open_tasks=1, tenant_schedules_per_minute=9)
    task = {"title": "Stretch", "when": "in 2 hours"}
    await site.call(None, "schedule_task", **task)
    await site.call(None, "schedule_task", **{**task, "title": "Walk"})
    await site.http.post("/v1/tasks", json=task)
    found = await scraped(site)
    counted = {quota: value(found, "duetime_refused_admissions_total", reason=quota) for quota in Quota}
    assert counted == {**dict.fromkeys(Quota, 0), Quota.OPEN_TASKS: 2}
    assert value(found, REFUSALS, reason="refused") == 2


async def test_an_idle_server_says_that_its_database_answers_and_that_nobody_runs_tasks(serve: Serve) -> None:
    site = await serve()
    await site.call(None, "schedule_task", title="Stretch", when="in 2 hours", priority="high")
    found = await scraped(site)
    assert value(found, "duetime_database_up") == 1
    assert value(found, "duetime_queue_up") == 0, "the runner was never started"
    assert value(found, "duetime_open_runs", state="scheduled", tier="high") == 1
    assert value(found, "duetime_starvation_index", tier="critical") == 0
    assert value(found, "duetime_database_round_trip_seconds_count") == 1


async def test_the_used_part_of_the_disk_of_a_sqlite_file_is_a_metric(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(total=1000, free=250)
    monkeypatch.setattr("duetime.scheduler.store.database.sqlite.shutil.disk_usage", lambda _: disk)
    assert value(await scraped(await serve()), "duetime_database_disk_used_ratio") == 0.75


async def test_rows_that_a_process_tries_in_vain_to_write_are_counted(serve: Serve) -> None:
    site = await serve()
    unwritable = site.app.store._database.unwritable
    for row_id in ("r_1", "r_2", "r_1"):
        unwritable.is_news(row_id)
    assert value(await scraped(site), "duetime_unwritable_rows") == 2


async def test_metrics_are_for_operators_where_callers_prove_who_they_are(serve: Serve) -> None:
    site = await serve(auth="keys", operator_tenant="ops")
    keys = {
        "nobody": None,
        "a user": site.key("ops", scopes=["tasks"]),
        "another tenant's administrator": site.key("acme", scopes=["admin"]),
        "an operator": site.key("ops", scopes=["admin:read"]),
    }
    found = {who: await site.http.get("/metrics", headers=bearer(key) if key else {}) for who, key in keys.items()}
    assert [answer.status_code for answer in found.values()] == [401, 403, 403, 200]
    assert "duetime_" not in "".join(answer.text for answer in list(found.values())[:3]).replace("duetime_metrics", "")


async def test_a_foreign_page_cannot_read_metrics_by_rebinding_a_name(serve: Serve) -> None:
    site = await serve()
    assert (await site.http.get("/metrics", headers={"Host": "evil.example.com"})).status_code == 421


async def test_a_scrape_says_which_format_it_has(serve: Serve) -> None:
    site = await serve()
    answer = await site.http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_a_run_is_counted_from_its_start_to_its_end_and_no_word_of_it_is_named(tmp_path: Path) -> None:
    told = Request(f"{CANARY} title", when="now", payload={"message": f"{CANARY} message"}, labels=[f"{CANARY}=1"])
    with build(settings(tmp_path, pools={"tenant:*": {"capacity": 9}, "gpu": {"capacity": 2}})) as app:
        metrics = Metrics(app, app.settings, role="serve")
        app.start()
        by = Principal(f"{CANARY}-tenant", f"{CANARY}-user")
        task = app.scheduler.submit(told, by=by).record.task
        app.scheduler.schedule(f"{CANARY} late", when="in 2 hours", needs={"gpu": 1}, by=by)

        def ended() -> bool:
            return app.scheduler.get(task.id, by=by).record.run.state is State.SUCCEEDED

        eventually(ended, "the end of the run")
        text = metrics.text()[0].decode()
    found = read(text)
    labels = {"tier": "normal", "action": "reminder"}
    assert value(found, "duetime_runs_total", state="succeeded", **labels) == 1
    assert value(found, "duetime_dispatch_latency_seconds_count", tier="normal") == 1
    assert value(found, "duetime_queue_up") == 1
    assert value(found, "duetime_pool_capacity_units", pool="gpu") == 2
    assert value(found, "duetime_pool_state", pool="gpu", state="admitting") == 1
    assert value(found, "duetime_worker_threads", use="total") == 16
    assert CANARY not in text
    assert task.id not in text


def documented() -> dict[str, tuple[str, str]]:
    """Read the tables of the page: the type and the labels of each metric."""
    rows = re.findall(r"^\| `(duetime_\w+)` \| (\w+) \| ([^|]*)\|", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: (kind, labels.strip()) for name, kind, labels in rows}


def test_the_page_has_a_row_for_each_metric_with_its_type_and_labels(tmp_path: Path) -> None:
    with build(settings(tmp_path)) as app:
        registry = Metrics(app, app.settings, role="serve").registry
        made: list[Any] = [each for each in registry._collector_to_names if hasattr(each, "_name")]
        instruments = {each._name: each._labelnames for each in made}
        families = [family for family in registry.collect() if family.name.startswith("duetime_")]
    found = {
        family.name + ("_total" if family.type == "counter" else ""): (
            family.type,
            ", ".join(instruments.get(family.name, getattr(family, "_labelnames", ()))),
        )
        for family in families
    }
    assert documented() == found
