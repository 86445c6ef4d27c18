"""`duetime --server URL`: the verbs of a command line on one machine, and the tasks of a server on another."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.history.retention import RetentionKind, RetentionRule, ScopedRule
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.policies.decision import Contender, Look
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.store import open_store
from duetime.scheduler.task import State
from duetime.server.auth.issued_keys import new_key, validity_of
from duetime.server.cli.main import run
from duetime.server.cli.remote.verbs import ON_THIS_MACHINE_ALONE, REMOTE_VERBS
from duetime.server.cli.verbs import duetime_command
from duetime.server.rest.administration.imports import MAX_CONTENT_BYTES

from tests import forked
from tests.builders import NOON, Clock, added, cancelled, log_chunk, settlement, started
from tests.flow.protocol.serve_process import ServerLog

Said = Callable[..., str]
BAD_GATEWAY = "502 Bad Gateway"
LETTERS = "letters"
"""A tenant with dead letters."""
SECRETS_KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

CHANNEL_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def issued(folder: Path, tenant: str, user: str, *scopes: str) -> str:
    """Make a key as `duetime keys create` does on the server's machine."""
    store = open_store(f"sqlite:///{folder}/duetime.db", migrate=True)
    text, key = new_key(Principal(tenant, user, frozenset(scopes)), "test", store.now(), validity_of("1 day"))
    store.api_keys.add(key)
    store.close()
    return text.text


def _leave_letters(folder: Path) -> None:
    """Leave dead letters of a tenant in a database that nobody serves yet."""
    store = open_store(f"sqlite:///{folder}/duetime.db", migrate=True)
    for _ in range(2):
        claim = started(store, store.now(), tenant=LETTERS, title="Push", labels=("crm",))
        ended = settlement(claim, State.FAILED, reason=BAD_GATEWAY, error=BAD_GATEWAY, dead_letter=True)
        store.claims.settle([replace(ended, used={"tokens": 900.0}, costs={"tokens": 2_700})])
    store.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Run a server that asks for keys; gives its address and the folder of its database."""
    folder = tmp_path_factory.mktemp("server")
    settings = {"DATABASE_URL": f"sqlite:///{folder}/duetime.db", "AUTH": "keys", "PORT": "0", "TIMEZONE": "UTC"}
    (folder / "duetime.toml").write_text(
        '[[retention]]\nwhat = "tasks"\nage = "90 days"\n'
        f'[channels.ops]\nwebhook = "https://example.com/hook"\nsecret = "{CHANNEL_SECRET}"\n'
    )
    settings |= {"CONFIG": f"{folder}/duetime.toml", "SECRET_KEYS": SECRETS_KEY}
    given = {f"DUETIME_{name}": value for name, value in settings.items()} | {"DUETIME_DESKTOP_NOTIFICATIONS": "off"}
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DUETIME_")}
    command = [sys.executable, "-m", "duetime", "serve"]
    _leave_letters(folder)
    with forked.popen(command, stderr=subprocess.PIPE, text=True, env=kept | given) as process:
        log = ServerLog(process.stderr)
        try:
            yield log.address.removesuffix("/mcp"), folder
        finally:
            process.terminate()
            log.rest()


@pytest.fixture
def said(
    server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Said:
    """Run a command with a new key of a tenant of the test's own; return stdout, or stderr where it fails."""
    address, folder = server
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUETIME_SERVER", address)
    monkeypatch.setenv("DUETIME_KEY", issued(folder, tmp_path.name, "ann", "tasks", "admin"))
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/never-made.db")

    def answered(*arguments: str, code: int = 0, out: bool = False) -> str:
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr().err
        written = capsys.readouterr()
        assert not list(tmp_path.iterdir()), "nothing is made on this machine"
        return written.out if out or not code else written.err

    return answered


def scheduled(said: Said, title: str = "Call John", *options: str) -> Any:
    return json.loads(said("schedule", title, "--when", "tomorrow 9am", *options, "--json"))


