"""Text that cannot steer a terminal, nor disguise itself there."""

from __future__ import annotations

import json
import re

JOINER = "\u200d"
"""Joins emoji into one; not printable by itself, and harmless."""

_CONTROLS = re.compile(r"[\x7f-\U0010ffff]")


def plain(text: str) -> str:
    """Return text on one line: what is not printable becomes a visible mark, line ends a space."""
    return "".join(
        char if char.isprintable() or char == JOINER else " " if char in "\n\t" else "\ufffd" for char in text
    )


def plain_lines(text: str) -> str:
    """Return text with its line ends, each line plain."""
    return "\n".join(map(plain, text.split("\n")))


def plain_json(written: str) -> str:
    """Return the same JSON with an escape for each character that is not printable; those below U+0020 have one."""
    return written if written.isascii() and "\x7f" not in written else _CONTROLS.sub(_escaped, written)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() or char == JOINER else json.dumps(char)[1:-1]
