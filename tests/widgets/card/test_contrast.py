"""Everybody can read a card in the colours of its chat: texts, shapes, and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import a_page
from tests.widgets.chat import Chat
from tests.widgets.palettes import PALETTES, worn
from tests.widgets.sample import NOW, a_task, deadline, soon, stamp, weekly
from tests.widgets.tooling import ensure_node_modules

pytestmark = pytest.mark.browser

LOOKS = [(palette, theme) for palette in PALETTES for theme in ("light", "dark")]
OF_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe on which a palette and a theme have a bearing."""

AXE = """(options) => axe.run(document, options).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`)))"""
RATIOS = """nodes => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const painted = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((v) => (v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const grounds = (node) => (node ? [...grounds(node.parentElement), getComputedStyle(node).backgroundColor] : []);
  return nodes.map((node) => {
    const under = grounds(node.parentElement);
    const style = getComputedStyle(node);
    const shown = node.tagName === "svg" ? style.color : style.borderTopColor;
    const [low, high] = [light(painted([...under, shown])), light(painted(under))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}"""


def violations(chat: Chat, rules: Sequence[str] = ()) -> list[str]:
    """Let axe look at the card, by these rules or by all, and give what it finds."""
    if not chat.card.evaluate("() => 'axe' in window"):
        chat.card.evaluate((ensure_node_modules() / "axe-core" / "axe.min.js").read_text("utf-8"))
    options = {"resultTypes": ["violations"], **({"runOnly": [*rules]} if rules else {})}
    look = f"(options) => {{ window.found = undefined; ({AXE})(options).then((all) => (window.found = all)); }}"
    chat.card.evaluate(look, options)
    while (found := chat.card.evaluate("window.found")) is None:
        chat.pass_time(1)  # axe goes on by timers, and by promises between them
    return list(found)


def rules_of(palette: str, theme: str) -> Sequence[str]:
    """Return which rules are tried in a look: all of them in the first one."""
    return () if (palette, theme) == LOOKS[0] else OF_COLOURS


def a_full_card(chat: Chat, **context: Any) -> None:
    ended = stamp(NOW - timedelta(days=1))
    chat.show_task(
        soon(
            repeat=weekly(), priority="high", message="He has the keys", labels=["home"], warnings=["Very alike."],
            deadline=deadline(NOW + timedelta(hours=3), "soft", spare=600), estimate="30 min", needs={"gpu": 2},
            last_run={"state": "failed", "ended": ended, "summary": "HTTP 500"}, waiting_for=["the pool gpu"],
        ),
        **context,
    )  # fmt: skip


@pytest.mark.parametrize(("palette", "theme"), LOOKS)
def test_axe_finds_nothing_on_a_task_card(chat: Chat, palette: str, theme: str) -> None:
    rules = rules_of(palette, theme)
    a_full_card(chat, **worn(palette, theme))
    for opener in ("snooze", "change", "more", "history"):
        chat.click(chat.card.locator(f"[data-key={opener}]"))
        assert violations(chat, rules) == [], opener
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    assert violations(chat, rules) == []


@pytest.mark.parametrize(("palette", "theme"), LOOKS)
def test_axe_finds_nothing_on_a_list(chat: Chat, palette: str, theme: str) -> None:
    chat.load("task-list", **worn(palette, theme))
    chat.show(a_page())
    expect(chat.card.get_by_role("heading", name="Tasks")).to_be_visible()
    assert violations(chat, rules_of(palette, theme)) == []


@pytest.mark.parametrize("locale", ["ar-EG", "ja-JP"])
def test_axe_finds_nothing_in_other_languages(chat: Chat, locale: str) -> None:
    a_full_card(chat, locale=locale)
    assert violations(chat) == []


@pytest.mark.parametrize(("palette", "theme"), LOOKS)
def test_icons_and_borders_of_what_is_pressed_stand_out(chat: Chat, palette: str, theme: str) -> None:
    a_full_card(chat, **worn(palette, theme))
    chat.press("Move")
    shapes = chat.card.locator(".icon, .button:not(.strong), input[type=datetime-local]")
    assert min(shapes.evaluate_all(RATIOS)) >= 3


def test_colours_of_a_host_that_are_readable_stay_as_they_are(chat: Chat) -> None:
    variables = {"--color-background-primary": "#102030", "--color-text-primary": "#fedcba"}
    chat.show_task(a_task(), theme="dark", styles={"variables": variables})
    expect(chat.card.locator("body")).to_have_css("color", "rgb(254, 220, 186)")


def test_a_card_is_printed_in_light_without_its_buttons(chat: Chat) -> None:
    chat.show_task(a_task(), **worn("cool", "dark"))
    chat.page.emulate_media(media="print")
    body = chat.card.locator("body")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(body).to_have_css("color", "rgb(31, 30, 28)")
    expect(chat.card.get_by_role("button")).to_have_count(0)
