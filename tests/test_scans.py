"""The scans of CI find what is planted, with the settings that CI has, and leave out no file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HARMLESS = 'title = "Send the report"\nstate = "secret:signing"\n'
LETTERS = "0123456789abcdef"


def scanned(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def test_bandit_finds_what_is_planted_and_skips_no_more_than_it_says(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(
        "import pickle, subprocess, yaml\n"
        "def f(name, data):\n"
        "    subprocess.run(f'ls {name}', shell=True)\n"
        "    return pickle.loads(data), yaml.load(data), f'SELECT * FROM tasks WHERE id = {name}'\n"
    )
    code, said = scanned(["-m", "bandit", "-q", "-c", str(ROOT / "pyproject.toml"), "-r", "."], tmp_path)
    assert code == 1
    for finding in ("B602", "B301", "B506", "B608"):
        assert finding in said


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return a folder that git knows."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "harmless.py").write_text(HARMLESS)
    return tmp_path


def test_the_scan_for_secrets_finds_each_kind_and_shows_none(kept: Path) -> None:
    """The values are put together here, since this file is scanned as well."""
    planted = {
        "aws.py": "AKIA" + "IOSFODNN7EXAMPLE",
        "own.md": "dt_" + "7k3m9qx2w4hb_" + LETTERS * 4,
        "signing.py": "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx",
        "github.py": "ghp_" + "kX7w" * 9,
        "database.env": "DATABASE_URL=postgresql://app:" + "tr0ub4dor@db.example.com/app",
        "token.yaml": "api_key: " + "q8Zr1LxT0vKpWm3YcNd7",
    }
    scan = [str(ROOT / ".ci/secret_scan.py"), str(kept)]
    assert scanned(scan, kept) == (0, "")
    for name, value in planted.items():
        (kept / name).write_text(f'"{value}"\n' if name.endswith(".py") else f"{value}\n")
    (kept / ".gitignore").write_text("ignored.py\n")
    (kept / "ignored.py").write_text((kept / "aws.py").read_text())
    code, said = scanned(scan, kept)
    assert code == 1
    missed = [name for name in planted if f"{name}:1" not in said]
    assert missed == []
    assert "ignored.py" not in said
    assert not any(value[8:] in said for value in planted.values())


def test_the_types_of_every_python_file_are_checked() -> None:
    """The folders of the package are checked by its name; the others are arguments, which the shell expands."""
    commands = re.findall(r"mypy ([^|\n]+)\|\|", (ROOT / ".ci/run").read_text("utf-8"))
    named = {path for command in commands for word in command.split() for path in ROOT.glob(word)}
    named |= {ROOT / folder for folder in ("scheduler", "server", "tools", "widgets") if "-p duetime " in commands}
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.splitlines()]
    assert [str(file) for file in files if named.isdisjoint((file, *file.parents))] == []
