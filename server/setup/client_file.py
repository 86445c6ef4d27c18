"""Puts Duetime into the MCP configuration of a chat client, and takes it out again; nothing else in it changes."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path

from duetime.scheduler.errors import Refused
from duetime.scheduler.rules.redact import MASK
from duetime.server.settings.masks import masked
from duetime.server.setup.invocation import Invocation
from duetime.server.setup.mcp_clients import (
    CLIENT_ENTRY_NAME,
    CLIENT_FILES,
    Client,
    ClientFile,
    FileFormat,
    configuration_path,
)
from duetime.server.setup.text_format import ServerEntry, TextFormat, UnreadableText

_TEXT_FORMATS = {
    FileFormat.JSONC: "jsonc_text:JsoncText",
    FileFormat.TOML: "toml_text:TomlText",
    FileFormat.YAML: "yaml_text:YamlText",
}
"""Loaded when a client needs one, since YAML needs a library."""

_SECRET = re.compile(r"((?:secret|token|password|channel|key)\w*\"?\s*[:=]\s*)\S.*", re.IGNORECASE)
"""Settings whose values `masked` cannot know, on one line with what follows them; also those of other servers."""

MAX_DIFF_LINE_CHARS = 160


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a client's file: its text before and after; None for a file that is not there."""

    path: Path
    before: str | None
    after: str | None
    private: bool = False

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        """Return the lines that go and come, without secrets."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(), (self.after or "").splitlines(), str(self.path), "", n=0, lineterm=""
        )
        return [_without_secrets(line) for line in list(lines)[2:]]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a change: whether the file changed, and the path of its earlier content (None: no file)."""

    path: Path
    changed: bool
    backup: Path | None = None


def shown(client: Client, invocation: Invocation) -> str:
    """Return the entry as it stands in a file of the client's."""
    kept = CLIENT_FILES[client]
    return _text_format(kept).put("", kept.table, CLIENT_ENTRY_NAME, kept.entry(invocation))


def installing(client: Client, invocation: Invocation, *, file: Path | None = None) -> FileChange:
    """Return the change that puts the entry into the client's file, in place of an older one.

    Raises Refused where the file cannot be read, or not be changed without loss.
    """
    kept = CLIENT_FILES[client]
    path = (file or configuration_path(client)).resolve()
    before = _read(path)
    if before is None and not (kept.is_made or file):
        raise Refused(f"there is no {path}, so nothing was written. Name the file with --file.")
    server = kept.entry(invocation)
    after = _tried(path, lambda: _with_entry(kept, before or "", server))
    return FileChange(path, before, after, private=invocation.has_secrets)


def removing(client: Client, *, file: Path | None = None) -> FileChange:
    """Return the change that takes the entry out: the file is as it was before, if only the entry has changed since."""
    kept = CLIENT_FILES[client]
    path = (file or configuration_path(client)).resolve()
    before = _read(path)
    after = before if before is None else _tried(path, lambda: _without_entry(kept, path, before))
    return FileChange(path, before, after)


def write(change: FileChange, *, now: datetime) -> WriteResult:
    """Rewrite the file, at once or not at all, with a copy of it as it was next to it.

    With secrets in the entry only the owner may read both.
    """
    if not change.changed:
        return WriteResult(change.path, changed=False)
    if _read(change.path) != change.before:
        raise Refused(f"{change.path} was changed by another program just now, so nothing was written. Try again.")
    allowed = 0o600 if change.private else 0o777
    backup = _back_up(change.path, now, allowed)
    if change.after is None:
        change.path.unlink()
        return WriteResult(change.path, changed=True, backup=backup)
    mode = change.path.stat().st_mode & allowed if change.path.exists() else 0o600
    change.path.parent.mkdir(parents=True, exist_ok=True)
    _store(change.path, change.after.encode(), mode=mode)
    return WriteResult(change.path, changed=True, backup=backup)


def _with_entry(file: ClientFile, text: str, server: ServerEntry) -> str:
    texts = _text_format(file)
    if texts.find(text, file.table, CLIENT_ENTRY_NAME) == server:
        return text
    return texts.put(text, file.table, CLIENT_ENTRY_NAME, server)


def _without_entry(file: ClientFile, path: Path, text: str) -> str | None:
    """Return the text as it was before the entry was put in, where a copy proves it; else without the entry's part."""
    texts = _text_format(file)
    server = texts.find(text, file.table, CLIENT_ENTRY_NAME)
    if server is None:
        return text
    for earlier in _backups(path):
        if _leads_to(texts, file.table, server, earlier, text):
            return earlier
    return None if _leads_to(texts, file.table, server, "", text) else texts.drop(text, file.table, CLIENT_ENTRY_NAME)


def _leads_to(texts: TextFormat, table: str, server: ServerEntry, earlier: str, text: str) -> bool:
    """Whether a text had no entry, and putting this one in makes it the other text."""
    try:
        return (
            texts.find(earlier, table, CLIENT_ENTRY_NAME) is None
            and texts.put(earlier, table, CLIENT_ENTRY_NAME, server) == text
        )
    except UnreadableText:
        return False


def _text_format(file: ClientFile) -> TextFormat:
    module, _, name = _TEXT_FORMATS[file.file_format].partition(":")
    texts: TextFormat = getattr(import_module(f"duetime.server.setup.{module}"), name)()
    return texts


def _tried(path: Path, change: Callable[[], str | None]) -> str | None:
    try:
        return change()
    except UnreadableText as problem:
        advice = "Change it by hand; without --write, `duetime install` shows the entry."
        raise Refused(f"{path}: {problem}, so nothing was written. {advice}") from None


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read ({error}), so nothing was written.") from error


def _backups(path: Path) -> Iterator[str]:
    """Yield the copies of the file, newest first."""
    for copy in sorted(path.parent.glob(f"{path.name}.*.bak"), reverse=True):
        try:
            yield copy.read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue


def _back_up(path: Path, now: datetime, allowed: int) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.{now:%Y%m%dT%H%M%S%f}.bak")
    _store(backup, path.read_bytes(), mode=path.stat().st_mode & allowed)
    return backup


def _store(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file next to it and rename, so that a client reads the old file or the new one, never half."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _without_secrets(line: str) -> str:
    shown = _SECRET.sub(rf"\1{MASK}", masked(line))
    return shown if len(shown) <= MAX_DIFF_LINE_CHARS else f"{shown[:MAX_DIFF_LINE_CHARS]}…"