def test_a_task_is_scheduled_shown_changed_cancelled_and_brought_back(said: Said) -> None:
    assert "Scheduled t_" in said("schedule", "Call John", "--when", "tomorrow 9am", "--label", "crm")
    (row,) = json.loads(said("list", "--label", "crm", "--json"))["tasks"]
    heads = said("list").splitlines()[0].split()
    assert heads == ["ID", "WHEN", "STATE", "TITLE", "ACTION", "REPEATS", "LABELS"]
    assert "Call John" in said("show", row["id"], "--history")
    assert "Changed" in said("reschedule", "call john", "--when", "tomorrow 11am", "--priority", "high")
    assert json.loads(said("show", row["id"], "--json"))["priority"] == "high"
    assert "Paused" in said("reschedule", row["id"], "--pause")
    assert "Paused" in said("reschedule", row["id"], "--pause-until", "in 2 hours")
    assert "Resumed" in said("reschedule", row["id"], "--resume")
    assert "pause 1 task until" in said("bulk", "pause", "--all", "--until", "in 2 hours")
    assert "Cancelled" in said("cancel", row["id"], "--reason", "he called")
    assert "Scheduled again" in said("undo", row["id"])
    assert "he called" in said("history", row["id"])
    assert "cancelled" in said("history", "--count-by", "kind", "--label", "crm")
    assert "FROM (UTC)" in said("history", row["id"], "--bucket", "day")
    assert said("explain", row["id"]).startswith("Call John: scheduled")


def test_a_chain_is_named_in_lists_and_found_by_its_title(said: Said, tmp_path_factory: pytest.TempPathFactory) -> None:
    steps = tmp_path_factory.mktemp("steps") / "steps.json"
    steps.write_text('[{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]', "utf-8")
    chain = scheduled(said, "Monday report", "--steps", str(steps))["chain"]
    assert said("list").splitlines()[1].startswith(chain["id"]), "above its steps"
    assert ",Monday report,fetch" in said("list", "--csv")
    assert json.loads(said("show", "monday report", "--json"))["id"] == chain["id"]
    assert "is a chain, which has no address" in said("event", "address", chain["id"], code=4)


def test_the_same_key_schedules_once_and_a_wrong_revision_changes_nothing(said: Said) -> None:
    first, second = (scheduled(said, "Pay", "--key", "k1") for _ in range(2))
    assert (first["id"], second["created"]) == (second["id"], False)
    assert "t_" in said("reschedule", first["id"], "--title", "Pay all", "--revision", "9", code=4)
    assert json.loads(said("show", first["id"], "--json"))["title"] == "Pay"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "t_000000000000"), 3, "t_000000000000"),
        (("show", "no such title"), 3, "no task 'no such title'"),
        (("schedule", "Late", "--when", "yesterday"), 2, "past"),
        (("schedule", "Odd", "--when", "someday", "--priority", "huge"), 2, "priority"),
        (("migrate",), 2, "so none answers before. Run it there, without --server and DUETIME_SERVER"),
        (("backup", "copy.db"), 2, "`backup` works on the machine that it is run on: it writes a file"),
        (("doctor",), 4, "operator"),
        (("config",), 4, "operator"),
        (("pools", "list"), 4, "operator"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_refusal_has_the_words_of_the_server_and_the_exit_code_of_the_verb(
    said: Said, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert words in said(*arguments, code=code)


@pytest.mark.parametrize(
    ("typed", "code", "options"),
    [
        ("show t_000000000000", 3, "ID: no task 't_000000000000'. `duetime list` shows your tasks and their ids."),
        ("list --state asleep", 2, "Example: --state open"),
        ("schedule Call --when tomorrow --priority huge", 2, "Example: --priority high"),
        (
            "reschedule {task} --when tomorrow --revision 9",
            4,
            "with `duetime show {task}` and repeat this with --revision 1",
        ),
        ("reschedule {task} --when tomorrow --repeat 'every day' --max-runs 0", 2, "--max-runs: "),
        ("bulk undo u_nothing", 4, "undo: no change of many tasks has this token"),
        *(
            (f"logs {of}", 3, f"ID: no run or task {of!r}. `duetime runs` and `duetime list` show their ids.")
            for of in ("nope", "t_000000000000", "r_7k3m9qx2w4hb00000000")
        ),
    ],
)
def test_a_refusal_has_the_options_and_the_commands_of_the_command_line(
    said: Said, typed: str, code: int, options: str
) -> None:
    task = scheduled(said)["id"]
    answer = said(*shlex.split(typed.format(task=task)), code=code)
    assert options.format(task=task) in answer
    assert "/v1" not in answer


def test_runs_inbox_and_keys_are_those_of_the_caller(said: Said, server: tuple[str, Path]) -> None:
    scheduled(said)
    assert "Call John" in said("runs", "--state", "scheduled", "--until", "in 3 days")
    assert json.loads(said("runs", "--count-by", "state", "--until", "in 3 days", "--json"))["counts"] == {
        "scheduled": 1
    }
    assert said("inbox") == "Nothing is unread.\n"
    assert "0 outcomes done" in said("inbox", "done", "--all")
    new = json.loads(said("keys", "create", "laptop", "--json"))
    assert new["key"].startswith("dt_")
    assert "laptop" in said("keys", "list")
    assert f"Revoked {new['id']}" in said("keys", "revoke", new["key"]), "a whole key is meant by its id"
    named = json.loads(said("keys", "create", f"phone of {new['id']}", "--json"))
    assert f"Revoked {named['id']}" in said("keys", "revoke", named["name"])


def test_a_call_without_a_right_key_says_how_to_give_one(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUETIME_KEY")
    assert "Authentication required. Give a key with --key or DUETIME_KEY." in said("list", code=4)


def test_a_key_of_an_agent_shows_what_happened_to_its_task_and_is_told_what_it_lacks(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], tmp_path.name, "ann", "tasks"))
    task = scheduled(said)
    said("cancel", task["id"], "--reason", "he called")
    shown = said("show", task["id"], "--history")
    assert "created" in shown
    assert "he called" in shown
    assert "Required scope: admin:read or admin, which this key lacks. `duetime keys create" in said("runs", code=4)


def test_runs_have_their_cost(said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], LETTERS, "ann", "admin"))
    head, first, *_ = said("runs", "--since", "yesterday").splitlines()
    assert "COST" in head.split()
    assert "0.0027" in first


