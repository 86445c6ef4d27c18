"""Every text of a card comes from the catalogue, and the catalogue says the same in every language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.task import DeadlineType, DeliveryState, State, Tier
from duetime.scheduler.translatable import NoteKind
from duetime.scheduler.view_parts import WaitKind
from duetime.widgets import build, catalogue

from tests.widgets.script import Literal, literals

SOURCES = sorted(build.SOURCES.rglob("*.js"))
WORDS = catalogue.read(build.SOURCES / build.LANGUAGES)
ENGLISH = WORDS[catalogue.ENGLISH]
KEY = re.compile(r"[a-z_]+\.[a-z_-]+")
GROUPS = re.compile(r"`([a-z_]+)\.\$\{|named\(\"([a-z_]+)\"")
ENUMERATIONS = {
    "state": [*State],
    "event": [*EventKind],
    "tier": [*Tier],
    "delivery": [*DeliveryState],
    "deadline": [*DeadlineType],
    "wait": [*WaitKind],
    "note": [*NoteKind],
}


def found_in(path: Path) -> list[Literal]:
    return list(literals(path))


def used_keys() -> set[str]:
    return {each.text for path in SOURCES for each in found_in(path) if KEY.fullmatch(each.text)}


def used_groups() -> set[str]:
    found = (match for path in SOURCES for match in GROUPS.finditer(path.read_text("utf-8")))
    return {match[1] or match[2] for match in found}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_holds_a_text_that_people_read(path: Path) -> None:
    assert [each.text for each in found_in(path) if each.is_read] == []


def test_a_text_in_a_source_would_be_found(tmp_path: Path) -> None:
    source = tmp_path / "a.js"
    for bad in (
        'h("p", {}, "Not so")',
        'h("h1", {}, "Tasks")',
        "`${count} more tasks`",
        "`Due ${at}.`",
        't("a.b", { c: "so it is" })',
    ):
        source.write_text(bad)
        assert any(each.is_read for each in found_in(source)), bad


def test_every_key_that_a_source_uses_is_in_the_catalogue() -> None:
    assert sorted(key for key in used_keys() if key not in ENGLISH) == []
    assert sorted(group for group in used_groups() if not any(key.startswith(f"{group}.") for key in ENGLISH)) == []


def test_every_key_of_the_catalogue_is_used() -> None:
    used, groups = used_keys(), tuple(f"{group}." for group in used_groups())
    assert sorted(key for key in ENGLISH if key not in used and not key.startswith(groups)) == []


@pytest.mark.parametrize("group", ENUMERATIONS)
def test_every_name_of_the_wire_has_its_words(group: str) -> None:
    groups = [group, "state"] if group == "event" else [group]  # an event that begins a state has its word
    assert [name for name in ENUMERATIONS[group] if not any(f"{each}.{name}" in ENGLISH for each in groups)] == []


@pytest.mark.parametrize("language", WORDS)
def test_a_language_has_every_key_with_the_same_placeholders(language: str) -> None:
    assert catalogue.differences(WORDS, language) == []


def test_a_missing_key_another_placeholder_and_a_missing_plural_would_be_found() -> None:
    days = {"one": "{n} day", "other": "{n} days"}
    english: dict[str, catalogue.CardText] = {"a.b": "{x} of {y}", "a.c": days, "model.a": "For a model"}
    missing: dict[str, catalogue.CardText] = {"a.b": "{x}", "a.d": "neu"}
    assert catalogue.differences({"en": english, "de": missing}, "de") == [
        "a.b: placeholders ['x'] in the text, not ['x', 'y']",
        "a.c: missing",
        "a.d: not in English",
    ]
    forms = {"one": "ein Tag", "many": "{n} Tage", "other": "Tage"}
    plurals: dict[str, catalogue.CardText] = {"a.b": "{y} {x}", "a.c": forms}
    assert catalogue.differences({"en": english, "de": plurals}, "de") == [
        "a.c: placeholders [] in other, not ['n']",
        "a.c: plurals many, one, other, not one, other",
    ]


AMISS = {
    "de": r"\b(Sie (können|haben)|Ihre[mnr]?|Ihnen|fragen Sie|bis Sie|[Dd]u|[Dd]ich|dein)\b",
    "es": r"(^|[.:] )[^¿¡]*[?!]|\bunos \{|\d %|\} %",
    "fr": r"(?<![\d\u00a0\u202f])[;:!?»%]|«(?!\u00a0)|'|\b(jusqu’à|tentative)\b",
    "ja": r"[,;:!?()]|(?<=[^\x00-\x7f]) (?=[^\x00-\x7f→])|題名|期限(?!超過)|取り消され",
    "ar": r"[,;?]|\} %",
}
"""No text of a language has these: marks and spaces of another, a second address of the reader or word for a thing."""
OF_NO_LANGUAGE = {"edit.example"}
"""Texts that the server reads, which are the same everywhere."""
SPOKEN_TO_THE_CHAT = {"empty.call", "empty.notes", "empty.oven"}


def forms_of(text: catalogue.CardText) -> list[str]:
    return [text] if isinstance(text, str) else list(text.values())


@pytest.mark.parametrize("language", AMISS)
def test_a_language_has_its_own_marks_spaces_and_one_way_to_address_its_reader(language: str) -> None:
    texts = {key: text for key, text in WORDS[language].items() if key not in OF_NO_LANGUAGE | SPOKEN_TO_THE_CHAT}
    amiss = re.compile(AMISS[language])
    assert {key: form for key, text in texts.items() for form in forms_of(text) if amiss.search(form)} == {}
