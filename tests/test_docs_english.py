"""The pages are written in sentences that a reader keeps in mind: of at most 25 words, with a noun as their subject."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAX_SENTENCE_WORDS = 25
MIN_REPEATED_WORDS = 13
"""Words of a sentence that only one page may have; shorter ones are alike by chance."""

FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?:.|\n(?!\n))+?\1")
TARGET = re.compile(r"\]\([^)\s]+\)")
HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
BLOCK_START = re.compile(r"^ *(?:[-*]|\d+\.) |^(?= *[|>])", re.MULTILINE)
"""An item of a list, a row of a table, or a line of a quotation."""

CELL_BREAK = re.compile(r"(?<!\\)\||;\s")
"""A cell may list things, with a semicolon between two of them."""

SENTENCE_BREAK = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*))\s+(?=[^a-z0-9])")

INDIRECT_OPENING = re.compile(
    r"(?:What|Who|Whom|Whose|Which|Whoever|Whatever|Those|One (?:of )?(?:that|which|who)|Of)\b"
)
"""A relative clause in place of a noun, or a genitive before it; a cell with a small first letter is no sentence."""


def prose(text: str) -> Iterator[str]:
    """Yield the paragraphs, items and cells of a page; code in a line is one word, and quoted people are left out."""
    for block in blocks(TARGET.sub("]", CODE.sub("`code`", FENCE.sub("", text)))):
        if block.startswith("|"):
            yield from (cell for cell in CELL_BREAK.split(block) if re.search(r"\w", cell.replace("`code`", "")))
        elif not block.startswith(">"):
            yield block


def blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, items of lists, rows of tables and lines of quotations; headings are no sentences."""
    for paragraph in re.split(r"\n\s*\n", HEADING.sub("\n", text)):
        yield from (block.strip() for block in BLOCK_START.split(paragraph))


def sentences(text: str) -> Iterator[str]:
    return (sentence for block in prose(text) for sentence in SENTENCE_BREAK.split(" ".join(block.split())))


def long_sentences(text: str) -> list[str]:
    """List the sentences of a page with more words than a reader keeps in mind."""
    return [sentence for sentence in sentences(text) if len(sentence.split()) > MAX_SENTENCE_WORDS]


def indirect_openings(text: str) -> list[str]:
    """List the sentences of a page that do not open with their subject; a question may."""
    return [found for found in sentences(text) if INDIRECT_OPENING.match(found) and not found.endswith("?")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_sentence_of_a_page_is_long(path: Path) -> None:
    assert long_sentences(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_sentence_of_a_page_opens_with_a_relative_clause(path: Path) -> None:
    assert indirect_openings(path.read_text("utf-8")) == []


def repeated_sentences(pages: Mapping[str, str]) -> list[str]:
    """List the sentences of some length that several pages have: one page has it, the others link to it."""
    found = [(sentence, page) for page, text in pages.items() for sentence in set(sentences(text))]
    times = Counter(sentence for sentence, _ in found if len(sentence.split()) >= MIN_REPEATED_WORDS)
    return [f"{page}: {sentence}" for sentence, page in found if times[sentence] > 1]


def test_no_page_repeats_a_sentence_of_another() -> None:
    assert repeated_sentences({path.name: path.read_text("utf-8") for path in PAGES}) == []


def test_a_repeated_sentence_is_noticed() -> None:
    twice, short = f"A run {'word ' * 12}ends.", "A run ends."
    pages = {"a.md": f"# A\n\n{twice} {short}", "b.md": f"* {short}\n* {twice}", "c.md": f"> {twice}"}
    assert repeated_sentences(pages) == [f"a.md: {twice}", f"b.md: {twice}"]


LONG = f"A run {'word ' * 23}end"


@pytest.mark.parametrize(
    "text",
    [
        f"# One\n\nA run ends. {LONG}.\n",
        f"It\n{LONG}\nwaits.",
        f"* Short.\n* {LONG}\n* Short.",
        f"| state | what |\n|---|---|\n| `ready` | it waits |\n| `running` | {LONG} |\n",
        f"**Why.** {LONG}.",
        f"{LONG} ([states](states.md)).",
    ],
)
def test_a_long_sentence_is_noticed(text: str) -> None:
    assert len(long_sentences(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"A run {'word ' * 22}end. A run {'word ' * 22}end.",
        f"```\n{LONG}\n```",
        f"> {LONG}",
        f"A run has `{LONG}` and\n`{{\n{LONG}}}`.",
        f"* {'word ' * 20}\n* {'word ' * 20}",
        f"| {'word ' * 20} | {'word ' * 20}; {'word ' * 20} |\n| {'word ' * 20} |",
        f"# {'word ' * 20}\n{'word ' * 20}",
        f"{'word ' * 24}[states](states.md#a-b)",
    ],
)
def test_short_sentences_code_and_quotations_are_left_alone(text: str) -> None:
    assert long_sentences(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "What is due starts.",
        "A run is due. Those that wait stay.",
        "* One that waits stays.",
        "A | cell.\n\n| a | it waits. What is due starts |",
        "One of which each step ended is over.",
        "A run is due. Of a series the next one starts.",
    ],
)
def test_a_relative_clause_at_the_start_is_noticed(text: str) -> None:
    assert len(indirect_openings(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "**What to do.** Wait.",
        "What runs?",
        "> What runs now",
        "# What runs\nRuns.",
        "| what it does |",
        "One run waits. Whole days.",
    ],
)
def test_labels_questions_and_cells_may_open_so(text: str) -> None:
    assert indirect_openings(text) == []
