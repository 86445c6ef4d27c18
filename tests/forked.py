"""Python programs as processes that need not import Duetime first: forks of a process that did.

A test that kills servers and workers starts many, and each spends most of its start on imports that are the same. A
process from here has its own pid, descriptors, environment and signals, and it ends as Python ends. It shares what the
first process set up: imported modules, the search path, and a cache of compiled statements for all engines
(`tests.compiled`). Its own PYTHONPATH has no effect. Tests of imports and of the start take `subprocess.Popen`.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

ROOT = Path(__file__).resolve().parent.parent

NUMBER = struct.Struct("!I")
"""A length, a pid or the status of an ended process, as it is sent."""

STANDARD_STREAMS = (0, 1, 2)


def popen(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program that Python runs, a `command` that begins with `sys.executable`, as Popen would.

    `options` are streams, cwd, env and text. A system other than Linux starts it as usual: a fork of a process that
    loaded its libraries is not safe there.
    """
    return (_Forked if sys.platform == "linux" else subprocess.Popen)(command, **options)


def run(command: list[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of Python to its end, and return what it said."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with popen(command, text=True, **streams, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def command(*arguments: str) -> list[str]:
    """Return a command for somebody else to start: a program of Python as a fork, which it stands for and ends with."""
    if sys.platform != "linux":
        return [sys.executable, *arguments]
    _forker().connected().close()  # it has to be there
    return [sys.executable, "-I", "-S", str(ROOT / "tests" / "fork_client.py"), _forker().address, *arguments]


def wait_until_stopped(process: subprocess.Popen[Any]) -> None:
    """Return when every thread of a process that was sent SIGSTOP stands still."""
    if not isinstance(process, _Forked):
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        return
    while any(_state(task) not in "TZX" for task in Path(f"/proc/{process.pid}/task").iterdir()):
        time.sleep(0.001)


def _state(task: Path) -> str:
    """Return the letter that the kernel has for what a thread does."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


if TYPE_CHECKING:
    _Popen = subprocess.Popen[Any]
else:
    _Popen = subprocess.Popen


class _Forked(_Popen):
    """A child of the process that forked it, which also waits for it and reports its status."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        cwd, env = rest[4:6]
        pipes = rest[9:15]
        ours = zip(STANDARD_STREAMS, (pipes[0], pipes[3], pipes[5]), strict=True)
        request = {
            "arguments": [os.fspath(each) for each in args[1:]],
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or Path.cwd()),
        }
        self._peer = _forker().ask(request, [own if given == -1 else given for own, given in ours])
        (self.pid,) = NUMBER.unpack(self._peer.recv(NUMBER.size, socket.MSG_WAITALL))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # what Popen itself does after a start

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """Do what `os.waitpid` does for a child of one's own."""
        self._peer.setblocking(not wait_flags)
        try:
            said = self._peer.recv(NUMBER.size)
        except BlockingIOError:
            return 0, 0
        if not said:
            message = "the process that forks has ended, and nobody knows any more how its forks end"
            raise ChildProcessError(message)
        self._peer.close()
        return self.pid, NUMBER.unpack(said)[0]

    def _internal_poll(self, **_: Any) -> int | None:
        lock = self._waitpid_lock  # type: ignore[attr-defined]  # Popen's own: one thread waits at a time
        if self.returncode is None and lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]  # sets the returncode
            finally:
                lock.release()
        return self.returncode


class _Place:
    """The folder in which all processes of one run of the tests find the one that forks; it ends with this one."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="duetime-forker-")
        self.path = Path(self._folder.name)
        os.mkfifo(self.path / "alive")
        self._alive = os.open(self.path / "alive", os.O_RDWR)  # only this process has an end to write to

    def close(self) -> None:
        os.close(self._alive)
        self._folder.cleanup()


class _Forker:
    """The process that imports Duetime once and forks. Whoever needs it and finds none starts it."""

    def __init__(self, place: Path) -> None:
        self.address = str(place / "socket")
        self._place = place

    def connected(self) -> socket.socket:
        """Connect to it, though it may have to be started first, or again."""
        return self._connect() or self._started()

    def _connect(self) -> socket.socket | None:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(self.address)
        except (FileNotFoundError, ConnectionRefusedError):  # the latter: it has ended
            peer.close()
            return None
        return peer

    def _started(self) -> socket.socket:
        import fcntl  # here: Windows has none

        with (self._place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (peer := self._connect()) is None:  # else another process has just started it
                Path(self.address).unlink(missing_ok=True)
                self._start()
                peer = self._connect()
        assert peer is not None
        return peer

    def _start(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        command = [sys.executable, "-m", "tests.forker", self.address]
        with (self._place / "alive").open("rb", buffering=0) as stdin:
            process = subprocess.Popen(command, cwd=ROOT, env=kept, stdin=stdin, stdout=subprocess.PIPE, text=True)
        try:
            with cast("IO[str]", process.stdout) as stdout:
                assert stdout.readline() == "ready\n", (
                    "the process that forks did not start; see what it says on stderr"
                )
        except BaseException:  # also the time limit of a test: nobody would read that it is ready
            process.kill()
            process.wait()
            raise
        process.returncode = 0  # nobody waits for it: it may live longer than this process

    def ask(self, request: dict[str, Any], streams: list[int]) -> socket.socket:
        """Ask for a process, and return the connection on which its pid and, at its end, its status come."""
        peer = self.connected()
        words = json.dumps(request).encode()
        socket.send_fds(peer, [NUMBER.pack(len(words))], streams)
        peer.sendall(words)
        return peer


@functools.cache
def _place() -> _Place:
    return _Place()


def folder() -> str:
    """Return the folder to be shared with other processes of the tests: one of them starts the process that forks."""
    return str(_given or _place().path)


_given: Path | None = None


def share(place: str) -> None:
    """Take forks of the process that other processes of the tests have in common."""
    global _given  # noqa: PLW0603 - it belongs to the process
    _given = Path(place)


@functools.cache
def _forker() -> _Forker:
    return _Forker(Path(folder()))


def close() -> None:
    """End the process that forks, if it is this one's."""
    if _place.cache_info().currsize:
        _place().close()
        _place.cache_clear()
        _forker.cache_clear()
