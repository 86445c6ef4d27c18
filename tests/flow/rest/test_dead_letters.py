"""Dead letters over REST: found by their filters, replayed and discarded once, with a key and in the audit log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.principal import Principal

from tests.flow.auth.conftest import Site, serving
from tests.flow.rest.conftest import sent
from tests.flow.rest.failures import failed

pytestmark = pytest.mark.anyio

BACK = "the CRM is back"


async def open_letters(site: Site, query: str = "", token: str | None = None) -> list[dict[str, Any]]:
    answer = await sent(site, "GET", f"/dead_letters?{query}", token=token)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["dead_letters"]
    return found


async def test_dead_letters_have_payload_and_attempts_and_no_secret(site: Site) -> None:
    task_id = await failed(site, payload={"message": "https://ann:hunter2@example.com"})
    [letter] = await open_letters(site)
    shown = (await sent(site, "GET", f"/dead_letters/{letter['run_id']}")).json()

    assert (letter["task_id"], letter["title"], letter["reason"]) == (task_id, "Send it", "no address")
    assert "hunter2" not in str(letter["payload"])
    assert shown == {"schema": "duetime.dead_letter/1", **letter}
    assert [attempt["number"] for attempt in letter["attempts"]] == [1]


async def test_letters_are_found_by_their_filters_and_by_what_became_of_them(site: Site) -> None:
    await failed(site)
    mail = await failed(site, labels=["mail"])
    [letter] = await open_letters(site, "label=mail&action=reminder&text=no%20address&since=yesterday")
    body = {"run_ids": [letter["run_id"]], "reason": "sent by hand"}
    await sent(site, "POST", "/dead_letters/discard", body=body)
    [closed] = await open_letters(site, "state=discarded")

    assert letter["task_id"] == closed["task_id"] == mail
    assert (letter["state"], closed["state"]) == ("open", "discarded")
    assert len(await open_letters(site)) == 1


async def test_a_replay_is_counted_first_bounded_and_in_the_audit_log(site: Site) -> None:
    for _ in range(3):
        await failed(site)
    counted = (await sent(site, "POST", "/dead_letters/replay", body={"all": True, "dry_run": True})).json()
    without_reason = await sent(site, "POST", "/dead_letters/replay", body={"all": True})
    without_choice = await sent(site, "POST", "/dead_letters/replay", body={"reason": BACK})
    done = (
        await sent(site, "POST", "/dead_letters/replay", body={"action": "reminder", "reason": BACK, "max_letters": 2})
    ).json()
    again = await sent(site, "POST", "/dead_letters/replay", body={"run_ids": [done["closed"][0]["run_id"]]})
    unknown = await sent(site, "POST", "/dead_letters/replay", body={"run_ids": ["r_7k3m9qx2w4hb00000000"]})
    entries = site.app.store.audit.page("local", AuditFilter(), limit=9).entries

    assert (counted["matched"], len(counted["closed"]), counted["dry_run"]) == (3, 3, True)
    assert not any("replayed_as" in each for each in counted["closed"])
    assert (without_reason.status_code, without_reason.json()["argument"]) == (422, "reason")
    assert (without_choice.status_code, without_choice.json()["argument"]) == (422, "run_ids")
    assert (len(done["closed"]), done["left"]) == (2, 1)
    assert [each["state"] for each in await open_letters(site, "state=replayed")] == ["replayed", "replayed"]
    assert (again.status_code, again.json()["code"]) == (409, "refused")
    assert unknown.status_code == 404
    assert {(each.kind.value, each.reason, (each.via or "").partition(" ")[0]) for each in entries} == {
        ("dead_letter_replayed", BACK, "rest")
    }


async def test_a_dry_run_on_letters_of_another_tenant_is_a_read_of_it_in_the_audit_log(tmp_path: Path) -> None:
    async with serving(tmp_path, auth="keys") as site:
        site.app.scheduler.schedule("Call John", by=Principal("acme", "ann"), when="in 1 hour")
        operator = site.key("local", "root", scopes=("tasks", "admin"))
        for tenant in ("local", "acme"):
            for verb in ("replay", "discard"):
                body = {"all": True, "reason": BACK, "dry_run": True, "tenant": tenant}
                answer = await sent(site, "POST", f"/dead_letters/{verb}", body=body, token=operator)
                assert answer.status_code == 200
        read, own = (site.app.store.audit.page(tenant, AuditFilter(), limit=9).entries for tenant in ("acme", "local"))

    assert [(each.kind.value, each.actor_tenant) for each in read] == [("other_tenant_read", "local")] * 2
    assert own == ()


async def test_a_repeated_request_with_a_key_replays_no_more(site: Site) -> None:
    for _ in range(3):
        await failed(site)
    key: dict[str, Any] = {"headers": {"Idempotency-Key": "k1"}}
    body = {"all": True, "reason": BACK, "max_letters": 2}
    first, *others = await asyncio.gather(
        *(sent(site, "POST", "/dead_letters/replay", body=body, **key) for _ in range(3))
    )
    again = await sent(site, "POST", "/dead_letters/replay", body=body, **key)
    other = await sent(site, "POST", "/dead_letters/discard", body=body, **key)

    assert len(await open_letters(site)) == 1
    assert len(again.json()["closed"]) == 2
    assert {answer.status_code for answer in (first, *others)} <= {200, 503}
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")


async def test_an_operator_replays_letters_of_another_tenant_and_its_audit_log_says_so(guarded: Site) -> None:
    operator = guarded.key("local", "root", scopes=("admin",))
    await failed(guarded, guarded.key("acme", "ann"), "acme")
    body = {"all": True, "reason": BACK, "tenant": "acme"}
    done = (await sent(guarded, "POST", "/dead_letters/replay", token=operator, body=body)).json()
    entries = guarded.app.store.audit.page("acme", AuditFilter(), limit=9).entries

    assert len(done["closed"]) == 1
    assert [(each.kind.value, each.actor, each.actor_tenant) for each in entries] == [
        ("dead_letter_replayed", "root", "local")
    ]
