"""The value of every secret in the tests, which no output of any test may show; and what looks for it."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

CANARY = "canary+7f3a/9c1e=b52d"
"""It changes where it is escaped for a URL, so each form of it is looked for."""

KEY = base64.b64encode(b"k" * 32).decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()

_FORMS = (CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode().rstrip("="))
MAX_FILE_BYTES = 8_000_000
GZIP = b"\x1f\x8b"


def shown_in(text: str, forms: Sequence[str] = _FORMS) -> list[str]:
    """Return the lines in which the value stands, or another secret in one of its forms."""
    if not any(form in text for form in forms):
        return []
    return [line for line in text.splitlines() if any(form in line for form in forms)]


def files_with_it(folder: Path, written: Sequence[str] = _FORMS) -> Iterator[Path]:
    forms = [form.encode() for form in written]
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            found = unpacked(path.read_bytes())
            if any(form in found for form in forms):
                yield path


def unpacked(content: bytes) -> bytes:
    """Return what a file has; an archive and a compressed export have it packed."""
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return content


def leaks(sections: Iterable[tuple[str, str]], folder: Path | None, forms: Sequence[str] = _FORMS) -> list[str]:
    """Return where a test has shown a value: in what it wrote and logged, and in the files that it left."""
    said = [f"{name}: {line[:200]}" for name, text in sections for line in shown_in(text, forms)]
    kept = folder is not None and folder.is_dir()
    return said + ([str(path) for path in files_with_it(folder, forms)] if folder is not None and kept else [])
