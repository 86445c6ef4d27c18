"""The processes of a system, seen from the benchmark: start them, give commands, end them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from benchmarks.peers.systems import System
from tests import services

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMAND_LIMIT_S = 75.0
STOP_LIMIT_S = 10.0


class PeerFailed(Exception):
    """A process of a system ended or was silent for too long; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The folder that the peers are installed in."""

    folder: Path

    def install(self) -> None:
        """Install what is not there yet: the Python peers into a venv, BullMQ by npm."""
        if not self.python.exists():
            venv.create(self.folder / "python", with_pip=True)
        requirements = str(HERE / "requirements.txt")
        pip = [str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        self.node.mkdir(exist_ok=True)
        shutil.copy(HERE / "package.json", self.node)
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run(npm, cwd=self.node, check=True)

    @property
    def python(self) -> Path:
        return self.folder / "python" / "bin" / "python"

    @property
    def node(self) -> Path:
        return self.folder / "node"

    def command(self, system: System, redis: str, postgres: str, folder: Path) -> list[str]:
        if not system.module:
            return ["node", str(HERE / "bullmq.mjs"), "--redis", redis, "--modules", str(self.node)]
        python = sys.executable if system.ours else str(self.python)
        place = ["--redis", redis, "--postgres", postgres, "--folder", str(folder)]
        return [python, "-m", "benchmarks.peers.host", system.module, system.peer, *place]


class Host:
    """A process that carries out commands."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Give a command and return its answer; PeerFailed is raised when there is none in time."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        end = threading.Timer(COMMAND_LIMIT_S, self._process.kill)
        end.start()
        try:
            line = self._process.stdout.readline()
        finally:
            end.cancel()
        if not line:
            said = self._log.read_text(errors="replace").strip()
            raise PeerFailed(said[-300:] or f"no answer within {COMMAND_LIMIT_S:g} s")
        return dict(json.loads(line))


@dataclass(frozen=True, slots=True)
class Installation:
    """A system with empty servers: the process that schedules and the one that works, which may be the same."""

    producer: Host
    worker: Host


@contextmanager
def installation(environment: Environment, system: System, postgres_server: str) -> Iterator[Installation]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        redis = stack.enter_context(services.valkey_server())
        postgres = stack.enter_context(services.postgres_database(postgres_server))
        if not system.ours:
            postgres = make_url(postgres).set(drivername="postgresql").render_as_string(hide_password=False)
        command = environment.command(system, redis, postgres, folder)
        producer = stack.enter_context(_host(command, folder / "producer.log"))
        worker = producer if system.alone else stack.enter_context(_host(command, folder / "worker.log"))
        yield Installation(producer, worker)


@contextmanager
def _host(command: list[str], log: Path) -> Iterator[Host]:
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        host = Host(process, log)
        try:
            host.answer()
            yield host
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
