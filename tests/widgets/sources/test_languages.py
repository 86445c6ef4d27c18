"""A card speaks its reader's language: words, direction, calendar and clock, without a word of another."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from duetime.scheduler.translatable import NoteKind
from duetime.widgets import build, catalogue
from playwright.sync_api import expect

from tests.widgets.agenda import a_page
from tests.widgets.chat import Chat
from tests.widgets.sample import DENVER, NOW, a_task, deadline, soon, stamp, weekly

pytestmark = pytest.mark.browser

READERS = {"en": "en-US", "de": "de-DE", "es": "es-MX", "fr": "fr-CA", "ja": "ja-JP", "ar": "ar-EG"}
MARKED = re.compile(r"⟦[^⟦⟧]*⟧")
OF_INTL = set(re.findall(r"\w+", "AM PM Fri Sat Sun Tue Nov Dec Saturday Tuesday November in ago minutes hours"))
TEXTS = """() => {
  const root = document.body;
  const found = [...root.querySelectorAll("[aria-label]")].map((node) => node.getAttribute("aria-label"));
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) found.push(walker.currentNode.data);
  return found;
}"""


def words(language: str, key: str) -> str:
    text = catalogue.read(build.SOURCES / build.LANGUAGES)[language][key]
    assert isinstance(text, str)
    return text


def everything() -> dict[str, object]:
    """Give the parts of a task about which a card says most."""
    return {
        "repeat": weekly(),
        "priority": "high",
        "message": "110",
        "deadline": deadline(NOW + timedelta(hours=3), "soft", spare=600),
        "estimate": "30",
        "needs": {"7": 2},
        "waiting_for": ["pool 7: it needs 2, 1 of 4 are free", "its turn, behind 3 runs"],
        "waits": [{"kind": "pool", "pool": "7"}, {"kind": "turn"}],
        "last_run": {"state": "failed", "ended": stamp(NOW - timedelta(days=1)), "summary": "500"},
        "words": {"repeat": [{"kind": "weekdays", "weekdays": ["TU"]}, {"kind": "at", "times": ["09:00"]}]},
    }


VALUES = {
    "at": stamp(NOW), "deadline": stamp(NOW), "day": "2026-11-24", "time": "09:00", "instead": "10:00", "limit": "9",
    "takes": "8", "count": "2", "channel": "1", "event": "3", "step": "4", "pause": "5",
    "times": [stamp(NOW)],
}  # fmt: skip
"""A value for each that a note may have; without words of their own."""


def every_note(*, of: slice) -> dict[str, object]:
    """Give a task with a part of all notes that there are, whose English sentences are numbers."""
    numbered = {f"{number}": {"kind": kind.value, **VALUES} for number, kind in enumerate(NoteKind)}
    some = dict(list(numbered.items())[of])
    return {"warnings": list(some), "words": {"sentences": some}}


def test_a_card_speaks_the_language_of_its_reader(chat: Chat) -> None:
    for language, locale in READERS.items():
        chat.show_task(soon(**everything()), locale=locale)
        root = chat.card.locator("html")
        expect(root).to_have_attribute("lang", locale)
        expect(root).to_have_attribute("dir", "rtl" if language == "ar" else "ltr")
        expect(chat.state()).to_have_text(words(language, "state.scheduled"))
        expect(chat.button(words(language, "button.change"))).to_be_visible()


@pytest.mark.parametrize(("language", "locale"), READERS.items())
def test_no_language_is_too_wide_for_320_pixels(chat: Chat, language: str, locale: str) -> None:
    chat.show_task(soon(**everything()), locale=locale, width=320)
    for opener in ("snooze", "change", "more", "history"):
        chat.press(words(language, f"button.{opener}"))
        chat.fit()
        assert not chat.too_wide, opener

    chat.load("task-list", locale=locale, width=320)
    chat.show(a_page())
    expect(chat.card.get_by_role("heading", name=words(language, "list.title"))).to_be_visible()
    assert not chat.too_wide


def test_the_language_follows_the_host(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.send("context", {"locale": "de-AT", "timeZone": "Europe/Vienna"})

    expect(chat.button("Verschieben")).to_be_visible()
    expect(chat.card.locator("time").first).to_have_text("17:00 Dienstag, 24. November")


ENGLISH = (
    ("it-IT", "en-IT-u-ca-gregory-hc-h23", "09:00 Tuesday"),
    ("fa-IR", "en-IR-u-ca-persian-hc-h23", "09:00 Tuesday"),
    ("not a locale", "en", "9:00 AM Tuesday"),
    ("en-GB", "en-GB", "09:00 Tuesday"),
    ("en-US-u-hc-h23", "en-US-u-hc-h23", "09:00 Tuesday"),
)
"""Locales without words of their own, the language that the card then has, and its time."""


def test_a_reader_of_another_language_gets_english_with_the_clock_of_home(chat: Chat) -> None:
    for locale, language, time in ENGLISH:
        chat.show_task(a_task(), locale=locale)
        expect(chat.card.locator("html")).to_have_attribute("lang", language)
        expect(chat.button("Move")).to_be_visible()
        expect(chat.card.locator("time").first).to_contain_text(time)


CALENDARS = (
    ("fa-IR", "Azar", "3", "Azar 3"),
    ("de-DE-u-ca-islamic-umalqura", "Jum II", "14", "14. Dschumada II"),
    ("ja-JP", "11月", "24", "11月24日"),
)
"""Locales, each with the month and the day of its leaf, and the day by its name."""


def test_the_leaf_and_the_day_are_of_one_calendar(chat: Chat) -> None:
    for locale, month, day, named in CALENDARS:
        chat.show_task(a_task(), locale=locale)
        expect(chat.card.locator(".leaf .month")).to_have_text(month)
        expect(chat.card.locator(".leaf .date")).to_have_text(day)
        expect(chat.card.locator("time").first).to_contain_text(named)


DISTANCES = {
    179: "in 3 Stunden", 181: "in 3 Stunden", 91: "in 91 Minuten", 119: "in 119 Minuten", 121: "in 2 Stunden",
    2: "in 2 Minuten",
}  # fmt: skip
"""By minutes."""


def test_a_distance_is_rounded(chat: Chat) -> None:
    for minutes, said in DISTANCES.items():
        chat.show_task(a_task(due=NOW + timedelta(minutes=minutes)), locale="de-DE")
        expect(chat.card.locator(".relative")).to_have_text(said)


def test_from_right_to_left_what_points_turns_round_and_titles_keep_their_own_direction(chat: Chat) -> None:
    chat.show_task(a_task(title="Call (John)"), locale="ar-EG")
    chat.press(words("ar", "button.cancel"))
    undo = chat.card.locator(".icon-undo")
    expect(undo).to_have_css("transform", "matrix(-1, 0, 0, 1, 0, 0)")
    expect(chat.card.get_by_role("heading")).to_have_css("unicode-bidi", "plaintext")
    leaf, title = (chat.card.locator(name).bounding_box() for name in (".leaf", "h1"))
    assert leaf is not None
    assert title is not None
    assert leaf["x"] > title["x"]


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build cards whose catalogue marks every text, so that any other can be told from them."""
    shutil.copytree(build.SOURCES, tmp_path, ignore=shutil.ignore_patterns(build.LANGUAGES), dirs_exist_ok=True)
    (tmp_path / build.LANGUAGES).mkdir()
    english = catalogue.read(build.SOURCES / build.LANGUAGES)["en"]
    marking = {key: _marked(text) for key, text in english.items()}
    (tmp_path / build.LANGUAGES / "en.json").write_text(json.dumps(marking), "utf-8")
    monkeypatch.setattr("tests.widgets.chat.html_of", cache(lambda name: build.page(name, tmp_path)))


