"""The inbox, what happened, and what administrators read and change: of a tenant, or of all for operators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime import Context, Done, handler, watch_check
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.records import WorkerProcess
from duetime.server.doctor.check import Check, CheckVerdict
from duetime.server.settings.model import Settings

from tests.builders import delivery, message, restarted, settlement
from tests.flow.auth.conftest import Site, serving
from tests.flow.rest.conftest import made, sent
from tests.flow.rest.failures import failed
from tests.flow.waiting import eventually

pytestmark = pytest.mark.anyio

ADMIN = ("tasks", "admin")


async def read(site: Site, path: str, token: str | None = None, status: int = 200) -> dict[str, Any]:
    answer = await sent(site, "GET", path, token=token)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_outcomes_are_listed_until_they_are_marked_as_read(site: Site) -> None:
    ids = [await failed(site) for _ in range(3)]
    inbox = await read(site, "/inbox?limit=2")
    following = (await sent(site, "GET", "/inbox?limit=2")).links["next"]["url"].removeprefix("/v1")
    last = await sent(site, "GET", following)
    foreign = await sent(site, "GET", f"{following}&task_id={ids[0]}")
    one = await sent(site, "POST", "/inbox/read", body={"ids": [inbox["messages"][0]["id"]]})
    of_task = await read(site, f"/inbox?task_id={ids[0]}")
    rest = await sent(site, "POST", "/inbox/read", body={"all": True})

    assert (len(inbox["messages"]), inbox["unread_count"]) == (2, 3)
    assert [message["task_id"] for message in last.json()["messages"]] == [ids[0]]
    assert ("next" in last.links, foreign.status_code) == (False, 422)
    assert inbox["messages"][0]["text"] == "no address"
    assert (one.json()["done"], one.json()["unread_count"]) == (1, 2)
    assert [message["task_id"] for message in of_task["messages"]] == [ids[0]]
    assert (rest.json()["done"], rest.json()["unread_count"]) == (2, 0)


async def test_messages_held_by_quiet_hours_are_counted_with_their_end(site: Site) -> None:
    store, until = site.app.store, datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)
    claim = restarted(store, store.tasks.get("local", (await made(site, when="now", title="Backup"))["id"]))
    sent_ = delivery(claim, next_at=store.now())
    store.claims.settle([settlement(claim, inbox=message(claim), deliveries=(sent_,))])
    store.deliveries.postpone({sent_.id: until})
    inbox = await read(site, "/inbox")

    said = until.isoformat().replace("+00:00", "Z")
    assert (inbox["held_count"], inbox["held_until"]) == (1, said)
    assert [each["held_until"] for each in inbox["messages"]] == [said]


async def test_marking_without_saying_what_is_refused(site: Site) -> None:
    for body in ({}, {"all": True, "ids": ["m_1"]}, {"all": False}):
        answer = await sent(site, "POST", "/inbox/read", body=body)
        assert answer.status_code == 422
        assert "name outcomes, or a task, or all" in answer.json()["detail"]


async def test_the_id_of_an_outcome_is_one_of_the_ids_to_mark(site: Site) -> None:
    for name in ("id", "message_id"):
        told = (await sent(site, "POST", "/inbox/read", body={name: "m_7k3m9qx2w4hb"})).json()["detail"]
        assert "did you mean ids" in told
        assert "Example: ids=['m_7k3m9qx2w4hb']" in told
    told = (await sent(site, "POST", "/inbox/read", body={"id": "t_7k3m9qx2w4hb"})).json()["detail"]
    assert "Example: task_id='t_7k3m9qx2w4hb'" in told


async def test_attempts_have_the_traceback_of_what_failed(site: Site) -> None:
    task_id = await failed(site)
    [attempt] = (await read(site, f"/tasks/{task_id}/attempts"))["attempts"]

    assert attempt["traceback"].endswith("ValueError: no address")
    assert (attempt["outcome"], attempt["reason"]) == ("failed", "no address")
    assert (await read(site, "/tasks/t_7k3m9qx2w4hb/attempts", status=404))["code"] == "not_found"


async def test_events_of_all_tasks_are_found_by_their_filters_page_by_page(site: Site) -> None:
    task_id = await failed(site, labels=["mail"])
    await made(site)
    kinds, path = list[str](), f"/v1/events?task_id={task_id}&limit=2&since=yesterday"
    while path:
        answer = await site.http.get(path)
        kinds += [event["kind"] for event in answer.json()["events"]]
        path = answer.headers.get("Link", "").partition(">")[0].removeprefix("<")
    by_label = (await read(site, "/events?label=mail&state=failed"))["events"]
    by_run = (await read(site, "/events?state=failed&title=SEND&min_duration=0%20s&max_duration=1%20hour"))["events"]
    elsewhere = (await read(site, "/events?title=no%20address"))["events"]
    counted = await read(site, "/events/counts?group=state&label=mail")
    spread = await read(site, "/events/buckets?width=day&kind=created")

    assert kinds == ["failed", "started", "ready", "created"]
    assert counted["counts"] == {"failed": 1, "ready": 1, "running": 1, "scheduled": 1}
    assert [bucket["counts"] for bucket in spread["buckets"]] == [{"created": 2}]
    assert [(event["task_id"], event["title"], event["to"]) for event in by_label] == [(task_id, "Send it", "failed")]
    assert by_run == by_label
    assert elsewhere == []


async def test_runs_are_found_counted_and_spread_over_time(site: Site) -> None:
    task_id = await failed(site, labels=["mail"])
    await failed(site)
    await made(site)
    [run] = (await read(site, "/runs?label=mail&state=failed&text=no%20address&min_attempts=1"))["runs"]
    pages = await site.http.get("/v1/runs?state=ended&limit=1&since=yesterday")
    counted = await read(site, "/runs/counts?group=error&state=failed")
    spread = await read(site, "/runs/buckets?width=day")
    several = await read(site, "/runs/counts?state=failed,scheduled&until=in%203%20days")
    unknown = await sent(site, "GET", "/runs?state=failed,lost")
    [same] = (await read(site, "/runs?label=mail&title=SEND&error=NO%20address"))["runs"]
    elsewhere = [await read(site, f"/runs?{name}=no") for name in ("title", "error")]
    wrong = await sent(site, "GET", "/runs?min_duration=soon")

    assert (run["task_id"], run["state"], run["error"], run["attempts"]) == (task_id, "failed", "no address", 1)
    assert same == run
    assert [len(each["runs"]) for each in elsewhere] == [0, 2]
    assert run["duration_seconds"] >= 0
    assert "cursor=" in pages.headers["Link"]
    assert counted["counts"] == {"no address": 2}
    assert several["counts"] == {"failed": 2, "scheduled": 1}
    assert (unknown.status_code, unknown.json()["argument"]) == (422, "state")
    assert [bucket["counts"] for bucket in spread["buckets"]] == [{"failed": 2}]
    assert wrong.status_code == 422
    assert "it is not a duration" in wrong.json()["detail"]


async def test_costs_of_a_tenant_are_added_up_by_group(site: Site) -> None:
    await failed(site, costs={"tokens": 2699})
    await failed(site)
    task_id = await failed(site, costs={"tokens": 2700})
    [run] = (await read(site, "/runs?min_cost=0.0027"))["runs"]
    assert (run["cost"], (await read(site, f"/runs/{run['id']}"))["cost"]) == ("0.0027", "0.0027")
    by_task = await read(site, "/costs?group=task")
    assert (by_task["total"], by_task["currency"]) == ("0.005399", "USD")
    assert by_task["costs"][0] == {"key": task_id, "title": "Send it", "cost": "0.0027"}
    assert len((await read(site, "/costs?since=yesterday"))["costs"]) == 1
    for wrong in ("/runs?min_cost=1e3", "/costs?since=tomorrow", "/costs?group=owner"):
        assert (await sent(site, "GET", wrong)).status_code in {400, 422}


async def test_a_report_adds_up_what_went_wrong_and_what_it_cost(site: Site) -> None:
    await failed(site, costs={"tokens": 2699})
    found = await read(site, "/report?since=2 days ago")
    assert (found["total"]["ended"], found["total"]["failed"], found["cost"]) == (1, 1, "0.002699")
    assert found["before"]["total"]["ended"] == 0
    assert "dead letters: 1 (none the time before)" in found["text"]
    refused = await sent(site, "GET", "/report?since=tomorrow")
    assert refused.status_code == 422
    assert "since: it is not before now. Accepted: a time before now. Example: since='30d'" in refused.json()["detail"]


async def test_a_run_is_shown_with_all_that_is_kept_of_it(site: Site) -> None:
    task_id = await failed(site, payload={"message": "https://ann:hunter2@example.com"})
    [listed] = (await read(site, "/runs"))["runs"]
    run = await read(site, f"/runs/{listed['id']}")

    assert (run["schema"], run["task_id"], run["state"], run["error"]) == (
        "duetime.run/1",
        task_id,
        "failed",
        "no address",
    )
    assert (run["message"], run["dead_letter"], run["current"]) == ("no address", "no address", True)
    assert [(each["number"], each["worker"]) for each in run["attempts"]] == [(1, "w1")]
    assert run["attempts"][0]["traceback"].endswith("ValueError: no address")
    assert [event["kind"] for event in run["events"]][:2] == ["failed", "started"]
    assert "hunter2" not in str(run)
    assert (await read(site, "/runs/r_7k3m9qx2w4hb", status=404))["code"] == "not_found"


async def test_actions_are_listed_with_the_schema_of_their_payload(site: Site) -> None:
    actions = {action["name"]: action for action in (await read(site, "/actions"))["actions"]}
    assert actions.keys() == {"reminder", "webhook", "watch"}
    assert "url" in actions["webhook"]["payload"]["properties"]


@handler("tidy")
def tidy(_ctx: Context) -> Done:
    return Done("tidied")


@handler("relay")
def relay(_ctx: Context, _payload: Mapping[str, Any]) -> Done:
    return Done("relayed")


async def test_an_action_without_a_schema_says_whether_it_takes_a_payload_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path, handlers=[tidy, relay]) as site:
        actions = {action["name"]: action["payload"] for action in (await read(site, "/actions"))["actions"]}
        refused = await sent(
            site, "POST", "/tasks", body={"title": "Tidy", "action": "tidy", "payload": {"deep": 1}, "dry_run": True}
        )
        taken = await sent(
            site, "POST", "/tasks", body={"title": "Relay", "action": "relay", "payload": {"deep": 1}, "dry_run": True}
        )
    assert actions["tidy"] == {"type": "object", "maxProperties": 0}
    assert actions["relay"] == {"type": "object"}
    assert (refused.status_code, taken.status_code) == (422, 200)


async def test_the_checks_of_plug_ins_are_listed_with_the_actions(tmp_path: Path) -> None:
    @watch_check("stock")
    def stock(_ctx: Context, _arguments: Mapping[str, Any]) -> int:
        """Count what is left.

        It reads the shelf.
        """
        return 7

    async with serving(tmp_path, handlers=[stock]) as site:
        listed = await read(site, "/actions")
    assert listed["checks"] == [{"name": "stock", "description": "Count what is left."}]


async def test_an_operator_sets_and_removes_a_pool(site: Site) -> None:
    spec = {"kind": "slots", "capacity": 2}
    made_pool = await sent(site, "PUT", "/pools/team/gpu", body={"spec": spec})
    wrong = await sent(site, "PUT", "/pools/gpu", body={"spec": {"kind": "slot"}})
    removed = await sent(site, "DELETE", "/pools/team/gpu")
    unknown = await sent(site, "DELETE", "/pools/team/gpu")

    assert made_pool.json()["pools"] == {"team/gpu": spec}
    assert wrong.status_code == 422
    assert wrong.json()["detail"].endswith("Example: spec={'kind': 'slots'}")
    assert removed.json()["pools"] == {}
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert "no pool 'team/gpu'" in unknown.json()["detail"]


async def test_a_pool_that_was_changed_since_it_was_read_is_not_overwritten(site: Site) -> None:
    path, two, three = "/pools/team/gpu", {"spec": {"capacity": 2}}, {"spec": {"capacity": 3}}
    assert (await read(site, path, status=404))["code"] == "not_found"
    made_pool = await sent(site, "PUT", path, body=two, headers={"If-Match": '"0"'})
    shown = await sent(site, "GET", path)
    again = await sent(site, "PUT", path, body=two, headers={"If-Match": '"0"'})
    changed = await sent(site, "PUT", path, body=three, headers={"If-Match": shown.headers["ETag"]})
    old = {"If-Match": shown.headers["ETag"]}
    stale = [
        await sent(site, "PUT", path, body=two, headers=old),
        await sent(site, "DELETE", path, headers=old),
    ]
    removed = await sent(site, "DELETE", path, headers={"If-Match": changed.headers["ETag"]})

    assert shown.json() == {
        "schema": "duetime.pool/1", "name": "team/gpu", "spec": {"kind": "slots", "capacity": 2}, "revision": 1,
    }  # fmt: skip
    tags = [answer.headers.get("ETag") for answer in (made_pool, shown, changed, removed)]
    assert tags == ['"1"', '"1"', '"2"', '"0"']
    assert (again.status_code, again.json()["code"]) == (412, "stale_revision")
    for answer in stale:
        assert (answer.status_code, answer.json()["revision"]) == (412, 2)
        assert "pool 'team/gpu' is at revision 2, not 1; nothing was changed" in answer.json()["detail"]
    assert removed.json()["pools"] == {}


async def test_the_doctor_says_that_all_workers_drain_until_they_are_resumed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def verdict() -> tuple[str, str, str | None]:
        [found] = [check for check in (await read(site, "/doctor"))["checks"] if check["name"] == "workers"]
        return found["verdict"], found["said"], found.get("advice")

    monkeypatch.setattr(Settings, "distributed", True)
    for name in ("redis_check", "queue_check"):
        well = Check(name, CheckVerdict.OK, "well")
        monkeypatch.setattr(f"duetime.server.doctor.examine.{name}", lambda *_, said=well: said)
    store = site.app.store
    for name in ("w1", "w2"):
        store.workers.beat(WorkerProcess(name, "host-a", 4711, threads=4, started_at=store.now()))
        await sent(site, "POST", f"/workers/{name}/drain")
    wrong, said, advice = await verdict()
    assert (wrong, said) == ("wrong", "no run starts: 2 processes with 8 threads, and all are draining.")
    assert "`duetime workers resume --all`" in (advice or "")
    await sent(site, "POST", "/workers/w2/resume")
    listed = "2 processes with 8 threads, 1 of them draining; `duetime workers` lists them"
    assert await verdict() == ("ok", listed, None)


async def test_an_operator_drains_and_resumes_a_worker_and_the_audit_log_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.app.store
    store.workers.beat(WorkerProcess("rack/w 1", "host-a", 4711, threads=4, started_at=store.now()))
    embedded = await sent(site, "POST", "/workers/rack/w%201/drain")
    assert (embedded.status_code, "shared installations" in embedded.json()["detail"]) == (409, True)
    monkeypatch.setattr(Settings, "distributed", True)
    drained = await sent(site, "POST", "/workers/rack/w%201/drain", body={"now": True, "reason": "upgrade"})
    (row,) = drained.json()["workers"]
    assert (row["state"], row["drain"]) == ("draining", "now")
    resumed = await sent(site, "POST", "/workers/rack/w%201/resume")
    (row,) = resumed.json()["workers"]
    assert (row["state"], "drain" in row) == ("running", False)
    unknown = await sent(site, "POST", "/workers/w2/drain")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    entries = store.audit.page("local", AuditFilter(), limit=9).entries
    assert [(each.kind.value, each.subject, each.reason, each.detail) for each in entries] == [
        ("worker_resumed", "rack/w 1", None, None),
        ("worker_drained", "rack/w 1", "upgrade", {"mode": "now"}),
    ]


async def test_statistics_come_from_the_process_that_runs_tasks(site: Site) -> None:
    silent = await sent(site, "GET", "/stats")
    site.app.start()
    eventually(lambda: site.app.remote_queue.stats() is not None, "the runner to answer")
    found = await read(site, "/stats")

    assert (silent.status_code, silent.headers["Retry-After"]) == (503, "5")
    assert [tier["tier"] for tier in found["tiers"]] == ["critical", "high", "normal", "low", "background"]
    assert set(found["waiting"].values()) == {0}
    assert (await read(site, "/workers"))["workers"] == []


async def test_a_key_is_shown_once_works_and_ends_when_it_is_revoked(guarded: Site) -> None:
    admin = guarded.key(scopes=ADMIN)
    created = await sent(
        guarded, "POST", "/keys", token=admin, body={"name": "laptop", "user": "bob", "scopes": ["tasks"]}
    )
    key = created.json()
    listed = await read(guarded, "/keys", admin)
    await made(guarded, key["key"])
    rotated = await sent(guarded, "POST", f"/keys/{key['id']}/rotate", token=admin, body={"overlap": "1 hour"})
    for key_id in (key["id"], rotated.json()["id"]):
        await sent(guarded, "POST", f"/keys/{key_id}/revoke", token=admin)
    answers = [await sent(guarded, "GET", "/tasks", token=each.json()["key"]) for each in (created, rotated)]
    again = await sent(guarded, "POST", f"/keys/{key['id']}/rotate", token=admin)

    assert (created.status_code, rotated.status_code) == (201, 201)
    assert (key["tenant"], key["user"], key["scopes"]) == ("acme", "bob", ["tasks"])
    assert rotated.json()["replaces"] == key["id"]
    assert key["key"] not in str(listed)
    assert [answer.status_code for answer in answers] == [401, 401]
    assert again.status_code == 409
    entries = guarded.app.store.audit.page("acme", AuditFilter(), limit=9).entries
    assert [(each.kind.value, each.actor) for each in entries if each.subject == key["id"]] == [
        ("key_revoked", "ann"),
        ("key_rotated", "ann"),
        ("key_created", "ann"),
    ]
    assert all((each.via or "").startswith("rest ") for each in entries)


async def test_an_operator_reads_runs_and_events_of_all_tenants_at_once(guarded: Site) -> None:
    operator = guarded.key("local", "root", scopes=ADMIN)
    ids = {
        tenant: await failed(guarded, guarded.key(tenant, "ann", scopes=ADMIN), tenant) for tenant in ("acme", "globex")
    }
    runs = await read(guarded, "/runs?tenant=*", operator)
    events = await read(guarded, "/events?tenant=*&kind=created&actor=ann&via=rest", operator)
    counted = await read(guarded, "/runs/counts?tenant=*&group=tenant", operator)
    other = await read(guarded, "/runs?tenant=acme", operator)
    letters = await read(guarded, "/dead_letters?tenant=*", operator)
    keys = await read(guarded, "/keys?tenant=*", operator)

    assert {run["tenant"]: run["task_id"] for run in runs["runs"]} == ids
    assert {event["tenant"]: event["task_id"] for event in events["events"]} == ids
    assert {event["title"] for event in events["events"]} == {"Send it"}
    assert counted["counts"] == {"acme": 1, "globex": 1}
    assert ["tenant" in run for run in other["runs"]] == [False]
    assert {letter["tenant"]: letter["task_id"] for letter in letters["dead_letters"]} == ids
    assert {key["tenant"] for key in keys["keys"]} == {"local", *ids}
    read_all = guarded.app.store.audit.page("local", AuditFilter(), limit=9).entries
    assert [each.subject for each in read_all if each.kind.value == "other_tenant_read"] == ["*"] * 5


async def test_an_administrator_of_one_tenant_reads_and_changes_no_other_one(guarded: Site) -> None:
    theirs = guarded.key("globex", "eve", scopes=ADMIN)
    admin = guarded.key("acme", "ann", scopes=ADMIN)
    refused = [
        await sent(guarded, "GET", "/events?tenant=globex", token=admin),
        await sent(guarded, "GET", "/dead_letters?tenant=globex", token=admin),
        await sent(guarded, "GET", "/dead_letters/r_7k3m9qx2w4hb00000000?tenant=globex", token=admin),
        await sent(guarded, "POST", "/dead_letters/replay", token=admin, body={"all": True, "tenant": "globex"}),
        await sent(guarded, "POST", "/dead_letters/discard", token=admin, body={"all": True, "tenant": "globex"}),
        await sent(guarded, "GET", "/keys?tenant=globex", token=admin),
        await sent(guarded, "GET", "/runs?tenant=globex", token=admin),
        await sent(guarded, "GET", "/runs/counts?tenant=*", token=admin),
        await sent(guarded, "GET", "/events/counts?tenant=*", token=admin),
        await sent(guarded, "GET", "/events/buckets?tenant=globex", token=admin),
        await sent(guarded, "GET", "/events?tenant=*", token=admin),
        await sent(guarded, "POST", "/keys", token=admin, body={"name": "x", "tenant": "globex"}),
        await sent(guarded, "GET", "/pools", token=admin),
        await sent(guarded, "PUT", "/pools/gpu", token=admin, body={"spec": {"capacity": 9}}),
        await sent(guarded, "DELETE", "/pools/gpu", token=admin),
        await sent(guarded, "GET", "/workers", token=admin),
        await sent(guarded, "POST", "/workers/w1/drain", token=admin),
        await sent(guarded, "POST", "/workers/w1/resume", token=admin),
        await sent(guarded, "GET", "/stats", token=admin),
        await sent(guarded, "GET", "/audit?tenant=globex", token=admin),
        await sent(guarded, "GET", "/audit/heads?tenant=*", token=admin),
        await sent(guarded, "POST", "/audit/verify", token=admin, body={"tenant": "globex"}),
        await sent(guarded, "GET", "/secrets?tenant=*", token=admin),
        await sent(guarded, "PUT", "/secrets/x", token=admin, body={"value": "12345678", "tenant": "globex"}),
        await sent(guarded, "DELETE", "/secrets/x?tenant=globex", token=admin),
        await sent(guarded, "POST", "/secrets/rotate", token=admin),
        await sent(guarded, "GET", "/policy", token=admin),
        await sent(guarded, "GET", "/policy/versions", token=admin),
        await sent(guarded, "PATCH", "/policy", token=admin, body={"policy": {}}),
        await sent(guarded, "POST", "/policy/rollback", token=admin, body={"version": 0}),
        await sent(guarded, "GET", "/retention", token=admin),
        await sent(guarded, "POST", "/retention/run", token=admin),
        await sent(guarded, "GET", "/alerts", token=admin),
        await sent(guarded, "GET", "/top", token=admin),
    ]
    unknown = [
        await sent(guarded, "POST", f"/keys/{theirs.split('_')[1]}/{verb}", token=admin)
        for verb in ("revoke", "rotate")
    ]

    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(403, "insufficient_scope")}
    assert {(answer.status_code, answer.json()["code"]) for answer in unknown} == {(404, "not_found")}
    assert [key["tenant"] for key in (await read(guarded, "/keys", admin))["keys"]] == ["acme"]


async def test_an_operator_reads_another_tenant_and_that_is_in_its_audit_log(guarded: Site) -> None:
    operator = guarded.key("local", "root", scopes=ADMIN)
    task_id = await failed(guarded, guarded.key("acme", "ann"), "acme")
    events = (await read(guarded, "/events?tenant=acme&state=failed", operator))["events"]
    created = await sent(guarded, "POST", "/keys", token=operator, body={"name": "x", "tenant": "acme"})

    assert [event["task_id"] for event in events] == [task_id]
    assert created.json()["tenant"] == "acme"
    entries = guarded.app.store.audit.page("acme", AuditFilter(), limit=9).entries
    assert [(each.kind.value, each.actor_tenant) for each in entries] == [
        ("key_created", "local"),
        ("other_tenant_read", "local"),
    ]


async def test_a_key_can_grant_no_scope_that_there_is_not(guarded: Site) -> None:
    admin = guarded.key(scopes=ADMIN)
    answer = await sent(guarded, "POST", "/keys", token=admin, body={"name": "x", "scopes": ["runner"]})
    assert answer.status_code == 400
    assert "runner" in answer.json()["detail"]
