"""Builds the cards: `python -m duetime.widgets.build` turns `src/` into one self-contained page a card in `html/`.

No package manager is needed. ES modules are joined in the order in which they import each other, inside one function;
top-level names therefore have to differ between modules, which is checked. Style and script, with the texts of all
languages, are deflated, written in base 85 and unpacked by a few lines of the page: six languages do not fit otherwise.
"""

from __future__ import annotations

import base64
import re
import sys
import zlib
from collections import Counter
from pathlib import Path

from duetime.widgets import catalogue

HERE = Path(__file__).resolve().parent  # of the checkout, also where an editable install links to it
SOURCES = HERE / "src"
PAGES = HERE / "html"
LANGUAGES = "languages"
CATALOGUE = "catalogue.js"
"""The one module that is not written by hand: the words of `languages/*.json`."""

CARDS = {"task-card": "Task", "task-list": "Tasks"}
MAX_CARD_BYTES = 60_000

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*/\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_NOTHING_BUT_ITSELF = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


_RAW_DEFLATE_BITS = -15
"""Size of the window as zlib takes it; negative means deflate without a header, `deflate-raw` in browsers."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;:=>?@^_`{|}~"
"""Digits of `base64.b85encode`, with a colon for the sign that could begin a tag."""

_UNPACK = """(async () => {
const digits = "%s";
const packed = "%s";
const groups = new DataView(new ArrayBuffer(packed.length / 5 * 4));
for (let at = 0, group = 0; at < packed.length; at += 1) {
group = (at %% 5 && group * 85) + digits.indexOf(packed[at]);
if (at %% 5 === 4) groups.setUint32((at - 4) / 5 * 4, group);
}
const deflated = new Blob([new Uint8Array(groups.buffer, 0, %d)]);
const stream = deflated.stream().pipeThrough(new DecompressionStream("deflate-raw"));
const parts = (await new Response(stream).text()).split("\\0");
["style", "script"].forEach((tag, place) => {
const part = document.createElement(tag);
part.textContent = parts[place];
document.head.append(part);
if (tag === "script") part.remove();
});
})();"""


class BuildError(Exception):
    """The sources cannot become a page; the message names the file and what to do."""


def page(name: str, sources: Path = SOURCES) -> str:
    """Return the whole HTML of one card."""
    script = _minified("application/javascript", join_modules(modules(f"{name}.js", sources)))
    style = _minified("text/css", "".join(_css(sources, name)))
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_BUT_ITSELF}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{CARDS[name]}</title>\n</head>\n<body>\n"
        f"<script>\n{_unpacking(_deflated(style, script))}\n</script>\n</body>\n</html>\n"
    )
    return _checked(name, html)


def unpacked(html: str) -> tuple[str, str]:
    """Return style and script of a built page."""
    packed = re.search(r'packed = "([^"]*)"', html)
    if packed is None:
        raise BuildError("a page without packed style and script; build it again")
    deflated = base64.b85decode(packed[1].replace(":", "<"))
    style, _, script = zlib.decompressobj(wbits=_RAW_DEFLATE_BITS).decompress(deflated).decode().partition("\0")
    return style, script


def modules(entry: str, sources: Path = SOURCES) -> dict[str, str]:
    """Return the modules that `entry` needs, by file name, each after those that it imports."""
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
    PAGES.mkdir(exist_ok=True)
    for name in CARDS:
        html = page(name)
        (PAGES / f"{name}.html").write_text(html, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{name}.html: {len(html.encode()):,} bytes\n")
    return 0


def _collect(name: str, sources: Path, found: dict[str, str], path: tuple[str, ...]) -> None:
    if name in path:
        raise BuildError(f"{' -> '.join((*path, name))}: modules import each other in a circle")
    if name in found:
        return
    text = catalogue.module(sources / LANGUAGES) if name == CATALOGUE else (sources / name).read_text(encoding="utf-8")
    for needed in _IMPORT.findall(text):
        _collect(needed, sources, found, (*path, name))
    found[name] = text


def _squeeze(script: str) -> str:
    lines = (line.strip() for line in _COMMENT.sub("", script).splitlines())
    return "\n".join(line for line in lines if line)


def _minified(kind: str, text: str) -> str:
    import minify  # type: ignore[import-untyped]  # noqa: PLC0415 - only a checkout builds cards

    return str(minify.string(kind, text))


def _deflated(style: str, script: str) -> bytes:
    """Return both as raw deflate; each language, which ends with a tab, has a code for its own letters."""
    squeezed = zlib.compressobj(9, wbits=_RAW_DEFLATE_BITS)
    parts = [f"{style}\0", *re.split(r"(?<=\t`)", script)]
    return (
        b"".join(squeezed.compress(part.encode()) + squeezed.flush(zlib.Z_BLOCK) for part in parts) + squeezed.flush()
    )


def _unpacking(deflated: bytes) -> str:
    packed = base64.b85encode(deflated, pad=True).decode().replace("<", ":")
    return _UNPACK % (_DIGITS, packed, len(deflated))


def _css(sources: Path, name: str) -> list[str]:
    parts = ("base.css", "task.css", *(["list.css"] if name == "task-list" else []))
    return [(sources / part).read_text(encoding="utf-8") for part in parts]


def _checked(name: str, html: str) -> str:
    if (size := len(html.encode())) >= MAX_CARD_BYTES:
        raise BuildError(f"{name}: {size:,} bytes, but a card has to stay below {MAX_CARD_BYTES:,}")
    return html


if __name__ == "__main__":
    sys.exit(main())
