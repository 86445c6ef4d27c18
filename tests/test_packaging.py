"""The wheel is whole: it holds every module, card and migration, and works away from the checkout."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = {".py", ".html", ".mako", ".typed"}


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def package_folders() -> dict[str, Path]:
    """Map each declared package to its folder, by the longest prefix that `package-dir` maps."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    mapped: dict[str, str] = setuptools["package-dir"]
    folders: dict[str, Path] = {}
    for package in setuptools["packages"]:
        prefix = max((name for name in mapped if f"{package}.".startswith(f"{name}.")), key=len)
        folders[package] = ROOT.joinpath(mapped[prefix], *package[len(prefix) :].strip(".").split("."))
    return folders


def shipped_files() -> Iterator[str]:
    for package, folder in package_folders().items():
        place = package.replace(".", "/")
        yield from (f"{place}/{path.name}" for path in folder.iterdir() if path.suffix in SHIPPED)
        for data in ("html", "lua", "schemas", "static", "templates"):
            files = (path for path in folder.glob(f"{data}/**/*") if path.is_file())
            yield from (f"{place}/{path.relative_to(folder).as_posix()}" for path in files)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, so that nothing left over from an earlier build gets in."""
    place = tmp_path_factory.mktemp("wheel")
    for name in ("server", "scheduler", "tools", "widgets"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", ".", cwd=place)
    (built,) = (place / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a folder of its own; what it depends on comes from the environment of the tests."""
    site = tmp_path_factory.mktemp("site")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel, cwd=site)
    return site


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_every_module_card_and_migration_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set(shipped_files())
    assert {"duetime/py.typed", "duetime/scheduler/store/migrations/env.py"} <= names
    assert any(name.startswith("duetime/widgets/html/") and name.endswith(".html") for name in names)
    assert any(name.startswith("duetime/scheduler/store/migrations/versions/0") for name in names)


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    said = metadata(wheel)
    assert said["Requires-Python"] == project()["requires-python"]
    assert said["License-Expression"] == "Apache-2.0"
    assert said.get_all("License-File") == ["LICENSE"]
    assert set(said.get_all("Provides-Extra") or []) == {*project()["optional-dependencies"]}


def test_the_embedded_default_needs_no_extra(wheel: Path) -> None:
    always = [line for line in metadata(wheel).get_all("Requires-Dist") or [] if "extra ==" not in line]
    assert not [line for line in always if line.startswith(("psycopg", "redis", "apprise", "pytest"))]


def test_every_module_of_the_installed_wheel_imports_with_warnings_as_errors(installed: Path, tmp_path: Path) -> None:
    said = run(sys.executable, ROOT / ".ci/import_all.py", cwd=tmp_path, PYTHONPATH=str(installed))
    assert said.endswith(f"modules of duetime import from {installed.name}\n")


def test_the_version_is_said_once(installed: Path, tmp_path: Path) -> None:
    program = "import duetime, importlib.metadata as m; print(duetime.__version__, m.version('duetime'))"
    said = run(sys.executable, "-c", program, cwd=tmp_path, PYTHONPATH=str(installed))
    assert said.split() == [project()["version"]] * 2


@pytest.mark.parametrize("start", [["bin/duetime"], ["-m", "duetime"]], ids=["script", "module"])
def test_the_command_line_of_the_installed_wheel_answers(installed: Path, tmp_path: Path, start: list[str]) -> None:
    first = [installed / start[0]] if len(start) == 1 else start
    said = run(sys.executable, *first, "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "serve" in said
