"""The pages say what the code does: everything public is documented, nothing else is, and links lead somewhere."""

from __future__ import annotations

import ast
import itertools
import re
import sqlite3
import tomllib
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import duetime
import pytest
from duetime import Scheduler
from duetime.scheduler import errors, events, outcomes
from duetime.scheduler.intake.translated_phrases import translate
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.states import LEGAL_MOVES, TERMINAL
from duetime.scheduler.store.schema.constraints import LEGAL_MOVE
from duetime.scheduler.task import DeliveryState, State
from duetime.server.cli.verbs import duetime_command
from duetime.server.settings.layers import REMOTE_VARIABLES
from duetime.server.settings.model import Settings
from duetime.tools.definition import AnyDefinition
from duetime.tools.registration import definitions
from duetime.tools.schedule_task import REMINDER

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
PAGES = [*(ROOT / name for name in ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN_BY_HOSTS = {"README.md", "CONTRIBUTING.md"}
"""Pages that a host of repositories shows by their name; the others are linked."""

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

MAX_CELL_CODE_CHARS = 120
"""Longer code stands in a block of its own."""

MAX_LINKS_OF_README = 25
"""The links with which the README ends; `docs/index.md` has all pages."""

BEGINNERS_WORD_COUNT = 10
"""Words of the glossary that a new user needs."""

ANY_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
"""Blocks of code, also those in an item of a list."""

Move = tuple[State | None, State]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def section(text: str, heading: str) -> str:
    """Cut out what stands under a heading, up to the next one of its level."""
    level = heading.split(" ", 1)[0]
    start = text.index(f"{heading}\n") + len(heading)
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(text, start)
    return text[start : end.start() if end else None]


def first_column(text: str) -> list[str]:
    """List the words in code type in the first cells of a page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


# --- the state machine: one diagram, one table, one condition -------------------------------------------------------


def diagram_moves(text: str) -> tuple[set[Move], set[State]]:
    """Read the legal moves and the terminal states from a mermaid state diagram."""
    moves: set[Move] = set()
    ends: set[State] = set()
    for before, after in re.findall(r"^\s*(\S+) --> (\S+)\s*$", text, re.MULTILINE):
        if after == "[*]":
            ends.add(State(before))
        else:
            moves.add((None if before == "[*]" else State(before), State(after)))
    return moves, ends


def table_moves() -> set[Move]:
    return {(before, after) for before, afters in LEGAL_MOVES.items() for after in afters}


def test_the_diagram_shows_the_legal_moves_and_no_others() -> None:
    moves, ends = diagram_moves(page("states.md"))
    assert moves == table_moves()
    assert ends == TERMINAL


def test_the_condition_of_events_holds_for_the_legal_moves_and_no_others() -> None:
    question = f"SELECT {LEGAL_MOVE} FROM (SELECT ? AS from_state, ? AS to_state)"
    with closing(sqlite3.connect(":memory:")) as database:
        moves = [(before, after) for before in [None, *State] for after in State]
        assert {move for move in moves if database.execute(question, move).fetchone()[0]} == table_moves()


def test_a_diagram_with_a_move_too_few_or_too_many_is_noticed() -> None:
    text = page("states.md")
    assert diagram_moves(text.replace("    ready --> running\n", ""))[0] < table_moves()
    assert diagram_moves(text.replace("--> running\n", "--> running\n    failed --> ready\n"))[0] > table_moves()


# --- everything has its row -------------------------------------------------------------------------------------------


def documented(text: str, *headings: str) -> list[str]:
    return [word for heading in headings for word in first_column(section(text, heading))]


def test_every_state_event_and_outcome_has_its_row() -> None:
    states = page("states.md")
    assert first_column(states[: states.index("## From outcome to state")]) == [*State]
    assert documented(states, "## From outcome to state") == [one.__name__ for one in get_args(outcomes.Outcome)]
    assert documented(states, "## Events") == [*events.EventKind]
    assert all(f"`{state}`" in states for state in DeliveryState)


def test_the_glossary_is_sorted_has_each_word_once_and_marks_ten_for_beginners() -> None:
    words = re.findall(r"^\| (.+?) \| .+ \|$", page("glossary.md"), re.MULTILINE)[2:]
    plain = [re.sub(r"[*\[\]]|\(.*\)", "", word).casefold() for word in words]
    assert plain == sorted(set(plain))
    assert len([word for word in words if word.startswith("**")]) == BEGINNERS_WORD_COUNT


@pytest.mark.parametrize("tool", definitions(REMINDER), ids=lambda tool: tool.name)
def test_every_argument_of_a_tool_has_its_row(tool: AnyDefinition) -> None:
    assert documented(page("tools.md"), f"## `{tool.name}`") == [argument.name for argument in tool.arguments]


def test_every_tool_has_its_section() -> None:
    sections = re.findall(r"^## `(\w+)`$", page("tools.md"), re.MULTILINE)
    assert sections == [tool.name for tool in definitions(REMINDER)]


def test_every_error_code_has_its_row() -> None:
    own = {one.code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.DuetimeError)}
    codes = documented(page("tools.md"), "## Errors")
    assert len(codes) == len(set(codes))
    assert set(codes) == own - {errors.DuetimeError.code} | {"defect"}


WHEN_ASKED = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)


def examples(heading: str) -> list[str]:
    """List what the first two columns of a section's table show in code type."""
    rows = re.findall(r"^\|(.*?)\|(.*?)\|$", section(page("tools.md"), heading), re.MULTILINE)
    return [code for row in rows for cell in row for code in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("words", [words for words in examples("## Times") if not words.isdigit()])
def test_the_times_in_the_pages_are_understood(words: str) -> None:
    assert translate(words, now=WHEN_ASKED, zone="America/Edmonton").instant > WHEN_ASKED


@pytest.mark.parametrize("rule", [rule for rule in examples("## Recurrences") if not rule.isupper() or "=" in rule])
def test_the_recurrences_in_the_pages_are_understood(rule: str) -> None:
    assert recurrence.parse(rule, zone="America/Edmonton", anchor=WHEN_ASKED).after(WHEN_ASKED)


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = {one["containers"][0]: one["layers"] for one in CONTRACTS if one.get("exhaustive")}


@pytest.mark.parametrize("container", LAYERS)
def test_the_layers_in_the_pages_are_those_that_are_enforced(container: str) -> None:
    folder = container.removeprefix("duetime.").replace(".", "/")
    rows = re.findall(r"^\| (`.*?) \|", section(page("architecture.md"), f"### `{folder}/`"), re.MULTILINE)
    enforced = [set(re.findall(r"\w+", layer)) for layer in LAYERS[container]]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == enforced


def test_every_room_has_its_line() -> None:
    listed = set(re.findall(r"^\| `([\w/]+)/` \|", section(page("architecture.md"), "## Rooms"), re.MULTILINE))
    assert listed == {folder.as_posix() for folder in rooms(ROOT)}


def rooms(root: Path) -> set[Path]:
    """Folders of the product that hold modules; the versions of the schema are data."""
    top = {"server", "scheduler", "tools", "widgets"}
    found = {path.parent.relative_to(root) for name in top for path in (root / name).rglob("__init__.py")}
    return {folder for folder in found if folder.name != "versions"}


def test_every_public_name_is_explained() -> None:
    pages = page("python.md") + page("writing-a-handler.md")
    assert [name for name in duetime.__all__ if not re.search(rf"`[^`\n]*\b{name}\b", pages)] == []


def test_every_method_of_the_scheduler_is_explained_and_no_other() -> None:
    methods = {name for name in dir(Scheduler) if callable(getattr(Scheduler, name)) and not name.startswith("_")}
    rows = re.findall(r"^\| (`.*?) \|", page("python.md"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)\(", row)} == methods


def test_variables_and_verbs_in_the_pages_exist() -> None:
    text = "\n".join(path.read_text("utf-8") for path in PAGES)
    known = {f"DUETIME_{name.upper()}" for name in Settings.model_fields} | {"DUETIME_CONFIG", *REMOTE_VARIABLES}
    assert set(re.findall(r"\bDUETIME_(?!TEST_)[A-Z_]+", text)) - known == set()
    verbs = set(getattr(duetime_command(), "commands", {}))
    assert set(re.findall(r"`(?:\.venv/bin/)?duetime ([a-z][a-z-]*)", text)) - verbs == set()


# --- links, commands and examples -------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(where: Path, text: str) -> list[str]:
    links = [first or second for first, second in LINK.findall(FENCE.sub("", text))]
    return [link for link in links if "://" not in link and not leads_somewhere(where, text, link)]


def leads_somewhere(where: Path, text: str, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = where.parent / name if name else where
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text("utf-8") if name else text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert dead_links(path, path.read_text("utf-8")) == []


def test_a_dead_link_is_noticed() -> None:
    good = "# One\n[a](glossary.md) [b](states.md#events) [c](#one) [d](https://example.com/gone)"
    bad = "[a](gone.md) ![b](gone.png) [c](states.md#gone) [d](#gone)"
    where = ROOT / "docs/glossary.md"
    assert dead_links(where, f"{good}\n{bad}") == ["gone.md", "gone.png", "states.md#gone", "#gone"]


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (path.parent / (first or second).partition("#")[0]).resolve()
        for path in PAGES
        for first, second in LINK.findall(path.read_text("utf-8"))
    }
    assert {path for path in PAGES if path.name not in SHOWN_BY_HOSTS} - linked == set()


def test_the_decisions_are_numbered_without_a_gap() -> None:
    records = sorted((ROOT / "docs/decisions").glob("*.md"))
    numbers = [int(path.name.split("-", maxsplit=1)[0]) for path in records]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert [int(path.read_text("utf-8").split(".", maxsplit=1)[0][2:]) for path in records] == numbers


def blocks(path: Path, language: str) -> Iterable[str]:
    return (code for found, code in FENCE.findall(path.read_text("utf-8")) if found == language)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_in_the_pages_is_python(path: Path) -> None:
    for code in blocks(path, "python"):
        ast.parse(code)


README = (ROOT / "README.md").read_text("utf-8")
RUN_BY_CI = ("Start it", "Use it from your chat", "Test it")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_in_a_table_is_short_enough_for_a_cell(path: Path) -> None:
    rows = re.findall(r"^\|.*\|$", FENCE.sub("", path.read_text("utf-8")), re.MULTILINE)
    assert [code for row in rows for code in re.findall(r"`[^`]+`", row) if len(code) > MAX_CELL_CODE_CHARS] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_in_a_sentence_stands_on_one_line(path: Path) -> None:
    paragraphs = re.split(r"\n\s*\n", ANY_FENCE.sub("", path.read_text("utf-8")))
    spans = [code[0] for text in paragraphs for code in re.finditer(r"(`+)(?:.|\n)+?\1", text)]
    assert [code for code in spans if "\n" in code] == []


def test_ci_runs_the_commands_of_the_readme_that_start_it_add_it_to_a_chat_and_test_it() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    called = re.findall(r'readme "(.+?)"', script)
    blocks_of = {heading: FENCE.findall(section(README, f"## {heading}"))[0] for heading in called}
    assert tuple(called) in itertools.permutations(RUN_BY_CI)
    assert {language for language, _ in blocks_of.values()} == {"sh"}
    start, chat, test = (blocks_of[heading][1].strip() for heading in RUN_BY_CI)
    assert start.endswith("pip install . && duetime serve"), "one command installs it and runs it"
    assert chat.startswith("duetime install claude-code --write")
    assert test.endswith("pytest")


def test_the_readme_activates_the_environment_once_and_names_no_program_inside_it_after_that() -> None:
    commands = [code for language, code in FENCE.findall(README) if language == "sh"]
    assert ". .venv/bin/activate" in commands[0]
    assert [code for code in commands if ".venv/bin/" in code.replace(". .venv/bin/activate", "")] == []


def test_the_index_has_every_page_once_and_the_readme_leads_to_few() -> None:
    listed = re.findall(r"^\| \[[^\]]+\]\((\S+?)\) \|", page("index.md"), re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert sorted(name for name in listed if "/" not in name) == sorted(pages)
    assert len(LINK.findall(section(README, "## Read on"))) <= MAX_LINKS_OF_README


RELEASED = re.compile(r"duetime\[|pip install [^\n]*(?<![\w/])duetime\b(?! serve)")
"""An installation from a registry, where no release of Duetime is."""


@pytest.mark.parametrize("folder", ["docs", "examples", "scheduler", "server", "tools", "widgets"])
def test_the_install_command_uses_a_checkout(folder: str) -> None:
    files = [*(ROOT / name for name in ROOT_PAGES), *(ROOT / folder).rglob("*.md"), *(ROOT / folder).rglob("*.py")]
    assert [(file.name, found[0]) for file in files for found in RELEASED.finditer(file.read_text("utf-8"))] == []


def test_an_installation_from_a_registry_is_noticed() -> None:
    assert RELEASED.search("pip install --upgrade duetime")
    assert RELEASED.search("pip install 'duetime[otel]'")
    assert not RELEASED.search("pip install '.[otel]' && duetime serve")
