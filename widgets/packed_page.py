"""Packs style and script of a card into a text that the page itself unpacks: deflated, and 13 bits in two characters.

The texts of all languages stand in the script; they are packed behind the rest of it, which is nearest to the style.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

_RAW_DEFLATE_BITS: Final = -15
"""Size of the window as zlib takes it; negative means deflate without a header, `deflate-raw` in browsers."""

_DIGITS: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"\\<')
"""The printable characters but for those that could end the string, or begin a tag."""

_PAIR_BITS: Final = 13
_BASE: Final = len(_DIGITS)

_UNPACK: Final = """(async () => {
const digits = "%s", packed = "%s", bytes = [];
for (let at = 0, bits = 0, count = 0; at < packed.length; at += 2) {
bits |= digits.indexOf(packed[at]) + digits.indexOf(packed[at + 1]) * 91 << count;
for (count += 13; count > 7; count -= 8, bits >>= 8) bytes.push(bits);
}
const deflated = new Blob([new Uint8Array(bytes.slice(0, %d))]).stream();
const stream = deflated.pipeThrough(new DecompressionStream("deflate-raw"));
const [style, rest, texts] = (await new Response(stream).text()).split("\\0");
for (const [tag, text] of [["style", style], ["script", texts + rest]]) {
const part = document.createElement(tag);
part.textContent = text;
document.head.append(part);
if (tag === "script") part.remove();
}
})();"""

_LANGUAGE_END: Final = "\t`"
"""The end of the texts of a language in the script."""


def unpacking(style: str, script: str) -> str:
    """Return the script of a page that unpacks both."""
    deflated = _deflated(style, script)
    return _UNPACK % (_DIGITS, _encoded(deflated), len(deflated))


def unpacked(html: str) -> tuple[str, str] | None:
    """Return style and script of a page, None of one without."""
    packed = re.search(r'packed = "([^"]*)"', html)
    length = re.search(r"slice\(0, (\d+)\)", html)
    if packed is None or length is None:
        return None
    deflated = _decoded(packed[1])[: int(length[1])]
    style, rest, texts = zlib.decompressobj(wbits=_RAW_DEFLATE_BITS).decompress(deflated).decode().split("\0")
    return style, texts + rest


def _deflated(style: str, script: str) -> bytes:
    """Return both as raw deflate; each language has a code for its own letters."""
    texts, end, rest = script.rpartition(_LANGUAGE_END)
    parts = [f"{style}\0", f"{rest}\0", *re.split(rf"(?<={_LANGUAGE_END})", f"{texts}{end}")]
    squeezed = zlib.compressobj(9, zlib.DEFLATED, _RAW_DEFLATE_BITS, memLevel=7)  # blocks of 8,192 symbols suit best
    packed = [squeezed.compress(part.encode()) + squeezed.flush(zlib.Z_BLOCK) for part in parts if part]
    return b"".join(packed) + squeezed.flush()


def _encoded(data: bytes) -> str:
    number = int.from_bytes(data, "little")
    pairs = -(-len(data) * 8 // _PAIR_BITS)
    found = []
    for _ in range(pairs):
        number, pair = number >> _PAIR_BITS, number & ((1 << _PAIR_BITS) - 1)
        found.append(_DIGITS[pair % _BASE] + _DIGITS[pair // _BASE])
    return "".join(found)


def _decoded(text: str) -> bytes:
    value = {digit: place for place, digit in enumerate(_DIGITS)}
    number = 0
    for at in range(len(text) - 2, -1, -2):
        number = number << _PAIR_BITS | value[text[at]] + value[text[at + 1]] * _BASE
    return number.to_bytes(len(text) // 2 * _PAIR_BITS // 8 + 1, "little")
