"""Builds the cards: `python -m duetime.widgets.build` turns `src/` into one self-contained page a card in `html/`.

No package manager is needed. ES modules are joined in the order in which they import each other, inside one function.
Top-level names therefore have to differ between modules, which is checked. Style and script, with the texts of all
languages, are packed and unpacked by a few lines of the page (`packed_page.py`). Six languages do not fit otherwise.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from duetime.widgets import catalogue, packed_page

_HERE = Path(__file__).resolve().parent  # of the checkout, also where an editable install links to it
SOURCES = _HERE / "src"
CARD_PAGES = _HERE / "html"
LANGUAGES = "languages"
CATALOGUE = "texts/catalogue.js"
"""The one module that is not written by hand: the words of `languages/*.json`."""

CARDS = {"task-card": "Task", "task-list": "Tasks"}
MAX_CARD_BYTES = 60_000

_NOTES_FOR_MODELS = (
    *("steps_at_once", "same_title_and_time", "silent", "undeliverable"),
    *("early_end", "retried", "not_retried", "dry_run"),
)
"""On new tasks, and on arguments that no card sends: the list never gets them."""

_NOTES_ON_CHANGES = ("moves_as_well", "step_skipped", "paused_elsewhere")
LEFT_OUT_KEYS = {"task-list": frozenset(f"note.{kind}" for kind in (*_NOTES_FOR_MODELS, *_NOTES_ON_CHANGES))}
"""Texts for which a card has no room, by its name: it shows the English sentences of the server in their place."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.{1,2}/[\w./-]+\.js)";\n', re.MULTILINE)
_TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*/\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_NOTHING_BUT_ITSELF = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


class BuildError(Exception):
    """The sources cannot become a page; the message names the file and what to do."""


def page(name: str, sources: Path = SOURCES) -> str:
    """Return the whole HTML of one card."""
    left_out = LEFT_OUT_KEYS.get(name, ())
    parts = catalogue.with_short_keys(modules(f"{name}.js", sources), CATALOGUE, sources / LANGUAGES, left_out)
    script = _minified("application/javascript", join_modules(parts))
    style = _minified("text/css", "".join(_css(sources, name)))
    unpacking = packed_page.unpacking(style, script, partial(_minified, "application/javascript"))
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_BUT_ITSELF}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{CARDS[name]}</title>\n</head>\n<body>\n"
        f"<script>\n{unpacking}\n</script>\n</body>\n</html>\n"
    )
    return _checked(name, html)


def unpacked(html: str) -> tuple[str, str]:
    """Return style and script of a built page."""
    found = packed_page.unpacked(html)
    if found is None:
        raise BuildError("a page without packed style and script; build it again")
    return found


def modules(entry: str, sources: Path = SOURCES) -> dict[str, str]:
    """Return the modules that `entry` needs, by their path in `sources`, each after those that it imports."""
    found: dict[str, str] = {}
    _collect(entry, sources, found, ())
    return found


def join_modules(parts: dict[str, str]) -> str:
    """Return one script out of modules, without imports, exports and comments."""
    names = Counter(name for text in parts.values() for name in _TOP_LEVEL.findall(text))
    if twice := [name for name, count in names.items() if count > 1]:
        raise BuildError(f"{', '.join(twice)}: defined in two modules; rename one, they share a scope once joined")
    body = "".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in parts.values())
    return f'(() => {{\n"use strict";\n{_squeeze(body)}\n}})();'


def main() -> int:
    """Write both pages and say how large they are."""
    CARD_PAGES.mkdir(exist_ok=True)
    for name in CARDS:
        html = page(name)
        (CARD_PAGES / f"{name}.html").write_text(html, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{name}.html: {len(html.encode()):,} bytes\n")
    return 0


def _collect(name: str, sources: Path, found: dict[str, str], path: tuple[str, ...]) -> None:
    if name in path:
        raise BuildError(f"{' -> '.join((*path, name))}: modules import each other in a circle")
    if name in found:
        return
    text = catalogue.module(sources / LANGUAGES) if name == CATALOGUE else (sources / name).read_text(encoding="utf-8")
    for needed in _IMPORT.findall(text):
        _collect(posixpath.normpath(posixpath.join(posixpath.dirname(name), needed)), sources, found, (*path, name))
    found[name] = text


def _squeeze(script: str) -> str:
    lines = (line.strip() for line in _COMMENT.sub("", script).splitlines())
    return "\n".join(line for line in lines if line)


def _minified(kind: str, text: str) -> str:
    import minify  # type: ignore[import-untyped]  # noqa: PLC0415 - only a checkout builds cards

    return str(minify.string(kind, text))


def _css(sources: Path, name: str) -> list[str]:
    parts = ("base.css", "task.css", *(["list.css"] if name == "task-list" else []))
    return [(sources / part).read_text(encoding="utf-8") for part in parts]


def _checked(name: str, html: str) -> str:
    if (size := len(html.encode())) >= MAX_CARD_BYTES:
        raise BuildError(f"{name}: {size:,} bytes, but a card has to stay below {MAX_CARD_BYTES:,}")
    return html


if __name__ == "__main__":
    sys.exit(main())
