"""The background service of one user: `duetime serve` from log-in on, so that reminders fire while no chat is open.

It holds the runner's lock, therefore every stdio process leaves the running to it without any further setting.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from duetime.scheduler.errors import Refused
from duetime.server.setup.invocation import Invocation

UNIT = "duetime.service"
LABEL = "duetime.serve"


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The plan for a service manager: one file, and the commands that register, query and remove it."""

    manager: str
    path: Path
    content: bytes
    before_install: tuple[tuple[str, ...], ...]
    install: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]
    remove: tuple[tuple[str, ...], ...]
    after_remove: tuple[tuple[str, ...], ...] = ()
    hint: str = ""


def plan(invocation: Invocation, *, platform: str = sys.platform) -> ServicePlan | None:
    """Return how the service is set up here, or None where Duetime knows no service manager (see `by_hand`)."""
    if platform == "darwin":
        return _launchd(invocation)
    if platform.startswith("linux") and shutil.which("systemctl"):
        return _systemd(invocation)
    return None


def by_hand(invocation: Invocation, *, platform: str = sys.platform) -> str:
    """Return what to do where there is neither systemd nor launchd."""
    if platform == "win32":
        command = subprocess.list2cmdline(invocation.with_verb("serve"))
        escaped = command.replace('"', '\\"')
        return f'Run this once in a terminal:\n  schtasks /Create /TN Duetime /SC ONLOGON /TR "{escaped}"'
    command = shlex.join(invocation.with_verb("serve"))
    return f"Have this started when you log in (a line of `crontab -e` does it):\n  @reboot {command}"


def install(plan: ServicePlan) -> None:
    """Write the file, for its user alone as it may hold secrets, and start the service now and at each log-in."""
    plan.path.parent.mkdir(parents=True, exist_ok=True)
    plan.path.unlink(missing_ok=True)
    descriptor = os.open(plan.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(plan.content)
    for command in plan.before_install:
        _run(command)
    for command in plan.install:
        _require(command)


def status(plan: ServicePlan) -> str:
    """Return `running`, `stopped` (set up, not running) or `not installed`."""
    if not plan.path.is_file():
        return "not installed"
    return "running" if _run(plan.status).returncode == 0 else "stopped"


def remove(plan: ServicePlan) -> bool:
    """Stop the service and delete its file; False when there was none. Tasks and settings stay."""
    if not plan.path.is_file():
        return False
    for command in plan.remove:
        _run(command)
    plan.path.unlink()
    for command in plan.after_remove:
        _run(command)
    return True


def _systemd(invocation: Invocation) -> ServicePlan:
    directory = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    user = ("systemctl", "--user")
    return ServicePlan(
        manager="systemd",
        path=directory / UNIT,
        content=_unit(invocation).encode(),
        before_install=(),
        install=((*user, "daemon-reload"), (*user, "enable", UNIT), (*user, "restart", UNIT)),
        status=(*user, "is-active", "--quiet", UNIT),
        remove=((*user, "disable", "--now", UNIT),),
        after_remove=((*user, "daemon-reload"),),
        hint="It stops when you log out of the machine; to keep it running: loginctl enable-linger",
    )


def _unit(invocation: Invocation) -> str:
    variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in invocation.environment.items())
    command = " ".join(_quoted(word.replace("$", "$$")) for word in invocation.with_verb("serve"))
    return (
        "# Written by `duetime service install`; `duetime service remove` deletes it.\n"
        "[Unit]\n"
        "Description=Duetime, runs scheduled tasks while no chat is open\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"{variables}"
        f"ExecStart={command}\n"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "UMask=0077\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def _quoted(word: str) -> str:
    """Quote for a unit file, where `%` starts a specifier and a backslash escapes."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'


def _launchd(invocation: Invocation) -> ServicePlan:
    path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    log = str(Path.home() / "Library" / "Logs" / "duetime.log")
    content = {
        "Label": LABEL,
        "ProgramArguments": list(invocation.with_verb("serve")),
        "EnvironmentVariables": dict(invocation.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    }
    domain = f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui/0"
    bootout = ("launchctl", "bootout", f"{domain}/{LABEL}")
    return ServicePlan(
        manager="launchd",
        path=path,
        content=plistlib.dumps(content, sort_keys=False),
        before_install=(bootout,),
        install=(("launchctl", "bootstrap", domain, str(path)),),
        status=("launchctl", "print", f"{domain}/{LABEL}"),
        remove=(bootout,),
        hint=f"Its log is {log}",
    )


def _require(command: Sequence[str]) -> None:
    done = _run(command)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        reason = said[-1] if said else f"exit code {done.returncode}"
        raise Refused(
            f"`{shlex.join(command)}` failed: {reason}. The service's file is written; log in with a session "
            "of your own (not through su or sudo) and repeat `duetime service install`."
        )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(list(command), 1, "", str(error))