def _marked(text: catalogue.CardText) -> catalogue.CardText:
    if not isinstance(text, str):
        return {form: f"⟦{said}⟧" for form, said in text.items()}
    return "".join(part if part.startswith("{") else f"⟦{part}⟧" for part in re.split(r"(\{\w+\})", text) if part)


def unmarked(chat: Chat) -> set[str]:
    """Give the words on the card that stand outside all marks and are no numbers, in no order."""
    found: list[str] = chat.card.evaluate(TEXTS)
    left = " ".join(MARKED.sub(" ", text.replace("⟦⟦", "⟦").replace("⟧⟧", "⟧")) for text in found)
    return set(re.findall(r"[^\W\d_]{2,}", left))


@pytest.mark.usefixtures("marked")
def test_every_note_and_warning_is_of_the_catalogue(chat: Chat) -> None:
    for first in range(0, len(NoteKind), 4):
        chat.show_task(soon(**every_note(of=slice(first, first + 4))))
        expect(chat.card.locator(".notice")).to_have_count(min(4, len(NoteKind) - first))
        assert unmarked(chat) - OF_INTL - {"Call", "John", "about", "the", "lease", "maria"} == set()


@pytest.mark.parametrize(("language", "locale"), READERS.items())
def test_a_channel_that_lacks_a_secret_is_said_in_the_language_of_the_reader(
    chat: Chat, language: str, locale: str
) -> None:
    kinds = {"7 8 9": {"kind": "undeliverable", "channel": "webhook:team"}}
    chat.show_task(soon(warnings=["7 8 9"], words={"sentences": kinds}), locale=locale)
    said = words(language, "note.undeliverable").format(channel="webhook:team")
    expect(chat.card.locator(".notice")).to_have_text(said)


def test_a_refusal_is_said_in_the_language_of_the_reader(chat: Chat) -> None:
    for language, locale in READERS.items():
        if language == "en":
            continue
        chat.show_task(soon(), locale=locale)
        chat.server.refuse = "7 8 9"
        chat.button(words(language, "button.cancel")).click()
        expect(chat.card.get_by_role("alert")).to_have_text(words(language, "refusal.refused").format(sentence="7 8 9"))


@pytest.mark.usefixtures("marked")
def test_every_word_of_a_card_is_of_the_catalogue_of_intl_or_of_the_task(chat: Chat) -> None:
    task = soon(**everything())
    chat.show_task(task)
    chat.server.history = {
        "attempts": [{"number": 1, "started": stamp(NOW), "outcome": "crashed"}],
        "events": [{"at": stamp(NOW), "kind": "cancel_requested", "actor": "7", "changes": {"priority": ["1", "2"]}}],
    }
    seen = set()
    for opener in ("snooze", "change", "more", "history"):
        chat.click(chat.card.locator(f"[data-key={opener}]"))
        chat.settle()
        seen |= unmarked(chat)
    chat.click(chat.card.locator("[data-key=cancel]"))
    chat.settle()
    seen |= unmarked(chat)

    of_the_task = set(re.findall(r"\w+", f"{task['title']} {DENVER} inbox maria"))
    assert seen - of_the_task - OF_INTL == set()