def test_events_are_found_by_what_their_runs_say(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], LETTERS, "ann", "admin"))
    of_runs = ("--error", "502 bad", "--min-cost", "0.0027", "--min-attempts", "1", "--tier", "normal")
    found = json.loads(said("history", *of_runs, "--worker", "w1", "--state", "failed", "--json"))["events"]
    assert [event["reason"] for event in found] == ["502 Bad Gateway"] * 2
    assert said("history", found[0]["task_id"]).startswith("RUN  ATTEMPT  STARTED"), "in the scope of events alone"
    for other in (("--worker", "w2"), ("--tier", "high"), ("--min-cost", "0.0028"), ("--min-lateness", "1 s")):
        assert json.loads(said("history", *of_runs, *other, "--json"))["events"] == [], other
    assert "failed" in said("history", "--error", "502", "--count-by", "kind")
    assert "--min-cost" in said("history", "--min-cost", "much", code=2)


def test_a_report_is_that_of_the_own_tenant(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "0 runs ended" in said("report", "--since", "2d")
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], LETTERS, "ann", "admin:read"))
    lines = said("report").splitlines()
    assert "2 runs ended (none the time before): 0 succeeded, 2 failed, 0 expired, 0 cancelled" in lines
    assert "cost: 0.0054 USD (none the time before)" in lines
    found = json.loads(said("report", "--json"))
    assert (found["schema"], found["total"]["failed"], found["before"]["total"]["ended"]) == ("duetime.report/1", 2, 0)
    assert "only an operator" in said("report", "--tenant", "*", code=4).lower()


def test_costs_are_those_of_the_own_tenant(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "A pool with a price makes runs cost something" in said("cost")
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], LETTERS, "ann", "admin"))
    head, _, total = said("cost").splitlines()
    assert (head.split(), total) == (["DAY", "COST"], "Total: 0.0054 USD")
    assert said("cost", "--by", "action", "--csv").splitlines()[1] == "reminder,,0.0054,USD,UTC"
    assert json.loads(said("runs", "--min-cost", "0.0027", "--json"))["runs"][0]["cost"] == "0.0027"
    assert "Only an operator" in said("cost", "--tenant", "*", code=4)


