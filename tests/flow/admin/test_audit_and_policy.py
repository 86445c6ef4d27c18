"""Pages of who did what, and of the numbers that decide the order of runs."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, read_policy
from duetime.scheduler.task import State

from tests.builders import settlement, started
from tests.flow.admin.conftest import Admin, Open, found_shown

pytestmark = pytest.mark.anyio

CANARY = "<script>canary</script>"


async def text_of(admin: Admin, path: str) -> str:
    answer = await admin.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def recorded(admin: Admin, number: int, *, tenant: str = "acme", user: str = "ann") -> None:
    who = Principal(tenant, user, via="rest 10.0.0.7")
    log = admin.site.app.store.audit
    for each in range(number):
        log.record(AuditEntry.by(who, AuditKind.SECRET_SET, f"{user} secret {each}", reason=CANARY))


async def test_the_audit_says_who_did_what_by_which_way(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    recorded(admin, 1)
    recorded(admin, 1, tenant="globex", user="greta")
    await admin.enter("admin:read")
    page = await text_of(admin, "/audit")
    assert all(word in page for word in ("ann secret 0", "rest 10.0.0.7", "logged in", "admin 127.0.0.1"))
    assert "greta" not in page
    assert "greta" not in await text_of(admin, "/audit?tenant=globex")
    assert "<script>canary" not in page


async def test_an_operator_reads_the_audit_of_a_chosen_tenant_and_that_is_recorded(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    recorded(admin, 1)
    await admin.enter("admin:read", tenant="house", user="root")
    assert "ann secret 0" not in await text_of(admin, "/audit")
    assert "ann secret 0" in await text_of(admin, "/audit?tenant=acme")
    assert "other tenant read" in await text_of(admin, "/audit?tenant=acme")


async def test_filters_of_the_audit_stand_in_the_address(admin_page: Open) -> None:
    admin = await admin_page()
    recorded(admin, 2, tenant="local")
    recorded(admin, 1, tenant="local", user="bob")
    assert "bob secret" not in await text_of(admin, "/audit?who=ann&surface=rest&kind=secret_set&since=yesterday")
    assert "Nothing matches" in await text_of(admin, "/audit?surface=mcp")
    assert (await admin.get("/audit?kind=nonsense")).status_code == 400
    assert (await admin.get("/audit?cursor=forged")).status_code == 400


async def test_the_audit_goes_on_page_by_page_and_is_exported_whole(admin_page: Open) -> None:
    admin = await admin_page()
    recorded(admin, 60, tenant="local")
    first = await text_of(admin, "/audit?who=ann")
    [following] = re.findall(r'rel="next" href="/admin([^"]+)"', first)
    second = await text_of(admin, unescape(following))
    subjects = re.findall(r"ann secret \d+", first + second)
    assert sorted(set(subjects)) == sorted(f"ann secret {number}" for number in range(60))
    assert len(subjects) == 60
    saved = json.loads(await text_of(admin, "/audit?who=ann&format=json"))["audit"]
    assert len(saved) == 60
    assert (await text_of(admin, "/audit?format=csv")).startswith("id,at,tenant,kind,actor")


async def test_changes_of_tasks_are_a_tab_with_actor_and_way(admin_page: Open) -> None:
    admin = await admin_page()
    by = Principal("local", "maria", via="mcp 10.0.0.9")
    task = admin.site.app.scheduler.schedule("Call John", when="in 1 hour", by=by).record.task.id
    admin.site.app.scheduler.cancel(task, reason="no longer needed", by=by)
    page = await text_of(admin, "/audit?list=tasks")
    assert all(word in page for word in ("Call John", "cancelled", "maria", "mcp 10.0.0.9", "no longer needed"))


async def test_changes_of_tasks_are_found_by_what_their_runs_say(admin_page: Open) -> None:
    admin = await admin_page()
    store = admin.site.app.store
    claim = started(store, store.now(), tenant="local", title="Push the orders")
    store.claims.settle([settlement(claim, State.FAILED, error="502 Bad Gateway")])
    for query in ("worker=w1", "error=bad+gateway", "min_attempts=1&priority=normal", "title=ORDERS&max_duration=1+h"):
        assert "Push the orders" in await text_of(admin, f"/audit?list=tasks&{query}"), query
    of_none = ("worker=w2", "error=503", "min_attempts=2", "priority=high", "min_cost=0.01", "min_lateness=1+s")
    for query in (*of_none, "title=gateway", "min_duration=1+h", "min_delay=1+h"):
        assert "Push the orders" not in await text_of(admin, f"/audit?list=tasks&{query}"), query
    assert (await admin.get("/audit?list=tasks&min_attempts=many")).status_code == 400


async def test_changes_of_tasks_are_filtered_by_person_way_kind_state_and_task(admin_page: Open) -> None:
    admin = await admin_page()
    scheduler = admin.site.app.scheduler
    ann, bob = (Principal("local", user, via=via) for user, via in (("ann", "mcp 10.0.0.1"), ("bob", "rest 10.0.0.2")))
    task_id = scheduler.schedule("Of Ann", when="in 1 hour", by=ann).record.task.id
    of_bob = scheduler.schedule("Of Bob", when="in 1 hour", by=bob).record.task.id
    scheduler.cancel(of_bob, by=bob)
    for query in ("who=ann", "surface=mcp", f"task={task_id}"):
        page = await text_of(admin, f"/audit?list=tasks&{query}")
        assert "Of Ann" in page, query
        assert "Of Bob" not in page, query
    for query in ("kind=cancelled", "state=cancelled"):
        rows = json.loads(await text_of(admin, f"/audit?list=tasks&{query}&format=json"))["audit"]
        assert [(row["task"], row["kind"]) for row in rows] == [(of_bob, "cancelled")], query


async def test_a_file_of_changes_has_no_credentials_of_payloads(admin_page: Open) -> None:
    admin = await admin_page()
    scheduler = admin.site.app.scheduler
    payload: dict[str, Any] = {"url": "https://crm.example/push", "headers": {"Authorization": "Bearer canary7f3a"}}
    task = scheduler.schedule("Push", action="webhook", payload=payload, when="in 1 hour").record.task.id
    scheduler.reschedule(task, payload={**payload, "headers": {"Authorization": "Bearer canary8e2b"}})
    for file_format in ("json", "csv"):
        written = await text_of(admin, f"/audit?list=tasks&task={task}&format={file_format}")
        assert "crm.example" in written
        assert "canary" not in written


async def test_a_tab_of_the_audit_keeps_the_filters_that_the_other_one_has(admin_page: Open) -> None:
    admin = await admin_page()
    acts = await text_of(admin, "/audit?who=ann&surface=rest&kind=secret_set&subject=crm&since=yesterday")
    found = re.search(r'href="/admin(/audit[^"]*list=tasks[^"]*)"', acts)
    assert found is not None
    assert unescape(found[1]) == "/audit?who=ann&surface=rest&since=yesterday&list=tasks"
    await text_of(admin, unescape(found[1]))


@pytest.mark.parametrize("wrong", ["list=tasks&kind=logged_in", "list=tasks&subject=crm", "kind=paused", "nonsense=1"])
async def test_a_filter_that_a_list_does_not_have_is_refused(admin_page: Open, wrong: str) -> None:
    admin = await admin_page()
    answer = await admin.get(f"/audit?{wrong}")
    assert answer.status_code == 400
    assert "Accepted: " in answer.text


async def test_the_state_of_the_chain_is_shown_and_how_to_verify_it(admin_page: Open) -> None:
    admin = await admin_page()
    recorded(admin, 1, tenant="local")
    assert "No entry is sealed yet" in await text_of(admin, "/audit")
    chain = admin.site.app.store.audit_chain
    assert chain.seal()
    [head] = chain.heads("local")
    page = await text_of(admin, "/audit")
    assert f"local:{head.entries}:{head.hash}" in page
    assert "duetime audit verify" in page


async def test_the_chain_is_verified_on_the_page_and_a_changed_entry_is_found(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",))
    recorded(admin, 3)
    await admin.enter("admin:read")
    chain = admin.site.app.store.audit_chain
    assert "nothing to verify" in await text_of(admin, "/audit/verify")
    while chain.seal():
        pass
    [head] = chain.heads("acme")
    kept = f"acme:{head.entries}:{head.hash}"
    page = await text_of(admin, f"/audit/verify?head={kept}")
    assert f"{head.entries} entries are as they were sealed, and the head that you gave" in page
    assert (await admin.get(f"/audit/verify?head={kept.replace('acme', 'globex')}")).status_code == 400
    assert (await admin.get("/audit/verify?head=nonsense")).status_code == 400
    with (
        closing(sqlite3.connect(admin.site.app.settings.database_url.removeprefix("sqlite:///"))) as connection,
        connection,
    ):
        connection.execute("UPDATE audit_entries SET subject = 'another' WHERE subject = 'ann secret 1'")
    page = await text_of(admin, "/audit/verify")
    assert "The chain is broken at entry" in page
    assert "entries are as they were sealed" not in page


@pytest.mark.parametrize("former", [False, True])
async def test_removals_that_no_rule_lets_go_are_a_problem_on_the_page_unless_a_former_rule_did(
    admin_page: Open, *, former: bool
) -> None:
    today = datetime.now(UTC).date()
    rule = {"what": "events", "age": "6 days", "until": (today + timedelta(days=1)).isoformat()}
    admin = await admin_page(retention=[rule] if former else [])
    store = admin.site.app.store
    path = admin.site.app.settings.database_url.removeprefix("sqlite:///")
    admin.site.app.scheduler.schedule("Backup", when="in 1 hour")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET at = at - ?", (timedelta(days=7) // timedelta(microseconds=1),))
    assert store.audit_chain.seal()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM events")
    store.audit.record(AuditEntry("local", AuditKind.ROWS_REMOVED, "duetime", detail={"events": "1-9"}))
    assert store.audit_chain.seal()
    page = await text_of(admin, "/audit/verify")
    young = "1 deleted event was younger than the rules of retention allow to be deleted."
    assert (young in page, "as they were sealed" in page) == (not former, former)


async def test_a_chain_that_is_too_long_for_a_browser_is_left_to_the_command_line(
    admin_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.server.admin.pages.audit.MAX_VERIFIED_ENTRIES", 1)
    admin = await admin_page()
    recorded(admin, 2, tenant="local")
    assert admin.site.app.store.audit_chain.seal()
    answer = await admin.get("/audit/verify")
    assert answer.status_code == 409
    assert "duetime audit verify" in answer.text


# --- the policy


async def test_a_change_of_the_policy_is_tried_and_then_made_and_undone(admin_page: Open) -> None:
    admin = await admin_page()
    policies = admin.site.app.registry.policies
    wrong = await admin.post("/policy", page="/policy", do="try", **{"patience.normal": "soon"})
    assert "Example: patience.normal=&#39;2 minutes&#39;" in wrong.text
    given = {"patience.normal": "2 minutes", "reason": "chats wait"}
    tried = await admin.post("/policy", page="/policy", do="try", **given)
    assert "patience.normal: " in tried.text
    assert "-&gt; 120" in tried.text
    assert policies.refresh().version == 0
    made = await admin.post("/policy", page="/policy", do="make", **given)
    assert made.status_code == 303
    assert policies.refresh().version == 1
    page = await text_of(admin, "/policy")
    assert all(word in page for word in ("chats wait", "admin 127.0.0.1", "version 1", 'value="120"'))
    asked = await admin.post("/policy/roll-back", version="0", do="try")
    assert "Returning to version 0" in asked.text
    assert policies.refresh().version == 1
    await admin.post("/policy/roll-back", version="0", do="make")
    assert policies.refresh().version == 2
    assert "policy restored" in await text_of(admin, "/audit")


async def test_a_change_is_compared_as_a_shadow_and_put_in_force(admin_page: Open) -> None:
    admin = await admin_page()
    policies = admin.site.app.registry.policies
    assert "compared with recorded decisions before they are in force" in await text_of(admin, "/policy")
    await admin.post("/policy", page="/policy", do="compare", reason="reports are late", **{"shares.low": "0.12"})
    assert policies.refresh().version == 0
    page = await text_of(admin, "/policy")
    assert all(word in page for word in ("reports are late", "shares.low: 0.1 -&gt; 0.12", "Put the shadow in force"))
    assert "No decision under the policy in force is recorded yet" in page
    await admin.post("/policy/shadow", do="make")
    assert (policies.refresh().version, policies.policy().shares.guaranteed[3]) == (1, 0.12)
    assert "Put the shadow in force" not in await text_of(admin, "/policy")
    audit = await text_of(admin, "/audit")
    assert all(act in audit for act in ("shadow set", "shadow removed", "policy set"))
    await admin.post("/policy", page="/policy", do="compare", **{"shares.low": "0.2"})
    await admin.post("/policy/shadow", do="end")
    assert policies.refresh().version == 1
    assert (await admin.post("/policy/shadow", do="end")).status_code == 404


async def test_a_shadow_without_a_reason_is_shown_and_ended(admin_page: Open) -> None:
    admin = await admin_page()
    await admin.post("/policy", page="/policy", do="compare", **{"shares.low": "0.12"})
    page = await admin.get("/policy")
    assert page.status_code == 200
    assert "It is compared with version 0" in page.text
    ended = await admin.post("/policy/shadow", page="/policy", do="end")
    assert ended.headers["location"] == "/admin/policy"


async def test_two_people_change_different_numbers_and_both_stand(admin_page: Open) -> None:
    admin = await admin_page()
    opened = found_shown(await text_of(admin, "/policy"))
    await admin.post("/policy", page="/policy", do="make", **{"patience.normal": "120"})
    old = {"patience.normal": "300", "shares.low": "0.12", **opened}
    await admin.post("/policy", page="/policy", do="make", **old)
    policies = admin.site.app.registry.policies
    found = policies.refresh()
    both = {"patience": {"normal": 120}, "shares": {"low": 0.12}}
    assert (found.version, found.policy) == (2, read_policy(both, DEFAULT_POLICY))


async def test_a_stale_change_of_a_number_is_refused_and_keeps_the_typed_input(
    admin_page: Open,
) -> None:
    admin = await admin_page()
    policies = admin.site.app.registry.policies
    opened = found_shown(await text_of(admin, "/policy"))
    await admin.post("/policy", page="/policy", do="make", **{"patience.normal": "120", "shares.low": "0.12"})
    old = {"patience.normal": "240", "shares.low": "0.1", "reason": "mine", **opened}
    refused = await admin.post("/policy", page="/policy", do="make", **old)
    assert (refused.status_code, policies.refresh().version) == (409, 1)
    page = unescape(refused.text)
    assert "patience.normal is 120" in page
    assert '<input name="patience.normal" value="240"' in page
    assert '<input name="reason" value="mine"' in page
    assert 'name="shares.low"' not in page, "he left it as it was"
    await admin.post("/policy", do="make", shown="1", reason="mine", **{"patience.normal": "240"})
    found = policies.refresh().policy
    assert found == read_policy({"patience": {"normal": 240}, "shares": {"low": 0.12}}, DEFAULT_POLICY)


async def test_another_shadow_than_the_one_on_the_screen_is_neither_put_in_force_nor_ended(admin_page: Open) -> None:
    admin = await admin_page()
    policies = admin.site.app.registry.policies
    await admin.post("/policy", page="/policy", do="compare", **{"shares.low": "0.12"})
    mark = re.search(r'name="shadow" value="([^"]*)"', await text_of(admin, "/policy"))
    assert mark is not None
    policies.shadow.set({"value": {"critical": 99}}, reason="by another one")
    for do in ("make", "end"):
        refused = await admin.post("/policy/shadow", do=do, shadow=unescape(mark[1]))
        assert (do, refused.status_code, policies.refresh().version) == (do, 409, 0)
        assert "value.critical" in refused.text
    mark = re.search(r'name="shadow" value="([^"]*)"', await text_of(admin, "/policy"))
    assert mark is not None
    assert (await admin.post("/policy/shadow", do="make", shadow=unescape(mark[1]))).status_code == 303
    assert policies.refresh().version == 1


async def test_a_version_is_not_returned_to_by_a_page_that_is_out_of_date(admin_page: Open) -> None:
    admin = await admin_page()
    for seconds in ("120", "240"):
        await admin.post("/policy", page="/policy", do="make", **{"patience.normal": seconds})
    refused = await admin.post("/policy/roll-back", version="0", do="make", shown="1")
    assert (refused.status_code, admin.site.app.registry.policies.refresh().version) == (409, 2)


@pytest.mark.parametrize("wrong", [{"patience.normal": "-1"}, {"shares.low": "2"}, {"value.high": CANARY}])
async def test_a_number_out_of_range_is_refused_and_nothing_changes(admin_page: Open, wrong: dict[str, str]) -> None:
    admin = await admin_page()
    refused = await admin.post("/policy", page="/policy", do="make", **wrong)
    assert refused.status_code == 400
    assert "<script>canary" not in refused.text
    assert admin.site.app.registry.policies.refresh().version == 0


@pytest.mark.parametrize("version", ["", "-1", "9", "one", "9" * 30])
async def test_no_version_that_is_not_there_is_returned_to(admin_page: Open, version: str) -> None:
    admin = await admin_page()
    assert (await admin.post("/policy/roll-back", version=version, do="make")).status_code == 400


async def test_the_policy_is_of_operators_and_a_reader_changes_nothing(admin_page: Open) -> None:
    admin = await admin_page(auth=("keys",), operator_tenant="house")
    await admin.enter("admin")
    assert (await admin.get("/policy")).status_code == 403
    assert (await admin.post("/policy", page="/policy", **{"value.high": "9"})).status_code == 403
    assert (await admin.post("/policy/shadow", do="end")).status_code == 403
    await admin.enter("admin:read", tenant="house")
    page = await text_of(admin, "/policy")
    assert "Put in force" not in page
    assert (await admin.post("/policy", page="/policy", **{"value.high": "9"})).status_code == 403
