"""The house keeps its shape: who may import whom, how long things may get, and what lies where.

Every check is a function from a tree to its problems. It runs on this project and on a small bad tree that it must
refuse: a check that cannot fail would be worth nothing. There is no list of exemptions anywhere in here.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"server/duetime": "duetime", "server": "duetime.server", "scheduler": "duetime.scheduler"}
FOLDERS |= {"tools": "duetime.tools", "widgets": "duetime.widgets"}
TOP_LEVEL = {"pyproject.toml", "server", "scheduler", "tools", "widgets", "tests", "README.md", "docs", "examples"}
TOP_LEVEL |= {"benchmarks", ".ci", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".gitignore", ".dockerignore"}
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 40
MAX_MEDIAN_FUNCTION_LINES = 8
MAX_PARAMETERS = 8
MAX_MODULES_PER_ROOM = 14
MAX_ROW_LINES = 3
MAX_SENTENCE_WORDS = 25
ADVERBS = {"after", "again", "ahead", "apart", "back", "before", "behind", "early", "late", "sent", "too"}
NOUNS_LIKE_PARTICIPLES = {"token", "feed", "reply", "distributed"}  # `distributed` is how a process is run
NOUNS_IN_ING = {"string", "setting", "thing", "testing"}
VAGUE = {"utils", "util", "common", "helpers", "helper", "misc"}
WORDS = {
    "task",
    "events",
    "errors",
    "outcomes",
    "ids",
    "request",
    "records",
    "remedies",
    "principal",
    "translatable",
    "view_parts",
    "views",
    "run_records",
    "waits",
}
VERSIONS = "scheduler/store/migrations/versions"
"""One file for each version of the schema: data, in which a reader looks for nothing else."""
SDK_MODULE = "server/protocol/sdk.py"
DIALECT_MODULE = "scheduler/store/schema/types.py"
"""Column types get SQLAlchemy's dialect; statements have the object that their engine was opened with."""
LOGGING_ROOMS = {"runtime", "store", "handlers"}
"""Rooms of the scheduler below the notifier, or loaded before a process has one: they write log lines themselves."""
LOG_CALL = re.compile(r"log\.(?:debug|info|warning|error|exception|critical|log)")
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
IMPURE_LIBRARY = {
    "asyncio",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "shutil",
    "signal",
    "socket",
}
IMPURE_LIBRARY |= {"sqlite3", "ssl", "subprocess", "sys", "tempfile", "urllib.request", "uuid"}
"""Parts of the standard library that read a file, a socket, an environment or chance."""
SWITCHED_OFF = re.compile(
    r"#\s*(?:ruff:\s*noqa|flake8[:=]\s*noqa|mypy:\s*ignore|pylint:\s*disable|fmt:\s*off|pragma:\s*allowlist"
    r"|nosec\b(?!:?\s*B\d{3}(?:,\s*B\d{3})*\s+#\s*\w))"
)
"""Among them an excuse for bandit without its codes, or without a reason behind them."""
EXCUSE = re.compile(
    r"#\s*(?P<mark>noqa(?!:)|noqa:\s*(?P<codes>[A-Z0-9, ]+)|type:\s*ignore(?:\[[^\]]*\])?)(?P<reason>.*)"
)
LATE_IMPORT = re.compile(r'import_module\(\s*"(duetime[\w.]*)"\s*\)(?:\.(\w+))?')
MODULE_NAME = re.compile(r"(duetime(?:\.[a-z_][a-z0-9_]*)+)(?::\w+)?")
"""A string that may name a module of the product, or what is in one, as `module:name`."""

INDIRECT_OPENING = re.compile(
    r"(?:\A|(?<=[.!?]\s)|(?<=\n\n))\s*((?:What|Who|Whom|Whose|Which|Those|One (?:that|which|who))\b)"
)
"""At the start of any sentence of a docstring."""

PARAGRAPH_BREAK = re.compile(r"\n\s*\n|\n(?=[-*] |`[^`\n]+`:)")
"""Behind an empty line, and before an item of a list or a name that is explained."""
SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+(?=[^a-z0-9])")

FIGURES_OF_SPEECH = re.compile(
    r"(?<![`\w])(?:anew|meanwhile|beside|tells|hears|mourns|as soon as somebody)(?![`\w])", re.IGNORECASE
)
"""The field says again, during, next to, notifies, receives. A name in backticks may be such a word."""
WORDS_OF_PERSONS = re.compile(
    r"(?<![`\w])(?:go(?:es)? on|hears?|asks nobody|nobody (?:looks|listens))(?![`\w])", re.IGNORECASE
)
"""A program continues, is notified, makes no request."""

COMMENT = re.compile(r"(?:^|\s)\s*# (.*)")
INDIRECT_NAME = re.compile(r"(?:what|whatever|who|whoever|whom|whose|which|those|one (?:that|which|who))\b")

UNITS = [
    "S",
    "MS",
    "US",
    "MINUTES",
    "HOURS",
    "DAYS",
    "MONTHS",
    "YEARS",
    "CHARS",
    "BYTES",
    "BITS",
    "ROWS",
    "COLUMNS",
    "TOKENS",
    "SAMPLES",
    "LEVELS",
    "PX",
    "RATIO",
    "DIVISOR",
    "COUNT",
    "WEIGHT",
]
IDENTIFIERS = [
    "VERSION",
    "CODE",
    "PORT",
    "PID",
    "FD",
    "KEY",
    "SEED",
    "LOCK_ID",
    "INDEX",
    "SIGN",
    "STEP",
    "YEAR",
    "WEEKDAY",
    "UNTIL_DAY",
    "FROM_HOUR",
]
"""Last words of constants that count nothing: an exit code, the number of a lock, a column, a sign, a day, an hour."""
NUMERIC_CALLS = {"abs", "float", "int", "len", "max", "min", "pow", "round", "sum"}
MEASURED = re.compile(
    rf"_*(?:\w+_(?:{'|'.join(UNITS + IDENTIFIERS)})|\w+_PER_\w+|(?:MAX|MIN)_(?:[A-Z]+_)*?[A-Z]*[A-RT-Z]S(?:_\w+)?"
    r"|MAX_(?:INTEGER|NUMBER|AMOUNT)_VALUE)"
)
LUA_NUMBER = re.compile(r"^\s*local ([A-Z_]+)(?: =|, [A-Z_, ]+ =) [\d.-]", re.MULTILINE)
NEVER_EXCUSED = {"C901", "TID251", "PLR0912", "PLR0915"}


# --- what there is ------------------------------------------------------------------------------------------------


@cache
def kept_files(root: Path) -> Sequence[Path]:
    """Files of the tree that git keeps or would keep; without a repository, those that `.gitignore` does not name."""
    if not (root / ".git").exists():
        return sorted(unpacked_files(root))
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout
    return sorted(root / name for name in set(listed.split("\0")) - {""} if (root / name).is_file())


def unpacked_files(root: Path) -> Iterator[Path]:
    ignore = root / ".gitignore"
    patterns = [line.strip("/") for line in ignore.read_text("utf-8").split()] if ignore.exists() else []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in patterns)]
        kept = (name for name in names if not any(fnmatch(name, pattern) for pattern in patterns))
        yield from (Path(folder, name) for name in kept)


@cache
def product_files(root: Path, *suffixes: str) -> Sequence[Path]:
    return [
        path
        for path in kept_files(root)
        if path.suffix in suffixes and path.relative_to(root).parts[0] in {"server", "scheduler", "tools", "widgets"}
    ]


def where(root: Path, path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(root)}" + (f":{line}" if line else "")


