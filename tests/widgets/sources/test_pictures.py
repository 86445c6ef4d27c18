"""The pictures of the docs are taken of the cards as they are; looking at them is part of a change.

Each file is read whole: it shows a card of the width and the theme of its name, and no blank or damaged page.
A picture that is missing is taken, and each again where `CARD_PICTURES` is set; else no browser is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import a_page, call_john
from tests.widgets.card.test_approval_card import asking
from tests.widgets.card.test_chain_card import a_chain
from tests.widgets.chat import CAN_CALL_TOOLS, IMAGES, Chat
from tests.widgets.pictures import MIN_COLOUR_COUNT, Picture
from tests.widgets.sample import NOW, a_task, held_back, stamp, tuesdays, weekly

pytestmark = pytest.mark.browser

MOST_BYTES = 80_000
SHARPNESS_RATIO, MARGIN_PX = 2, 42
MIN_HEIGHT_PX = 500
LANGUAGES = {"de-DE": "light", "es-ES": "dark", "fr-FR": "light", "ja-JP": "dark", "ar-EG": "light"}

NARROW = {"task-card-held-dark", *(f"task-card-{locale[:2]}" for locale in LANGUAGES)}
DARK = {"task-card-delivered", *(f"task-card-{locale[:2]}" for locale, theme in LANGUAGES.items() if theme == "dark")}
"""Pictures whose names do not say that they are narrow, or dark."""

Show = Callable[..., None]
SHOWN: dict[str, Callable[[Chat], None]] = {}
"""The pictures by name, each with what shows it in a chat."""


def picture(name: str, *given: Any) -> Callable[[Show], Show]:
    """Add a picture of what a function shows that is called with these arguments behind the chat."""

    def add(show: Show) -> Show:
        SHOWN[name] = lambda chat: show(chat, *given)
        return show

    return add


@pytest.fixture(scope="module")
def sharpness() -> float:
    return SHARPNESS_RATIO


def set_the_stage(chat: Chat, theme: str, width: int) -> None:
    chat.page.set_viewport_size({"width": width + MARGIN_PX, "height": 900})
    chat.page.locator("#chat").evaluate("(stage, theme) => (stage.className = `stage ${theme}`)", theme)


@picture("task-card-light", "light", 520)
@picture("task-card-dark", "dark", 520)
@picture("task-card-320", "light", 320)
def show_the_task_card(chat: Chat, theme: str, width: int) -> None:
    set_the_stage(chat, theme, width)
    chat.show_task(call_john(), theme=theme)
    expect(chat.state()).to_have_text("Scheduled")


def show_a_language(chat: Chat, locale: str, theme: str) -> None:
    set_the_stage(chat, theme, 320)
    chat.show_task(call_john(), theme=theme, locale=locale)
    expect(chat.card.get_by_role("heading")).to_be_visible()


for _locale, _theme in LANGUAGES.items():
    picture(f"task-card-{_locale[:2]}", _locale, _theme)(show_a_language)


@picture("task-card-held", "light", 520)
@picture("task-card-held-dark", "dark", 320)
def show_a_task_that_is_held_back(chat: Chat, theme: str, width: int) -> None:
    set_the_stage(chat, theme, width)
    chat.show_task(held_back(), theme=theme)
    expect(chat.state()).to_have_text("Ready")


def a_watch() -> dict[str, Any]:
    end, last = datetime(2026, 12, 1, 9, tzinfo=UTC), "not met yet: packed"
    waits = [{"kind": "step", "after": last, "until": stamp(NOW + timedelta(minutes=9))}]
    reasons = [f"its next step in 9 min, after: {last}"]
    title, due = "Tell me when parcel 7 has shipped", NOW + timedelta(minutes=9)
    target = {"address": "https://shop.example.com/7", "every": "15 min", "until": stamp(end)}
    watched = a_task(due=due, title=title, state="suspended", action="watch", target=target)
    return {**watched, "waiting_for": reasons, "waits": waits}


def a_running_import() -> dict[str, Any]:
    lines = [{"at": stamp(NOW - timedelta(seconds=n)), "text": f"read page {24 - n}"} for n in (2, 1, 0)]
    progress, due = {"part": 0.4, "text": "24 of 60 pages"}, NOW - timedelta(minutes=2)
    title = "Import Monday's orders"
    return a_task(due=due, title=title, state="running", action="import", progress=progress, log={"lines": lines})


def a_finished_import() -> dict[str, Any]:
    due, ended = NOW - timedelta(minutes=6), stamp(NOW - timedelta(minutes=1))
    last = {"state": "succeeded", "ended": ended, "summary": "imported 412 orders, 3 were known already"}
    result = {"orders": 412, "known": 3, "report": "https://shop.example/imports/77"}
    title = "Import Monday's orders"
    return a_task(due=due, title=title, state="succeeded", action="import", last_run=last, result=result)


LONGER = {
    "chain": a_chain(),
    "approval": asking(),
    "watch": a_watch(),
    "running": a_running_import(),
    "result": a_finished_import(),
}


def show_a_longer_task(chat: Chat, task: dict[str, Any], theme: str, width: int) -> None:
    set_the_stage(chat, theme, width)
    chat.show_task(task, theme=theme, capabilities={**CAN_CALL_TOOLS, "openLinks": {}})
    expect(chat.card.get_by_role("heading", name=task["title"])).to_be_visible()


for _name, _theme, _width in product(LONGER, ("light", "dark"), (520, 320)):
    picture(f"task-card-{_name}-{_theme}-{_width}", LONGER[_name], _theme, _width)(show_a_longer_task)


@picture("task-card-error")
def show_a_refused_action(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.server.refuse = "The store is not available, so nothing was changed. Try again in a moment."
    chat.press("Cancel")
    expect(chat.card.get_by_role("alert")).to_be_visible()
    chat.button("More").hover()


@picture("task-card-failed")
def show_a_failure(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    said = "POST https://shop.example/orders answered 503 Service Unavailable"
    last = {"state": "failed", "ended": stamp(NOW - timedelta(minutes=3)), "attempts": 3, "summary": said}
    due, result = NOW - timedelta(minutes=9), {"status": 503, "body": "see https://status.shop.example"}
    failed = a_task(due=due, title="Send the order", state="failed", action="webhook", last_run=last, result=result)
    chat.show_task(failed, capabilities={**CAN_CALL_TOOLS, "openLinks": {}})
    expect(chat.button("Run again")).to_be_visible()


@picture("task-card-away")
def show_a_server_that_is_away(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.send("break", "fetch failed")
    chat.press("Cancel")
    expect(chat.button("Try again")).to_be_visible()
    chat.button("More").hover()


@picture("task-card-undo")
def show_a_cancelled_task(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    chat.pass_time(6)
    expect(chat.card.locator("[data-undo]")).to_have_text("24")


@picture("task-card-delivered")
def show_a_delivered_reminder(chat: Chat) -> None:
    set_the_stage(chat, "dark", 520)
    ended = stamp(NOW - timedelta(minutes=3))
    last = {"state": "succeeded", "ended": ended, "summary": "Take the bread out"}
    unread = [{"task_id": call_john()["id"], "text": "Take the bread out", "state": "succeeded", "at": ended}]
    chat.show_task(
        a_task(
            due=NOW - timedelta(minutes=3), title="Take the bread out", state="succeeded", last_run=last,
            unread=unread, delivery={"channel": "inbox, desktop", "state": "delivered"},
        ),
        theme="dark",
    )  # fmt: skip
    chat.press("Snooze")
    expect(chat.choice("10 min")).to_be_visible()


@picture("task-card-edit")
def show_editing_a_task(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(call_john())
    chat.press("More")
    chat.choice("Edit").click()
    chat.fit()


@picture("task-card-change")
def show_changing_the_time(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task(repeat=weekly(), words=tuesdays()), timeZone="Europe/Berlin", locale="en-GB")
    chat.press("Move")
    chat.button("Save").focus()


@picture("task-list-light", "light", 520)
@picture("task-list-dark", "dark", 520)
@picture("task-list-320", "light", 320)
def show_the_task_list(chat: Chat, theme: str, width: int) -> None:
    set_the_stage(chat, theme, width)
    chat.load("task-list", theme=theme)
    chat.show(a_page())
    expect(chat.card.get_by_role("heading", name="Tasks")).to_be_visible()


@picture("task-list-empty")
def show_an_empty_list(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.load("task-list")
    chat.show(a_page([]))
    expect(chat.card.get_by_role("heading", name="Nothing is scheduled")).to_be_visible()


def is_to_be_taken(name: str) -> bool:
    return bool(os.environ.get("CARD_PICTURES")) or not (IMAGES / f"{name}.png").exists()


def take(chat: Chat, name: str) -> None:
    """Take a picture once the frame is as high as its card."""
    SHOWN[name](chat)
    chat.fit()
    chat.picture(name)


@pytest.mark.parametrize("name", SHOWN)
def test_the_docs_have_each_picture(request: pytest.FixtureRequest, name: str) -> None:
    if is_to_be_taken(name):
        take(request.getfixturevalue("chat"), name)
    path = IMAGES / f"{name}.png"
    found = Picture.read(path)
    assert found.width == SHARPNESS_RATIO * (MARGIN_PX + (320 if name in NARROW or name.endswith("-320") else 520))
    assert found.is_dark is (name in DARK or "-dark" in name)
    assert found.height >= MIN_HEIGHT_PX
    assert found.colour_count >= MIN_COLOUR_COUNT
    assert path.stat().st_size < MOST_BYTES
