"""Packs style and script of a card into a text that the page itself unpacks: deflated, and 53 bytes in 65 characters.

The texts of all languages stand in the script; they are packed behind the rest of it, which is nearest to the style.
A letter beyond ASCII is one byte or two, by the table of its language: UTF-8 spends as many on what is always the same.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Final

_RAW_DEFLATE_BITS: Final = -15
"""Size of the window as zlib takes it; negative means deflate without a header, `deflate-raw` in browsers."""

_ZLIB_HEADER_BYTES: Final = 2
_ZLIB_CHECKSUM_BYTES: Final = 4

_DIGITS: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\<')
"""The printable characters but for those that could end the string, or begin a tag."""

_GROUP_BYTES: Final = 53
_GROUP_DIGIT_COUNT: Final = 65
_DIGIT_COUNT: Final = len(_DIGITS)
"""A group of bytes is a number of that many digits, the lowest first: 92 to the 65th is just above 256 to the 53rd."""

_UNPACK: Final = r"""(async () => {
const packed = "PACKED", data = [];
const digit = (code) => code - 32 - (code > 34) - (code > 60) - (code > 92);
for (let end = 65; end <= packed.length; end += 65) {
let number = 0n, at = 0;
for (; at < 65; number = number * 92n + BigInt(digit(packed.charCodeAt(end - ++at))));
for (at = 53; at--; number >>= 8n) data.push(Number(number & 255n));
}
const deflated = new Blob([new Uint8Array(data.slice(0, LENGTH))]).stream();
const inflated = new Response(deflated.pipeThrough(new DecompressionStream("deflate-raw")));
const bytes = new Uint8Array(await inflated.arrayBuffer());
const end = bytes.lastIndexOf(0), steps = new TextDecoder().decode(bytes.subarray(end + 1)).split("\n");
let last = 0;
const tables = steps.map((part) => part.replace(/[^]/g, (step, place) =>
String.fromCharCode(last = (place % 124 && last) + step.charCodeAt() - 31)));
const spelled = (part, at) => part.replace(/([\uf780-\uf783]?)([\uf784-\uf7ff])/g, (_, page, code) =>
tables[at][(page && page.charCodeAt() - 0xf77f) * 124 + code.charCodeAt() - 0xf784]);
const parts = new TextDecoder("x-user-defined").decode(bytes.subarray(0, end)).split("\0");
const [style, rest, ...texts] = parts.map(spelled);
for (const [tag, text] of [["style", style], ["script", texts.join("") + rest]]) {
const part = document.createElement(tag);
part.textContent = text;
document.head.append(part);
if (tag === "script") part.remove();
}
})();"""

_MAX_PAGES: Final = 4
_MAX_ASCII_CODES: Final = 0x80
_FIRST_CODE: Final = _MAX_ASCII_CODES + _MAX_PAGES
_MAX_PAGE_CODES: Final = 0x100 - _FIRST_CODE
"""A letter beyond ASCII is a byte of this many: most by themselves, rare ones behind a byte for their page."""

_SKIPPED_CODES_COUNT: Final = 31
"""A step from one letter of a page to the next, 1 at least, is written behind these: it is no line break."""

_LANGUAGE_END: Final = "\t`"
"""The end of the texts of a language in the script."""


def unpacking(style: str, script: str, minified: Callable[[str], str]) -> str:
    """Return the script of a page that unpacks both."""
    deflated = _deflated(style, script)
    return minified(_UNPACK).replace("LENGTH", str(len(deflated))).replace("PACKED", _encoded(deflated))


def unpacked(html: str) -> tuple[str, str] | None:
    """Return style and script of a page, None of one without."""
    packed = re.search(r'"([^"]{1000,})"', html)
    length = re.search(r"slice\(0,(\d+)\)", html)
    if packed is None or length is None:
        return None
    deflated = _decoded(packed[1])[: int(length[1])]
    *parts, tables = zlib.decompressobj(wbits=_RAW_DEFLATE_BITS).decompress(deflated).split(b"\0")
    style, rest, *texts = map(_spelled, parts, map(_from_steps, tables.decode().split("\n")))
    return style, "".join(texts) + rest


def _deflated(style: str, script: str) -> bytes:
    """Return both as raw deflate; each language has a table, and each script a code for its letters."""
    texts, end, rest = script.rpartition(_LANGUAGE_END)
    parts = [style, rest, *re.split(rf"(?<={_LANGUAGE_END})", f"{texts}{end}")[: texts.count(_LANGUAGE_END) + 1]]
    tables = [_table(part) for part in parts]
    spelled = [b"%s\0" % _codes(part, table) for part, table in zip(parts, tables, strict=True)]
    import zopfli.zlib  # type: ignore[import-untyped]  # noqa: PLC0415 - only a checkout builds cards

    packed: bytes = zopfli.zlib.compress(
        b"".join((*spelled, "\n".join(map(_as_steps, tables)).encode())), blocksplittingmax=0
    )
    return packed[_ZLIB_HEADER_BYTES:-_ZLIB_CHECKSUM_BYTES]


def _table(text: str) -> str:
    """Return the letters of a text beyond ASCII: the most frequent ones first, then page by page."""
    counted = Counter(letter for letter in text if not letter.isascii())
    found = [letter for letter, _ in counted.most_common()]
    return "".join(sorted(found[:_MAX_PAGE_CODES]) + sorted(found[_MAX_PAGE_CODES:]))


def _as_steps(table: str) -> str:
    """Return the steps from each letter of a table to the next, of which most are one byte; a page begins at 0."""
    pages = [table[at : at + _MAX_PAGE_CODES] for at in range(0, len(table), _MAX_PAGE_CODES)]
    pairs = chain.from_iterable(pairwise(f"\0{page}") for page in pages)
    return "".join(chr(ord(letter) - ord(before) + _SKIPPED_CODES_COUNT) for before, letter in pairs)


def _from_steps(steps: str) -> str:
    """Undo `_as_steps`."""
    found = ""
    for place, step in enumerate(steps):
        before = ord(found[-1]) if place % _MAX_PAGE_CODES else 0
        found += chr(before + ord(step) - _SKIPPED_CODES_COUNT)
    return found


def _codes(text: str, table: str) -> bytes:
    """Return a text with a byte, or two, for each letter that is in the table."""
    found = {letter: divmod(place, _MAX_PAGE_CODES) for place, letter in enumerate(table)}
    codes = {
        letter: bytes([*([_MAX_ASCII_CODES + page - 1] if page else []), _FIRST_CODE + code])
        for letter, (page, code) in found.items()
    }
    return b"".join(codes.get(letter) or letter.encode("ascii") for letter in text)


def _spelled(codes: bytes, table: str) -> str:
    """Undo `_codes`."""
    found, page = "", 0
    for code in codes:
        if _MAX_ASCII_CODES <= code < _FIRST_CODE:
            page = code - _MAX_ASCII_CODES + 1
            continue
        found += chr(code) if code < _MAX_ASCII_CODES else table[page * _MAX_PAGE_CODES + code - _FIRST_CODE]
        page = 0
    return found


def _encoded(data: bytes) -> str:
    found = []
    for at in range(0, len(data), _GROUP_BYTES):
        number = int.from_bytes(data[at : at + _GROUP_BYTES], "little")
        for _ in range(_GROUP_DIGIT_COUNT):
            number, digit = divmod(number, _DIGIT_COUNT)
            found.append(_DIGITS[digit])
    return "".join(found)


def _decoded(text: str) -> bytes:
    value = {digit: place for place, digit in enumerate(_DIGITS)}
    found = []
    for at in range(0, len(text), _GROUP_DIGIT_COUNT):
        number = 0
        for digit in reversed(text[at : at + _GROUP_DIGIT_COUNT]):
            number = number * _DIGIT_COUNT + value[digit]
        found.append(number.to_bytes(_GROUP_BYTES, "little"))
    return b"".join(found)
