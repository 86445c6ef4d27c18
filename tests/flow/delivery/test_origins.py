"""The ways back to a conversation: a signed webhook, or a program that the settings name."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.delivery import ChannelError, ChannelOptions, Channels, WebhookTarget
from duetime.scheduler.delivery.command import CommandChannel
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.records import OutgoingMessage
from duetime.scheduler.task import State
from duetime.server.settings.model import Settings
from duetime.server.settings.options import channel_options
from standardwebhooks import Webhook

from tests.flow.delivery.receiver import Server, serving
from tests.flow.waiting import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
THREAD = {"client": "claude-code", "session": "s_1", "thread": "th_7"}
AT = datetime(2026, 11, 24, tzinfo=UTC)
MESSAGE = OutgoingMessage(
    "m_1", "acme", "ann", "t_1", "r_1", "$(rm -rf /)", "Done.", State.SUCCEEDED, AT, origin=THREAD
)
KEEP = """
import os, sys
open(sys.argv[1], "wb").write(sys.stdin.buffer.read())
open(sys.argv[2], "w").write(repr(dict(os.environ)))
"""
STAY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
open(sys.argv[1], "w").write(str(child.pid))
child.wait()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Server())


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def program(code: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *map(str, arguments))


def test_a_webhook_of_a_client_is_signed_and_says_who_the_caller_was_proved_to_be(server: Server) -> None:
    origins = {"claude-code": WebhookTarget(server.url(), SECRET)}
    channels = Channels.from_options(ChannelOptions(desktop="off", origins=origins))
    channels["origin:claude-code"].send(MESSAGE, key="r_1")
    [received] = server.received
    event: Any = Webhook(SECRET).verify(received.body, received.headers)
    assert event["data"]["origin"] == THREAD
    assert (event["data"]["tenant"], event["data"]["user"]) == ("acme", "ann")
    assert received.headers["idempotency-key"] == "r_1-outcome"


def test_a_command_reads_the_outcome_on_its_input_and_nothing_of_it_in_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUETIME_SECRET_KEYS", "not for programs")
    got, seen = tmp_path / "got", tmp_path / "seen"
    CommandChannel("origin:claude-code", program(KEEP, got, seen)).send(MESSAGE, key="r_1")
    event = json.loads(got.read_text())
    assert (event["type"], event["idempotency_key"]) == ("task.succeeded", "r_1-outcome")
    assert (event["data"]["origin"], event["data"]["title"]) == (THREAD, "$(rm -rf /)")
    assert "not for programs" not in seen.read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (program("raise SystemExit(3)"), "the command ended with code 3"),
        (program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "the command was killed by SIGKILL"),
        pytest.param(
            program("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)"),
            "the command was killed by signal ",
            marks=pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="this system has no real-time signals"),
        ),
        (("/nowhere/to/be/found",), "the command of origin:x cannot be started"),
    ],
)
def test_a_command_that_fails_says_how_and_is_tried_again(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(ChannelError, match=said) as failed:
        CommandChannel("origin:x", command).send(MESSAGE, key="r_1")
    assert not failed.value.permanent


def test_a_command_without_an_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    with pytest.raises(ChannelError, match=r"longer than 1 s"):
        CommandChannel("origin:x", program(STAY, child), timeout=1).send(MESSAGE, key="r_1")
    eventually(lambda: not is_alive(int(child.read_text())), "the child to end")


def test_the_settings_name_a_webhook_with_its_secret_or_a_command_for_each_client() -> None:
    settings = Settings.model_validate(
        {
            "origins": {
                "claude-code": {"command": ["/usr/local/bin/back", "--quiet"]},
                "Visual Studio Code": {"webhook": "https://bridge.example.com", "secret": SECRET},
            },
            "desktop_notifications": "off",
        }
    )
    options = channel_options(settings)
    assert options.origins["claude-code"] == ("/usr/local/bin/back", "--quiet")
    assert list(Channels.from_options(options)) == ["origin:claude-code", "origin:Visual Studio Code"]


@pytest.mark.parametrize(
    ("origins", "said"),
    [
        ({"x": {}}, "exactly one of webhook"),
        ({"x": {"webhook": "https://bridge.example.com"}}, "needs a secret"),
        ({"x": {"command": ["back"], "secret": SECRET}}, "a command takes none"),
        ({"no\nname": {"command": ["back"]}}, "not a valid client name"),
    ],
)
def test_a_wrong_entry_stops_the_start(origins: Any, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        Settings(origins=origins)
