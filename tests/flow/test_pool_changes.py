"""A change of a pool is in the audit log with its caller, surface and reason, whichever surface made it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from duetime.scheduler.audit.entry import AuditEntry, AuditFilter
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.store import open_store
from duetime.server.app import build
from duetime.server.auth.issued_keys import new_key, validity_of
from duetime.server.cli.main import run
from duetime.server.settings.model import Settings

from tests import forked
from tests.flow.admin.conftest import found_shown, found_token
from tests.flow.protocol.serve_process import ServerLog

POOL: Final = "gpu"
TWO: Final = '{"capacity": 2}'
THREE: Final = '{"capacity": 3}'
REASON: Final = "the provider allows more"
SLOTS: Final[Mapping[str, Any]] = {"kind": "slots"}


@dataclass(frozen=True, slots=True)
class Place:
    """A database, the server that has opened it, and the key of an operator there."""

    url: str
    address: str
    key: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    url = f"sqlite:///{folder}/duetime.db"
    store = open_store(url, migrate=True)
    text, key = new_key(replace(LOCAL, user="root"), "test", store.now(), validity_of("1 day"))
    store.api_keys.add(replace(key, scopes=("tasks", "admin")))
    store.close()
    settings = {"DATABASE_URL": url, "AUTH": "keys", "PORT": "0", "TIMEZONE": "UTC", "DESKTOP_NOTIFICATIONS": "off"}
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("DUETIME_")}
    given = kept | {f"DUETIME_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "duetime", "serve"]
    with forked.popen(command, stderr=subprocess.PIPE, text=True, env=given) as process:
        log = ServerLog(process.stderr)
        try:
            yield Place(url, log.address.removesuffix("/mcp"), text.text)
        finally:
            process.terminate()
            log.rest()


def _by_command(place: Place) -> None:
    _run("pools", "set", POOL, TWO)
    _run("pools", "set", POOL, THREE, "--reason", REASON)
    _run("pools", "remove", POOL, "--reason", REASON)


def _run(*words: str) -> None:
    assert run(words) == 0


def _by_rest(place: Place) -> None:
    with httpx2.Client(base_url=f"{place.address}/v1", headers={"Authorization": f"Bearer {place.key}"}) as http:
        path = f"/pools/{POOL}"
        first = http.put(path, json={"spec": {"capacity": 2}})
        second = http.put(path, json={"spec": {"capacity": 3}, "reason": REASON})
        third = http.delete(path, params={"reason": REASON})
    assert [answer.status_code for answer in (first, second, third)] == [200] * 3


def _by_page(place: Place) -> None:
    with httpx2.Client(base_url=f"{place.address}/admin", headers={"Origin": place.address}) as http:
        assert http.post("/login", data={"key": place.key}).status_code == 303
        for page, path, fields in (
            ("/pools", "/pools", {"name": POOL, "spec": TWO}),
            (f"/pools/{POOL}", f"/pools/{POOL}", {"spec": THREE, "reason": REASON}),
            (f"/pools/{POOL}", f"/pools/{POOL}/remove", {"reason": REASON}),
        ):
            html = http.get(page).text
            sent = http.post(path, data={"csrf_token": found_token(html), **found_shown(html), **fields})
            assert sent.status_code == 303, sent.text


def _by_program(place: Place) -> None:
    with build(Settings(database_url=place.url, desktop_notifications="off")) as app:
        by = Principal(LOCAL.tenant, "ann")
        app.registry.set(POOL, {"capacity": 2}, by=by)
        app.registry.set(POOL, {"capacity": 3}, by=by, reason=REASON)
        app.registry.remove(POOL, by=by, reason=REASON)


SURFACES: Final[Mapping[str, tuple[Callable[[Place], None], str, str]]] = {
    "the command line": (_by_command, "local", "cli "),
    "--server": (_by_command, "root", "rest 127.0.0.1"),
    "REST": (_by_rest, "root", "rest 127.0.0.1"),
    "the admin page": (_by_page, "root", "admin 127.0.0.1"),
    "a program": (_by_program, "ann", "python"),
}
"""By surface: its changes, and the actor and the beginning of the way that the audit log says."""


@pytest.mark.parametrize("surface", SURFACES)
def test_a_change_of_a_pool_is_in_the_audit_log_whichever_surface_made_it(
    place: Place, surface: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DUETIME_DATABASE_URL", place.url)
    if surface == "--server":
        monkeypatch.setenv("DUETIME_SERVER", place.address)
        monkeypatch.setenv("DUETIME_KEY", place.key)
    known = len(_entries(place))
    change, actor, via = SURFACES[surface]
    change(place)

    found = _entries(place)[known:]
    two, three = {**SLOTS, "capacity": 2}, {**SLOTS, "capacity": 3}
    assert [(each.kind, each.subject, each.reason, each.detail) for each in found] == [
        ("pool_set", POOL, None, two),
        ("pool_set", POOL, REASON, {**three, "before": two}),
        ("pool_removed", POOL, REASON, {"before": three}),
    ]
    assert {(each.tenant, each.actor) for each in found} == {(LOCAL.tenant, actor)}
    assert all((each.via or "").startswith(via) for each in found), found


def _entries(place: Place) -> list[AuditEntry]:
    """Return what the audit log has of the pool, the oldest first."""
    store = open_store(place.url)
    try:
        return [*reversed(store.audit.page(LOCAL.tenant, AuditFilter(subject=POOL), limit=100).entries)]
    finally:
        store.close()
