"""Processes from the forker begin, answer and end as those of Popen do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import forked

PROGRAM = """
import os, sys, threading
print(*sys.argv[1:], input(), os.environ["WORD"], os.getcwd(), threading.active_count(), sys.orig_argv[1])
print("to stderr", file=sys.stderr)
sys.exit(3)
"""
WAITS = "import signal, sys; signal.signal(2, signal.SIG_DFL); print('up', flush=True); sys.stdin.read()"
"""It leaves SIGINT to the kernel: Python's own handler cannot end a read that begins just after the signal."""


@pytest.mark.parametrize("popen", [subprocess.Popen, forked.popen], ids=["Popen", "forked"])
def test_a_program_has_its_arguments_streams_environment_folder_and_exit_code(popen: Any, tmp_path: Path) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", PROGRAM, "a", "b"]
    with popen(command, cwd=tmp_path, env={**os.environ, "WORD": "w"}, text=True, **pipes) as process:
        said = process.communicate("in\n", timeout=60)
    assert (said, process.returncode) == ((f"a b in w {tmp_path} 1 -c\n", "to stderr\n"), 3)


LAST_WORDS = """
import atexit, threading, time, sys
atexit.register(print, "callback")
threading.Thread(target=lambda: (threading.main_thread().join(), print("thread"))).start()
"""


@pytest.mark.parametrize("popen", [subprocess.Popen, forked.popen], ids=["Popen", "forked"])
@pytest.mark.parametrize(
    ("last", "code", "shown"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('why')", 1, "why"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("sys.stdout.close()", 0, "ValueError: I/O operation on closed file."),
    ],
)
def test_a_program_ends_after_its_threads_and_callbacks(popen: Any, last: str, code: int, shown: str) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with popen([sys.executable, "-c", LAST_WORDS + last], text=True, **pipes) as process:
        out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("" if "close" in last else "thread\ncallback\n", code)
    assert (err.splitlines() or [""])[-1] == shown


@pytest.mark.parametrize("popen", [subprocess.Popen, forked.popen], ids=["Popen", "forked"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_program_and_is_its_return_code(popen: Callable[..., Any], number: signal.Signals) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with popen([sys.executable, "-c", WAITS], **pipes) as process:
        assert process.stdout.readline() == b"up\n"
        assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        forked.wait_until_stopped(process)
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        assert process.wait(60) == -number


def test_a_program_that_somebody_else_starts_has_all_that_and_ends_as_it_does(tmp_path: Path) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    starting = forked.command("-c", PROGRAM, "a", "b")
    with subprocess.Popen(starting, cwd=tmp_path, env={**os.environ, "WORD": "w"}, text=True, **pipes) as process:
        said = process.communicate("in\n", timeout=60)
    assert (said, process.returncode) == ((f"a b in w {tmp_path} 1 -c\n", "to stderr\n"), 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_what_somebody_else_started_ends_the_program(number: signal.Signals) -> None:
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(forked.command("-c", WAITS), **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        assert process.stdout.read() == b"", "the program is gone"
        assert process.wait(60) == -number


PARENT = [sys.executable, "-c", "import os; print(os.getppid())"]


@pytest.mark.parametrize("words", [b"", b"\0", forked.NUMBER.pack(9), forked.NUMBER.pack(9) + b'{"argum'])
def test_a_process_that_is_killed_while_it_asks_costs_no_other_one_a_program(words: bytes) -> None:
    before = forked.run(PARENT, timeout=60)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.connect(forked._forker().address)
        killed.sendall(words)
    after = forked.run(PARENT, timeout=60)
    assert (after.stdout, after.returncode) == (before.stdout, 0), "the same process forks"


def test_another_process_forks_when_the_first_one_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as ended, socket.socket(socket.AF_UNIX) as another:

        def start(forker: forked._Forker) -> None:
            another.bind(forker.address)
            another.listen()

        monkeypatch.setattr(forked._Forker, "_start", start)
        ended.bind(str(tmp_path / "socket"))  # nobody listens there
        forker = forked._Forker(tmp_path)
        with forker.connected(), forker.connected():
            assert ended.getsockname() == another.getsockname()
