"""Writing a chat client's MCP configuration: the right file, nothing lost, a copy of what was there."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from duetime.scheduler.errors import Refused
from duetime.server.setup.client_file import WriteResult, installing, removing, shown
from duetime.server.setup.client_file import write as written
from duetime.server.setup.invocation import Invocation, anywhere, this_invocation
from duetime.server.setup.jsonc_text import JsoncText
from duetime.server.setup.mcp_clients import Client, configuration_path, entry
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 24, 9, 0, 5, tzinfo=UTC)
HERE = Invocation(("/opt/bin/duetime",))


def write(client: Client, invocation: Invocation, *, now: datetime) -> WriteResult:
    return written(installing(client, invocation), now=now)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    named = ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DIR", "CONFIG_PATH", "APPDATA")
    for name in (*named, "DUETIME_CONFIG"):
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
        (Client.CODEX, "linux", ".codex/config.toml"),
        (Client.GEMINI, "linux", ".gemini/settings.json"),
        (Client.WINDSURF, "win32", ".codeium/windsurf/mcp_config.json"),
        (Client.ZED, "linux", ".config/zed/settings.json"),
        (Client.ZED, "darwin", ".config/zed/settings.json"),
        (Client.ZED, "win32", "AppData/Roaming/Zed/settings.json"),
        (Client.CLINE, "linux", ".cline/data/settings/cline_mcp_settings.json"),
        (Client.GOOSE, "linux", ".config/goose/config.yaml"),
        (Client.GOOSE, "darwin", ".config/goose/config.yaml"),
        (Client.GOOSE, "win32", "AppData/Roaming/Block/goose/config/config.yaml"),
        (Client.LIBRECHAT, "linux", "librechat.yaml"),
    ],
)
def test_each_client_keeps_its_servers_in_its_own_file(home: Path, client: Client, platform: str, path: str) -> None:
    assert configuration_path(client, platform=platform) == home / path


def test_directories_that_the_system_names_are_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPDATA", str(home / "roaming"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    assert configuration_path(Client.CLAUDE, platform="win32").is_relative_to(home / "roaming")
    assert configuration_path(Client.CLAUDE_CODE) == home / "elsewhere/.claude.json"
    for name in ("CODEX_HOME", "CLINE_DIR", "CONFIG_PATH"):
        monkeypatch.setenv(name, str(home / "elsewhere"))
    assert configuration_path(Client.CODEX) == home / "elsewhere/config.toml"
    assert configuration_path(Client.CLINE) == home / "elsewhere/data/settings/cline_mcp_settings.json"
    assert configuration_path(Client.LIBRECHAT) == home / "elsewhere"
    monkeypatch.setenv("CONFIG_PATH", "https://example.com/librechat.yaml")
    assert configuration_path(Client.LIBRECHAT) == home / "librechat.yaml"


def test_an_older_cline_keeps_its_file_until_it_has_the_new_one(home: Path) -> None:
    older = home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
    older.parent.mkdir(parents=True)
    older.touch()
    assert configuration_path(Client.CLINE, platform="linux") == older
    newer = home / ".cline/data/settings/cline_mcp_settings.json"
    newer.parent.mkdir(parents=True)
    newer.touch()
    assert configuration_path(Client.CLINE, platform="linux") == newer


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (Client.CLAUDE, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.CURSOR, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.CLAUDE_CODE, {"mcpServers": {"duetime": {"type": "stdio", "command": "/opt/bin/duetime", "args": []}}}),
        (Client.VSCODE, {"servers": {"duetime": {"type": "stdio", "command": "/opt/bin/duetime", "args": []}}}),
        (Client.CODEX, {"mcp_servers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.GEMINI, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.WINDSURF, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.ZED, {"context_servers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.CLINE, {"mcpServers": {"duetime": {"command": "/opt/bin/duetime", "args": []}}}),
        (Client.LIBRECHAT, {"mcpServers": {"duetime": {"type": "stdio", "command": "/opt/bin/duetime", "args": []}}}),
        (
            Client.GOOSE,
            {
                "extensions": {
                    "duetime": {
                        "type": "stdio",
                        "name": "duetime",
                        "enabled": True,
                        "cmd": "/opt/bin/duetime",
                        "args": [],
                        "envs": {},
                        "timeout": 300,
                    }
                }
            },
        ),
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


@pytest.mark.parametrize("text", ["[]", '{"servers": []}', '{"servers": {}', '{"servers": {} /* open', '{"a": tru}'])
def test_a_file_that_cannot_be_merged_without_loss_is_left_as_it_is(home: Path, text: str) -> None:
    path = configuration_path(Client.VSCODE)
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=r"nothing was written"):
        write(Client.VSCODE, HERE, now=NOW)
    assert path.read_text(encoding="utf-8") == text
    assert len(list(path.parent.iterdir())) == 1


CODEX = """\
model = "gpt-5"  # the default

