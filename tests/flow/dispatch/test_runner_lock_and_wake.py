"""One runner at a time by a lock that dies with its process, and a door to wake it that lets nobody else in."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from duetime.scheduler.nodes import ipc
from duetime.scheduler.nodes.ipc import MAX_CALLERS, MAX_REQUEST_BYTES, WAKE_TIMEOUT_S, RunnerClient, RunnerServer
from duetime.scheduler.runtime import file_lock
from duetime.scheduler.runtime.file_lock import FileLock
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.store import back_up

from tests import blank
from tests.builders import added
from tests.flow.waiting import PATIENCE_S, eventually

HOLDER = """
import sys, time
from pathlib import Path
from duetime.scheduler.runtime.file_lock import FileLock
print(FileLock(Path(sys.argv[1])).acquire(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runner.lock"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", synchronous="OFF")
    yield opened
    opened.close()


@contextmanager
def another_process(path: Path) -> Iterator[tuple[subprocess.Popen[str], bool]]:
    """Start a process that tries for the lock and stays; give it, and whether it has the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            yield holder, holder.stdout.readline() == "True\n"
        finally:
            holder.kill()


class Door:
    """A wake server that counts."""

    def __init__(self, file: str = "") -> None:
        self.woken = 0
        self.server = RunnerServer(self.wake, lambda _question: "of this queue", file=file)
        self.server.start()

    def wake(self) -> None:
        self.woken += 1

    def key(self, store: Store) -> bytes:
        return json.dumps({"token": self.server.token, "file": store.file()}).encode() + b"\n"

    @property
    def port(self) -> int:
        return int(self.server.endpoint.rpartition(":")[2])

    def says(self, line: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(line)
            return connection.makefile("rb").readline()


@pytest.fixture
def door(store: Store) -> Iterator[Door]:
    door = Door(store.file())
    yield door
    door.server.close()


def test_a_lock_is_held_by_one_in_this_process(path: Path) -> None:
    first, second = FileLock(path), FileLock(path)
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


def test_a_lock_of_another_process_is_free_when_that_is_killed(path: Path) -> None:
    mine = FileLock(path)
    with another_process(path) as (holder, acquired):
        assert acquired
        assert not mine.acquire()
        holder.kill()
        holder.wait()
        assert mine.acquire()
        mine.release()


def test_a_file_system_that_has_no_lock_to_give_costs_no_descriptor(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def refused(descriptor: int) -> bool:
        opened.append(descriptor)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(file_lock, "_lock", refused)
    with pytest.raises(OSError, match="No locks available"):
        FileLock(path).acquire()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
    monkeypatch.undo()
    lock = FileLock(path)
    assert lock.acquire()
    lock.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_neither_has_the_lock_nor_releases_it_by_ending(path: Path) -> None:
    mine = FileLock(path)
    assert mine.acquire()
    child = os.fork()
    if child == 0:
        os._exit(int(FileLock(path).acquire()))
    assert os.waitpid(child, 0)[1] == 0
    with another_process(path) as (_, acquired):
        assert not acquired
    mine.release()


def test_the_token_opens_the_door(door: Door, store: Store) -> None:
    assert json.loads(door.says(door.key(store))) == {"woken": True}
    assert door.woken == 1


def test_a_process_of_before_an_upgrade_wakes_the_runner_though_it_names_no_file(door: Door) -> None:
    assert json.loads(door.says(json.dumps({"token": door.server.token}).encode() + b"\n")) == {"woken": True}


@pytest.mark.parametrize(
    "line",
    [
        b'{"token": "guessed"}\n',
        b'{"token": null}\n',
        b'{"token": "\\ud800"}\n',
        b"[]\n",
        b"not json\n",
        b"\xff\xfe\n",
        b"[" * MAX_REQUEST_BYTES + b"\n",
    ],
)
def test_anything_else_is_answered_with_no(door: Door, line: bytes) -> None:
    assert json.loads(door.says(line)) == {"woken": False}
    assert door.woken == 0


def test_callers_who_say_nothing_do_not_hold_up_one_who_does(door: Door, store: Store) -> None:
    silent = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(MAX_CALLERS - 1)]
    assert json.loads(door.says(door.key(store))) == {"woken": True}
    for connection in silent:
        connection.close()


class ScarceSocket:
    """A socket whose first `accept` finds no free descriptor."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.refusals = 1

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._real.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_a_door_without_a_free_descriptor_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipc, "ACCEPT_RETRY_DELAY_S", 0.0)
    made = socket.create_server
    monkeypatch.setattr("socket.create_server", lambda *given, **options: ScarceSocket(made(*given, **options)))
    door = Door()
    monkeypatch.undo()
    assert json.loads(door.says(json.dumps({"token": door.server.token}).encode() + b"\n")) == {"woken": True}
    door.server.close()
    eventually(lambda: not door.server._thread.is_alive(), "its thread to end")


