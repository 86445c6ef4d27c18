"""`duetime keys`: a key is shown once, listed without its secret, revoked and rotated."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from duetime.scheduler.principal import Scope
from duetime.scheduler.store import open_store
from duetime.server.auth.key_format import KeyText
from duetime.server.cli.main import run

from tests import blank

Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return stdout, or stderr where it fails."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")

    def answered(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return answered


def created(said: Said, *options: str) -> Any:
    return json.loads(said("keys", "create", "laptop", *options, "--json"))


def set_scopes(tmp_path: Path, scopes: Sequence[str]) -> None:
    """Give every key these scopes, of which an earlier version may have had more."""
    with closing(sqlite3.connect(tmp_path / "duetime.db")) as database, database:
        database.execute("UPDATE api_keys SET scopes = ?", (json.dumps(scopes),))


def listed(said: Said, *options: str) -> Sequence[Any]:
    found: Sequence[Any] = json.loads(said("keys", "list", *options, "--json"))["keys"]
    return found


def test_a_new_key_is_the_only_line_on_stdout(said: Said, tmp_path: Path) -> None:
    text = said("keys", "create", "laptop").removesuffix("\n")
    key = KeyText.parse(text)
    assert key is not None
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    stored = store.api_keys.find(key.id)
    store.close()
    assert stored is not None
    assert key.matches(stored.digest)


def test_the_secret_is_neither_stored_nor_shown_again(said: Said, tmp_path: Path) -> None:
    secret = created(said)["key"].rpartition("_")[2]
    assert secret not in said("keys", "list") + said("keys", "list", "--json")
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_key_says_whose_it_is_and_what_it_may_do(said: Said) -> None:
    created(said, "--tenant", "acme", "--user", "Zoë", "--scope", "admin", "--scope", "tasks", "--expires", "never")
    [key] = listed(said)
    assert (key["tenant"], key["user"], key["scopes"]) == ("acme", "Zoë", ["admin", "tasks"])
    assert (key["state"], "expires_at" in key, "last_used_at" in key) == ("active", False, False)
    assert {"acme", "Zoë", "admin,tasks", "active"} <= set(said("keys", "list").split())


def test_a_key_ends_after_a_year_unless_it_is_told_otherwise(said: Said) -> None:
    key = created(said)
    assert key["expires_at"][:4] == str(int(key["created_at"][:4]) + 1)


def test_the_end_of_a_key_is_rounded_to_the_hours_that_are_shown(said: Said) -> None:
    with time_machine.travel(datetime(2026, 11, 24, 12, tzinfo=UTC), tick=False) as travel:
        created(said)
        for seconds, left in ((10, "in 365 d "), (3_600, "in 364 d 23 h")):
            travel.shift(seconds)
            assert left in said("keys", "list")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--expires", "soon"), "expires"),
        (("--expires", "0 days"), "expires"),
        (("--expires", "11 years"), "expires"),
        (("--tenant", " acme"), "tenant"),
        (("--user", ""), "user"),
        (("--scope", "root"), "scope"),
    ],
)
def test_a_wrong_key_is_refused_and_none_is_stored(said: Said, options: tuple[str, ...], problem: str) -> None:
    assert problem in said("keys", "create", "laptop", *options, code=2)
    assert said("keys", "list").startswith("There is no API key.")


def test_a_key_has_a_name(said: Said) -> None:
    assert "name: it has 0 characters. Accepted: 1 to 200 printable" in said("keys", "create", "", code=2)
    assert said("keys", "list").startswith("There is no API key.")


def test_a_key_is_revoked_by_its_id(said: Said) -> None:
    key = created(said)
    assert key["id"] in said("keys", "revoke", key["id"])
    assert [each["state"] for each in listed(said)] == ["revoked"]
    assert "no API key 'nothing'" in said("keys", "revoke", "nothing", code=3)


def test_a_whole_key_stands_for_its_id_and_is_not_repeated(said: Said) -> None:
    key = created(said)["key"]
    secret = key.rpartition("_")[2]
    assert secret[:8] not in said("keys", "revoke", key)
    assert [found["state"] for found in listed(said)] == ["revoked"]


def test_all_keys_of_a_tenant_are_revoked(said: Said) -> None:
    for tenant in ("acme", "acme", "globex"):
        created(said, "--tenant", tenant)
    assert said("keys", "revoke", "--tenant", "acme") == "Revoked 2 keys of acme.\n"
    assert [key["state"] for key in listed(said, "--tenant", "globex")] == ["active"]
    assert said("keys", "revoke", "--tenant", "acme") == "Revoked 0 keys of acme.\n"
    assert "'acmee' has no API key" in said("keys", "revoke", "--tenant", "acmee", code=3)
    assert "acmee" not in said("audit", "head"), "no mistyped name begins a chain"
    none = "'acmee' has no API key. `duetime keys create laptop --tenant acmee` creates one.\n"
    assert said("keys", "list", "--tenant", "acmee") == none


def test_revoking_nothing_or_both_is_refused(said: Said) -> None:
    assert "--tenant" in said("keys", "revoke", code=2)
    assert "--tenant" in said("keys", "revoke", "7k3m9qx2w4hb", "--tenant", "acme", code=2)


def test_a_rotated_key_has_a_successor_of_the_same_principal(said: Said) -> None:
    old = created(said, "--tenant", "acme", "--user", "ann", "--scope", "admin")
    new = json.loads(said("keys", "rotate", old["id"], "--overlap", "2 hours", "--json"))
    assert new["key"] != old["key"]
    same = ("tenant", "user", "scopes", "name")
    assert [new[name] for name in same] == [old[name] for name in same]
    ends = {key["id"]: key["expires_at"] for key in listed(said)}
    assert ends[old["id"]] < ends[new["id"]]


def test_a_successor_has_no_scope_that_is_no_longer_one(said: Said, tmp_path: Path) -> None:
    old = created(said, "--scope", "tasks")
    set_scopes(tmp_path, ["tasks", "runner"])
    assert json.loads(said("keys", "rotate", old["id"], "--json"))["scopes"] == ["tasks"]


def test_a_key_without_a_scope_that_still_is_one_is_not_rotated(said: Said, tmp_path: Path) -> None:
    old = created(said)
    set_scopes(tmp_path, ["runner"])
    before = listed(said)
    assert said("keys", "rotate", old["id"], code=4) == (
        f"duetime: the key {old['id']} opens nothing: it has runner, and the scopes are tasks, worker, admin:read, "
        "admin. Create a new one with `duetime keys create`.\n"
    )
    assert listed(said) == before


def test_a_key_is_meant_by_its_name_where_one_active_key_has_it(said: Said) -> None:
    old = created(said)
    new = json.loads(said("keys", "rotate", old["name"], "--overlap", "2 hours", "--json"))
    refused = said("keys", "revoke", old["name"], code=2)
    assert f"2 keys have the name {old['name']!r}" in refused
    assert old["id"] in refused
    assert new["id"] in refused
    said("keys", "revoke", old["id"])
    assert new["id"] in said("keys", "revoke", old["name"])
    assert "duetime: ID: no API key 'nothing'" in said("keys", "rotate", "nothing", code=3)


def test_a_rotation_without_an_overlap_ends_the_old_key_at_once(said: Said) -> None:
    old = created(said)
    said("keys", "rotate", old["id"], "--overlap", "0 s")
    assert {key["id"]: key["state"] for key in listed(said)}[old["id"]] == "expired"
    assert "is expired" in said("keys", "rotate", old["id"], code=4)
    assert "overlap" in said("keys", "rotate", old["id"], "--overlap", "a year", code=2)


def test_a_scope_that_does_not_exist_is_refused_with_those_that_do(said: Said) -> None:
    refused = said("keys", "create", "laptop", "--scope", "runner", code=2)
    assert "runner" in refused
    assert all(scope in refused for scope in Scope)
    assert listed(said) == []


def test_a_key_of_an_older_version_keeps_the_scopes_that_there_still_are(said: Said, tmp_path: Path) -> None:
    key = created(said, "--scope", "tasks")
    with closing(sqlite3.connect(tmp_path / "duetime.db")) as database, database:
        database.execute("UPDATE api_keys SET scopes = ?", (json.dumps(["tasks", "runner"]),))
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store:
        stored = store.api_keys.find(key["id"])
    assert stored is not None
    assert [scope for scope in Scope if stored.principal.may(scope)] == [Scope.TASKS]
    assert listed(said)[0]["scopes"] == ["tasks", "runner"]
    said("keys", "rotate", key["id"])