def configuration(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a module once for all checks."""
    return ast.parse(text_of(path))


@cache
def nodes_of(tree: ast.Module) -> Sequence[ast.AST]:
    """Return all that a module is made of, walked once for all checks."""
    return tuple(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every absolute name that is imported, as `package.module` or `package.module.name`."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            yield from ((node.lineno, f"{'.' * node.level}{start}{alias.name}") for alias in node.names)


def imported_late(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module that a string names, for an import when it is needed: in a call, a constant or a table."""
    texts = ((node.lineno, node.value) for node in nodes_of(tree) if isinstance(node, ast.Constant))
    for line, text in texts:
        if isinstance(text, str) and (found := MODULE_NAME.fullmatch(text)):
            yield line, found[1]


# --- the checks -----------------------------------------------------------------------------------------------------


def strangers_at_the_top(root: Path) -> list[str]:
    found = {path.relative_to(root).parts[0] for path in kept_files(root)}
    missing = sorted(f"{name}: missing at the top level" for name in TOP_LEVEL - found)
    return missing + sorted(f"{name}: does not belong at the top level" for name in found - TOP_LEVEL)


def package_of(folder: str) -> str:
    """`scheduler/store` -> `duetime.scheduler.store`."""
    if folder == "server/duetime":
        return FOLDERS[folder]
    first, *rest = folder.split("/")
    return ".".join([FOLDERS[first], *rest])


def packages_that_differ(root: Path) -> list[str]:
    declared = configuration(root)["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in product_files(root, ".py")}
    present = {package_of(folder.relative_to(root).as_posix()): folder for folder in folders}
    return [
        *(f"{name}: not in the packages of pyproject.toml" for name in sorted(present.keys() - set(declared))),
        *(f"{name}: declared, but there is no such folder" for name in sorted(set(declared) - present.keys())),
        *(f"{where(root, folder)}: no __init__.py" for folder in folders if not (folder / "__init__.py").exists()),
        *(f"{name}: declared twice" for name in sorted({name for name in declared if declared.count(name) > 1})),
    ]


def long_modules(root: Path) -> list[str]:
    lengths = {path: len(text_of(path).splitlines()) for path in product_files(root, ".py", ".js", ".ts", ".lua")}
    return [f"{where(root, path)}: {lines} lines" for path, lines in lengths.items() if lines > MAX_MODULE_LINES]


def function_lengths(root: Path) -> list[int]:
    """Lines of each function from `def` to its end, docstring and all."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in product_files(root, ".py")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def long_functions_in_the_median(root: Path) -> list[str]:
    median = statistics.median(function_lengths(root) or [0])
    return [f"the median function has {median:g} lines"] if median > MAX_MEDIAN_FUNCTION_LINES else []


def long_functions(root: Path) -> list[str]:
    """List functions that are several; each version is one step of a schema."""
    return [
        f"{where(root, path, node.lineno)}: {node.name} has {lines} lines"
        for path in product_files(root, ".py")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and path.parent != root / VERSIONS
        for lines in [(node.end_lineno or node.lineno) - node.lineno + 1]
        if lines > MAX_FUNCTION_LINES
    ]


def long_signatures(root: Path) -> list[str]:
    """List functions whose callers give more than a reader keeps in mind: some of it belongs together, as one value.

    Records and rows have as many parts as they have. Typer reads the options of a verb off its parameters. Of an
    overloaded function its callers read the overloads.
    """
    return [
        f"{where(root, path, function.lineno)}: {function.name} has {count} parameters"
        for path in product_files(root, ".py")
        for function in nodes_of(parsed(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if (count := len(parameters(function))) > MAX_PARAMETERS
        if not (is_verb(function) or makes_row(function) or is_overloaded(function, parsed(path)))
    ]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [each for each in named if each is not None and each.arg not in {"self", "cls"}]


def is_verb(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = parameters(function)[0].annotation
    return first is not None and ast.unparse(first) == "typer.Context"


def makes_row(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function does no more than to return a mapping with a member for each of its parameters."""
    last = function.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Dict) or len(function.body) > MAX_ROW_LINES:
        return False
    return len(last.value.values) >= len(parameters(function))


def is_overloaded(function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module) -> bool:
    """Whether a function has overloads, of which this is none."""
    named = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function.name]
    overloads = [each for each in named if any("overload" in ast.unparse(mark) for mark in each.decorator_list)]
    return bool(overloads) and function not in overloads


def crowded_rooms(root: Path) -> list[str]:
    """Folders with more modules, scripts or templates than a reader keeps in mind."""
    files = product_files(root, ".py", ".lua", ".js", ".ts", ".sql", ".html")
    counted = Counter(path.parent for path in files if path.name != "__init__.py")
    return [
        f"{where(root, folder)}: {modules} modules"
        for folder, modules in counted.items()
        if modules > MAX_MODULES_PER_ROOM and folder != root / VERSIONS
    ]


def names_defined_twice(root: Path) -> list[str]:
    """Classes and type aliases of one name in several modules: a reader, or a search, finds the wrong one."""
    return defined_twice(root, type_names)


def constants_defined_twice(root: Path) -> list[str]:
    """Public constants of one name in several modules: one is imported, or the names say how the values differ."""
    return defined_twice(root, public_constants)


def defined_twice(root: Path, names_of: Callable[[ast.Module], Iterator[str]]) -> list[str]:
    homes: dict[str, list[str]] = {}
    for path in product_files(root, ".py"):
        if path.parent != root / VERSIONS:
            for name in {*names_of(parsed(path))}:
                homes.setdefault(name, []).append(where(root, path))
    return [f"{name}: defined in {' and '.join(found)}" for name, found in sorted(homes.items()) if len(found) > 1]


def type_names(tree: ast.Module) -> Iterator[str]:
    """Classes, and names like those of classes that a module assigns; a single letter is a type variable."""
    yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef))
    yield from (name for name in assigned(tree) if re.fullmatch(r"_?[A-Z][a-z]\w*", name))


def public_constants(tree: ast.Module) -> Iterator[str]:
    """Names in capitals that a module assigns; a single letter is a type variable."""
    return (name for name in assigned(tree) if re.fullmatch(r"[A-Z][A-Z0-9_]+", name))


def assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def gerunds(root: Path) -> list[str]:
    """Modules named by what somebody is doing, not by a thing or by what it does."""
    paths = [path.relative_to(root) for path in product_files(root, ".py", ".js", ".ts", ".lua")]
    parts = {(path, part) for path in paths for part in [*path.parent.parts, path.stem]}
    return sorted(f"{path}: {part} is a gerund" for path, part in parts if is_gerund(part))


def is_gerund(name: str) -> bool:
    return any(word.endswith("ing") and word not in NOUNS_IN_ING for word in name.split("_"))


def no_nouns(root: Path) -> list[str]:
    """Modules whose last word is a participle, an adverb or a preposition: a reader asks what it is that was sent."""
    paths = [path.relative_to(root) for path in product_files(root, ".py", ".js")]
    return sorted(f"{path}: {path.stem} is no noun" for path in paths if is_no_noun(path.stem.split("_")[-1]))


def is_no_noun(word: str) -> bool:
    return word in ADVERBS or (word.endswith(("ed", "en", "ly")) and word not in NOUNS_LIKE_PARTICIPLES)


def vague_names(root: Path) -> list[str]:
    paths = [path.relative_to(root) for path in product_files(root, ".py", ".js", ".ts")]
    return [f"{path}: name it by what it is" for path in paths if VAGUE & {*path.parent.parts, path.stem}]


def bare_imports(root: Path) -> list[str]:
    tops = {folder for folder in FOLDERS if "/" not in folder}
    return [
        f"{where(root, path, line)}: import duetime.{name}"
        for path in kept_files(root)
        if path.suffix == ".py"
        for line, name in imported(parsed(path))
        if name.split(".")[0] in tops
    ]


