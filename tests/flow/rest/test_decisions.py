"""Recorded decisions and the shadow policy over REST: whose they are, and what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import Store

from tests.builders import NOON
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import sent

pytestmark = pytest.mark.anyio

MS = NOON.timestamp() * 1000
OURS, THEIRS = Contender("r_ours", MS - 90_000, "globex"), Contender("r_theirs", MS + 5000, "acme")
TAKEN = Look(MS, 0, 2, (0.0, 1.5, 0.0, 0.0, 0.0), (2.0,) * 5, (None, OURS, None, THEIRS, None), 2, OURS)


async def read(site: Site, path: str, status: int = 200) -> Any:
    answer = await sent(site, "GET", path)
    assert answer.status_code == status, answer.text
    return answer.json()


def recorded(store: Store) -> None:
    """Record that a run of globex went before one of acme, which then lacked a pool."""
    pools = (PoolSeen("cpu", 1, 4), PoolSeen("gpu", 2, 1, "short"))
    parked = replace(TAKEN, heads=(None, None, None, THEIRS, None), tier=4, run=THEIRS, pools=pools)
    store.decisions.add(
        [
            Decision("d_1", NOON, "globex", "t_ours", "r_ours", "w1", TAKEN),
            Decision("d_2", NOON, "acme", "t_theirs", "r_theirs", "w1", parked),
        ]
    )


async def test_an_operator_sees_every_decision_with_all_that_waited(site: Site) -> None:
    recorded(site.app.store)
    both = (await read(site, "/decisions?tenant=*"))["decisions"]
    assert [each["id"] for each in both] == ["d_2", "d_1"]
    taken = await read(site, "/decisions/d_1?tenant=globex")
    assert (taken["outcome"], taken["reason"]) == ("started", "late, and owed 1.50 dispatches")
    assert [(each["tier"], each["run_id"], each["late_seconds"]) for each in taken["contenders"]] == [
        ("high", "r_ours", 90),
        ("low", "r_theirs", -5),
    ]
    assert "low: r_theirs waited, 5 s before it is late; owed 0.00 dispatches, 2.00 below its ceiling." in taken["why"]
    parked = both[0]
    assert (parked["outcome"], parked["pools"][1]) == (
        "lacked gpu",
        {"pool": "gpu", "units": 2.0, "free": 1.0, "lacked": "short"},
    )
    assert parked["why"][0] == "Run r_theirs of tier low was stepped over: pool gpu lacked 1: 2 needed, 1 free."
    assert (await read(site, "/decisions?tenant=*&task_id=t_ours"))["decisions"] == [both[1]]


async def test_a_tenant_sees_decisions_on_its_runs_and_nothing_of_others(guarded: Site) -> None:
    recorded(guarded.app.store)
    ours = guarded.key("globex", "bob", scopes=("admin:read",))
    listed = await sent(guarded, "GET", "/decisions", token=ours)
    (one,) = listed.json()["decisions"]
    assert one["id"] == "d_1"
    assert [each["run_id"] for each in one["contenders"]] == ["r_ours"]
    assert "theirs" not in listed.text
    assert "theirs" not in (await sent(guarded, "GET", "/decisions/d_1", token=ours)).text
    assert (await sent(guarded, "GET", "/decisions/d_2", token=ours)).status_code == 404
    assert (await sent(guarded, "GET", "/decisions?tenant=acme", token=ours)).status_code == 403


async def test_an_operator_sets_reads_and_ends_a_shadow(site: Site) -> None:
    made = await sent(site, "PUT", "/policy/shadow", body={"policy": {"shares": {"low": 0.12}}, "reason": "reports"})
    assert (made.status_code, made.json()["reason"]) == (200, "reports")
    found = await read(site, "/policy/shadow")
    assert (found["changes"], found["switch_on"]) == (["shares.low: 0.1 -> 0.12"], {"shares": {"low": 0.12}})
    assert (found["decisions"], found["other_tier"]) == (0, 0)
    both = await sent(site, "PUT", "/policy/shadow", body={"policy": {}, "version": 0})
    assert (both.status_code, "one of both" in both.text) == (422, True)
    assert (await sent(site, "DELETE", "/policy/shadow")).json()["removed"] is True
    assert (await read(site, "/policy/shadow", status=404))["code"] == "not_found"


async def test_only_an_operator_has_to_do_with_the_shadow(guarded: Site) -> None:
    admin = guarded.key("globex", "bob", scopes=("admin:read", "admin"))
    for method, body in (("GET", None), ("PUT", {"version": 0}), ("DELETE", None)):
        given = {"body": body} if body else {}
        assert (await sent(guarded, method, "/policy/shadow", token=admin, **given)).status_code == 403
