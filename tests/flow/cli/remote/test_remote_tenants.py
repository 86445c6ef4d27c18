"""`--tenant`, `--user` and `--reason` mean the same on this machine and over `--server`."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.access.secret import read_key
from duetime.scheduler.principal import Principal
from duetime.scheduler.store import open_store
from duetime.server.auth.issued_keys import new_key, validity_of
from duetime.server.cli.main import run

from tests.canary import KEY
from tests.flow.admin.served import Served, served

Said = Callable[..., str]
OPERATORS = "ops"
"""The tenant of the operators, which is not the local one."""
TENANTS = ("acme", "local", OPERATORS)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path}/duetime.db"
    with served(url, auth=("keys",), operator_tenant=OPERATORS, secret_keys=KEY) as site:
        for tenant in TENANTS:
            site.app.store.secrets.set(tenant, "crm", f"value of {tenant}", by="root")
        yield site


def _answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **environment: str) -> Said:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(f"DUETIME_{name}", value)

    def said(*arguments: str, code: int = 0, stdin: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr().err
        written = capsys.readouterr()
        return written.err if code else written.out

    return said


@pytest.fixture
def afar(site: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a verb over the server, with the key of an operator."""
    store = site.app.store
    text, key = new_key(
        Principal(OPERATORS, "root", frozenset({"tasks", "admin"})), "test", store.now(), validity_of("1 day")
    )
    store.api_keys.add(key)
    return _answered(monkeypatch, capsys, SERVER=site.url, KEY=text.text)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a verb on a database of this machine, in which three tenants have a secret."""
    url = f"sqlite:///{tmp_path}/duetime.db"
    store = open_store(url, migrate=True, secret_keys=[read_key(KEY)])
    for tenant in TENANTS:
        store.secrets.set(tenant, "crm", f"value of {tenant}", by="root")
    store.close()
    return _answered(monkeypatch, capsys, DATABASE_URL=url, SECRET_KEYS=KEY)


def _tenants(said: Said, *options: str) -> list[Any]:
    return [each["tenant"] for each in json.loads(said("secrets", "list", *options, "--json"))["secrets"]]


def test_over_a_server_the_local_tenant_is_meant_where_it_is_named(afar: Said, site: Served) -> None:
    afar("secrets", "remove", "crm", "--tenant", "local")
    assert [secret.tenant for secret in site.app.store.secrets.all()] == ["acme", OPERATORS]
    assert "Set crm of local." in afar("secrets", "set", "crm", "--tenant", "local", stdin="value-of-local")
    made = json.loads(afar("keys", "create", "laptop", "--tenant", "local", "--user", "local", "--json"))
    assert (made["tenant"], made["user"]) == ("local", "local")
    kinds = [each["kind"] for each in json.loads(afar("audit", "list", "--tenant", "local", "--json"))["entries"]]
    assert {"key_created", "secret_set", "secret_removed"} <= set(kinds)


def test_over_a_server_the_tenant_of_the_key_is_meant_where_none_is_named(afar: Said, site: Served) -> None:
    made = json.loads(afar("keys", "create", "laptop", "--json"))
    assert (made["tenant"], made["user"]) == (OPERATORS, "root")
    afar("secrets", "remove", "crm")
    assert [secret.tenant for secret in site.app.store.secrets.all()] == ["acme", "local"]


def test_secrets_are_of_the_own_tenant_unless_another_one_or_all_are_named(afar: Said) -> None:
    assert _tenants(afar) == [OPERATORS]
    assert _tenants(afar, "--tenant", "local") == ["local"]
    assert _tenants(afar, "--tenant", "*") == [*TENANTS]


def test_secrets_of_this_machine_are_listed_by_the_same_rule(here: Said) -> None:
    assert _tenants(here) == ["local"]
    assert _tenants(here, "--tenant", "acme") == ["acme"]
    assert _tenants(here, "--tenant", "*") == [*TENANTS]
    assert here("secrets", "list", "--tenant", "globex").startswith("This tenant has no secret.")


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "list", "--tenant", "*"), ("secrets", "remove", "crm", "--tenant", "*"),
        ("keys", "revoke", "--tenant", "*"), ("keys", "create", "laptop", "--tenant", "*"),
    ],
)  # fmt: skip
def test_all_tenants_are_refused_here_where_one_is_meant(here: Said, words: tuple[str, ...]) -> None:
    assert "'*' stands for all tenants" in here(*words, code=2)


@pytest.mark.parametrize("words", [("audit", "list", "--tenant", "*"), ("keys", "create", "laptop", "--tenant", "*")])
def test_all_tenants_are_refused_over_a_server_where_one_is_meant(afar: Said, words: tuple[str, ...]) -> None:
    assert "tenant" in afar(*words, code=2)


@pytest.mark.parametrize("way", ["here", "afar"])
def test_a_reason_is_in_the_audit_log(way: str, request: pytest.FixtureRequest) -> None:
    said: Said = request.getfixturevalue(way)
    why = ("--reason", "ann left")
    first = json.loads(said("keys", "create", "laptop", "--json", *why))["id"]
    second = json.loads(said("keys", "rotate", first, "--json", *why))["id"]
    said("keys", "revoke", second, *why)
    said("secrets", "set", "new", *why, stdin="value-of-new")
    said("secrets", "remove", "new", *why)
    said("secrets", "rotate", *why)
    found = json.loads(said("audit", "list", "--json"))["entries"]
    assert [(each["kind"], each.get("reason")) for each in found] == [
        ("secrets_rotated", "ann left"), ("secret_removed", "ann left"), ("secret_set", "ann left"),
        ("key_revoked", "ann left"), ("key_rotated", "ann left"), ("key_created", "ann left"),
    ]  # fmt: skip
