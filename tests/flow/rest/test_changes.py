"""The stream of changes: what happens to the tasks of a tenant, as it happens, and nothing of another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.store import open_store
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.waits.approval import Approval, question_of
from duetime.server.rest.streams import change_feed, changes, state_changes
from duetime.server.rest.streams.change_feed import MAX_WAITING_EVENTS, ChangeStream
from duetime.server.rest.streams.state_changes import StateChange, StateWatch

from tests.builders import message, settlement, started
from tests.flow.auth.conftest import Site
from tests.flow.rest.conftest import made, sent
from tests.flow.rest.listening import PATIENCE_S, listening

pytestmark = pytest.mark.anyio


async def test_changes_are_told_as_they_happen(site: Site) -> None:
    async with listening(site) as stream:
        await stream.event("open")
        task = await made(site)
        await sent(site, "POST", f"/tasks/{task['id']}/pause")
        told = await stream.event("change", 2)

    assert stream.status == 200
    assert [(event["task_id"], event["kind"], event["seq"]) for event in told] == [
        (task["id"], "created", 1),
        (task["id"], "paused", 2),
    ]


async def test_a_stream_goes_on_behind_the_last_event_that_was_read(site: Site) -> None:
    async with listening(site) as first:
        await first.event("open")
        task = await made(site)
        [created] = await first.event("change")
    for name in ("pause", "resume"):
        await sent(site, "POST", f"/tasks/{task['id']}/{name}")
    async with listening(site, **{"Last-Event-ID": created["id"]}) as second:
        missed = await second.event("change", 2)
        await sent(site, "POST", f"/tasks/{task['id']}/cancel")
        told = await second.event("change", 3)

    assert [event["kind"] for event in missed] == ["paused", "resumed"]
    assert [event["kind"] for event in told] == ["paused", "resumed", "cancelled"]


async def test_a_stream_that_missed_too_much_is_told_to_read_the_lists_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(site, query="seconds=0") as first:
        [begin] = await first.event("open")
    monkeypatch.setattr(changes, "MAX_RESUMED_EVENTS", 2)
    monkeypatch.setattr(changes, "EVENTS_PER_PAGE", 1)
    for _ in range(3):
        await made(site)
    async with listening(site, **{"Last-Event-ID": begin["id"]}) as stream:
        await stream.event("reset")
        await made(site)
        told = await stream.event("change", 3)
    assert len(told) == 3


async def test_a_stream_whose_last_event_a_restore_took_away_is_told_to_read_the_lists_again(site: Site) -> None:
    lost = site.app.store.history.cursor_at(LOCAL.tenant, site.app.store.history.latest() + 1_000)
    async with listening(site, **{"Last-Event-ID": lost}) as stream:
        [reset] = await stream.event("reset")
        await made(site)
        [told] = await stream.event("change")
    async with listening(site, query="seconds=0", **{"Last-Event-ID": reset["id"]}) as again:
        assert (await again.event("change"))[0]["task_id"] == told["task_id"]


async def test_a_stream_whose_last_event_this_server_cannot_read_is_told_to_read_the_lists_again(site: Site) -> None:
    """The key of its id may be lost with what a restore took away."""
    async with listening(site, query="seconds=0", **{"Last-Event-ID": "of-another-key"}) as stream:
        [begin] = await stream.event("open")
        [reset] = await stream.event("reset")
    await made(site)
    async with listening(site, query="seconds=0", **{"Last-Event-ID": reset["id"]}) as again:
        assert len(await again.event("change")) == 1
    async with listening(site, query="seconds=0", **{"Last-Event-ID": begin["id"]}) as cut_off:
        assert await cut_off.event("reset")


async def test_a_tenant_receives_nothing_of_another_one(guarded: Site) -> None:
    ours, theirs = guarded.key("globex", "bob"), guarded.key("acme", "ann")
    async with listening(guarded, ours) as stream, listening(guarded, theirs) as other:
        await stream.event("open")
        await other.event("open")
        await made(guarded, theirs, title="canary7f3a")
        [told] = await other.event("change")
        own = await made(guarded, ours)
        [heard] = await stream.event("change")
    async with listening(guarded, ours, query="seconds=0", **{"Last-Event-ID": told["id"]}) as strange:
        await strange.event("reset")

    assert heard["task_id"] == own["id"]
    assert "canary7f3a" not in stream.text
    assert [len(strange.events(kind)) for kind in ("open", "change", "reset")] == [1, 0, 1]


OPERATOR = ("tasks", "admin:read", "admin")


def worker_of(site: Site, **values: Any) -> WorkerProcess:
    now = site.app.store.now()
    return replace(WorkerProcess("w1", "host-a", 4711, threads=4, started_at=now), **values)


async def test_an_operator_receives_changes_of_pools_and_of_workers(guarded: Site) -> None:
    operator, store = guarded.key("local", "root", scopes=OPERATOR), guarded.app.store
    act = AuditEntry("local", AuditKind.POOL_SET, "root")
    store.pools.put("gpu", {"kind": "slots", "capacity": 2}, act)
    async with listening(guarded, operator) as stream:
        [begin] = await stream.event("open")
        store.pools.put("gpu", {"kind": "slots", "capacity": 3}, act)
        [pool] = await stream.event("pool")
        store.workers.beat(worker_of(guarded))
        [came] = await stream.event("worker")
        store.workers.drain("w1", DrainMode.FINISH, act)
        drained = (await stream.event("worker", 2))[1]
        store.workers.remove("w1")
        gone = (await stream.event("worker", 3))[2]
        store.pools.remove("gpu", act)
        removed = (await stream.event("pool", 2))[1]
    place = begin["id"]
    assert pool == {"pool": "gpu", "revision": 2, "id": pool["id"]}
    assert removed == {"pool": "gpu", "removed": True, "id": removed["id"]}
    assert [each.get("state") for each in (came, drained, gone)] == ["running", "draining", None]
    assert (came.get("drain"), drained.get("drain"), gone.get("removed")) == (None, "finish", True)
    async with listening(guarded, operator, query="seconds=0", **{"Last-Event-ID": place}) as again:
        await again.over.wait()
    assert [len(again.events(kind)) for kind in ("open", "pool", "worker", "reset")] == [1, 0, 0, 0]


def test_an_operator_who_comes_or_leaves_during_a_look_changes_what_it_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    act, during = AuditEntry("local", AuditKind.POOL_SET, "root"), list[Callable[[], None]]()
    compare = state_changes._changes

    def compared(*given: Any) -> Iterator[StateChange]:
        while during:
            during.pop()()
        return compare(*given)

    monkeypatch.setattr(state_changes, "_changes", compared)
    watch = StateWatch(lambda: store)
    watch.begin()
    during.append(watch.end)
    watch.look([], 1)
    store.pools.put("gpu", {"kind": "slots", "capacity": 2}, act)
    watch.begin()
    assert watch.look([], 2) == []
    store.pools.put("cpu", {"kind": "slots", "capacity": 2}, act)
    assert [change.kind for change in watch.look([], 3)] == ["pool"]
    store.close()


async def test_pools_and_workers_are_for_operators_alone(guarded: Site) -> None:
    ours, operator = guarded.key("acme", "boss", scopes=OPERATOR), guarded.key("local", "root", scopes=OPERATOR)
    store = guarded.app.store
    async with listening(guarded, ours) as stream, listening(guarded, operator) as other:
        await stream.event("open")
        await other.event("open")
        store.pools.put("canary7f3a", {"kind": "slots", "capacity": 2}, AuditEntry("local", AuditKind.POOL_SET, "root"))
        store.workers.beat(worker_of(guarded, host="canary7f3a"))
        await other.event("pool")
        await other.event("worker")
        await made(guarded, ours)
        await stream.event("change")
    assert "canary7f3a" not in stream.text
    assert [len(stream.events(kind)) for kind in ("pool", "worker")] == [0, 0]


async def test_a_user_receives_the_outcomes_that_come_and_nobody_else_does(guarded: Site) -> None:
    ann, bob, theirs = guarded.key("acme", "ann"), guarded.key("acme", "bob"), guarded.key("globex", "ann")
    store = guarded.app.store
    async with (
        listening(guarded, ann) as stream,
        listening(guarded, bob) as of_bob,
        listening(guarded, theirs) as of_others,
    ):
        for each in (stream, of_bob, of_others):
            await each.event("open")
        claim = started(store, store.now(), tenant="acme", owner="ann")
        store.claims.settle([settlement(claim, State.FAILED, inbox=message(claim, user="ann", state=State.FAILED))])
        [told] = await stream.event("inbox")
        await of_bob.event("change", 4)
        await made(guarded, theirs)
        await of_others.event("change")
    assert (told["task_id"], told["run_id"], told["state"]) == (claim.task.id, claim.run.id, "failed")
    assert [len(each.events("inbox")) for each in (stream, of_bob, of_others)] == [1, 0, 0]


async def test_a_user_receives_each_question_once_when_it_is_asked_and_the_outcome_after_it(guarded: Site) -> None:
    ann, bob = guarded.key("acme", "ann"), guarded.key("acme", "bob")
    store = guarded.app.store

    async with listening(guarded, ann) as stream, listening(guarded, bob) as of_bob:
        await stream.event("open")
        await of_bob.event("open")
        task = await made(guarded, ann, approval={"question": "Go?"})
        [asked] = await stream.event("inbox")
        await sent(guarded, "PATCH", f"/tasks/{task['id']}", token=ann, body={"priority": "high"})
        await stream.event("change", 2)
        claim = started(store, store.now(), tenant="acme", owner="ann")
        asks = Approval(claim.run.id, claim.run.attempt, "Send it?", ApprovalAnswer.REJECT, store.now(), None)
        question = question_of(claim.task, claim.run, asks)
        store.claims.settle([settlement(claim, State.SUSPENDED, asks=asks, inbox=question.message)])
        of_handler = (await stream.event("inbox", 2))[1]
        await sent(guarded, "POST", f"/tasks/{claim.task.id}/cancel", token=ann)
        other = started(store, store.now(), tenant="acme", owner="ann")
        store.claims.settle([settlement(other, State.FAILED, inbox=message(other, user="ann", state=State.FAILED))])
        ended = (await stream.event("inbox", 3))[2]
        await of_bob.event("change", len(stream.events("change")))

    assert [(each["task_id"], each["state"]) for each in (asked, of_handler, ended)] == [
        (task["id"], "waiting"),
        (claim.task.id, "waiting"),
        (other.task.id, "failed"),
    ]
    assert [len(each.events("inbox")) for each in (stream, of_bob)] == [3, 0]


async def test_the_stream_of_a_revoked_key_ends(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.protocol.subscriber_tokens.TOKEN_CHECK_INTERVAL_S", 0.0)
    key, other = guarded.key("acme", "ann"), guarded.key("acme", "eve")
    async with listening(guarded, key) as stream:
        await stream.event("open")
        guarded.app.store.api_keys.revoke(key.split("_")[1])
        await made(guarded, other)
        async with asyncio.timeout(PATIENCE_S):
            await stream.over.wait()
    assert stream.events("change") == []


async def test_the_stream_of_a_revoked_key_ends_though_nothing_happens(
    guarded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.protocol.subscriber_tokens.TOKEN_CHECK_INTERVAL_S", 0.0)
    key = guarded.key("acme", "ann")
    async with listening(guarded, key) as stream:
        await stream.event("open")
        guarded.app.store.api_keys.revoke(key.split("_")[1])
        async with asyncio.timeout(PATIENCE_S):
            await stream.over.wait()
    assert stream.events("change") == []


async def test_a_tenant_has_so_many_streams_and_no_more(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "MAX_TENANT_STREAMS_COUNT", 1)
    ann, bob = guarded.key("acme", "ann"), guarded.key("globex", "bob")
    async with listening(guarded, ann) as first:
        await first.event("open")
        async with listening(guarded, ann) as second:
            await second.over.wait()
        async with listening(guarded, bob, query="seconds=0") as other:
            await other.over.wait()
    async with listening(guarded, ann, query="seconds=0") as again:
        await again.over.wait()

    assert (first.status, second.status, other.status, again.status) == (200, 429, 200, 200)
    assert json.loads(second.text)["code"] == "too_many_streams"


async def test_a_stream_that_nobody_reads_ends_instead_of_growing() -> None:
    stream: Any = ChangeStream(LOCAL)
    for number in range(MAX_WAITING_EVENTS + 1):
        stream.add(number)
    assert stream.ended
    assert await stream.wait(0) == [*range(MAX_WAITING_EVENTS)]


async def test_without_a_stream_nobody_looks(site: Site) -> None:
    tasks = len(asyncio.all_tasks())
    async with listening(site, query="seconds=0") as stream:
        await stream.over.wait()
    async with asyncio.timeout(PATIENCE_S):
        while len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110 - the loop has to end the task that looked
            await asyncio.sleep(0)
