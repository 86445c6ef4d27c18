"""Putting Duetime into the MCP configuration of a chat client, without harm to what stands there already."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from duetime.scheduler.errors import Refused
from duetime.server.setup.invocation import Invocation

NAME = "duetime"


class Client(StrEnum):
    """The chat clients whose configuration files Duetime knows."""

    CLAUDE = "claude"
    CLAUDE_CODE = "claude-code"
    VSCODE = "vscode"
    CURSOR = "cursor"


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of `write`: whether the file changed, and the path of its earlier content (None: no file)."""

    path: Path
    changed: bool
    backup: Path | None = None


def configuration_path(client: Client, *, platform: str = sys.platform) -> Path:
    """Return the file in which the client keeps the MCP servers of this user."""
    if client is Client.CURSOR:
        return Path.home() / ".cursor" / "mcp.json"
    if client is Client.CLAUDE_CODE:
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"
    inside = {Client.CLAUDE: ("Claude", "claude_desktop_config.json"), Client.VSCODE: ("Code", "User", "mcp.json")}
    return _applications(platform).joinpath(*inside[client])


def entry(client: Client, invocation: Invocation) -> dict[str, Any]:
    """Return the part of the client's configuration that starts Duetime, nested as it stands in the file."""
    program, *arguments = invocation.with_verb()
    server: dict[str, Any] = {"command": program, "args": arguments}
    if client in {Client.VSCODE, Client.CLAUDE_CODE}:
        server = {"type": "stdio", **server}
    if invocation.environment:
        server["env"] = dict(invocation.environment)
    return {_table(client): {NAME: server}}


def write(client: Client, invocation: Invocation, *, now: datetime) -> WriteResult:
    """Merge the entry into the client's file: other entries stay, and a copy of the file as it was stands beside it.

    With secrets in the entry only the owner may read both.

    Raises Refused when the file is there and is not plain JSON (comments, say), because writing would lose something.
    """
    path = configuration_path(client).resolve()
    before = _read(path)
    table, server = _table(client), entry(client, invocation)[_table(client)][NAME]
    servers = before.get(table, {})
    if not isinstance(servers, dict):
        raise Refused(f"{path}: {table!r} is not an object, so nothing was written. Add the entry by hand.")
    if servers.get(NAME) == server:
        return WriteResult(path, changed=False)
    allowed = 0o600 if invocation.has_secrets else 0o777
    backup = _back_up(path, now, allowed)
    _replace(path, {**before, table: {**servers, NAME: server}}, allowed)
    return WriteResult(path, changed=True, backup=backup)


def _applications(platform: str) -> Path:
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _table(client: Client) -> str:
    return "servers" if client is Client.VSCODE else "mcpServers"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read ({error}), so nothing was written.") from error
    try:
        content = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise Refused(
            f"{path} is not plain JSON (line {error.lineno}: {error.msg}; comments?), so nothing was written. "
            "Add the entry by hand; without --write this command prints it."
        ) from None
    if not isinstance(content, dict):
        raise Refused(f"{path} does not hold an object, so nothing was written. Add the entry by hand.")
    return content


def _back_up(path: Path, now: datetime, allowed: int) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.{now:%Y%m%dT%H%M%S%f}.bak")
    _store(backup, path.read_bytes(), mode=path.stat().st_mode & allowed)
    return backup


def _replace(path: Path, content: Mapping[str, Any], allowed: int) -> None:
    mode = path.stat().st_mode & allowed if path.exists() else 0o600
    path.parent.mkdir(parents=True, exist_ok=True)
    _store(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(), mode=mode)


def _store(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file beside it and rename, so that a client reads the old file or the new one, never half."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