def test_callers_for_whom_no_thread_can_start_take_no_room_from_later_ones(
    door: Door, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", refused)
        for _ in range(MAX_CALLERS + 1):
            with socket.create_connection(("127.0.0.1", door.port), timeout=60) as caller:
                assert caller.recv(1) == b""
    assert json.loads(door.says(door.key(store))) == {"woken": True}


def test_a_client_finds_the_runner_in_the_database_and_a_new_one_after_it_failed(store: Store, door: Door) -> None:
    client = RunnerClient(store)
    assert not client.wake()
    store.runners.take_over(pid=1, endpoint=door.server.endpoint, token=door.server.token)
    assert client.wake(PATIENCE_S)
    assert client.wake(PATIENCE_S)
    assert door.woken == 2
    door.server.close()
    assert not client.wake()
    follower = Door(store.file())
    store.runners.take_over(pid=2, endpoint=follower.server.endpoint, token=follower.server.token)
    assert client.wake(PATIENCE_S)
    assert follower.woken == 1
    follower.server.close()


def test_a_copy_of_a_database_does_not_reach_the_runner_of_the_original(
    store: Store, door: Door, tmp_path: Path
) -> None:
    store.runners.take_over(pid=1, endpoint=door.server.endpoint, token=door.server.token)
    copy = f"sqlite:///{tmp_path}/copy.db"
    back_up(f"sqlite:///{tmp_path}/duetime.db", tmp_path / "copy.db")
    opened = open_store(copy, synchronous="OFF")
    for found, woken, answer in ((store, True, "of this queue"), (opened, False, None)):
        client = RunnerClient(found)
        assert client.wake(PATIENCE_S) is woken
        assert client.ask({"about": "stats"}, PATIENCE_S) == answer
    opened.close()
    assert door.woken == 1


def test_no_event_of_a_restored_copy_has_an_id_that_an_event_had_which_is_lost(store: Store, tmp_path: Path) -> None:
    added(store)
    back_up(f"sqlite:///{tmp_path}/duetime.db", tmp_path / "copy.db")
    added(store)
    lost = store.history.last_id()
    restored = open_store(f"sqlite:///{tmp_path}/copy.db", synchronous="OFF")
    added(restored)
    assert restored.history.last_id() > lost
    assert [event.id for event in restored.history.since(lost)] == [restored.history.last_id()]
    restored.close()


def test_a_runner_that_is_frozen_holds_nobody_up(store: Store) -> None:
    """It accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        store.runners.take_over(pid=1, endpoint=f"127.0.0.1:{frozen.getsockname()[1]}", token="t")
        client, answers = RunnerClient(store), []
        waking = threading.Thread(target=lambda: answers.append(client.wake()), daemon=True)
        waking.start()
        eventually(lambda: answers, "the client to give up")
        assert answers == [False]
    assert WAKE_TIMEOUT_S < 1, "a promise to every tool call"


def test_only_this_machine_is_ever_called(store: Store, door: Door) -> None:
    port = door.server.endpoint.rpartition(":")[2]
    store.runners.take_over(pid=1, endpoint=f"192.0.2.1:{port}", token=door.server.token)
    assert RunnerClient(store).wake(PATIENCE_S)
