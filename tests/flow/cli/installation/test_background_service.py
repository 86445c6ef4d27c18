"""The background service: the exact files, and the commands, on a home and with service managers of the test's own."""

from __future__ import annotations

import json
import os
import plistlib
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # its types are a package that nobody needs to run this
from duetime.scheduler.errors import Refused
from duetime.server.setup import background_service, service_alternatives
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
    monkeypatch.delenv("container", raising=False)
    monkeypatch.setattr(service_alternatives, "CONTAINER_MARKS", ())
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
        "--user show --property=Version",
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


def test_status_distinguishes_not_installed_from_stopped_and_running(
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


NO_BUS = '#!/bin/sh\necho "$@" >> "{log}"\necho "Failed to connect to bus: No medium found" >&2\nexit 1\n'


def failing(verb: str) -> str:
    """Return a service manager that refuses one verb."""
    refusal = f'  *" {verb} "*) echo "Job for duetime.service failed." >&2; exit 1 ;;\n'
    return SYSTEMCTL.replace('case "$*" in\n', f'case "$* " in\n{refusal}')


def left_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_where_no_manager_listens_to_this_user_nothing_is_written_at_all(machine: Machine) -> None:
    machine.program("systemctl", NO_BUS)
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    said = "`systemctl --user show --property=Version` failed: Failed to connect to bus: No medium found"
    assert background_service.unreachable(planned) == said
    with pytest.raises(Refused, match=f"^{said}. Nothing was changed"):
        background_service.install(planned)
    assert machine.calls() == ["--user show --property=Version"] * 2
    assert left_in(machine.home) == []


@pytest.mark.parametrize("verb", ["daemon-reload", "enable", "restart"])
def test_a_failure_on_the_way_leaves_nothing_behind(machine: Machine, verb: str) -> None:
    machine.program("systemctl", failing(verb))
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    with pytest.raises(Refused, match=rf"{verb}.*failed: Job for duetime.service failed. Everything is as it was"):
        background_service.install(planned)
    assert left_in(machine.home) == []
    assert machine.calls()[-2:] == ["--user disable --now duetime.service", "--user daemon-reload"]


def test_a_failure_leaves_the_folders_of_others_and_their_files(machine: Machine) -> None:
    other = machine.home / ".config/systemd/user/other.service"
    other.parent.mkdir(parents=True)
    other.touch()
    machine.program("systemctl", failing("enable"))
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    with pytest.raises(Refused):
        background_service.install(planned)
    assert [path for path in left_in(machine.home) if path.is_file()] == [other]


@pytest.mark.parametrize("ran", [True, False])
def test_a_failure_puts_an_earlier_service_back_as_it_was(machine: Machine, ran: bool) -> None:
    machine.program("systemctl")
    earlier = background_service.plan(PLAIN, platform="linux")
    assert earlier is not None
    background_service.install(earlier)
    if not ran:
        machine.log.with_name("active").unlink()
    refuse_once = machine.log.with_name("refused")
    once = (
        f'  *restart*) if test -f "{refuse_once}"; then touch "{{active}}"; else touch "{refuse_once}"; exit 1; fi ;;\n'
    )
    machine.program("systemctl", SYSTEMCTL.replace('  *restart*) touch "{active}" ;;\n', once))
    newer = background_service.plan(Invocation(("/opt/new/duetime",)), platform="linux")
    assert newer is not None
    with pytest.raises(Refused, match=r"exit code 1\. Everything is as it was before"):
        background_service.install(newer)
    assert newer.path.read_bytes() == earlier.content
    assert background_service.status(newer) == ("running" if ran else "stopped")


def test_a_file_that_cannot_be_written_changes_nothing(machine: Machine) -> None:
    machine.program("systemctl")
    (machine.home / ".config").write_text("not a folder", encoding="utf-8")
    planned = background_service.plan(PLAIN, platform="linux")
    assert planned is not None
    with pytest.raises(Refused, match=r"Not a directory.* Everything is as it was before"):
        background_service.install(planned)
    assert [path.name for path in left_in(machine.home)] == [".config"]


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
    assert machine.calls() == [
        f"print {domain}",
        f"bootout {domain}/duetime.serve",
        f"bootstrap {domain} {planned.path}",
    ]
    assert background_service.remove(planned)
    assert not planned.path.exists()


ODD = Invocation(("/my programs/duetime",), ("--config", "/a 'b' 50%.toml"), {"DUETIME_DELIVER_TO": 'a "b" $c'})


def test_elsewhere_there_is_no_plan_but_a_way(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.programs))
    assert background_service.plan(PLAIN, platform="linux") is None
    assert background_service.plan(PLAIN, platform="win32") is None
    assert service_alternatives.by_hand(PLAIN, platform="freebsd14") == (
        "Let what starts programs on this machine start this:\n"
        "  /opt/duetime/bin/duetime serve\n"
        "Now, until the machine stops:\n"
        f"  nohup /opt/duetime/bin/duetime serve >>{machine.home}/duetime.log 2>&1 &"
    )
    windows = service_alternatives.by_hand(ODD, platform="win32").splitlines()
    assert windows[1] == r'''  setx DUETIME_DELIVER_TO "a \"b\" $c"'''
    assert windows[2].startswith(
        r"""  schtasks /Create /TN Duetime /SC ONLOGON /TR "\"/my programs/duetime\" --config"""
    )


