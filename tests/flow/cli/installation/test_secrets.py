"""`duetime secrets`: values come from stdin or a prompt, and no verb shows one."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.audit.entry import AuditFilter
from duetime.scheduler.nodes.heartbeat import WORKER_ALIVE_FOR, Heartbeat
from duetime.scheduler.store import open_store
from duetime.server.cli.exit_codes import FAILED_CODE, REFUSED_CODE
from duetime.server.cli.main import run
from duetime.server.session import cli_way

from tests import blank
from tests.canary import CANARY, KEY, OTHER_KEY, shown_in

Said = Callable[..., str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command on a database of the test's own; return both of what it wrote."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_SECRET_KEYS", KEY)

    def answered(*arguments: str, code: int = 0, stdin: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        assert run(arguments) == code
        written = capsys.readouterr()
        assert shown_in(written.out + written.err) == []
        return written.out + written.err

    return answered


def listed(said: Said, *options: str) -> Any:
    return json.loads(said("secrets", "list", *options, "--json"))["secrets"]


def test_a_value_is_read_from_stdin_without_its_last_line_end(said: Said, tmp_path: Path) -> None:
    assert "secret:crm" in said("secrets", "set", "crm", stdin=f"{CANARY}\n")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", secret_keys=[read_key(KEY)])
    assert store.secrets.value("local", "crm") == CANARY
    store.close()


def test_on_a_terminal_the_value_is_asked_for_twice_and_not_shown(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[dict[str, object]]()

    def hidden(_text: str, **how: object) -> str:
        asked.append(how)
        return CANARY

    monkeypatch.setattr("typer.prompt", hidden)
    monkeypatch.setattr("sys.stdin", Terminal())
    assert run(["secrets", "set", "crm"]) == 0
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]
    assert [secret["name"] for secret in listed(said)] == ["crm"]


def test_no_value_is_taken_from_the_command_line(said: Said) -> None:
    assert "unexpected" in said("secrets", "set", "crm", "a value on the command line", code=2).lower()
    assert listed(said) == []


def test_the_list_shows_who_set_a_secret_and_where_it_may_go(said: Said) -> None:
    said("secrets", "set", "crm", "--tenant", "acme", "--host", "API.example.com", stdin=CANARY)
    [secret] = listed(said, "--tenant", "acme")
    assert {name: secret[name] for name in ("name", "tenant", "hosts", "set_by")} == {
        "name": "crm", "tenant": "acme", "hosts": ["api.example.com"], "set_by": "local",
    }  # fmt: skip
    assert set(secret) == {"name", "tenant", "hosts", "set_by", "set_at"}, "never used"
    assert {"crm", "acme", "api.example.com", "never"} <= set(said("secrets", "list", "--tenant", "acme").split())
    assert listed(said, "--tenant", "globex") == []


def test_a_removed_secret_is_gone_and_an_unknown_one_is_told_with_those_that_there_are(said: Said) -> None:
    said("secrets", "set", "crm", stdin=CANARY)
    assert "this tenant has crm" in said("secrets", "remove", "cmr", code=3)
    assert "Removed crm. Webhooks" in said("secrets", "remove", "crm")
    assert said("secrets", "list").startswith("This tenant has no secret.")


def test_a_rotation_encrypts_by_the_first_key(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    said("secrets", "set", "crm", stdin=CANARY)
    monkeypatch.setenv("DUETIME_SECRET_KEYS", f"{OTHER_KEY}, {KEY}")
    assert said("secrets", "rotate") == "1 secret encrypted by the first key.\n"
    monkeypatch.setenv("DUETIME_SECRET_KEYS", OTHER_KEY)
    assert said("secrets", "rotate") == "1 secret encrypted by the first key.\n"
    monkeypatch.setenv("DUETIME_SECRET_KEYS", KEY)
    assert "No key decrypts crm of local: add the key that encrypted it last" in said("secrets", "rotate", code=1)


def test_a_rotation_is_refused_while_a_live_worker_has_older_keys_only(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said("secrets", "set", "crm", stdin=CANARY)
    url, started = f"sqlite:///{tmp_path}/duetime.db", datetime.now(UTC)

    def beat(name: str, *keys: str, ago: timedelta = timedelta(0)) -> None:
        known = [read_key(key) for key in keys]
        with closing(open_store(url, clock=lambda: started - ago, secret_keys=known)) as store:
            Heartbeat(store, name, threads=lambda: 1, running=lambda: 0).step()

    beat("w-none")
    beat("w-old", KEY)
    beat("w-new", OTHER_KEY, KEY)
    beat("w-silent", KEY, ago=2 * WORKER_ALIVE_FOR)
    monkeypatch.setenv("DUETIME_SECRET_KEYS", f"{OTHER_KEY}, {KEY}")
    refused = said("secrets", "rotate", code=REFUSED_CODE)
    assert "nothing was encrypted, since these processes do not have the first key" in refused
    assert "read no secret: w-old. Put the key" in refused
    unsure = (
        "do not report the first key: w-none. Unless they are of an earlier release, their runs can read no secret."
    )
    doctor = said("doctor", code=FAILED_CODE)
    assert "do not have the first key, and their runs could read no secret: w-old." in " ".join(doctor.split())
    assert unsure in " ".join(doctor.split())
    with closing(open_store(url, secret_keys=[read_key(KEY)])) as store:
        assert store.secrets.value("local", "crm") == CANARY, "as w-old reads it"

    beat("w-old", OTHER_KEY, KEY)
    answer = said("secrets", "rotate", code=FAILED_CODE)
    assert "1 secret encrypted by the first key." in answer
    assert unsure in answer


def test_the_keys_may_stand_in_a_file(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUETIME_SECRET_KEYS")
    assert "openssl rand -base64 32" in said("secrets", "set", "crm", stdin=CANARY, code=2)
    keys = tmp_path / "secret.keys"
    monkeypatch.setenv("DUETIME_SECRET_KEYS_FILE", str(keys))
    assert "cannot be read" in said("secrets", "set", "crm", stdin=CANARY, code=2)
    keys.write_text(f"# the new one first\n{OTHER_KEY}\n\n{KEY}\n")
    said("secrets", "set", "crm", stdin=CANARY)
    keys.write_text(f"{OTHER_KEY}\nno key")
    assert "line 2 of" in said("secrets", "list", code=2)
    assert OTHER_KEY not in said("config")


@pytest.mark.parametrize("wrong", ["c2hvcnQ=", "not base64", OTHER_KEY + "A"])
def test_a_key_that_is_none_stops_the_start_without_being_shown(
    said: Said, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("DUETIME_SECRET_KEYS", f"{KEY},{wrong}")
    answer = said("secrets", "list", code=2)
    assert "DUETIME_SECRET_KEYS" in answer
    assert wrong not in answer


@pytest.mark.parametrize(
    ("options", "problem"),
    [(("a b",), "name"), (("crm", "--host", "a b"), "host"), (("crm", "--tenant", ""), "tenant")],
)
def test_a_wrong_secret_is_refused_and_none_is_stored(said: Said, options: tuple[str, ...], problem: str) -> None:
    assert problem in said("secrets", "set", *options, stdin=CANARY, code=2)
    assert listed(said) == []


def test_each_change_is_in_the_audit_log_of_its_tenant(said: Said, tmp_path: Path) -> None:
    said("secrets", "set", "crm", "--tenant", "acme", "--host", "api.example.com", stdin=CANARY)
    said("secrets", "remove", "crm", "--tenant", "acme")
    said("secrets", "rotate")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db")
    entries = [*store.audit.page("acme", AuditFilter(), limit=9).entries]
    [rotated] = store.audit.page("local", AuditFilter(), limit=9).entries
    store.close()
    assert [(entry.kind, entry.subject, entry.via, entry.detail) for entry in entries] == [
        ("secret_removed", "crm", cli_way(), None),
        ("secret_set", "crm", cli_way(), {"hosts": ["api.example.com"]}),
    ]
    assert (rotated.kind, rotated.detail) == ("secrets_rotated", {"encrypted": 0, "unreadable": 0})
