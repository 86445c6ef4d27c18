"""Pictures for the docs: screenshots with at most 256 colours, which flat pages do not miss and readers load faster."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter

from playwright.sync_api import Page

COLOUR_COUNT = 256

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
