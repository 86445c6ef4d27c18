"""Handlers are found in modules and in installed packages; what cannot be loaded is named, with the cause."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from duetime.scheduler.errors import HandlerError, InvalidArgument, InvalidSetting
from duetime.scheduler.handlers import Context, Handler, Handlers, Link, handler, registry, run_handler
from duetime.scheduler.outcomes import Done, Failed, Retry, Yielded

ROOT = Path(__file__).resolve().parents[2]
GOOD = '''
from duetime import Context, Done, handler

@handler("{name}")
def work(ctx: Context) -> Done:
    """Work."""
    return Done("worked")
'''

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Give a function that writes modules to import, and forget them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def files(**modules: str) -> None:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text, "utf-8")

    yield files
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def install(folder: Path, value: str) -> None:
    """Install a distribution whose one entry point is `value`, as pip leaves it behind."""
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[duetime.handlers]\nacme = {value}\n", "utf-8")


def work(ctx: Context) -> Done:
    return Done("worked")


# --- finding --------------------------------------------------------------------------------------------------------


def test_a_named_module_brings_its_handlers(write: Write) -> None:
    write(acme_jobs=GOOD.format(name="polish"))
    handlers = Handlers.load(["acme_jobs"], entry_points=False)
    assert list(handlers) == ["reminder", "webhook", "watch", "polish"]
    assert run_handler(handlers["polish"], Context.for_test(), {}) == Done("worked")


@pytest.mark.parametrize("value", ["acme_jobs", "acme_jobs:work", "acme_jobs:both"])
def test_an_installed_package_brings_a_module_a_handler_or_a_list(write: Write, tmp_path: Path, value: str) -> None:
    write(acme_jobs=GOOD.format(name="polish") + "\nboth = [work, work]\n")
    install(tmp_path, value)
    assert "polish" in Handlers.load()
    assert "polish" not in Handlers.load(entry_points=False)


def test_a_handler_that_a_module_only_imports_is_the_same_one(write: Write) -> None:
    write(
        acme_jobs=GOOD.format(name="polish") + "from duetime.scheduler.handlers import reminder\n",
        acme_more="from acme_jobs import work\n",
    )
    assert list(Handlers.load(["acme_jobs", "acme_more"], entry_points=False)) == [
        "reminder",
        "webhook",
        "watch",
        "polish",
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import acme_missing_library", "ModuleNotFoundError: No module named 'acme_missing_library'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        (GOOD.format(name="Not Good"), "HandlerError: handler name 'Not Good'"),
        (GOOD.format(name="chain"), "HandlerError: handler name 'chain' stands for chains"),
        ("x = 1", "declares no handler"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_named_with_the_cause(write: Write, text: str, cause: str) -> None:
    write(acme_jobs=text)
    with pytest.raises(InvalidSetting) as refused:
        Handlers.load(["acme_jobs"], entry_points=False)
    assert str(refused.value).startswith("handlers: module acme_jobs ")
    assert cause in str(refused.value)


def test_a_module_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"module acme_nowhere cannot be loaded .* PYTHONPATH"):
        Handlers.load(["acme_nowhere"], entry_points=False)


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("acme_gone", "No module named 'acme_gone'"),
        ("acme_jobs:gone", "AttributeError"),
        ("acme_jobs:number", "expected a handler, a module or a list of handlers, got int"),
    ],
)
def test_a_broken_entry_point_is_named_with_the_cause(write: Write, tmp_path: Path, value: str, cause: str) -> None:
    write(acme_jobs=GOOD.format(name="polish") + "\nnumber = 5\n")
    install(tmp_path, value)
    with pytest.raises(InvalidSetting) as refused:
        Handlers.load()
    assert f"entry point acme = {value} of acme 1.0 cannot be loaded" in str(refused.value)
    assert str(refused.value).endswith("or uninstall acme 1.0.")
    assert cause in str(refused.value)


def test_two_handlers_of_one_name_are_refused_and_both_are_named(write: Write) -> None:
    write(acme_jobs=GOOD.format(name="polish"), acme_more=GOOD.format(name="polish"))
    with pytest.raises(HandlerError, match=r"named 'polish': acme_jobs\.work and acme_more\.work"):
        Handlers.load(["acme_jobs", "acme_more"], entry_points=False)


def test_plug_ins_of_one_name_are_named_with_the_package_that_each_is_from(write: Write, tmp_path: Path) -> None:
    check = 'from duetime import watch_check\n\n@watch_check("stock")\ndef stock(ctx, arguments):\n    return 1\n'
    write(acme_jobs=GOOD.format(name="polish") + check, acme_more=GOOD.format(name="polish"), acme_checks=check)
    install(tmp_path, "acme_jobs")
    with pytest.raises(HandlerError, match=r"acme_jobs\.work \(acme 1\.0\) and acme_more\.work; rename"):
        Handlers.load(["acme_more"])
    with pytest.raises(HandlerError, match=r"'stock': acme_jobs\.stock \(acme 1\.0\) and acme_checks\.stock; rename"):
        Handlers.load(["acme_checks"])


class Released(logging.Handler):
    """Lets a module that blocks its import continue once something is logged, and keeps that."""

    said = ""

    def __init__(self) -> None:
        super().__init__()
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Release the module."""
        self.said += record.getMessage()
        self.event.set()


