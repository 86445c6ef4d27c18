"""Palettes of chats, in the words of MCP Apps: one warm and soft, one cool whose colours are partly transparent."""

from __future__ import annotations

from typing import Any

WARM = {
    "--color-background-primary": "light-dark(#faf9f5, #30302e)",
    "--color-background-secondary": "light-dark(#f0eee6, #3d3d3a)",
    "--color-text-primary": "light-dark(#3d3d3a, #d1cfc5)",
    "--color-text-secondary": "light-dark(#87867f, #8a8981)",
    "--color-border-primary": "light-dark(#d1cfc5, #5e5d59)",
    "--color-border-tertiary": "light-dark(#e8e6dc, #45443f)",
    "--color-ring-primary": "light-dark(#e3c9b8, #5b4a40)",
    "--color-background-info": "light-dark(#d6e4f6, #1b3f70)",
    "--color-text-info": "light-dark(#5a8fd0, #5f95d8)",
    "--color-background-success": "light-dark(#dcebd3, #26421b)",
    "--color-text-success": "light-dark(#6f9f55, #5d9145)",
    "--color-background-warning": "light-dark(#f6e7c8, #4b3510)",
    "--color-text-warning": "light-dark(#c58a1d, #b07a17)",
    "--color-background-danger": "light-dark(#f7dcda, #5a2420)",
    "--color-text-danger": "light-dark(#d2645b, #c8584f)",
}
COOL = {
    "--color-background-primary": "light-dark(rgb(255 255 255), rgb(33 33 33))",
    "--color-background-secondary": "light-dark(rgb(0 0 0 / 5%), rgb(255 255 255 / 8%))",
    "--color-text-primary": "light-dark(rgb(13 13 13), rgb(255 255 255))",
    "--color-text-secondary": "light-dark(rgb(13 13 13 / 55%), rgb(255 255 255 / 45%))",
    "--color-border-primary": "light-dark(rgb(13 13 13 / 15%), rgb(255 255 255 / 15%))",
    "--color-border-tertiary": "light-dark(rgb(13 13 13 / 5%), rgb(255 255 255 / 5%))",
    "--color-ring-primary": "oklch(70% 0.1 250)",
    "--color-background-info": "oklch(62% 0.19 255 / 14%)",
    "--color-text-info": "oklch(64% 0.17 255)",
    "--color-background-success": "oklch(65% 0.17 150 / 14%)",
    "--color-text-success": "oklch(66% 0.17 150)",
    "--color-background-warning": "oklch(70% 0.17 60 / 14%)",
    "--color-text-warning": "oklch(70% 0.17 60)",
    "--color-background-danger": "oklch(63% 0.22 27 / 14%)",
    "--color-text-danger": "oklch(63% 0.22 27)",
}
PALETTES = {"warm": WARM, "cool": COOL}


def worn(palette: str, theme: str) -> dict[str, Any]:
    """Give the part of a host's context that dresses a card."""
    return {"theme": theme, "styles": {"variables": PALETTES[palette]}}
