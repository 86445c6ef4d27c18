"""The public names of `duetime`: all are there, cheaply, and each is on the page about Python."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import duetime
import pytest
from duetime.server.python.calls import names_of_rest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("alembic", "dramatiq", "mcp", "pydantic", "redis", "sqlalchemy")
PYTHON_PAGE = (ROOT / "docs/python.md").read_text("utf-8")


def loaded_by(program: str) -> set[str]:
    """Return the heavy packages that a program has loaded at its end."""
    said = f"import sys\n{program}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=100, check=True)
    return set(done.stdout.split())


def table(heading: str) -> list[str]:
    """Return the names in the first column of the table under a heading of the page about Python."""
    text = PYTHON_PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [name for row in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]


def test_every_public_name_is_there_and_in_the_table_of_the_page_and_no_other() -> None:
    assert [name for name in duetime.__all__ if not hasattr(duetime, name)] == []
    assert sorted(table("Names")) == sorted(duetime.__all__)
    assert set(duetime.__all__) <= set(dir(duetime))


@pytest.mark.parametrize("module", ["errors", "testing"])
def test_the_names_of_a_module_are_there(module: str) -> None:
    found: Any = import_module(f"duetime.{module}")

    assert found.__all__ == sorted(found.__all__)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_type_checkers_know_the_same_names() -> None:
    tree = ast.parse((ROOT / "server/duetime/__init__.py").read_text("utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    known = {
        alias.asname or alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert known == set(duetime.__all__)


def test_a_name_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Schedulr'; it exports .*Scheduler"):
        _ = getattr(duetime, "Schedulr")  # noqa: B009 - as `from duetime import` does


def test_the_package_costs_nothing_until_a_name_is_used() -> None:
    assert loaded_by("import duetime") == set()
    assert loaded_by("from duetime import Principal, TaskFilter, EventFilter, Request, Retry, Done, errors") == set()
    assert loaded_by("from duetime import Context, handler") == {"pydantic"}
    assert loaded_by("from duetime import Settings") == {"pydantic"}
    assert "mcp" not in loaded_by("from duetime import Scheduler")


SPELLED = re.compile(r"`(\w+)\((.*?)\)`")
IN_A_BLOCK = re.compile(r"^```text\n(\w+)\(\n(.*?)^\)\n```$", re.MULTILINE | re.DOTALL)
"""A method with more arguments than a cell of a table can show."""

IN_WHOSE_NAME = {"by", "raw"}
"""Arguments of every method, which the page names once; and what a front end of Duetime passes."""


def spelled() -> dict[str, str]:
    """Return the arguments of the methods as the tables of the page have them, or a block of their own."""
    tables = [text.split("\n\n", 1)[0] for text in PYTHON_PAGE.split("| method | what it does |")[1:]]
    cells = [row.split(" | ")[0] for text in tables for row in text.splitlines()]
    found = {name: given for cell in cells for name, given in SPELLED.findall(cell) if name != "open"}
    return found | {name: " ".join(given.split()).rstrip(",") for name, given in IN_A_BLOCK.findall(PYTHON_PAGE)}


def test_the_page_has_every_method() -> None:
    known = {name for name, value in vars(duetime.Scheduler).items() if callable(value) and name[0] != "_"}
    assert set(spelled()) == known - {"open"}


@pytest.mark.parametrize(("name", "given"), spelled().items())
def test_the_page_spells_the_arguments_of_a_method_as_it_takes_them(name: str, given: str) -> None:
    method = getattr(duetime.Scheduler, name)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    placed = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} | set(names_of_rest(method))
    first, _, rest = given.partition("*, ")
    written = [each.strip() for each in first.split(",") if each.strip()]
    if "..." in written:
        assert written[:-1] == placed
        return
    assert written == placed
    assert {each.strip() for each in rest.split(",") if each.strip()} == keywords - IN_WHOSE_NAME
