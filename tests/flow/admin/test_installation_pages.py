"""Pages of what tenants share: pools with their use and holders, and workers with what each runs."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from html import unescape

import pytest
import time_machine
from duetime import Context, Done, handler
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.handlers import Handler
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import PoolUse, Stats, ThreadUse
from duetime.scheduler.queue.remote import RemoteQueue
from duetime.scheduler.records import WorkerProcess
from duetime.server.admin.pages.timeline import MIN_WIDTH_RATIO
from duetime.server.app import App

from tests.flow.admin.conftest import Admin, Open, found_shown
from tests.flow.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.anyio

GPU = '{"kind": "slots", "capacity": 2}'


@pytest.fixture
def render() -> Iterator[Handler]:
    """Return a handler that runs until the test ends."""
    ended = threading.Event()

    @handler("render", needs={"gpu": 1})
    def run(_: Context) -> Done:
        ended.wait(PATIENCE_S)
        return Done("rendered")

    yield run
    ended.set()


def running(app: App, title: str) -> None:
    """Schedule a task and wait until it runs."""
    app.scheduler.schedule(title, action="render", by=Principal("acme", "ann"))
    eventually(lambda: list(app.store.claims.running(limit=1)), "the run to start")


async def test_a_pool_is_declared_changed_and_removed_by_forms(admin_page: Open) -> None:
    admin = await admin_page()
    assert "Nothing is limited yet" in (await admin.get("/pools")).text
    moved = await admin.post("/pools", page="/pools", name="gpu", spec=GPU)
    assert moved.headers["location"] == "/admin/pools/gpu"
    assert "gpu: slots, " in (await admin.get("/pools/gpu")).text
    await admin.post("/pools/gpu", page="/pools/gpu", spec=GPU.replace("2", "5"))
    assert admin.site.app.registry.read()["gpu"].capacity == 5
    await admin.post("/pools/gpu/remove", page="/pools/gpu")
    assert "gpu" not in admin.site.app.registry.read()


async def test_a_pool_that_another_operator_has_changed_is_not_overwritten(admin_page: Open) -> None:
    admin = await admin_page()
    await admin.post("/pools", page="/pools", name="gpu", spec='{"capacity": 2, "price": "0.25"}')
    opened = found_shown((await admin.get("/pools/gpu")).text)
    await admin.post("/pools/gpu", page="/pools/gpu", spec='{"capacity": 3}')
    late = await admin.post("/pools/gpu", spec='{"capacity": 9}', **opened)
    assert (late.status_code, "3 slots" in late.text) == (409, True)
    removed = await admin.post("/pools/gpu/remove", **opened)
    assert (removed.status_code, "3 slots" in removed.text) == (409, True)
    assert admin.site.app.registry.read()["gpu"].capacity == 3


@pytest.mark.parametrize("spec", ['{"capacity": 1, "capacity": 100}', '{"capacity": NaN}', "[" * 100_000])
async def test_a_declaration_that_readers_of_json_take_differently_is_refused(admin_page: Open, spec: str) -> None:
    admin = await admin_page()
    refused = await admin.post("/pools", page="/pools", name="gpu", spec=spec)
    assert refused.status_code == 400
    assert "declaration: it is not JSON: " in refused.text
    assert admin.site.app.registry.get("gpu") is None


async def test_the_use_of_a_pool_is_not_shown_before_its_new_limit_is_in_force(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await admin_page(pools={"gpu": {"capacity": 7}})
    shown = []
    for capacity, state in ((0, "closed"), (7, "admitting")):
        use = PoolUse(capacity, used=0, spent=0, free=capacity, factor=1, parked=0, state=state)
        monkeypatch.setattr(RemoteQueue, "stats", lambda _, it=use: Stats((), 0, 0, 0, {"gpu": it}))
        one, every = await admin.get("/pools/gpu"), await admin.get("/pools")
        shown.append(("new limit is not in force yet" in one.text, "free</dd>" in one.text, state in every.text))
    assert shown == [(True, False, False), (False, True, True)]


async def test_a_pool_that_is_there_is_not_declared_again_and_what_was_typed_is_kept(admin_page: Open) -> None:
    admin = await admin_page()
    await admin.post("/pools", page="/pools", name="gpu", spec=GPU)
    again = await admin.post("/pools", page="/pools", name="gpu", spec='{"capacity": 7}', reason="more work")
    page = unescape(again.text)
    assert (again.status_code, admin.site.app.registry.read()["gpu"].capacity) == (400, 2)
    assert "name: 'gpu' is a pool already (2 slots)." in page
    assert '<a href="/admin/pools/gpu">Open it</a>' in page
    for kept in ('name="name" value="gpu"', '{"capacity": 7}</textarea>', 'name="reason" value="more work"'):
        assert kept in page


async def test_a_stale_change_of_a_pool_is_kept_and_made_when_it_is_sent_again(admin_page: Open) -> None:
    admin = await admin_page()
    await admin.post("/pools", page="/pools", name="gpu", spec=GPU)
    opened = found_shown((await admin.get("/pools/gpu")).text)
    await admin.post("/pools/gpu", page="/pools/gpu", spec='{"capacity": 3}')
    late = await admin.post("/pools/gpu", spec='{"capacity": 9}', **opened)
    assert '{"capacity": 9}</textarea>' in unescape(late.text)
    done = await admin.post("/pools/gpu", spec='{"capacity": 9}', **found_shown(late.text))
    assert (done.status_code, admin.site.app.registry.read()["gpu"].capacity) == (303, 9)


@pytest.mark.parametrize("spec", ["{", "[]", '{"capacity": -1}', '{"capacitee": 2}'])
async def test_a_wrong_declaration_is_refused_with_an_example_and_changes_nothing(admin_page: Open, spec: str) -> None:
    admin = await admin_page()
    refused = await admin.post("/pools", page="/pools", name="gpu", spec=spec)
    assert refused.status_code == 400
    assert "capacit" in refused.text
    assert '<textarea name="spec" rows="8" cols="60" spellcheck="false" aria-invalid="true"' in refused.text
    assert not admin.site.app.registry.read()


@pytest.mark.parametrize("form", ["csv", "json"])
async def test_pools_workers_and_the_time_line_are_saved_as_files(admin_page: Open, render: Handler, form: str) -> None:
    admin = await admin_page(handlers=[render], pools={"gpu": {"capacity": 2}})
    running(admin.site.app, "Render the film")
    (run,) = admin.site.app.scheduler.past.runs(limit=1, by=Principal("acme", "ann")).runs
    for name, shown in (("pools", "gpu"), ("workers", run.worker), ("timeline", "Render the film")):
        page = (await admin.get(f"/{name}")).text
        assert f"/admin/{name}?format={form}" in page
        answer = await admin.get(f"/{name}?format={form}")
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}.{form}"'
        rows = list(csv.DictReader(io.StringIO(answer.text))) if form == "csv" else json.loads(answer.text)[name]
        assert any(shown in row.values() for row in rows), rows
        assert (await admin.get(f"/{name}?format=pdf")).status_code == 400


async def test_a_run_that_has_just_begun_is_seen_at_the_end_of_the_time_line(admin_page: Open, render: Handler) -> None:
    admin = await admin_page(handlers=[render], pools={"gpu": {"capacity": 2}})
    running(admin.site.app, "Render the film")
    page = (await admin.get("/timeline?window=24h")).text
    [(left, width)] = re.findall(r'<rect [^>]*x="([\d.]+)%" width="([\d.]+)%"', page)
    assert float(width) >= 100 * MIN_WIDTH_RATIO
    assert float(left) + float(width) <= 100


async def test_a_pool_names_its_holders_and_a_worker_what_it_runs(admin_page: Open, render: Handler) -> None:
    admin = await admin_page(handlers=[render], pools={"gpu": {"capacity": 2}})
    running(admin.site.app, "Render <b>the</b> film")
    pool = (await admin.get("/pools/gpu")).text
    assert "Render &lt;b&gt;the&lt;/b&gt; film" in pool
    assert "Held by <small>1 run</small>" in pool
    assert "1 of 2, 1 free" in " ".join(pool.split())
    workers = (await admin.get("/workers")).text
    assert "Render &lt;b&gt;the&lt;/b&gt; film" in workers
    assert 'data-state="running"' in workers


async def test_workers_elsewhere_are_listed_with_what_each_holds(admin_page: Open) -> None:
    admin = await admin_page(external_actions={"transcribe": {"description": "Transcribes"}})
    app = admin.site.app
    app.start()
    view = app.scheduler.schedule("Transcribe <b>it</b>", action="transcribe")
    runs = app.scheduler.external_runs
    assert runs is not None
    agent = Principal("acme", "<i>agent</i>", operator=True)
    eventually(lambda: bool(runs.claim(by=agent, client="claude")), "the run is claimed")
    shown = (await admin.get("/workers")).text
    here, elsewhere = shown.split("<h2>Workers elsewhere</h2>")
    assert "Transcribe" not in here
    for text in ("Transcribe &lt;b&gt;it&lt;/b&gt;", "&lt;i&gt;agent&lt;/i&gt;", "claude", 'data-state="running"'):
        assert text in elsewhere
    run_page, title = f"/runs/{view.record.run.id}", '<h2 id="why" class="inline">What it waits for</h2>'
    assert 'id="why"' not in (await admin.get(run_page)).text
    app.scheduler.cancel(view.record.task.id)
    stopping = unescape((await admin.get(run_page)).text)
    assert title in stopping
    assert "its worker mcp:acme/<i>agent</i> to stop: its next heartbeat asks it to" in stopping


async def test_the_page_of_a_pool_says_what_its_removal_does_to_its_runs(admin_page: Open) -> None:
    admin = await admin_page()
    for name in ("gpu", "tenant:acme"):
        await admin.post(f"/pools/{name}", page="/pools", spec=GPU)
    assert "held until it is declared again" in (await admin.get("/pools/gpu")).text
    assert "fall under tenant:*" in (await admin.get("/pools/tenant:acme")).text


async def test_a_worker_shows_the_threads_that_its_busy_machine_withholds(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = await admin_page()
    assert "short of memory or CPU" not in (await admin.get("/workers")).text
    stats = Stats((0,) * 5, 0, 0, 0, {}, {"w1": ThreadUse(8, 3, withheld=5)})
    monkeypatch.setattr(admin.site.app.remote_queue, "stats", lambda: stats)
    shown = (await admin.get("/workers")).text
    assert '<td class="number" data-name="Withheld">5</td>' in shown
    assert "Withheld threads start nothing while their machine is short of memory or CPU." in shown


async def test_a_worker_is_drained_and_resumed_with_a_reason(admin_page: Open) -> None:
    admin = await admin_page()
    store = admin.site.app.store
    store.workers.beat(WorkerProcess("w1", "host-a", 4711, threads=4, started_at=store.now()))
    assert "/admin/workers/w1/drain" in (await admin.get("/workers")).text
    await admin.post("/workers/w1/drain", page="/workers", now="yes", reason="upgrade")
    drained = (await admin.get("/workers")).text
    assert 'data-state="draining"' in drained
    assert "/admin/workers/w1/resume" in drained
    await admin.post("/workers/w1/resume", page="/workers")
    assert 'data-state="running"' in (await admin.get("/workers")).text
    entries = store.audit.page("local", AuditFilter(), limit=9).entries
    assert [(each.kind.value, each.subject, each.reason) for each in entries] == [
        ("worker_resumed", "w1", None),
        ("worker_drained", "w1", "upgrade"),
    ]


async def test_without_a_process_that_runs_tasks_the_use_is_said_to_be_unknown(admin_page: Open) -> None:
    admin = await admin_page(pools={"gpu": {"capacity": 2}})
    assert "the use of pools is not known now" in (await admin.get("/pools")).text
    assert "No worker process has reported lately" in (await admin.get("/workers")).text


async def test_an_unknown_pool_is_not_found(admin_page: Open) -> None:
    answer = await (await admin_page()).get("/pools/nothing")
    assert answer.status_code == 404
    assert "no pool 'nothing'" in unescape(answer.text)


async def test_a_wrong_declaration_comes_back_with_what_was_typed(admin_page: Open) -> None:
    answer = await (await admin_page()).post("/pools", name="gpu", spec='{"capacity": }')
    page = unescape(answer.text)
    assert answer.status_code == 400
    assert '<form method="post" action="/admin/pools"' in page
    assert '<input name="name" value="gpu"' in page
    assert 'aria-describedby="problem">{"capacity": }</textarea>' in page


async def _status(admin: Admin, path: str) -> tuple[int, bool]:
    answer = await admin.get(path)
    return answer.status_code, "Declare a pool" in answer.text


@pytest.mark.parametrize("path", ["/pools", "/workers"])
async def test_only_operators_see_what_tenants_share(admin_page: Open, path: str) -> None:
    admin = await admin_page(auth=("keys",))
    await admin.enter("admin", tenant="acme")
    assert await _status(admin, path) == (403, False)
    assert 'href="/admin/pools"' not in (await admin.get("")).text
    await admin.enter("admin:read", tenant="local")
    assert await _status(admin, path) == (200, False), "and one who only reads has no button"
    assert (await admin.post("/pools", page="/pools", name="gpu", spec=GPU)).status_code == 403
    await admin.enter("admin", tenant="local")
    assert (await _status(admin, "/pools")) == (200, True)


async def test_silent_workers_stand_behind_the_live_ones_and_have_no_button(admin_page: Open) -> None:
    admin = await admin_page()
    store, now = admin.site.app.store, admin.site.app.store.now()
    with time_machine.travel(now - timedelta(minutes=5), tick=False):
        store.workers.beat(WorkerProcess("gone", "host-a", 1, threads=4, started_at=now - timedelta(hours=1)))
    store.workers.beat(WorkerProcess("awake", "host-b", 2, threads=4, started_at=now))
    page = (await admin.get("/workers")).text
    assert re.findall(r'<th scope="row" class="title">(\w+)', page) == ["awake", "gone"]
    assert re.findall(r'action="/admin/workers/(\w+)/drain"', page) == ["awake"]
    rows = json.loads((await admin.get("/workers?format=json")).text)["workers"]
    assert [(row["worker"], row["state"]) for row in rows] == [("awake", "running"), ("gone", "silent")]