def test_the_lines_for_a_shell_start_the_same_command_with_the_same_variables(machine: Machine) -> None:
    machine.program("crontab")
    program = machine.home / "my programs" / "duetime"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$DUETIME_DELIVER_TO" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    lines = service_alternatives.by_hand(replace(ODD, program=(str(program),)), platform="linux").splitlines()
    cron = next(line for line in lines if line.startswith("  @reboot ")).removeprefix("  @reboot ")
    now = next(line for line in lines if line.startswith("  nohup ")).removesuffix(" &")
    for line in (cron.replace("\\%", "%"), now):  # cron ends a command at a bare percent sign
        subprocess.run(["/bin/sh", "-c", line], check=True, cwd=machine.home)
    said = (machine.home / "duetime.log").read_text(encoding="utf-8")
    assert said == "a \"b\" $c|--config|/a 'b' 50%.toml|serve|" * 2


def test_supervisord_gets_a_program_where_it_is_there(machine: Machine) -> None:
    machine.program("supervisord")
    said = service_alternatives.by_hand(Invocation(("/opt/duetime",), (), {"DUETIME_PORT": "50%"}), platform="linux")
    program = [line.strip() for line in said.splitlines() if line.startswith("  ")][:4]
    assert program[-4:] == [
        "[program:duetime]",
        "command=/opt/duetime serve",
        "autorestart=true",
        'environment=DUETIME_PORT="50%%"',
    ]


@pytest.mark.parametrize("mark", ["variable", "file"])
def test_in_a_container_it_is_the_process_of_the_container(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    if mark == "variable":
        monkeypatch.setenv("container", "podman")
    else:
        monkeypatch.setattr(service_alternatives, "CONTAINER_MARKS", (machine.home,))
    lines = service_alternatives.by_hand(ODD, platform="linux").splitlines()
    service = yaml.safe_load("\n".join(line[2:] for line in lines[4:7]))
    command = ["/my programs/duetime", "--config", "/a 'b' 50%.toml", "serve"]
    assert json.loads(lines[2].removeprefix("  CMD ")) == command
    assert service == {
        "command": command,
        "environment": {"DUETIME_DELIVER_TO": 'a "b" $$c'},
        "restart": "unless-stopped",
    }
    assert "crontab" not in "".join(lines)


def test_a_unit_of_the_examples_that_may_write_nowhere_has_a_folder_of_its_own() -> None:
    units = sorted((Path(__file__).parents[4] / "examples" / "systemd").glob("*.service"))
    assert len(units) == 2
    for unit in units:
        lines = unit.read_text("utf-8").splitlines()
        assert ("ProtectSystem=strict" in lines) is ("StateDirectory=duetime" in lines) is True