def late_imports_of_nothing(root: Path) -> list[str]:
    """List what is imported by its name in a string, for a quick start, and is not there; mypy cannot tell."""
    return [
        f"{where(root, path)}: {module} has no {name or 'module'}"
        for path in product_files(root, ".py")
        for module, name in LATE_IMPORT.findall(text_of(path))
        if not defines(root, module, name)
    ]


def defines(root: Path, module: str, name: str) -> bool:
    folder, package = max(
        FOLDERS.items(), key=lambda pair: len(pair[1]) if f"{module}.".startswith(f"{pair[1]}.") else 0
    )
    parts = module.removeprefix(package).strip(".").split(".")
    place = root.joinpath(folder, *filter(None, parts))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.exists():
            return re.search(rf"^(?:def |class |from .*){name}\b|^{name}\b", text_of(path), re.MULTILINE) is not None
    return False


def late_imports_upwards(root: Path) -> list[str]:
    """List imports by a string against the layers of import-linter, which reads no strings."""
    inside = {module_of(root, path): path for path in product_files(root, ".py")}
    layers = layers_of(root)
    return [
        f"{where(root, path, line)}: {one} imports {other}, which is above it or apart from it"
        for module, path in inside.items()
        for line, name in imported_late(parsed(path))
        if (late := exact(name, inside))
        for folder, one, other in [parted(module, late)]
        if not may_import_layer(layers.get(f"{folder}.{one}"), layers.get(f"{folder}.{other}")) and one != other
    ]


def layers_of(root: Path) -> dict[str, tuple[int, str]]:
    """Return the layer of each module and room that a contract names: its number from above, and its text."""
    contracts = configuration(root)["tool"]["importlinter"]["contracts"]
    return {
        ".".join(filter(None, (container, name))): (number, layer)
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract.get("containers", [""])
        for number, layer in enumerate(contract["layers"])
        for name in re.split(r" [|:] ", layer)
    }


def may_import_layer(one: tuple[int, str] | None, other: tuple[int, str] | None) -> bool:
    """Whether a layer may import another one: one below it, or its own where its parts are not kept apart by `|`."""
    if one is None or other is None:
        return True
    return one[0] < other[0] or (one[0] == other[0] and "|" not in one[1])


def circles_of_rooms(root: Path) -> list[str]:
    """List what lies in one folder, rooms and modules, and imports each other in a circle.

    A room counts as one, with all that is in it. Imports for the type checker alone count too, and
    those by a string: a reader follows them.
    """
    inside = {module_of(root, path): path for path in product_files(root, ".py")}
    arrows: dict[str, dict[str, set[str]]] = {}
    for module, path in inside.items():
        late = {exact(name, inside) for _, name in imported_late(parsed(path))}
        for name in ({resolved(name, inside) for _, name in imported(parsed(path))} | late) - {""}:
            folder, one, other = parted(module, name)
            if one != other:
                arrows.setdefault(folder, {}).setdefault(one, set()).add(other)
    return sorted(f"{folder}: {one} imports itself by way of others" for folder, one in turning(arrows))


def module_of(root: Path, path: Path) -> str:
    """`scheduler/store/__init__.py` -> `duetime.scheduler.store.__init__`: the face of a room is a module in it."""
    return f"{package_of(path.parent.relative_to(root).as_posix())}.{path.stem}"


def resolved(name: str, inside: Collection[str]) -> str:
    """Return the module of the product that an imported name belongs to; empty where it is of none."""
    while name:
        if found := exact(name, inside):
            return found
        name = name.rpartition(".")[0]
    return ""


def exact(name: str, inside: Collection[str]) -> str:
    """Return the module that a string names, with nothing behind it; empty where it names none."""
    return next((module for module in (name, f"{name}.__init__") if module in inside), "")


def parted(module: str, other: str) -> tuple[str, str, str]:
    """Return the folder that holds both, and what of it holds each."""
    one, two = module.split("."), other.split(".")
    same = next((n for n, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), len(one) - 1)
    return ".".join(one[:same]), one[same], two[same]


def turning(arrows: Mapping[str, Mapping[str, set[str]]]) -> Iterator[tuple[str, str]]:
    for folder, of_folder in arrows.items():
        for start in of_folder:
            reached: set[str] = set()
            ahead = [start]
            while ahead:
                new = of_folder.get(ahead.pop(), set()) - reached
                reached |= new
                ahead += new
            if start in reached:
                yield folder, start


def rule_files(root: Path) -> list[Path]:
    """Modules of `scheduler/rules` and of every room inside it."""
    return [path for path in product_files(root, ".py") if root / "scheduler" / "rules" in path.parents]


def word_files(root: Path) -> list[Path]:
    scheduler = root / "scheduler"
    return [path for path in product_files(root, ".py") if path.parent == scheduler and path.stem in WORDS]


def indirect_openings(root: Path) -> list[str]:
    """Sentences of docstrings, those below constants too, that open with a relative clause in place of a noun."""
    return [
        f"{where(root, path, text.lineno)}: opens with {found[1].split()[0]}; name the thing"
        for path in kept_files(root)
        if path.suffix == ".py"
        for text in docstrings(parsed(path))
        for found in INDIRECT_OPENING.finditer(str(text.value))
    ]


def openings_with_how_or_tell(root: Path) -> list[str]:
    """Docstrings that open with How, or with Tell in place of Return, Report, Notify, or Whether."""
    return [
        f"{where(root, path, text.lineno)}: opens with {found[1]}; name the thing"
        for path in kept_files(root)
        if path.suffix == ".py"
        for text in docstrings(parsed(path))
        if (found := re.match(r"\s*(How|Tells?|Hears?)\b", str(text.value)))
    ]


