"""The stream of a run's log: each line once, as it comes, and an end with the run."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.run_records import Claim
from duetime.scheduler.task import State

from tests.builders import log_chunk, settlement, started
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import sent
from tests.flow.rest.listening import Listening, listening

pytestmark = pytest.mark.anyio


def running(site: Site, tenant: str = "local", **values: Any) -> Claim:
    return started(site.app.store, site.app.store.now(), tenant=tenant, **values)


def path_of(claim: Claim) -> str:
    return f"/v1/runs/{claim.run.id}/log/stream"


def texts(stream: Listening) -> list[str]:
    return [line["text"] for line in stream.events("line")]


async def test_lines_are_told_as_they_come_and_the_end_of_the_run_ends_the_stream(site: Site) -> None:
    claim = running(site)
    site.app.store.run_logs.write([log_chunk(claim, 1, "begun")])
    async with listening(site, path=path_of(claim)) as stream:
        [first] = await stream.event("line")
        site.app.store.run_logs.write([log_chunk(claim, 2, "halfway", "nearly")])
        await stream.event("line", 3)
        site.app.store.claims.settle([settlement(claim, log=(log_chunk(claim, 4, "done", last=True),))])
        await stream.event("end")
        await stream.over.wait()
    assert (stream.status, first["level"], first["logger"], first["attempt"]) == (200, "info", "shop", 1)
    assert texts(stream) == ["begun", "halfway", "nearly", "done"]


async def test_a_stream_goes_on_behind_the_last_line_that_was_read(site: Site) -> None:
    claim = running(site)
    site.app.store.run_logs.write([log_chunk(claim, 1, "begun", "halfway")])
    async with listening(site, path=path_of(claim), query="seconds=0") as first:
        begun, _ = await first.event("line", 2)
        await first.over.wait()
    site.app.store.claims.settle([settlement(claim, log=(log_chunk(claim, 3, "done", last=True),))])
    async with listening(site, path=path_of(claim), **{"Last-Event-ID": begun["id"]}) as second:
        await second.over.wait()
    assert texts(second) == ["halfway", "done"]
    assert len(second.events("end")) == 1


async def test_the_id_of_a_task_stands_for_the_run_of_now(site: Site) -> None:
    claim = running(site)
    site.app.store.claims.settle(
        [settlement(claim, State.FAILED, reason="no", log=(log_chunk(claim, 1, "last words", last=True),))]
    )
    async with listening(site, path=f"/v1/runs/{claim.task.id}/log/stream") as stream:
        await stream.over.wait()
    assert texts(stream) == ["last words"]


async def test_an_unknown_run_or_place_is_refused_before_a_stream_opens(site: Site) -> None:
    claim = running(site)
    path = path_of(claim).removeprefix("/v1")
    unknown = await sent(site, "GET", "/runs/r_7k3m9qx2w4hb00000000/log/stream")
    wrong = await sent(site, "GET", path, headers={"Last-Event-ID": "soon"})
    named = await sent(site, "GET", f"{path}?second=1")
    assert (unknown.status_code, wrong.status_code, named.status_code) == (404, 422, 400)
    assert wrong.json()["argument"] == "Last-Event-ID"


async def test_a_tenant_follows_no_log_of_another_one(guarded: Site) -> None:
    claim = running(guarded, "acme", title="Import")
    guarded.app.store.run_logs.write([log_chunk(claim, 1, "canary7f3a")])
    path = path_of(claim).removeprefix("/v1")
    refused = await sent(guarded, "GET", path, token=guarded.key("globex", "bob"))
    named = await sent(guarded, "GET", f"{path}?tenant=acme", token=guarded.key("globex", "bob", scopes=("admin",)))
    assert refused.status_code == 404
    assert named.status_code == 403
    assert "canary7f3a" not in refused.text + named.text
    async with listening(guarded, guarded.key("acme", "ann"), path=path_of(claim)) as stream:
        await stream.event("line")
    assert texts(stream) == ["canary7f3a"]
