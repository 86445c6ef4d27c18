"""The background service: the exact files, and the commands, on a home and with service managers of the test's own."""

from __future__ import annotations

import os
import plistlib
import stat
from pathlib import Path

import pytest
from duetime.scheduler.errors import Refused
from duetime.server.setup import background_service
from duetime.server.setup.invocation import Invocation

PLAIN = Invocation(("/opt/duetime/bin/duetime",))
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
  *is-active*) test -f "{active}" ;;
  *restart*) touch "{active}" ;;
  *disable*) rm -f "{active}" ;;
esac
"""


class Machine:
    """A home directory and a service manager that records what it is told."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.programs = root / "bin"
        self.log = root / "calls"
        self.home.mkdir()
        self.programs.mkdir()

    def program(self, name: str, script: str = SYSTEMCTL) -> None:
        path = self.programs / name
        path.write_text(script.format(log=self.log, active=self.log.with_name("active")), encoding="utf-8")
        path.chmod(0o755)

    def calls(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{machine.programs}:/usr/bin:/bin")
    return machine


@pytest.fixture
def systemd(machine: Machine) -> background_service.ServicePlan:
    machine.program("systemctl")
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    return planned


def test_the_systemd_unit_is_exactly_this(systemd: background_service.ServicePlan, machine: Machine) -> None:
    assert systemd.path == machine.home / ".config/systemd/user/duetime.service"
    assert systemd.content.decode() == (
        "# Written by `duetime service install`; `duetime service remove` deletes it.\n"
        "[Unit]\n"
        "Description=Duetime, runs scheduled tasks while no chat is open\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        'ExecStart="/opt/duetime/bin/duetime" "serve"\n'
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "UMask=0077\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def test_options_and_variables_reach_the_unit_quoted_for_systemd(machine: Machine) -> None:
    machine.program("systemctl")
    invocation = Invocation(
        ("/my programs/duetime",), ("--config", '/a "b" $HOME 50%.toml'), {"DUETIME_WEBHOOK_SECRET": "a%b\\c"}
    )
    planned = background_service.plan(invocation, platform="linux")
    assert planned is not None
    lines = planned.content.decode().splitlines()
    assert 'Environment="DUETIME_WEBHOOK_SECRET=a%%b\\\\c"' in lines
    assert 'ExecStart="/my programs/duetime" "--config" "/a \\"b\\" $$HOME 50%%.toml" "serve"' in lines


def test_installing_starts_the_service_now_and_at_each_log_in(
    systemd: background_service.ServicePlan, machine: Machine
) -> None:
    background_service.install(systemd)
    assert systemd.path.read_bytes() == systemd.content
    assert machine.calls() == [
        "--user daemon-reload",
        "--user enable duetime.service",
        "--user restart duetime.service",
    ]


def test_the_service_file_is_readable_by_its_user_alone(systemd: background_service.ServicePlan) -> None:
    systemd.path.parent.mkdir(parents=True)
    systemd.path.write_text("older", encoding="utf-8")
    systemd.path.chmod(0o644)
    background_service.install(systemd)
    assert stat.S_IMODE(systemd.path.stat().st_mode) == 0o600


def test_status_tells_not_installed_from_stopped_and_running(
    systemd: background_service.ServicePlan, machine: Machine
) -> None:
    assert background_service.status(systemd) == "not installed"
    background_service.install(systemd)
    assert background_service.status(systemd) == "running"
    machine.log.with_name("active").unlink()
    assert background_service.status(systemd) == "stopped"


def test_removing_stops_it_and_deletes_the_file_and_can_be_repeated(
    systemd: background_service.ServicePlan, machine: Machine
) -> None:
    background_service.install(systemd)
    machine.log.unlink()
    assert background_service.remove(systemd)
    assert not systemd.path.exists()
    assert machine.calls() == ["--user disable --now duetime.service", "--user daemon-reload"]
    assert not background_service.remove(systemd)
    assert len(machine.calls()) == 2


def test_a_refusing_service_manager_is_quoted(machine: Machine) -> None:
    machine.program("systemctl", '#!/bin/sh\necho "Failed to connect to bus: No medium found" >&2\nexit 1\n')
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    with pytest.raises(
        Refused, match=r"`systemctl --user daemon-reload` failed: Failed to connect to bus: No medium found"
    ):
        background_service.install(planned)


def test_the_launch_agent_is_exactly_this(machine: Machine) -> None:
    planned = background_service.plan(Invocation(("/opt/duetime",), (), {"DUETIME_PORT": "9000"}), platform="darwin")
    assert planned is not None
    log = str(machine.home / "Library/Logs/duetime.log")
    assert planned.path == machine.home / "Library/LaunchAgents/duetime.serve.plist"
    assert plistlib.loads(planned.content) == {
        "Label": "duetime.serve",
        "ProgramArguments": ["/opt/duetime", "serve"],
        "EnvironmentVariables": {"DUETIME_PORT": "9000"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 63,
    }


def test_the_launch_agent_replaces_the_one_that_is_loaded(machine: Machine) -> None:
    machine.program("launchctl", '#!/bin/sh\necho "$@" >> "{log}"\ncase "$1" in bootout) exit 3 ;; esac\n')
    planned = background_service.plan(PLAIN, platform="darwin")
    assert planned is not None
    background_service.install(planned)
    domain = f"gui/{os.getuid()}"
    assert machine.calls() == [f"bootout {domain}/duetime.serve", f"bootstrap {domain} {planned.path}"]
    assert background_service.remove(planned)
    assert not planned.path.exists()


def test_elsewhere_it_says_what_to_do(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.programs))
    spaced = Invocation(("/my programs/duetime",))
    assert background_service.plan(spaced, platform="linux") is None
    assert background_service.plan(spaced, platform="win32") is None
    assert "@reboot '/my programs/duetime' serve" in background_service.by_hand(spaced, platform="freebsd14")
    assert (
        r'schtasks /Create /TN Duetime /SC ONLOGON /TR "\"/my programs/duetime\" serve"'
        in background_service.by_hand(spaced, platform="win32")
    )