def test_dead_letters_are_listed_shown_replayed_and_discarded(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said("dead") == "No dead letters.\n", "those of another tenant"
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], LETTERS, "ann", "admin"))
    monkeypatch.setenv("DUETIME_TIMEZONE", "Asia/Tokyo")
    one, two = sorted(letter["run_id"] for letter in json.loads(said("dead", "--json"))["dead_letters"])
    assert "AT (Asia/Tokyo)" in said("dead", "list", "--label", "crm")
    assert "502 Bad Gateway" in said("dead", "show", one)
    assert said("dead", "replay", "--all", "--dry-run") == "2 match; 2 would be replayed.\n"
    assert "name runs" in said("dead", "replay", code=2)
    assert f"{one} is replayed as r_" in said("dead", "replay", one, "--key", "k1")
    assert f"{one} is replayed as r_" in said("dead", "replay", one, "--key", "k1")
    assert "replayed already" in said("dead", "replay", one, code=4)
    discarded = said("dead", "discard", two, "--reason", "by hand")
    assert discarded.startswith("1 of 1 discarded.\nFor 10 minutes: duetime dead undo u_b")
    assert two in said("dead", "list", "--state", "discarded", "--csv")
    assert "Took back the change of 1 task." in said("dead", "undo", discarded.split()[-1], "--tenant", LETTERS)
    assert two in said("dead", "list", "--csv")


