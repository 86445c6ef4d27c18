"""Pictures for the docs: screenshots with at most 256 colours, which flat pages do not miss and readers load faster."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page

COLOUR_COUNT = 256
MIN_COLOUR_COUNT = 24
"""Of a page with text: its edges are smoothed. A page that shows nothing has a few."""

_HEAD_BYTES, _MIN_LIGHT_LEVELS = 8, 3 * 128

_PIXELS = """async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < pixels.length; at += 32768) text += String.fromCharCode(...pixels.subarray(at, at + 32768));
  return btoa(text);
}"""


class Picture(NamedTuple):
    """A picture of the docs, as its file has it."""

    width: int
    height: int
    colour_count: int
    is_dark: bool

    @classmethod
    def read(cls, path: Path) -> Picture:
        """Read a whole file as `indexed` writes it: each part by its checksum, and as many pixels as it says."""
        png, parts, at = path.read_bytes(), dict[bytes, bytes](), _HEAD_BYTES
        while at < len(png):
            (length,) = struct.unpack_from(">I", png, at)
            kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
            assert png[at : at + length + 12] == _chunk(kind, data), f"{path.name}: {kind!r} is damaged"
            parts[kind], at = data, at + length + 12
        width, height = struct.unpack_from(">II", parts[b"IHDR"])
        rows, palette = zlib.decompress(parts[b"IDAT"]), parts[b"PLTE"]
        assert len(rows) == height * (width + 1), f"{path.name}: it ends early"
        corner = palette[3 * rows[1] : 3 * rows[1] + 3]
        return cls(width, height, len(palette) // 3, sum(corner) < _MIN_LIGHT_LEVELS)


def indexed(page: Page, png: bytes) -> bytes:
    """Write a screenshot again with a palette; the same pixels give the same bytes."""
    width, height = struct.unpack(">II", png[16:24])
    rgba = base64.b64decode(page.evaluate(_PIXELS, base64.b64encode(png).decode()))
    pixels = [rgba[at : at + 3] for at in range(0, len(rgba), 4)]
    palette, place = _palette(pixels)
    indices = bytes(place[pixel] for pixel in pixels)
    rows = b"".join(b"\0" + indices[y * width : (y + 1) * width] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return png[:8] + b"".join(_chunk(kind, data) for kind, data in parts)


def _palette(pixels: list[bytes]) -> tuple[list[bytes], dict[bytes, int]]:
    """Join colours that are near each other, as little as it takes; each group is drawn as its most frequent one."""
    common = [colour for colour, _ in sorted(Counter(pixels).items(), key=lambda item: (-item[1], item[0]))]
    for step in range(1, 128):
        groups: dict[tuple[int, ...], int] = {}
        palette: list[bytes] = []
        for colour in common:
            if groups.setdefault(tuple(part // step for part in colour), len(palette)) == len(palette):
                palette.append(colour)
        if len(palette) <= COLOUR_COUNT:
            return palette, {colour: groups[tuple(part // step for part in colour)] for colour in common}
    raise AssertionError(len(common))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
