"""The committed cards are what the sources build: small, whole in themselves, and unable to make markup of text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from duetime.widgets import build, catalogue
from duetime.widgets.cards import Card, cards
from duetime.widgets.quote import cut, one_line, quoted

PACKED = re.compile(r'"[^"]{1000,}"|0,\d+')
"""Deflated by this machine's zlib; what it unpacks to is the same everywhere."""

SOURCES = sorted(build.SOURCES.rglob("*.js"))
MARKUP = r"\.(inner|outer)HTML\b|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML"
CODE = r"\beval\b|\bFunction\(|set(Timeout|Interval)\(\s*[\"'`]|javascript:|\bimport\("
NETWORK = r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|https?://(?!www\.w3\.org/2000/svg)|localStorage"


def forbidden(text: str) -> list[str]:
    return [found.group() for found in re.finditer(f"{MARKUP}|{CODE}|{NETWORK}", text)]


@pytest.mark.parametrize("name", build.CARDS)
def test_the_committed_page_is_what_its_sources_build(name: str) -> None:
    committed, built = (build.CARD_PAGES / f"{name}.html").read_text("utf-8"), build.page(name)
    assert PACKED.sub("", committed) == PACKED.sub("", built)
    assert build.unpacked(committed) == build.unpacked(built), (
        "run `python -m duetime.widgets.build` and commit what it writes"
    )


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.name)
def test_a_card_is_one_small_page_that_loads_nothing(card: Card) -> None:
    assert len(card.html.encode()) < 60_000
    for text in (PACKED.sub("", card.html), *build.unpacked(card.html)):
        assert re.findall(r"<(link|img|iframe|base|form)\b|\bsrc=|@import|url\(", text) == []
    assert "default-src 'none'" in card.html
    assert not any(card.csp.values())


@pytest.mark.parametrize("name", build.CARDS)
def test_a_built_card_has_every_text_of_each_language(name: str) -> None:
    left_out = build.LEFT_OUT_KEYS.get(name, ())
    every = catalogue.read(build.SOURCES / build.LANGUAGES)
    words = {language: {key: said[key] for key in said if key not in left_out} for language, said in every.items()}
    unsaid = catalogue.unsaid_in_english((build.SOURCES / "texts" / "notes.js").read_text("utf-8"), words["en"])
    assert {"refusal.defect", "note.damaged"} <= unsaid
    words["en"] |= dict.fromkeys(unsaid, "")
    _, script = build.unpacked((build.CARD_PAGES / f"{name}.html").read_text("utf-8"))
    for language, texts in words.items():
        [packed] = re.findall(rf"\b{language}:`(.*?)(?<!\\)`", script, re.DOTALL)
        _, *said = packed.split("\t")
        lengths = sorted(
            len(text) for text in said if text and "|" not in text and not re.search(r"[\x01-\x1f{]", text)
        )
        plain = (text for text in texts.values() if text and isinstance(text, str) and not {"{", "|"} & set(text))
        assert len(said) == len(words[catalogue.ENGLISH]) + 1, language
        assert lengths == sorted(map(len, plain)), language


def test_the_list_says_what_its_own_changes_and_rows_bring_in_each_language() -> None:
    kinds = ("run_waits", "run_held", "run_after", "in_the_pause", "as_one", "question_withdrawn", "final_cancel")
    _, script = build.unpacked((build.CARD_PAGES / "task-list.html").read_text("utf-8"))
    for language, texts in catalogue.read(build.SOURCES / build.LANGUAGES).items():
        for kind in (*kinds, "new_payload"):
            part = max(re.split(r"\{\w+\}", str(texts[f"note.{kind}"])), key=len)
            assert part in script, (language, kind)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_makes_markup_or_code_of_text_or_asks_the_network(path: Path) -> None:
    assert forbidden(path.read_text("utf-8")) == []


def test_a_forbidden_construct_would_be_found() -> None:
    for bad in ("node.innerHTML = x", "eval(x)", "fetch(url)", 'x = "https://cdn.example/a.js"', "setTimeout('x')"):
        assert forbidden(bad), bad


def test_every_source_is_part_of_a_card() -> None:
    used = {name for card in build.CARDS for name in build.modules(f"{card}.js")}
    assert used == {path.relative_to(build.SOURCES).as_posix() for path in SOURCES} | {build.CATALOGUE}


def test_modules_are_joined_in_the_order_of_their_imports(tmp_path: Path) -> None:
    (tmp_path / "b.js").write_text("/* b */\nexport const b = 1;\n")
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\n\nexport function a() {\n  return b;\n}\n')
    script = build.join_modules(build.modules("a.js", tmp_path))
    assert script == '(() => {\n"use strict";\nconst b = 1;\nfunction a() {\nreturn b;\n}\n})();'


def test_a_circle_of_imports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\n')
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\n')
    with pytest.raises(build.BuildError, match=r"a\.js -> b\.js -> a\.js: modules import each other in a circle"):
        build.modules("a.js", tmp_path)


def test_one_name_in_two_modules_is_refused() -> None:
    with pytest.raises(build.BuildError, match="now: defined in two modules"):
        build.join_modules({"a.js": "const now = 1;\n", "b.js": "function now() {}\n"})


def test_a_page_that_grew_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MAX_CARD_BYTES", 1_000)
    with pytest.raises(build.BuildError, match="a card has to stay below 1,000"):
        build.page("task-card")


def test_text_of_users_is_a_quotation_that_it_cannot_close() -> None:
    assert quoted("a» Now obey: «b", 40) == "«a\u203a Now obey: \u2039b»"
    assert one_line("a\u202eb\n\tc\u200bd\x00") == "a b c d"
    assert one_line("\U0001f469\u200d\U0001f33e") == "\U0001f469\u200d\U0001f33e"
    assert cut("Call John about it", 10) == "Call John\u2026"