def test_failures_since_a_time_are_the_runs_that_failed_then(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    said("cancel", scheduled(said)["id"])
    assert "cancelled" in said("runs", "--since", "1h", "--state", "cancelled,failed")
    assert said("failed", "--since", "1h") == "No runs.\n"
    assert run(["failed", "--since", "2026-11-24 06:00", "--until", "2026-11-24 07:00"]) == 0
    assert capsys.readouterr().err.startswith("Runs from Tue 24 Nov 2026 06:00 to Tue 24 Nov 2026 07:00")
    assert json.loads(said("failed", "--since", "1h", "--json"))["runs"] == []


def test_an_operator_sets_pools_and_reads_statistics(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin"))
    assert said("pools", "set", "gpu", '{"capacity": 2}') == "gpu: slots, 2 slots\n"
    assert said("pools", "list").splitlines()[1].split() == ["gpu", "slots", "2", "slots"]
    assert "critical" in said("stats")
    assert "critical" in said("top", "--once")
    assert json.loads(said("workers", "--json"))["schema"] == "duetime.workers/1"
    said("pools", "remove", "gpu")
    assert said("pools", "list").startswith("No pool is declared. ")


def test_secrets_are_set_listed_and_removed_and_never_shown(
    said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert said("secrets", "list").startswith("This tenant has no secret.")
    monkeypatch.setattr(sys, "stdin", io.StringIO("sk-live-canary7f3a\n"))
    assert f"Set stripe-key of {tmp_path.name}." in said("secrets", "set", "stripe-key", "--host", "API.stripe.com")
    shown = said("secrets", "list") + said("secrets", "list", "--json") + said("audit", "list", "--json")
    assert "stripe-key" in shown
    assert "api.stripe.com" in shown
    assert "canary7f3a" not in shown
    assert "Removed stripe-key" in said("secrets", "remove", "stripe-key")
    assert "no secret 'stripe-key'" in said("secrets", "remove", "stripe-key", code=3)


def test_quiet_hours_are_set_shown_and_cleared(said: Said, tmp_path: Path) -> None:
    assert said("quiet-hours").startswith("No quiet hours for ")
    assert "22:00-07:00 America/Denver, set for this user" in said("quiet-hours", "set", "22:00-07:00 America/Denver")
    assert "of " + tmp_path.name in said("quiet-hours", "show")
    assert "No quiet hours for bob of " in said("quiet-hours", "set", "none", "--user", "bob")
    assert json.loads(said("quiet-hours", "clear", "--json"))["own"] is False


def test_an_operator_lists_the_keys_and_verifies_the_chains_of_all_tenants(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said("keys", "create", "laptop")
    for verb in (("keys", "list", "--tenant", "*"), ("audit", "verify", "--tenant", "*"), ("pools",)):
        told = said(*verb, code=4)
        assert "Only an operator may do this. Use a key of the tenant that the setting operator_tenant names." in told
        assert "--scope" not in told, "no scope makes an operator"
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "tasks", "admin"))
    for each in ("local", tmp_path.name):
        tenants = {key["tenant"] for key in json.loads(said("keys", "list", "--tenant", "*", "--json"))["keys"]}
        assert each in tenants
        assert f"{each}:" in said("audit", "head", "--tenant", "*")
        assert f"{each}: " in said("audit", "verify", "--tenant", "*")
    assert {key["tenant"] for key in json.loads(said("keys", "list", "--json"))["keys"]} == {"local"}


def test_the_audit_log_is_listed_and_its_chain_verified(said: Said, tmp_path: Path) -> None:
    said("keys", "create", "laptop")
    assert "key_created" in said("audit", "list", "--surface", "rest", "--kind", "key_created")
    assert said("audit", "list", "--who", "bob") == "No entry matches.\n"
    head = said("audit", "head").strip()
    assert head.startswith(f"{tmp_path.name}:")
    assert f"{tmp_path.name}: 1 entries hold" in said("audit", "verify", "--head", head)
    assert "BROKEN" in _broken(said, f"{tmp_path.name}:1:{'0' * 64}")


def test_a_head_of_another_tenant_is_refused_over_the_server_too(said: Said, tmp_path: Path) -> None:
    said("keys", "create", "laptop")
    own, forged = said("audit", "head").strip(), f"acme:8:{'0' * 64}"
    refused = said("audit", "verify", "--head", forged, code=2)
    assert "'acme:8:00000" in refused
    assert f"is of another tenant. Accepted: a head of {tmp_path.name}, whose chain is verified." in refused
    assert "is of another tenant" in said("audit", "verify", "--head", f"{own}\n{forged}\n", code=2)
    assert "entries hold" in said("audit", "verify", "--head", f"{own}\n")


def _broken(said: Said, head: str) -> str:
    return said("audit", "verify", "--head", head, code=1, out=True)


def test_an_operator_changes_the_policy_and_reads_alerts_and_retention(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in (("policy", "show"), ("alerts",), ("retention", "status"), ("secrets", "rotate")):
        assert "operator" in said(*verb, code=4)
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin"))
    assert said("policy", "show").startswith("version 0: the default")
    assert "this would change" in said("policy", "set", "patience.normal=2 minutes", "--dry-run")
    assert "is in force" in said("policy", "set", "patience.normal=2 minutes", "--reason", "chats wait")
    assert "set by root" in said("policy", "history")
    assert "chats wait" in said("policy", "show")
    assert "is in force" in said("policy", "rollback", "0", "--reason", "back")
    assert "No process watches for alerts" in said("alerts")
    assert "tasks" in said("retention", "status")
    assert said("retention", "run", "--dry-run") == said("retention", "run").replace("was", "is")
    assert "No rule is of that kind" in said("retention", "run", "--only", "inbox")
    assert json.loads(said("retention", "run", "--only", "inbox", "--json"))["rows"] == {}
    assert said("secrets", "rotate") == "0 secrets encrypted by the first key.\n"


def test_recorded_decisions_and_the_shadow_of_a_policy_are_shown_from_afar(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Contender("r_1", NOON.timestamp() * 1000, tmp_path.name)
    look = Look(run.key, 0, 1, (0.0,) * 5, (2.0,) * 5, (None, run, None, None, None), 2, run)
    store = open_store(f"sqlite:///{server[1]}/duetime.db", migrate=True)
    store.decisions.add([Decision("d_1", NOON, tmp_path.name, "t_1", "r_1", "w1", look)])
    store.close()
    assert "only tier with a run that could start" in said("decisions")
    assert "Run r_1 of tier high was taken by worker w1." in said("decisions", "show", "d_1")
    assert "operator" in said("policy", "shadow", code=4)
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin"))
    assert "no decision 'd_1'" in said("decisions", "show", "d_1", code=3)
    assert "shares.low: 0.1 -> 0.12" in said("policy", "shadow", "shares.low=0.12", "--reason", "reports")
    assert "reports" in said("policy", "shadow")
    assert said("policy", "shadow", "--off") == "The shadow policy has ended.\n"
    assert "there is no shadow policy" in said("policy", "shadow", code=3)


def test_an_operator_checks_an_installation_and_reads_its_settings_without_their_secrets(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin:read"))
    checks = {each["name"]: each for each in json.loads(said("doctor", "--json"))["checks"]}
    assert f"{server[1]}/duetime.toml" in checks["configuration"]["said"]
    assert checks["runner"]["verdict"] == "ok"
    assert "integrity" in said("doctor", "--deep")
    assert "Required scope: admin," in said("doctor", "--send-test", code=4)
    assert "Required scope: admin," in said("doctor", "--send-again", "crm", code=4)
    lines = said("config").splitlines()
    assert lines[0] == f"file: {server[1]}/duetime.toml"
    assert any(line.split()[:2] == ["secret_keys", "***"] for line in lines)
    shown = said("config", "--json") + said("doctor", "--json")
    assert CHANNEL_SECRET not in shown
    assert SECRETS_KEY not in shown
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin"))
    again = json.loads(said("doctor", "--send-again", "crm", "--reason", "the CRM is back", "--json", code=1, out=True))
    [found] = [each for each in again["checks"] if each["name"] == "deliveries"]
    assert "there is no channel 'crm'" in found["said"]


def test_an_archive_of_this_machine_is_imported_over_there(
    said: Said, server: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    store = open_store(f"sqlite:///{folder}/old.db", migrate=True, clock=Clock())
    cancelled(store, added(store, NOON, title="Long gone"))
    [rows] = store.retention.pages(
        ScopedRule(RetentionRule(RetentionKind.TASKS, timedelta(0)), timedelta(0)), NOON + timedelta(days=1)
    )
    store.retention.archive(RetentionKind.TASKS, rows, folder)
    store.close()
    [file] = map(str, folder.rglob("*.jsonl.gz"))
    assert "operator" in said("import", file, code=4)
    monkeypatch.setenv("DUETIME_KEY", issued(server[1], "local", "root", "admin"))
    assert "'acme', not only of 'bank'" in said("import", file, "--tenant", "bank", code=4)
    assert json.loads(said("import", file, "--json"))["stored"] == {"tasks": 1, "runs": 1, "events": 2}
    assert said("import", file) == "4 rows were there already.\n"
    assert "rows_imported" in said("audit", "list", "--kind", "rows_imported", "--limit", "500")
    damaged, large = folder / "damaged.gz", folder / "large.gz"
    damaged.write_bytes(b"no archive")
    large.write_bytes(bytes(MAX_CONTENT_BYTES + 1))
    assert "damaged.gz, line 1: it cannot be read" in said("import", str(damaged), code=4)
    assert "run there: duetime import large.gz" in said("import", str(large), code=4)


def test_without_a_right_key_the_way_to_give_one_is_shown(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETIME_KEY", "dt_wrong")
    told = said("list", code=4)
    assert "does not know this key: it is wrong, revoked or expired. Give another one with --key or DUETIME_KEY" in told


def test_a_key_never_travels_in_the_clear(said: Said) -> None:
    assert "never sent over plain HTTP" in said("--server", "http://duetime.example.com", "list", code=2)
    assert "is not the address of a server" in said("--server", "duetime.example.com", "list", code=2)


def test_a_server_that_is_not_there_is_named(said: Said) -> None:
    assert "http://127.0.0.1:9 does not answer" in said("--server", "http://127.0.0.1:9", "list", code=1)


def test_every_verb_works_on_a_server_or_is_known_not_to() -> None:
    def verbs(command: Any, path: str = "") -> Iterator[str]:
        for name, each in command.commands.items():
            inner = f"{path} {name}".strip()
            yield from verbs(each, inner) if hasattr(each, "commands") else [inner]

    others = set(verbs(duetime_command())) - set(REMOTE_VERBS)
    assert others == set(ON_THIS_MACHINE_ALONE), "each with its reason"
    assert all(ON_THIS_MACHINE_ALONE.values())


def test_the_log_of_a_run_over_there(said: Said, server: tuple[str, Path], tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{server[1]}/duetime.db", clock=Clock())
    claim = started(store, tenant=tmp_path.name, title="Import")
    store.claims.settle([settlement(claim, log=(log_chunk(claim, 1, "begun", "done", last=True),))])
    store.close()
    for of in (claim.run.id, "Import"):
        assert [line.rpartition(": ")[2] for line in said("logs", of, "--follow").splitlines()] == ["begun", "done"]
    [line] = said("logs", claim.run.id, "--tail", "1", "--json").splitlines()
    assert (json.loads(line)["text"], json.loads(line)["run"]) == ("done", claim.run.id)
