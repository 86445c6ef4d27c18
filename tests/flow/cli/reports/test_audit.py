"""`duetime audit`: who did what, heads to keep elsewhere, and chains that are verified."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.audit.verdict import ChainVerdict, Removal
from duetime.scheduler.store import open_store
from duetime.server.cli.access.audit import show_verdicts
from duetime.server.cli.main import run
from duetime.server.doctor.check import CheckVerdict
from duetime.server.doctor.deep import audit_checks
from duetime.server.session import cli_way
from duetime.tools.admin.audit_rows import verdicts_json

from tests import blank
from tests.builders import added

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it is refused."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_TIMEZONE", "UTC")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return written.err if code > 1 else written.out

    return answered


@pytest.fixture
def key(said: Said) -> str:
    """Create a key and revoke it, and schedule a task; return the id of the key."""
    key_id: str = json.loads(said("keys", "create", "laptop", "--json"))["id"]
    said("keys", "revoke", key_id)
    said("schedule", "Call John", "--when", "in 2 hours")
    return key_id


def entries(said: Said, *options: str) -> Any:
    return json.loads(said("audit", "list", *options, "--json"))["entries"]


def test_a_change_of_a_key_is_listed_with_who_and_by_which_way(said: Said, key: str) -> None:
    found = entries(said)
    assert [(entry["kind"], entry["subject"], entry["actor"], entry["via"]) for entry in found] == [
        ("key_revoked", key, "local", cli_way()), ("key_created", key, "local", cli_way()),
    ]  # fmt: skip
    assert found[1]["detail"] == {"name": "laptop", "user": "local", "scopes": ["tasks"]}
    assert key in said("audit", "list")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--kind", "key_revoked"], 1), (["--surface", "cli"], 2), (["--surface", "rest"], 0), (["--who", "local"], 2),
        (["--actor", "local"], 2), (["--actor", "bob"], 0),
        (["--since", "1h"], 2), (["--until", "yesterday"], 0), (["--tenant", "acme"], 0), (["--limit", "1"], 1),
    ],
)  # fmt: skip
def test_a_list_has_filters(said: Said, key: str, options: list[str], count: int) -> None:
    assert len(entries(said, *options)) == count


def test_a_list_has_the_bound_of_the_other_front_ends(said: Said) -> None:
    refused = said("audit", "list", "--limit", "101", code=2)
    assert refused == "duetime: --limit: 101 is out of range. Accepted: 1 to 100. Example: --limit 20\n"


def test_a_list_goes_on_by_its_cursor_and_is_written_as_csv(said: Said, key: str) -> None:
    first = json.loads(said("audit", "list", "--limit", "1", "--since", "1h", "--json"))
    rest = json.loads(said("audit", "list", "--since", "1h", "--cursor", first["cursor"], "--json"))
    assert [entry["kind"] for entry in rest["entries"]] == ["key_created"]
    rows = list(csv.DictReader(io.StringIO(said("audit", "list", "--csv"))))
    assert [row["subject"] for row in rows] == [key, key]


def test_heads_that_were_kept_hold_while_the_chain_grows(said: Said, key: str) -> None:
    head = said("audit", "head").strip()
    assert head.startswith("local:3:")
    said("schedule", "Call Jane", "--when", "in 2 hours")
    assert "local: 3 entries hold, 1 not sealed yet." in said("audit", "verify", "--head", head)
    assert json.loads(said("audit", "head", "--json"))["heads"][0]["entries"] == 4
    assert "local: 4 entries hold." in said("audit", "verify", "--head", head)
    assert "local: 4 entries hold." in said("audit", "verify", "--tenant", "*", "--head", head)
    assert said("audit", "head", "--tenant", "*").startswith("local:4:")
    assert "laptop" in said("keys", "list", "--tenant", "*")


def test_a_break_is_named_and_exits_with_one(said: Said, key: str, tmp_path: Path) -> None:
    said("audit", "head")
    database = sqlite3.connect(tmp_path / "duetime.db")
    database.execute("UPDATE events SET actor = 'somebody else'")
    database.commit()
    database.close()
    assert "local: BROKEN at entry 1: event 1 was changed." in said("audit", "verify", code=1)
    [chain] = json.loads(said("audit", "verify", "--json", code=1))["chains"]
    assert chain["broken"] == {"entry": 1, "wrong": "event 1 was changed"}
    [check] = [it for it in json.loads(said("doctor", "--deep", "--json", code=1))["checks"] if it["name"] == "audit"]
    assert (check["verdict"], "broken at entry 1" in check["said"]) == ("wrong", True)


def test_a_deep_look_of_the_doctor_verifies_the_chains(said: Said, key: str) -> None:
    said("audit", "head")
    [check] = [it for it in json.loads(said("doctor", "--deep", "--json"))["checks"] if it["name"] == "audit"]
    assert (check["verdict"], check["said"]) == ("ok", "3 entries of 1 audit chains hold")


def test_one_option_takes_the_heads_of_all_chains_a_line_each(said: Said, key: str, tmp_path: Path) -> None:
    said("audit", "head")
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store:
        store.audit.record(AuditEntry("acme", AuditKind.POOL_SET, "ann", "mcp", "gpu"))
    kept = said("audit", "head")
    assert [line.rpartition(":")[0] for line in kept.splitlines()] == ["acme:1", "local:3"]
    assert "acme: 1 entries hold.\nlocal: 3 entries hold.\n" in said("audit", "verify", "--head", kept)
    forged = f"local:3:{'0' * 64}"
    shown = said("audit", "verify", "--head", f"{kept.splitlines()[0]}\r\n\n{forged}\n", code=1)
    assert ("acme: 1 entries hold." in shown, "local: BROKEN" in shown) == (True, True)


def test_a_head_of_a_chain_that_is_not_verified_is_refused(said: Said, key: str) -> None:
    head = said("audit", "head").strip()
    shown = said("audit", "verify", "--tenant", "acme", "--head", head, code=2)
    assert "is of another tenant. Accepted: a head of acme, whose chain is verified." in shown
    assert "local: BROKEN" in said("audit", "verify", "--tenant", "local", "--head", f"local:3:{'0' * 64}", code=1)


@pytest.mark.parametrize("text", ["nonsense", "local:x:ab", ":8:ab", "local:8:", "", "\n"])
def test_a_text_that_is_not_a_head_is_refused(said: Said, text: str) -> None:
    assert "is not an audit head" in said("audit", "verify", "--head", text, code=2)


def test_changes_of_pools_are_listed(said: Said) -> None:
    said("pools", "set", "gpu", '{"capacity": 2}')
    said("pools", "remove", "gpu")
    found = [(entry["kind"], entry["subject"], entry.get("detail")) for entry in entries(said)]
    gpu = {"kind": "slots", "capacity": 2}
    assert found == [("pool_removed", "gpu", {"before": gpu}), ("pool_set", "gpu", gpu)]


def test_the_days_on_which_retention_deleted_events_are_listed_the_newest_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    removals = tuple(Removal(date(2026, 3, day), day, too_young=day // 9) for day in range(1, 10))
    with pytest.raises(typer.Exit):
        show_verdicts(verdicts_json([ChainVerdict("acme", 60, "ab" * 32, 15, removals)]), 1.0, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "acme: INCOMPLETE, 1 of 45 deleted events were younger than the rules allow to be deleted."
    deleted = "  2026-03-09: retention recorded that it deleted 9 events"
    assert lines[1] == f"{deleted}, 1 of them younger than its rules allow to be deleted."
    assert lines[7] == "  2026-03-03: retention recorded that it deleted 3 events."
    assert lines[8] == "  2 earlier days: `duetime audit verify --json` lists them."
    assert lines[9] == "  Unless a rule was shorter on that day, somebody else deleted these and recorded a removal."
    named = "[[retention]] with its last day as `until`"
    assert lines[10] == f"  Name a shorter rule of that day in the settings: {named}."


@pytest.mark.parametrize("as_json", [False, True])
def test_a_day_with_removals_that_are_not_too_young_is_no_failure(*, as_json: bool) -> None:
    removals = (Removal(date(2026, 3, 1), 4),)
    verdict = ChainVerdict("acme", 60, "ab" * 32, 15, removals)
    show_verdicts(verdicts_json([verdict]), 1.0, as_json=as_json)
    assert verdict.holds


def test_events_deleted_by_hand_that_the_rules_keep_are_named_by_the_verification_and_the_doctor(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        time_machine.travel(datetime(2026, 3, 1, tzinfo=UTC), tick=False),
        closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store,
    ):
        added(store, tenant="local")
        store.audit_chain.seal()
    database = sqlite3.connect(tmp_path / "duetime.db")
    database.execute("DELETE FROM events")
    database.commit()
    database.close()
    with (
        time_machine.travel(datetime(2026, 3, 8, tzinfo=UTC), tick=False),
        closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store,
    ):
        store.audit.record(AuditEntry("local", AuditKind.ROWS_REMOVED, "duetime", detail={"events": "1-9"}))
        store.audit_chain.seal()
    [chain] = json.loads(said("audit", "verify", "--json", code=1))["chains"]
    assert (chain["holds"], chain["too_young"]) == (False, 1)
    assert chain["removals"] == [{"day": "2026-03-08", "events": 1, "too_young": 1}]
    assert "deleted 1 event, 1 of them younger than its rules allow to be deleted." in said("audit", "verify", code=1)
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store:
        [check] = audit_checks(store, ())
    assert (check.verdict, "1 events were deleted" in check.finding) == (CheckVerdict.WRONG, True)
    monkeypatch.setenv("DUETIME_RETENTION", '[{"what": "events", "age": "7 days", "until": "2026-03-08"}]')
    assert "deleted 1 event." in said("audit", "verify")
    checks = said("doctor", "--deep", code=1).splitlines()
    assert [line.split()[0] for line in checks if " audit " in line] == ["ok"]
    assert said("retention", "run").startswith("There is no rule of retention")


@pytest.mark.parametrize("verb", ["head", "verify"])
def test_a_tenant_without_a_chain_is_not_found(said: Said, key: str, verb: str) -> None:
    assert "no audit chain of 'loca'" in said("audit", verb, "--tenant", "loca", code=3)
    assert said("audit", verb, "--tenant", "*").startswith("local:")
