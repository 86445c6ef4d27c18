"""Reads the sources of the cards as far as a test needs it: string literals, and which of them people would read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from duetime.widgets.build import SOURCES

_TOKENS = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<regex>(?<=[(,=])\s*/(?:\\.|\[(?:\\.|[^\]])*\]|[^/\n\\\[])+/[gimsuy]*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<template>`(?:\\.|[^`\\])*`)""",
    re.VERBOSE | re.DOTALL,
)
_COMPARED = re.compile(r"===\s*$")
_CLASS = re.compile(r"\.([a-z][\w-]*)")
_FORMAL = re.compile(r"[a-z_]+\.([a-z_-]+)?|[.(\[].*|M-?\d.*|[A-Z-]+[:;=].*")
"""A key of the catalogue or the start of one, a selector, the path of a drawing, or a line of a calendar file."""

_INSERTION = re.compile(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}")


class Literal(NamedTuple):
    """One string of a source: its text without what is inserted, and what stands before it."""

    path: Path
    text: str
    before: str

    @property
    def is_read(self) -> bool:
        """Whether people would read it: words, not a name, a key, a selector, classes of a style or a drawing."""
        words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\b(px|[A-Z]+)\b", "", self.text))
        if not words or _COMPARED.search(self.before) or _FORMAL.fullmatch(self.text) or self._names_styles():
            return False
        return " " in self.text.strip() or self.text[:1].isupper() or self.text.endswith((":", ".", "…"))

    def _names_styles(self) -> bool:
        styles = {name for sheet in SOURCES.glob("*.css") for name in _CLASS.findall(sheet.read_text("utf-8"))}
        begun = {name for style in styles for name in (style, f"{style.split('-')[0]}-")}
        return re.search(r"class: [^:]*$", self.before) is not None or set(self.text.split()) <= begun


def literals(path: Path) -> Iterator[Literal]:
    yield from _literals(path, path.read_text("utf-8"))


def _literals(path: Path, source: str) -> Iterator[Literal]:
    for found in _TOKENS.finditer(source):
        line = source[source.rfind("\n", 0, found.start()) + 1 : found.start()]
        if text := found["string"]:
            yield Literal(path, text[1:-1], line)
        elif text := found["template"]:
            yield Literal(path, _INSERTION.sub("", text[1:-1]), line)
            for inserted in _INSERTION.findall(text):
                yield from _literals(path, inserted)