# servers
[mcp_servers.files]
command = "npx"   # spaces stay
args = ["-y", "files"]

# about profiles
[profiles.fast]
model = "small"
"""
ZED = """\
// Zed settings
{
    "theme": "One Dark", // not light
    "context_servers": {
        "files": { "command": "npx" }, // mine
    },
    "vim_mode": true,
}
"""
GOOSE = """\
# goose
GOOSE_MODE: "smart_approve"   # quotes stay
extensions:
    developer: &builtin
        bundled: true
        enabled: yes

    memory: {<<: *builtin, name: 'memory'}
# the end
"""
LIBRECHAT = """\
version: 1.2.1
mcpServers:
  files:
    command: npx
    args: [-y, "files"]  # flow
endpoints:
  agents: {}
"""
MINIFIED = '{"theme":"dark","mcpServers":{"files":{"command":"npx"}},"last":1}'
CRLF = '{\r\n\t"mcpServers": {\r\n\t\t"files": {}\r\n\t}\r\n}'
FILES = [
    (Client.CODEX, CODEX),
    (Client.ZED, ZED),
    (Client.GOOSE, GOOSE),
    (Client.LIBRECHAT, LIBRECHAT),
    (Client.GEMINI, MINIFIED),
    (Client.WINDSURF, CRLF),
    (Client.CLINE, ""),
    (Client.CURSOR, "{}"),
    (Client.GEMINI, '{"theme": "dark"}'),
    (Client.CODEX, 'model = "gpt-5"'),
    (Client.CODEX, 'model = "gpt-5"\r\n'),
    (Client.GOOSE, "extensions: {}\n"),
    (Client.GOOSE, "extensions:\n"),
    (Client.LIBRECHAT, "version: 1.2.1"),
    (Client.VSCODE, '\ufeff{"servers": {}}\n'),
]


def kept_file(client: Client, text: str) -> Path:
    path = configuration_path(client)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(("client", "text"), FILES)
def test_every_line_that_was_there_stays_and_uninstall_leaves_the_file_as_it_was(client: Client, text: str) -> None:
    path = kept_file(client, text)
    write(client, HERE, now=NOW)
    after = path.read_bytes().decode()
    taken_out = written(removing(client), now=NOW + timedelta(seconds=1))
    assert after != text
    assert path.read_bytes().decode() == text
    assert taken_out.backup is not None
    assert taken_out.backup.read_bytes().decode() == after


def test_comments_order_and_trailing_commas_stay(home: Path) -> None:
    path = kept_file(Client.ZED, ZED)
    write(Client.ZED, HERE, now=NOW)
    added = '        "duetime": {\n            "command": "/opt/bin/duetime",\n            "args": []\n        },\n'
    assert path.read_text("utf-8") == ZED.replace("// mine\n", f"// mine\n{added}")


def test_a_table_of_toml_is_put_after_the_others_and_an_older_one_changed_where_it_is(home: Path) -> None:
    path = kept_file(Client.CODEX, CODEX)
    write(Client.CODEX, HERE, now=NOW)
    table = '[mcp_servers.duetime]\ncommand = "/opt/bin/duetime"\nargs = []\n'
    assert path.read_text("utf-8") == f"{CODEX}\n{table}"
    older = '[mcp_servers.duetime]\ncommand = "old"\n[mcp_servers.duetime.env]\nA = "b"\n'
    text = CODEX.replace("# about profiles", f"{older}\n# about profiles")
    path.write_text(text, "utf-8")
    write(Client.CODEX, HERE, now=NOW)
    assert path.read_text("utf-8") == CODEX.replace("# about profiles", f"{table}\n# about profiles")


def test_a_block_of_yaml_is_put_after_the_last_of_its_table(home: Path) -> None:
    path = kept_file(Client.LIBRECHAT, LIBRECHAT)
    write(Client.LIBRECHAT, HERE, now=NOW)
    block = '  duetime:\n    type: "stdio"\n    command: "/opt/bin/duetime"\n    args: []\n'
    assert path.read_text("utf-8") == LIBRECHAT.replace("endpoints:", f"{block}endpoints:")


@pytest.mark.parametrize(
    ("client", "text", "edit"),
    [
        (Client.CODEX, CODEX, ('model = "small"', 'model = "large"\n\n# new\n[tui]\nx = 1')),
        (Client.ZED, ZED, ("// mine", "// ours")),
        (Client.GOOSE, GOOSE, ("# the end", "# the very end\nGOOSE_PLANNER: x")),
        (Client.LIBRECHAT, LIBRECHAT, ("  agents: {}", "  agents: {}  # none")),
        (Client.GEMINI, MINIFIED, ('"last":1', '"last":2,"next":3')),
        (Client.WINDSURF, CRLF, ('"files": {}', '"files": {"disabled": true}')),
    ],
)
def test_uninstall_leaves_what_was_changed_since_as_it_is(client: Client, text: str, edit: tuple[str, str]) -> None:
    path = kept_file(client, text)
    write(client, HERE, now=NOW)
    path.write_bytes(path.read_bytes().decode().replace(*edit).encode())
    written(removing(client), now=NOW + timedelta(seconds=1))
    assert path.read_bytes().decode() == text.replace(*edit)


def test_uninstall_removes_a_file_that_install_made_and_does_nothing_where_there_is_no_entry(home: Path) -> None:
    for client in (Client.CODEX, Client.GOOSE, Client.CURSOR):
        write(client, HERE, now=NOW)
        written(removing(client), now=NOW + timedelta(seconds=1))
        assert not configuration_path(client).exists()
        assert not removing(client).changed
    path = kept_file(Client.ZED, ZED)
    assert not removing(Client.ZED).changed
    assert path.read_text("utf-8") == ZED


def test_uninstall_after_another_version_was_installed_takes_out_the_entry_alone(home: Path) -> None:
    path = kept_file(Client.ZED, ZED)
    write(Client.ZED, HERE, now=NOW)
    write(Client.ZED, Invocation(("/opt/new/duetime",), ("--handlers", "mine")), now=NOW + timedelta(seconds=1))
    written(removing(Client.ZED), now=NOW + timedelta(seconds=2))
    assert path.read_text("utf-8") == ZED


@pytest.mark.parametrize(
    ("client", "text", "said"),
    [
        (Client.CODEX, 'mcp_servers = { files = { command = "x" } }\n', "the entries of 'mcp_servers' are not tables"),
        (Client.CODEX, "model = \n", "it is not TOML"),
        (Client.LIBRECHAT, "mcpServers: {files: {command: x}}\n", "'mcpServers' is not written as a block"),
        (Client.LIBRECHAT, "a: [\n", "it is not plain YAML"),
        (Client.LIBRECHAT, "- a\n", "it does not hold a table"),
        (Client.GOOSE, "extensions: none at all\n", "'extensions' is not a table of entries"),
        (Client.ZED, '{"a": ' + "[" * 100_000, "it is nested too deeply"),
    ],
    ids=["inline", "no TOML", "flow", "no YAML", "a list", "a text", "deep"],
)
def test_a_file_of_another_form_is_left_as_it_is_and_the_reason_said(client: Client, text: str, said: str) -> None:
    path = kept_file(client, text)
    with pytest.raises(Refused, match=said):
        installing(client, HERE)
    assert path.read_text("utf-8") == text


def test_a_file_that_is_nowhere_is_not_made_where_a_client_may_not_look(home: Path) -> None:
    with pytest.raises(Refused, match=r"there is no .*librechat\.yaml.* Name the file with --file"):
        installing(Client.LIBRECHAT, HERE)
    named = home / "chat" / "librechat.yaml"
    written(installing(Client.LIBRECHAT, HERE, file=named), now=NOW)
    assert named.is_file()


def test_a_file_that_another_program_is_changing_is_left_alone(home: Path) -> None:
    path = kept_file(Client.ZED, ZED)
    change = installing(Client.ZED, HERE)
    path.write_text("{}", "utf-8")
    with pytest.raises(Refused, match="was changed by another program just now"):
        written(change, now=NOW)
    assert (path.read_text("utf-8"), len(list(path.parent.iterdir()))) == ("{}", 1)


def test_the_diff_shows_what_comes_and_goes_and_no_secret(home: Path) -> None:
    kept_file(Client.CURSOR, '{"mcpServers": {"files": {"env": {"API_KEY": "sk-hunter2"}}}}')
    environment = {"DUETIME_WEBHOOK_SECRET": "whsec_hunter2", "DUETIME_DATABASE_URL": "postgresql://me:hunter2@db/x"}
    minified = installing(Client.CURSOR, Invocation(("/opt/bin/duetime",), (), environment)).diff()
    kept_file(Client.ZED, ZED)
    spread = installing(Client.ZED, Invocation(("/opt/bin/duetime",), (), environment)).diff()
    assert not [line for line in (*minified, *spread) if "hunter2" in line]
    assert spread[1:] == [
        '+        "duetime": {',
        '+            "command": "/opt/bin/duetime",',
        '+            "args": [],',
        '+            "env": {',
        '+                "DUETIME_WEBHOOK_SECRET": ***',
        '+                "DUETIME_DATABASE_URL": "postgresql://me:***@db/x"',
        "+            }",
        "+        },",
    ]


ENTRIES = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.lists(st.text(max_size=3), max_size=2))


@given(
    others=ENTRIES.filter(lambda entries: "duetime" not in entries and entries),
    rest=ENTRIES.filter(lambda entries: "mcpServers" not in entries),
    indent=st.sampled_from([None, 1, 4, "\t"]),
    comment=st.sampled_from(["", " // why", ' /* "x": {, */']),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_json_around_an_entry_is_the_same_after_it_was_put_in_and_taken_out(
    others: dict[str, object], rest: dict[str, object], indent: int | str | None, comment: str, end: str
) -> None:
    lines = json.dumps({**rest, "mcpServers": others, "last": 1}, indent=indent).split("\n")
    text = end.join(f"{line}{comment}" for line in lines) + end
    server = {"command": "x", "args": ["a"]}
    after = JsoncText().put(text, "mcpServers", "duetime", server)
    assert JsoncText().find(after, "mcpServers", "duetime") == server
    assert JsoncText().drop(after, "mcpServers", "duetime") == text


@pytest.mark.parametrize("client", Client)
def test_the_printed_entry_can_be_copied_into_a_file_of_the_client(client: Client) -> None:
    path = kept_file(client, shown(client, HERE))
    assert not installing(client, HERE).changed
    assert path.is_file()


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
