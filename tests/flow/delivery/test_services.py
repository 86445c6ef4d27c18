"""Channels against the real thing: a notification service on a bus of its own, and a receiver behind Apprise."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, Any, ClassVar

import pytest
from duetime.scheduler.delivery import ChannelError
from duetime.scheduler.delivery.apprise import AppriseChannel
from duetime.scheduler.delivery.desktop import DesktopChannel
from duetime.scheduler.delivery.notifiers import SCRIPT, MacNotifier
from duetime.scheduler.task import InboxMessage, State

MESSAGE = InboxMessage(
    id="m_1",
    tenant="local",
    user="local",
    task_id="t_1",
    run_id="r_1",
    title="Call John",
    text="Bring <b>the contract</b>",
    state=State.SUCCEEDED,
    created_at=datetime(2026, 11, 21, 12, tzinfo=UTC),
)


# --- the desktop ----------------------------------------------------------------------------------------------------


class FakeNotifier:
    """Behaves as the library does: it swallows what goes wrong, and then calls nobody back."""

    def __init__(self, *, shows: bool = True, fails: bool = False, hangs: bool = False) -> None:
        self.shows, self.fails, self.hangs = shows, fails, hangs
        self.closed = False
        self.sent: list[tuple[str, str]] = []

    async def get_capabilities(self) -> frozenset[Any]:
        if self.fails:
            raise ConnectionError("no bus")
        return frozenset({"title"}) if self.shows else frozenset()

    async def send(self, title: str, message: str, *, on_dispatched: Callable[[], Any] | None = None) -> str:
        if self.hangs:
            await asyncio.sleep(3600)
        self.sent.append((title, message))
        if self.shows and on_dispatched:
            on_dispatched()
        return "1"

    async def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("notifier", "there"),
    [(FakeNotifier(), True), (FakeNotifier(shows=False), False), (FakeNotifier(fails=True), False)],
)
def test_a_desktop_is_there_when_its_service_can_show_something(notifier: FakeNotifier, there: bool) -> None:
    channel = DesktopChannel(lambda: notifier)
    assert channel.available() is there
    channel.close()


def test_a_session_without_a_desktop_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not DesktopChannel().available()


def test_a_swallowed_notification_is_an_error_and_the_next_one_reconnects() -> None:
    made = [FakeNotifier(shows=False), FakeNotifier()]
    waiting = iter(made)
    channel = DesktopChannel(lambda: next(waiting))
    with pytest.raises(ChannelError, match="rejected"):
        channel.send(MESSAGE, key="r_1")
    channel.send(MESSAGE, key="r_1")
    channel.close()
    assert [(len(notifier.sent), notifier.closed) for notifier in made] == [(1, True), (1, True)]


def test_a_desktop_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.scheduler.delivery.desktop.DESKTOP_TIMEOUT_S", 0.05)
    channel = DesktopChannel(lambda: FakeNotifier(hangs=True))
    with pytest.raises(ChannelError, match="in time"):
        channel.send(MESSAGE, key="r_1")


def test_a_notification_may_be_sent_from_inside_a_running_loop() -> None:
    notifier = FakeNotifier()
    channel = DesktopChannel(lambda: notifier)

    async def inside() -> None:
        channel.send(MESSAGE, key="r_1")

    asyncio.run(inside())
    channel.close()
    assert len(notifier.sent) == 1


class Nothing(FakeNotifier):
    """The library as it behaves in a program that is no application bundle."""

    def __init__(self) -> None:
        super().__init__(shows=False)


@pytest.fixture
def script_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an `osascript` on the path that notes its arguments, one a line, and succeeds unless told not to."""
    program = tmp_path / "osascript"
    program.write_text(f"""#!{sys.executable}
import json, os, sys
with open({str(tmp_path / "noted")!r}, "a") as noted:
    noted.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit(os.path.exists({str(tmp_path / "fails")!r}))
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_mac_without_a_bundle_shows_by_script_and_texts_are_no_part_of_it(script_runner: Path) -> None:
    channel = DesktopChannel(lambda: MacNotifier(Nothing()))
    assert channel.available()
    hostile = '-e " & (do shell script "id") & "'
    channel.send(replace(MESSAGE, title=hostile, text="plain"), key="r_1")
    (script_runner / "fails").touch()
    with pytest.raises(ChannelError, match="rejected"):
        channel.send(MESSAGE, key="r_1")
    channel.close()
    first, _ = (json.loads(line) for line in (script_runner / "noted").read_text().splitlines())
    assert first == ["-e", SCRIPT, "Duetime", hostile, "plain"]


def test_a_mac_with_a_bundle_shows_by_the_library(script_runner: Path) -> None:
    library = FakeNotifier()
    channel = DesktopChannel(lambda: MacNotifier(library))
    channel.send(MESSAGE, key="r_1")
    channel.close()
    assert (len(library.sent), library.closed) == (1, True)
    assert not (script_runner / "noted").exists()


def test_a_mac_with_neither_is_no_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not DesktopChannel(lambda: MacNotifier(Nothing())).available()


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start a message bus of our own, and make it the session's."""
    program = shutil.which("dbus-daemon")
    if program is None or sys.platform != "linux":
        pytest.skip("needs dbus-daemon")
    command = [program, "--session", "--nofork", "--nopidfile", "--print-address=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", daemon.stdout.readline().strip())
        yield
        daemon.terminate()


@pytest.fixture
def service(bus: None) -> Iterator[IO[str]]:
    """Start a notification service on that bus; gives what it says, a line each."""
    program = Path(__file__).with_name("notification_service.py")
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "ready"
        yield process.stdout
        process.terminate()


def test_a_notification_reaches_a_real_desktop_service_and_its_text_is_no_markup(service: IO[str]) -> None:
    channel = DesktopChannel()
    assert channel.available()
    channel.send(MESSAGE, key="r_1")
    channel.send(replace(MESSAGE, text=" "), key="r_1")
    channel.close()
    shown = [json.loads(service.readline()) for _ in range(2)]
    assert [(told["app"], told["title"], told["body"]) for told in shown] == [
        ("Duetime", "Call John", "Bring &lt;b&gt;the contract&lt;/b&gt;"),
        ("Duetime", "Call John", "succeeded"),
    ]


def test_a_bus_without_a_notification_service_is_no_desktop(bus: None) -> None:
    channel = DesktopChannel()
    assert not channel.available()
    with pytest.raises(ChannelError, match="the desktop rejected the notification"):
        channel.send(MESSAGE, key="r_1")


# --- Apprise --------------------------------------------------------------------------------------------------------


class Receiver(BaseHTTPRequestHandler):
    bodies: ClassVar[list[Any]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    monkeypatch.setattr(Receiver, "bodies", [])
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_apprise_carries_title_and_text_and_says_when_it_could_not(
    receiver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = AppriseChannel("team", f"json://127.0.0.1:{receiver.server_port}/secret")
    assert channel.name == "team"
    channel.send(MESSAGE, key="r_1")
    assert [(body["title"], body["message"]) for body in Receiver.bodies] == [(MESSAGE.title, MESSAGE.text)]
    monkeypatch.setattr(Receiver, "status", 500)
    with pytest.raises(ChannelError, match=r"rejected the message \(failure\)") as refused:
        channel.send(MESSAGE, key="r_1")
    assert "secret" not in str(refused.value)
