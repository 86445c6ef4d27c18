"""The pictures of the docs are taken from the cards as they are; looking at them is part of a change."""

from __future__ import annotations

import struct
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import a_page, call_john
from tests.widgets.card.test_approval_card import asking
from tests.widgets.card.test_chain_card import a_chain
from tests.widgets.chat import CAN_CALL_TOOLS, Chat
from tests.widgets.sample import NOW, a_task, held_back, stamp, tuesdays, weekly

pytestmark = pytest.mark.browser

MOST_BYTES = 80_000


@pytest.fixture(scope="module")
def sharpness() -> float:
    return 2


def set_the_stage(chat: Chat, theme: str, width: int) -> None:
    chat.page.set_viewport_size({"width": width + 42, "height": 900})
    chat.page.locator("#chat").evaluate("(stage, theme) => (stage.className = `stage ${theme}`)", theme)


def keep(chat: Chat, name: str) -> None:
    """Take the picture once the frame is as high as its card."""
    chat.fit()
    picture = chat.picture(name).read_bytes()
    width, _ = struct.unpack(">II", picture[16:24])
    assert width >= 320
    assert len(picture) < MOST_BYTES


@pytest.mark.parametrize(("theme", "width", "name"), [
    ("light", 520, "task-card-light"), ("dark", 520, "task-card-dark"), ("light", 320, "task-card-320"),
])  # fmt: skip
def test_the_task_card_has_its_picture(chat: Chat, theme: str, width: int, name: str) -> None:
    set_the_stage(chat, theme, width)
    chat.show_task(call_john(), theme=theme)
    expect(chat.state()).to_have_text("Scheduled")
    keep(chat, name)


@pytest.mark.parametrize(("locale", "theme"), [
    ("de-DE", "light"), ("es-ES", "dark"), ("fr-FR", "light"), ("ja-JP", "dark"), ("ar-EG", "light"),
])  # fmt: skip
def test_the_task_card_has_its_picture_in_each_language(chat: Chat, locale: str, theme: str) -> None:
    set_the_stage(chat, theme, 320)
    chat.show_task(call_john(), theme=theme, locale=locale)
    expect(chat.card.get_by_role("heading")).to_be_visible()
    keep(chat, f"task-card-{locale[:2]}")


@pytest.mark.parametrize(("theme", "width", "name"), [
    ("light", 520, "task-card-held"), ("dark", 320, "task-card-held-dark"),
])  # fmt: skip
def test_a_task_that_is_held_back_has_its_picture(chat: Chat, theme: str, width: int, name: str) -> None:
    set_the_stage(chat, theme, width)
    chat.show_task(held_back(), theme=theme)
    expect(chat.state()).to_have_text("Ready")
    keep(chat, name)


def a_watch() -> dict[str, Any]:
    looks, last = "12 looks at shop.example.com, every 15 min until Tue 1 Dec 2026 09:00", "not met yet: packed"
    waits = [{"kind": "step", "after": last, "until": stamp(NOW + timedelta(minutes=9))}]
    reasons = [f"its next step in 9 min, after: {last}"]
    title, due = "Tell me when parcel 7 has shipped", NOW - timedelta(hours=3)
    watched = a_task(
        due=due, title=title, state="suspended", action="watch", progress={"part": 0, "unknown": True, "text": looks}
    )
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


@pytest.mark.parametrize(("name", "task"), [
    ("chain", a_chain()), ("approval", asking()), ("watch", a_watch()), ("running", a_running_import()),
    ("result", a_finished_import()),
])  # fmt: skip
def test_a_longer_task_has_its_pictures(chat: Chat, name: str, task: dict[str, Any]) -> None:
    for theme, width in product(("light", "dark"), (520, 320)):
        set_the_stage(chat, theme, width)
        chat.show_task(task, theme=theme, capabilities={**CAN_CALL_TOOLS, "openLinks": {}})
        expect(chat.card.get_by_role("heading", name=task["title"])).to_be_visible()
        keep(chat, f"task-card-{name}-{theme}-{width}")


def test_a_refused_action_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.server.refuse = "The store is not available, so nothing was changed. Try again in a moment."
    chat.press("Cancel")
    expect(chat.card.get_by_role("alert")).to_be_visible()
    chat.button("More").hover()
    keep(chat, "task-card-error")


def test_a_failure_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    said = "POST https://shop.example/orders answered 503 Service Unavailable"
    last = {"state": "failed", "ended": stamp(NOW - timedelta(minutes=3)), "attempts": 3, "summary": said}
    due, result = NOW - timedelta(minutes=9), {"status": 503, "body": "see https://status.shop.example"}
    failed = a_task(due=due, title="Send the order", state="failed", action="webhook", last_run=last, result=result)
    chat.show_task(failed, capabilities={**CAN_CALL_TOOLS, "openLinks": {}})
    expect(chat.button("Run again")).to_be_visible()
    keep(chat, "task-card-failed")


def test_a_server_that_is_away_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.send("break", "fetch failed")
    chat.press("Cancel")
    expect(chat.button("Try again")).to_be_visible()
    chat.button("More").hover()
    keep(chat, "task-card-away")


def test_a_cancelled_task_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task())
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    chat.pass_time(6)
    expect(chat.card.locator("[data-undo]")).to_have_text("24")
    keep(chat, "task-card-undo")


def test_a_delivered_reminder_has_its_picture(chat: Chat) -> None:
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
    keep(chat, "task-card-delivered")


def test_editing_a_task_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(call_john())
    chat.press("More")
    chat.choice("Edit").click()
    chat.fit()
    keep(chat, "task-card-edit")


def test_changing_the_time_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.show_task(a_task(repeat=weekly(), words=tuesdays()), timeZone="Europe/Berlin", locale="en-GB")
    chat.press("Move")
    chat.button("Save").focus()
    keep(chat, "task-card-change")


@pytest.mark.parametrize(("theme", "width", "name"), [
    ("light", 520, "task-list-light"), ("dark", 520, "task-list-dark"), ("light", 320, "task-list-320"),
])  # fmt: skip
def test_the_task_list_has_its_picture(chat: Chat, theme: str, width: int, name: str) -> None:
    set_the_stage(chat, theme, width)
    chat.load("task-list", theme=theme)
    chat.show(a_page())
    expect(chat.card.get_by_role("heading", name="Tasks")).to_be_visible()
    keep(chat, name)


def test_an_empty_list_has_its_picture(chat: Chat) -> None:
    set_the_stage(chat, "light", 520)
    chat.load("task-list")
    chat.show(a_page([]))
    expect(chat.card.get_by_role("heading", name="Nothing is scheduled")).to_be_visible()
    keep(chat, "task-list-empty")