def long_sentences(root: Path) -> list[str]:
    """Sentences of docstrings with more words than a reader keeps in mind; tables and indented blocks are left out."""
    return [
        f"{where(root, path, text.lineno)}: {len(sentence.split())} words in one sentence: {sentence[:40]}"
        for path in kept_files(root)
        if path.suffix == ".py"
        for text in docstrings(parsed(path))
        for paragraph in PARAGRAPH_BREAK.split(inspect.cleandoc(str(text.value)))
        if not paragraph.startswith(("    ", "|"))
        for sentence in SENTENCE_BREAK.split(" ".join(paragraph.split()))
        if len(sentence.split()) > MAX_SENTENCE_WORDS
    ]


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def phrases(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the strings of more than one word, docstrings too; a single word is a name."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node


def figures_of_speech(root: Path) -> list[str]:
    """Strings, docstrings and comments with a word that this field does not use; tests quote what they like."""
    texts = [
        (path, text.lineno, str(text.value))
        for path in kept_files(root)
        if path.suffix == ".py"
        for text in (docstrings if path.relative_to(root).parts[0] == "tests" else phrases)(parsed(path))
    ]
    comments = [
        (path, number, found[1])
        for path in kept_files(root)
        if path.suffix == ".py"
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if (found := COMMENT.search(line))
    ]
    names = [
        (path, line, name.replace("_", " ").strip())
        for path in product_files(root, ".py")
        for line, name in chain.from_iterable(map(names_bound, nodes_of(parsed(path))))
    ]
    return [
        f"{where(root, path, line)}: {found[0]}"
        for path, line, text in texts + comments + names
        for found in FIGURES_OF_SPEECH.finditer(text)
    ]


def names_bound(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the name that a node gives to something: a function, a class, a parameter, a variable, a field."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.lineno, node.name
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id


def programs_as_persons(root: Path) -> list[str]:
    """List docstrings of the product that say of a program what persons do."""
    return [
        f"{where(root, path, text.lineno)}: {found[0]}"
        for path in product_files(root, ".py")
        for text in docstrings(parsed(path))
        for found in WORDS_OF_PERSONS.finditer(" ".join(str(text.value).split()))
    ]


def figures_of_speech_in_scripts(root: Path) -> list[str]:
    """Lines of templates, styles and scripts with such a word, names too; built pages repeat what they are built of."""
    return [
        f"{where(root, path, number)}: {found[0]}"
        for path in kept_files(root)
        if path.suffix in {".html", ".css", ".js", ".mjs", ".ts", ".tsx", ".lua"} and path.parent.name != "html"
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for found in FIGURES_OF_SPEECH.finditer(line)
    ]


def figures_of_speech_in_pages(root: Path) -> list[str]:
    """Lines of pages with such a word; code and quoted requests of people may have any."""
    return [
        f"{where(root, path, number)}: {found[0]}"
        for path in kept_files(root)
        if path.suffix == ".md"
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if not line.startswith(">")
        for found in FIGURES_OF_SPEECH.finditer(re.sub(r"`[^`]*`", "", line))
    ]


def indirect_names_of_tests(root: Path) -> list[str]:
    """Names of tests that open with a relative clause in place of a noun, or have such a word, or repeat in a file."""
    return [
        f"{where(root, path, line)}: {name}: {problem}"
        for path in kept_files(root)
        if path.suffix == ".py" and path.relative_to(root).parts[0] == "tests"
        for line, name, problem in wrong_names(parsed(path))
    ]


def wrong_names(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    seen = set[str]()
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        words = node.name.removeprefix("test_").replace("_", " ")
        if node.name in seen:
            yield node.lineno, node.name, "is there twice"
        if found := FIGURES_OF_SPEECH.search(words) or INDIRECT_NAME.match(words):
            yield node.lineno, node.name, found[0]
        seen.add(node.name)


def numbers_without_a_unit(root: Path) -> list[str]:
    """Constants of modules and classes that are numbers end in a unit, or are the MAX_ or MIN_ of counted things."""
    return [
        f"{where(root, path, line)}: {name} has no unit"
        for path in kept_files(root)
        if path.suffix == ".py"
        for line, name in numeric_constants(parsed(path))
        if not MEASURED.fullmatch(name)
    ]


def numeric_constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of a module's numbers and its classes'; members of an enum stand for no amount."""
    classes = (node for node in nodes_of(tree) if isinstance(node, ast.ClassDef))
    bodies = (each.body for each in classes if not any("Enum" in ast.unparse(base) for base in each.bases))
    for node in chain(tree.body, chain.from_iterable(bodies)):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = chain.from_iterable(pairs(target, node.value) for target in targets)
            yield from ((node.lineno, name) for name, value in named if name.isupper() and is_number(value))


def numbers_together_without_a_unit(root: Path) -> list[str]:
    """Constants that are collections of numbers have a unit, as a number has; tests have samples."""
    return [
        f"{where(root, path, node.lineno)}: {name} has no unit"
        for path in kept_files(root)
        if path.suffix == ".py" and path.relative_to(root).parts[0] != "tests"
        for node in parsed(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in assigned(ast.Module([node], []))
        if name.isupper() and are_numbers(node.value) and not MEASURED.fullmatch(name)
    ]


def are_numbers(node: ast.expr | None) -> bool:
    """Whether this is a collection of numbers alone; of a mapping its values count."""
    parts = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return bool(parts) and all(map(is_number, parts))


def pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield each name that an assignment binds with its value."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from chain.from_iterable(map(pairs, target.elts, value.elts))


def is_number(node: ast.expr | None) -> bool:
    """Whether this is a literal number, a call that returns one, or arithmetic; a name alone takes the unit it has."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in NUMERIC_CALLS
    if isinstance(node, ast.BinOp):
        parts = (node.left, node.right)
        return any(map(is_number, parts)) and all(is_number(one) or isinstance(one, ast.Name) for one in parts)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def twins_with_two_names(root: Path) -> list[str]:
    """Numbers that Python gives to Lua under another name, and numbers that Lua has of its own."""
    given = [
        f"{where(root, path, key.lineno)}: Lua calls {ast.unparse(value)} {key.value}"
        for path in product_files(root, ".py")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.Dict) and "redis" in path.parts
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Name | ast.Attribute)
        if key.value.isupper() and ast.unparse(value).split(".")[-1] != key.value
    ]
    own = [
        f"{where(root, path)}: {name} is a number of Lua alone"
        for path in product_files(root, ".lua")
        for name in LUA_NUMBER.findall(text_of(path))
    ]
    return given + own


def impure_imports(root: Path) -> list[str]:
    """Rules import the standard library (and its back-port), the words and each other; words no rules either."""
    words = {"typing_extensions"} | {f"duetime.scheduler.{word}" for word in WORDS}
    judged = [(path, words | {"duetime.scheduler.rules"}, IMPURE_LIBRARY) for path in rule_files(root)]
    judged += [(path, words, set()) for path in word_files(root)]
    return [
        f"{where(root, path, line)}: {name}"
        for path, allowed, impure in judged
        for line, name in imported(parsed(path))
        if not may_import(name, allowed) or is_within(name, impure)
    ]


def may_import(name: str, allowed: set[str]) -> bool:
    return name.split(".", maxsplit=1)[0] in sys.stdlib_module_names or is_within(name, allowed)


def is_within(name: str, modules: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in modules)


def clocks_in_rules(root: Path) -> list[str]:
    """Deciding is pure: `now` is an argument, so that every decision can be asked again."""
    return [
        f"{where(root, path, node.lineno)}: {ast.unparse(node)} reads the clock"
        for path in rule_files(root)
        for node in nodes_of(parsed(path))
        if reads_clock(node)
    ]


def reads_clock(node: ast.AST) -> TypeGuard[ast.Attribute | ast.ImportFrom]:
    """Whether this is a clock of `time` or `datetime`, under whatever name these go, or the import of one."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "time" and any(each.name in CLOCKS for each in node.names)
    return isinstance(node, ast.Attribute) and node.attr in CLOCKS and is_clock_module(ast.unparse(node.value))


def is_clock_module(text: str) -> bool:
    return text.rsplit(".", maxsplit=1)[-1] in {"datetime", "date", "time", "dt"}


def excuses(root: Path) -> list[str]:
    """Whole files switched off, excuses without a reason, and those that no reason can carry."""
    files = [path for path in kept_files(root) if path.suffix == ".py" and path.name != Path(__file__).name]
    lines = [(path, n, text) for path in files for n, text in enumerate(text_of(path).splitlines(), 1)]
    return [f"{where(root, path, n)}: {text.strip()}" for path, n, text in lines if is_bad_excuse(text)]


def is_bad_excuse(line: str) -> bool:
    if "#" not in line:
        return False
    if SWITCHED_OFF.search(line):
        return True
    found = EXCUSE.search(line)
    if found is None:
        return False
    codes = {code.strip() for code in (found["codes"] or "").split(",")}
    reason = found["reason"].strip(" -:#")
    return found["mark"] in {"noqa", "type: ignore"} or bool(codes & NEVER_EXCUSED) or not reason


def exemptions(root: Path) -> list[str]:
    """Ways to exempt a file from a budget or a contract in the configuration."""
    tool = configuration(root)["tool"]
    lint = tool["ruff"]["lint"]
    ignored = {"ignore": lint.get("ignore", []), **lint.get("per-file-ignores", {})}
    ignored |= {"extend-ignore": lint.get("extend-ignore", []), **lint.get("extend-per-file-ignores", {})}
    typed = [tool["mypy"], *tool["mypy"].get("overrides", [])]
    return [
        *(f"ruff: {place} ignores {rule}" for place, rules in ignored.items() for rule in excusing(rules)),
        *(f"ruff: {key}" for key in ("exclude", "extend-exclude", "force-exclude") if key in {**tool["ruff"], **lint}),
        *(f"ruff: select is {lint['select']}, not ALL" for _ in [0] if lint["select"] != ["ALL"]),
        *(f"import-linter: {c['name']} ignores imports" for c in tool["importlinter"]["contracts"] if spares(c)),
        *(
            f"mypy: {key}"
            for part in typed
            for key in ("ignore_errors", "disable_error_code", "exclude")
            if part.get(key)
        ),
        *("mypy: follow_imports" for part in typed if part.get("follow_imports", "normal") != "normal"),
    ]


def excusing(rules: list[str]) -> list[str]:
    return [rule for rule in rules if any(code.startswith(rule) for code in NEVER_EXCUSED)]


def private_names(root: Path) -> list[str]:
    """Ruff makes each use of another's private name an excuse; those of the MCP SDK stand in one module."""
    return [
        f"{where(root, path, number)}: a private name of the SDK outside {SDK_MODULE}"
        for path in product_files(root, ".py")
        if path.relative_to(root).parts[0] in {"server", "tools"} and path != root / SDK_MODULE
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if "SLF001" in line
    ]


def dialects_by_name(root: Path) -> list[str]:
    """Statements that ask which database they run on; a migration is written for one schema, and may."""
    return [
        f"{where(root, path, node.lineno)}: {ast.unparse(node)} outside {DIALECT_MODULE}"
        for path in product_files(root, ".py")
        if path != root / DIALECT_MODULE and "migrations" not in path.parts
        for node in nodes_of(parsed(path))
        if is_dialect_name(node)
    ]


def is_dialect_name(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Call]:
    """Whether this is the name of a dialect or an engine, or a check of the class of a dialect."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args:
        return ast.unparse(node.args[0]).split(".")[-1] == "dialect"
    return isinstance(node, ast.Attribute) and ast.unparse(node).split(".")[-2:] in (
        ["dialect", "name"],
        ["engine", "name"],
    )


def migrations_out_of_line(root: Path) -> list[str]:
    """Versions of the schema of which two have one number, or that do not follow the one before."""
    found = sorted(
        path for path in product_files(root, ".py") if path.parent == root / VERSIONS and path.stem[:4].isdigit()
    )
    numbers = [path.stem[:4] for path in found]
    return [
        f"{where(root, path)}: is version {number}, expected {expected:04}"
        for expected, (path, number) in enumerate(zip(found, numbers, strict=True), 1)
        if number != f"{expected:04}" or f'revision = "{number}"' not in text_of(path)
    ]


def logs_in_place_of_notices(root: Path) -> list[str]:
    """List log calls of the scheduler that an event or a notice has to make: none is in an `except` block.

    The block that catches an exception logs it, since a defect has to be in the log whoever subscribes.
    """
    return [
        f"{where(root, path, node.lineno)}: report it by RunNotifier, or log it where it is caught"
        for path in product_files(root, ".py")
        if path.relative_to(root).parts[0] == "scheduler" and path.relative_to(root).parts[1] not in LOGGING_ROOMS
        for node in log_calls(parsed(path), caught=False)
    ]


def log_calls(node: ast.AST, *, caught: bool) -> Iterator[ast.Call]:
    """Yield the log calls outside `except` blocks; a function that such a block defines is outside again."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and LOG_CALL.fullmatch(ast.unparse(child.func)) and not caught:
            yield child
        inside = caught or isinstance(child, ast.ExceptHandler)
        yield from log_calls(child, caught=inside and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def spares(contract: dict[str, Any]) -> bool:
    return bool(contract.get("ignore_imports") or contract.get("exhaustive_ignores"))


CHECKS: list[Callable[[Path], list[str]]] = [
    strangers_at_the_top,
    packages_that_differ,
    long_modules,
    long_functions_in_the_median,
    long_functions,
    long_signatures,
    crowded_rooms,
    names_defined_twice,
    constants_defined_twice,
    gerunds,
    no_nouns,
    vague_names,
    bare_imports,
    late_imports_of_nothing,
    late_imports_upwards,
    indirect_openings,
    openings_with_how_or_tell,
    long_sentences,
    figures_of_speech,
    programs_as_persons,
    figures_of_speech_in_scripts,
    figures_of_speech_in_pages,
    indirect_names_of_tests,
    numbers_without_a_unit,
    numbers_together_without_a_unit,
    twins_with_two_names,
    circles_of_rooms,
    impure_imports,
    clocks_in_rules,
    excuses,
    private_names,
    dialects_by_name,
    migrations_out_of_line,
    logs_in_place_of_notices,
    exemptions,
]


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Let go of all files behind the last check."""
    yield
    for each in (kept_files, product_files, text_of, parsed, nodes_of):
        each.cache_clear()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_house_keeps_its_shape(check: Callable[[Path], list[str]]) -> None:
    assert check(ROOT) == []


# --- each check can fail --------------------------------------------------------------------------------------------


def bad_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def test_an_unpacked_archive_is_judged_without_what_its_use_left_behind(tmp_path: Path) -> None:
    tree = bad_tree(tmp_path, {".gitignore": ".venv/\n*.db\n", ".venv/lib/a.py": "", "a.db": "", "tools/a.py": ""})
    assert kept_files(tree) == [tree / ".gitignore", tree / "tools/a.py"]


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 9
LAYERS = '{type = "layers", containers = ["duetime.scheduler"], layers = ["store | queue", "rules"]}'
SEEDS: list[tuple[Callable[[Path], list[str]], dict[str, str], str]] = [
    (strangers_at_the_top, {"utils.sh": "", "server/__init__.py": ""}, "utils.sh: does not belong"),
    (strangers_at_the_top, {"server/__init__.py": ""}, "LICENSE: missing"),
    (
        packages_that_differ,
        {"pyproject.toml": "[tool.setuptools]\npackages = []", "scheduler/store/__init__.py": ""},
        "duetime.scheduler.store: not in the packages",
    ),
    (packages_that_differ, {"pyproject.toml": '[tool.setuptools]\npackages = ["duetime"]'}, "duetime: declared, but"),
    (packages_that_differ, {"pyproject.toml": "[tool.setuptools]\npackages = []", "tools/a.py": ""}, "no __init__.py"),
    (long_modules, {"scheduler/long.py": "x = 1\n" * 301}, "scheduler/long.py: 301 lines"),
    (long_modules, {"widgets/src/long.js": "1;\n" * 301}, "widgets/src/long.js: 301 lines"),
    (long_modules, {"scheduler/queue/lua/long.lua": "f()\n" * 301}, "long.lua: 301 lines"),
    (long_functions_in_the_median, {"tools/a.py": LONG_FUNCTION * 3}, "the median function has 10 lines"),
    (long_functions, {"tools/versions/a.py": "def f():\n" + "    x = 1\n" * 40}, "a.py:1: f has 41 lines"),
    (long_functions, {"tools/a.py": "def f():\n" + "    x = 1\n" * 40}, "tools/a.py:1: f has 41 lines"),
    (
        long_signatures,
        {"tools/a.py": "class A:\n    def __init__(self, a, b, c, d, *, e, f, g, h, **i): ..."},
        "a.py:2: __init__ has 9 parameters",
    ),
    (
        long_signatures,
        {"tools/a.py": "@overload\ndef f(a, b, c, d, e, f, g, h, i): ...\ndef f(**more): ..."},
        "a.py:2: f has 9 parameters",
    ),
    (long_signatures, {"tools/a.py": "def f(a, b, c, d, e, f, g, h, i):\n    return {1: a}"}, "f has 9 parameters"),
    (crowded_rooms, {f"tools/m{n}.py": "" for n in range(15)}, "tools: 15 modules"),
    (crowded_rooms, {f"scheduler/queue/lua/m{n}.lua": "" for n in range(15)}, "lua: 15 modules"),
    (crowded_rooms, {f"widgets/src/m{n}.{kind}": "" for n in range(5) for kind in ("js", "sql", "html")}, "src: 15"),
    (
        names_defined_twice,
        {"tools/a.py": "class Plan: ...", "server/b.py": "Plan = dict[str, int]"},
        "Plan: defined in",
    ),
    (
        constants_defined_twice,
        {"tools/a.py": "MAX_ROWS = 50", "server/b.py": "MAX_ROWS: Final = 100"},
        "MAX_ROWS: defined in server/b.py and tools/a.py",
    ),
    (gerunds, {"scheduler/store/adding.py": ""}, "adding is a gerund"),
    (gerunds, {"scheduler/rules/at_placing/a.py": ""}, "at_placing is a gerund"),
    (no_nouns, {"scheduler/store/taken.py": ""}, "taken is no noun"),
    (no_nouns, {"tools/admin/runs_asked.py": "", "scheduler/store/asked_run.py": ""}, "runs_asked is no noun"),
    (no_nouns, {"scheduler/chain/after.py": ""}, "after is no noun"),
    (vague_names, {"scheduler/utils.py": ""}, "scheduler/utils.py"),
    (vague_names, {"server/common/clock.py": ""}, "server/common/clock.py"),
    (bare_imports, {"tests/test_a.py": "from tools.schedule import x"}, "tests/test_a.py:1"),
    (late_imports_of_nothing, {"tools/a.py": 'import_module("duetime.tools.b")'}, "duetime.tools.b has no module"),
    (
        late_imports_of_nothing,
        {"server/a.py": 'import_module("duetime.server.cli.b").Old', "server/cli/b.py": "class New: ..."},
        "duetime.server.cli.b has no Old",
    ),
    (
        late_imports_upwards,
        {
            "pyproject.toml": f"[tool.importlinter]\ncontracts = [{LAYERS}]",
            "scheduler/rules/a.py": 'OPENED = "duetime.scheduler.store.b:open_store"',
            "scheduler/store/b.py": "",
        },
        "scheduler/rules/a.py:1: rules imports store",
    ),
    (
        late_imports_upwards,
        {
            "pyproject.toml": f"[tool.importlinter]\ncontracts = [{LAYERS}]",
            "scheduler/queue/a.py": 'f("duetime.scheduler.store.b")',
            "scheduler/store/b.py": "",
        },
        "scheduler/queue/a.py:1: queue imports store",
    ),
    (indirect_openings, {"tools/a.py": '"""What a tool does."""'}, "tools/a.py:1: opens with What"),
    (indirect_openings, {"tests/a.py": '"""What a test does."""'}, "tests/a.py:1: opens with What"),
    (indirect_openings, {"tools/a.py": 'class A:\n    """Those that wait."""'}, "tools/a.py:2: opens with Those"),
    (indirect_openings, {"tools/a.py": 'def f():\n    """\n    One that waits."""'}, "tools/a.py:2: opens with One"),
    (indirect_openings, {"tools/a.py": 'WAIT_S = 5\n"""Whose turn it is."""'}, "tools/a.py:2: opens with Whose"),
    (indirect_openings, {"tools/a.py": '"""A tool. What it does."""'}, "tools/a.py:1: opens with What"),
    (indirect_openings, {"tools/a.py": '"""A tool.\n\nThose that wait."""'}, "tools/a.py:1: opens with Those"),
    (indirect_openings, {"tools/a.py": '"""A tool: it\nruns.\nOne that waits."""'}, "tools/a.py:1: opens with One"),
    (openings_with_how_or_tell, {"tools/a.py": '"""How a tool ends."""'}, "tools/a.py:1: opens with How"),
    (openings_with_how_or_tell, {"tools/a.py": '"""Tell the user."""'}, "tools/a.py:1: opens with Tell"),
    (
        long_sentences,
        {"tools/a.py": f'"""Ends.\n\n    {"code " * 40}\n\nAlso. {"A " * 25}.\n{"Word " * 25}end.\n"""'},
        "tools/a.py:1: 26 words in one sentence: Word Word",
    ),
    (figures_of_speech, {"tools/a.py": 'log("filled anew from the store")'}, "tools/a.py:1: anew"),
    (figures_of_speech, {"tools/a.py": 'log(f"{count} runs started meanwhile")'}, "tools/a.py:1: meanwhile"),
    (figures_of_speech, {"server/a.py": '"""A stream that tells changes."""'}, "server/a.py:1: tells"),
    (figures_of_speech, {"tests/a.py": '"""It starts anew."""'}, "tests/a.py:1: anew"),
    (figures_of_speech, {"examples/a.py": '"""It tells failures."""'}, "examples/a.py:1: tells"),
    (figures_of_speech, {"tools/a.py": "x = 1\n# it starts anew"}, "tools/a.py:2: anew"),
    (figures_of_speech, {"tests/a.py": "x = 1\n# meanwhile"}, "tests/a.py:2: meanwhile"),
    (figures_of_speech, {"scheduler/rules/a.py": "class A:\n    anew: bool = False"}, "a.py:2: anew"),
    (figures_of_speech, {"scheduler/rules/a.py": "def starts_anew(run): ..."}, "a.py:1: anew"),
    (figures_of_speech, {"scheduler/rules/a.py": "_BESIDE = 'x'"}, "a.py:1: BESIDE"),
    (figures_of_speech_in_scripts, {"server/admin/templates/a.html": "<p>\n<p>Sealed anew"}, "a.html:2: anew"),
    (figures_of_speech_in_scripts, {"widgets/src/a.js": "const beside = 1;"}, "widgets/src/a.js:1: beside"),
    (figures_of_speech_in_scripts, {"scheduler/queue/redis/lua/a.lua": "-- It hears."}, "a.lua:1: hears"),
    (figures_of_speech_in_scripts, {"examples/a/src/a.tsx": "/** It tells. */"}, "a.tsx:1: tells"),
    (figures_of_speech_in_pages, {"CHANGELOG.md": "A run holds nothing meanwhile."}, "CHANGELOG.md:1: meanwhile"),
    (
        indirect_names_of_tests,
        {"tests/a.py": "def test_a_run_starts_anew(): ..."},
        "tests/a.py:1: test_a_run_starts_anew",
    ),
    (indirect_names_of_tests, {"tests/a.py": "async def test_what_waits_stays(): ..."}, "stays: what"),
    (indirect_names_of_tests, {"tests/a.py": "def test_one_that_waits_stays(): ..."}, "stays: one that"),
    (
        indirect_names_of_tests,
        {"tests/a.py": "def test_it(): ...\ndef test_it(): ..."},
        "a.py:2: test_it: is there twice",
    ),
    (figures_of_speech_in_pages, {"benchmarks/README.md": "Run it meanwhile."}, "benchmarks/README.md:1: meanwhile"),
    (figures_of_speech_in_pages, {"docs/a.md": "# A\n\nIt lies beside the file."}, "docs/a.md:3: beside"),
    (
        circles_of_rooms,
        {
            "scheduler/store/sql/a.py": "from duetime.scheduler.store.statements.b import x",
            "scheduler/store/statements/b.py": "from duetime.scheduler.store import c",
            "scheduler/store/c.py": "if TYPE_CHECKING:\n    from duetime.scheduler.store.sql import a",
        },
        "duetime.scheduler.store: sql imports itself by way of others",
    ),
    (
        circles_of_rooms,
        {
            "scheduler/rules/time/__init__.py": "from duetime.scheduler.rules.order import x",
            "scheduler/rules/order.py": "import duetime.scheduler.rules.time",
        },
        "duetime.scheduler.rules: order imports itself by way of others",
    ),
    (
        circles_of_rooms,
        {"tools/a.py": "import duetime.server.b", "server/b.py": "import duetime.tools.c", "tools/c.py": ""},
        "duetime: server imports itself by way of others",
    ),
    (
        circles_of_rooms,
        {
            "server/cli/main.py": 'import_module("duetime.server.cli.verbs").run()',
            "server/cli/verbs.py": 'TABLE = ("duetime.server.cli.main:serve",)',
        },
        "duetime.server.cli: main imports itself by way of others",
    ),
    (numbers_without_a_unit, {"tools/a.py": "LONGEST = 60"}, "tools/a.py:1: LONGEST has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "LONGEST, SHORTEST = 60, 3"}, "tools/a.py:1: SHORTEST has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "NAME, (LEFT, RIGHT) = 'a', (1, 2)"}, "tools/a.py:1: RIGHT has no unit"),
    (
        numbers_without_a_unit,
        {"tools/a.py": "class A:\n    LONGEST: ClassVar = 60"},
        "tools/a.py:2: LONGEST has no unit",
    ),
    (numbers_without_a_unit, {"tools/a.py": "BASE = len(DIGITS)"}, "tools/a.py:1: BASE has no unit"),
    (
        numbers_without_a_unit,
        {"tools/a.py": "STEPS = int(os.environ.get('STEPS', '9'))"},
        "tools/a.py:1: STEPS has no unit",
    ),
    (numbers_without_a_unit, {"tests/flow/a.py": "PATIENCE = 60"}, "tests/flow/a.py:1: PATIENCE has no unit"),
    (numbers_without_a_unit, {"benchmarks/a.py": "THREADS = 8"}, "benchmarks/a.py:1: THREADS has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "_PAUSE: Final = 0.1"}, "tools/a.py:1: _PAUSE has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "MAX_BODY = 64 * 1024"}, "tools/a.py:1: MAX_BODY has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "MIN_ACCESS = -1"}, "tools/a.py:1: MIN_ACCESS has no unit"),
    (numbers_without_a_unit, {"tools/a.py": "TIMEOUT_VALUE = 5"}, "tools/a.py:1: TIMEOUT_VALUE has no unit"),
    (numbers_together_without_a_unit, {"tools/a.py": "_WAITS = (1, 5.0)"}, "tools/a.py:1: _WAITS has no unit"),
    (
        numbers_together_without_a_unit,
        {"tools/a.py": "WAIT: Final = {'day': 24 * 60, 'hour': 60}"},
        "tools/a.py:1: WAIT has no unit",
    ),
    (numbers_without_a_unit, {"tools/a.py": "DAY_S = 60.0\nWEEK = 7 * DAY_S"}, "tools/a.py:2: WEEK has no unit"),
    (
        twins_with_two_names,
        {"scheduler/queue/redis/a.py": 'x = {"CALM": CALM_AFTER_MS, "WAIT_MS": turns.WAIT_MS}'},
        "a.py:1: Lua calls CALM_AFTER_MS CALM",
    ),
    (twins_with_two_names, {"scheduler/queue/redis/lua/a.lua": "\nlocal SAVED = 2\n"}, "SAVED is a number of Lua"),
    (impure_imports, {"scheduler/rules/a.py": "import sqlalchemy"}, "scheduler/rules/a.py:1: sqlalchemy"),
    (impure_imports, {"scheduler/rules/a.py": "from duetime.scheduler import store"}, "duetime.scheduler.store"),
    (impure_imports, {"scheduler/rules/time/a.py": "import sqlalchemy"}, "scheduler/rules/time/a.py:1: sqlalchemy"),
    (impure_imports, {"scheduler/task.py": "from duetime.scheduler.rules import states"}, "rules.states"),
    (clocks_in_rules, {"scheduler/rules/a.py": "import datetime\nx = datetime.datetime.now()"}, "a.py:2"),
    (clocks_in_rules, {"scheduler/rules/time/a.py": "import time\nx = time.time()"}, "rules/time/a.py:2"),
    (clocks_in_rules, {"scheduler/rules/a.py": "from time import monotonic"}, "a.py:1"),
    (clocks_in_rules, {"scheduler/rules/a.py": "import time\nx = time.perf_counter()"}, "a.py:2"),
    (impure_imports, {"scheduler/rules/a.py": "import socket, zoneinfo"}, "a.py:1: socket"),
    (impure_imports, {"scheduler/rules/a.py": "import random"}, "a.py:1: random"),
    (excuses, {"tools/a.py": "import os  # noqa: F401\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "import os  # noqa\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "def f():  # noqa: C901 - a long story\n    pass\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "x: int = ''  # type: ignore - because\n"}, "tools/a.py:1"),
    (private_names, {"server/a.py": "server._x()  # noqa: SLF001 - no other way\n"}, "server/a.py:1"),
    (excuses, {"tools/a.py": "# ruff: noqa: E501\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "run(x)  # nosec\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "run(x)  # nosec B603\n"}, "tools/a.py:1"),
    (excuses, {"tools/a.py": "key = 'x'  # pragma: allowlist secret\n"}, "tools/a.py:1"),
    (
        migrations_out_of_line,
        {
            "scheduler/store/migrations/versions/0001_a.py": 'revision = "0001"',
            "scheduler/store/migrations/versions/0001_b.py": 'revision = "0001"',
        },
        "0001_b.py: is version 0001, expected 0002",
    ),
    (programs_as_persons, {"tools/a.py": '"""The loop goes\\non with the next run."""\n'}, "tools/a.py:1: goes on"),
    (programs_as_persons, {"tools/a.py": '"""Subscribers hear of it."""\n'}, "tools/a.py:1: hear"),
    (logs_in_place_of_notices, {"scheduler/worker/a.py": 'def f():\n    log.info("it ran")\n'}, "worker/a.py:2"),
    (
        logs_in_place_of_notices,
        {"scheduler/queue/a.py": "try:\n    f()\nexcept OSError:\n    def g():\n        log.error('x')\n    g()\n"},
        "queue/a.py:5",
    ),
    (
        dialects_by_name,
        {"scheduler/store/statements/a.py": 'if connection.dialect.name == "sqlite": ...'},
        "a.py:1: connection.dialect.name outside scheduler/store/schema/types.py",
    ),
]


@pytest.mark.parametrize(("check", "files", "expected"), SEEDS, ids=lambda value: getattr(value, "__name__", ""))
def test_each_check_refuses_a_bad_tree(
    tmp_path: Path, check: Callable[[Path], list[str]], files: dict[str, str], expected: str
) -> None:
    problems = check(bad_tree(tmp_path, files))
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('select = ["ALL"]', 'select = ["E", "F"]'),
        ('\n    "ANN401",', '\n    "C90", "ANN401",'),
        ('"tests/**" = [', '"tests/**" = ["TID251", '),
        ("[tool.ruff]\n", '[tool.ruff]\nexclude = ["scheduler"]\n'),
        ('select = ["ALL"]', 'select = ["ALL"]\nextend-ignore = ["C901"]'),
        ('select = ["ALL"]', 'select = ["ALL"]\nexclude = ["scheduler/**"]'),
        ("[tool.mypy]\n", '[tool.mypy]\nexclude = ["scheduler"]\n'),
        ("[tool.mypy]\n", '[tool.mypy]\ndisable_error_code = ["arg-type"]\n'),
        ("[tool.mypy]\n", '[[tool.mypy.overrides]]\nmodule = "duetime.*"\nfollow_imports = "skip"\n[tool.mypy]\n'),
        ("exhaustive = true", 'exhaustive = true\nexhaustive_ignores = ["nodes"]'),
        ("[tool.mypy]\n", '[[tool.mypy.overrides]]\nmodule = "duetime.*"\nignore_errors = true\n[tool.mypy]\n'),
    ],
)
def test_an_exemption_in_the_configuration_is_refused(tmp_path: Path, old: str, new: str) -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert old in text
    assert exemptions(bad_tree(tmp_path, {"pyproject.toml": text.replace(old, new, 1)}))


@pytest.mark.parametrize(
    "text",
    [
        "MAX_CLASSES_PER_TAKE = 1",
        "_MAX_ROWS_EXAMINED = 1",
        "LEASE_S = 30.0",
        "OLD = LEASE_S",
        "_UPGRADE_LOCK_ID = 7",
        "class A(IntEnum):\n    LOW = 1",
    ],
)
def test_a_number_with_its_unit_is_accepted(tmp_path: Path, text: str) -> None:
    assert not numbers_without_a_unit(bad_tree(tmp_path, {"tools/a.py": text}))


def test_a_private_constant_may_repeat(tmp_path: Path) -> None:
    assert not constants_defined_twice(
        bad_tree(tmp_path, dict.fromkeys(("tools/a.py", "server/b.py"), "_MAX_ROWS = 50"))
    )


def test_a_name_and_the_words_of_a_user_may_be_any(tmp_path: Path) -> None:
    page = "Its `beside` is a time.\n\n> Pause it meanwhile."
    tree = bad_tree(tmp_path, {"docs/a.md": page, "tools/a.py": '"""Its `beside` is a time."""\nx = "beside"'})
    assert not figures_of_speech(tree) + figures_of_speech_in_pages(tree)


def test_every_check_with_a_seed_judges_this_project() -> None:
    assert {check.__name__ for check, _, _ in SEEDS} <= {check.__name__ for check in CHECKS}


def test_a_log_line_of_an_exception_stands_where_it_is_caught(tmp_path: Path) -> None:
    caught = "try:\n    f()\nexcept OSError as error:\n    log.warning('no: %s', error)\n"
    files = {"scheduler/worker/a.py": caught, "scheduler/runtime/a.py": "log.info('it stops')\n"}
    assert logs_in_place_of_notices(bad_tree(tmp_path, files)) == []


def test_an_excuse_with_its_reason_is_accepted(tmp_path: Path) -> None:
    fine = "import os  # noqa: F401 - re-exported for plug-ins\nrun(x)  # nosec B603, B607 # a tool of the system\n"
    assert not excuses(bad_tree(tmp_path, {"tools/a.py": fine}))


# --- ruff: complexity and bare names are on, in the project's own configuration ---------------------------------------


def ruff_codes(path: Path) -> set[str]:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run([*command, "--output-format=json", str(path)], capture_output=True, check=False, text=True)
    return {problem["code"] for problem in json.loads(done.stdout)}


def branches(count: int) -> str:
    body = "".join(f"    if n == {number}:\n        n += 1\n" for number in range(count))
    return f'"""M."""\n\n\ndef f(n: int) -> int:\n{body}    return n\n'


def test_ruff_refuses_a_function_of_complexity_nine_and_not_of_eight(tmp_path: Path) -> None:
    (tmp_path / "eight.py").write_text(branches(7))
    (tmp_path / "nine.py").write_text(branches(8))
    assert "C901" not in ruff_codes(tmp_path / "eight.py")
    assert "C901" in ruff_codes(tmp_path / "nine.py")


@pytest.mark.parametrize("name", ["server", "scheduler", "tools", "widgets"])
def test_ruff_refuses_the_bare_name_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "bare.py").write_text(f"import {name}\n")
    assert "TID251" in ruff_codes(tmp_path / "bare.py")


# --- import-linter: layers and who alone may use a library ------------------------------------------------------------

LINT_IMPORTS = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(sys.argv[1], cache_dir=None, no_logo=True))
"""


def contract_names() -> dict[str, str]:
    return {one["id"]: one["name"] for one in configuration(ROOT)["tool"]["importlinter"]["contracts"]}


def lint_imports(package_parent: Path) -> str:
    """Report what breaks a contract of this project in the `duetime` below a folder; empty when all hold."""
    command = [sys.executable, "-c", LINT_IMPORTS, str(ROOT / "pyproject.toml")]
    environment = {"PYTHONPATH": str(package_parent), "COLUMNS": "300", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=package_parent, env=environment, capture_output=True, check=False, text=True, encoding="utf-8"
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def assembled(folder: Path) -> Path:
    """Put the import package together as setuptools does, as a copy that a test may spoil."""
    for part, package in sorted(FOLDERS.items(), key=lambda pair: len(pair[1])):
        target = folder.joinpath(*package.split("."))
        ignore = shutil.ignore_patterns("__pycache__", "node_modules", *(["duetime"] if part == "server" else []))
        shutil.copytree(ROOT / part, target, ignore=ignore, dirs_exist_ok=True)
    return folder


def test_imports_go_downwards_only(tmp_path: Path) -> None:
    assert lint_imports(assembled(tmp_path)) == ""


WRONG = [
    ("folders", "scheduler/errors.py", "import duetime.widgets"),
    ("folders", "widgets/__init__.py", "import duetime.tools"),
    ("folders", "tools/__init__.py", "import duetime.server"),
    ("scheduler", "scheduler/task.py", "import duetime.scheduler.events"),
    ("scheduler", "scheduler/rules/states.py", "import duetime.scheduler.store"),
    ("scheduler", "scheduler/store/__init__.py", "import duetime.scheduler.queue"),
    ("scheduler", "scheduler/handlers/__init__.py", "import duetime.scheduler.delivery"),
    ("scheduler", "scheduler/delivery/__init__.py", "import duetime.scheduler.service.scheduler"),
    ("sqlalchemy", "scheduler/handlers/__init__.py", "import sqlalchemy"),
    ("sqlalchemy", "server/__init__.py", "import alembic.command"),
    ("dramatiq", "tools/__init__.py", "import dramatiq"),
    ("dramatiq", "scheduler/queue/__init__.py", "from dramatiq.errors import DramatiqError"),
    ("mcp", "widgets/__init__.py", "import mcp"),
    ("mcp", "scheduler/outcomes.py", "import mcp_types"),
    ("redis", "scheduler/store/__init__.py", "import redis"),
    ("server", "server/doctor/check.py", "import duetime.server.session"),
]
"""A contract, a module, and a line in it that breaks the contract."""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Report what is wrong with a copy that has all the wrong imports, and a module in no layer."""
    tree = assembled(tmp_path_factory.mktemp("spoilt"))
    (tree / "duetime/scheduler/stray.py").write_text("")
    for _, module, line in WRONG:
        with (tree / "duetime" / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    return lint_imports(tree)


@pytest.mark.parametrize(("contract", "module", "line"), WRONG)
def test_an_import_that_goes_the_wrong_way_is_refused(refused: str, contract: str, module: str, line: str) -> None:
    importer = module_of(Path(), Path(module)).removesuffix(".__init__")
    name = line.split()[1]
    found = name if name.startswith("duetime.") else name.split(".", maxsplit=1)[0]
    heading = contract_names()[contract]
    assert f"{heading} BROKEN" in refused
    told = re.split(r"\n\n\n(?=.+\n---)", refused.partition(f"\n\n{heading}\n---")[2])[0]
    assert re.search(rf"\n- +{re.escape(importer)} -> {re.escape(found)} \(l\.", told)


def test_a_new_module_must_find_its_layer(refused: str) -> None:
    assert "duetime.scheduler.stray" in refused
