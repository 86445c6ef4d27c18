"""The audit log, secrets, policy, retention and alerts of an installation, over REST."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter, AuditKind
from duetime.scheduler.audit.verdict import ChainVerdict
from duetime.scheduler.dispatch import retention as sweep
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue import Stats, ThreadUse
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.alerts.alert import Alert, Phase
from duetime.scheduler.rules.changes import pause
from duetime.scheduler.store import open_store
from duetime.scheduler.store.schema.tables.audit import audit_entries
from duetime.server.doctor import examine
from duetime.server.doctor.check import Check
from duetime.server.rest.administration import retention
from duetime.server.settings.model import Settings
from sqlalchemy import update

from tests.builders import TENANT, Clock, added, cancelled, started
from tests.contracts.store.failures.test_store_failing_channels import fire
from tests.flow.auth.conftest import Site, serving
from tests.flow.rest.conftest import SECRET_KEY, sent

pytestmark = pytest.mark.anyio

VALUE = "sk-live-canary7f3a"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Serve the local user alone, with keys for secrets and a rule of retention."""
    rule = {"what": "tasks", "age": "30 days"}
    async with serving(tmp_path, secret_keys=SECRET_KEY, retention=[rule], alert_channels=["desktop"]) as found:
        yield found


async def answered(site: Site, method: str, path: str, status: int = 200, **given: Any) -> dict[str, Any]:
    answer = await sent(site, method, path, **given)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_secret_is_set_listed_and_removed_and_its_value_is_in_no_answer(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    answers = [
        await sent(site, "PUT", "/secrets/stripe", body={"value": VALUE, "hosts": ["API.stripe.com"]}),
        await sent(site, "PUT", "/secrets/stripe", body={"value": [VALUE]}),
        await sent(site, "PUT", "/secrets/no name", body={"value": VALUE}),
        await sent(site, "PUT", "/secrets/stripe", body={"value": VALUE * 2_000}),
        await sent(site, "PUT", "/secrets/stripe", body={"value": VALUE, "hosts": [f"{VALUE}/x"]}),
        await sent(site, "GET", "/secrets"),
        await sent(site, "GET", "/audit"),
    ]
    (secret,) = answers[5].json()["secrets"]
    entry = answers[6].json()["entries"][0]
    removed = await answered(site, "DELETE", "/secrets/stripe")
    again = await answered(site, "DELETE", "/secrets/stripe", 404)

    assert [answer.status_code for answer in answers] == [200, 400, 422, 422, 422, 200, 200]
    assert answers[4].json()["detail"].endswith("Example: hosts=['api.stripe.com']")
    assert (secret["name"], secret["hosts"], secret["set_by"]) == ("stripe", ["api.stripe.com"], "local")
    assert (entry["kind"], entry["subject"], entry["detail"]) == ("secret_set", "stripe", {"hosts": ["api.stripe.com"]})
    assert all(VALUE not in answer.text for answer in (*answers[:4], *answers[5:]))
    assert VALUE not in caplog.text
    assert (removed["secrets"], again["code"]) == ([], "not_found")
    assert (await answered(site, "POST", "/secrets/rotate")) == {
        "schema": "duetime.secrets_rotated/1",
        "encrypted": 0,
        "unreadable": [],
        "workers_without_key": [],
    }
    now = site.app.store.now()
    site.app.store.workers.beat(WorkerProcess("w-old", "host-a", 4711, 1, started_at=now, key_ids=("older",)))
    assert "their runs could read no secret: w-old." in (await answered(site, "POST", "/secrets/rotate", 409))["detail"]


async def test_without_a_key_to_encrypt_with_a_secret_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        refused = await answered(site, "PUT", "/secrets/stripe", 409, body={"value": VALUE})
    assert "secrets need a key to be encrypted with" in refused["detail"]


async def test_audit_entries_are_found_by_their_filters_page_by_page(site: Site) -> None:
    for number in range(3):
        entry = AuditEntry("local", AuditKind.POOL_SET, "ann", "mcp 10.0.0.7", f"gpu{number}", "more")
        site.app.store.audit.record(entry)
    site.app.store.audit.record(AuditEntry("local", AuditKind.POOL_REMOVED, "bob", "cli bob", "gpu0"))
    subjects, path = list[str](), "/v1/audit?actor=ann&surface=mcp&kind=pool_set&limit=2&since=yesterday"
    while path:
        answer = await site.http.get(path)
        subjects += [entry["subject"] for entry in answer.json()["entries"]]
        path = answer.headers.get("Link", "").partition(">")[0].removeprefix("<")
    by_subject = await answered(site, "GET", "/audit?subject=gpu0&until=tomorrow")

    assert subjects == ["gpu2", "gpu1", "gpu0"]
    assert [entry["kind"] for entry in by_subject["entries"]] == ["pool_removed", "pool_set"]


async def test_chains_are_verified_for_one_caller_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, problems = site.app.store.audit_chain, list[str]()

    def another(tenant: str | None, **_: object) -> Iterator[ChainVerdict]:
        with pytest.raises(Refused) as refused:
            chain.verify_alone(tenant)
        problems.append(str(refused.value))
        yield ChainVerdict(str(tenant), 0, "")

    monkeypatch.setattr(chain, "verify", another)
    for _ in range(2):
        await answered(site, "POST", "/audit/verify")
    assert problems == ["another verification goes on; try again when it is done."] * 2


async def test_a_tenant_without_an_audit_chain_is_not_found(site: Site) -> None:
    for method, path in (("GET", "/audit/heads?tenant=acmee"), ("POST", "/audit/verify")):
        body = {} if "?" in path else {"body": {"tenant": "acmee"}}
        assert "no audit chain of 'acmee'" in (await answered(site, method, path, 404, **body))["detail"]
    every = await answered(site, "POST", "/audit/verify", body={"tenant": "*"})
    assert [chain["tenant"] for chain in every["chains"]] == ["local"]


async def test_an_audit_chain_that_was_changed_is_found(site: Site) -> None:
    store = site.app.store
    store.audit.record(AuditEntry("local", AuditKind.POOL_SET, "ann", "rest", "gpu"))
    [head] = (await answered(site, "GET", "/audit/heads"))["heads"]
    kept = f"local:{head['entries']}:{head['hash']}"
    [holds] = (await answered(site, "POST", "/audit/verify", body={"heads": [kept]}))["chains"]
    store._database.write(lambda connection: connection.execute(update(audit_entries).values(actor="eve")))
    [broken] = (await answered(site, "POST", "/audit/verify"))["chains"]

    assert (holds["entries"], "broken" in holds) == (1, False)
    assert (holds["holds"], broken["holds"]) == (True, False)
    assert broken["broken"] == {"entry": 1, "wrong": "audit entry 1 was changed"}
    assert (
        "is not an audit head" in (await answered(site, "POST", "/audit/verify", 422, body={"heads": ["x"]}))["detail"]
    )


async def test_a_head_of_a_chain_that_is_not_verified_is_refused(site: Site) -> None:
    site.app.store.audit.record(AuditEntry("local", AuditKind.POOL_SET, "ann", "rest", "gpu"))
    forged = f"acme:8:{'0' * 64}"
    refused = await answered(site, "POST", "/audit/verify", 422, body={"heads": [forged]})
    own = await answered(site, "POST", "/audit/verify", body={"heads": [forged], "tenant": "acme"})
    every = await answered(site, "POST", "/audit/verify", body={"heads": [forged], "tenant": "*"})

    assert "is of another tenant. Accepted: a head of local, whose chain is verified." in refused["detail"]
    assert "local:8:9f86d081..." in refused["detail"]
    assert "broken" in own["chains"][0]
    assert [(each["tenant"], "broken" in each) for each in every["chains"]] == [("acme", True), ("local", False)]


async def test_the_policy_is_changed_by_version_and_rolled_back(site: Site) -> None:
    assert (await answered(site, "GET", "/policy/versions"))["versions"] == []
    shown = await sent(site, "GET", "/policy")
    change = {"policy": {"patience": {"normal": "2 minutes"}}, "reason": "chats wait"}
    tried = await answered(site, "PATCH", "/policy", body={**change, "dry_run": True})
    done = await sent(site, "PATCH", "/policy", body=change, headers={"If-Match": shown.headers["ETag"]})
    stale = await answered(site, "PATCH", "/policy", 412, body=change, headers={"If-Match": '"0"'})
    wrong = await answered(site, "PATCH", "/policy", 422, body={"policy": {"patience": {"huge": 1}}})
    back = await sent(site, "POST", "/policy/rollback", body={"version": 0}, headers={"If-Match": '"1"'})
    versions = (await answered(site, "GET", "/policy/versions"))["versions"]

    assert (shown.headers["ETag"], shown.json()["version"]) == ('"0"', 0)
    assert ("version" in tried, len(tried["changes"])) == (False, 1)
    assert (done.headers["ETag"], done.json()["version"], done.json()["changes"]) == ('"1"', 1, tried["changes"])
    assert (stale["code"], stale["revision"]) == ("stale_revision", 1)
    assert "huge" in wrong["detail"]
    assert wrong["detail"].endswith("Example: policy={'patience': {'high': 1}}")
    assert back.json()["version"] == 2
    assert [(each["version"], each.get("reason"), len(each["changes"])) for each in versions] == [
        (2, None, 1),
        (1, "chats wait", 1),
    ]
    kinds = [entry.kind.value for entry in site.app.store.audit.page("local", AuditFilter(), limit=9).entries]
    assert kinds == ["policy_restored", "policy_set"]


def _leave_old_tasks(folder: Path) -> None:
    """Cancel three tasks long before the clock of this machine."""
    clock = Clock()
    clock.forward(days=-4000)
    store = open_store(f"sqlite:///{folder}/duetime.db", clock=clock)
    for _ in range(3):
        long_ago = clock.at - timedelta(days=1)
        cancelled(store, added(store, clock.at, created_at=long_ago, updated_at=long_ago))
    store.close()


async def test_retention_is_shown_counted_and_run_within_its_time(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _leave_old_tasks(tmp_path)
    caplog.set_level(logging.INFO, "duetime.server.telemetry.notice_log")
    rules = await answered(site, "GET", "/retention")
    counted = await answered(site, "POST", "/retention/run", body={"dry_run": True})
    monkeypatch.setattr(retention, "RUN_TIME_S", -1.0)
    monkeypatch.setattr(sweep, "FIRST_BATCH_ROWS", 1)
    cut_off = await answered(site, "POST", "/retention/run")
    monkeypatch.undo()
    done = await answered(site, "POST", "/retention/run", body={"only": ["tasks"]})
    entry = site.app.store.audit.page("local", AuditFilter(kind="retention_run"), limit=1).entries[0]

    assert [(rule["what"], rule["age_days"]) for rule in rules["rules"]] == [("tasks", 30.0)]
    assert (counted["rows"]["tasks"]["tasks"], counted["dry_run"]) == (3, True)
    assert (cut_off["complete"], cut_off["rows"]["tasks"]) == (False, {"tasks": 1, "runs": 1, "events": 2})
    assert (done["complete"], done["rows"]["tasks"]["tasks"]) == (True, 2)
    assert (entry.actor, entry.detail) == ("local", {"deleted": {"tasks": 8}, "complete": True})
    lines = [each.getMessage().partition(";")[0] for each in caplog.records if "retention" in each.getMessage()]
    assert lines == ["retention of tasks deleted 4 rows", "retention of tasks deleted 8 rows"]


async def test_a_run_of_retention_that_an_archive_stops_answers_with_the_problem(tmp_path: Path) -> None:
    _leave_old_tasks(tmp_path)
    rule = {"what": "tasks", "age": "30 days"}
    async with serving(tmp_path, retention=[rule], archive_directory=tmp_path / "gone") as site:
        done = await answered(site, "POST", "/retention/run")
        entry = site.app.store.audit.page("local", AuditFilter(kind="retention_failed"), limit=1).entries[0]

    assert (done["rows"], "gone" in done["problems"]["tasks"]) == ({"tasks": {}}, True)
    assert "gone" in str(entry.detail)


async def test_a_former_rule_is_shown_deletes_nothing_and_explains_to_a_verification_what_is_gone(
    tmp_path: Path,
) -> None:
    _leave_old_tasks(tmp_path)
    old = (await _retained(tmp_path, {"what": "tasks", "age": "30 days"}))[1]
    today = old["removals"][0]["day"]
    forgotten = await _retained(tmp_path, {"what": "tasks", "age": "7000 days"})
    former = {"what": "tasks", "age": "30 days", "until": today}
    named = await _retained(tmp_path, {"what": "tasks", "age": "7000 days"}, former)
    past = await _retained(tmp_path, {"what": "tasks", "age": "7000 days"}, former | {"until": "2020-01-01"})

    assert [(rule["what"], rule["age_days"]) for rule in named[0]["rules"]] == [("tasks", 7000.0)]
    assert [(rule["age_days"], rule["until"]) for rule in named[0]["former_rules"]] == [(30.0, today)]
    assert [(found["removed"], found["too_young"]) for _, found in (forgotten, named, past)] == [(6, 6), (6, 0), (6, 6)]
    assert [found["holds"] for _, found in (forgotten, named, past)] == [False, True, False]


async def _retained(folder: Path, *rules: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Seal, let a server with these rules of retention delete, and return its rules, and the verdict on the chain."""
    async with serving(folder, retention=rules) as site:
        for _ in range(2):
            await answered(site, "GET", "/audit/heads?tenant=*")
            await answered(site, "POST", "/retention/run")
        found = await answered(site, "POST", "/audit/verify", body={"tenant": TENANT})
        return await answered(site, "GET", "/retention"), found["chains"][0]


async def test_alerts_are_listed_with_what_they_say_and_where_to_read_on(site: Site) -> None:
    now = site.app.store.now()
    site.app.store.alerts.replace(
        "DuetimeWorkersLost", {}, {"": Alert("DuetimeWorkersLost", "", Phase.FIRING, now, 2.0)}
    )
    found = await answered(site, "GET", "/alerts")

    assert found["watched"] is True
    assert [(each["alert"], each["state"], each["runbook"]) for each in found["alerts"]] == [
        ("DuetimeWorkersLost", "firing", "docs/runbook.md#duetimeworkerslost")
    ]


async def test_the_installation_at_one_moment_has_counts_and_runs_and_no_word_of_a_tenant(site: Site) -> None:
    store = site.app.store
    claim = started(store, store.now(), tenant="acme", title="Canary title", worker="w7")
    found = await sent(site, "GET", "/top")
    top = found.json()

    assert [(worker["id"], [run["run_id"] for run in worker["runs"]]) for worker in top["workers"]] == [
        ("w7", [claim.run.id])
    ]
    assert {tier["tier"]: tier["states"] for tier in top["tiers"]}["normal"] == {"running": 1}
    assert (top["outcomes"]["started"], top["pools"], "queue" in top) == (1, {}, False)
    assert "no process is running tasks" in top["silent"]
    assert "Canary" not in found.text
    assert store.audit.page("local", AuditFilter(), limit=1).entries == ()


async def test_the_installation_at_one_moment_has_the_runs_of_paused_tasks_and_the_threads_withheld(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.app.store
    store.workers.beat(WorkerProcess("w1", "host-a", 4711, threads=8, started_at=store.now()))
    stats = Stats((0,) * 5, 0, 0, 0, {}, {"w1": ThreadUse(8, 4, withheld=4)})
    monkeypatch.setattr(site.app.remote_queue, "stats", lambda: stats)
    paused = added(store)
    store.tasks.change(paused.task.tenant, paused.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    top = await answered(site, "GET", "/top")
    listed = await answered(site, "GET", "/workers")

    assert [(worker["id"], worker["withheld"]) for worker in listed["workers"]] == [("w1", 4)]
    assert [(worker["id"], worker["withheld"]) for worker in top["workers"]] == [("w1", 4)]
    assert {tier["tier"]: (tier["paused"], tier["states"]) for tier in top["tiers"]}["normal"] == (1, {})


async def test_quiet_hours_are_set_shown_and_cleared(site: Site) -> None:
    body = {"hours": "22:00-07:00 America/Denver"}
    made = await answered(site, "PUT", "/quiet-hours", body=body)
    assert made | {"until": None} == {
        "schema": "duetime.quiet_hours/1",
        "tenant": "local",
        "user": "local",
        "own": True,
        "until": None,
        **body,
    }
    assert await answered(site, "GET", "/quiet-hours") == made
    refused = await answered(site, "PUT", "/quiet-hours", 422, body={"hours": "22-7"})
    assert "22:00-07:00" in refused["detail"]
    of_ann = await answered(site, "PUT", "/quiet-hours", body={"hours": "none", "user": "ann"})
    assert (of_ann["user"], of_ann.get("hours"), of_ann["own"]) == ("ann", None, True)
    cleared = await answered(site, "DELETE", "/quiet-hours")
    assert (cleared.get("hours"), cleared["own"]) == (None, False)
    entries = (await answered(site, "GET", "/audit"))["entries"]
    assert [(entry["kind"], entry["subject"]) for entry in entries] == [
        ("quiet_hours_cleared", "local"),
        ("quiet_hours_set", "ann"),
        ("quiet_hours_set", "local"),
    ]


@pytest.mark.parametrize("name", ["a\u202egz.lnosj", "a\nb.jsonl"])
async def test_a_file_whose_name_could_disguise_itself_is_not_imported(site: Site, name: str) -> None:
    answer = await sent(site, "POST", "/import", body={"name": name, "content": "eA=="})
    assert answer.status_code == 422, answer.text
    assert answer.json()["argument"] == "name"
    assert not site.app.store.audit.page("local", AuditFilter(), limit=9).entries


async def test_the_doctor_says_that_the_server_lacks_a_key_by_which_another_process_encrypted(tmp_path: Path) -> None:
    newer, file = base64.b64encode(b"n" * 32).decode(), tmp_path / "keys"
    file.write_text(SECRET_KEY)
    async with serving(tmp_path, secret_keys_file=str(file)) as site:
        await answered(site, "PUT", "/secrets/stripe", body={"value": VALUE})
        assert (await _check(site, "secrets"))["verdict"] == "ok"
        file.write_text(f"{newer}\n{SECRET_KEY}")
        other = open_store(site.app.settings.database_url, secret_keys=[read_key(newer), read_key(SECRET_KEY)])
        other.secrets.rotate(AuditEntry.by(LOCAL, AuditKind.SECRETS_ROTATED))
        other.close()
        found = await _check(site, "secrets")

    assert (found["verdict"], "no key decrypts stripe of local" in found["said"]) == ("wrong", True)


async def _check(site: Site, name: str) -> dict[str, str]:
    checks = (await answered(site, "GET", "/doctor"))["checks"]
    found: dict[str, str] = next(check for check in checks if check["name"] == name)
    return found


async def test_deliveries_that_were_given_up_are_sent_again_with_a_reason_and_without_a_test_message(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tested = site.app.store, list[bool]()

    def channel_checks(_: Settings, *, send_test: bool) -> list[Check]:
        tested.append(send_test)
        return []

    monkeypatch.setattr(examine, "channel_checks", channel_checks)
    fire(store, "Backup", "crm")
    due = [delivery for delivery, _ in store.deliveries.due(limit=9)]
    assert store.deliveries.settle_failed([each.id for each in due], 0, "HTTP 410", next_at=None)
    refused = await answered(site, "POST", "/doctor", 422, body={"reason": "the CRM is back"})
    assert "only with send_again" in str(refused)
    found = await answered(site, "POST", "/doctor", body={"send_again": "crm", "reason": "the CRM is back"})

    [said] = [check["said"] for check in found["checks"] if check["name"] == "deliveries"]
    [entry] = store.audit.page("local", AuditFilter(kind="deliveries_sent_again"), limit=9).entries
    assert (said, tested) == ("1 that was given up for crm will be sent again.", [False])
    assert (entry.actor, entry.subject, entry.reason) == ("local", "crm", "the CRM is back")