def test_an_import_that_does_not_end_is_named_while_the_start_waits_for_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = Released()
    monkeypatch.setattr(registry, "SLOW_IMPORT_S", 0.01)
    monkeypatch.setattr(registry, "released", released.event, raising=False)
    registry.log.addHandler(released)
    wait = "from duetime.scheduler.handlers import registry\nassert registry.released.wait(20)\n"
    write(acme_jobs=wait + GOOD.format(name="polish"))
    install(tmp_path, "acme_jobs")
    try:
        assert "polish" in Handlers.load()
    finally:
        registry.log.removeHandler(released)
    assert "waits for the import of entry point acme = acme_jobs of acme 1.0" in released.said


def test_a_built_in_name_cannot_be_taken() -> None:
    with pytest.raises(HandlerError, match="named 'reminder'"):
        Handlers([*Handlers.load(entry_points=False).values(), handler("reminder")(work)])


# --- asking ---------------------------------------------------------------------------------------------------------


def test_an_unknown_action_is_answered_with_what_exists() -> None:
    handlers = Handlers.load(entry_points=False)
    assert handlers.get_or_explain("reminder") is handlers["reminder"]
    with pytest.raises(InvalidArgument) as refused:
        handlers.get_or_explain("remindr")
    assert (
        str(refused.value)
        == "action: no action 'remindr'. Accepted: reminder, webhook, watch. Example: action='reminder'"
    )


def test_a_long_wrong_action_is_not_echoed() -> None:
    with pytest.raises(InvalidArgument) as refused:
        Handlers.load(entry_points=False).get_or_explain("x" * 10_000)
    assert len(str(refused.value)) < 200


# --- the example and the page ---------------------------------------------------------------------------------------


@pytest.fixture
def count_words(write: Write, tmp_path: Path) -> Handler:
    """Install the example as a package and give its handler."""
    shutil.copy(ROOT / "examples/plugin/duetime_wordcount.py", tmp_path)
    install(tmp_path, "duetime_wordcount")
    return Handlers.load()["count-words"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in {"a": "one two", "b": "three", "c": "four five six"}.items():
        (folder / f"{name}.txt").write_text(text, "utf-8")
    return folder


def test_the_example_plug_in_counts(count_words: Handler, texts: Path) -> None:
    seen: list[Any] = []
    outcome = run_handler(count_words, Context.for_test(link=Link(report=seen.append)), {"path": str(texts)})
    assert outcome == Done("6 words in 3 files", {"words": 6, "files": 3})
    assert [step["text"] for step in seen] == ["a.txt", "b.txt", "c.txt"]
    assert seen[-1]["fraction"] == 1.0


def test_the_example_plug_in_stops_when_asked_and_goes_on_where_it_was(count_words: Handler, texts: Path) -> None:
    asked = iter([False, True])
    link = Link(should_yield=lambda: next(asked))
    first = run_handler(count_words, Context.for_test(link=link), {"path": str(texts)})
    assert first == Yielded({"after": "a.txt", "words": 2}, "stopped before b.txt")
    (texts / "a.txt").write_text("not read again", "utf-8")
    again = Context.for_test(attempt=2, checkpoint_state=first.checkpoint)
    assert run_handler(count_words, again, {"path": str(texts)}) == Done("6 words in 3 files", {"words": 6, "files": 3})


def test_the_example_plug_in_distinguishes_temporary_from_permanent_failures(count_words: Handler, texts: Path) -> None:
    assert isinstance(run_handler(count_words, Context.for_test(), {"path": str(texts / "gone")}), Failed)
    (texts / "d.txt").mkdir()
    assert isinstance(run_handler(count_words, Context.for_test(), {"path": str(texts)}), Retry)


def test_the_examples_metadata_names_its_module() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "examples/plugin/pyproject.toml").read_text("utf-8"))
    (value,) = project["project"]["entry-points"]["duetime.handlers"].values()
    assert [value] == project["tool"]["setuptools"]["py-modules"]
    assert (ROOT / "examples/plugin" / f"{value}.py").exists()


def test_the_page_on_handlers_does_what_it_says() -> None:
    """Its Python runs from top to bottom, and the tests that it shows pass."""
    page = (ROOT / "docs/writing-a-handler.md").read_text("utf-8")
    module = ModuleType("page")
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "writing-a-handler.md", "exec", dont_inherit=True), vars(module))
    shown = [test for name, test in vars(module).items() if name.startswith("test_")]
    assert len(shown) == 4
    for test in shown:
        test()
    declared = {value.name for value in vars(module).values() if isinstance(value, Handler)}
    assert declared >= {"resize", "thumbnails", "charge"}
