"""Writing a chat client's MCP configuration: the right file, nothing lost, a copy of what was there."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from duetime.scheduler.errors import Refused
from duetime.server.setup.invocation import Invocation, anywhere, this_invocation
from duetime.server.setup.mcp_clients import Client, configuration_path, entry, write

NOW = datetime(2026, 11, 24, 9, 0, 5, tzinfo=UTC)
HERE = Invocation(("/opt/bin/duetime",))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "APPDATA", "DUETIME_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("client", "platform", "path"),
    [
        (Client.CLAUDE, "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        (Client.CLAUDE, "linux", ".config/Claude/claude_desktop_config.json"),
        (Client.CLAUDE, "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        (Client.CLAUDE_CODE, "linux", ".claude.json"),
        (Client.VSCODE, "darwin", "Library/Application Support/Code/User/mcp.json"),
        (Client.VSCODE, "linux", ".config/Code/User/mcp.json"),
        (Client.VSCODE, "win32", "AppData/Roaming/Code/User/mcp.json"),
        (Client.CURSOR, "linux", ".cursor/mcp.json"),
    ],
)
def test_each_client_keeps_its_servers_in_its_own_file(home: Path, client: Client, platform: str, path: str) -> None:
    assert configuration_path(client, platform=platform) == home / path


def test_directories_that_the_system_names_are_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPDATA", str(home / "roaming"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    assert configuration_path(Client.CLAUDE, platform="win32").is_relative_to(home / "roaming")
    assert configuration_path(Client.CLAUDE_CODE) == home / "elsewhere/.claude.json"


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (Client.CLAUDE, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.CURSOR, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.CLAUDE_CODE, {"mcpServers": {"duetime": {"type": "stdio", "command": "/opt/bin/duetime", "args": []}}}),
        (Client.VSCODE, {"servers": {"duetime": {"type": "stdio", "command": "/opt/bin/duetime", "args": []}}}),
    ],
)
def test_the_entry_has_the_form_that_the_client_reads(client: Client, expected: object) -> None:
    assert entry(client, HERE) == expected


def test_options_and_variables_of_this_call_are_kept_for_the_client() -> None:
    invocation = Invocation(("/opt/bin/duetime",), ("--config", "/a.toml"), {"DUETIME_THREADS": "2"})
    server = entry(Client.CURSOR, invocation)["mcpServers"]["duetime"]
    assert server == {"command": "/opt/bin/duetime", "args": ["--config", "/a.toml"], "env": {"DUETIME_THREADS": "2"}}


def test_a_missing_file_is_made(home: Path) -> None:
    written = write(Client.CURSOR, HERE, now=NOW)
    assert (written.path, written.changed, written.backup) == (home / ".cursor/mcp.json", True, None)
    assert json.loads(written.path.read_text(encoding="utf-8")) == entry(Client.CURSOR, HERE)


def test_other_entries_stay_and_a_copy_of_the_old_file_is_kept(home: Path) -> None:
    before = {"theme": "dunkel 🌙", "mcpServers": {"files": {"command": "x"}, "duetime": {"command": "old"}}, "last": 1}
    path = home / ".claude.json"
    path.write_text(json.dumps(before), encoding="utf-8")
    path.chmod(0o640)
    written = write(Client.CLAUDE_CODE, HERE, now=NOW)
    after = json.loads(path.read_text(encoding="utf-8"))
    assert list(after) == ["theme", "mcpServers", "last"]
    assert after["mcpServers"] == {"files": {"command": "x"}, **entry(Client.CLAUDE_CODE, HERE)["mcpServers"]}
    assert written.backup is not None
    assert json.loads(written.backup.read_text(encoding="utf-8")) == before
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, written.backup)} == {0o640}
    assert sorted(each.name for each in home.iterdir()) == [".claude.json", written.backup.name]


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (("--database-url", "postgresql://u:hunter2@h/d"), {}),
        ((), {"DUETIME_REDIS_URL": "redis://:hunter2@h"}),
        ((), {"DUETIME_WEBHOOK_SECRET": "whsec_x"}),
    ],
)
def test_only_the_owner_may_read_a_file_with_secrets(
    home: Path, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    path = home / ".claude.json"
    path.write_text("{}", encoding="utf-8")
    path.chmod(0o644)
    written = write(Client.CLAUDE_CODE, Invocation(("/opt/bin/duetime",), options, environment), now=NOW)
    assert written.backup is not None
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, written.backup)} == {0o600}


def test_writing_the_same_again_touches_nothing(home: Path) -> None:
    write(Client.VSCODE, HERE, now=NOW)
    again = write(Client.VSCODE, HERE, now=NOW)
    assert (again.changed, again.backup) == (False, None)
    assert len(list(again.path.parent.iterdir())) == 1


@pytest.mark.parametrize("text", ['{\n  // mine\n  "servers": {}\n}', "[]", '{"servers": []}', '{"servers": {}'])
def test_a_file_that_cannot_be_merged_without_loss_is_left_as_it_is(home: Path, text: str) -> None:
    path = configuration_path(Client.VSCODE)
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=r"nothing was written"):
        write(Client.VSCODE, HERE, now=NOW)
    assert path.read_text(encoding="utf-8") == text
    assert len(list(path.parent.iterdir())) == 1


def test_a_linked_file_is_written_where_it_really_is(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}", encoding="utf-8")
    link = configuration_path(Client.CURSOR)
    link.parent.mkdir()
    link.symlink_to(real)
    write(Client.CURSOR, HERE, now=NOW)
    assert link.is_symlink()
    assert json.loads(real.read_text(encoding="utf-8")) == entry(Client.CURSOR, HERE)


def test_this_duetime_is_called_by_an_absolute_path_and_means_the_same_database_everywhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    program = home / "duetime"
    program.touch()
    monkeypatch.setattr(sys, "argv", ["./duetime", "install", "cursor"])
    monkeypatch.setenv("DUETIME_DATABASE_URL", "sqlite:///mine.db")
    monkeypatch.setenv("DUETIME_CONFIG", "mine.toml")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("DUETIME_TEST_POSTGRES_URL", "postgresql://x")
    invocation = this_invocation(config=Path("given.toml"), database_url="sqlite:///given.db", handlers="mine")
    assert invocation.program == (str(program),)
    assert invocation.options == (
        *("--config", str(home / "given.toml")),
        *("--database-url", f"sqlite:///{home}/given.db"),
        *("--handlers", "mine"),
    )
    assert invocation.environment == {
        "PYTHONPATH": str(home),
        "DUETIME_CONFIG": str(home / "mine.toml"),
        "DUETIME_DATABASE_URL": f"sqlite:///{home}/mine.db",
    }


def test_modules_are_looked_for_where_they_are_now_whoever_names_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["mine", "", "/opt/handlers"]))
    monkeypatch.setenv("DUETIME_HANDLERS", "of_mine")
    assert this_invocation().environment == {
        "DUETIME_HANDLERS": "of_mine",
        "PYTHONPATH": os.pathsep.join([str(home / "mine"), "/opt/handlers"]),
    }


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "postgresql+psycopg://u@h/d", "sqlite:////a/b.db"])
def test_a_database_that_is_the_same_everywhere_stays_as_written(url: str) -> None:
    assert anywhere(url) == url
