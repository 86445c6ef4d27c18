"""The files that pages load: scripts, styles and the icon, read once, addressed by their content."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

ASSETS_PATH = "/admin/static/"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_HASH_CHARS = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with the hash by which pages name it, so that browsers may keep it for ever."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name."""
    found = {}
    for file in files("duetime.server.admin").joinpath("static").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            content = file.read_bytes()
            found[file.name] = Asset(content, _TYPES[suffix], sha256(content).hexdigest()[:_HASH_CHARS])
    return found


def asset_url(name: str) -> str:
    """Return the address of a file, for templates. Raises KeyError for one that is not there."""
    return f"{ASSETS_PATH}{name}?v={assets()[name].version}"
