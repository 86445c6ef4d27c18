"""docs/cli.md lists every verb and every option, and nothing that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.server.cli.exit_codes import (
    FAILED_CODE,
    INTERRUPTED_CODE,
    NOT_FOUND_CODE,
    REFUSED_CODE,
    WRONG_USAGE_CODE,
)
from duetime.server.cli.help import DeferredVerb, VerbsOf
from duetime.server.cli.verbs import duetime_command

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERYWHERE = {"--help", "-h"}
FENCE = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"""(?:^|[\s(/])duetime ((?:'[^']*'|"[^"]*"|[^|;&><`)\n'"])*)""", re.MULTILINE)
"""A call up to the next operator of the shell."""


def verbs(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, found in getattr(command, "commands", {}).items():
        if getattr(found, "commands", None):
            yield from verbs(found, f"{path}{name} ")
        else:
            yield f"{path}{name}", found.loaded


def options(command: Any) -> set[str]:
    found = {
        name
        for each in command.params
        if each.param_type_name == "option"
        for name in (*each.opts, *each.secondary_opts)
    }
    return found - EVERYWHERE


def sections(heading: str) -> dict[str, str]:
    parts = re.split(rf"^{heading} (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(section: str) -> set[str]:
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", section.split("\n## ", maxsplit=1)[0], flags=re.MULTILINE)
    return {option.split()[0] for row in rows for option in re.findall(r"`(-[^`]+)`", row)}


def test_every_verb_has_its_section_and_no_other_has() -> None:
    root = duetime_command()
    assert set(sections("###")) == {name for name, _ in verbs(root)}


def test_each_section_lists_exactly_the_options_of_its_verb() -> None:
    documented = sections("###")
    for name, command in verbs(duetime_command()):
        assert listed(documented[name]) == options(command), name


def test_the_global_options_are_listed() -> None:
    documented = listed(sections("##")["Global options"].split("\n### ")[0])
    assert documented == options(duetime_command()) | EVERYWHERE


def test_every_option_and_verb_says_what_it_does() -> None:
    for name, command in verbs(duetime_command()):
        assert command.help, name
        assert all(each.help for each in command.params if each.param_type_name == "option"), name


def test_every_verb_has_examples_that_it_accepts_and_its_help_shows() -> None:
    for name, command in verbs(duetime_command()):
        assert command.examples, name
        for example in command.examples:
            prefix = f"duetime {name}"
            assert shlex.split(example)[: len(prefix.split())] == prefix.split()
            context = command.make_context(prefix, shlex.split(example)[len(prefix.split()) :])
            assert f"  {example}" in command.get_help(context).splitlines()


def calls(text: str) -> Iterator[list[str]]:
    """Yield the words behind each `duetime` in the commands of a page: in blocks, and in code within a sentence."""
    code = [re.sub(r" +#.*", "", block.replace("\\\n", " ")) for block in FENCE.findall(text)]
    code += re.findall(
        r"`((?:\.venv/bin/)?duetime [^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    )
    yield from (shlex.split(call) for each in code for call in CALL.findall(each))


def unknown_options(text: str) -> list[str]:
    """List the options in the commands of a page that their verb does not have, nor every verb."""
    root: Any = duetime_command()
    found: list[str] = []
    groups: dict[str, Any] = {name: group for name, group in root.commands.items() if isinstance(group, VerbsOf)}
    known = dict(verbs(root)) | {name: next(iter(group.commands.values())).loaded for name, group in groups.items()}
    for words in calls(text):
        plain = [word for word in words if not word.startswith("-")]
        named = (" ".join(plain[at:end]) for at in range(len(plain)) for end in (at + 2, at + 1))
        verb = next((known[name] for name in named if name in known), None)
        accepted = options(root) | EVERYWHERE | (options(verb) if verb else set())
        given = (word.partition("=")[0] for word in words if re.match("--?[a-z]", word))
        found += [f"{shlex.join(words)}: {option}" for option in given if option not in accepted]
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_commands_of_the_pages_have_no_option_that_their_verb_lacks(path: Path) -> None:
    assert unknown_options(path.read_text("utf-8")) == []


def test_an_option_that_a_verb_lacks_is_noticed_in_a_block_and_in_a_sentence() -> None:
    good = (
        "`duetime workers --all`, `duetime list --csv | wc --lines`\n```sh\nduetime keys create a --scope tasks\n```\n"
    )
    bad = "`duetime keys create a --scopes tasks`\n```sh\nduetime list --loud  # --quiet\n```\n"
    assert unknown_options(good) == []
    assert unknown_options(bad) == ["list --loud: --loud", "keys create a --scopes tasks: --scopes"]


def test_the_sentence_in_the_list_of_verbs_is_the_one_of_the_verb_itself() -> None:
    found = list(deferred(duetime_command()))
    assert len(found) > 20
    for verb in found:
        assert verb.help == verb.loaded.help


def deferred(command: Any) -> Iterator[DeferredVerb]:
    for found in command.commands.values():
        if isinstance(found, DeferredVerb):
            yield found
        else:
            yield from deferred(found)


def test_the_exit_codes_are_listed() -> None:
    codes = re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)
    assert [int(code) for code in codes] == [
        0,
        FAILED_CODE,
        WRONG_USAGE_CODE,
        NOT_FOUND_CODE,
        REFUSED_CODE,
        INTERRUPTED_CODE,
    ]
