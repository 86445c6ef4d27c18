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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from duetime.scheduler.errors import Refused
from duetime.server.setup.invocation import Invocation

UNIT = "duetime.service"
NO_MANAGER = "this machine has neither systemd nor launchd"
LOG_IN = "a session of your own may be missing (not through su or sudo)"
SERVICE_LABEL = "duetime.serve"


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The plan for a service manager: one file, and the commands that register, start, query and remove it.

    `check` succeeds where the manager listens to this user.
    """

    manager: str
    path: Path
    content: bytes
    check: tuple[str, ...]
    before_install: tuple[tuple[str, ...], ...]
    register: tuple[tuple[str, ...], ...]
    start: tuple[tuple[str, ...], ...]
    status: tuple[str, ...]
    remove: tuple[tuple[str, ...], ...]
    after_remove: tuple[tuple[str, ...], ...] = ()
    hint: str = ""


def plan(invocation: Invocation, *, platform: str = sys.platform) -> ServicePlan | None:
    """Return how the service is set up here, or None where Duetime supports no service manager."""
    if platform == "darwin":
        return _launchd(invocation)
    if platform.startswith("linux") and shutil.which("systemctl"):
        return _systemd(invocation)
    return None


def unreachable(plan: ServicePlan) -> str | None:
    """Return why the manager cannot be told anything, None where it listens. Nothing is changed."""
    done = _run(plan.check)
    return None if done.returncode == 0 else _failure(plan.check, done)


def install(plan: ServicePlan) -> None:
    """Write the file, for its user alone as it may hold secrets, and start the service now and at each log-in.

    Raises Refused, after everything is again as it was before.
    """
    problem = unreachable(plan)
    if problem:
        raise Refused(f"{problem}. Nothing was changed; {LOG_IN}.")
    earlier = plan.path.read_bytes() if plan.path.is_file() else None
    ran = earlier is not None and status(plan) == "running"
    made = [folder for folder in plan.path.parents if not folder.exists()]
    try:
        _write(plan.path, plan.content)
        for command in plan.before_install:
            _run(command)
        for command in (*plan.register, *plan.start):
            _require(command)
    except (OSError, Refused) as failed:
        _roll_back(plan, earlier, ran, made)
        raise Refused(f"{failed}. Everything is as it was before.") from failed


def _roll_back(plan: ServicePlan, earlier: bytes | None, ran: bool, made: Sequence[Path]) -> None:
    """Take back what was done: the file and its folders go, or an earlier service is there again, as it was."""
    for command in plan.remove:
        _run(command)
    if earlier is None:
        for take_back in (plan.path.unlink, *(folder.rmdir for folder in made)):
            with suppress(OSError):  # it never came to be, or others use it by now
                take_back()
    else:
        _write(plan.path, earlier)
    again = () if earlier is None else (*plan.register, *(plan.start if ran else ()))
    for command in (*plan.after_remove, *again):
        _run(command)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


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
        check=(*user, "show", "--property=Version"),
        before_install=(),
        register=((*user, "daemon-reload"), (*user, "enable", UNIT)),
        start=((*user, "restart", UNIT),),
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
    path = Path.home() / "Library" / "LaunchAgents" / f"{SERVICE_LABEL}.plist"
    log = str(Path.home() / "Library" / "Logs" / "duetime.log")
    content = {
        "Label": SERVICE_LABEL,
        "ProgramArguments": list(invocation.with_verb("serve")),
        "EnvironmentVariables": dict(invocation.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    }
    domain = f"gui/{os.getuid()}" if hasattr(os, "getuid") else "gui/0"
    bootout = ("launchctl", "bootout", f"{domain}/{SERVICE_LABEL}")
    return ServicePlan(
        manager="launchd",
        path=path,
        content=plistlib.dumps(content, sort_keys=False),
        check=("launchctl", "print", domain),
        before_install=(bootout,),
        register=(),
        start=(("launchctl", "bootstrap", domain, str(path)),),
        status=("launchctl", "print", f"{domain}/{SERVICE_LABEL}"),
        remove=(bootout,),
        hint=f"Its log is {log}",
    )


def _require(command: Sequence[str]) -> None:
    done = _run(command)
    if done.returncode != 0:
        raise Refused(_failure(command, done))


def _failure(command: Sequence[str], done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    reason = lines[-1].rstrip(".") if lines else f"exit code {done.returncode}"
    return f"`{shlex.join(command)}` failed: {reason}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # nosec B603 # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(list(command), 1, "", str(error))
