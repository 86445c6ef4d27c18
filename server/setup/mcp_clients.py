"""Chat clients: which file holds the MCP servers of this user, in which format, and how an entry looks there.

docs/cli.md names the page of each client that says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from duetime.server.setup.invocation import Invocation

CLIENT_ENTRY_NAME = "duetime"
GOOSE_TIMEOUT_S = 300


class Client(StrEnum):
    """The chat clients whose configuration files Duetime edits."""

    CLAUDE = "claude"
    CLAUDE_CODE = "claude-code"
    VSCODE = "vscode"
    CURSOR = "cursor"
    CODEX = "codex"
    GEMINI = "gemini"
    WINDSURF = "windsurf"
    ZED = "zed"
    CLINE = "cline"
    GOOSE = "goose"
    LIBRECHAT = "librechat"


class FileFormat(StrEnum):
    """The formats of these files."""

    JSONC = "JSON"
    TOML = "TOML"
    YAML = "YAML"


def _command(invocation: Invocation, *, typed: bool = False) -> dict[str, Any]:
    program, *arguments = invocation.with_verb()
    server: dict[str, Any] = {"type": "stdio"} if typed else {}
    server |= {"command": program, "args": arguments}
    return server | ({"env": dict(invocation.environment)} if invocation.environment else {})


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The place of a client's servers: the file, its table and its form."""

    path: Callable[[str], Path]
    table: str = "mcpServers"
    file_format: FileFormat = FileFormat.JSONC
    entry: Callable[[Invocation], dict[str, Any]] = _command
    is_made: bool = True
    """Whether the file may be made where there is none: the client reads it from there and nowhere else."""


def configuration_path(client: Client, *, platform: str = sys.platform) -> Path:
    """Return the file in which the client keeps the MCP servers of this user."""
    return CLIENT_FILES[client].path(platform)


def entry(client: Client, invocation: Invocation) -> dict[str, Any]:
    """Return the part of the client's configuration that starts Duetime, nested as it stands in the file."""
    kept = CLIENT_FILES[client]
    return {kept.table: {CLIENT_ENTRY_NAME: kept.entry(invocation)}}


def _goose_extension(invocation: Invocation) -> dict[str, Any]:
    program, *arguments = invocation.with_verb()
    server: dict[str, Any] = {
        "type": "stdio",
        "name": CLIENT_ENTRY_NAME,
        "enabled": True,
        "cmd": program,
        "args": arguments,
    }
    return {**server, "envs": dict(invocation.environment), "timeout": GOOSE_TIMEOUT_S}


def _applications(platform: str, *inside: str) -> Path:
    """Return a file in the directory where desktop programs keep their settings."""
    if platform == "darwin":
        return (Path.home() / "Library" / "Application Support").joinpath(*inside)
    return (_roaming() if platform == "win32" else _config_home()).joinpath(*inside)


def _roaming() -> Path:
    return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")


def _config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _at_home(*inside: str, variable: str = "") -> Callable[[str], Path]:
    """Return a file in the home directory; the first part may be a directory that a variable names instead."""

    def path(_platform: str) -> Path:
        named = os.environ.get(variable) if variable else None
        return Path(named).joinpath(*inside[1:]) if named else Path.home().joinpath(*inside)

    return path


def _claude_code(_platform: str) -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"


def _zed(platform: str) -> Path:
    if platform == "win32":
        return _roaming() / "Zed" / "settings.json"
    home = Path.home() / ".config" if platform == "darwin" else _config_home()
    return home / "zed" / "settings.json"


def _cline(platform: str) -> Path:
    """Return the file that extension and command line share since 4.0, or the extension's where only that is there."""
    shared = _at_home(".cline", "data", "settings", "cline_mcp_settings.json", variable="CLINE_DIR")(platform)
    inside = ("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
    older = _applications(platform, *inside)
    return older if older.is_file() and not shared.is_file() else shared


def _goose(platform: str) -> Path:
    if platform == "win32":
        return _roaming() / "Block" / "goose" / "config" / "config.yaml"
    home = Path.home() / ".config" if platform == "darwin" else _config_home()
    return home / "goose" / "config.yaml"


def _librechat(_platform: str) -> Path:
    named = os.environ.get("CONFIG_PATH", "")
    return Path(named if named and "://" not in named else "librechat.yaml").absolute()


_TYPED = partial(_command, typed=True)
CLIENT_FILES = {
    Client.CLAUDE: ClientFile(lambda platform: _applications(platform, "Claude", "claude_desktop_config.json")),
    Client.CLAUDE_CODE: ClientFile(_claude_code, entry=_TYPED),
    Client.VSCODE: ClientFile(
        lambda platform: _applications(platform, "Code", "User", "mcp.json"), table="servers", entry=_TYPED
    ),
    Client.CURSOR: ClientFile(_at_home(".cursor", "mcp.json")),
    Client.CODEX: ClientFile(
        _at_home(".codex", "config.toml", variable="CODEX_HOME"), table="mcp_servers", file_format=FileFormat.TOML
    ),
    Client.GEMINI: ClientFile(_at_home(".gemini", "settings.json")),
    Client.WINDSURF: ClientFile(_at_home(".codeium", "windsurf", "mcp_config.json")),
    Client.ZED: ClientFile(_zed, table="context_servers"),
    Client.CLINE: ClientFile(_cline),
    Client.GOOSE: ClientFile(_goose, table="extensions", file_format=FileFormat.YAML, entry=_goose_extension),
    Client.LIBRECHAT: ClientFile(_librechat, file_format=FileFormat.YAML, entry=_TYPED, is_made=False),
}
