"""Text that users and handlers wrote, made fit to stand next to ours: on one line, cut, and visibly theirs.

Whoever reads a task may be a model: a title that gives orders has to look like what it is, a title.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetime.scheduler.task import Json

_CUT_SHORT = "…"
_JOINERS = frozenset("\u200c\u200d")
"""Invisible too, but Persian words and emoji need them."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT_TEXT_CHARS = (200, 120, 60, 30)
"""Characters to which texts in a value are cut, one after the other, until it is short enough."""

_QUOTES = str.maketrans("«»", "\u2039\u203a")


def quoted(text: str, width: int) -> str:
    """`text` as a quotation that it cannot close: «Call John»."""
    return f"«{cut(text.translate(_QUOTES), width)}»"


def quoted_lines(text: str, width: int) -> list[str]:
    """`text` as a quotation of several lines, each of them marked."""
    return [f"  | {cut(line.translate(_QUOTES), width)}" for line in text.splitlines()]


def cut(text: str, width: int) -> str:
    """`text` in at most `width` characters, on one line, with an ellipsis where something was left out."""
    line = one_line(text)
    return line if len(line) <= width else line[: width - 1].rstrip() + _CUT_SHORT


def one_line(text: str) -> str:
    """`text` without line breaks and control, surrogate or bidirectional characters, which could disguise it."""
    if text.isprintable():  # most texts are, and looking at each character takes longer than all the rest
        return " ".join(text.split())
    return " ".join("".join(" " if _is_invisible(character) else character for character in text).split())


def bounded(value: Json, width: int) -> Json:
    """Return a value with its texts cut so that its JSON has at most `width` characters, or the start of that JSON."""
    if len(as_text(value)) <= width:
        return value
    short = (_with_short_texts(value, room) for room in _SHORT_TEXT_CHARS)
    return next((shown for shown in short if len(as_text(shown)) <= width), cut(as_text(value), width))


def _with_short_texts(value: Json, room: int) -> Json:
    if isinstance(value, str):
        return cut(value, room)
    if isinstance(value, Mapping):
        return {name: _with_short_texts(part, room) for name, part in value.items()}
    return [_with_short_texts(part, room) for part in value] if isinstance(value, Sequence) else value


def as_text(value: Json) -> str:
    """Write a value for a reader: a text as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_invisible(character: str) -> bool:
    return character not in _JOINERS and unicodedata.category(character) in _INVISIBLE


@dataclass(frozen=True, slots=True)
class QuoteLimits:
    """The number of characters shown of a title and of other quotations, and of coming occurrences."""

    title: int
    text: int
    coming: int


def sentences(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
